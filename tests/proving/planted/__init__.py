"""Six sites without a bug, and the bugs of real teams that are planted into them (``bugs.txt``).

Each bug of the file is one change: ``=== site | kind | name | a part of what is said``, what is replaced, ``--->``,
and by what.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent


class Bug(NamedTuple):
    """One bug."""

    site: str
    kind: str
    name: str
    said: str
    """A part of the finding."""
    old: str
    new: str

    def planted(self) -> str:
        """Return the module of the site with the bug."""
        text = (HERE / f"{self.site}.py").read_text()
        assert text.count(self.old) == 1, self
        return text.replace(self.old, self.new)


def bugs() -> list[Bug]:
    """Return the bugs of the file."""
    found = []
    for block in (HERE / "bugs.txt").read_text().split("=== ")[1:]:
        head, _, change = block.partition("\n")
        old, _, new = change.partition("\n--->\n")
        site, kind, name, said = (word.strip() for word in head.split("|"))
        found.append(Bug(site, kind, name, said, old, new.removesuffix("\n")))
    return found


BUGS = bugs()
