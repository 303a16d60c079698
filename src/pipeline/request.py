"""The request: WebOb's, with the state of the pipeline as real attributes.

What an element learns it puts here, and what it needs it finds here. The attributes that cost
something to make (``root``, ``tm``) are made on first use, by whoever the pipeline put in charge.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from webob.request import BaseRequest
from zope.interface import implementer

from pipeline.interfaces import IRequest

try:
    from transaction.interfaces import TransientError
except ImportError:  # without a database nothing is transient
    class TransientError(Exception):  # type: ignore[no-redef]
        """Stands for the exception of the same name of a package that is not installed."""

if TYPE_CHECKING:
    from pipeline.composition import Pipeline
    from pipeline.sessions import Session
    from pipeline.views import View, Views

T = TypeVar("T")
Closer = Callable[[], object]

log = logging.getLogger("pipeline")

_new = object.__new__

_PATH_SAFE = "~!$&'()*+,;=:@"  # RFC 3986 pchar, without the percent sign


class _Lazy:
    """An attribute made on first use by the callable at ``opener``, then kept on the request.

    Not a data descriptor: once the value stands in the instance, this is never called again.
    """

    def __init__(self, opener: str, missing: str) -> None:
        self.opener = opener
        self.missing = missing

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, request: Request | None, owner: type) -> Any:
        if request is None:
            return self
        opener = getattr(request, self.opener)
        if opener is None:
            raise AttributeError(self.missing)
        value = request.__dict__[self.name] = opener(request)
        return value


@implementer(IRequest)
class Request(BaseRequest):
    """One request on its way through the pipeline; every API of ``webob.request.BaseRequest``."""

    environ: dict[str, Any]

    views: Views | None = None
    """The views of this pipeline's publisher; None until a pipeline that has one is entered."""

    open_root: Callable[[Request], Any] | None = None
    """Makes ``root``; set by a database element, or by ``traverse`` with its option ``root``."""
    root: Any = _Lazy("open_root", "no element provides a root")

    open_tm: Callable[[Request], Any] | None = None
    """Makes ``tm``, with a transaction begun; set by the outermost database element."""
    tm: Any = _Lazy("open_tm", "no element provides a transaction manager")

    context: Any = None
    view_name: str = ""
    subpath: tuple[str, ...] = ()
    virtual_root: Any = None
    """Object whose URL is ``application_url``; None means the root."""

    traversal_hooks: tuple[Callable[[Request, Any], object], ...] = ()
    principal: str | None = None
    """Who asks, as ``authenticate`` found out; None is nobody known."""
    authorize: Callable[[Request, View], None] | None = None
    """Raises an HTTP exception if the view may not be called; set by ``authenticate``."""
    verify: Callable[[Request, str, str], str | None] | None = None
    """Login and password to principal, limited against guessing; for login pages."""
    session: Session | None = None
    """Begins and ends sessions, where ``authenticate`` has them; for login pages."""
    local_authentication: Any = None
    """The IAuthentication of the place that traversal has reached, if it has one."""
    csrf_token: str | None = None
    """What a form of this session sends back in its field ``csrf_token``."""

    attempts_left: int = 0
    """How often ``retry`` will try again if this attempt fails with a transient error."""

    transient_error: BaseException | None = None
    """An error that its data manager calls worth a new attempt; found out by ``transaction``, since
    nobody can tell any more once the transaction is aborted."""

    bytes_sent: int = 0
    """Length of the body that was sent; known once the request is being closed."""

    pipeline: Pipeline
    """The pipeline that the request is in: the innermost one entered and not yet left."""

    _closers: list[Closer] | None = None

    def __init__(self, environ: dict[str, Any], charset: str | None = None, **attributes: Any) -> None:
        # WebOb's checks cost more than the rest of a request; servers hand us a plain dict.
        if charset is not None or attributes:
            super().__init__(environ, charset, **attributes)  # type: ignore[call-arg]
        self.environ = environ

    def on_close(self, closer: Closer) -> None:
        """Have ``closer()`` called when this request is closed: its body sent or abandoned.

        Last in, first out; exactly once each; whatever the others raise. For a body in memory this
        is before the server gets it.
        """
        if self._closers is None:
            self._closers = [closer]
        else:
            self._closers.append(closer)

    def close(self, mark: int = 0) -> None:
        """Run what ``on_close`` was given, down to the first ``mark`` of it; called by the edge, and
        by ``retry`` between two attempts. An error is logged and stops no other closer (R6)."""
        closers = self._closers
        interrupt: BaseException | None = None
        while closers and len(closers) > mark:
            closer = closers.pop()
            try:
                closer()
            except Exception:
                log.exception("closing %s %s: %r failed", self.method, self.path_info_safe, closer)
            except BaseException as error:  # SystemExit and the like, after the others have run
                interrupt = interrupt or error
        if interrupt is not None:
            raise interrupt

    def is_transient(self, error: BaseException) -> bool:
        """Whether the same request may succeed if it is tried again (R2)."""
        return error is self.transient_error or isinstance(error, TransientError)

    @property
    def path_info_safe(self) -> str:
        """The path as it may stand in a log: percent-encoded, whatever bytes it has."""
        path: str = self.environ.get("PATH_INFO", "")
        return quote(path.encode("latin-1", "replace"), safe="/" + _PATH_SAFE)

    def add_traversal_hook(self, hook: Callable[[Request, Any], object]) -> None:
        """Have ``hook(request, object)`` called with the root and after each traversal step."""
        self.traversal_hooks = (*self.traversal_hooks, hook)

    def absolute_url(self, obj: object, *names: str) -> str:
        """URL of ``obj`` as the visitor sees it, with ``names`` as further path segments.

        ``obj`` has ``__parent__`` and ``__name__`` up to the virtual root (or to a root whose
        ``__parent__`` is None); ValueError if it has not. The URL of the root ends in a slash.
        """
        segments = list(names)
        top = self.virtual_root
        while obj is not top and (parent := getattr(obj, "__parent__", None)) is not None:
            name = getattr(obj, "__name__", None)
            if not name:
                raise ValueError(f"{obj!r} has a __parent__ and no __name__, so it has no URL")
            segments.insert(0, name)
            obj = parent
        path = "/".join(quote(segment, safe=_PATH_SAFE) for segment in segments)
        return f"{self.application_url}/{path}"


def fresh_request(environ: dict[str, Any], pipeline: Pipeline) -> Request:
    """The request of the hot path. What elements read is set here, since an attribute of the instance is
    read in a fifth of the time of a class's; and a plain call costs a third less than ``Request(environ)``.
    """
    request = _new(Request)
    request.environ = environ
    request.pipeline = pipeline
    request.views = pipeline.views
    request.view_name = ""
    request.traversal_hooks = ()
    request.authorize = None
    request._closers = None
    return request
