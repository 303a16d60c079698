"""Every contract and every exception of the pipeline; imports no sibling.

Three kinds of names stand here:

* errors: of configuration, raised at load, and of publishing, raised when a view or an element breaks its contract;
* ``Facts``, by which an element tells an operator what it needs;
* zope.interface contracts, by which applications take part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

from webob.exc import HTTPException, WSGIHTTPException
from zope.interface import Attribute, Interface

Handler: TypeAlias = Callable[[Any, Any], None]
"""The callable that an element wraps, and that it returns: ``(request, response) -> None``.

The request is a ``pipeline.Request``, with what the elements of the pipeline add to it; a handler names in its
annotation what it needs. The response is a ``pipeline.Response``.

Called once per request, under ``retry`` more often. Returning means *answered*: status, headers and body stand on
the response, no byte is sent. Raising hands the exception to the next outer element, and in the end to the edge.
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
    """A view returned a value that is not a valid result. The message names the view and the value."""


class UnsafeHeader(ValueError):
    """A header or status with a control character, or that cannot be sent (S6)."""


class UnsafeRedirect(ValueError):
    """A redirect that would leave this origin (S8). The view that made it is at fault, so the answer is a 500."""


class Unavailable(Exception):
    """A database or other service that cannot be reached now: 503 with ``Retry-After``."""

    retry_after = 1
    """Seconds after which a client may try again."""

    logged = False
    """True if the log has it already. An outage is logged when it begins, and not for each request."""


class ReadOnlyTransaction(Exception):
    """A write where the database can only be read: outside ``transaction``, or in a streamed body (R8)."""


class CommitUncertain(Exception):
    """A commit that failed, and may be stored all the same. It is not tried again (R4). ``__cause__`` says why."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The facts of an element for an operator, who serves, deploys and probes a site: ``@element(facts=function)``.

    The function takes all options by keyword, and opens nothing. Tools know an element by its facts and contract.
    """

    writes: Sequence[str] = ()
    """Paths of the files that it makes or changes. The path of a directory ends with a slash."""
    leftovers: Sequence[str] = ()
    """Files that a killed process leaves, and that must be removed before the next start, such as a lock."""
    one_process: str = ""
    """Reason why only one process can serve the site, such as "one process has the database in a file"."""
    servers: Sequence[str] = ()
    """Servers that it connects to, each as "host:port"."""
    probe: Callable[[Any], object] | None = None
    """``(request)`` uses what the element offers, such as a database, and raises an error if that fails."""
    secrets: Sequence[str] = ()
    """Names of the options with a secret value, which no tool shows (S25)."""
    max_body: int | None = None
    """Upper limit of the bytes of a body that it takes."""
    limits: Mapping[int, Sequence[str]] = field(default_factory=dict)
    """Names of the options that decide about a refusal, by the status of the answer."""
    packages: Sequence[str] = ()
    """Packages with templates: a change of one starts the site again."""
    locations: Mapping[str, str] = field(default_factory=dict)
    """Directories whose files the proxy sends itself, each with its internal location."""
    hosts: Sequence[str] = ()
    """Hosts that the site serves."""
    distrusts: Callable[[str, str], str] | None = None
    """``(peer, form)`` returns why a proxy at "unix" or an address is not believed in that form; "" if it is."""
    user_headers: Sequence[str] = ()
    """Names of the headers in which it takes the user from a proxy, which must remove those of visitors (S13)."""
    useless_without: str = ""
    """A thing without whose provider it has nothing to do, such as "database"."""
    may_be_behind: bool = False
    """True for a database of which ``causal`` tells positions: a process or a replica may be behind another."""
    advice: Sequence[tuple[str, str]] = ()
    """Things that are not safe in production, each with its remedy."""
    why_refused: Callable[[Any, str, str], str] | None = None
    """``(view, method, who)`` returns why a visitor may not call a view. None if it decides about no view."""
    walks: bool = False
    """True if it walks the path by ``pipeline.publishing.steps``, so that tools can do that again."""
    find_root: Callable[[Any], Any] | None = None
    """``(request)`` returns the root of traversal that it gives to a request, in the place of a database's."""
    is_health: bool = False
    """True for an end that answers whether the site is ready."""
    watch: Any = None
    """An object whose ``start()`` each process that serves the site calls when it is loaded, or None."""
    shares_figures: bool = False
    """True if its processes write their figures to the directory PROMETHEUS_MULTIPROC_DIR, to be added up."""

    def __post_init__(self) -> None:
        for one in fields(self):
            if str(one.type).startswith("Sequence") and isinstance(found := getattr(self, one.name), str):
                raise TypeError(f"{one.name} must be a tuple of texts, not the text {found!r}")


