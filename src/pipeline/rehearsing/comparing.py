"""A rehearsal: the newest requests of visitors, answered by the code that is served now and by the new code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from pipeline.rehearsing.sides import Side, SideFailed
from pipeline.rehearsing.stage import CIRCLE, Answer, leads_nowhere
from pipeline.staging.asked import Logged
from pipeline.telling.secrets import masked_query

KEPT = (
    *("Content-Security-Policy", "X-Content-Type-Options", "X-Frame-Options", "Referrer-Policy"),
    *("Strict-Transport-Security", "Cross-Origin-Opener-Policy", "Cross-Origin-Resource-Policy"),
    *("Permissions-Policy", "Content-Type", "Cache-Control", "ETag", "Location"),
)
"""The headers that an answer must not lose."""
SECRECY = ("private", "no-store")
"""The words of Cache-Control that an answer must not lose: a cache would give the page of one visitor to others."""
GONE = (404, 410)
HANGS = 5.0
"""Seconds after which a request without an answer is worse than one that was answered, when the budget is over."""


@dataclass
class Line:
    """One request of the log, and how it was answered."""

    logged: Logged
    old: Answer | None = None
    new: Answer | None = None
    worse: list[str] = field(default_factory=list)
    left: str = ""
    """The reason why it was not rehearsed, or not to its end."""
    note: str = ""
    milliseconds: list[float] = field(default_factory=list)
    """The medians of the old and the new code, or of the new code alone."""

    @property
    def before(self) -> int | None:
        """The status that the request had."""
        return self.logged.status if self.old is None else self.old.status

    @property
    def verdict(self) -> str:
        """A word for the line."""
        return "WORSE" if self.worse else "left" if self.left else "same"

    def as_dict(self) -> dict[str, Any]:
        """Return the line for JSON."""
        asked = self.logged.asked
        return {
            "verdict": self.verdict,
            "method": asked.method,
            "url": masked_query(asked.url),
            "user": asked.user or None,
            "view": self.logged.view,
            "logged": self.logged.status,
            "before": self.before,
            "after": None if self.new is None else self.new.status,
            "worse": self.worse,
            "causes": [] if self.new is None else list(self.new.causes),
            "left": self.left,
            "note": self.note,
            "milliseconds": self.milliseconds,
        }


@dataclass
class Rehearsal:
    """The requests that were rehearsed, and why the rest was not."""

    lines: list[Line]
    failed: str = ""
    """Why the new code could not go on: it does not load, or its process has ended."""
    note: str = ""
    seconds: float = 0.0

    @property
    def worse(self) -> list[Line]:
        """The requests whose answer got worse."""
        return [line for line in self.lines if line.worse]

    @property
    def left(self) -> list[Line]:
        """The requests that were not rehearsed to their end."""
        return [line for line in self.lines if line.left and not line.worse]

    @property
    def exit_status(self) -> int:
        """0 nothing is worse, 1 an answer got worse, 3 not every request could be rehearsed."""
        return 1 if self.worse or self.failed else 3 if self.left else 0

    def as_dict(self) -> dict[str, Any]:
        """Return the rehearsal for JSON."""
        return {
            "requests": [line.as_dict() for line in self.lines],
            "kinds": len({line.logged.kind for line in self.lines}),
            "worse": len(self.worse),
            "left": len(self.left),
            "failed": self.failed,
            "note": self.note,
            "seconds": self.seconds,
            "exit_status": self.exit_status,
        }


def newest(logged: Iterable[Logged], each: int) -> list[Logged]:
    """Return the newest requests of each kind, the newest first.

    An earlier answer to the same request is left out: its page may have changed since.

    each  number of URLs of a kind
    """
    last: dict[tuple[str, str, str | None], Logged] = {}
    for one in logged:
        key = one.asked.method, one.asked.url, one.asked.user
        last.pop(key, None)
        last[key] = one
    found: dict[tuple[str, str, int], list[Logged]] = {}
    for one in reversed(last.values()):
        of_kind = found.setdefault(one.kind, [])
        if len(of_kind) < each:
            of_kind.append(one)
    rows = list(found.values())
    return [row[number] for number in range(each) for row in rows if number < len(row)]


def as_nobody(requests: Iterable[Logged]) -> Iterator[Logged]:
    """Yield what users have asked for once more, as a visitor without a login asks for it, one for each view. The
    requests of users who have a permission do not tell that it is gone."""
    found = {(one.asked.method, one.view): one for one in requests if one.asked.user}
    for one in found.values():
        yield one._replace(asked=one.asked._replace(user=""))


def rehearse(
    requests: Sequence[Logged],
    new: Side,
    old: Side | None = None,
    *,
    ends: float | None = None,
    slower: float = 2.0,
    floor: float = 50.0,
) -> Rehearsal:
    """Have both sides answer the requests, and judge the answers.

    old     the code that is served now; without it, the status of the log is compared
    ends    the time of ``time.monotonic`` at which the budget is over
    slower  a request is slower if the new code takes more than this many times as long,
    floor   and also more than this many milliseconds longer
    """
    rehearsal = Rehearsal([Line(logged, left="the budget was over") for logged in requests])
    until = float("inf") if ends is None else ends
    began = monotonic()
    line = None
    try:
        for line in rehearsal.lines:
            if (began := monotonic()) > until:
                break
            asked, status = line.logged.asked, line.logged.status
            line.old = None if old is None else old.answer(asked, status)
            began = monotonic()
            line.new = new.answer(asked, status if line.old is None else line.old.status or 500)
            line.left = left_out(line)
            if not line.left:
                line.worse = list(worse(status, line.old, line.new))
        if old is not None:
            for line in timed(rehearsal.lines):
                if monotonic() > until:
                    break
                compare_times(line, old, new, until, slower, floor)
    except TimeoutError:
        if line is not None and line.new is None and monotonic() - began > HANGS and (line.old or old is None):
            line.worse.append(f"no answer after {monotonic() - began:.0f} s")
    except SideFailed as error:
        if line is None or (old is not None and line.old is None):
            raise
        line.worse.append(str(error))
        rehearsal.failed = str(error)
    if old is None:
        pardon_gone(rehearsal.lines)
    return rehearsal


def timed(lines: Sequence[Line]) -> list[Line]:
    """Return the requests whose time and links are to be compared, marked as left until that is done."""
    rows = [line for line in lines if line.new is not None and not line.left and not line.worse]
    for line in rows:
        line.left = "the budget was over before its time and links were compared"
    return rows


def compare_times(line: Line, old: Side, new: Side, until: float, slower: float, floor: float) -> None:
    """Compare how long a request takes, and the links of its page. What looks slow is measured once more."""
    for _ in range(2):
        seconds = max(0.0, (until - monotonic()) / 2)
        before, after = (side.measure(line.logged.asked, seconds) for side in (old, new))
        line.milliseconds = [round(one.seconds * 1000, 1) for one in (before, after)]
        longer = after.seconds - before.seconds
        is_slower = after.seconds > slower * before.seconds and longer > floor / 1000
        if not is_slower or not (before.is_complete and after.is_complete):
            break
    lost = [url for url in after.broken if url not in before.broken]
    line.worse += [f"the link {url} leads to {after.broken[url]}" for url in lost if before.is_complete]
    if not (before.is_complete and after.is_complete):
        return
    line.left = ""
    if is_slower:
        line.worse.append(f"it takes {line.milliseconds[1]} ms instead of {line.milliseconds[0]} ms")


def left_out(line: Line) -> str:
    """Return why a request cannot be judged, or ""."""
    answers = [one for one in (line.old, line.new) if one is not None]
    for answer in answers:
        if answer.left:
            return answer.left
    if line.old is not None and line.logged.status < 500 and all((one.status or 500) >= 500 for one in answers):
        return f"both answer {line.old.status or 'nothing'}, and visitors got {line.logged.status}"
    return ""


def worse(logged: int, old: Answer | None, new: Answer) -> Iterator[str]:
    """Yield what got worse."""
    before = (logged if old is None else old.status) or 500
    after = new.status or 500
    if new.broken_by and not (old is not None and old.broken_by):
        yield f"{new.broken_by} reaches the server"
    if after // 100 > before // 100:
        yield f"{after} instead of {before}"
        return
    if is_refused(before, old) and after < 300:
        yield f"{after} instead of {before}: what was refused is open"
        return
    if new.leads_to == CIRCLE and not (old is not None and old.leads_to == CIRCLE):
        yield f"its redirect to {new.header('Location')} leads in a circle"
    if new.attempts > (1 if old is None else old.attempts):
        yield f"{new.attempts} attempts"
    if old is not None and after // 100 == before // 100:
        yield from worse_headers(old, new)


def is_refused(status: int, old: Answer | None) -> bool:
    """Return whether a visitor was refused, be it by a redirect to the login page."""
    to_login = old is not None and status // 100 == 3 and "came_from=" in old.header("Location")
    return status in (401, 403) or to_login


def worse_headers(old: Answer, new: Answer) -> Iterator[str]:
    """Yield what got worse in the headers and the body of two answers of one class."""
    for name in KEPT:
        if old.header(name) and not new.header(name):
            yield f"the header {name} is gone"
    if old.size and not new.size and new.status != 304:
        yield "the body is empty"
    for name, part in (("Content-Type", media_type), ("Location", place)):
        was, now = part(old.header(name)), part(new.header(name))
        if was and now and was != now:
            yield f"{name} is {now} instead of {was}"
    control = new.header("Cache-Control")
    lost = [word for word in SECRECY if word in old.header("Cache-Control")]
    if control and lost and not any(word in control for word in SECRECY):
        yield f"Cache-Control is {control} instead of {old.header('Cache-Control')}"
    ends = new.leads_to
    if ends is not None and ends != CIRCLE and leads_nowhere(ends) and not leads_nowhere(old.leads_to or 200):
        yield f"its redirect to {new.header('Location')} leads to {ends}"


def media_type(text: str) -> str:
    """Return the media type of a Content-Type, without parameters."""
    return text.partition(";")[0].strip().lower()


def place(text: str) -> str:
    """Return a Location without its query, which may have a token."""
    parts = urlsplit(text)
    return f"{parts.netloc}{parts.path}"


def pardon_gone(lines: Sequence[Line]) -> None:
    """Pardon a 404 if another request of its kind is as good as it was.

    The log does not tell that an object was deleted since. The old code would, and have a 404 itself.
    """
    good = {line.logged.kind for line in lines if line.new is not None and not line.worse and not line.left}
    for line in lines:
        is_gone = line.new is not None and line.new.status in GONE and line.logged.status < 400
        if is_gone and line.logged.kind in good:
            line.worse.clear()
            line.note = f"it is {line.new.status if line.new else 404} now, and others of its view are not"
