"""Elements, and pipelines of them: linked once at load, WSGI apps ever after.

``@element`` makes an ``Element`` of a factory ``name(next, *, options) -> handler``. Called with
options, an element is configured. Called with an app, it is put around it: that is a ``Pipeline`` of
one element, or, if the app is a pipeline itself, the same pipeline with one element more, their
handlers linked so that a request passes from one to the next by a plain call::

    log()(errors()(publisher))    log -> errors -> publisher      one pipeline, one edge
    log()(foreign(errors()(app))) log -> [edge] foreign -> errors -> [edge] app

That is all that Paste Deploy's ``[pipeline:]`` needs. It builds from the inside out and never says
that it is done, so what it builds is checked for order at each join, and for completeness by
``Pipeline.finish``: called by whoever knows that the pipeline is done, else by the first request.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, overload

from pipeline.edge import InnerBody, answer, close, foreign, prepare, stream
from pipeline.http.bodies import enter
from pipeline.interfaces import ConfigurationError, Handler, Opener, WSGIApp
from pipeline.options import Signature, Source
from pipeline.order import Contract, refuse_missing, refuse_wrong_order
from pipeline.request import Request, refuse_strangers
from pipeline.response import OK, Response
from pipeline.views import Views

_new: Any = object.__new__


class Element:
    """One step of a pipeline, with or without its options.

    ``element(option=1)`` is the element with options, from Python; ``element(global_conf, option="1")``
    the same from an ini (``paste.filter_factory``); ``element(...)(app)`` is the element around an app.
    A factory that takes no ``next`` makes the end of a pipeline; called with ``global_conf`` it is a
    pipeline by itself (``paste.app_factory``).
    """

    def __init__(
        self,
        factory: Callable[..., Handler],
        contract: Contract,
        options: Mapping[str, Any] | None = None,
        source: Source | None = None,
    ) -> None:
        self.factory = factory
        self.signature = Signature.of(factory)
        self.name = contract.name
        self.options = dict(options or {})
        given = (option for option, value in self.options.items() if value is not None)
        self.contract = contract._replace(met=frozenset(given))
        self.source = source
        self.is_end = not _takes_next(factory)
        self.__doc__ = factory.__doc__
        self.__name__ = contract.name
        self.__module__ = factory.__module__
        self.__wrapped__ = factory

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{k}={v!r}' for k, v in self.options.items())})"

    @overload
    def __call__(self, **options: Any) -> Element: ...

    @overload
    def __call__(self, conf: Mapping[str, str], /, **strings: str) -> Any: ...

    @overload
    def __call__(self, app: WSGIApp | Element, /) -> Pipeline: ...

    def __call__(self, conf_or_app: Any = None, /, **options: Any) -> Any:  # type: ignore[misc]
        if conf_or_app is None:
            self.signature.check(self.name, options)
            return self._with(options)
        if isinstance(conf_or_app, Mapping):
            configured = self.configured(Source(conf_or_app, self), options)
            return Pipeline._end(configured) if self.is_end else configured
        if options:
            raise TypeError(f"give {self.name} its options first, then the app: {self.name}(...)(app)")
        return self._around(conf_or_app)

    def configured(self, source: Source, strings: Mapping[str, str]) -> Element:
        """This element with the options of an ini, converted; OptionError says which one is wrong."""
        values = self.signature.from_strings(self.name, strings, source)
        return self._with(values, source)

    def _with(self, options: Mapping[str, Any], source: Source | None = None) -> Element:
        return Element(self.factory, self.contract, {**self.options, **options}, source)

    def _around(self, app: Any) -> Pipeline:
        inner = Pipeline._end(app)
        contracts = (self.contract, *inner.contracts)
        refuse_wrong_order((*contracts, *inner.behind))
        handler = self.link(inner.handler)
        openers = {**inner.openers, **getattr(handler, "openers", {})}
        if isinstance(handler, Offers):
            handler = handler.next
        return Pipeline._linked(contracts, handler, inner.views, inner.behind, openers)

    def link(self, *next: Handler) -> Handler:
        """Make the handler: the only time that the factory is called for this element."""
        self.signature.check(self.name, self.options)
        try:
            handler = self.factory(*next, **self.options)
        except ConfigurationError as error:
            if self.source is not None:
                error.args = (f"{self.source.section_of(self.options)}: {error}",)
            raise
        except ValueError as error:  # of an option: nothing else is given to a factory
            where = f"{self.source.section_of(self.options)}: " if self.source is not None else ""
            raise ConfigurationError(f"{where}{self.name}: {error}") from error
        if not callable(handler):
            raise ConfigurationError(
                f"the factory of element {self.name} ({self.__module__}) returned {handler!r}; it must "
                f"return a handler, a callable (request, response) -> None"
            )
        return handler


class Offers:
    """What a factory returns, in place of a handler, whose element has nothing to do for each request.

    ``openers`` make attributes of the request when they are first asked for (``request.root``), by name; where
    several elements offer one, that of the outermost is used. A handler may have openers too, as an attribute.
    """

    def __init__(self, next: Handler, **openers: Opener) -> None:
        self.next = next
        self.openers = openers

    def __call__(self, request: Request, response: Response) -> None:
        self.next(request, response)


@overload
def element(factory: Callable[..., Handler], /) -> Element: ...


@overload
def element(
    *,
    requires: Iterable[str] = (),
    provides: Iterable[str] = (),
    inside: Mapping[str, str] = {},
    outside: Mapping[str, str] = {},
) -> Callable[[Callable[..., Handler]], Element]: ...


def element(
    factory: Callable[..., Handler] | None = None,
    /,
    *,
    requires: Iterable[str] = (),
    provides: Iterable[str] = (),
    inside: Mapping[str, str] = {},
    outside: Mapping[str, str] = {},
) -> Element | Callable[[Callable[..., Handler]], Element]:
    """Make an element of a factory ``name(next, *, option: type = default) -> handler``.

    requires  what outer elements must have provided, such as ("root",)
    provides  what inner elements find done, such as ("context",)
    inside    {"errors": "why"}: where an element of that name (or one that provides that) stands in
              the same pipeline, it stands outside of this one
    outside   the reverse: it stands inside of this one
    """
    for given in (requires, provides):
        if isinstance(given, str):
            raise TypeError(f"requires and provides are tuples of names, not {given!r}")

    def decorate(factory: Callable[..., Handler]) -> Element:
        contract = Contract(factory.__name__, tuple(requires), tuple(provides), inside, outside)
        return Element(factory, contract)

    return decorate if factory is None else decorate(factory)


class Pipeline:
    """Elements, outermost first, around a publisher or any WSGI app; itself a WSGI app.

    A part that is neither an element nor the last is a foreign middleware: a callable that takes an app
    and returns one. Raises ConfigurationError where the parts do not fit; then nothing was started.
    """

    contracts: tuple[Contract, ...]
    """Those of the elements that are linked here, outermost first: up to the next foreign middleware."""
    behind: tuple[Contract, ...]
    """Those of the elements behind that middleware, as far as they are known at load."""
    lineage: tuple[Contract, ...]
    """Those of all elements from the outermost pipeline, as met by a request, to the end of this one."""
    handler: Handler
    views: Views | None
    openers: Mapping[str, Opener]
    """What makes the lazy attributes of a request, by attribute."""

    def __init__(self, *parts: Any) -> None:
        if not parts:
            raise ConfigurationError("a pipeline needs at least its end: a publisher or a WSGI app")
        chain: list[Contract] = []
        for part in parts:
            chain += (*part.contracts, *part.behind) if isinstance(part, Pipeline) else ()
            chain += [part.contract] if isinstance(part, Element) else ()
            if isinstance(part, Element) and part.is_end and part is not parts[-1]:
                raise ConfigurationError(f"{part.name} is the end of a pipeline; it stands last")
            if not callable(part):
                raise ConfigurationError(f"{part!r} is neither an element nor a WSGI app or middleware")
        refuse_wrong_order(chain)
        refuse_missing(chain)
        linked = self._end(parts[-1])
        for part in reversed(parts[:-1]):
            linked = part._around(linked) if isinstance(part, Element) else self._end(part(linked))
        self.contracts, self.handler, self.views = linked.contracts, linked.handler, linked.views
        self.openers = linked.openers
        self.behind = tuple(contract for contract in chain if contract not in self.contracts)
        self.lineage = self.contracts
        self._finished = True
        self._outer: Pipeline | None = None

    @classmethod
    def _linked(
        cls,
        contracts: tuple[Contract, ...],
        handler: Handler,
        views: Views | None,
        behind: tuple[Contract, ...] = (),
        openers: Mapping[str, Opener] = {},
    ) -> Pipeline:
        self = cls.__new__(cls)
        self.contracts = self.lineage = contracts
        self.behind = behind
        self.handler = handler
        self.views = views
        self.openers = openers
        self._finished = False
        self._outer = None
        return self

    @classmethod
    def _end(cls, end: Any) -> Pipeline:
        """The pipeline that ``end`` is, or one without elements around it."""
        if isinstance(end, Pipeline):
            return end
        if not callable(end):
            raise ConfigurationError(f"{end!r} is neither an element nor a WSGI app")
        if not isinstance(end, Element):
            return cls._linked((), foreign(end), None)
        if not end.is_end:
            raise ConfigurationError(f"{end.name} is no end of a pipeline: it needs an app inside it")
        handler = end.link()
        return cls._linked((end.contract,), handler, getattr(handler, "views", None))

    def finish(self) -> None:
        """Say that no element will be put around this pipeline: raise OrderError if one is missing."""
        if not self._finished:
            refuse_missing(self.contracts)
            self._finished = True

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if "pipeline.request" in environ:
            return self._continue(environ, start_response)
        # What Request(environ) and Response() make, whose calls would take 11,200 instructions, a fourth of all.
        request = environ["pipeline.request"] = _new(Request)
        request.environ = environ
        request.pipeline = self
        request.views = self.views
        request.openers = self.openers
        request.authorize = refuse_strangers
        request._closers = request.context = request.tm_in_use = request.verify = None
        request.attempts_left = 0
        request.traversal_hooks = request.virtual_root_path = ()
        request.view_name = ""
        response = environ["pipeline.response"] = _new(Response)
        response._status = OK
        response._own_headers = None
        response._app_iter = ()
        response.conditional_response = False
        response.filters = ()
        try:
            if not self._finished:
                self.finish()
            if "CONTENT_LENGTH" in environ or "HTTP_TRANSFER_ENCODING" in environ:
                enter(request)
            handler = self.handler  # read, then called: Python does not keep in mind where it found what it calls
            handler(request, response)
            body = prepare(request, response)
            if type(body) is not list:
                body = stream(request, response, body)
        except Exception as error:
            body = answer(request, response, error)
        except BaseException:
            close(request)
            raise
        if type(body) is list:
            if request._closers is not None:
                request.bytes_sent = sum(map(len, body))
            close(request)
        try:
            start_response(response._status, response._own_headers)
        except BaseException:  # the server will not close what it was not given
            close(request)
            raise
        return body  # type: ignore[no-any-return]

    def _continue(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Take up the request of an outer pipeline again, behind a foreign middleware.

        It is the same request, on the environ that the middleware handed us, and a new response. Errors
        pass through the middleware to the outer elements. A middleware that asks again, the same inner
        pipeline or another one, finds the request as it was when it asked first.
        """
        request: Request = environ["pipeline.request"]
        outer, outer_environ, outer_response = (
            request.pipeline,
            request.environ,
            environ["pipeline.response"],
        )
        if self._outer is not outer:
            self._enter_from(outer)
        held = outer_environ.get("pipeline.held")
        if held is None:
            outer_environ["pipeline.held"] = request.hold()
            request.on_close(partial(outer_environ.pop, "pipeline.held", None))
        else:
            request.let_go(held)
        response = environ["pipeline.response"] = Response()
        request.environ = environ
        request.openers = {**self.openers, **request.openers}
        request.pipeline = self
        if self.views is not None:
            request.views = self.views
        try:
            self.handler(request, response)
            body = prepare(request, response)
            start_response(response._status, response._own_headers)
            return body if type(body) is list else InnerBody(request, body)
        finally:
            environ["pipeline.response"] = outer_response
            request.environ = outer_environ
            request.pipeline = outer

    def _enter_from(self, outer: Pipeline) -> None:
        """Check the contract over both pipelines, the first time that a request comes from ``outer``."""
        lineage = (*outer.lineage, *self.contracts)
        refuse_wrong_order(lineage)
        if not self._finished:
            refuse_missing(lineage)
        self.lineage = lineage
        self._outer = outer


def _takes_next(factory: Callable[..., Any]) -> bool:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return any(p.kind in kinds for p in inspect.signature(factory).parameters.values())
