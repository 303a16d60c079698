"""A site for any pipeline: its views use what the elements offer, and what is not there they do without."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from persistent import Persistent
from sqlalchemy import text

from pipeline import Request, Response, view
from pipeline.interfaces import PUBLIC
from pipeline.testing import FakeDataManager


class Root(Persistent):  # type: ignore[misc]
    """The root, stored in a ZODB or not at all."""

    __parent__ = None
    __name__ = None
    value = 0

    def __getitem__(self, name: str) -> Any:
        raise KeyError(name)


class Refused(Exception):
    """An error that has a view."""


def stored(mapping: Any) -> Root:
    """The root in a ZODB."""
    if "root" not in mapping:
        mapping["root"] = Root()
    found: Root = mapping["root"]
    return found


def check(request: Request, login: str, password: str) -> str | None:
    return login


def write(request: Any) -> None:
    """Write to each database of the pipeline."""
    offered = request.pipeline.offered
    if "zodb" in offered:
        request.zodb.root()["root"].value += 1
    if "sql" in offered:
        request.sql.execute(text("INSERT INTO written VALUES (1)"))
    if "commit" in request.pipeline.names:
        FakeDataManager(request.tm).join()


@view(context=Root)
def index(root: Root, request: Request) -> str:
    return f"<html><head></head><body>{root.value}</body></html>"


@view(context=Root, name="write", methods=("POST",), permission=PUBLIC)
def write_it(root: Root, request: Request) -> str:
    write(request)
    return "written"


@view(context=Root, name="stream")
def stream(root: Root, request: Request) -> Iterator[bytes]:
    for _ in range(2):
        yield b"%d\n" % root.value


@view(context=Root, name="refuse", methods=("POST",), permission=PUBLIC)
def refuse(root: Root, request: Request) -> str:
    write(request)
    raise Refused


@view(context=Refused)
def refused(error: Refused, request: Request, response: Response) -> str:
    response.status = 409
    return "refused"
