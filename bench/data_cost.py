"""The cost of the elements that keep data: ``python -m bench.data_cost``.

One run, everything in turn. Two ratios, each with the most it may be:

* a request that touches no database: retry, zodb, sql, errors and transaction together, beside five WSGI
  middlewares that do nothing but wrap ``start_response``, written as PEP 3333 writes one (a class), and, for
  information, as lean as one can be (a closure);
* a request that reads the root of a ZODB: the same elements, beside ``begin``, the root, and ``abort`` on a
  connection that stays open with a transaction manager of its own.

Each cost is the difference between the same application with and without. It is taken in the time that the
thread has on a CPU, in many short rounds in turn, of which the fastest counts: so what else the machine does hardly
matters.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transaction import TransactionManager
from ZODB.DB import DB

from bench.measure import App, Contender, calls, check, environ
from pipeline import Pipeline, Request, Response, element
from pipeline.elements.errors import errors
from pipeline.elements.retry import retry
from pipeline.elements.sql import sql
from pipeline.elements.transaction import transaction
from pipeline.elements.zodb import close_all, zodb


@element
def end(*, read: Callable[[Request], Any] | None = None) -> Any:
    """The end of a pipeline: a short page, for which the database is read or not."""

    def end(request: Request, response: Response) -> None:
        if read is not None:
            read(request)
        response.blocks = [b"hello"]

    return end


class NoOp:
    """A middleware that wraps start_response, as every one does that may change an answer."""

    def __init__(self, app: App) -> None:
        self.app = app

    def __call__(self, environ: Any, start_response: Any) -> Any:
        def start(status: str, headers: Any, exc_info: Any = None) -> Any:
            return start_response(status, headers, exc_info)

        return self.app(environ, start)


def lean(app: App) -> App:
    """The same as a closure."""

    def lean(environ: Any, start_response: Any) -> Any:
        def start(status: str, headers: Any, exc_info: Any = None) -> Any:
            return start_response(status, headers, exc_info)

        return app(environ, start)

    return lean


def five(middleware: Callable[[App], App], app: App) -> App:
    for _ in range(5):
        app = middleware(app)
    return app


def bare(environ: Any, start_response: Any) -> list[bytes]:
    start_response("200 OK", [("Content-Type", "text/html; charset=UTF-8"), ("Content-Length", "5")])
    return [b"hello"]


def fastest(apps: dict[str, App], rounds: int = 500, count: int = 250) -> dict[str, float]:
    """Microseconds for one request to each app."""
    template = environ("/")
    for name, app in apps.items():
        check(Contender(name, app, template))
    timed = {name: calls(app, template) for name, app in apps.items()}
    least = dict.fromkeys(apps, float("inf"))
    for _ in range(rounds):
        for name, call in timed.items():
            started = time.thread_time()
            for _ in range(count):
                call()
            least[name] = min(least[name], (time.thread_time() - started) / count * 1e6)
    return least


def measure() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as directory:
        uri = f"file://{Path(directory) / 'Data.fs'}"
        tm = TransactionManager(explicit=True)

        def elements(end: Any) -> Pipeline:
            return Pipeline(retry(), zodb(uri=uri), sql(url="sqlite://"), errors(), transaction(), end)

        db = DB(str(Path(directory) / "Bare.fs"))
        connection = db.open(transaction_manager=tm)

        def begin_and_abort(request: Request) -> None:
            tm.begin()
            connection.root()
            tm.abort()

        apps: dict[str, App] = {
            "a WSGI app": bare,
            "in five no-op middlewares": five(NoOp, bare),
            "in five lean ones": five(lean, bare),
            "an end of a pipeline": Pipeline(end()),
            "in the five elements, untouched": elements(end()),
            "reading by begin, root, abort": Pipeline(end(read=begin_and_abort)),
            "in the five elements, reading": elements(end(read=lambda request: request.root)),
        }
        try:
            return fastest(apps)
        finally:
            close_all()
            connection.close()
            db.close()


def main() -> int:
    least = measure()
    for name, figure in least.items():
        print(f"{figure:8.2f} µs  {name}")
    base, app = least["an end of a pipeline"], least["a WSGI app"]
    untouched = least["in the five elements, untouched"] - base
    reading = least["in the five elements, reading"] - base
    ratios = [
        (untouched / (least["in five no-op middlewares"] - app), "untouched, beside five no-op middlewares", 1.0),
        (untouched / (least["in five lean ones"] - app), "untouched, beside five lean ones", None),
        (reading / (least["reading by begin, root, abort"] - base), "reading, beside begin, root, abort", 1.3),
    ]
    for ratio, name, most in ratios:
        print(f"{ratio:8.2f} times  {name}{'' if most is None else f' (at most {most})'}")
    return int(any(most is not None and ratio > most for ratio, _, most in ratios))


if __name__ == "__main__":
    sys.exit(main())
