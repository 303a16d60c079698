"""Rendering: what a document shows, and what it cannot do (S5, S7)."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_demo.models import FORMATS, Document
from pipeline_demo.text import document_html, excerpt, fold, plain_text, title_of, to_html

BAD = (
    "<script",
    "javascript:",
    "onerror",
    "onclick",
    "data:text",
    "<style",
    "<iframe",
    "<form",
    "<input",
    "<base",
)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "<a href='javascript:alert(1)'>x</a>",
        "<a href=' jAvA&#115;cript:alert(1)'>x</a>",
        "<a href='data:text/html,x'>x</a>",
        "<iframe src='/x'></iframe><base href='//evil'><style>*{}</style><form action='/'><input></form>",
        "<svg onload=alert(1)><script>alert(1)</script></svg>",
        "<math><mi//xlink:href='data:x,<script>alert(1)</script>'>",
        "<b onclick='alert(1)' style='position:fixed'>x</b>",
    ],
)
def test_nothing_in_html_runs(text: str, format: str) -> None:
    html = to_html(text, format)
    if format in ("html", "markdown"):
        assert not any(bad in html.lower() for bad in BAD), html
    assert "<script" not in html
    assert "style=" not in html or "&lt;" in html


@pytest.mark.parametrize(
    "text",
    [
        "`x <javascript:alert(1)>`__",
        ".. raw:: html\n\n   <script>alert(1)</script>",
        ".. image:: javascript:alert(1)",
        ".. role:: raw-html(raw)\n   :format: html\n\n:raw-html:`<script>alert(1)</script>`",
        ".. container:: top button danger\n\n   x",
    ],
)
def test_nothing_in_rst_runs(text: str) -> None:
    html = to_html(text, "rst")
    for bad in ("<script", 'href="javascript', 'src="javascript', "danger"):
        assert bad not in html or "&lt;" in html


@pytest.mark.parametrize("directive", ["include", "literalinclude", "csv-table"])
def test_rst_reads_no_files(directive: str) -> None:
    html = to_html(f".. {directive}:: /etc/passwd\n   :file: /etc/passwd\n", "rst")
    assert "root:" not in html


def test_markdown() -> None:
    html = to_html(
        "# T\n\nSee [a](b.md#x) and [top](<#top>).\n\n| a |\n|---|\n| ~~1~~ |\n\n<b id=top>x</b>",
        "markdown",
        "T",
    )
    assert "<h1>" not in html  # the page has it
    assert 'href="b.md#x"' in html
    assert "<td><s>1</s></td>" in html
    # ids of a document are none of the page's, and links follow them
    assert 'id="text-top"' in html
    assert 'href="#text-top"' in html


def test_a_first_heading_that_is_not_the_title_stays() -> None:
    assert "<h1>Other</h1>" in to_html("# Other", "markdown", "Title")


def test_rst_of_sphinx_loses_nothing() -> None:
    html = to_html(
        "Title\n=====\n\n:doc:`design`, :doc:`The guide <howto/guide>`, :class:`~a.B`, ``lit``, *broken\n\n"
        ".. toctree::\n   :maxdepth: 1\n\n   design\n   Guide <howto/guide>\n\n"
        ".. versionadded:: 1.0\n   Something new.\n\n.. note:: Careful.\n",
        "rst",
        "Title",
    )
    assert html.count('href="design.rst"') == 2
    assert html.count('href="howto/guide.rst"') == 2
    for shown in (
        "<code>a.B</code>",
        "<code>lit</code>",
        "*broken",
        "Something new.",
        "Careful.",
        "admonition",
    ):
        assert shown in html
    assert "<h1" not in html
    assert "system-message" not in html


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("text", ["> " * 5000 + "x", "- " * 3000 + "x", "<div>" * 5000, "*" * 9000, "x" * 20000])
def test_depth_and_length_break_nothing(text: str, format: str) -> None:
    assert to_html(text, format)


@given(st.text(max_size=500), st.sampled_from(list(FORMATS)))
def test_any_text_can_be_shown(text: str, format: str) -> None:
    html = to_html(text, format)
    assert "<script" not in html


@pytest.mark.parametrize("pattern", ["[", "![[", "`", "<", "**a ", "| a ", "<!--", "&#", "]("])
def test_time_is_bounded(pattern: str) -> None:
    """S12: 30 kB of anything take seconds at the very most."""
    text = (pattern * 30_000)[:30_000]
    for format in ("markdown", "html", "rst"):
        start = time.thread_time()
        to_html("\n\n".join(text[i : i + 5000] for i in range(0, len(text), 5000)), format)
        assert time.thread_time() - start < 5


def test_html_is_kept_until_the_document_changes() -> None:
    document = Document("T", "*one*")
    assert document_html(document) is document_html(document)
    document.edit("T", "*two*", "markdown")
    assert "<em>two</em>" in document_html(document).html
    document.edit("T", "*two*", "text")
    assert "*two*" in document_html(document).html


@pytest.mark.parametrize(
    ("format", "text", "title"),
    [
        ("markdown", "\n# A *b* `c` ##\n", "A b c"),
        ("markdown", "Title\n=====\n", "Title"),
        ("markdown", "no title", ""),
        ("rst", "=====\nTitle\n=====\n", "Title"),
        ("rst", ".. note:: x\n\nTitle\n-----\n", "Title"),
        ("html", "<html><TITLE>a &amp; b</TITLE><h1>x</h1>", "a & b"),
        ("html", "<h1 class=x>a <b>c</b></h1>", "a c"),
        ("html", "<title" * 1000, ""),
        ("text", "# no", ""),
    ],
)
def test_titles(format: str, text: str, title: str) -> None:
    assert title_of(text, format) == title


def test_excerpts_mark_words_and_escape_the_rest() -> None:
    text = "x " * 300 + "<b>Straße</b> and STRASSE " + "y " * 300
    marked = excerpt(text, ["straße"])
    assert "&lt;b&gt;<mark>Straße</mark>" in marked
    assert marked.startswith("…")
    assert marked.endswith("…")
    assert excerpt("<i>", []) == "&lt;i&gt;"
    assert excerpt("a.b", ["."]) == "a<mark>.</mark>b"


def test_folding() -> None:
    assert fold("STRASSE") == fold("straße")
    assert fold("E\u0301") == fold("\u00e9")


def test_plain_text_of_html() -> None:
    assert plain_text("<p>a &amp; b<script>x</script></p>", "html") == "a & b"
    assert plain_text("<p>", "markdown") == "<p>"


def test_docutils_is_imported_for_the_first_document_that_needs_it(tmp_path: Path) -> None:
    """It takes a quarter of the start. The home page needs the parser of Markdown, and no visitor waits for it."""
    ini = Path(__file__).parents[2] / "etc" / "deploy.ini"
    code = f"""
import sys
from pipeline.paste import load
load("config:{ini}", zodb_uri="memory://", session_keys="{tmp_path}/keys")
print(*(name for name in ("docutils", "markdown_it") if name in sys.modules))
"""
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=60)
    assert ran.stdout == "markdown_it\n", ran.stderr
