"""Register views, and find them.

``@view`` only puts a note on the function. ``Views.scan`` collects the notes of a package. So a module can be
imported anywhere, and each publisher has views of its own.

The adapter registry of zope.interface has the views by their context and request type, under the name "METHOD
name". One look-up finds the most specific view for the method, by the rules of adapter lookup, and its result is
kept. Only names of registered views are looked up, so names that clients invent do not fill a cache.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType
from typing import Any, Protocol, TypeAlias, TypeVar

from zope.interface import Interface, implementedBy, providedBy
from zope.interface.adapter import AdapterRegistry
from zope.interface.interfaces import IInterface, ISpecification

from pipeline.interfaces import (
    ConfigurationError,
    IDefaultSteps,
    INamespace,
    IPublishTraverse,
    IRequest,
    IView,
    ViewError,
)
from pipeline.options import on_demand
from pipeline.request import SAFE_METHODS

place_of: Any = on_demand("pipeline.ini:place_of")
versioned: Any = on_demand("pipeline.http.versions:versioned")

F = TypeVar("F")

NOTES = "__pipeline_notes__"
UTILITIES = "__pipeline_utilities__"
OF_NONE: Any = implementedBy(type(None))  # type: ignore[no-untyped-call]  # ``providedBy`` takes 9,500 instructions
ERROR = "error"
"""The key in place of the method for error views, which are called for any method. HTTP methods are upper case."""


class Fill(Protocol):
    """Fills the further parameters of a view, behind ``(context, request, response)``."""

    @property
    def names(self) -> Sequence[str]:
        """The names of these parameters, in their order."""

    def __call__(self, request: Any) -> dict[str, Any]:
        """Return the values of the parameters by name, for a request."""


Arguments: TypeAlias = Callable[[Callable[..., Any], int, Any], Fill | None]
"""``(function, leading, views)`` returns the Fill for the parameters of a function behind the leading ones. It
returns None if no parameter is left to fill, and raises ViewError for a parameter that it cannot fill."""


class View:
    """A registered view: the function to call, and the facts that the publisher needs before the call."""

    __slots__ = ("call", "fill", "function", "methods", "name", "permission", "same_site", "takes_response")

    def __init__(
        self, function: Callable[..., Any], name: str, methods: tuple[str, ...], permission: str | None,
        fill: Callable[[Any, int], Fill | None] = lambda function, leading: None, cross_site: bool = False,
        judged: Any = None,
    ) -> None:
        self.function = function
        self.name = name
        self.methods = methods
        self.permission = permission
        self.same_site = not cross_site and not SAFE_METHODS.issuperset(method.upper() for method in methods)
        """True if an unsafe request that another site made a browser send is refused (S23)."""
        if isinstance(function, type):
            _refuse_no_view(function)
            self.takes_response = False
            self.fill = fill(function.__call__, 1)
            self.call: Callable[..., Any] = lambda context, request, **values: function(context, request)(**values)
        else:
            self.takes_response = _takes_response(function)
            self.fill = fill(function, 3 if self.takes_response else 2)
            self.call = function
        if self.fill is not None:
            self.call = _with_fields(self.call, self.fill)
        if judged is not None:  # by preconditions that name its version
            self.call, self.takes_response = judged(self.call, self.takes_response), True

    @property
    def called(self) -> Callable[..., Any]:
        """The function, or the method of a view class that is called."""
        return self.function.__call__ if isinstance(self.function, type) else self.function

    def __str__(self) -> str:
        return named(self.function)


def named(function: Callable[..., Any]) -> str:
    """Return the name of a function or class, with its file and line."""
    return f"{function.__module__}.{function.__qualname__} ({place_of(function)})"


def view(
    bare: Any = None,
    /,
    *,
    context: Any = None,
    name: str = "",
    methods: Iterable[str] = ("GET",),
    request_type: Any = None,
    permission: str | None = None,
    cross_site: bool = False,
    version: Callable[[Any], Any] | None = None,
    version_required: bool = False,
) -> Callable[[F], F]:
    """Make a function ``(context, request)`` or ``(context, request, response)``, or a class
    ``(context, request)`` with ``__call__()``, a view. Further parameters of the function, or of
    ``__call__``, are filled with the fields of the form (``pipeline.forms.arguments``).

    context       class or interface of the objects that the view is for; None means any object. For a class of
                  exceptions it is an error view, which is called with the exception, for any method
    name          the path segment that calls the view; "" is the default view
    methods       HTTP methods that the view accepts. "GET" includes HEAD. OPTIONS is answered automatically
    request_type  an interface that the request must provide; None means any request
    permission    permission that the principal must hold; None leaves the decision to the security policy. An error
                  view has no permission
    cross_site    whether other sites may have a browser send requests that change something (S23)
    version       ``(context)`` returns what differs whenever the page does: its ETag, compared with the
                  preconditions of a request before the view is called (304, 412); None if nothing is stored yet
    version_required  whether a request that changes something must name the version that it has read, else 428

    It may return str, bytes, an iterable of bytes, an open binary file, None (the response has the answer), a
    ``webob.Response``, or a value with an ``IResult`` adapter.
    """
    if bare is not None:
        on = f"bare on {named(bare)}" if callable(bare) else f"with {bare!r} as the class of its objects"
        raise ViewError(f"@view stands {on}; write @view() or @view(name=...)")
    if isinstance(methods, str):
        raise TypeError(f"methods must be a tuple such as ('GET', 'POST'), not {methods!r}")
    if not isinstance(cross_site, bool) or not isinstance(permission, str | None) or permission == "":
        raise TypeError(f"cross_site is a bool, and permission a name: {cross_site!r}, {permission!r}")
    judged = version and partial(versioned, version, version_required)
    facts = context, name, tuple(methods), request_type, permission, cross_site, judged
    return noting(lambda views, target: views.add(target, *facts))


def adapter(adapts: Any, provides: Any, name: str = "", request_type: Any = None) -> Callable[[F], F]:
    """Make a class or function ``(object) -> adapter`` the adapter of ``adapts`` (a class or interface)
    for ``provides`` (an interface such as ``IPublishTraverse`` or ``IResult``).

    request_type  for IPublishTraverse and INamespace: an interface that the request must provide
    """
    return noting(lambda views, target: views.add_adapter(target, adapts, provides, name, request_type))


def utility(provides: Any, name: str = "") -> Callable[[F], F]:
    """Register an instance of a class as the utility for an interface. The instance is made by the scan."""
    return noting(lambda views, target: views.add_utility(target, provides, name), UTILITIES)


def noting(note: Callable[[Views, Any], None], key: str = NOTES) -> Callable[[F], F]:
    """Put a note on a function, class or object. The scan of its module calls ``note(views, target)``."""

    def note_on(target: F) -> F:
        setattr(target, key, (*target.__dict__.get(key, ()), note))
        return target

    return note_on


class Views:
    """The views and adapters of one publisher. Filled at load, then only read."""

    def __init__(self, scan: Iterable[str] = (), arguments: Arguments | None = None) -> None:
        self.arguments = arguments
        self.registry = AdapterRegistry()
        # AdapterRegistry makes these methods for each instance, in C.
        self.lookup: Callable[[tuple[Any, ...], Any, str], Any] = self.registry.lookup  # type: ignore[attr-defined]
        self.lookup1: Callable[..., Any] = self.registry.lookup1  # type: ignore[attr-defined]
        self.known: dict[str, dict[str, str]] = {}
        """The names of views in the registry, by name and method. Only these are looked up."""
        self.typed: set[str] = set()
        """Those of them that have a view for a type of request."""
        self.adapted: set[Any] = set()
        """The interfaces that an adapter provides."""
        self.adapter_names: set[str] = set()
        """The names of adapters. Other names are not looked up."""
        self.has_traversers = False
        self.has_typed_adapters = False
        self.has_defaults = False
        self._views: dict[tuple[Any, Any, str], tuple[View, bool]] = {}
        self.scan(*scan)

    def scan(self, *dotted: str) -> None:
        """Register every view, adapter and utility defined in packages or modules, and below them."""
        targets = [target for name in dotted for module in _modules(name) for target in _defined_in(module)]
        for key in (UTILITIES, NOTES):  # a view may need a converter, which is a utility
            for target in targets:
                # A subclass inherits the attribute, but was not decorated.
                for note in getattr(target, "__dict__", {}).get(key, ()):
                    note(self, target)

    def _fill_of(self, function: Callable[..., Any], leading: int) -> Fill | None:
        """Return the Fill for the parameters behind the leading ones, or None if no parameter is left to fill."""
        try:
            further = list(inspect.signature(function).parameters.values())[leading:]
        except (TypeError, ValueError):  # some builtins have no signature
            return None
        if self.arguments is None or all(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in further):
            return None
        return self.arguments(function, leading, self)

    def add(
        self, function: Callable[..., Any], context: Any, name: str, methods: tuple[str, ...], request_type: Any,
        permission: str | None, cross_site: bool = False, judged: Any = None,
    ) -> None:
        """Register one view. Raise ViewError if there is another for the same, or if it cannot be called as a
        view."""
        found = View(function, name, methods, permission, self._fill_of, cross_site, judged)
        is_of_errors = isinstance(context, type) and issubclass(context, BaseException)
        _refuse_uncallable(found, is_of_errors)
        spec = _specification(context, found)
        request_spec = _specification(request_type, found, IRequest)
        by_method = dict.fromkeys([ERROR] if is_of_errors else map(str.upper, methods), False)
        if "GET" in by_method:
            by_method.setdefault("HEAD", True)
        for method, implied in by_method.items():
            key = f"{method} {name}"
            place = (spec, request_spec, key)
            other, other_implied = self._views.get(place, (None, False))
            if other is not None and other.function is not function and not implied and not other_implied:
                raise ViewError(
                    f"two views are both for {key.strip()!r} on {context!r}, request type "
                    f"{request_type!r}: {other} and {found}"
                )
            if other is None or other_implied:
                self._views[place] = found, implied
                self.registry.register((spec, request_spec), IView, key, found)
                self.registry.register((spec,), IView, key, found)
                self.known.setdefault(name, {})[method] = key
                if request_spec is not IRequest:
                    self.typed.add(key)

    def add_adapter(
        self, factory: Callable[[Any], Any], adapts: Any, provides: Any, name: str = "", request_type: Any = None
    ) -> None:
        """Register an adapter factory for a class or interface, and for requests of a type."""
        required: tuple[Any, ...] = (_specification(adapts, factory),)
        if request_type is not None:
            if provides not in (INamespace, IPublishTraverse):
                raise ViewError(
                    f"{factory!r}: an adapter for {provides!r} cannot depend on the type of the request"
                )
            required += (_specification(request_type, factory),)
            self.has_typed_adapters = True
        other = self.registry.registered(required, provides, name)
        if other is not None and other is not factory:
            raise ViewError(f"two adapters of {adapts!r} for {provides!r}: {other!r} and {factory!r}")
        self.registry.register(required, provides, name, factory)
        self.adapted.add(provides)
        self.adapter_names.add(name)
        self.has_traversers = IPublishTraverse in self.adapted
        self.has_defaults = IDefaultSteps in self.adapted

    def add_utility(self, factory: Callable[[], Any], provides: Any, name: str = "") -> None:
        """Register an instance for an interface. Raise ViewError if another one has that name."""
        self.add_named(factory(), provides, name)
        self.adapted.add(provides)

    def add_named(self, thing: Any, provides: Any, name: str) -> None:
        """Register an object under an interface and a name. Raise ViewError if another object has that name."""
        other = self.registry.registered((), provides, name)
        if other is not None and other is not thing:
            raise ViewError(f"two objects for {provides!r} are named {name!r}: {other!r} and {thing!r}")
        self.registry.register((), provides, name, thing)

    def named(self, provides: Any, name: str) -> Any:
        """Return the object that is registered under an interface and a name, or None."""
        return self.registry.lookup((), provides, name)  # type: ignore[attr-defined]

    def find(self, context: Any, request: Any, method: str, name: str) -> View | None:
        """Return the view of that name for a context, a type of request and a method, or None."""
        try:
            key = self.known[name][method]
        except KeyError:
            return None
        if key in self.typed:
            return self.lookup((providedBy(context), providedBy(request)), IView, key)  # type: ignore[no-any-return]
        return self.lookup1(providedBy(context), IView, key)  # type: ignore[no-any-return]

    def find_error(self, error: BaseException, request: Any) -> View | None:
        """Return the error view for the most specific class of an exception, or None."""
        return self.find(error, request, ERROR, "")

    def allowed(self, context: Any, request: Any, name: str) -> list[str]:
        """Return the methods that the views of that name accept, sorted; empty if there is no such view."""
        methods = sorted(self.known.get(name, {}).keys() - {ERROR})
        return [method for method in methods if self.find(context, request, method, name)]

    def adapt(self, obj: Any, provides: Any) -> Any:
        """Return ``obj`` itself if it provides the interface, or its adapter, or None."""
        cls = type(obj)  # of a dict or list, ``providedBy`` takes 9,500 instructions
        spec: Any = implementedBy(cls) if cls is dict or cls is list else providedBy(obj)  # type: ignore[no-untyped-call]
        if spec.isOrExtends(provides):
            return obj
        factory = self.lookup1(spec, provides) if provides in self.adapted else None
        return None if factory is None else factory(obj)

    def adapter_for(self, obj: Any, request: Any, provides: Any, name: str = "") -> Callable[[Any], Any] | None:
        """Return the adapter factory of ``obj`` for the type of the request, or else for any request, or None."""
        spec = providedBy(obj) if obj is not None else OF_NONE
        found = self.lookup((spec, providedBy(request)), provides, name) if self.has_typed_adapters else None
        return self.lookup1(spec, provides, name) if found is None else found  # type: ignore[no-any-return]

    def utilities(self, provides: Any) -> list[Any]:
        """Return the utilities for an interface, in the order of their names."""
        named = self.registry.lookupAll((), provides)  # type: ignore[attr-defined]
        return [thing for _, thing in sorted(named)]

    def __iter__(self) -> Iterator[tuple[Any, Any, str, View]]:
        """Yield each registration: context, request type, "METHOD name", view."""
        return ((*place, found) for place, (found, _) in self._views.items())


def _specification(for_: Any, who: Any, default: Any = Interface) -> Any:
    if for_ is None:
        return default
    if isinstance(for_, type):
        return implementedBy(for_)  # type: ignore[no-untyped-call]
    if IInterface.providedBy(for_) or ISpecification.providedBy(for_):
        return for_
    raise ViewError(f"{who}: {for_!r} is neither a class nor an interface")


def _with_fields(function: Callable[..., Any], fill: Fill) -> Callable[..., Any]:
    """Return a function that calls a view with the fields of the form."""
    return lambda context, request, *response: function(context, request, *response, **fill(request))


def _takes_response(function: Callable[..., Any]) -> bool:
    if not callable(function):
        raise ViewError(f"{function!r} cannot be called as a view")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some builtins have no signature
        return False
    names = list(signature.parameters)
    try:
        signature.bind_partial(None, None)
    except TypeError:
        raise ViewError(
            f"{named(function)} takes {', '.join(names) or 'nothing'}; a view must take (context, request) "
            f"or (context, request, response), and fields of a form"
        ) from None
    return names[2:3] == ["response"]


def _refuse_uncallable(view: View, is_of_errors: bool) -> None:
    """Raise ViewError for a view that no request can reach, or that an error cannot call."""
    if view.name.startswith(("_", "@", "+")) or "/" in view.name or view.name in (".", ".."):
        raise ViewError(f"{view}: a view cannot be named {view.name!r}: no path leads to that name")
    if not view.methods:
        raise ViewError(f"{view}: it accepts no method")
    for method in view.methods:
        if not method.replace("-", "").isalpha():
            raise ViewError(f"{view}: {method!r} is not a method")
    if inspect.iscoroutinefunction(view.called) or inspect.isasyncgenfunction(view.called):
        raise ViewError(f"{view}: it is async, and nothing awaits it: a request runs in a thread. Write def")
    if is_of_errors and view.fill is not None:
        raise ViewError(f"{view}: an error view cannot take fields of a form, which may be missing")
    if is_of_errors and view.permission is not None:
        raise ViewError(f"{view}: an error view cannot have a permission: every client may see its error")


def _refuse_no_view(cls: type) -> None:
    if not any("__call__" in vars(base) for base in cls.__mro__):
        raise ViewError(f"{named(cls)} has no __call__, so it is not a view")
    try:
        inspect.signature(cls).bind(None, None)
    except TypeError as error:
        raise ViewError(f"{named(cls)} must take (context, request) to be a view: {error}") from None
    except ValueError:  # some builtins have no signature
        pass


def _defined_in(module: ModuleType) -> list[Any]:
    targets = list(vars(module).values())
    return [target for target in targets if getattr(target, "__module__", None) == module.__name__]


def _modules(dotted: str) -> Iterator[ModuleType]:
    """Import the module or package of that name, and every module below it. Yield them."""
    try:
        top = import_module(dotted)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{dotted}.".startswith(f"{error.name}."):
            raise
        raise ConfigurationError(f"scan: there is no module {error.name!r} ({dotted!r})") from None
    yield top
    for found in walk_packages(getattr(top, "__path__", ()), top.__name__ + ".", onerror=import_module):
        if not found.name.endswith(".__main__"):
            yield import_module(found.name)
