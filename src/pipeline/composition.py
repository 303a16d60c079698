"""Elements and pipelines. A pipeline is linked once, at load, and is a WSGI app.

``@element`` makes an ``Element`` of a factory ``name(next, *, options) -> handler``. Calling an element with
options configures it. Calling it with an app puts it around the app, which makes a ``Pipeline`` of one element.
If the app is a pipeline itself, the result is that pipeline with one more element. The handlers are linked, so
that a request passes from one to the next by a plain call::

    log()(errors()(publisher))    log -> errors -> publisher      one pipeline, one edge
    log()(foreign(errors()(app))) log -> [edge] foreign -> errors -> [edge] app

Paste Deploy's ``[pipeline:]`` needs no more than that. It builds from the inside out and never says that it is
done. So the order is checked each time an element is added, and completeness by ``Pipeline.finish``. A caller
that knows that the pipeline is complete calls it, or else the first request does.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Protocol, TypeAlias, overload

from pipeline.attributes import composed, refuse_clashes, refuse_other_layout, refuse_undeclared
from pipeline.edge import Edge, beginning
from pipeline.interfaces import ConfigurationError, Facts, Handler, WSGIApp
from pipeline.options import Signature, on_demand
from pipeline.order import Contract, refuse_missing, refuse_wrong_order
from pipeline.request import OF_AN_ATTEMPT, Request

if TYPE_CHECKING:
    from typing_extensions import ParamSpec

    from pipeline.between import watched
    from pipeline.declared import refuse_unfit
    from pipeline.foreign import foreign
    from pipeline.ini import Source
    from pipeline.strings import from_strings
    from pipeline.typed import refuse_unadded

    Options = ParamSpec("Options", default=...)
else:  # for cost alone: many pipelines need none of these modules
    watched = on_demand("pipeline.between:watched")
    refuse_unfit = on_demand("pipeline.declared:refuse_unfit")
    foreign = on_demand("pipeline.foreign:foreign")
    Source = on_demand("pipeline.ini:Source")
    from_strings = on_demand("pipeline.strings:from_strings")
    refuse_unadded = on_demand("pipeline.typed:refuse_unadded")
    Options = typing.ParamSpec("Options")
"""The parameters of a factory behind ``next``, so that a type checker finds an option that is misspelt."""


class Offers:
    """Return this instead of a handler if the element has more to give at load.

    ``handler`` is ``next`` if the element only adds attributes to the request. ``attributes`` has the value of each
    attribute of the request that the element offers; or, if the attribute is declared by ``on_first_use``, the
    function that makes the value. If several elements offer one attribute, the outermost counts.
    """

    def __init__(self, handler: Handler, **attributes: Any) -> None:
        self.handler = handler
        self.attributes = attributes


Factory: TypeAlias = Callable[Concatenate[Any, Options], Handler | Offers]
End: TypeAlias = Callable[Options, Handler | Offers]


class Element(Generic[Options]):
    """One step of a pipeline, with or without its options.

    ``element(option=1)`` is the element with options, from Python. ``element(global_conf, option="1")`` is the same
    from an ini (``paste.filter_factory``). ``element(...)(app)`` is the element around an app. A factory that takes
    no ``next`` makes the end of a pipeline; called with ``global_conf``, it is a pipeline by itself
    (``paste.app_factory``).
    """

    def __init__(
        self,
        factory: Callable[..., Handler | Offers],
        contract: Contract,
        options: Mapping[str, Any] | None = None,
        source: Any = None,
    ) -> None:
        self.factory = factory
        self.signature = Signature.of(factory)
        self.name = self.__name__ = contract.name
        self.contract = contract
        self._take(options or {}, source)
        self.is_end = not self.signature.takes_next
        self.__doc__ = factory.__doc__
        self.__module__ = factory.__module__
        self.__wrapped__ = factory

    def _take(self, options: Mapping[str, Any], source: Any = None) -> Element[Options]:
        self.options = dict(options)
        given = (option for option, value in options.items() if value is not None)
        self.contract = self.contract._replace(met=frozenset(given), element=self)
        self.source = source
        self.strings: Mapping[str, str] = {}
        self.makers: Sequence[Any] = ()
        return self

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{k}={v!r}' for k, v in self.options.items())})"

    @overload
    def __call__(self, conf: Mapping[str, str], /, **strings: str) -> Any: ...

    @overload
    def __call__(self, app: WSGIApp | Element, /) -> Pipeline: ...  # type: ignore[overload-overlap]

    @overload
    def __call__(self, *none: Options.args, **options: Options.kwargs) -> Element[Options]: ...

    def __call__(self, conf_or_app: Any = None, /, **options: Any) -> Any:  # type: ignore[misc]
        if conf_or_app is None:
            self.signature.check_options(self.name, options)
            return copy(self)._take({**self.options, **options})
        if isinstance(conf_or_app, Mapping) and not callable(conf_or_app):  # as Paste's URLMap is, an app
            source = Source(conf_or_app, self)
            part = self.configured(source, options)
            part.makers = source.makers()
            return _linked(part, None, part.makers) if self.is_end else part
        if options:
            raise TypeError(f"give {self.name} its options first, then the app: {self.name}(...)(app)")
        inner = _linked(conf_or_app, None, self.makers)
        chain = (self.contract, *inner.all_contracts)
        refuse_wrong_order(chain)
        refuse_clashes(_added(chain))
        return _linked(self, inner, self.makers)

    @property
    def facts(self) -> Facts:
        """What an operator must know of this element with its options."""
        declared: Callable[..., Facts] = self.contract.facts or (lambda **options: Facts())
        defaults = getattr(inspect.unwrap(self.factory), "__kwdefaults__", None) or {}
        try:
            return declared(**{**defaults, **self.options})
        except TypeError as error:
            raise ConfigurationError(f"the facts of {self.name} ({self.__module__}): {error}") from error

    def configured(self, source: Any, strings: Mapping[str, str]) -> Element[Options]:
        """Return this element with the options of an ini, converted. OptionError says which one is wrong."""
        options = from_strings(self.signature, self.name, strings, source)
        made = copy(self)._take({**self.options, **options}, source)
        made.strings = strings
        return made

    def link(self, *next: Handler) -> Offers:
        """Make the handler: the only time that the factory is called for this element."""
        self.signature.check_options(self.name, self.options)
        try:
            refuse_unfit(self.name, self.options, self.signature.annotations)
            made = self.factory(*next, **self.options)
        except ConfigurationError as error:
            if self.source is not None:
                error.args = (f"{self.source.section_of(self.options)}: {error}",)
            raise
        except ValueError as error:  # an option is wrong: a factory is given nothing else
            where = f"{self.source.section_of(self.options)}: " if self.source is not None else ""
            raise ConfigurationError(f"{where}{self.name}: {error}") from error
        offers = made if isinstance(made, Offers) else Offers(made)
        if not callable(offers.handler):
            raise ConfigurationError(
                f"the factory of element {self.name} ({self.__module__}) returned {made!r}; it must "
                f"return a handler, a callable (request, response) -> None"
            )
        refuse_undeclared(self.name, self.contract.adds, offers.attributes)
        return offers


class Decorator(Protocol):
    """Makes an element of a factory, with or without ``next``."""

    @overload
    def __call__(self, factory: Factory[Options], /) -> Element[Options]: ...

    @overload
    def __call__(self, factory: End[Options], /) -> Element[Options]: ...


@overload
def element(factory: Factory[Options], /) -> Element[Options]: ...


@overload
def element(factory: End[Options], /) -> Element[Options]: ...


@overload
def element(
    *,
    requires: Iterable[str] = (),
    provides: Iterable[str] = (),
    inside: Mapping[str, str] = {},
    outside: Mapping[str, str] = {},
    with_option: Mapping[str, tuple[str, ...]] = {},
    adds: type[Request] | None = None,
    between: Callable[[Any, Offers], Offers] | None = None,
    new_session: Callable[[Any, str | None], object] | None = None,
    facts: Callable[..., Facts] | None = None,
) -> Decorator: ...


def element(
    factory: Callable[..., Handler | Offers] | None = None,
    /,
    *,
    requires: Iterable[str] = (),
    provides: Iterable[str] = (),
    inside: Mapping[str, str] = {},
    outside: Mapping[str, str] = {},
    with_option: Mapping[str, tuple[str, ...]] = {},
    adds: type[Request] | None = None,
    between: Callable[[Any, Offers], Offers] | None = None,
    new_session: Callable[[Any, str | None], object] | None = None,
    facts: Callable[..., Facts] | None = None,
) -> Any:
    """Make an element of a factory ``name(next, *, option: type = default) -> handler``.

    requires  things that outer elements must provide, such as ("root",)
    provides  things that inner elements can rely on, such as ("context",)
    inside    {"errors": "why"}: if an element of that name, or one that provides a thing of that name, stands in
              the same pipeline, it must be outside this one
    outside   the reverse: it must be inside this one
    with_option  {"option": ("thing",)}: what outer elements must provide if the option is given
    adds      a subclass of Request with the attributes that the element adds to it: each with its type, its
              meaning, and a default or ``on_first_use()``
    between   ``(step, offers) -> offers``, called at load for each other part of the pipeline with its handler and
              what it offers. Returns what is linked in their place. For elements that watch the others
    new_session  ``(request, principal)``, called when a login, or a logout (None), begins a session of the visitor
    facts     ``(**options) -> Facts``, which tells the tools what an operator must know of the element
    """
    for given in (requires, provides):
        if isinstance(given, str):
            raise TypeError(f"requires and provides must be tuples of names, not {given!r}")
    if adds is not None:
        refuse_other_layout(adds)

    def decorate(factory: Callable[..., Handler | Offers]) -> Element:
        order = tuple(requires), tuple(provides), inside, outside
        contract = Contract(factory.__name__, *order, frozenset(), with_option, adds, between, new_session, facts)
        return Element(factory, contract._replace(module=factory.__module__))

    return decorate if factory is None else decorate(factory)


class Pipeline(Edge):
    """A WSGI app: elements, outermost first, around a publisher or any other WSGI app.

    A part that is neither an element nor the last is a foreign middleware: a callable that takes an app and
    returns one. Raises ConfigurationError if the parts do not fit; then nothing has been started.
    """

    linked: tuple[Contract, ...]
    """Contracts of the elements that a request has met at the end of this pipeline, outermost first."""
    behind_middleware: tuple[Contract, ...]
    """Contracts of the elements behind the foreign middleware at that end, as far as they are known at load."""
    names: frozenset[str]
    """The names of the linked elements, and of the things that they provide."""
    offered: Mapping[str, Any]
    """The values or functions that the linked elements offer, by attribute of the request."""
    published: Any
    """The ``Views`` at the end, also behind a foreign middleware; None if they are not known."""
    _continued: dict[Edge, Pipeline]

    def __new__(cls, *parts: Any) -> Pipeline:
        if not parts:
            raise ConfigurationError("a pipeline needs at least an end: a publisher or a WSGI app")
        chain: list[Contract] = []
        for part in parts:
            if isinstance(part, Element) and part.is_end and part is not parts[-1]:
                raise ConfigurationError(f"{part.name} is the end of a pipeline, so it must stand last")
            if not callable(part):
                raise ConfigurationError(f"{part!r} is neither an element nor a WSGI app or middleware")
            chain += part.all_contracts if isinstance(part, Pipeline) else ()
            chain += [part.contract] if isinstance(part, Element) else ()
        refuse_wrong_order(chain)
        refuse_missing(chain)
        refuse_clashes(_added(chain))
        makers = [contract.between for contract in chain if contract.between is not None]
        pipeline = _linked(parts[-1], None, makers)
        for part in reversed(parts[:-1]):
            pipeline = _linked(part, pipeline, makers)
        pipeline.finish()
        return pipeline

    @classmethod
    def _around(
        cls, linked: tuple[Contract, ...], handler: Handler, offered: Mapping[str, Any], inner: Pipeline | None
    ) -> Pipeline:
        """Return a pipeline with these elements, what they offer, and the outermost handler, around ``inner``."""
        self: Pipeline = object.__new__(cls)
        self.handler = handler
        self.linked, self.offered = linked, offered
        self.behind_middleware, self.published = (), offered.get("views")
        if inner is not None:
            self.linked, self.offered = linked + inner.linked, {**inner.offered, **offered}
            self.behind_middleware, self.published = inner.behind_middleware, inner.published
        self.names = frozenset(name for contract in self.linked for name in (contract.name, *contract.provides))
        self._continued = {}
        self.request_class = Request
        given = {name: value for name, value in self.offered.items() if name in OF_AN_ATTEMPT}
        self.fields = {"pipeline": self, **given}
        self.begin = lambda *given: beginning(self.fields)(*given)  # once: the first request finishes it
        self.finished = False
        return self

    @property
    def all_contracts(self) -> tuple[Contract, ...]:
        """Contracts of the linked elements and of those behind the foreign middleware."""
        return self.linked + self.behind_middleware

    def finish(self) -> None:
        """Complete this pipeline: no element will be put around it. Raise OrderError if one is missing, or
        ConfigurationError if a view names a class of requests that no element adds."""
        if not self.finished:
            refuse_missing(self.linked)
            refuse_unadded(self.all_contracts, self.offered, self.published)
            self.request_class = composed(_added(self.linked), self.offered)
            self.begin = beginning(self.fields)
            self.finished = True

    def continuing(self, outer: Edge) -> Edge:
        """Return this pipeline as it is behind a foreign middleware of ``outer``: checked, and with a request class
        for the elements of both. The first request that comes through the middleware makes it."""
        found = self._continued.get(outer)
        if found is None and isinstance(outer, Pipeline):
            refuse_wrong_order(outer.linked + self.linked)
            found = Pipeline._around(outer.linked, self.handler, outer.offered, self)
            found.finish()
            self._continued[outer] = found
        return found or self


def _linked(part: Any, inner: Pipeline | None, makers: Sequence[Any] = ()) -> Pipeline:
    """Return a pipeline of one part around ``inner``: an element or a foreign middleware, or the end if ``inner``
    is None. ``makers`` put watchers around it (``between``)."""
    if isinstance(part, Element):
        if inner is None and not part.is_end:
            raise ConfigurationError(f"{part.name} cannot be the end of a pipeline: it needs an app inside it")
        offers = part.link(*([] if inner is None else [inner.handler]))
        contract = part.contract._replace(handler=offers.handler)
        offers = watched(makers, part, None, offers) if makers else offers
        return Pipeline._around((contract,), offers.handler, offers.attributes, inner)
    app = part if inner is None else part(inner)
    if isinstance(app, Element):
        app = _linked(app, None, makers)
    elif not callable(app):
        raise ConfigurationError(f"{app!r} is neither an element nor a WSGI app")
    elif not isinstance(app, Pipeline):
        offers = Offers(foreign(app))
        offers = watched(makers, None, app, offers) if makers else offers
        app = Pipeline._around((), offers.handler, {}, None)
    if inner is not None and not app.linked:
        app.behind_middleware, app.published = inner.all_contracts, inner.published
    return app


def _added(contracts: Iterable[Contract]) -> list[tuple[str, type[Request]]]:
    """Return the names of the elements that add attributes to the request, with their classes."""
    return [(contract.name, contract.adds) for contract in contracts if contract.adds is not None]
