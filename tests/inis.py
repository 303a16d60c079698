"""Inis for tests: an order of elements around a publisher, with the options of some of them."""

from __future__ import annotations

from collections.abc import Sequence

WITH_HEALTH = """\
[composite:main]
use = egg:wsgi-pipeline#switch
branches = health path=/@@health
default = site
[app:health]
use = egg:wsgi-pipeline#health
"""
"""The begin of an ini: ``health`` beside the pipeline ``site``."""
BEHIND_NGINX = "trusted = 127.0.0.1\naccept = X-Forwarded\nallowed_hosts = *"
"""Options of ``vhost``."""


def ini_of(order: Sequence[str], scan: str, pipeline: str = "main", **options: str) -> str:
    """Return an ini of elements, outermost first, around a publisher.

    scan      the modules of its views
    pipeline  the name of its section
    options   lines for the section of an element, by its name; for an element of others also its ``paste.`` line
    """
    sections = [f"[pipeline:{pipeline}]\npipeline = {' '.join(order)} publisher"]
    for name in order:
        lines = options.get(name, "")
        use = "" if "paste." in lines else f"use = egg:wsgi-pipeline#{name}\n"
        sections.append(f"[filter:{name}]\n{use}{lines}")
    publisher = f"[app:publisher]\nuse = egg:wsgi-pipeline#publisher\nscan = {scan}\n"
    return "\n".join([*sections, publisher])
