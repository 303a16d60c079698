"""The handler of mod_python, without Apache: which path the application gets."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest

from pipeline.serving.mod_python import NOT_FOUND, OK, handler_of


@pytest.mark.parametrize(
    ("prefix", "uri", "path"),
    [
        ("/app", "/app/x?y=1", "/x"),
        ("/app", "/app", ""),
        ("/app", "http://a.example/app/x", "/x"),
        ("/app", "/%61pp/x", "/x"),
        ("/app", "//app/x", None),
        ("/app", "/./app/x", None),
        ("/app", "/a/../app/x", None),
        ("/app", "/apple/x", None),
        ("", "//app/x", "//app/x"),
        ("", "/", "/"),
    ],
)
def test_the_prefix_is_compared_before_it_is_cut(prefix: str, uri: str, path: str | None) -> None:
    seen: list[tuple[str, str]] = []

    def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        seen.append((environ["SCRIPT_NAME"], environ["PATH_INFO"]))
        start_response("200 OK", [])
        return []

    req = MagicMock(unparsed_uri=uri, headers_in={})
    assert handler_of(app, prefix)(req) == (NOT_FOUND if path is None else OK)
    assert seen == ([] if path is None else [(prefix, path)])
