"""An exception made as a copy is the same as one made by its class."""

from __future__ import annotations

from typing import Any

import pytest
from webob import Request
from webob.exc import HTTPNotFound, HTTPSeeOther, WSGIHTTPException, status_map

from pipeline.http.exceptions import make_exception

REDIRECTS = (301, 302, 303, 307, 308)
KINDS = [kind for status, kind in status_map.items() if status not in (*REDIRECTS, 300, 305)]


def answer_of(error: WSGIHTTPException) -> tuple[Any, ...]:
    answer = Request.blank("/x", headers={"Accept": "text/html"}).get_response(error)
    return answer.status, answer.headerlist, answer.body


def state_of(error: WSGIHTTPException) -> dict[str, Any]:
    """The attributes; without the headers in the form that WebOb makes on first use."""
    return {name: value for name, value in vars(error).items() if name != "_headers"}


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_is_what_its_class_makes(kind: type[WSGIHTTPException]) -> None:
    for detail in (None, "There is nothing at this address."):
        made, expected = make_exception(kind, detail), kind(detail)
        assert type(made) is kind
        assert made.args == expected.args
        assert str(made) == str(expected)
        assert state_of(made) == state_of(expected)
        assert answer_of(made) == answer_of(expected)


@pytest.mark.parametrize("status", REDIRECTS)
def test_a_redirect_is_what_its_class_makes(status: int) -> None:
    kind = status_map[status]
    made, expected = make_exception(kind, location="/a?b=c"), kind(location="/a?b=c")
    assert type(made) is kind
    assert made.args == expected.args
    assert state_of(made) == state_of(expected)
    assert answer_of(made) == answer_of(expected)


def test_exceptions_of_a_class_share_nothing_that_changes() -> None:
    first = make_exception(HTTPNotFound, "first")
    first.headers["X-Test"] = "1"
    first.write(b"text")
    first.comment = "a comment"
    second = make_exception(HTTPNotFound, "second")
    assert answer_of(second) == answer_of(HTTPNotFound("second"))
    assert "X-Test" not in second.headers
    assert second.comment is None
    assert make_exception(HTTPSeeOther, location="/a").location == "/a"
    assert make_exception(HTTPSeeOther, location="/b").headerlist == HTTPSeeOther(location="/b").headerlist
