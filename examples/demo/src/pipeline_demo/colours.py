"""Colour the syntax of code by Pygments. The colours stand in site.css, light and dark."""

from __future__ import annotations

import html

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

LONGEST = 20_000
"""Characters of the longest code that is coloured. Some lexers take more than linear time (S12)."""

_FORMATTER = HtmlFormatter(nowrap=True)


def coloured(escaped: str, language: str) -> str:
    """Return code, as it stands in HTML, with classes for its tokens."""
    if len(escaped) > LONGEST:
        return escaped
    lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    return str(highlight(html.unescape(escaped), lexer, _FORMATTER))
