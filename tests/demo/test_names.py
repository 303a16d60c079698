"""Names, titles and texts: what is taken, and in which form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_demo.names import (
    MAX_NAME,
    MAX_TEXT,
    BadText,
    clean_name,
    clean_text,
    clean_title,
    name_from_title,
)


@pytest.mark.parametrize("name", ["a", "index.md", "Über uns", "日本語.txt", "a+b", "x@@y", ".htaccess", "a%2Fb"])
def test_a_name_is_taken(name: str) -> None:
    assert clean_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        *("", ".", "..", " a", "a ", "a/b", "a\\b", "_private", "__class__", "@@edit", "++vh++"),
        *("a\0", "a\n", "a\x7f", "a\x85", "a\u2028b", "evil\u202egpj.exe", "\ud800", "\udcff", "\ufdd0"),
        "é" * (MAX_NAME // 2 + 1),
    ],
)
def test_a_name_is_refused(name: str) -> None:
    """S3, S14: also what only a direct request could send."""
    with pytest.raises(BadText):
        clean_name(name)


def test_two_ways_to_type_a_name_give_one() -> None:
    assert clean_name("Mu\u0308ller") == clean_name("M\u00fcller") == "M\u00fcller"


def test_titles() -> None:
    assert clean_title("  A title ") == "A title"
    for title in ["", "  ", "a\nb", "x" * 201, "\udc80"]:
        with pytest.raises(BadText):
            clean_title(title)


def test_texts() -> None:
    assert clean_text("a\r\nb\rc\n\td") == "a\nb\nc\n\td"
    assert clean_text("") == ""
    for text in ["\0", "a\x1b[31m", "\x7f", "\ud83d", "x" * (MAX_TEXT + 1), "é" * (MAX_TEXT // 2 + 1)]:
        with pytest.raises(BadText):
            clean_text(text)


@given(st.text(max_size=300))
def test_a_title_makes_a_name(title: str) -> None:
    try:
        title = clean_title(title)
    except BadText:
        return
    name = name_from_title(title)
    assert clean_name(name)


@pytest.mark.parametrize(
    ("title", "name"),
    [("Über uns!", "über-uns"), ("__init__.py", "init__.py"), ("!!!", "untitled"), ("A  B/C", "a-b-c")],
)
def test_names_made_of_titles(title: str, name: str) -> None:
    assert name_from_title(title) == name
