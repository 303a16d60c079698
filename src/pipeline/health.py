"""``health``: an app that tells whether the process is alive, and whether every database of the ini answers.

A small app for the container, systemd and the proxies::

    [composite:main]
    use = egg:wsgi-pipeline#switch
    branches = health path=/@@health
    default = site

    [app:health]
    use = egg:wsgi-pipeline#health

``/@@health/alive`` is answered 200 by a process that answers at all. Every other path is answered 200 if each
database of the ini answers within ``timeout`` seconds, else 503 with a line for each that does not. The app
stands outside the pipeline of the site: its requests are not logged and have no session.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, wait
from threading import Thread
from typing import Any

from pipeline.composition import Element, Pipeline, element
from pipeline.ini import Source
from pipeline.interfaces import Handler, Unavailable, WSGIApp
from pipeline.options import Signature
from pipeline.paste import plan
from pipeline.request import Request
from pipeline.response import Response
from pipeline.strings import from_strings


def _health(*, timeout: float = 3.0, app: str = "main") -> None:
    """Declare the options of ``health``, for the check."""


def health(global_conf: Mapping[str, str], **strings: str) -> WSGIApp:
    """Make the app that tells whether this process is alive and whether every database of the ini answers.

    timeout  seconds that a database has to answer
    app      name of the app in the ini whose databases are asked
    """
    options = from_strings(Signature.of(_health), "health", strings, Source(global_conf, health))
    checks: dict[str, Database] = {}
    for step in _database_steps(global_conf, options.get("app", "main")):
        place = f"{step.name} {sorted(map(str, step.options.items()))}"
        checks.setdefault(place, Database(step))
    return Pipeline(report(databases=tuple(checks.values()), timeout=options.get("timeout", 3.0)))


def _database_steps(global_conf: Mapping[str, str], app: str) -> Iterable[Element]:
    variables = {name: value for name, value in global_conf.items() if name not in ("here", "__file__")}
    for chain in plan(f"config:{global_conf['__file__']}", app, **variables):
        for step in chain.steps:
            if step.element is not None and "database" in step.element.contract.provides:
                yield step.element


class Database:
    """A database that is asked in a thread of its own, so that a database that hangs does not delay the others."""

    def __init__(self, step: Element) -> None:
        self.name = step.name
        self.ask = Pipeline(step, question(name=step.name))
        self.asked: Future[None] | None = None

    def start(self) -> Future[None]:
        """Ask, unless the last question is still open."""
        asked = self.asked
        if asked is None or asked.done():
            asked = self.asked = Future()
            # A daemon: a database that hangs does not keep the process from its end.
            Thread(target=self._answer, args=(asked,), name=f"health-{self.name}", daemon=True).start()
        return asked

    def _answer(self, asked: Future[None]) -> None:
        try:
            self._ask()
        except Exception as error:
            asked.set_exception(error)
        else:
            asked.set_result(None)

    def _ask(self) -> None:
        status: list[str] = []
        environ = Request.blank("/").environ
        body = self.ask(environ, lambda line, headers, exc_info=None: status.append(line))
        getattr(body, "close", bool)()
        if status != ["204 No Content"]:
            raise Unavailable(f"{self.name} cannot be reached")


@element
def question(*, name: str) -> Handler:
    """Use the database that the element of this name provides."""

    def question(request: Any, response: Response) -> None:
        if name == "sql":
            request.sql.connection()
        else:
            # The client of ZEO answers from its cache: ask the server.
            getattr(request.zodb.db().storage, "server_status", bool)()
        response.status = "204 No Content"

    return question


@element
def report(*, databases: tuple[Database, ...], timeout: float) -> Handler:
    """Tell whether this process is alive, and whether every database answers within ``timeout`` seconds."""

    def report(request: Request, response: Response) -> None:
        alive = request.environ.get("PATH_INFO", "").rstrip("/").endswith("/alive")
        problems = [] if alive else problems_of(databases, timeout)
        if problems:
            response.status = "503 Service Unavailable"
        response.headers["Content-Type"] = "text/plain; charset=utf-8"
        response.headers["Cache-Control"] = "no-store"
        response.app_iter = [f"{line}\n".encode() for line in problems or ["alive" if alive else "ready"]]

    return report


def problems_of(databases: Iterable[Database], timeout: float) -> list[str]:
    """Return a line for each database that does not answer in time."""
    asked = [(database, database.start()) for database in databases]
    end = time.monotonic() + timeout
    found = []
    for database, answer in asked:
        wait([answer], max(0.0, end - time.monotonic()))
        if not answer.done():
            found.append(f"{database.name}: no answer within {timeout:g} s")
        elif answer.exception() is not None:
            found.append(f"{database.name}: cannot be reached")
    return found
