"""The site of this pipeline in the benchmarks: the same page as its peers."""

from __future__ import annotations

from typing import Any

from persistent import Persistent
from persistent.mapping import PersistentMapping

from pipeline import Request, view
from pipeline.interfaces import PUBLIC


class Node(dict):  # type: ignore[type-arg]
    """A container."""


class Page:
    """The published object."""


class Folder(PersistentMapping):
    """A container in a database."""


class Document(Persistent):
    """The object that is published out of a database."""

    text = "hello"
    hits = 0


TREE = Node(a=Node(b=Node(c=Page())))


class Ran:
    """Counts how often a view ran; the suite puts its own counter here."""

    ran = 0


ran: Any = Ran()


def root() -> Node:
    return TREE


def check(request: Request, login: str, password: str) -> str | None:
    return None


def make_tree(mapping: Any) -> Any:
    """The tree of the database suites, below the key "app"."""
    if "app" not in mapping:
        mapping["app"] = Folder(a=Folder(b=Folder(c=Document())))
    return mapping["app"]


@view(context=Page)
def page(context: Page, request: Request) -> str:
    ran.ran += 1
    return "hello"


@view(context=Document)
def document(context: Document, request: Request) -> str:
    ran.ran += 1
    return context.text


@view(context=Document, name="write", methods=("POST",), permission=PUBLIC)
def write(context: Document, request: Request) -> str:
    ran.ran += 1
    context.hits += 1
    return "hello"
