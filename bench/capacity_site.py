"""A site of a thousand pages of a few kilobytes, for ``bench.capacity``."""

from __future__ import annotations

from html import escape
from typing import Any

from BTrees.OOBTree import OOBTree
from persistent import Persistent

from bench.capacity import PAGES
from pipeline import view


class Page(Persistent):
    changes = 0

    def __init__(self, number: int) -> None:
        self.lines = [f"{number} & {line}" for line in range(100)]


def make_root(root: Any) -> Any:
    if "pages" not in root:
        root["pages"] = OOBTree({f"p{number}": Page(number) for number in range(PAGES)})
    return root["pages"]


@view(context=Page)
def page(context: Page, request: Any) -> str:
    request.keep = 3600
    return f"{context.changes} " + "".join(f"<li>{escape(line)}</li>" for line in context.lines)


@view(context=Page, methods=("POST",))
def change(context: Page, request: Any) -> str:
    context.changes += 1
    return "changed"
