"""One side of a rehearsal: a site that answers requests, on copies of its databases, in a process of its own.

Two versions of one package cannot be loaded in one process. So ``pipeline rehearse`` starts
``python -m pipeline.rehearsing.stage DESCRIPTOR`` for each side. The first message on the connection with that
descriptor says which site it is, and each further one asks for one thing, which one message answers. All are JSON.
"""

from __future__ import annotations

import json
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.connection import Connection
from statistics import median
from typing import Any, NamedTuple
from unittest import mock

from pipeline.database import forks
from pipeline.database.instead import read_only_if_locked
from pipeline.explaining.causes import Cause, Late, causes, way_of
from pipeline.explaining.recording import Recorder
from pipeline.interfaces import Handler
from pipeline.loading.building import build
from pipeline.loading.command_line import host_of, split_name
from pipeline.paste import Step
from pipeline.staging.asked import Asked, links_of, of_this_site
from pipeline.staging.effects import OF_DATABASES, Effects
from pipeline.staging.runs import SLEEP, Run
from pipeline.staging.site import Site, quiet
from pipeline.telling.errors import place_and_words
from pipeline.telling.words import OUR_CODE, place_of
from pipeline.views import Views

RUNS = 5
"""Runs of a request for its time. The median of their times counts."""
LINKS = 50
"""Links of a page that are followed."""
HOPS = 10
"""Redirects that are followed. Browsers follow about twice as many."""
CIRCLE = "circle"
"""The end of redirects that lead back to where they began, or that do not end."""


