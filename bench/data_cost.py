"""What the elements that keep data cost: ``python -m bench.data_cost``.

One run, everything in turn. Two ratios, each with the most it may be:

* a request that touches no database: retry, zodb, sql, errors and transaction together, beside five WSGI
  middlewares that do nothing but wrap ``start_response``;
* a request that reads the root of a ZODB: the same elements, beside ``begin``, the root, and ``abort`` on a
  connection that stays open with a transaction manager of its own.

Each cost is the difference between the same application with and without.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transaction import TransactionManager
from ZODB.DB import DB

from bench.measure import App, Contender, Figure, compare, environ
from pipeline import Pipeline, Request, Response, element
from pipeline.elements.errors import errors
from pipeline.elements.retry import retry
from pipeline.elements.sql import sql
from pipeline.elements.transaction import transaction
from pipeline.elements.zodb import close_all, zodb

MOST_UNTOUCHED, MOST_READING = 1.0, 1.3


@element
def end(*, read: Callable[[Request], Any] | None = None) -> Any:
    """The end of a pipeline: a short page, for which the database is read or not."""

    def end(request: Request, response: Response) -> None:
        if read is not None:
            read(request)
        response._app_iter = [b"hello"]

    return end


def no_op(app: App) -> App:
    """A middleware that wraps start_response, as every one does that may change an answer."""

    def no_op(environ: Any, start_response: Any) -> Any:
        def start(status: str, headers: Any, exc_info: Any = None) -> Any:
            return start_response(status, headers, exc_info)

        return app(environ, start)

    return no_op


def bare(environ: Any, start_response: Any) -> list[bytes]:
    start_response("200 OK", [("Content-Type", "text/html; charset=UTF-8"), ("Content-Length", "5")])
    return [b"hello"]


def measure(rounds: int = 400) -> dict[str, Figure]:
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

        wrapped: App = bare
        for _ in range(5):
            wrapped = no_op(wrapped)
        apps: dict[str, App] = {
            "a WSGI app": bare,
            "in five no-op middlewares": wrapped,
            "an end of a pipeline": Pipeline(end()),
            "in the five elements, untouched": elements(end()),
            "reading by begin, root, abort": Pipeline(end(read=begin_and_abort)),
            "in the five elements, reading": elements(end(read=lambda request: request.root)),
        }
        try:
            return compare([Contender(name, app, environ("/")) for name, app in apps.items()], rounds, 0.002)
        finally:
            close_all()
            connection.close()
            db.close()


def main() -> int:
    figures = measure()
    least = {name: figure.least for name, figure in figures.items()}
    for name, figure in least.items():
        print(f"{figure:8.2f} µs  {name}")
    base = least["an end of a pipeline"]
    ratios = {
        "untouched, beside five no-op middlewares": (
            (least["in the five elements, untouched"] - base)
            / (least["in five no-op middlewares"] - least["a WSGI app"]),
            MOST_UNTOUCHED,
        ),
        "reading, beside begin, root, abort": (
            (least["in the five elements, reading"] - base) / (least["reading by begin, root, abort"] - base),
            MOST_READING,
        ),
    }
    for name, (ratio, most) in ratios.items():
        print(f"{ratio:8.2f} times  {name} (at most {most})")
    return int(any(ratio > most for ratio, most in ratios.values()))


if __name__ == "__main__":
    sys.exit(main())
