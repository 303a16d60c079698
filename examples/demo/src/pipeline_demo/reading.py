"""Make the clean HTML of a document easy to read: coloured code, an outline, and parts that scroll by keyboard."""

from __future__ import annotations

import re
from collections import Counter
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from markupsafe import Markup

from pipeline.options import on_demand

if TYPE_CHECKING:
    from pipeline_demo.colours import coloured
else:  # Pygments is imported for the first code with a language
    coloured = on_demand("pipeline_demo.colours:coloured")

SHORTEST = 4
"""Headings of the shortest document that gets an outline."""
LONGEST = 100
"""Headings of an outline."""

_ATTRIBUTES = r'(?: [\w-]+="[^"]*")*'
_PRE = re.compile(rf"<pre({_ATTRIBUTES})>(.*?)(?:</pre>|\Z)", re.DOTALL)  # \Z keeps the time linear (S12)
_CODE = re.compile(rf"(?:<code({_ATTRIBUTES})>)?([^<]*)(?:</code>)?")
_CLASS = re.compile(r'class="(?:language-)?([^" ]*)')
_ID = re.compile(r'id="([^"]+)"')
_HEADING = re.compile(r'(<section id="([^"]+)">\s*)?<h([1-6])(?: id="([^"]+)")?>(.*?)(?:</h\3>|\Z)', re.DOTALL)
_IMAGE = re.compile(r"<img ([^>]*+)")
_ALT = re.compile(r"\balt=")
_EMPTY = re.compile(rf"<th({_ATTRIBUTES})>(?:\s|</?p>)*+</th>")
_TAG = re.compile(r"<[^>]*+>?+")


class Heading(NamedTuple):
    """A line of the outline."""

    level: int
    id: str
    text: Markup


class Readable(NamedTuple):
    """The HTML of a document, and its outline. The outline of a short document is empty."""

    html: Markup
    outline: list[Heading]


def readable(html: str) -> Readable:
    """Return clean HTML with colours, regions and ids, and the outline of its headings."""
    outline: list[Heading] = []
    numbers, tables = count(1), count(1)
    used, repeated = set(_ID.findall(html)), Counter[str]()
    level = 1

    def pre(found: re.Match[str]) -> str:
        attributes, inner = found.groups()
        language = ""
        if code := _CODE.fullmatch(inner):
            named = _CLASS.search(code[1] or attributes)
            language = named[1] if named else ""
            inner = f"<code>{coloured(code[2], language) if language else code[2]}</code>"
        id = _ID.search(attributes)
        label = f"Code {next(numbers)}{language and f', {language}'}"
        return f'<pre{f" {id[0]}" if id else ""} tabindex="0" role="region" aria-label="{label}">{inner}</pre>'

    def heading(found: re.Match[str]) -> str:
        nonlocal level
        level = min(int(found[3]), level + 1)  # a screen reader expects that no level is left out
        text = Markup(" ".join(_TAG.sub("", found[5]).split()))
        id = found[2] or found[4]
        attribute = f' id="{id}"' if found[4] else ""
        if not id:
            id = base = "text-" + ("-".join(re.findall(r"\w+", text.unescape().casefold())) or "part")
            while id in used:
                repeated[base] += 1
                id = f"{base}-{repeated[base] + 1}"
            used.add(id)
            attribute = f' id="{id}"'
        if level in (2, 3) and len(outline) < LONGEST:
            outline.append(Heading(level, id, text))
        return f"{found[1] or ''}<h{level}{attribute}>{found[5]}</h{level}>"

    def table(found: re.Match[str]) -> str:
        return f'<div class="scroll" tabindex="0" role="region" aria-label="Table {next(tables)}"><table>'

    html = _HEADING.sub(heading, _PRE.sub(pre, html))
    html = re.sub("<table>", table, html).replace("</table>", "</table></div>")
    html = _EMPTY.sub(r"<td\1></td>", html)  # a screen reader announces headers
    html = _IMAGE.sub(lambda found: found[0] if _ALT.search(found[1]) else f'<img alt="" {found[1]}', html)
    return Readable(Markup(html), outline if len(outline) >= SHORTEST else [])
