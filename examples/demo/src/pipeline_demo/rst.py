"""Convert reStructuredText to HTML, without reading files, allowing raw HTML or using Sphinx.

Documentation is written for Sphinx, whose directives and roles docutils does not have. Nothing of it is lost: links
to other documents and tables of contents become links, an unknown directive is shown as it was written, and an
unknown role shows its text.
"""

from __future__ import annotations

import re

from docutils import nodes
from docutils.core import publish_doctree, publish_parts
from docutils.io import DocTreeInput
from docutils.readers.doctree import Reader
from docutils.writers.html5_polyglot import Writer

_LINE = 10_000
"""Upper limit of the characters of a line. docutils drops a text with a longer line."""
_BLOCK = 20_000
"""Upper limit of the characters of a paragraph. docutils takes time by the square of them."""

_SETTINGS = {
    "_disable_config": True,  # a docutils.conf in the current directory is not ours
    "doctitle_xform": False,
    "exit_status_level": 5,
    "file_insertion_enabled": False,
    "halt_level": 5,
    "initial_header_level": 1,
    "line_length_limit": _LINE,
    "math_output": "LaTeX",
    "raw_enabled": False,
    "report_level": 5,
    "smart_quotes": False,
    "syntax_highlight": "none",
}
_ROLE = re.compile(r":(?P<role>[\w:+.-]+):`(?P<text>[^`]*)`")
_TITLE_AND_TARGET = re.compile(r"(?P<title>.*[^\s<])\s*<(?P<target>[^<>]+)>")


def rst_html(text: str) -> str:
    """Return the HTML of the body. Raise ValueError if a line or a paragraph is too long for docutils."""
    if any(len(line) > _LINE for line in text.splitlines()):
        raise ValueError(f"a line has more than {_LINE} characters")
    if any(len(block) > _BLOCK for block in text.split("\n\n")):
        raise ValueError(f"a paragraph has more than {_BLOCK} characters")
    document = publish_doctree(text, settings_overrides=dict(_SETTINGS))
    for problem in list(document.findall(nodes.problematic)):
        problem.parent.replace(problem, _role(problem.astext()))
    for message in list(document.findall(nodes.system_message)):
        _show_directive(message)
    for literal in document.findall(nodes.literal):
        literal["classes"].append("code")  # makes docutils write <code>, not a <span>
    parts = publish_parts(
        document,
        source_class=DocTreeInput,
        reader=Reader(),
        writer=Writer(),
        settings_overrides=dict(_SETTINGS),
    )
    return str(parts["body"])


def _role(source: str) -> nodes.Node:
    """Return the replacement for markup that docutils did not understand, such as ``:doc:`design```."""
    found = _ROLE.fullmatch(source)
    if found is None:
        return nodes.Text(source)
    title, target = _title_and_target(found["text"])
    if found["role"] == "doc":
        return _link(title, target)
    return nodes.literal("", title.lstrip("~!"))


def _show_directive(message: nodes.system_message) -> None:
    """Replace a message by the directive that it is about."""
    source = next(iter(message.findall(nodes.literal_block)), None)
    if source is None:
        message.parent.remove(message)
    elif source.astext().startswith(".. toctree::"):
        message.parent.replace(message, _contents(source.astext()))
    else:
        message.parent.replace(message, nodes.literal_block("", source.astext()))


def _contents(directive: str) -> nodes.Node:
    entries = [line.strip() for line in directive.splitlines()[1:]]
    links = nodes.bullet_list()
    for entry in entries:
        if entry and not entry.startswith(":") and "*" not in entry:
            links += nodes.list_item("", nodes.paragraph("", "", _link(*_title_and_target(entry))))
    return links if len(links) else nodes.comment()


def _title_and_target(text: str) -> tuple[str, str]:
    if found := _TITLE_AND_TARGET.fullmatch(text):
        return found["title"], found["target"]
    return text, text


def _link(title: str, target: str) -> nodes.Node:
    uri = target if "://" in target else f"{target}.rst"
    return nodes.reference("", title, refuri=uri)
