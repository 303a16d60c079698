"""Documents that are easy to read: colours, outline, and parts that scroll by keyboard."""

from __future__ import annotations

import re
import time

import pytest
from html5lib import HTMLParser

from pipeline_demo.colours import LONGEST as LONGEST_CODE
from pipeline_demo.models import FORMATS
from pipeline_demo.reading import LONGEST, readable
from pipeline_demo.text import LANGUAGES, to_html


def read(text: str, format: str = "markdown") -> str:
    return str(readable(to_html(text, format)).html)


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("markdown", "```python\ndef f(): pass\n```"),
        ("rst", ".. code-block:: python\n\n    def f(): pass"),
        ("html", '<pre><code class="language-python">def f(): pass</code></pre>'),
    ],
)
def test_code_is_coloured(format: str, text: str) -> None:
    html = read(text, format)
    assert '<span class="k">def</span>' in html and '<span class="nf">f</span>' in html
    assert '<pre tabindex="0" role="region" aria-label="Code 1, python"><code>' in html


@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_every_language_is_known(language: str) -> None:
    assert f"Code 1, {language}" in read(f"```{language}\nx = 1\n```")


@pytest.mark.parametrize("language", ["unknown", 'python"><script>', "none"])
def test_code_of_an_unknown_language_stays_plain(language: str) -> None:
    html = read(f"```{language}\ndef f(): pass\n```")
    assert "<code>def f(): pass\n</code>" in html and 'aria-label="Code 1"' in html


@pytest.mark.parametrize("language", ["python", "html", "bash", "jinja", "unknown", ""])
@pytest.mark.parametrize(
    "code", ["<script>alert(1)</script>", '&lt;b&gt; & "quoted" \'', "</code></pre><img src=x>"]
)
def test_coloured_code_is_escaped__S7(language: str, code: str) -> None:
    html = read(f"```{language}\n{code}\n```")
    assert "<script" not in html and "<img" not in html
    shown = HTMLParser(strict=True).parseFragment(html)
    assert "".join(shown.itertext()).strip() == code


def test_very_long_code_is_not_coloured__S12() -> None:
    assert "<span" not in read(f"```python\n{'x = 1;' * (LONGEST_CODE // 6 + 1)}\n```")


def test_tables_and_code_scroll_by_keyboard() -> None:
    html = read("| a |\n|---|\n| 1 |\n\n    code\n\n| b |\n|---|\n\n<pre>with <b>markup</b></pre>")
    for label in ("Table 1", "Table 2", "Code 1", "Code 2"):
        assert f'tabindex="0" role="region" aria-label="{label}"' in html, "each has a label of its own"
    assert "<b>markup</b>" in html
    assert html.count("<div") == html.count("</div>") == 2


def test_an_image_without_a_text_is_decoration() -> None:
    html = read('<img src="a.png"><img alt="A" src="b.png">', "html")
    assert re.findall('alt="(.*?)"', html) == ["", "A"]


def test_an_empty_cell_is_not_a_header() -> None:
    html = read("<table><tr><th colspan='2'> <p></p></th><th>a</th></tr></table>", "html")
    assert '<td colspan="2"></td><th>a</th>' in html


LONG = "# Title\n\n## One & two\n\n### A `code`\n\n## <b>Three</b>\n\n## Three\n\n#### Deep\n\n## ...\n"


def test_a_long_document_has_an_outline() -> None:
    html, outline = readable(to_html(LONG, "markdown", "Title"))
    assert [(heading.level, heading.id, heading.text) for heading in outline] == [
        (2, "text-one-two", "One &amp; two"),
        (3, "text-a-code", "A code"),
        (2, "text-three", "Three"),
        (2, "text-three-2", "Three"),
        (3, "text-deep", "Deep"),
        (2, "text-part", "..."),
    ]
    for heading in outline:
        assert html.count(f'id="{heading.id}"') == 1
    assert '<h3 id="text-deep">' in html, "no level is left out"


def test_the_outline_of_rst_leads_to_its_sections() -> None:
    text = "".join(f"{name}\n=====\n\n" for name in ("Title", "One", "Two"))
    text += "".join(f"{name}\n-----\n\n" for name in ("Three", "Four", "Five", "Six"))
    html, outline = readable(to_html(text, "rst", "Title"))
    assert [heading.id for heading in outline] == ["text-three", "text-four", "text-five", "text-six"]
    assert '<section id="text-three">' in html


def test_a_short_document_has_no_outline() -> None:
    assert readable(to_html("## One\n\n## Two\n\n## Three", "markdown")).outline == []


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    "text", ["## a\n\n", "<pre>", "<h2>", "<table>", "<h2>a</h2>", "<th> ", "```python\n```\n", "<img>"]
)
def test_much_of_one_kind_takes_no_time__S12(format: str, text: str) -> None:
    html = to_html(text * 3000, format)
    began = time.process_time()
    found = readable(html)
    assert time.process_time() - began < 2
    assert len(found.outline) <= LONGEST
