"""A site whose requests are watched at every point, on copies of its databases."""

from __future__ import annotations

import logging
import os
import random
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from traceback import walk_stack
from typing import Any, NoReturn
from unittest import mock
from urllib.parse import urlsplit

from pipeline.composition import Pipeline
from pipeline.database.transactions import watching_joins
from pipeline.elements.transaction import call_if_stored
from pipeline.forms.models import IModels
from pipeline.interfaces import ConfigurationError, Handler
from pipeline.loading.building import build
from pipeline.loading.command_line import host_of
from pipeline.paste import Chain, Step
from pipeline.promises import IInvariant, IOwnerOf, OwnerOf
from pipeline.staging.asked import Asked
from pipeline.staging.copies import Copies
from pipeline.staging.effects import OF_DATABASES, EffectRefused, Effects
from pipeline.staging.runs import Run, joining, place, point, running, sleep, started, watched
from pipeline.telling.words import line_of_the_site
from pipeline.views import NOTES, View, Views

ATTEMPTS = 8
"""The most further attempts at a request. Nothing else is at work, so that what does not pass then passes never."""


@dataclass(eq=False)
class Site:
    """A site that is proved."""

    ini: str | Pipeline
    """Its ini, with ``#name`` if it has several apps; or a pipeline, whose parts are then not watched."""
    words: Sequence[str] = ()
    """Variables of the ini, ``name=value``."""
    _: KW_ONLY
    user: str | None = None
    """The user of requests that name none."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Those of the requests of this user."""
    allow: Sequence[str] = ()
    """Effects that are allowed: host:port, or the name of a program."""
    seed: int = 7
    """That of the random numbers of each run."""

    def __post_init__(self) -> None:
        self.name = self.ini if isinstance(self.ini, str) else "the pipeline"
        self.of_databases: Sequence[str] = OF_DATABASES
        """Packages whose effects are those of a database."""
        self.chains: list[Chain] = []
        self.copies = Copies()
        self.views: list[tuple[Any, Any, str, View]] = []
        """The registrations: context, type of the request, method and name, view."""
        self.models: list[Any] = []
        """The ``IModels`` of the publishers, for the annotations of views."""
        self.invariants: list[Callable[..., object]] = []
        self.owner_of: dict[Callable[..., Any], OwnerOf] = {}
        """Functions that tell the owner of the object of a view, by the function of the view."""
        self.made: dict[str, None] = {}
        """The paths of objects that requests have made (Location), or that a page links to."""
        self._look: Callable[[Any], object] | None = None
        self._thread = threading.get_ident()
        self.succeeded: set[Callable[..., Any]] = set()
        """The functions of the views that have not refused a request."""
        self._mounted: dict[str, Any] = {}
        """The factories of foreign applications, by their places in the ini."""
        self._at_work: Run | None = None
        """The run that began last: other threads do its work."""
        self.hung: dict[str, str] = {}
        """The lines at which requests have hung, and those that are alike. They are not asked again."""
        self.is_ended = False
        """True if a signal has ended the command."""

    @contextmanager
    def loaded(self) -> Iterator[Any]:
        """Load the site, on copies, and yield it. Its databases are closed at the end, and nothing is left."""
        with ExitStack() as stack:
            stack.enter_context(self.copies.in_use())
            stack.enter_context(watching_joins(joining))
            stack.enter_context(quiet())
            self.effects = Effects(self.refuse, self._is_ours, self.of_databases)
            stack.enter_context(self.effects.refused())
            stack.enter_context(mock.patch("time.sleep", sleep))
            found = self.load()
            if loader := sys.modules.get("chameleon.loader"):  # no cache of compiled templates is written
                stack.enter_context(mock.patch.object(loader.ModuleLoader, "build", loader.MemoryLoader.build))
            self.origin = f"http://{host_of(self.chains)}"
            for views in found:
                self.models += views.utilities(IModels)
                self.invariants += views.utilities(IInvariant)
                for row in views:
                    self.views.append(row)
                    if owner_of := views.named(IOwnerOf, str(row[3])):
                        self.owner_of[row[3].function] = owner_of
            if not found:
                self.invariants = self._of_mounted().utilities(IInvariant)
            for view in dict.fromkeys(row[3] for row in self.views):
                stack.enter_context(mock.patch.object(view, "call", partial(self.call, view, view.call)))
            self.grow()  # a site makes its root, and more, for its first request
            yield self

    def load(self) -> list[Views]:
        """Load the app. Return the views of each publisher."""
        if isinstance(self.ini, Pipeline):
            self.app: Any = self.ini
            return [self.ini.published] if self.ini.published is not None else []
        built = build(self.ini, self.words, self.watch, options=self.copies.redirect)
        self.app, self.chains = built.app, built.chains
        ends = [chain.steps[-1] for chain in self.chains]
        self._mounted = {end.where: end.factory for end in ends if end.element is None}
        return [views for _, views in built.views()]

    def _of_mounted(self) -> Views:
        """Return what the modules of mounted applications declare, which no publisher scans."""
        names = [getattr(factory, "__module__", None) or "-" for factory in self._mounted.values()]
        tops, views = tuple(f"{name.partition('.')[0]}." for name in names), Views()
        modules = [module for name, module in [*sys.modules.items()] if f"{name}.".startswith(tops)]
        for target in [one for module in modules for one in [*vars(module).values()]]:
            for note in attributes_of(target).get(NOTES, ()):
                note(views, target)
        return views

    def grow(self, *requests: Asked) -> None:
        """Let what these requests store be part of the state before each run."""
        self.copies.thaw()
        for request in (*requests, Asked("GET", "/")):
            if target := self.ask(request).header("Location"):
                self.made[urlsplit(target).path] = None
        self.copies.freeze()

    def watch(self, step: Step, handler: Handler, request: Any, response: Any) -> None:
        """Call the handler of a part, with a point before and after it."""
        run = running()
        if run is None:
            handler(request, response)
            return
        is_end = step.element is not None and step.element.is_end
        if run.user is not None and (run.depth == 0 or run.identify):  # and behind what finds the user
            run.identify = False
            request.principal = run.user
            request.environ["REMOTE_USER"] = run.user.encode().decode("latin-1")
        if run.depth == 0:
            close_one(request, run)
            if self._look is not None:  # a hook of this request alone, so that no kept page is the answer
                request.traversal_hooks += (lambda *given: self,)
        if self._look is not None and (step.facts.walks or is_end or step.where in self._mounted):
            find_root = step.facts.find_root
            if find_root is not None:
                request.root = find_root(request)
            self._look(request)
            return
        if run.gate is None:
            request.attempts_left = min(request.attempts_left, ATTEMPTS)
        name = str(step)
        point(f"{name}:enter", step.where)
        run.depth += 1
        run.reached = step.where
        if step.element is not None and "principal" in step.element.contract.provides:
            run.identify = True
        try:
            handler(request, response)
        except Exception as error:
            if not run.hits:
                line = line_of_the_site(error)
                run.raised = f"{type(error).__name__} was raised{line and f' by {line}'}"
            raise
        finally:
            run.depth -= 1
            run.commits_errors = run.commits_errors or bool(getattr(request, "commit_on_error", False))
        if is_end and not response.in_memory:
            run.bodies.append(response.app_iter)
        point(f"{name}:exit", step.where)

    def call(self, view: View, call: Callable[..., Any], context: Any, request: Any, *response: Any) -> Any:
        """Call a view, with a point before and after it."""
        run = running()
        if run is not None:
            if self._look is not None:
                self._look(request)
                return ""
            run.views.append(view)
            if owner_of := self.owner_of.get(view.function):
                owner = owner_of(context)
                run.owners |= {owner} if isinstance(owner, str) else {*(owner or ())}
            if run.closers[0] == 0:
                close_one(request, run)
        point("view:enter", str(view))
        result = call(context, request, *response)
        if run is not None:
            run.returns_none = result is None
        point("view:exit", str(view))
        return result

    def end(self, *signal: object) -> NoReturn:
        """End the command, as a handler of signals."""
        self.is_ended = True
        raise KeyboardInterrupt

    def ask(self, request: Asked, run: Run | None = None) -> Run:
        """Run one request as a server does."""
        run = run or Run()
        if request.alike in self.hung:
            run.hangs = self.hung[request.alike]
            return run
        run.user = (self.user if request.user is None else request.user) or None
        is_own = request.user in (None, self.user)
        environ = (request.with_headers(self.headers) if is_own else request).environ(self.origin)
        if run.user is not None:
            environ["REMOTE_USER"] = run.user.encode().decode("latin-1")
        random.seed(self.seed)
        self._at_work = run
        with started(run), watched(run, str(request)):
            serve(self.app, environ, run)
        if self.is_ended:  # the code of the site, or of a database, has swallowed the exception
            raise KeyboardInterrupt
        if run.hangs:
            self.hung[request.alike] = run.hangs
        if run.is_acknowledged:
            self.succeeded.update(view.function for view in run.views)
        run.keeps_request = "pipeline.request" in environ
        if self.copies.sql.refused:
            raise ConfigurationError(self.copies.sql.refused)
        return run

    def afresh(self, request: Asked, run: Run | None = None) -> Run:
        """Run one request on the databases as they were."""
        self.copies.reset()
        return self.ask(request, run)

    @property
    def has_stored(self) -> bool:
        """True if something was stored since the databases were as they were."""
        return not self.copies.stored().is_nothing

    def look(self, request: Asked, look: Callable[[Any], object]) -> Run:
        """Ask, and call ``look(request)`` in the place of traversal, or of an end without it."""
        with mock.patch.object(self, "_look", look):
            return self.ask(request)

    def _is_ours(self) -> bool:
        """Return whether this thread does the work of ``prove``, and not that of the site."""
        return running() is None and threading.get_ident() == self._thread

    def refuse(self, event: str, name: str) -> None:
        """Refuse an effect that is not allowed, and note it if it comes before the commit."""
        if name in self.allow or name.startswith(f"{self.copies.directory}{os.sep}"):
            return
        run = running() or self._at_work
        # after a commit of nothing, no database has finished
        is_after = any(frame.f_code is call_if_stored.__code__ for frame, _ in walk_stack(None))
        if run is not None and not run.finished and not is_after:
            run.effects.append(f"{event} {name}, by {place() or 'code of a library'}")
        raise EffectRefused(f"prove: {event} {name}: nothing outside of the databases is touched. --allow {name}")