class Answer(NamedTuple):
    """The answer of one side to a request."""

    status: int | None
    """None if no answer reached the server."""
    headers: Sequence[tuple[str, str]] = ()
    size: int = 0
    attempts: int = 1
    seconds: float = 0.0
    broken_by: str = ""
    """The exception that reached the server, or ""."""
    leads_to: int | str | None = None
    """The status at the end of redirects within the site, or CIRCLE; None if the answer is not one."""
    causes: Sequence[Mapping[str, str]] = ()
    """Why it was answered so, as ``pipeline explain`` says it."""
    left: str = ""
    """The reason why this request was not carried out as it would be for a visitor, or ""."""

    def header(self, name: str) -> str:
        """Return the value of a header, or ""."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), "")


class Measured(NamedTuple):
    """The time of a request, and the links of its page that lead nowhere."""

    seconds: float
    """The median of the runs."""
    broken: Mapping[str, int | str]
    """The status for each link that leads nowhere."""
    is_complete: bool
    """False if there was no time for every run and link."""


class Stage(Site):
    """A site that is rehearsed.

    live  its own databases are used, and not copies: each transaction is doomed, so that nothing is stored
    """

    def __init__(
        self, ini: str, words: Sequence[str] = (), *, allow: Sequence[str] = (), live: bool = False
    ) -> None:
        super().__init__(ini, words, allow=allow)
        self.path = ini
        self.live = live
        if live:
            self.of_databases = (*OF_DATABASES, "ZODB", "zc", "pipeline.database")
        self.recorder: Recorder | None = None
        self.reached: dict[tuple[str | None, str], int | str] = {}
        """The status that each link has led to, by user and URL."""

    @contextmanager
    def loaded(self) -> Iterator[None]:
        """Load the site."""
        if not self.live:
            with super().loaded(), mock.patch("time.sleep", SLEEP):  # what a view waits is a part of its time
                yield
            return
        with ExitStack() as stack:
            stack.callback(shutil.rmtree, self.copies.directory, ignore_errors=True)
            stack.callback(forks.close_all)
            stack.enter_context(quiet())
            stack.enter_context(read_only_if_locked(lambda path: None))
            stack.enter_context(Effects(self.refuse, self._is_ours, self.of_databases).refused())
            for views in self.load():
                self.views += views
            self.origin = f"http://{host_of(self.chains)}"
            yield

    def load(self) -> list[Views]:
        """Load the app, with watchers that tell the cause of an answer."""
        built = build(self.path, self.words, self.watch, self.opened, self.copies.redirect)
        self.app, self.chains = built.app, built.chains
        self.ends = {chain.steps[-1].where for chain in self.chains}
        return [views for _, views in built.views()]

    def opened(self, request: Any, value: Any) -> None:
        """Watch a database that a request has opened."""
        if self.recorder is not None:
            self.recorder.opened(request, value)

    def watch(self, step: Step, handler: Handler, request: Any, response: Any) -> None:
        """Call the handler of a part, and have the recorder watch it."""
        if self.live and step.where in self.ends and request.views is None:
            self.left = "only views are asked on the live database"
            raise LookupError(self.left)
        if self.recorder is None:
            super().watch(step, handler, request, response)
        else:
            watch = super().watch
            self.recorder.watch(step, lambda *both: watch(step, handler, *both), request, response)

    def files(self) -> list[str]:
        """Return the files with the views of the site."""
        places = {place_of(view.function).rpartition(", line")[0] for *_, view in self.views}
        return sorted(place for place in places if place and not place.startswith(OUR_CODE))

    def perform(self, request: Asked, recorder: Recorder | None = None) -> tuple[Run, float]:
        """Run a request, and undo what it stores. Return also how many seconds it took."""
        self.left = ""
        self.recorder = recorder or (Recorder() if self.live else None)  # it dooms the transaction
        began = time.perf_counter()
        try:
            run = self.ask(request)
        finally:
            self.recorder = None
        seconds = time.perf_counter() - began
        if not self.live and not self.copies.stored().is_nothing:
            self.copies.reset()
        return run, seconds

    def answer(self, request: Asked, expected: int) -> Answer:
        """Run a request once.

        expected  the status that it had; of another one the causes are told
        """
        recorder = Recorder(commit=not self.live)
        run, took = self.perform(request, recorder)
        left = self.left
        if run.effects and run.is_error:
            left = f"it fails without {run.effects[0]}, which --allow would let happen"
        found: list[Cause] = []
        if run.status != expected or run.escaped is not None or run.is_error:
            late = [] if run.escaped is None else [Late("it reached the server", run.escaped)]
            found += causes(way_of(recorder.record), run.status or 500, split_name(self.path)[0].parent, late)
        return Answer(
            run.status,
            run.headers,
            len(run.body),
            recorder.attempts,
            took,
            "" if run.escaped is None else type(run.escaped).__name__,
            self.end_of(request, run) if run.header("Location") else None,
            [cause._asdict() for cause in found],
            left,
        )

    def measure(self, request: Asked, seconds: float) -> Measured:
        """Run a request several times, and follow the links of its page. No run begins after so many seconds."""
        until = time.monotonic() + seconds
        times: list[float] = []
        while len(times) < RUNS and (not times or time.monotonic() < until):
            run, took = self.perform(request)
            times.append(took)
        broken: dict[str, int | str] = {}
        urls = links_of(self.origin, request.url, run)[:LINKS] if request.method == "GET" else []
        for url in urls:
            if (request.user, url) not in self.reached:
                if time.monotonic() > until:
                    return Measured(median(times), broken, False)
                linked = request._replace(url=url)
                self.reached[request.user, url] = self.end_of(linked, self.perform(linked)[0])
            if leads_nowhere(end := self.reached[request.user, url]):
                broken[url] = end
        return Measured(median(times), broken, len(times) == RUNS)

    def end_of(self, request: Asked, run: Run) -> int | str:
        """Return the status that a visitor gets in the end, who follows the redirects within the site."""
        seen = {request.url}
        while run.status is not None and 300 <= run.status < 400 and (place := run.header("Location")):
            url = of_this_site(self.origin, request.url, place)
            if url is None:
                break
            if url in seen or len(seen) > HOPS:
                return CIRCLE
            seen.add(url)
            request = request._replace(url=url)
            run, _ = self.perform(request)
        return 500 if run.status is None else run.status


def leads_nowhere(end: int | str) -> bool:
    """Return whether a link with this end is broken."""
    return end == CIRCLE or end in (404, 410) or (isinstance(end, int) and end >= 500)


def messages(pipe: Connection) -> Iterator[Any]:
    """Yield the messages on a connection, until the other process closes it."""
    with suppress(EOFError, ConnectionResetError):
        while True:
            yield json.loads(pipe.recv_bytes())


def main(descriptor: int) -> int:
    """Answer each message on a connection by one, until the other process closes it."""
    pipe = Connection(descriptor)
    ended: list[bool] = []

    def end(number: int, frame: object) -> None:
        ended.append(True)
        raise SystemExit(1)

    def put(said: Mapping[str, Any]) -> None:
        pipe.send_bytes(json.dumps(said, default=str).encode())

    signal.signal(signal.SIGTERM, end)
    asked_for = messages(pipe)
    told = next(asked_for)
    stage = Stage(told["ini"], told["words"], allow=told["allow"], live=told["live"])
    put({"directory": str(stage.copies.directory)})
    calls: dict[str, Callable[..., Any]] = {"answer": stage.answer, "measure": stage.measure}
    try:
        with stage.loaded():
            put({"files": stage.files()})
            for given in asked_for:
                asked = Asked(**given["asked"])
                asked = asked._replace(headers=tuple((name, value) for name, value in asked.headers))
                put(calls[given["call"]](asked, **given["options"])._asdict())
                if ended:
                    break
    except Exception as error:
        put({"error": place_and_words(error)})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
