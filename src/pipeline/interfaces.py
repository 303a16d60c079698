"""Every contract and every exception of the pipeline; imports no sibling.

Three kinds of names stand here:

* errors of configuration, raised while a pipeline is put together and never by a request;
* errors of publishing, raised by a request because a view or an element broke its contract;
* zope.interface contracts, by which applications take part: what a request provides, how an
  object is traversed, how a value becomes a response.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from webob.exc import HTTPException, WSGIHTTPException
from zope.interface import Attribute, Interface

Handler: TypeAlias = Callable[[Any, Any], None]
"""What an element wraps and what it returns: ``(request, response) -> None``.

The request is a ``pipeline.Request``, with what the elements of the pipeline add to it; a handler names in its
annotation what it needs. The response is a ``pipeline.Response``.

Called once per request (more often under ``retry``) with the request and the response.
Returning means *answered*: status, headers and body stand on the response, and not one byte
is sent. Raising hands the exception to the next outer element, and in the end to the edge.
"""

WSGIApp: TypeAlias = Callable[[dict[str, Any], Any], Any]


class ConfigurationError(Exception):
    """A pipeline that cannot be put together. Raised at load, never by a request."""


class OptionError(ConfigurationError):
    """An option that is unknown, missing, swallowed by ``[DEFAULT]``, or has a bad value."""


class OrderError(ConfigurationError):
    """Elements in a wrong order, twice, or without the partner they require."""


class ViewError(ConfigurationError):
    """A view that cannot be registered: two for the same thing, or not callable as a view."""


class ResultError(TypeError):
    """A view returned something that is no result. Names the view and the value."""


class UnsafeHeader(ValueError):
    """A header or status with a control character, or that cannot be sent (S6)."""


class UnsafeRedirect(ValueError):
    """A redirect that would leave this origin (S8): a fault of the view that made it, and so a 500."""


class Unavailable(Exception):
    """A database or other service that cannot be reached now: 503 with ``Retry-After``."""

    retry_after = 1
    """Seconds after which a client may try again."""

    logged = False
    """Whether it stands in the log already: an outage is logged when it begins, and not by each request."""


class ReadOnlyTransaction(Exception):
    """A write where the database can only be read: outside of ``transaction``, or in a streamed body (R8)."""


class CommitUncertain(Exception):
    """A commit that failed when part of it may have been stored, or all: never tried again, and the
    answer says so (R4). The error that it failed with is its ``__cause__``."""


class IRequest(Interface):
    """What every request provides, and what a view is registered for when it names no
    request type. A request type is an interface that extends this one; ``switch`` branches,
    elements and traversal put it on the request with ``zope.interface.alsoProvides``."""

    environ = Attribute("The WSGI environ, a dict.")
    root = Attribute("Where traversal starts. Opens the database on first use.")
    context = Attribute("The object that traversal found.")
    view_name = Attribute("Name of the view to be called on the context; '' is the default view.")
    subpath = Attribute("Tuple of the path segments behind the view name.")
    principal = Attribute("Identifier of who asks, a str, or None.")


class IJSONRequest(IRequest):
    """From a program that speaks JSON."""


class IXMLRPCRequest(IRequest):
    """A call of XML-RPC."""


class IView(Interface):
    """Under this interface views stand in the registry. Applications use ``@view``."""


class IPublishTraverse(Interface):
    """One step of traversal from an object; an adapter of it, or provided by it.

    Called by ``traverse`` in place of the object's ``__getitem__``. The name is decoded, is not
    empty, and neither starts with ``_`` nor is ``.`` or ``..``: those never get this far (S3).
    """

    def publishTraverse(request: Any, name: str) -> Any:
        """Return the next object; raise ``LookupError`` if there is none of that name."""


class INamespace(Interface):
    """A traversal namespace, ``++name++value``: an adapter of objects, registered with its name."""

    def step(request: Any, name: str) -> Any:
        """Return the object that the rest of the path is walked from, for ``++namespace++name``.

        Raise ``LookupError`` if there is none: the answer is 404. The name is one that a step may have: it does
        not start with ``_``, and is neither ``.`` nor ``..`` (S3).
        """


class IDefaultSteps(Interface):
    """Where a path leads on that ends at an object; an adapter of the object, or provided by it."""

    def default_steps(request: Any) -> Sequence[str]:
        """Return names of further steps, the last of which may be that of a view; empty for none."""


class INullResource(Interface):
    """What a PUT is published on whose name is not there yet: an adapter of the container.

    It is made with the container, and gets the name as ``__name__``: one that a step may have, and that leads
    nowhere yet. A view for its class and for PUT makes the new object.
    """


class ISkin(Interface):
    """Under this interface skins stand in the registry, see ``pipeline.publishing.namespaces.skin``."""


class IEtc(Interface):
    """Of utilities that ``++etc++name`` leads to."""


class IAuthentication(Interface):
    """Finds out who asks. Registered as a utility, or, for a place and below, an adapter of the place."""

    def identify(request: Any) -> str | None:
        """Return the principal that the request shows, or None if it shows nobody.

        Called before traversal, or, for a place, when traversal reaches it. May raise an HTTP exception.
        """

    def challenge(request: Any, error: WSGIHTTPException) -> HTTPException:
        """Return what is answered when a login is needed: ``error`` (a 401) with a header that asks for
        one, or another HTTP exception, such as a redirect to a login page.

        Called for the place that traversal reached, or else for each way to log in, until one returns
        something else than ``error``.
        """


PUBLIC = "public"
"""The permission of a view that anybody may call, by any method that it accepts. No policy is asked."""


class ISecurityPolicy(Interface):
    """Decides who may call a view."""

    def permits(request: Any, permission: str, context: Any) -> bool:
        """Whether ``request.principal`` (None: nobody) holds the permission on the context: True, or it
        is refused. If it raises, the answer is an error page.

        The permission is what the view declares, or ``pipeline.auth.policy.UNDECLARED``; for ``PUBLIC`` no policy
        is asked.
        """


class IResult(Interface):
    """Turns a value that a view returned into a response; an adapter of it, or provided by it."""

    def __call__(request: Any, response: Any) -> Any:
        """Return what a view may return: str, bytes, an iterable of bytes, None, ..."""