def close_one(request: Any, run: Run) -> None:
    """Register a function for the close of the request, which is a point."""
    run.closers[0] += 1

    def closer() -> None:
        run.closers[1] += 1
        point("on_close")

    request.on_close(closer)


def serve(app: Any, environ: dict[str, Any], run: Run) -> None:
    """Take the answer of an app as a server does, with a point at ``start_response`` and at each block."""

    def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
        point("start_response")
        run.status, run.headers = int(status[:3]), list(headers)
        run.finished_before_start = len(run.finished)
        return blocks.append

    blocks: list[bytes] = []
    body: Any = None
    try:
        body = app(environ, start)
        for block in body:
            point("block")
            blocks.append(block)
    except KeyboardInterrupt:  # the command shall end
        raise
    except BaseException as error:
        run.escaped = error
    try:
        if hasattr(body, "close"):
            body.close()
    except BaseException as error:
        run.escaped = run.escaped or error
    run.body = b"".join(blocks)


@contextmanager
def quiet(level: int = logging.CRITICAL) -> Iterator[None]:
    """Have nothing logged up to a level: each fault would be."""
    before = logging.root.manager.disable
    logging.disable(level)
    try:
        yield
    finally:
        logging.disable(before)


def attributes_of(thing: Any) -> Mapping[str, Any]:
    """Return the attributes of a thing. One that stands for an object of a request, as in Flask, may raise any
    error outside of it."""
    try:
        attributes: Mapping[str, Any] = vars(thing)
    except Exception:
        attributes = {}
    return attributes