class IRequest(Interface):
    """The interface of every request, for which a view is registered by default. A request type extends it;
    ``switch``, elements and traversal put it on the request with ``zope.interface.alsoProvides``."""

    environ = Attribute("The WSGI environ, a dict.")
    root = Attribute("The object where traversal starts. Opens the database on first use.")
    context = Attribute("The object that traversal found.")
    view_name = Attribute("Name of the view to call on the context; '' is the default view.")
    subpath = Attribute("Tuple of the path segments behind the view name.")
    principal = Attribute("Identifier (a str) of the user who is logged in, or None.")


class IJSONRequest(IRequest):
    """A request from a program that speaks JSON."""


class IXMLRPCRequest(IRequest):
    """An XML-RPC call."""


class IView(Interface):
    """The interface under which views are registered. Applications use ``@view``."""


class IPublishTraverse(Interface):
    """One step of traversal from an object: an adapter of the object, or provided by it.

    ``traverse`` calls it in place of the object's ``__getitem__``. The name is decoded and not empty. It does not
    start with ``_``, and is neither ``.`` nor ``..``: traversal refuses those before (S3).
    """

    def publishTraverse(request: Any, name: str) -> Any:
        """Return the next object. Raise ``LookupError`` if there is no object of that name."""


class INamespace(Interface):
    """A traversal namespace, ``++name++value``: an adapter of objects, registered with its name. If its class has
    ``anywhere = True``, a path that begins with it is walked from None, and the root is not read (no database)."""

    def step(request: Any, name: str) -> Any:
        """Return the object for ``++namespace++name``. The rest of the path is walked from it.

        Raise ``LookupError`` if there is no such object: the answer is 404. The name does not start with ``_``,
        and is neither ``.`` nor ``..`` (S3).
        """


class IDefaultSteps(Interface):
    """The steps after a path that ends at an object: an adapter of the object, or provided by it."""

    def default_steps(request: Any) -> Sequence[str]:
        """Return the names of further steps. The last may name a view. Empty means no further step."""


class INullResource(Interface):
    """The context of a PUT whose name does not exist yet: an adapter of the container.

    It is made with the container. Its ``__name__`` is set to the name, which traversal accepts as a step and which
    leads to no object yet. A view for its class and for PUT makes the new object.
    """


class ISkin(Interface):
    """The interface under which skins are registered, see ``pipeline.publishing.namespaces.skin``."""


class IEtc(Interface):
    """The interface of the utilities that ``++etc++name`` leads to."""


class IAuthentication(Interface):
    """Identifies the user of a request: a utility, or an adapter of a place, for it and all below it."""

    def identify(request: Any) -> str | None:
        """Return the principal of the request, or None if the request has no valid credentials.

        Called before traversal; for a place, when traversal reaches it. May raise an HTTP exception.
        """

    def challenge(request: Any, error: WSGIHTTPException) -> HTTPException:
        """Return the answer to a request that needs a login: ``error`` (a 401) with a header that asks for a
        login, or another HTTP exception, such as a redirect to a login page.

        Called for the place that traversal reached, or else for each registered utility, until one returns
        another exception than ``error``.
        """


PUBLIC = "public"
"""The permission of a view that every client may call, by any method that it accepts. No policy is asked."""


class ISecurityPolicy(Interface):
    """Decides which principals may call a view. With ``asks_the_database_alone = True`` its pages are kept."""

    def permits(request: Any, permission: str, context: Any) -> bool:
        """Return True if ``request.principal`` (None without a login) holds the permission on the context. Any
        other value refuses. If it raises, the answer is an error page.

        The permission is what the view declares, except for ``PUBLIC``, or ``pipeline.auth.policy.UNDECLARED``.
        """


class IResult(Interface):
    """Turns a value that a view returned into a response: an adapter of the value, or provided by it."""

    def __call__(request: Any, response: Any) -> Any:
        """Return a value that a view may return: str, bytes, an iterable of bytes, None, ..."""
