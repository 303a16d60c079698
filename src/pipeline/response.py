"""The response: WebOb's, inert, with headers that refuse control characters (S6).

Elements and views change the response, ``restore`` takes an answer back, and the edge sends it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from typing import Any, ClassVar, TypeAlias

import webob
from webob.headers import ResponseHeaders

from pipeline.fields import compiled
from pipeline.interfaces import UnsafeHeader

HeaderList: TypeAlias = list[tuple[str, str]]
Filter: TypeAlias = Callable[[Iterator[bytes]], Iterable[bytes]]

OK = "200 OK"
NOT_MODIFIED = "304 Not Modified"
HTML = ("Content-Type", "text/html; charset=UTF-8")
PLAIN = ("Content-Type", "text/plain; charset=UTF-8")
NOSNIFF = ("X-Content-Type-Options", "nosniff")

LIVE = ("text/event-stream", "multipart/x-mixed-replace")
"""Content types of streams whose client waits for each block. No filter or proxy may hold a block back."""

KNOWN_NAMES: set[str] = set()
"""Names of headers that ``check_headers`` has accepted before, and need not check again."""
CHECKED = {HTML, PLAIN, NOSNIFF}
"""Headers that were checked at load, and are not checked again. None of a request is added: it may be a secret."""


def check_headers(headers: Iterable[tuple[str, str]], checked: Set[tuple[str, str]] = CHECKED) -> None:
    """Raise UnsafeHeader for a control character (C0, DEL), or for text that is not latin-1 (PEP 3333)."""
    for pair in headers:
        if type(pair) is tuple and type(pair[1]) is str and pair in checked:
            continue
        name, value = pair
        if not (type(value) is str and name in KNOWN_NAMES and value.isascii() and value.isprintable()):
            _check_unknown(name, value)


def check_header(name: str, value: str) -> None:
    """Check one header as ``check_headers`` does."""
    check_headers(((name, value),))


def _check_unknown(name: str, value: str) -> None:
    for what, text in (("name", name), ("value", value)):
        if not isinstance(text, str):
            raise UnsafeHeader(f"header {name!r}: its {what} {text!r} is not a str")
        if any(character < " " or character == "\x7f" for character in text):
            raise UnsafeHeader(f"header {name!r}: its {what} {text!r} has a control character")
        try:
            text.encode("latin-1")
        except UnicodeEncodeError:
            raise UnsafeHeader(f"header {name!r}: its {what} {text!r} is not latin-1") from None
    if not name or not name.isascii() or any(character in ' "(),/:;<=>?@[\\]{}' for character in name):
        raise UnsafeHeader(f"header name {name!r} is not a token (RFC 9110 section 5.1)")
    if len(KNOWN_NAMES) < 1000:  # no site has more, unless it makes names from input of clients
        KNOWN_NAMES.add(name)


class Headers(ResponseHeaders):
    """``response.headers``: a multidict over the header list that refuses headers which cannot be sent."""

    def __setitem__(self, name: str, value: str) -> None:
        check_header(name, value)
        super().__setitem__(name, value)

    def add(self, name: str, value: str) -> None:
        check_header(name, value)
        super().add(name, value)

    def setdefault(self, name: str, default: str) -> str:  # type: ignore[override]
        check_header(name, default)
        return super().setdefault(name, default)

    def extend(self, other: Any = None, **more: str) -> None:
        added = list(other.items() if hasattr(other, "items") else other or ())
        check_headers((*added, *more.items()))
        super().extend(added, **more)

    def update(self, *others: Any, **more: str) -> None:
        for name, value in dict(*others, **more).items():
            self[name] = value


RESTORED: dict[str, Any] = {
    "_status": OK,
    "_own_headers": None,
    "_app_iter": (),
    "conditional_response": False,
    "filters": (),
}
"""The fields of a response that ``restore`` restores, with their first values."""
FIELDS: dict[str, Any] = RESTORED | {"delivery_filters": ()}
"""All fields. Elements add filters of the delivery when they have answered, so no snapshot has one."""


_put = compiled("put", "response, snapshot", [f"{', '.join(f'response.{name}' for name in RESTORED)} = snapshot"])


class Response(webob.Response):
    """The answer, with the API of ``webob.Response``, except that it cannot be called as an application."""

    # Slots: Python reads an attribute faster if no class has a default for it.
    __slots__ = tuple(FIELDS)

    _status: str
    status_line: str
    """The status as it is sent, such as "200 OK". Set it by ``status``, which takes ten times as long to read."""
    _app_iter: Any
    blocks: Any
    """The body: a list of bytes if it is in memory, () before anything is put, or any iterable of bytes. What is
    set replaces the body. The headers stay, but Content-Length follows from a body in memory. WebOb's code knows
    this field as ``_app_iter``. A function in its place would take 1 % of a plain page with each call."""
    _own_headers: HeaderList | None
    """The headers, once they were read or changed; None means ``HTML`` alone (saves 4 % of a request)."""
    _headers: Headers | None = None
    filters: tuple[Filter, ...]
    """Output filters, in the order in which they see the body."""
    delivery_filters: tuple[tuple[Filter, bool], ...]
    """Filters that see the body after all output filters; with each, whether it changes the bytes."""
    filters_applied = False
    """True if the edge has put the filters around the body."""
    checked: Set[tuple[str, str]] = CHECKED
    """Headers that were checked, and are not checked again when this answer is sent."""

    def __init__(self, *arguments: Any, **attributes: Any) -> None:
        for name, value in FIELDS.items():
            setattr(self, name, value)
        if arguments or attributes or type(self) is not Response:  # a subclass may have other defaults
            super().__init__(*arguments, **attributes)
            check_headers(self._headerlist)

    def add_filter(self, filter: Filter) -> None:
        """Send the body through ``filter(chunks) -> chunks``: it takes an iterator of bytes and returns an iterable
        of bytes. Filters see the body in the order in which they were added.

        The edge calls the filter once, after all elements have answered. The filter can still change the headers.
        It is not called for an answer without a body. If it returns ``chunks`` itself, it has no effect. If it
        returns anything else, Content-Length, digests and Accept-Ranges are dropped and the ETag becomes weak.
        """
        if self.filters_applied:
            raise RuntimeError("the body is being sent already: a generator must add its filters before it yields")
        self.filters = (*self.filters, filter)

    def add_delivery_filter(self, filter: Filter, *, rewrites: bool = True) -> None:
        """Add a filter that changes how the body is sent and not its meaning, such as compression.

        It sees the body after all filters of ``add_filter``. Elements add it when the request is answered, so those
        of inner elements come first. With ``rewrites=False`` it only cuts the same bytes into other blocks, and the
        headers stay as they are."""
        self.delivery_filters = (*self.delivery_filters, (filter, rewrites))

    @property
    def in_memory(self) -> bool:
        """True if the body is a list or tuple of blocks, before any filter."""
        return type(self._app_iter) is list or type(self._app_iter) is tuple

    @property  # type: ignore[override]
    def headers(self) -> Headers:
        if self._headers is None:
            self._headers = Headers.view_list(self._headerlist)
        return self._headers

    @headers.setter
    def headers(self, value: Any) -> None:
        self.headerlist = value

    @property
    def _headerlist(self) -> HeaderList:
        """The headers, under the name that WebOb uses."""
        if self._own_headers is None:
            self._own_headers = [HTML]
        return self._own_headers

    @_headerlist.setter
    def _headerlist(self, headers: HeaderList) -> None:
        self._own_headers = headers

    @property
    def headerlist(self) -> HeaderList:
        """The headers as a plain list of pairs. Pairs that are added to the list are checked when they are sent."""
        return self._headerlist

    @headerlist.setter
    def headerlist(self, value: Any) -> None:
        pairs = list(value.items() if hasattr(value, "items") else value)
        check_headers(pairs)
        self._headers = None
        self._headerlist = pairs

    @headerlist.deleter
    def headerlist(self) -> None:
        self.headerlist = []

    @property
    def has_body(self) -> bool:
        return self._app_iter != () and bool(super().has_body)

    @property
    def status(self) -> str:
        return self._status

    @status.setter
    def status(self, value: Any) -> None:
        before = self._status
        try:
            webob.Response.status.fset(self, value)  # type: ignore[misc]
            check_header("Status", self._status)
        except UnsafeHeader:
            self._status = before
            raise

    def set_cookie(self, name: str | bytes, *arguments: Any, **attributes: Any) -> None:
        check_header(name if isinstance(name, str) else name.decode("latin-1"), "")  # the name must be a token, too
        super().set_cookie(name, *arguments, **attributes)  # quotes the value

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        raise TypeError("the response of a pipeline cannot be called: the edge sends it")

    snapshot: ClassVar[Callable[[Any], tuple[Any, ...]]] = compiled(
        "snapshot",
        "response",
        [
            "headers = response._own_headers",
            "headers = None if headers is None else headers.copy()",
            f"return {', '.join('headers' if name == '_own_headers' else f'response.{name}' for name in RESTORED)}",
        ],
    )
    """``response.snapshot()`` returns the current state of the response, for ``restore``."""

    def restore(self, snapshot: tuple[Any, ...]) -> None:
        """Restore the state of a snapshot. The same snapshot may be restored repeatedly."""
        _put(self, snapshot)
        self._own_headers = None if self._own_headers is None else self._own_headers.copy()
        self._headers = None
        self.delivery_filters = ()
        self.filters_applied = False

    def adopt(self, status: str, headers: HeaderList, app_iter: Any) -> None:
        """Take over the answer of another response or of a foreign app.

        Its headers replace headers of the same name. Headers of other names, and all cookies, stay. The content
        type is always that of the other response, also if it has none.
        """
        kept: HeaderList = []
        if self._own_headers is not None:  # else there is only a content type
            theirs = {"content-type", "content-length"} | {name.lower() for name, _ in headers} - {"set-cookie"}
            kept = [pair for pair in self._own_headers if pair[0].lower() not in theirs]
        self._status = status
        self._own_headers = kept + headers
        self._headers = None
        self._app_iter = app_iter

    def plain(self, status: str, text: str) -> None:
        """Answer in plain text, which no browser reads as another type (S7)."""
        self.adopt(status, [PLAIN, NOSNIFF], [f"{text}\n".encode()])


Response.blocks = vars(Response)["_app_iter"]
Response.status_line = vars(Response)["_status"]


def _checked(header: property) -> property:
    """Return a property of WebOb, such as ``location``, that refuses a value which cannot be sent."""

    def fset(response: Response, value: Any) -> None:
        before = response._headerlist[:]
        try:
            header.fset(response, value)  # type: ignore[misc]
            check_headers(response._headerlist[-1:])  # WebOb has appended the header
        except ValueError:
            response._headerlist[:] = before
            raise

    return property(header.fget, fset, header.fdel, header.__doc__)


for _name, _header in vars(webob.Response).items():
    if getattr(getattr(_header, "fset", None), "__module__", "") == "webob.descriptors":
        setattr(Response, _name, _checked(_header))


def _length_or_0(header: property) -> property:
    """Return WebOb's ``content_length`` as a property that is 0 also for a response without any body."""

    def fget(response: Response) -> int | None:
        length: int | None = header.fget(response)  # type: ignore[misc]
        return 0 if length is None and response._app_iter == () else length

    return property(fget, header.fset, header.fdel, header.__doc__)


Response.content_length = _length_or_0(Response.content_length)  # type: ignore[assignment]
