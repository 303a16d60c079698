"""An ini as it is loaded, with watchers linked in outside each of its parts.

The commands that look into a site load it this way. A site is served without their watchers.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import partial
from itertools import count
from typing import Any, NamedTuple

from paste.deploy import loadwsgi, util
from paste.deploy.loadwsgi import APP, LoaderContext, loadcontext

from pipeline.between import openers
from pipeline.composition import Element, Offers, Pipeline
from pipeline.interfaces import Handler
from pipeline.loading.command_line import parse_variables, plan_of, split_name
from pipeline.order import Contract
from pipeline.paste import Chain, Step, named_errors, step_of, unfolded
from pipeline.switch import Switch
from pipeline.telling.errors import refusal
from pipeline.telling.words import place_of
from pipeline.views import Views

Watch = Callable[[Step, Handler, Any, Any], None]
"""``(step, handler, request, response)`` calls the handler of a step with the request and the response."""
Opened = Callable[[Any, Any], None]
"""``(request, value)``, called when a request has opened what an element offers, such as a database."""
ChangeOptions = Callable[[Step, dict[str, str]], None]
"""``(step, options)``: the options are those of the ini, as text."""


class Built(NamedTuple):
    """An ini that is loaded."""

    app: Any
    ends: list[tuple[Step, Pipeline]]
    """The end of each pipeline, innermost: a publisher, as a rule."""
    chains: list[Chain]
    """Each chain of parts that a request may pass."""

    def views(self) -> Iterator[tuple[Step, Views]]:
        """Yield each publisher and its views."""
        for step, pipeline in self.ends:
            if "views" in pipeline.offered:
                yield step, pipeline.offered["views"]


def build(
    ini: str,
    words: Sequence[str] = (),
    watch: Watch | None = None,
    opened: Opened | None = None,
    options: ChangeOptions | None = None,
) -> Built:
    """Load an ini, with its middleware and its switches; no database is opened.

    watch    is called in the place of the handler of each part
    opened   is told what the requests open
    options  is called with each step before it is made, and its options, which it may change
    """
    logging.getLogger("pipeline").addHandler(logging.NullHandler())  # what loading logs is for who serves the site
    path, name = split_name(ini)
    chains = plan_of(ini, words, has_order=True)
    building = Building(watch, opened, options)
    with named_errors(uri := f"config:{path}"):
        app = building.app(loadcontext(APP, uri, name=name, global_conf=parse_variables(words)))
    if isinstance(app, Pipeline):
        app.finish()
    return Built(app, building.ends, chains)


class Building:
    """Does what Paste Deploy does with the contexts of an ini, and puts a watcher around each part."""

    def __init__(self, watch: Watch | None, opened: Opened | None, options: ChangeOptions | None) -> None:
        self.watch, self.opened = watch, opened
        self.change_options = options
        self.ends: list[tuple[Step, Pipeline]] = []
        self.numbers = count(1)

    def app(self, context: LoaderContext) -> Any:
        """Return the app of a context."""
        *filters, end = unfolded(context)
        app = self.end(end)
        for one in reversed(filters):
            step = self.changed_step(one)
            app = self.watched(step, filtered(one, app))
        return app

    def end(self, context: LoaderContext) -> Any:
        """Return the app of a context without filters."""
        if context.protocol in ("paste.composite_factory", "paste.composit_factory"):
            loader: Any = copy(context.loader)
            loader.get_app = lambda *given, **conf: self.app(loader.app_context(*given, **conf))
            context.loader = loader  # the apps that the composite loads have watchers, too
            app = context.create()
            if isinstance(app, Switch) and not context.local_conf.get("default"):
                app.default = self.watched(step_of(context), app.default)  # it says which lines there are
            return app
        step = self.changed_step(context)
        app = context.create()
        if isinstance(app, Pipeline):
            self.ends.append((step, app))
        return self.watched(step, app)

    def changed_step(self, context: LoaderContext) -> Step:
        """Let the caller change the options of a context, and return its step."""
        if self.change_options is not None:
            self.change_options(step_of(context), context.local_conf)
        return step_of(context)

    def watched(self, step: Step, app: Any) -> Any:
        """Return the app of a step with a watcher around it."""
        watch, opened = self.watch, self.opened
        if watch is None:
            return app
        offered, adds = {}, None  # a foreign app, or a pipeline: its own elements offer what they declare
        if step.element is not None:
            offered, adds = app.offered, step.element.contract.adds

        def watcher(next: Handler) -> Offers:
            offers = Offers(partial(watch, step, next))
            if opened is not None:
                own = openers(step, Offers(next, **offered))
                offers.attributes |= {name: partial(open_told, one, opened) for name, one in own.items()}
            return offers

        contract = Contract(f"(watcher {next(self.numbers)})", adds=adds)
        return Element(watcher, contract)(app)  # it is put around the app


def open_told(opener: Callable[[Any], Any], opened: Opened, request: Any) -> Any:
    """Open what an element offers, and tell ``opened`` of it."""
    value = opener(request)
    opened(request, value)
    return value


def filtered(context: LoaderContext, app: Any) -> Any:
    """Return the app with a filter around it. Say it plainly if the filter is a function of another kind."""
    try:
        return context.create()(app)
    except TypeError as error:
        last = traceback.extract_tb(error.__traceback__)[-1].filename
        if last not in CALLERS:
            raise
        step = step_of(context)
        name = getattr(step.factory, "__name__", step.factory)
        place = place_of(step.factory)
        raise refusal("not a filter", where=step.where, name=name, place=place, error=error) from error


CALLERS = (__file__, loadwsgi.__file__, util.__file__)
"""The files whose code calls a filter."""
