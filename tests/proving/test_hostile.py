"""Values of visitors that do harm are found where they stand on a page, and not where they are quoted."""

from __future__ import annotations

import json
from collections.abc import Callable
from html import escape

import pytest

from pipeline.proving.values import MARK, SCRIPT, is_markup
from pipeline.staging.runs import Run

HARM: dict[str, Callable[[str], str]] = {
    "a text": lambda value: f"<p>{value}</p>",
    "an attribute without quotes": lambda value: f"<img alt={escape(value)}>",
    "an attribute with the other quotes": lambda value: f"<input value='{escape(value, quote=False)}'>",
    "an attribute with quotes that are not escaped": lambda value: f'<input value="{escape(value, quote=False)}">',
    "a string of a script": lambda value: f"<script>var q = '{escape(value, quote=False)}'</script>",
    "a string of a script in an attribute": lambda value: f'<a onclick="f(&#39;{escape(value)}&#39;)">x</a>',
    "a title": lambda value: f"<title>{value}</title>",
    "a comment": lambda value: f"<!-- {value} -->",
}
NONE: dict[str, Callable[[str], str]] = {
    "a text": lambda value: f"<p>{escape(value)}</p>",
    "an attribute": lambda value: f'<input value="{escape(value)}">',
    "JSON in a script": lambda value: f"<script>q = {json.dumps(value).replace('<', chr(92) + 'u003c')}</script>",
    "a string of a script": lambda value: f"<script>var q = '{value.translate(ESCAPED)}'</script>",
    "a text about it": lambda value: "<p>prove=1</p>",
}
ESCAPED = {ord(char): f"\\{char}" for char in "'\""} | {ord("<"): "\\u003c"}


def page(body: str, kind: str = "text/html; charset=UTF-8") -> Run:
    run = Run()
    run.status, run.headers, run.body = 200, [("Content-Type", kind)], body.encode()
    return run


@pytest.mark.parametrize("name", HARM)
def test_markup_is_found(name: str) -> None:
    assert is_markup(page(f"<!doctype html><body>{HARM[name](MARK)}</body>"))


@pytest.mark.parametrize("name", NONE)
def test_a_value_that_is_quoted_is_none(name: str) -> None:
    assert not is_markup(page(f"<!doctype html><body>{NONE[name](MARK)}</body>"))


def test_an_answer_that_is_no_page_has_none() -> None:
    assert not is_markup(page(MARK, "text/plain"))


def test_a_script_is_found_as_an_address_alone() -> None:
    assert is_markup(page(f'<a href=" {SCRIPT}">x</a>'))
    assert is_markup(page(f'<form action="{SCRIPT}"></form>'))
    assert not is_markup(page(f'<a href="/@@find?q={SCRIPT}">x</a><input value="{SCRIPT}"><p>{SCRIPT}</p>'))
