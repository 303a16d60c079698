"""Timing of several things in one process, in turn, so that what else the machine does is shared fairly."""

from __future__ import annotations

import gc
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
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
    """What waitress hands an application for a browser's request."""
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
    """What it must answer, byte for byte; None where the answer changes."""
    ran: Callable[[], int] | None = None
    """How often the application's own code ran so far."""


@dataclass
class Figure:
    """Microseconds for one request: of each round, and the least and the middle one."""

    name: str
    rounds: list[float] = field(default_factory=list)

    @property
    def least(self) -> float:
        return min(self.rounds)

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)


def _nothing(status: str, headers: Any, exc_info: object = None) -> None:
    """A start_response that costs as little as one can."""


def calls(app: App, template: Environ) -> Callable[[], None]:
    """A call of the app as a server makes it, less the sending."""

    def call() -> None:
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
    if not status.startswith("200") or (contender.body is not None and body != contender.body):
        raise SystemExit(f"{contender.name} answered {status} {body[:200]!r}, not {contender.body!r}")
    if contender.ran and contender.ran() != before + 1:
        raise SystemExit(f"{contender.name} answered without running its application")


def compare(contenders: list[Contender], rounds: int = 9, seconds: float = 0.1) -> dict[str, Figure]:
    """Time the contenders in turn; the cost of copying the environ is measured too, and taken off."""
    for contender in contenders:
        check(contender)
    template = contenders[0].request
    timed: dict[str, Callable[[], None]] = {"": lambda: template.copy() and None}
    timed |= {contender.name: calls(contender.app, contender.request) for contender in contenders}
    counts = {name: _count(call, seconds) for name, call in timed.items()}
    figures = {name: Figure(name) for name in timed}
    before = {c.name: c.ran() for c in contenders if c.ran}
    gc.collect()
    for _ in range(rounds):
        for name, call in timed.items():
            figures[name].rounds.append(_time(call, counts[name]))
    for contender in contenders:
        if contender.ran and contender.ran() - before[contender.name] != rounds * counts[contender.name]:
            raise SystemExit(f"{contender.name} did not run its application for every request")
    copying = figures.pop("").least
    for figure in figures.values():
        figure.rounds = [taken - copying for taken in figure.rounds]
    return figures


def _count(call: Callable[[], None], seconds: float) -> int:
    """How many calls fill a round."""
    count = 1
    while (taken := _time(call, count) * count / 1e6) < seconds / 4:
        count *= 2
    return max(1, int(count * seconds / taken))


def _time(call: Callable[[], None], count: int) -> float:
    """Microseconds for one of ``count`` calls."""
    steps = range(count)
    started = time.perf_counter()
    for _ in steps:
        call()
    return (time.perf_counter() - started) / count * 1e6


def machine(*distributions: str) -> dict[str, Any]:
    """What the figures were taken on."""
    model = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.processor(),
    )
    return {
        "python": platform.python_version(),
        "cpu": model,
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "versions": {name: version(name) for name in distributions},
    }


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def write(path: Path, suite: str, facts: Mapping[str, Any], figures: Mapping[str, Figure], **more: Any) -> None:
    """Write the figures of one suite as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "suite": suite,
        "machine": facts,
        "microseconds": {name: asdict(figure) for name, figure in figures.items()},
        **more,
    }
    path.write_text(json.dumps(document, indent=1) + "\n")
