"""The request: WebOb's, with the state of the pipeline as real attributes.

The request is open. This file has the attributes that the core needs. An element declares its own attributes in a
small subclass of ``Request`` in its own file, and names that subclass by ``@element(adds=...)``. The pipeline
combines these classes into the class of its requests when it is linked (``composed``). An attribute that is costly
to make is declared by ``on_first_use``; at load, the element offers the function that makes it
(``composition.Offers``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias
from urllib.parse import quote

from webob.exc import HTTPForbidden
from webob.request import BaseRequest
from zope.interface import implementer

from pipeline.fields import compiled
from pipeline.interfaces import PUBLIC, IRequest
from pipeline.names import is_name, is_segment
from pipeline.options import on_demand

try:
    from transaction.interfaces import TransientError
except ImportError:  # without a database nothing is transient

    class TransientError(Exception):  # type: ignore[no-redef]
        """Stands for the exception of the same name of a package that is not installed."""


Closer = Callable[[], object]
Snapshot: TypeAlias = tuple[Any, ...]

log = logging.getLogger("pipeline")

if TYPE_CHECKING:
    from webob.multidict import GetDict

    from pipeline.cookies import cookies_by_name
    from pipeline.forms.fields import query_of
else:  # for cost alone: a plain page reads neither
    cookies_by_name = on_demand("pipeline.cookies:cookies_by_name")
    query_of = on_demand("pipeline.forms.fields:query_of")

PATH_SAFE = "~!$&'()*+,;=:@"  # RFC 3986 pchar, without the percent sign
SAFE_METHODS = frozenset(("GET", "HEAD", "OPTIONS", "TRACE"))
"""Methods that change nothing (RFC 9110 section 9.2.1)."""

_OF_THE_URL = ("wsgi.url_scheme", "HTTP_HOST", "SERVER_NAME", "SERVER_PORT", "SCRIPT_NAME", "webob.url_encoding")


@lru_cache(maxsize=256)
def _application_url(*values: str | None) -> str:
    environ = {key: value for key, value in zip(_OF_THE_URL, values, strict=True) if value is not None}
    return str(BaseRequest(environ).application_url)


def refuse_strangers(request: Request, view: Any) -> None:
    """Raise HTTPForbidden for a view that needs a permission, where no element authenticates."""
    if view.permission is not None and view.permission != PUBLIC:
        raise HTTPForbidden("This needs a login, and this site has none.")


OF_AN_ATTEMPT: dict[str, Any] = {
    "authorize": refuse_strangers,
    "context": None,
    "pipeline": None,
    "response_before": None,
    "tm_in_use": None,
    "traversal_hooks": (),
    "verdict": None,
    "view_name": "",
    "views": None,
    "virtual_root_path": (),
}
"""The fields that every request sets or reads, with their first values. ``restore`` restores them."""

OF_ALL_ATTEMPTS: dict[str, Any] = {"closers": None, "announces_body": False, "attempts_left": 0, "measures": None}
"""The fields that count over all attempts at a request. ``restore`` does not change them."""

_FIELDS = ", ".join(f"request.{name}" for name in OF_AN_ATTEMPT)


class Verdict(NamedTuple):
    """The judgement of an error. It is made once, by the first element that catches the error (R2, R4)."""

    error: BaseException
    transient: bool
    """True if the same request may succeed in another attempt."""


class OnFirstUse:
    """An attribute of a request that is made when it is first read, by the function that an element offered."""

    def __init__(self, dropped: bool = False, opener: Callable[[Any], Any] | None = None) -> None:
        self.dropped = dropped
        self.opener = opener

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, request: Request | None, owner: type) -> Any:
        if request is None:
            return self
        if self.opener is None:
            raise AttributeError(f"no element of this pipeline provides request.{self.name}")
        if self.dropped and request.pipeline is None:
            raise RuntimeError(f"request.{self.name} is first used after the end of the request (R13)")
        value = request.__dict__[self.name] = self.opener(request)
        return value

    def opened_by(self, opener: Callable[[Any], Any]) -> OnFirstUse:
        """Return the same attribute with the function that makes it."""
        return type(self)(self.dropped, opener)


class TransactionManagerOnFirstUse(OnFirstUse):
    """``request.tm``. It is kept in the field ``tm_in_use``, which an element can read without making one."""

    def __get__(self, request: Request | None, owner: type) -> Any:
        if request is None:
            return self
        if request.tm_in_use is None:
            request.tm_in_use = super().__get__(request, owner)
            del request.__dict__[self.name]
        return request.tm_in_use

    def __set__(self, request: Request, tm: Any) -> None:
        request.tm_in_use = tm


def on_first_use(*, dropped: bool = False) -> Any:
    """Declare an attribute that an element offers and that is made when it is first read.

    dropped  whether the value is dropped after an abort, and made again when it is next read. Use it for objects
             that come from a database
    """
    return OnFirstUse(dropped)


def is_transient(request: Request, error: BaseException) -> bool:
    """Return whether the class of an error says that the same request may succeed if it is tried again."""
    return isinstance(error, TransientError)


@implementer(IRequest)
class Request(BaseRequest):
    """One request on its way through the pipeline, with the whole API of ``webob.request.BaseRequest``."""

    # Slots are the fastest attributes, also after ``retry`` has copied the ``__dict__`` of the request.
    __slots__ = ("environ", *OF_ALL_ATTEMPTS, *OF_AN_ATTEMPT)

    environ: dict[str, Any]

    pipeline: Any
    """The pipeline that the request is in: the innermost one entered and not yet left. None after the request."""

    views: Any
    """The ``pipeline.views.Views`` that the publisher of this pipeline offers; None without a publisher."""

    root: Any = on_first_use(dropped=True)
    """The object where traversal starts. Offered by the element of a database, or set by ``traverse``."""
    tm: Any = TransactionManagerOnFirstUse(dropped=True)
    """The ``transaction.TransactionManager`` of this request, with a transaction begun."""
    tm_in_use: Any
    """The transaction manager, or None until ``tm`` is read."""

    context: Any
    view_name: str
    subpath: tuple[str, ...] = ()
    principal: str | None = None
    """The identifier of the authenticated user, or None."""

    cross_site: bool = False
    """True if an end without views, such as a foreign application, accepts unsafe requests of other sites (S23)."""

    virtual_root: Any = None
    """Object whose URL is ``application_url``, set when traversal reaches it; None means the root."""
    virtual_root_path: tuple[str, ...]
    """Path from the root to the virtual root. It is walked before the path of the URL."""
    default_steps: tuple[str, ...] = ()
    """The steps that were taken although the path does not name them (IDefaultSteps)."""
    lacks_slash: bool = False
    """True for the default view of a container at a URL without the slash that its relative links need."""
    more_steps: tuple[str, ...] = ()
    """Steps that a traversal hook has added, to be taken next, see ``add_steps``."""
    namespaces: tuple[str, ...] = ()
    """The traversal namespaces that the path has entered."""
    traversal_hooks: tuple[Callable[[Request, Any], object], ...]

    announces_body: bool
    """True if the request has a Content-Length or a Transfer-Encoding, and so most likely a body."""
    attempts_left: int
    """Number of further attempts if this one fails with a transient error. A view that must not run twice sets it
    to 0."""
    verdict: Verdict | None
    """The verdict on the last error that was caught, see ``judge``."""
    outcome: str = ""
    """The outcome of the changes of this request, when its transaction has ended: "committed", "unknown" (R4), or
    "" if it has made no changes. The answer to a later error repeats the outcome in the header ``X-Outcome``."""

    read_afresh: Callable[[Any], None] | None = None
    """``(request)`` ends the transaction of the request. From then on the request reads the current state of the
    database and cannot write. Offered by the element of a database."""
    answer_for: Callable[[Any, Exception], Exception | None] | None = None
    """``(request, error)`` returns the answer to an error of a value that the visitor has sent, or None."""
    authorize: Callable[[Any, Any], None]
    """``(request, view)`` raises an HTTP exception if the view may not be called. Offered by the element that
    authenticates."""
    is_transient: Callable[[Any, BaseException], bool] = staticmethod(is_transient)
    """``(request, error)`` tells whether the same request may succeed if it is tried again. Offered by the element
    of a database, which knows more errors. Elements call ``judge`` instead."""
    answer_error: Callable[[Any, Any, Exception], None] | None = None
    """``(request, response, error)`` answers an error that the outermost element raised, or that is raised while
    the edge makes the body. Offered by the element that answers errors."""
    response_before: Any
    """Snapshot of the response as it was when that element was entered; None before."""
    reporter: Callable[[Any, Exception, str], object] | None = None
    """``(request, error, id)`` is called for each error that is logged. Offered by the same element."""

    measures: Any
    """The measures of this request (``pipeline.measuring``); None if nothing measures it."""

    bytes_sent: int | None = 0
    """Bytes of the body that the server took, once the request is closed; None for a file that it sent itself."""

    closers: list[Closer] | None
    """The functions that were given to ``on_close``, or None."""
    closers_before: int = 0
    """Number of closers when this attempt began. ``retry`` sets it, and closes an attempt by ``close`` with it."""
    _closers_last: int = 0
    """Number of closers of this attempt that were given with ``last``."""

    def __init__(self, environ: dict[str, Any], charset: str | None = None, **attributes: Any) -> None:
        # WebOb's checks cost more than the rest of a request; servers hand us a plain dict.
        self.environ = environ
        for name, value in (OF_ALL_ATTEMPTS | OF_AN_ATTEMPT).items():
            setattr(self, name, value)
        if charset is not None or attributes:
            super().__init__(environ, charset, **attributes)  # type: ignore[call-arg]

    snapshot: ClassVar[Callable[[Any], Snapshot]] = compiled(
        "snapshot",
        "request",
        ["added = request.__dict__", f"return {_FIELDS}, added.copy() if added else None"],
    )
    """``request.snapshot()`` returns the state of the request, without the environ, for ``restore``."""

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the state of a snapshot, except the environ and the fields that count over all attempts."""
        *fields, added = snapshot
        for name, value in zip(OF_AN_ATTEMPT, fields, strict=True):
            setattr(self, name, value)
        self.__dict__.clear()
        self.__dict__.update(added or ())

    def drop(self) -> None:
        """Drop the objects that come from an aborted transaction. They are made again when they are next read."""
        for name in self.dropped:
            self.__dict__.pop(name, None)

    dropped: tuple[str, ...] = ()
    """Names of the attributes declared with ``on_first_use(dropped=True)``."""

    @property
    def GET(self) -> GetDict:
        """The fields of the query in WebOb's container; what is not UTF-8 is a 400."""
        return query_of(self.environ)

    @property
    def application_url(self) -> str:
        """The URL of the application, as WebOb makes it: once, and not for each link of a page."""
        return _application_url(*map(self.environ.get, _OF_THE_URL))

    json: Any = OnFirstUse(opener=BaseRequest.json.fget)
    """The value of a JSON body, decoded once; by the rules of ``forms``, if that is in the pipeline."""
    POST: Any = OnFirstUse(opener=vars(BaseRequest)["POST"].fget)
    """The fields of a body in WebOb's container; by the rules of ``forms``, if that is in the pipeline."""

    @BaseRequest.cookies.getter
    def cookies(self) -> Any:
        """The cookies by name, in WebOb's container."""
        return cookies_by_name(self.environ)

    def make_tempfile(self) -> Any:
        """Make the file into which WebOb copies a large body. It is closed with the request (S15)."""
        file = super().make_tempfile()
        self.on_close(file.close)
        return file

    def call_application(self, application: Any, catch_exc_info: bool = False) -> Any:
        """Call another application, as WebOb does. It may commit by itself, so nothing is tried again (R2a)."""
        self.attempts_left *= self.environ["REQUEST_METHOD"] in SAFE_METHODS
        return super().call_application(application, catch_exc_info)

    def on_close(self, closer: Closer, *, last: bool = False) -> None:
        """Have ``closer()`` called when this request is closed, after its body was sent or abandoned.

        Closers run last in, first out, exactly once each, also if others raise. A body in memory is closed before
        the server gets it. ``last`` is for things that other closers may need, such as a connection to a database:
        these closers run after all others.
        """
        if self.closers is None:
            self.closers = []
        self.closers.insert(self.closers_before if last else len(self.closers), closer)
        self._closers_last += last

    def close_with(self, body: Any) -> None:
        """Close ``body`` when this request is closed, if it has a ``close`` that is not registered yet (R7)."""
        closer = getattr(body, "close", None)
        if closer is not None and closer not in (self.closers or ()):
            self.on_close(closer)

    def release(self, closer: Closer) -> None:
        """Give connections to databases back before a plain file is sent, so that a slow client does not hold one:
        run the closers given with ``last``. Do nothing if others than ``closer`` must run before them."""
        closers, first = self.closers, self.closers_before
        if self._closers_last and closers is not None and closers[first + self._closers_last :] == [closer]:
            closers.pop()
            self.close(first)
            closers.append(closer)

    def close(self, mark: int = 0) -> None:
        """Run the closers, except the first ``mark`` of them. The edge calls this, and ``retry`` between two
        attempts. An error of a closer is logged, and the others run all the same (R6)."""
        self.verdict = None  # the traceback of its error refers to the request: no cycle is left
        closers = self.closers
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

    def judge(self, error: BaseException) -> Verdict:
        """Return the verdict on an error. The first call makes it, and must come while the transaction is still
        open: only then can the database tell whether the error is transient."""
        if (verdict := self.verdict) is None or verdict.error is not error:
            verdict = Verdict(error, self.is_transient(self, error))
        if self.outcome:  # also if only the end of the transaction has shown it (R2a)
            verdict = Verdict(error, False)
        self.verdict = verdict
        return verdict

    @property
    def path_info_safe(self) -> str:
        """The path as it may stand in a log: percent-encoded."""
        return quote(self.environ.get("PATH_INFO", "").encode("latin-1", "replace"), safe="/" + PATH_SAFE)

    def add_traversal_hook(self, hook: Callable[[Any, Any], object]) -> None:
        """Have ``hook(request, object)`` called with the root and after each traversal step."""
        self.traversal_hooks = (*self.traversal_hooks, hook)

    def add_steps(self, *names: str) -> None:
        """Add steps that are taken before the rest of the path. Traversal hooks call this."""
        self.more_steps = (*self.more_steps, *filter(None, names))

    def take_steps(self) -> tuple[str, ...]:
        """Return the steps that hooks have added, and forget them."""
        steps, self.more_steps = self.more_steps, ()
        return steps

    def absolute_url(self, obj: object, *names: str) -> str:
        """Return the URL of ``obj`` as the visitor sees it, with ``names`` as further path segments.

        ``obj`` and its parents must have ``__parent__`` and ``__name__``, up to the virtual root (or to a root
        whose ``__parent__`` is None). Raises ValueError if they do not, if ``obj`` is outside the virtual root, or
        if traversal would refuse one of the names or read it as a view or a namespace. The last of ``names`` may be
        empty, for a slash at the end. The URL of the root ends in a slash.
        """
        for segment in names[:-1] if names[-1:] == ("",) else names:
            if not is_segment(segment):
                raise ValueError(f"{segment!r} is not the name of a step, so no URL has it as a segment")
        path: list[str] = []
        top, place = self.virtual_root, obj
        while place is not top and (parent := getattr(place, "__parent__", None)) is not None:
            name = getattr(place, "__name__", None)
            if not name or not is_name(name):
                raise ValueError(f"{place!r} has a __parent__ and the __name__ {name!r}, so it has no URL")
            if len(path) == 1_000:  # a folder was moved into itself
                raise ValueError(f"the parents of {obj!r} make a circle at {place!r}, so it has no URL")
            path.append(name)
            place = parent
        path.reverse()
        if place is not top:
            depth = len(self.virtual_root_path)
            if top is not None or tuple(path[:depth]) != self.virtual_root_path:
                raise ValueError(f"{obj!r} is outside the virtual root, so it has no URL")
            del path[:depth]
        below = "/".join([quote(name, safe=PATH_SAFE) for name in (*path, *names)])
        return f"{self.application_url}/{below}"


def close(request: Request) -> None:
    """Close the request, and remove it from the environ. From then on it opens no database (R13)."""
    request.environ.pop("pipeline.request", None)  # a middleware may have emptied it, or this is the second call
    request.environ.pop("pipeline.response", None)
    if request.closers or request.verdict is not None:
        request.close()
    request.pipeline = None
