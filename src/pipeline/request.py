"""The request: WebOb's, with the state of the pipeline as real attributes.

What an element learns it puts here, and what it needs it finds here. The attributes that cost
something to make (``root``, ``tm``) are made on first use, by whoever the pipeline put in charge.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from urllib.parse import quote

from webob.exc import HTTPBadRequest, HTTPForbidden
from webob.request import BaseRequest
from zope.interface import implementer

from pipeline.interfaces import PUBLIC, IRequest
from pipeline.publishing.steps import is_name, is_segment

try:
    from transaction.interfaces import TransientError
except ImportError:  # without a database nothing is transient
    class TransientError(Exception):  # type: ignore[no-redef]
        """Stands for the exception of the same name of a package that is not installed."""

if TYPE_CHECKING:
    from pipeline.auth.sessions import Session
    from pipeline.composition import Pipeline
    from pipeline.views import View, Views

T = TypeVar("T")
Closer = Callable[[], object]
Held: TypeAlias = tuple[Any, ...]

log = logging.getLogger("pipeline")

PATH_SAFE = "~!$&'()*+,;=:@"  # RFC 3986 pchar, without the percent sign


class _Lazy:
    """An attribute made on first use, then kept on the request.

    What makes it is the opener that an element offered at load, or, before that, what stands on this very
    request as ``open_`` and its name. Not a data descriptor: once the value is there, this is not called.
    """

    def __init__(self, missing: str) -> None:
        self.missing = missing

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name
        self.own_opener = f"open_{name}"

    def __get__(self, request: Request | None, owner: type) -> Any:
        if request is None:
            return self
        fields = request.__dict__
        opener = fields.get(self.own_opener) or request.openers.get(self.name)
        if opener is None:
            raise AttributeError(self.missing)
        value = fields[self.name] = opener(request)
        return value


@implementer(IRequest)
class Request(BaseRequest):
    """One request on its way through the pipeline; every API of ``webob.request.BaseRequest``."""

    # What every request sets or reads. A slot is read and written as fast as can be, also once ``retry``
    # has copied what else is on the request: which makes that a dict, and slower (0.7 us for a request).
    __slots__ = (
        "_closers",
        "attempts_left",
        "authorize",
        "context",
        "environ",
        "openers",
        "pipeline",
        "tm_in_use",
        "traversal_hooks",
        "verify",
        "view_name",
        "views",
        "virtual_root_path",
    )

    environ: dict[str, Any]

    pipeline: Pipeline
    """The pipeline that the request is in: the innermost one entered and not yet left."""

    views: Views | None
    """The views of this pipeline's publisher; None until a pipeline that has one is entered."""

    openers: Mapping[str, Callable[[Request], Any]]
    """What makes ``root`` and the like, by name; offered by the elements of the pipeline."""

    root: Any = _Lazy("no element provides a root")
    """Where traversal starts; opens the database."""
    tm_in_use: Any
    """The transaction manager ``tm``, or None as long as nobody has asked for it."""
    zodb: Any = _Lazy("no element provides a ZODB; put zodb into the pipeline")
    """The ZODB connection of this request; ``zodb.get_connection(name)`` is one to another named database."""
    sql: Any = _Lazy("no element provides an SQL database; put sql into the pipeline")
    """The SQLAlchemy session of this request."""

    context: Any
    view_name: str
    subpath: tuple[str, ...] = ()
    virtual_root: Any = None
    """Object whose URL is ``application_url``, set by ``traverse`` when it is there; None means the root."""
    virtual_root_path: tuple[str, ...]
    """Path from the root to the virtual root, set by ``vhost``; walked before the path of the URL."""
    forwarded: bool = False
    """Whether there were signs of a proxy, which ``vhost`` has taken away, believed or not."""

    form: Any = _Lazy("no element provides a form; put forms into the pipeline")
    """The fields of the form that was sent, by name; set by ``forms``."""

    default_steps: tuple[str, ...] = ()
    """The steps that were taken though the path did not say them (IDefaultSteps)."""
    lacks_slash: bool = False
    """Whether this is the default view of a container at a URL that does not end in its slash: relative links
    in it are meant for the URL that does. Set by ``traverse``."""
    more_steps: tuple[str, ...] = ()
    """Steps that a traversal hook wants to be taken next, see ``add_steps``."""
    namespaces: tuple[str, ...] = ()
    """The traversal namespaces that the path has entered."""
    debug: bool = False
    """Whether the visitor may see what only a developer should (S17); set by ``errors``."""
    debug_flags: tuple[str, ...] = ()

    traversal_hooks: tuple[Callable[[Request, Any], object], ...]
    principal: str | None = None
    """Who asks, as ``authenticate`` found out; None is nobody known."""
    authorize: Callable[[Request, View], None]
    """Raises an HTTP exception if the view may not be called; set by ``authenticate``."""
    session: Session | None = None
    """Begins and ends sessions, where ``authenticate`` has them; for login pages."""
    verify: Callable[[Request, str, str], str | None] | None
    """Login and password to principal, limited against guessing; for login pages."""
    local_authentication: Any = None
    """The IAuthentication of the place that traversal has reached, if it has one."""
    refused_logins: tuple[Callable[[], None], ...] = ()
    """Takes back what was counted for each login that was refused; called if a place knows it after all."""
    csrf_token: str | None = None
    """What a form of this session sends back in its field ``csrf_token``."""

    attempt: int = 1
    """Which attempt at the request this is; counted by ``retry``."""

    attempts_left: int
    """How often ``retry`` will try again if this attempt fails with a transient error. A view that must
    not run twice sets it to 0."""

    transient_error: BaseException | None = None
    """The last error of this attempt that is worth a new one. ``transaction`` asks its data managers, since
    nobody can tell any more once the transaction is aborted."""

    commit_on_error: bool = False
    """Set by a view whose changes are to be committed also if its answer is a 4xx or 5xx (R3)."""

    reading_only: bool = False
    """Set by ``transaction`` when it is done: what begins a transaction now begins it to read (R8)."""

    outcome: str = ""
    """What is known of the changes of this request once ``transaction`` is done: "committed", "unknown" (R4),
    or "" if there are none. An error that is answered after that says so in the header ``X-Outcome``."""

    bytes_sent: int | None = 0
    """Bytes of the body that the server took; known once the request is being closed. None means that the server
    sent a file by its own means, and does not say how much of it."""

    _closers: list[Closer] | None
    _closers_before: int = 0
    """How many there were when this attempt began."""
    _closers_last: int = 0
    """How many of those that came after are for ``last``."""

    def __init__(self, environ: dict[str, Any], charset: str | None = None, **attributes: Any) -> None:
        # WebOb's checks cost more than the rest of a request; servers hand us a plain dict.
        self.environ = environ
        for name, value in _FRESH.items():
            setattr(self, name, value)
        if charset is not None or attributes:
            super().__init__(environ, charset, **attributes)  # type: ignore[call-arg]

    @property
    def tm(self) -> Any:
        """The ``transaction.TransactionManager`` of this request, with a transaction begun; made on first use, by
        what an element has offered, or by what stands on this very request as ``open_tm``."""
        if self.tm_in_use is None:
            opener = self.__dict__.get("open_tm") or self.openers.get("tm")
            if opener is None:
                raise AttributeError("no element provides a transaction manager")
            self.tm_in_use = opener(self)
        return self.tm_in_use

    @tm.setter
    def tm(self, tm: Any) -> None:
        self.tm_in_use = tm

    def hold(self) -> Held:
        """What ``let_go`` needs to have the request be again as it is now; the environ is not part of it."""
        fields = self.__dict__
        return (
            self.authorize,
            self.context,
            self.openers,
            self.pipeline,
            self.tm_in_use,
            self.traversal_hooks,
            self.verify,
            self.view_name,
            self.views,
            self.virtual_root_path,
            fields.copy() if fields else None,
        )

    def let_go(self, held: Held) -> None:
        """Be again as ``hold`` found the request, but for the environ, what is to be closed, and what is
        counted of attempts."""
        (
            self.authorize,
            self.context,
            self.openers,
            self.pipeline,
            self.tm_in_use,
            self.traversal_hooks,
            self.verify,
            self.view_name,
            self.views,
            self.virtual_root_path,
            fields,
        ) = held
        self.__dict__.clear()
        self.__dict__.update(fields or ())

    @property
    def GET(self) -> Any:
        """The fields of the query, as WebOb has them; what is no UTF-8 is a 400, and not a failing view."""
        try:
            return super().GET
        except UnicodeDecodeError:
            raise HTTPBadRequest("The query is not UTF-8.") from None

    def make_tempfile(self) -> Any:
        """Make the file into which WebOb copies a large body; it is closed with the request (S15)."""
        file = super().make_tempfile()
        self.on_close(file.close)
        return file

    def on_close(self, closer: Closer, *, last: bool = False) -> None:
        """Have ``closer()`` called when this request is closed: its body sent or abandoned.

        Last in, first out; exactly once each; whatever the others raise. For a body in memory this
        is before the server gets it. ``last`` is for what the others may need, such as a connection
        to the database: it is closed after all of them, whenever it was opened.
        """
        if last:
            self._closers_last += 1
        if self._closers is None:
            self._closers = [closer]
        elif last:
            self._closers.insert(self._closers_before, closer)
        else:
            self._closers.append(closer)

    def release(self, closer: Closer) -> None:
        """Close all that ``on_close`` was given for ``last``, if besides it only ``closer`` is yet to be
        closed, which needs none of it: called by the edge for a plain file, so that a client that reads it
        slowly holds no connection to a database."""
        closers = self._closers
        first = self._closers_before
        if self._closers_last and closers is not None and closers[first + self._closers_last :] == [closer]:
            closers.pop()
            self.close(first)
            closers.append(closer)

    def close(self, mark: int = 0) -> None:
        """Run what ``on_close`` was given, down to the first ``mark`` of it; called by the edge, and
        by ``retry`` between two attempts. An error is logged and stops no other closer (R6)."""
        self.transient_error = None  # whose traceback holds the request: no cycle is left
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
        """Whether the same request may succeed if it is tried again (R2). If so, it is kept in mind."""
        if self.outcome:
            return False
        judged = [judge(error) for judge in getattr(self.tm_in_use, "judges", ())]
        if not (error is self.transient_error or isinstance(error, TransientError) or any(judged)):
            return False
        self.transient_error = error
        return True

    @property
    def path_info_safe(self) -> str:
        """The path as it may stand in a log: percent-encoded, whatever bytes it has."""
        path: str = self.environ.get("PATH_INFO", "")
        return quote(path.encode("latin-1", "replace"), safe="/" + PATH_SAFE)

    def add_traversal_hook(self, hook: Callable[[Request, Any], object]) -> None:
        """Have ``hook(request, object)`` called with the root and after each traversal step."""
        self.traversal_hooks = (*self.traversal_hooks, hook)

    def add_steps(self, *names: str) -> None:
        """For a traversal hook: have these steps taken before the rest of the path."""
        self.more_steps = (*self.more_steps, *filter(None, names))

    def take_steps(self) -> tuple[str, ...]:
        """The steps that hooks have added, once."""
        steps, self.more_steps = self.more_steps, ()
        return steps

    def absolute_url(self, obj: object, *names: str) -> str:
        """URL of ``obj`` as the visitor sees it, with ``names`` as further path segments.

        ``obj`` has ``__parent__`` and ``__name__`` up to the virtual root (or to a root whose
        ``__parent__`` is None); ValueError if it has not, or if no URL would lead to it: because it is
        outside of the virtual root, or because traversal refuses one of the names or takes it for something
        else. The last of ``names`` may be empty, for a slash at the end. The URL of the root ends in a slash.
        """
        for segment in names[:-1] if names[-1:] == ("",) else names:
            if not is_segment(segment):
                raise ValueError(f"{segment!r} is not the name of a step, so no URL has it as a segment")
        path: list[str] = []
        top = self.virtual_root
        place = obj
        while place is not top and (parent := getattr(place, "__parent__", None)) is not None:
            name = getattr(place, "__name__", None)
            if not name or not is_name(name):
                raise ValueError(f"{place!r} has a __parent__ and the __name__ {name!r}, so it has no URL")
            path.append(name)
            place = parent
        path.reverse()
        if place is not top:
            depth = len(self.virtual_root_path)
            if top is not None or tuple(path[:depth]) != self.virtual_root_path:
                raise ValueError(f"{obj!r} is outside of the virtual root, so it has no URL")
            del path[:depth]
        below = "/".join([quote(name, safe=PATH_SAFE) for name in (*path, *names)])
        return f"{self.application_url}/{below}"


def refuse_strangers(request: Request, view: View) -> None:
    """Who may call a view where there is no ``authenticate``: anybody, if it needs no permission."""
    if view.permission is not None and view.permission != PUBLIC:
        raise HTTPForbidden("This needs a login, and this site has none.")


_FRESH: dict[str, Any] = {
    "_closers": None,
    "attempts_left": 0,
    "authorize": refuse_strangers,
    "context": None,
    "openers": {},
    "pipeline": None,
    "tm_in_use": None,
    "traversal_hooks": (),
    "verify": None,
    "view_name": "",
    "views": None,
    "virtual_root_path": (),
}
"""The slots of a request that nothing has happened to, the environ aside. The edge sets the same."""
