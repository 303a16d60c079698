"""Traversal namespaces: ``++name++value`` as a segment of a path.

``scan = pipeline.publishing.namespaces`` registers these. To register only one of them, decorate a subclass of it
in your own module.

    ++skin++name       the request provides the skin of that name: its views are found first
    ++lang++de         the visitor wants this language, also if the browser asks for another one
    ++item++name       the item of that name, also if a view or an adapter has the same name
    ++attribute++name  an attribute that the object's class lists in ``published_attributes``
    ++etc++name        the utility that is registered by that name for ``IEtc``
    ++debug++flag      ``request.debug_flags``, in debug mode, for a visitor with its key (S17)

``@@name`` and ``++view++name`` are part of traversal itself, ``++vh++`` of ``vhost``, and ``++resource++name``
comes with the static files of that name (``pipeline.publishing.resources``). To add a namespace, register an
adapter for ``INamespace`` with the name of the namespace. It only gets values that are valid names of steps
(``pipeline.publishing.steps.check``).
"""

from __future__ import annotations

import re
from typing import Any, TypeVar

from zope.interface import Interface, alsoProvides, implementer

from pipeline.http.error_pages import DebugRequest
from pipeline.http.hosts import MOUNTED
from pipeline.interfaces import IEtc, INamespace, IRequest, ISkin
from pipeline.publishing.kinds import CONTAINER, known_kind
from pipeline.request import Request
from pipeline.views import adapter, noting

I = TypeVar("I")  # noqa: E741

_LANGUAGE = re.compile(r"[A-Za-z]{1,8}(-[A-Za-z0-9]{1,8})*")  # RFC 9110 section 8.5.1


@implementer(INamespace)
class Namespace:
    """The base class of the namespaces below, with the object that the path has reached."""

    def __init__(self, context: Any) -> None:
        self.context = context

    def step(self, request: Request, name: str) -> Any:
        raise NotImplementedError


def registered(request: Request, provides: Any, name: str) -> Any:
    """Return the object that is registered under an interface and a name. Raise KeyError if there is none."""
    found = request.views.named(provides, name) if request.views is not None else None
    if found is None:
        raise KeyError(name)
    return found


def into_application(request: Request, segment: str) -> None:
    """Move a namespace from the start of the path to the address of the application, so that URLs for this request
    keep it."""
    environ, segment = request.environ, segment.encode().decode("latin-1")  # as PEP 3333 has it
    rest = environ.get("PATH_INFO", "").lstrip("/").partition("/")
    if rest[0] == segment:
        environ.setdefault(MOUNTED, environ.get("SCRIPT_NAME", ""))  # the place of the cookies
        environ["SCRIPT_NAME"] = f"{environ.get('SCRIPT_NAME', '')}/{segment}"
        environ["PATH_INFO"] = rest[1] + rest[2]


def skin(interface: I, name: str) -> I:
    """Register a request type, an interface that extends IRequest, as the skin of that name."""
    if not interface.isOrExtends(IRequest):  # type: ignore[attr-defined]
        raise TypeError(f"{interface!r} cannot be a skin: it does not extend IRequest")
    return noting(lambda views, target: views.add_named(target, ISkin, name))(interface)


@adapter(Interface, INamespace, name="skin")
class Skin(Namespace):
    """``++skin++name``."""

    def step(self, request: Request, name: str) -> Any:
        alsoProvides(request, registered(request, ISkin, name))
        into_application(request, f"++skin++{name}")
        return self.context


@adapter(Interface, INamespace, name="lang")
class Lang(Namespace):
    """``++lang++de``."""

    def step(self, request: Request, name: str) -> Any:
        if not _LANGUAGE.fullmatch(name):
            raise KeyError(name)
        request.environ["HTTP_ACCEPT_LANGUAGE"] = name
        into_application(request, f"++lang++{name}")
        return self.context


@adapter(Interface, INamespace, name="item")
class Item(Namespace):
    """``++item++name``."""

    def step(self, request: Request, name: str) -> Any:
        if known_kind(self.context) != CONTAINER:
            raise KeyError(name)
        return self.context[name]


@adapter(Interface, INamespace, name="attribute")
class Attribute(Namespace):
    """``++attribute++name``: only attributes that the class lists in ``published_attributes`` (S4)."""

    def step(self, request: Request, name: str) -> Any:
        published = getattr(type(self.context), "published_attributes", ())
        if isinstance(published, str) or name not in published:
            raise KeyError(name)
        try:
            return getattr(self.context, name)
        except AttributeError:
            raise KeyError(name) from None


@adapter(Interface, INamespace, name="etc")
class Etc(Namespace):
    """``++etc++name``."""

    def step(self, request: Request, name: str) -> Any:
        return registered(request, IEtc, name)


@adapter(Interface, INamespace, name="debug")
class Debug(Namespace):
    """``++debug++flag``; not there unless ``errors`` is in debug mode for this request."""

    def step(self, request: Request, name: str) -> Any:
        if not isinstance(request, DebugRequest) or not request.debug:
            raise KeyError(name)
        request.debug_flags = (*request.debug_flags, name)
        return self.context
