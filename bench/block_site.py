"""The site of the suite ``blocks`` : 2.5 MB in blocks of several sizes, and as a file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipeline import Pipeline, view
from pipeline.elements.coalesce import coalesce
from pipeline.elements.errors import errors
from pipeline.elements.log import log
from pipeline.elements.traverse import traverse
from pipeline.publisher import publisher

BLOCKS = {"128": 128, "8192": 8_192, "65536": 65_536}


def content() -> bytes:
    """Lines of 128 bytes; no two are the same, so that none can take the place of another."""
    return b"".join(b"<p>this is line %d</p>".ljust(127) % line + b"\n" for line in range(10_000_000, 10_019_532))


class Made(tuple[bytes, ...]):
    """The content in blocks of one size."""


class Filed:
    """The content in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path


ran: Any = None
"""The counter of the server."""


@view(context=Made)
def made(context: Made, request: Any) -> Iterator[bytes]:
    ran.ran += 1
    for block in context:  # noqa: UP028 - a view makes its blocks one by one
        yield block


@view(context=Filed)
def filed(context: Filed, request: Any) -> Any:
    ran.ran += 1
    return context.path.open("rb")


def app(count: Any) -> Any:
    """With ``?coalesce`` the blocks are joined."""
    globals()["ran"] = count
    data = content()
    file = Path(tempfile.mkdtemp(), "content")
    file.write_bytes(data)
    root: dict[str, Any] = {"file": Filed(file)}
    for name, size in BLOCKS.items():
        root[name] = Made(data[start : start + size] for start in range(0, len(data), size))

    def site(*elements: Any) -> Pipeline:
        return Pipeline(log(), errors(), traverse(root=lambda: root), *elements, publisher(scan=(__name__,)))

    plain, coalesced = site(), site(coalesce())

    def app(environ: Any, start_response: Any) -> Any:
        return (coalesced if environ["QUERY_STRING"] == "coalesce" else plain)(environ, start_response)

    return app
