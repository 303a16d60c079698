"""Preconditions are judged before a view is called: a change of another version is not stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pipeline import Request, Response, view
from pipeline.elements.errors import errors
from pipeline.elements.forms import forms
from pipeline.http.versions import etag_of
from pipeline.interfaces import ViewError

STORED: list[str] = []


@pytest.fixture
def site(publish: Callable[..., Any], call: Callable[..., Any]) -> Callable[..., Any]:
    """``site(method, **environ)``: the answer of a view with the version 7, or without one."""
    STORED.clear()

    def site(method: str, version: Any = 7, required: bool = False, **environ: str) -> Any:
        @view(methods=("GET", "POST", "PUT", "PATCH", "DELETE"), version=lambda context: version,
              version_required=required)  # fmt: skip
        def page(context: Any, request: Request, text: str = "page") -> str:
            STORED.append(text)
            return text

        return call(publish(page, outer=(errors(), forms())), "/", method, **environ)

    return site


def test_a_read_has_the_version_as_its_etag(site: Any) -> None:
    for method in ("GET", "HEAD"):
        answer = site(method)
        assert (answer.status, answer.headers["ETag"]) == (200, '"7"')
        for tag in ('"7"', 'W/"7"', '"1", "7"', "*"):
            same = site(method, HTTP_IF_NONE_MATCH=tag)
            assert (same.status, same.headers["ETag"], same.text) == (304, '"7"', "")
        assert site(method, HTTP_IF_NONE_MATCH='"8"').status == 200
        assert site(method, HTTP_IF_MATCH='"8"').status == 412
    assert STORED == ["page"] * 4


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize(
    ("version", "environ", "status"),
    [
        (7, {}, 200),
        (7, {"HTTP_IF_MATCH": '"7"'}, 200),
        (7, {"HTTP_IF_MATCH": "*"}, 200),
        (7, {"HTTP_IF_MATCH": '"8", "7"'}, 200),
        (7, {"HTTP_IF_MATCH": '"8"'}, 412),
        (7, {"HTTP_IF_MATCH": 'W/"7"'}, 200),  # as nginx has made it
        (7, {"HTTP_IF_MATCH": '"7-gzip"'}, 200),  # as Apache has made it
        (7, {"HTTP_IF_MATCH": 'W/"8"'}, 412),
        (7, {"HTTP_IF_NONE_MATCH": "*"}, 412),
        (7, {"HTTP_IF_NONE_MATCH": '"7"'}, 412),
        (7, {"HTTP_IF_NONE_MATCH": '"8"'}, 200),
        (None, {"HTTP_IF_MATCH": "*"}, 412),
        (None, {"HTTP_IF_NONE_MATCH": "*"}, 200),
    ],
)
def test_a_change_of_another_version_does_not_run(
    site: Any, method: str, version: Any, environ: dict[str, str], status: int
) -> None:
    assert site(method, version, **environ).status == status
    assert bool(STORED) == (status == 200)


def test_a_change_may_have_to_name_its_version(site: Any) -> None:
    assert site("GET", required=True).status == 200
    assert site("PUT", required=True, HTTP_IF_MATCH='"7"').status == 200
    assert site("PUT", None, required=True, HTTP_IF_NONE_MATCH="*").status == 200, "a new one"
    STORED.clear()
    late = "Fri, 31 Dec 2100 23:59:59 GMT"
    for names_none in ({}, {"HTTP_IF_UNMODIFIED_SINCE": late}, {"HTTP_IF_NONE_MATCH": '"8"'}):
        assert site("PUT", required=True, **names_none).status == 428
    assert site("PUT", required=True, HTTP_IF_NONE_MATCH="*").status == 412
    assert STORED == []


@pytest.mark.parametrize(
    ("version", "etag"),
    [("a_1", '"a_1"'), (b"\x00\xff", '"00ff"'), (None, None), (1.5, '"1.5"')],
)
def test_etags(version: Any, etag: str | None) -> None:
    assert etag_of(version) == etag


def test_a_version_that_cannot_stand_in_a_header_is_hashed() -> None:
    odd = ['"', "a b", "é", "x" * 100, "", "a-gzip", "\r\nSet-Cookie: a"]
    tags = {etag_of(version) for version in odd}
    assert len(tags) == len(odd) and all(tag is not None and len(tag) == 34 for tag in tags)


@pytest.mark.parametrize("condition", ["HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH"])
def test_an_etag_by_hand_is_too_late_for_a_change(publish: Any, call: Any, caplog: Any, condition: str) -> None:
    @view(methods=("GET", "PUT"))
    def page(context: Any, request: Request, response: Response) -> str:
        response.etag, response.conditional_response = "new", True
        return "stored"

    app = publish(page, outer=(errors(),))
    assert call(app, "/", "PUT", **{condition: '"old"'}).status == 500
    assert "@view(version=...)" in caplog.text
    assert call(app, "/", "PUT").status == 200
    assert call(app, "/", "GET", HTTP_IF_NONE_MATCH='"new"').status == 304


@pytest.mark.parametrize("version", [3, "title", lambda: "1", lambda context, request: "1"])
def test_a_version_that_cannot_be_called_is_refused_at_load(version: Any, publish: Callable[..., Any]) -> None:
    @view(version=version)
    def page(context: Any, request: Request) -> str:
        return "page"

    with pytest.raises(ViewError, match=r"the version of a view is .* cannot be called with the context alone"):
        publish(page)
