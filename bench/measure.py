"""Timing of several things in one process, in turn, so that what else the machine does is shared fairly."""

from __future__ import annotations

import gc
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

Environ = dict[str, Any]
App = Callable[[Environ, Any], Iterable[bytes]]

HEADERS = {
    "HTTP_HOST": "127.0.0.1:8080",
    "HTTP_USER_AGENT": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "HTTP_ACCEPT": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    "HTTP_ACCEPT_LANGUAGE": "en-US,en;q=0.5",
    "HTTP_ACCEPT_ENCODING": "gzip, deflate, br, zstd",
    "HTTP_CONNECTION": "keep-alive",
}


def environ(path: str, method: str = "GET", body: bytes = b"") -> Environ:
    """The environ that waitress hands an application for a browser's request."""
    from io import BytesIO, StringIO

    made: Environ = {
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": "",
        "PATH_INFO": path,
        "REQUEST_URI": path,
        "QUERY_STRING": "",
        "SERVER_NAME": "waitress.invalid",
        "SERVER_PORT": "8080",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "SERVER_SOFTWARE": "waitress",
        "REMOTE_ADDR": "127.0.0.1",
        "REMOTE_HOST": "127.0.0.1",
        "REMOTE_PORT": "50000",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": BytesIO(body),
        "wsgi.errors": StringIO(),
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
        "wsgi.input_terminated": True,
        **HEADERS,
    }
    if body:
        made["CONTENT_LENGTH"] = str(len(body))
        made["CONTENT_TYPE"] = "application/x-www-form-urlencoded"
    return made


def get(app: App, template: Environ) -> tuple[str, list[tuple[str, str]], bytes]:
    """One request, as a server makes it: status, headers, body."""
    answer: list[Any] = []

    def start_response(status: str, headers: list[tuple[str, str]], exc_info: object = None) -> Any:
        answer[:] = [status, headers]

    template["wsgi.input"].seek(0)
    result = app(template.copy(), start_response)
    try:
        body = b"".join(result)
    finally:
        if hasattr(result, "close"):
            result.close()
    return answer[0], answer[1], body


@dataclass
class Contender:
    """Something to be timed: an app, the request it gets, and how to tell that the app did its work."""

    name: str
    app: App
    request: Environ
    body: bytes | None = b"hello"
    """The answer that it must give, byte for byte; None where the answer changes."""
    ran: Callable[[], int] | None = None
    """How often the application's own code ran so far."""
    status: str = "200"


@dataclass(frozen=True)
class Figure:
    """Something measured several times: the least, the middle one, and what was found in each round."""

    least: float
    median: float
    rounds: tuple[float, ...] = ()

    @classmethod
    def of(cls, rounds: Iterable[float]) -> Figure:
        found = tuple(rounds)
        return cls(min(found), statistics.median(found), found)

    @classmethod
    def one_more(cls, many: Figure, few: Figure, number: float) -> Figure:
        """The cost of each of ``number`` more costs. The least of the differences would be one of noise."""
        return cls((many.least - few.least) / number, (many.median - few.median) / number)


@dataclass(frozen=True)
class Table:
    """Figures in rows and columns; the column of a table that has but one is named ""."""

    title: str
    unit: str
    rows: dict[str, dict[str, Figure]]
    by: str = "least"
    """"least" or "median": the value of a figure that counts."""
    base: str = ""
    """The row that the others are compared with, in a table with one column."""

    def value(self, row: str, column: str = "") -> float | None:
        """The value that counts; None if it was not measured."""
        figure = self.rows.get(row, {}).get(column)
        return None if figure is None else float(getattr(figure, self.by))

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys(column for row in self.rows.values() for column in row))


def flat(title: str, figures: Mapping[str, Figure], base: str = "", unit: str = "µs", by: str = "least") -> Table:
    """A table with one column, the fastest first."""
    more_is_better = unit == "requests/s"
    inorder = sorted(figures.items(), key=lambda item: float(getattr(item[1], by)), reverse=more_is_better)
    return Table(title, unit, {name: {"": figure} for name, figure in inorder}, by, base)


def _nothing(status: str, headers: Any, exc_info: object = None) -> None:
    """A start_response that costs as little as one can."""


def calls(app: App, template: Environ) -> Callable[[], None]:
    """A call of the app as a server makes it, less the sending."""

    rewind = template["wsgi.input"].seek if "CONTENT_LENGTH" in template else None

    def call() -> None:
        if rewind is not None:
            rewind(0)
        result = app(template.copy(), _nothing)
        for _block in result:
            pass
        close = getattr(result, "close", None)
        if close is not None:
            close()

    return call


