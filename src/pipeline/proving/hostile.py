"""Values of a visitor that do harm where a site does not guard against them."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

from pipeline.staging.runs import Run

MARK = "'\" prove=1 <i prove>"
"""A value that is markup in a text, in an attribute with and without quotes, and in a string of a script."""
SCRIPT = "javascript:prove()"
"""A value that is a script where it is an address."""
HOSTILE = (MARK, SCRIPT, "ž\r\nprove")
"""The last one is what no header may have."""
FILES = (("", ""), ("../prove.txt", "prove"), ("prove.txt", ""), ("ž.txt", "prove"), ("prove", "prove"))
"""Files of a form: their names and contents. A browser sends the first one if no file was chosen."""
VALUES: tuple[Any, ...] = (None, [], {}, "", "prove", "x" * 1500, -1, 1.5, 10**30, True)
"""Values of JSON, which has types that a form has not."""
ADDRESSES = ("href", "src", "action", "formaction", "data")
OPEN = re.compile(r"""(?<!\\)'" prove=1""")
"""The mark in a script, with quotes that are not escaped."""


class Markup(HTMLParser):
    """Looks for values that have become markup."""

    found = in_script = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.in_script = tag == "script"
        for name, value in attrs:
            text = value or ""
            self.found |= name == "prove" or (name[:2] == "on" and OPEN.search(text) is not None)
            self.found |= name in ADDRESSES and text.strip().startswith(SCRIPT)

    def handle_data(self, data: str) -> None:
        self.found |= self.in_script and OPEN.search(data) is not None


def is_markup(run: Run) -> bool:
    """Return whether a value of a visitor is markup, or a script, on the page of an answer."""
    if "html" not in run.header("Content-Type") or not re.search(rb"prove(=1|\(\))", run.body):
        return False
    page = Markup()
    page.feed(run.body.decode("utf-8", "replace"))
    page.close()
    return page.found or MARK.encode() in run.body
