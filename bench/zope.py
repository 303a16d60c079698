"""Instructions of the interpreter for a request to a Zope site: plain Zope and the pipeline, in one process.

Run in the environment of ``make test-zope`` on Python 3.12 or newer: ``python -m bench.zope``
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

ASKED = {
    "view": ("/f1/f2/f3/@@plain", 1.00),
    "method of an object": ("/f1/f2/note", 1.00),
    "resource": ("/++resource++style.css", 1.00),
    "404": ("/f1/f2/nothing", 1.00),
    "write": ("/f1/f2/@@write?title=a", 1.15),
}
"""Path of each request, and the upper limit of ours by theirs."""


def take(app: Any, environ: dict[str, Any]) -> None:
    """Take an answer as a server does."""
    body = app(environ, lambda status, headers, exc_info=None: None)
    for _ in body:
        pass
    if hasattr(body, "close"):
        body.close()


def instructions(app: Any, path: str, times: int = 20) -> float:
    """Return the instructions of one request, on average of some after a few others."""
    from ztk.asking import environ_of

    environs = [environ_of("GET", path) for _ in range(times + 5)]
    for environ in environs[times:]:
        take(app, environ)
    count = 0

    def note(code: Any, offset: int) -> None:
        nonlocal count
        count += 1

    monitoring = sys.monitoring
    monitoring.use_tool_id(monitoring.PROFILER_ID, "bench")
    monitoring.register_callback(monitoring.PROFILER_ID, monitoring.events.INSTRUCTION, note)
    monitoring.set_events(monitoring.PROFILER_ID, monitoring.events.INSTRUCTION)
    try:
        for environ in environs[:times]:
            take(app, environ)
    finally:
        monitoring.set_events(monitoring.PROFILER_ID, 0)
        monitoring.register_callback(monitoring.PROFILER_ID, monitoring.events.INSTRUCTION, None)
        monitoring.free_tool_id(monitoring.PROFILER_ID)
    return count / times


def measure() -> dict[str, tuple[float, ...]]:
    """Return the instructions of plain Zope and of ours for each kind of request."""
    from zope_sites.compared_site import Sites

    logging.disable(logging.CRITICAL)
    sites = Sites()
    try:
        apps = sites.theirs, sites.ours
        return {name: tuple(instructions(app, path) for app in apps) for name, (path, _) in ASKED.items()}
    finally:
        sites.close()


def main() -> int:
    failed = False
    for name, (theirs, ours) in measure().items():
        limit = ASKED[name][1]
        failed |= ours > limit * theirs
        print(f"{name:22}{theirs:8,.0f}{ours:8,.0f}{ours / theirs:7.2f}  (at most {limit:.2f})")
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
