"""What is derived changes with each part of its source: one part is changed, and the derived header must differ.

A part with a False is the control of the table: it is no source, and changes nothing.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from webob import Request as Asked

from pipeline import Pipeline, Request, Response, redirect, view
from pipeline.elements.errors import errors
from pipeline.elements.traverse import traverse
from pipeline.http.files import serve
from pipeline.publisher import publisher


class Source(NamedTuple):
    """The parts of a file and of a request."""

    content: bytes = b"0123456789"
    name: str = "a.txt"
    modified: int = 1_600_000_000
    host: str = "example.org"
    scheme: str = "http"
    script: str = ""
    version: Any = 1
    agent: str = "a"


CHANGES: dict[str, tuple[Any, ...]] = {
    "content": (b"0123456780", b"1123456789", b"01234567890", b""),
    "name": ("a.js", "b.txt", "é.txt"),
    "modified": (1_600_000_001, 0, 1, 315_532_800),
    "host": ("example.com", "example.org:8080"),
    "scheme": ("https",),
    "script": ("/app",),
    "version": (2, "a b", b"\0", None),
    "agent": ("b",),
}
DERIVED: dict[str, dict[str, dict[str, bool | tuple[bool, ...]]]] = {
    "file": {
        "ETag": {"content": True, "modified": False, "agent": False, "host": False},
        "Last-Modified": {"modified": True, "agent": False},
        "Content-Length": {"content": (False, False, True, True), "name": False},
        "Content-Type": {"name": (True, False, False), "content": False},
        "Content-Disposition": {"name": True, "content": False},
    },
    "version": {"ETag": {"version": True, "agent": False}},
    "redirect": {"Location": {"host": True, "scheme": True, "script": True, "agent": False}},
}


class Root(dict[str, Any]):
    """The context of the views."""


def header(kind: str, name: str, source: Source, directory: Path) -> str | None:
    """Return the derived header: of a new file at the same place, of a page with a version, or of a redirect."""
    fresh, path = directory / "fresh", directory / source.name
    fresh.write_bytes(source.content)
    os.utime(fresh, (source.modified, source.modified))
    fresh.replace(path)
    root = Root()

    def page(context: Root, request: Request, response: Response) -> str | None:
        if kind == "file":
            return serve(request, response, path)
        if kind == "redirect":
            raise redirect(request.absolute_url(root, "x"))
        return "page"

    version = (lambda context: source.version) if kind == "version" else None
    page.__module__ = "derived"
    module = sys.modules["derived"] = ModuleType("derived")
    vars(module)["page"] = view(context=Root, version=version)(page)
    app = Pipeline(errors(), traverse(root=lambda: root), publisher(scan=("derived",)))
    del sys.modules["derived"]
    asked = Asked.blank("/", headers={"User-Agent": source.agent})
    asked.environ.update({"HTTP_HOST": source.host, "SCRIPT_NAME": source.script, "wsgi.url_scheme": source.scheme})
    answer = asked.get_response(app)
    assert answer.status_int in (200, 302)
    if hasattr(answer.app_iter, "close"):
        answer.app_iter.close()
    return answer.headers.get(name)


@pytest.mark.parametrize(
    ("kind", "name", "part"),
    [(kind, name, part) for kind, names in DERIVED.items() for name, parts in names.items() for part in parts],
)
def test_each_part_of_the_source_counts(kind: str, name: str, part: str, tmp_path: Path) -> None:
    first = header(kind, name, Source(), tmp_path)
    assert first is not None
    counts = DERIVED[kind][name][part]
    for number, changed in enumerate(CHANGES[part]):
        expected = counts[number] if isinstance(counts, tuple) else counts
        now = header(kind, name, Source()._replace(**{part: changed}), tmp_path)
        assert (now != first) == expected, (part, changed, first, now)


def test_an_etag_of_time_and_size_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old reading, put back."""
    monkeypatch.setattr(
        "pipeline.http.files.hash_of", lambda state, descriptor: f"{state.st_mtime}-{state.st_size}"
    )
    with pytest.raises(AssertionError, match="content"):
        test_each_part_of_the_source_counts("file", "ETag", "content", tmp_path)
