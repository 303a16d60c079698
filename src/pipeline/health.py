"""``health``: an app that tells whether the process is alive, and whether it is ready: every database answers.

A small app for the container, systemd and the proxies::

    [composite:main]
    use = egg:wsgi-pipeline#switch
    branches = health path=/@@health
    default = site

    [app:health]
    use = egg:wsgi-pipeline#health

``/@@health/alive`` is answered 200 by a process that answers at all. Every other path is answered 200 if each
database of the ini answers within ``timeout`` seconds, else 503 with a line for each that does not. It is 503
as well while the file is there that the environment variable ``PIPELINE_DRAINING`` names: the instance is about
to stop, and a proxy that asks sends new requests elsewhere (R9). A database that can be read and whose disk is full
has a line of its own after "ready", and ``/@@health/writes`` is 503 then. The app stands outside the pipeline of
the site: its requests are not logged and have no session.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from tempfile import TemporaryFile
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple

from pipeline.composition import Element, Pipeline, element
from pipeline.ini import Source
from pipeline.interfaces import Facts, Handler, OptionError, Unavailable, WSGIApp
from pipeline.options import Signature, on_demand
from pipeline.paste import plan, with_facts
from pipeline.ranges import at_least
from pipeline.request import Request
from pipeline.response import Response
from pipeline.running.instance import is_draining
from pipeline.strings import from_strings

if TYPE_CHECKING:
    from pipeline.running.process import start as watch_process
else:  # not every system has the modules that it needs
    watch_process = on_demand("pipeline.running.process:start")


class Watch(NamedTuple):
    """The thread of each process that tells what runs in it. ``health`` explains the options."""

    directory: str
    listen: str
    slow: float
    threads: int

    def start(self) -> None:
        """Start the thread in this process."""
        watch_process(*self)


def _health(
    *,
    timeout: float = 3.0,
    app: str = "main",
    watch: str = "",
    listen: str = "",
    slow: float = 10.0,
    threads: int = 0,
) -> None:
    """Declare the options of ``health``, and refuse values that would fail in a thread or answer 503 for ever."""
    at_least(0.01, timeout=timeout)
    at_least(0, slow=slow, threads=threads)
    if listen and not watch:
        raise ValueError("the option listen needs the option watch, a directory")
    port = re.fullmatch(r"[^\s,]+:([0-9]{1,5})", listen)  # 0 is one that a server would choose itself
    if listen and "/" not in listen and not (port and 0 < int(port[1]) <= 65_535):
        raise ValueError(f"the option listen must be host:port, or the path of a UNIX socket, not {listen!r}")


def _facts(*, watch: str = "", listen: str = "", slow: str = "10", threads: str = "0", **strings: str) -> Facts:
    with suppress(ValueError):  # ``health`` itself says which option is wrong
        if watch:
            made = Watch(watch, listen, float(slow), int(threads))
            return Facts(is_health=True, writes=(f"{watch.rstrip('/')}/",), watch=made)
    return Facts(is_health=True)


@with_facts(_facts)
def health(global_conf: Mapping[str, str], **strings: str) -> WSGIApp:
    """Make the app that tells whether this process is alive and whether what its elements open can be used.

    timeout  seconds that a database has to answer
    app      name of the app in the ini whose databases are asked
    watch    directory where each process that serves the site tells what runs in it, to ``pipeline top`` and to
             the probes. It belongs to one instance alone. Without it, no process does
    listen   "host:port", or the path of a UNIX socket, where /alive and /ready are answered for all processes of
             the instance, also if each of their threads is blocked. Needs ``watch``
    slow     seconds after which a request that runs is logged with the stack of its thread, and after which a
             process whose threads all have such a request is said to hang; 0 turns both off
    threads  threads of each process, for servers that do not tell: Granian, uWSGI, mod_wsgi. 0 asks the server

    An element says how it is asked by the fact ``probe`` (``pipeline.interfaces.Facts``).
    """
    source = Source(global_conf, health)
    options = from_strings(Signature.of(_health), "health", strings, source)
    try:
        _health(**options)
    except (OptionError, ValueError) as error:
        raise OptionError(f"{source.section_of(strings)}: health: {error}") from None
    variables = {name: value for name, value in global_conf.items() if name not in ("here", "__file__")}
    checks: dict[str, Probe] = {}
    for chain in plan(f"config:{global_conf['__file__']}", options.get("app", "main"), **variables):
        for place, step in enumerate(chain.steps):
            if step.element is not None and (ask := step.facts.probe) is not None:
                key = f"{step.element.name} {sorted(map(str, step.element.options.items()))}"
                if key not in checks:
                    outer = [one.element for one in chain.steps[:place] if one.element is not None]
                    asked = [*needed(step.element, outer), question(ask=ask)]
                    checks[key] = Probe(step.element.name, asked, step.facts.writes)
    return Pipeline(report(probes=tuple(checks.values()), timeout=options.get("timeout", 3.0)))


def needed(element: Element, outer: Sequence[Element]) -> list[Element]:
    """Return the outer elements without which an element cannot be linked, and itself."""
    found = [element]
    for one in reversed(outer):
        wanted = {thing for inner in found for thing in inner.contract.unmet()}
        if wanted & set(one.contract.provides):
            found.insert(0, one)
    return found


class Probe:
    """An element that is asked in a thread of its own, so that one that hangs does not delay the others."""

    def __init__(self, name: str, elements: Iterable[Element], writes: Iterable[str]) -> None:
        self.name = name
        self.ask = Pipeline(*elements)
        self.places = {os.path.dirname(path) or "." for path in writes}
        self.asked: Future[str] | None = None

    def start(self) -> Future[str]:
        """Ask, unless the last question is still open. The result says why nothing can be written, or is empty."""
        asked = self.asked
        if asked is None or asked.done():
            asked = Future()
            # A daemon: a database that hangs does not keep the process from its end.
            Thread(target=self._answer, args=(asked,), name=f"health-{self.name}", daemon=True).start()
            self.asked = asked
        return asked

    def _answer(self, asked: Future[str]) -> None:
        status: list[str] = []
        try:
            body = self.ask(Request.blank("/").environ, lambda line, headers, exc_info=None: status.append(line))
            getattr(body, "close", bool)()
            if status != ["204 No Content"]:
                raise Unavailable(f"{self.name} cannot be reached")
            asked.set_result(next(filter(None, map(refused, sorted(self.places))), ""))
        except BaseException as error:  # otherwise no question would follow it
            asked.set_exception(error)


def refused(place: str) -> str:
    """Return why a megabyte cannot be stored in a directory, or ""."""
    try:
        with TemporaryFile(dir=place) as file:
            file.write(bytes(2**20))
    except OSError as error:  # without permission, another user has made the files that are there
        return "" if isinstance(error, PermissionError) else f"cannot write: {error.strerror}"
    return ""


@element
def question(*, ask: Callable[[Any], object]) -> Handler:
    """Use what the element outside offers."""

    def question(request: Any, response: Response) -> None:
        ask(request)
        response.status = "204 No Content"

    return question


@element
def report(*, probes: tuple[Probe, ...], timeout: float) -> Handler:
    """Tell whether this process is alive, and whether every database answers within ``timeout`` seconds."""

    def report(request: Request, response: Response) -> None:
        path = request.environ.get("PATH_INFO", "").rstrip("/")
        word = "alive" if path.endswith("/alive") else "ready"
        problems, unwritten = problems_of(probes, timeout) if word == "ready" else ([], [])
        is_good = not problems and not (unwritten and path.endswith("/writes"))
        lines = [*([word] if is_good else []), *problems, *unwritten]
        response.plain("200 OK" if is_good else "503 Service Unavailable", "\n".join(lines))
        response.headers["Cache-Control"] = "no-store"

    return report


def problems_of(probes: Iterable[Probe], timeout: float) -> tuple[list[str], list[str]]:
    """Return a line for each element that does not answer in time, and one for each that cannot write."""
    if is_draining():
        return ["draining"], []
    asked = [(probe, probe.start()) for probe in probes]
    end = time.monotonic() + timeout
    found, unwritten = [], []
    for probe, answer in asked:
        wait([answer], max(0.0, end - time.monotonic()))
        if not answer.done():
            found.append(f"{probe.name}: no answer within {timeout:g} s")
        elif answer.exception() is not None:
            found.append(f"{probe.name}: cannot be reached")
        elif why := answer.result():
            unwritten.append(f"{probe.name}: {why}")
    return found, unwritten
