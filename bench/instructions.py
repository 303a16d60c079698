"""The suite ``instructions``: the instructions that a request takes, counted by valgrind.

They are the same each time, whatever else the machine does, and so they show what each part of the pipeline
takes, and what a change has bought. Each program runs twice, for a hundred requests and for a thousand more; the
difference is counted.

``python -m bench.instructions PROGRAM REQUESTS`` is what valgrind runs.
"""

from __future__ import annotations

import gc
import logging
import os
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from bench import contenders, database
from bench.contenders import Count
from bench.default import _access_log
from bench.measure import Contender, Figure, Result, calls, check, environ, flat

FEW, MORE = 100, 1_000
PEERS = ("bare WSGI", "wheezy.web", "Falcon", "Pyramid", "pipeline")


def instructions(rounds: int = 1, seconds: float = 0) -> Result:
    if shutil.which("valgrind") is None:
        print("instructions: left out, since valgrind is missing")
        return {}
    whole = {name: counts(name) for name in (*PEERS, *DATABASE)}
    home = {name: counts(name) for name in HOME}
    nothing, edge, *others = (counts(name) for name in PARTS)
    parts = {
        "the edge": edge - nothing,
        **dict(zip(list(PARTS)[2:], (other - edge for other in others), strict=True)),
    }
    return {
        "whole": flat("Instructions of a request", figures(whole), "pipeline", "instructions"),
        "home": flat("The home page of etc/deploy.ini", figures(home), "home page: made", "instructions"),
        "parts": flat("Instructions that each part takes", figures(parts), unit="instructions"),
    }


def figures(values: dict[str, int]) -> dict[str, Figure]:
    return {name: Figure(value, value) for name, value in values.items()}


def counts(program: str) -> int:
    """Instructions for one request."""
    few, many = (counted(program, number) for number in (FEW, FEW + MORE))
    return (many - few) // MORE


def counted(program: str, requests: int) -> int:
    """Instructions of a whole process."""
    command = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    command += [sys.executable, "-m", "bench.instructions", program, str(requests)]
    environment = os.environ | {"PYTHONHASHSEED": "0"}
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    found = re.search(r"I +refs: +([0-9,]+)", ran.stderr)
    if found is None:
        raise SystemExit(f"valgrind said:\n{ran.stderr}")
    return int(found[1].replace(",", ""))


def _database(make: Callable[[Count], Any]) -> Callable[[], Contender]:
    return lambda: database.read("", make)


DATABASE: dict[str, Callable[[], Contender]] = {
    "pipeline, read from a ZODB": _database(database.ours),
    "Pyramid + tm + retry + zodbconn, read": _database(database.pyramid),
}


def _home(name: str) -> Callable[[], Contender]:
    """The home page of etc/deploy.ini, with a line in the access log."""

    def make() -> Contender:
        from bench.kept import home

        LOG.enter_context(_access_log(os.devnull))
        return next(one for one in home() if one.name == name)

    return make


LOG = ExitStack()
HOME = {f"home page: {name}": _home(name) for name in ("made", "made and kept", "sent again", "sent again, 304")}


def _of(*names: str) -> Callable[[], Contender]:
    """A pipeline of these elements alone."""

    def make() -> Contender:
        from bench import site
        from pipeline import Pipeline, element
        from pipeline.elements.authenticate import authenticate
        from pipeline.elements.errors import errors
        from pipeline.elements.forms import forms
        from pipeline.elements.retry import retry
        from pipeline.elements.shield import shield
        from pipeline.elements.traverse import traverse
        from pipeline.elements.vhost import vhost
        from pipeline.publisher import publisher

        @element
        def end() -> Any:
            def end(request: Any, response: Any) -> None:
                response.blocks = [b"hello"]

            return end

        @element
        def nothing(next: Any) -> Any:
            def nothing(request: Any, response: Any) -> None:
                next(request, response)

            return nothing

        @element(provides=("context",))
        def context(next: Any) -> Any:
            page = site.TREE["a"]["b"]["c"]

            def context(request: Any, response: Any) -> None:
                request.context = page
                next(request, response)

            return context

        made = {
            "vhost": vhost(),
            "shield": shield(),
            "retry": retry(),
            "errors": errors(),
            "forms": forms(),
            "authenticate": authenticate(check=site.check),
            "traverse": traverse(root=site.root),
            "nothing": nothing(),
            "context": context(),
            "publisher": publisher(scan=("bench.site",)),
        }
        parts = [made[name] for name in names]
        if "publisher" not in names:
            parts.append(end())
        return Contender("", Pipeline(*parts), environ(contenders.PATH))

    return make


def _nothing() -> Contender:
    def app(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return [b"hello"]

    return Contender("", app, environ(contenders.PATH))


PARTS: dict[str, Callable[[], Contender]] = {
    "nothing": _nothing,
    "the edge": _of(),
    "an element that does nothing": _of("nothing"),
    "vhost": _of("vhost"),
    "shield": _of("shield"),
    "retry": _of("retry"),
    "errors": _of("errors"),
    "forms": _of("forms"),
    "authenticate": _of("authenticate"),
    "traverse, three segments": _of("traverse"),
    "publisher, and a view": _of("context", "publisher"),
}


def main(program: str, requests: int) -> None:
    """Make some requests, and nothing else that differs with their number."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    make = {**PARTS, **DATABASE, **HOME}.get(program)
    contender = make() if make is not None else contenders.contender(program, contenders.PEERS[program])
    check(contender)
    call = calls(contender.app, contender.request)
    for _ in range(300):
        call()
    gc.collect()
    gc.disable()
    for _ in range(requests):
        call()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
