"""Answers of a site before and after, compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from itertools import zip_longest
from typing import Any

Answer = Mapping[str, Any]
"""Status, headers, body and time, as ``asking`` writes them down."""

OF_EACH_ANSWER = frozenset(("date", "server", "content-length"))
"""Headers that are not compared. The length follows from the body."""
DATES = frozenset(("expires", "last-modified"))
"""Headers that may be made of the time of the answer."""
TOLERANCE = 5
"""Seconds by which a date may be nearer to its answer, or farther from it, than in the other answer."""


def differences(before: Sequence[Answer], after: Sequence[Answer]) -> Iterator[str]:
    """Yield in words how two answers to one request differ.

    before, after  two answers each: what changes from one to the next, such as a token, is not compared
    """
    old, new = before[0], after[0]
    if old["status"] != new["status"]:
        yield f"the status was {old['status']}, and is {new['status']}"
        return
    olds, news = stable_headers(before), stable_headers(after)
    for name in sorted(olds.keys() | news.keys()):
        one, other = olds.get(name, "not there"), news.get(name, "not there")
        if one == other or None in (one, other):
            continue
        if name not in DATES or not is_as_far(one, before, other, after):
            yield f"the header {name} was {one}, and is {other}"
    for number, (one, other) in enumerate(zip_longest(stable_lines(before), stable_lines(after), fillvalue=""), 1):
        if one != other and None not in (one, other):
            yield f"line {number} of the body was {one!r:.200}, and is {other!r:.200}"
            return


def is_as_far(one: Any, before: Sequence[Answer], other: Any, after: Sequence[Answer]) -> bool:
    """Return whether a date is as far from its answer as another date is from its own."""
    try:
        old, new = (parsedate_to_datetime(date).timestamp() for date in (one, other))
    except ValueError:  # "not there", "0"
        return False
    return bool(abs((old - before[0]["time"]) - (new - after[0]["time"])) <= TOLERANCE)


def stable_headers(answers: Sequence[Answer]) -> dict[str, str | None]:
    """Return the headers of an answer; None for one that changes. A cookie is known by its name."""
    one, other = ({name.lower(): value for name, value in answer["headers"]} for answer in answers)
    cookies = [cookies_of(answer) for answer in answers]
    found: dict[str, str | None] = {
        name: value if other.get(name) == value else None
        for name, value in one.items()
        if name not in OF_EACH_ANSWER and name != "set-cookie"
    }
    if cookies[0]:
        found["set-cookie"] = cookies[0] if cookies[0] == cookies[1] else None
    return found


def cookies_of(answer: Answer) -> str:
    """Return the names of the cookies that an answer sets."""
    return " ".join(sorted(value.partition("=")[0] for name, value in answer["headers"] if name == "Set-Cookie"))


def stable_lines(answers: Sequence[Answer]) -> list[str | None]:
    """Return the lines of a body; None for one that changes."""
    one, other = (answer["body"].splitlines() for answer in answers)
    return [line if line == again else None for line, again in zip_longest(one, other, fillvalue="")]
