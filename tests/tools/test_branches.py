"""Lines of a switch that no request reaches. Each claim is held against the switch itself."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from pipeline.checking.branches import of_lines
from pipeline.switch import Branch, Switch, _test

METHODS = ("GET", "POST", "PUT")
PATHS = ("/", "/shop", "/shop/cart", "/other", "//shop/./x")
ACCEPTS = (None, "application/json", "text/html", "text/html, application/json")
SCHEMES = ("http", "https")


@pytest.mark.parametrize(
    ("lines", "default", "unreached"),
    [
        (["a method=GET", "b method=POST"], "c", []),
        (["a method=GET,POST", "b method=get"], None, ["b method=get"]),
        (["a method=GET", "b method=GET,POST"], None, []),
        (["a path=/shop", "b path=/shop/cart method=POST"], None, ["b path=/shop/cart method=POST"]),
        (["a path=/shop/cart", "b path=/shop"], None, []),
        (["a path=/shop method=GET", "b path=/shop"], None, []),
        (["a path=/"], "b", ["default"]),
        (["a path=/", "b scheme=https"], None, ["b scheme=https"]),
        (["a scheme=https", "b method=GET scheme=https"], None, ["b method=GET scheme=https"]),
        (["a method=GET method=POST"], None, ["a method=GET method=POST"]),
        (["a path=/shop path=/other"], None, ["a path=/shop path=/other"]),
        (["a header.Accept=*json*", "b header.accept=text/json"], None, ["b header.accept=text/json"]),
        (["a header.Accept=*json*,text/*", "b header.Accept=*json*"], None, ["b header.Accept=*json*"]),
        (["a header.Accept=application/json", "b header.Accept=*json*"], None, []),
    ],
)
def test_no_request_reaches_what_is_said_and_one_reaches_each_other_line(
    lines: list[str], default: str | None, unreached: list[str]
) -> None:
    found = [finding.what.partition("reaches ")[2] for finding in of_lines(lines, default, "site.ini")]
    assert len(found) == len(unreached)
    for said, line in zip(found, unreached, strict=True):
        assert said.startswith(line if line == "default" else f"the line {line!r}")
    apps: list[Any] = [lambda environ, start, line=line: line for line in lines]
    branches = tuple(
        Branch(app, tuple(_test(word, "x", "site.ini") for word in line.split()[1:]))
        for app, line in zip(apps, lines, strict=True)
    )
    switch = Switch(branches, lambda environ, start: "default")
    reached = set()
    for method, path, accept, scheme in product(METHODS, PATHS, ACCEPTS, SCHEMES):
        environ = {"REQUEST_METHOD": method, "PATH_INFO": path, "wsgi.url_scheme": scheme}
        environ |= {"HTTP_ACCEPT": accept} if accept is not None else {}
        reached.add(switch(environ, None))
    expected = {*lines, *(["default"] if default else [])} - {*unreached}
    assert reached - {"default"} == expected - {"default"}
    assert "default" not in unreached or "default" not in reached


def test_each_line_asks_its_own_app_for_a_view() -> None:
    assert list(of_lines(["a view=yes", "b view=yes", "c path=/x view=yes"], "d", "site.ini")) == []


def test_the_ends_of_a_pattern_do_not_overlap() -> None:
    assert list(of_lines(["a header.X=ab*ba", "b header.X=aba"], None, "site.ini")) == []
    assert len(list(of_lines(["a header.X=ab*ba", "b header.X=abba"], None, "site.ini"))) == 1
