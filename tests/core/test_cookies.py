"""A plain header is read as WebOb reads it, in a third of the time. WebOb cuts off what is not plain."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from webob.cookies import RequestCookies

from pipeline.cookies import _PLAIN, cookies_by_name, cookies_of
from pipeline.request import Request

NAMES = st.text("aZ9_!#%&'*+.^`|~-", min_size=1, max_size=4)
VALUES = st.text("aZ9_!#$%&'()*+./:<=>?@^`{|}~-", max_size=6)
COOKIES = st.lists(st.tuples(NAMES, VALUES).map("=".join), max_size=4)
HEADERS = st.builds(str.join, st.sampled_from(["; ", ";"]), COOKIES)
TEXT = st.text('aB1=;, "\\\\$[\t\xe9%', max_size=20)


def read(cookies: Any) -> Any:
    try:
        return list(cookies.items())
    except UnicodeDecodeError:
        return "not UTF-8"


@given(HEADERS)
def test_they_are_those_of_webob(header: str) -> None:
    ours, theirs = {"HTTP_COOKIE": header}, {"HTTP_COOKIE": header}
    assert read(cookies_by_name(ours)) == read(RequestCookies(theirs))


@given(TEXT)
def test_any_text_is_read(header: str) -> None:
    found = read(cookies_by_name({"HTTP_COOKIE": f"{header};a=1"}))
    assert dict(found)["a"] == "1"
    assert [name for name, _ in found if not name or set(name) & set(' ;,="\t')] == []


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("v=André", "André"),
        ("v=a,b", "a,b"),
        ('v={"a": [1, 2]}', '{"a": [1, 2]}'),
        ("v=a b", "a b"),
        ('v="a b"', "a b"),
        ('v="\\303\\251\\054\\""', 'é,"'),
        ('v="', '"'),
        ("v = a ", "a"),
        ("w=1,v=2", "2"),
        ("path=1; v=2", "2"),
    ],
)
def test_no_value_is_cut_off(header: str, value: str) -> None:
    for sent in (header, f"a=b; {header}", f"{header}; c"):
        assert cookies_by_name({"HTTP_COOKIE": sent.encode().decode("latin-1")})["v"] == value
    assert cookies_by_name({"HTTP_COOKIE": "v=\xe9"})["v"] == "é"


@pytest.mark.parametrize("header", ["a=1", "a=1; b=2", "session=eyJ.a-b_c; c=", "a=1;b=x==", "a=1; a=2"])
def test_what_browsers_send_is_plain(header: str) -> None:
    assert _PLAIN.fullmatch(header)
    assert read(cookies_by_name({"HTTP_COOKIE": header})) == read(RequestCookies({"HTTP_COOKIE": header}))


def test_they_can_be_set_and_deleted() -> None:
    request = Request({"HTTP_COOKIE": "a=1; b=2"})
    assert dict(request.cookies) == {"a": "1", "b": "2"}
    request.cookies["c"] = "3"
    del request.cookies["a"]
    assert dict(request.cookies) == {"b": "2", "c": "3"}
    request.cookies = {"d": "4"}
    assert dict(request.cookies) == {"d": "4"}


def test_a_cookie_without_a_name_is_ignored() -> None:
    """S19."""
    assert dict(Request({"HTTP_COOKIE": "=x; a=1"}).cookies) == {"a": "1"}
    assert cookies_of({"HTTP_COOKIE": "=a; a=1"}, "a") == ["1"]


@pytest.mark.parametrize(
    ("header", "values"),
    [
        ("a=1; b=2,session=x", ["x"]),
        ("a=1, session=x; c=3", ["x"]),
        ("session=x,a=1", ["x"]),
        ("session=x,y", ["x,y"]),
        ("a=1,session=evil; session=x", ["x", "evil"]),
        ("session=x; a=b,session=y,session=z", ["x", "y", "z"]),
        ("a=,,,=, session", []),
    ],
)
def test_lines_that_a_server_has_joined(header: str, values: list[str]) -> None:
    """Behind a comma comes a further cookie, after those that can only be cookies."""
    assert cookies_of({"HTTP_COOKIE": header}, "session") == values


@pytest.mark.parametrize("name", ["__Host-session", "__Secure-session"])
@pytest.mark.parametrize(
    "planted", ["x=a,{}=evil", "x=a, {}=evil", "x=,{}=evil; b=c", 'x="a,{}=evil"', "x=a,b=c,{}=evil"]
)
def test_a_prefix_behind_a_comma_is_no_cookie(name: str, planted: str) -> None:
    """A browser accepts such a cookie from this host alone, but any value from a sibling domain."""
    environ = {"HTTP_COOKIE": planted.format(name)}
    assert cookies_of(environ, name) == [] and name not in Request(environ).cookies
    environ = {"HTTP_COOKIE": f"{planted.format(name)}; {name}=right"}
    assert cookies_of(environ, name) == ["right"] and Request(environ).cookies[name] == "right"
