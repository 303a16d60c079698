"""The findings of ``pipeline check``, for people and for programs."""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from pipeline.ini import place_of_value
from pipeline.telling.errors import in_one_line
from pipeline.telling.words import OUR_CODE, bold, line_of_the_site, texts_of

Level: TypeAlias = Literal["error", "warning", "note"]
"""error: the site does not load, or fails when it is used; warning: it is not safe, or not what was meant."""


TEXTS = texts_of(Path(__file__).with_suffix(".toml"))
"""The level, the words and the remedy of findings, by what they tell of."""


class Finding(NamedTuple):
    """One thing that is wrong, or that the owner of a site may want to know."""

    level: Level
    where: str
    """``file, section [...], line N``, as exactly as can be told."""
    what: str
    remedy: str = ""

    @classmethod
    def of(cls, name: str, where: str, /, **values: object) -> Finding:
        """Return the finding with the words of that name, and these values in them."""
        told: dict[str, Any] = {key: text.format(**values) for key, text in TEXTS[name].items()}
        return cls(where=where, **told)

    def as_dict(self) -> dict[str, object]:
        """Return the finding for JSON."""
        line = re.search(r"line (\d+)$", self.where)
        section = re.search(r"section \[([^][]++)\]", self.where)
        return {
            "level": self.level,
            "file": self.where.partition(", ")[0],
            "section": section and section[1],
            "line": int(line[1]) if line else None,
            "what": self.what,
            "remedy": self.remedy,
        }


def of_error(error: BaseException, ini: str) -> Finding:
    """Return the finding that says why something does not load."""
    if isinstance(error, SyntaxError):
        return Finding("error", f"{error.filename}, line {error.lineno}", f"SyntaxError: {error.msg}", "")
    said = in_one_line(error)
    if isinstance(error, UnicodeDecodeError):
        return Finding("error", place_of_latin(ini), said)
    place = re.match(r"(?P<where>\S[^:]*?(?:, section \[[^][]++\])?, line \d+): (?P<what>.*)", said, re.DOTALL)
    if place:
        return Finding("error", place["where"], place["what"])
    if isinstance(error, ModuleNotFoundError):
        return Finding("error", place_of_element(error, ini), said)
    line = line_of_the_site(error)
    if line and not isinstance(error, (LookupError, OSError)):
        return Finding("error", line, said)
    return Finding("error", ini, said)


def place_of_latin(ini: str) -> str:
    """Return the place of the first line of an ini that is not UTF-8; the ini if it is in another file."""
    for number, line in enumerate(Path(ini).read_bytes().splitlines(), 1):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError:
            return f"{ini}, line {number}"
    return ini


def place_of_element(error: BaseException, ini: str) -> str:
    """Return the place of the element of ours whose import has raised an error; the ini if it is not one."""
    files = [Path(frame.filename) for frame in traceback.extract_tb(error.__traceback__)]
    names = (file.stem for file in reversed(files) if file.parent == Path(OUR_CODE, "elements"))
    return place_of_value(ini, f"egg:wsgi-pipeline#{next(names, '')}")


def put_findings(findings: Iterable[Finding]) -> None:
    """Print findings, errors first."""
    for finding in findings:
        print(f"{bold(finding.level)}: {finding.what}")
        print(f"    in {finding.where}")
        if finding.remedy:
            print(f"    {finding.remedy}")


def put_json(value: object) -> None:
    """Print a value as JSON."""
    print(json.dumps(value, indent=2, ensure_ascii=False, default=str))
