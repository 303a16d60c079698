"""The pages of HTTP errors in debug mode: with the key they tell what ``pipeline explain`` tells (S17)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pipeline import Pipeline, view
from pipeline.elements.errors import errors
from pipeline.http import debug_key

KEY = "k" * 40


class Box(dict[str, Any]):
    """A container."""


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(debug_key, "_key", KEY)
    yield f"{debug_key.COOKIE}={KEY}"


@pytest.fixture
def box(publish: Callable[..., Pipeline], key: str) -> Pipeline:
    @view(context=Box)
    def index(context: Any, request: Any) -> str:
        return "index"

    @view(context=Box, name="edit", methods=("POST",))
    def edit(context: Any, request: Any) -> str:
        return "edited"

    @view(context=Box, name="keep", permission="keep")
    def keep(context: Any, request: Any) -> str:
        return "kept"

    return publish(index, edit, keep, root=Box(item=object()), outer=(errors(debug=True),))


@pytest.mark.parametrize(
    ("method", "path", "status", "said"),
    [
        ("GET", "/nothing", 404, ["Box.__getitem__", "no view has that name", "Its views are: (the default view)"]),
        ("GET", "/kepe", 404, ["did you mean 'keep'?"]),
        ("GET", "/item", 404, ["there is not a default view for an object"]),
        ("GET", "/_secret", 404, ["must not start with '_' (S3)"]),
        ("GET", "/edit", 405, ["it accepts POST", "methods=(..., 'GET')", "test_debug_page.py, line "]),
        ("GET", "/keep", 403, ["needs the permission keep", "test_debug_page.py, line "]),
        ("GET", "/a/../b", 400, ["the path", "'..' in place of a name"]),
    ],
)
def test_with_the_key_the_page_says_why(
    call: Callable[..., Any], box: Pipeline, key: str, method: str, path: str, status: int, said: list[str]
) -> None:
    answer = call(box, path, method, HTTP_COOKIE=key)
    assert answer.status == status
    for text in ["why ", "where ", *said]:
        assert text in answer.text
    assert "Traceback" not in answer.text


@pytest.mark.parametrize("path", ["/nothing", "/edit", "/keep", "/a/../b"])
def test_without_the_key_nothing_changes__S17(call: Callable[..., Any], box: Pipeline, path: str) -> None:
    answer = call(box, path, HTTP_COOKIE=f"{debug_key.COOKIE}={'x' * 40}")
    assert "why" not in answer.text
    assert len(answer.text.splitlines()) == 1


def test_what_it_says_is_escaped_in_a_page__S7(call: Callable[..., Any], box: Pipeline, key: str) -> None:
    page = call(box, "/%3Cscript%3E", HTTP_COOKIE=key, HTTP_ACCEPT="text/html")
    assert "<script>" not in page.text
    assert "&lt;script&gt;" in page.text