def check(contender: Contender) -> None:
    """Refuse a contender that does not answer as it should: errors are fast."""
    before = contender.ran() if contender.ran else 0
    status, _, body = get(contender.app, contender.request)
    if not status.startswith(contender.status) or (contender.body is not None and body != contender.body):
        raise SystemExit(f"{contender.name} answered {status} {body[:200]!r}, not {contender.body!r}")
    if contender.ran and contender.ran() != before + 1:
        raise SystemExit(f"{contender.name} answered without running its application")


def compare(contenders: Sequence[Contender], rounds: int = 200, seconds: float = 0.01) -> dict[str, Figure]:
    """Microseconds for one request to each, in turn; to copy the environ is measured too, and taken off.

    Many short rounds: of these, the least is one in which nothing else ran.
    """
    for contender in contenders:
        check(contender)
    template = contenders[0].request
    timed: dict[str, Callable[[], object]] = {"": lambda: template.copy()}
    timed |= {contender.name: calls(contender.app, contender.request) for contender in contenders}
    counts = {name: _count(call, seconds) for name, call in timed.items()}
    found: dict[str, list[float]] = {name: [] for name in timed}
    before = {c.name: c.ran() for c in contenders if c.ran}
    gc.collect()
    for _ in range(rounds):
        for name, call in timed.items():
            found[name].append(_time(call, counts[name]))
    for contender in contenders:
        if contender.ran and contender.ran() - before[contender.name] != rounds * counts[contender.name]:
            raise SystemExit(f"{contender.name} did not run its application for every request")
    copying = min(found.pop(""))
    return {name: Figure.of(time - copying for time in times) for name, times in found.items()}


def _count(call: Callable[[], object], seconds: float) -> int:
    """How many calls fill a round."""
    count = 1
    while (taken := _time(call, count) * count / 1e6) < seconds / 4:
        count *= 2
    return max(1, int(count * seconds / taken))


def _time(call: Callable[[], object], count: int) -> float:
    """Microseconds for one of ``count`` calls."""
    steps = range(count)
    started = time.perf_counter()
    for _ in steps:
        call()
    return (time.perf_counter() - started) / count * 1e6


def machine() -> dict[str, Any]:
    """The machine on which the figures are taken."""
    model = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.processor(),
    )
    return {
        "python": platform.python_version(),
        "cpu": model,
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
        "versions": dict(_versions()),
    }


PACKAGES = ["WebOb", "zope.interface", "ZODB", "waitress", "gunicorn", "granian", "uWSGI", "wheezy.web"]
PACKAGES += ["falcon", "bottle", "Flask", "pyramid", "morepath", "CherryPy", "zope.publisher", "Zope"]


def _versions() -> Iterator[tuple[str, str]]:
    for name in PACKAGES:
        try:
            yield name, version(name)
        except PackageNotFoundError:
            pass


class Others:
    """The other work on this machine, between the making of this and ``percent``."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.before = self._seconds()

    def percent(self) -> int:
        """A share of the time of all processors."""
        taken = self._seconds() - self.before
        available = (time.monotonic() - self.began) * (os.cpu_count() or 1)
        return max(0, round(100 * taken / available))

    def _seconds(self) -> float:
        """All that is not idle and not waiting, less what this process and its children took."""
        for line in _lines("/proc/stat"):
            user, nice, system, _idle, _waiting, *more = map(int, line.split()[1:9])
            return (user + nice + system + sum(more)) / os.sysconf("SC_CLK_TCK") - sum(os.times()[:4])
        return 0.0


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


RESULTS = Path(__file__).parent / "results"
Result = dict[str, Table]
"""The findings of a suite: its tables, by a short name."""


REFERENCE = "3.11"
"""The version of Python whose figures are judged; those of others are kept beside them."""


def kept_as(suite: str, version: str = "") -> str:
    """Return the name under which the figures of a suite are kept, for this version of Python or another."""
    version = version or ".".join(platform.python_version_tuple()[:2])
    return suite if version == REFERENCE else f"{suite}-{version}"


def write(suite: str, facts: Mapping[str, Any], result: Result) -> None:
    """Keep what a suite found."""
    RESULTS.mkdir(exist_ok=True)
    document = {"machine": facts, "tables": {name: asdict(table) for name, table in result.items()}}
    (RESULTS / f"{suite}.json").write_text(json.dumps(document, indent=1) + "\n")


def read(suite: str) -> tuple[dict[str, Any], Result]:
    """The stored result of a suite: the machine, and the tables; nothing if it did not run."""
    path = RESULTS / f"{suite}.json"
    if not path.exists():
        return {}, {}
    document = json.loads(path.read_text())
    return document["machine"], {name: _table(**fields) for name, fields in document["tables"].items()}


def _table(rows: Mapping[str, Mapping[str, Any]], **fields: Any) -> Table:
    figures = {
        row: {column: Figure(f["least"], f["median"], tuple(f["rounds"])) for column, f in columns.items()}
        for row, columns in rows.items()
    }
    return Table(rows=figures, **fields)
