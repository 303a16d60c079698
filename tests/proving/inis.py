"""The inis of the sites that are proved: an order of elements, with the options of some of them."""

from __future__ import annotations

from collections.abc import Sequence


def ini_of(order: Sequence[str], scan: str, **options: str) -> str:
    """Return an ini of elements, outermost first, around a publisher.

    scan     the modules of its views
    options  lines for the section of an element, by its name; for an element of others also its ``paste.`` line
    """
    sections = [f"[pipeline:main]\npipeline = {' '.join(order)} publisher"]
    for name in order:
        lines = options.get(name, "")
        use = "" if "paste." in lines else f"use = egg:wsgi-pipeline#{name}\n"
        sections.append(f"[filter:{name}]\n{use}{lines}")
    publisher = f"[app:publisher]\nuse = egg:wsgi-pipeline#publisher\nscan = {scan}\n"
    return "\n".join([*sections, publisher])
