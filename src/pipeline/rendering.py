"""``render``: the result of a view that a template makes into a page. Jinja2 is imported for the first page."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from zope.interface import implementer

from pipeline.interfaces import IResult
from pipeline.options import on_demand

if TYPE_CHECKING:
    from pipeline.publishing.jinja import page_of
else:
    page_of = on_demand("pipeline.publishing.jinja:page_of")


@implementer(IResult)
class Rendering:
    """A template with its values. The publisher renders it when the view has returned."""

    def __init__(self, template: str, values: dict[str, Any], module: str) -> None:
        self.template = template
        self.values = values
        self.module = module
        """Name of the module that called ``render``. The template is looked for beside it."""

    def __call__(self, request: Any, response: Any) -> str:
        return page_of(self.module, self.template, self.values, request)

    def __repr__(self) -> str:
        return f"render({self.template!r}) of {self.module}"


def render(template: str, /, **values: Any) -> Rendering:
    """Return the result of a view: the page that a Jinja2 template makes of the values and of ``request``.

    The template stands beside the module that calls this function, or in the directory ``templates`` of one of its
    packages. Needs the extra ``jinja``.
    """
    return Rendering(template, values, sys._getframe(1).f_globals["__name__"])


def with_render(modules: Iterable[str]) -> list[str]:
    """Return those of these modules that have imported ``render``, in order; none without Jinja2."""
    if find_spec("jinja2") is None:
        return []
    values = {name: vars(sys.modules[name]).values() for name in sorted(modules) if name in sys.modules}
    return [name for name, ours in values.items() if any(value is render for value in ours)]
