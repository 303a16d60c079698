"""What the headers of an answer say, and which of it is kept."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from pipeline.http import header_lists
from pipeline.http.header_lists import values_in, without
from pipeline.response import HTML, NOSNIFF, Response

SECRET = ("Set-Cookie", "session=a-secret")


def kept_by(function: Any) -> dict[Any, Any]:
    kept: dict[Any, Any] = inspect.getclosurevars(function).nonlocals["kept"]
    return kept


def test_the_values_of_a_name_that_stands_repeatedly_are_one_value() -> None:
    said = values_in([HTML, ("CACHE-control", "no-store"), ("Cache-Control", "no-transform")])
    assert said == {"content-type": HTML[1], "cache-control": "no-store, no-transform"}


def test_headers_without_some_names() -> None:
    assert without([HTML, NOSNIFF, ("ETAG", '"a"')], "etag", "content-type") == (NOSNIFF,)


@pytest.mark.parametrize("function", [values_in, without])
def test_a_header_of_one_request_is_not_kept(function: Any) -> None:
    """It may be a secret, and another visitor sends another one."""
    function([HTML, SECRET])
    function([HTML, NOSNIFF])
    assert (HTML, NOSNIFF) in kept_by(function)
    assert not any(SECRET in key for key in kept_by(function))


@pytest.mark.parametrize("function", [values_in, without])
def test_what_is_kept_is_bounded(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(header_lists, "MOST_KEPT", len(kept_by(function)))
    headers = [NOSNIFF, HTML, NOSNIFF, HTML, NOSNIFF]
    function(headers)
    assert tuple(headers) not in kept_by(function)


def test_a_header_may_be_a_list() -> None:
    """WebOb takes it, and so did the loops that were here before."""
    headers: Any = [HTML, ["ETag", '"a"']]
    assert values_in(headers)["etag"] == '"a"'
    response = Response()
    response.headerlist = headers


def test_a_changed_answer_does_not_change_what_is_kept() -> None:
    response = Response()
    response.headerlist = [HTML, NOSNIFF]
    kept = without(response.headerlist, "etag")
    response.headerlist[:] = kept
    response.headerlist.append(SECRET)
    assert without([HTML, NOSNIFF], "etag") == (HTML, NOSNIFF)
