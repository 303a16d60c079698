"""Convert the text of a document to HTML that is safe to show, and to excerpts for a search.

The HTML of every format is cleaned by nh3, which allows only the tags, attributes and URL schemes below. So a
document can neither run scripts nor imitate a part of the page around it.
"""

from __future__ import annotations

import difflib
import html
import re
import unicodedata
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import nh3
from markdown_it import MarkdownIt
from markupsafe import Markup

from pipeline.options import on_demand
from pipeline_demo.models import Document
from pipeline_demo.reading import Readable, readable

if TYPE_CHECKING:
    from pipeline_demo.rst import rst_html
else:  # the first document in this format imports its parser: docutils alone takes as long as the demo
    rst_html = on_demand("pipeline_demo.rst:rst_html")

_TAGS = nh3.ALLOWED_TAGS | {"aside", "figure", "figcaption", "section"}
LANGUAGES = {
    *("bash", "c", "console", "css", "diff", "docker", "go", "html", "html+jinja", "http", "ini", "java"),
    *("javascript", "jinja", "json", "make", "nginx", "python", "rst", "rust", "sh", "shell", "sql", "toml"),
    *("typescript", "xml", "yaml"),
}
"""Languages whose code is coloured."""
_CLASSES = {tag: {"admonition", "admonition-title", "line-block", "line"} for tag in ("aside", "div", "p")}
_CLASSES |= {"code": {f"language-{language}" for language in LANGUAGES}, "pre": LANGUAGES}
_ATTRIBUTES = {
    **{tag: set(names) for tag, names in nh3.ALLOWED_ATTRIBUTES.items()},
    "*": {"id", "lang", "title"},
    "ol": {"start"},
}
MAX_DIFF = 2000
"""Upper limit of the lines of a text for which a difference is shown. It takes time by their square."""
_ID = "text-"
"""Prefix of every id in a document, so that it differs from the ids of the page around it."""


def _own_fragments(tag: str, attribute: str, value: str) -> str | None:
    """Change links within the document to the new ids."""
    return f"#{_ID}{value[1:]}" if attribute == "href" and value.startswith("#") else value


_CLEANER = nh3.Cleaner(
    tags=_TAGS,
    attributes=_ATTRIBUTES,
    attribute_filter=_own_fragments,
    allowed_classes=_CLASSES,
    id_prefix=_ID,
    url_schemes={"http", "https", "mailto"},
)
_RULE = re.compile(r"([=~^#*+`._-])\1{2,}|``")


@cache
def _markdown_parser() -> Any:
    """Return the parser of Markdown. It lets raw HTML through, because its output is cleaned in any case."""
    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


def document_html(document: Document) -> Readable:
    """Return the document as HTML, with its outline. Each connection makes it once, and keeps it until the document
    changes."""
    text, format = document.text, document.format
    kept = getattr(document, "_v_html", None)
    if kept is None or kept[0] is not text or kept[1] != format:
        kept = document._v_html = (text, format, readable(to_html(text, format, document.title)))
    return kept[2]


def to_html(text: str, format: str, title: str = "") -> Markup:
    """Return safe HTML of a text in one of the FORMATS, without its first heading if that is the title.

    A text that its parser cannot handle is shown as it was written.
    """
    try:
        dirty = _RENDERERS[format](text)
    except Exception:  # deep nesting causes a RecursionError, and parsers may have other errors
        dirty = _plain(text)
    clean = _CLEANER.clean(dirty)
    heading = re.match(r"(\s*(?:<section[^>]*>\s*)?)<h1[^>]*>(.*?)</h1>", clean, re.DOTALL)
    if heading and _bare(heading[2]) == " ".join(title.split()):
        clean = heading[1] + clean[heading.end() :]
    return Markup(clean)


def plain_text(text: str, format: str) -> str:
    """Return the text without tags and the rules under titles, for searching."""
    if format == "html":
        return html.unescape(nh3.clean(text, tags=set()))
    return text if format == "text" else _RULE.sub(" ", text)


def title_of(text: str, format: str) -> str:
    """Return the first heading of a text as one line, or an empty string."""
    if format == "html":
        for tag in ("title", "h1"):
            if opening := re.search(rf"<{tag}\b[^<>]*+>", text, re.IGNORECASE):
                closing = re.compile(f"</{tag}", re.IGNORECASE).search(text, opening.end())
                if closing:
                    return _bare(text[opening.end() : closing.start()])
        return ""
    lines = text.splitlines()[:200]
    for line, below in pairwise([*lines, ""]):
        if format == "markdown" and line.startswith("# "):
            return _bare(_markdown_parser().renderInline(line[2:].strip().rstrip("#")))
        if format in ("markdown", "rst") and _is_rule(below, format) and not _is_rule(line, format):
            return _bare(_markdown_parser().renderInline(line)) if format == "markdown" else line.strip()
    return ""


def _is_rule(line: str, format: str) -> bool:
    """Return whether ``line`` underlines a title."""
    line = line.rstrip()
    marks = "=" if format == "markdown" else "=-~^#*+\"'`.:_"
    return len(line) >= 3 and line[0] in marks and line == line[0] * len(line)


def difference(old: str, new: str) -> list[str] | None:
    """Return the lines that differ, in the form of ``diff -u``; None if the texts are too long to compare."""
    before, after = old.splitlines(), new.splitlines()
    if max(len(before), len(after)) > MAX_DIFF:
        return None
    return list(difflib.unified_diff(before, after, lineterm="", n=2))[2:]


def fold(text: str) -> str:
    """Return the text in the form for comparing: normal form, without case."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def excerpt(text: str, words: list[str], width: int = 200) -> Markup:
    """Return about ``width`` characters around the first of the folded ``words``, with all words marked."""
    text = " ".join(text.split())
    # Folding may change the length of a text, so the words are looked for in the text itself.
    pattern = re.compile("|".join(map(re.escape, words)), re.IGNORECASE) if words else None
    found = pattern.search(text) if pattern else None
    start = max(found.start() - width // 3, 0) if found else 0
    piece = text[start : start + width]
    if start:
        piece = "…" + piece[max(piece.find(" "), 0) :]
    if start + width < len(text):
        piece += "…"
    if pattern is None:
        return Markup.escape(piece)
    marked, end = Markup(), 0
    for match in pattern.finditer(piece):
        marked += piece[end : match.start()] + Markup("<mark>{}</mark>").format(match[0])
        end = match.end()
    return marked + piece[end:]


def _bare(markup: str) -> str:
    return " ".join(html.unescape(nh3.clean(markup, tags=set())).split())


def _plain(text: str) -> str:
    return f"<pre>{html.escape(text)}</pre>"


def _markdown(text: str) -> str:
    return str(_markdown_parser().render(text))


_RENDERERS: dict[str, Callable[[str], str]] = {
    "markdown": _markdown,
    "rst": rst_html,
    "html": str,
    "text": _plain,
}
