"""``request_id``: each request has an id, in the answer, the logs and the error page."""

from __future__ import annotations

import logging
import re
import secrets
from contextvars import ContextVar
from typing import Any

from pipeline.composition import element
from pipeline.http.header_lists import OF_EVERY_ANSWER
from pipeline.http.hosts import Peers
from pipeline.interfaces import Handler, OptionError
from pipeline.request import Request
from pipeline.response import Response

HEADER = "X-Request-ID"
OF_EVERY_ANSWER.add(HEADER)
BELIEVED = re.compile(r"[A-Za-z0-9._:/+=@-]{1,64}")
"""An id of a proxy that may stand in a log."""
TRACE = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")
"""A header ``traceparent`` (W3C Trace Context)."""

current: ContextVar[str] = ContextVar("request_id", default="")
"""The id of the request that this thread or greenlet works for, or ""."""


class IdRequest(Request):
    """The attributes that ``request_id`` adds to a request."""

    __unkept__: Any = (("told_id", lambda told: "it has the id of one request"),)
    told_id: bool = False
    """True if the view has read ``request_id``."""
    _request_id: str = ""
    """The same for the logs and the error page, which do not count as reading it."""

    @property
    def request_id(self) -> str:
        """The id of this request. The error page, the access log and the header ``X-Request-ID`` have it, too."""
        self.told_id = True
        return self._request_id


class Formatter(logging.Formatter):
    """Formats records that have no id, too: ``%(request_id)s`` is "-" in what is logged outside of a request.

    In an ini: ``class = pipeline.elements.request_id.Formatter`` in a section ``[formatter_...]``.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{**options, "defaults": {"request_id": "-", **options.get("defaults", {})}})


def mark_records() -> None:
    """Have each record of ``logging`` tell the request that it was made for, as ``record.request_id``."""
    make = logging.getLogRecordFactory()
    if getattr(make, "marks", False):
        return

    def marked(*arguments: Any, **options: Any) -> logging.LogRecord:
        record = make(*arguments, **options)
        record.request_id = current.get() or "-"
        return record

    marked.marks = True  # type: ignore[attr-defined]
    logging.setLogRecordFactory(marked)


@element(
    adds=IdRequest,
    outside={
        "vhost": "it asks who has sent the request, and vhost puts the address of the visitor there",
        "timing": "what is logged while a request is measured has its id",
        "retry": "all attempts have one id",
        "database": "what a database logs has the id",
        "errors": "the error page shows the id",
    },
)
def request_id(next: Handler, *, trusted: tuple[str, ...] = ()) -> Handler:
    """Give each request an id, and put it on the answer (``X-Request-ID``), in the access line, and on the error
    page.

    trusted  proxies whose id is used: IP addresses and networks, and "unix" for those on a unix socket. The id is
             their ``X-Request-ID``, or the trace of their ``traceparent`` (W3C Trace Context)

    Without such a header, and for other clients, it is new: 32 hexadecimal digits. Each record of ``logging`` has
    the id as ``request_id`` until the body of the answer is sent, also those of a streamed body. An ini shows it by
    ``class = pipeline.elements.request_id.Formatter`` and ``%(request_id)s`` in the ``format``. A thread that a
    view starts has it if it runs in ``contextvars.copy_context()``.
    """
    try:
        peers = Peers(trusted)
    except ValueError as error:
        raise OptionError(f"option 'trusted': {error}") from None
    mark_records()

    def request_id(request: IdRequest, response: Response) -> None:
        environ = request.environ
        id = ""
        if trusted and peers[environ.get("REMOTE_ADDR", "")]:
            id = environ.get("HTTP_X_REQUEST_ID", "")
            if not BELIEVED.fullmatch(id):
                traced = TRACE.fullmatch(environ.get("HTTP_TRACEPARENT", ""))
                id = traced[1] if traced else ""
        id = request._request_id = id or secrets.token_hex(16)
        current.set(id)
        request.on_close(lambda: forget(id))
        next(request, response)
        response.headers[HEADER] = id

    return request_id


def forget(id: str) -> None:
    """End the time for which records have this id, unless another request has begun in this thread."""
    if current.get() == id:
        current.set("")
