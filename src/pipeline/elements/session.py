"""``session``: data of a visitor in a signed cookie, and messages for the next page. Needs the extra ``auth``."""

from __future__ import annotations

import json
from collections import UserDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from webob import Response as AnyResponse
from webob.exc import HTTPException

from pipeline.auth.keys import read_keys
from pipeline.auth.sessions import Session, SignedCookie, refuse_other_keys
from pipeline.composition import Offers, element
from pipeline.http.encodings import make_private
from pipeline.http.files import FileBody
from pipeline.interfaces import ConfigurationError, Facts, Handler
from pipeline.ranges import at_least
from pipeline.request import Request, on_first_use
from pipeline.response import Response, check_header

MAX_COOKIE = 4096
"""Bytes of a cookie, name and value, that browsers store (RFC 6265 section 6.1)."""
FAILED = "the request has failed, and a failed request keeps the old session"
SENT = "the answer is complete, and its headers are decided"

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class SessionTooLarge(ValueError):
    """A session that is too large for its cookie. The message names its keys."""


class SessionData(UserDict[str, Any]):
    """The data of a visitor: names and JSON values. A value may be changed in place, such as a list."""

    def __init__(self, data: dict[str, Any], messages: list[str], closed: str, owner: str | None) -> None:
        self.data = data
        self.messages = messages
        self.owner = owner
        """The principal that the data belongs to; None for a visitor who is not logged in."""
        self.taken = False
        """True if this request has taken the messages."""
        self.closed = closed
        """The reason why the session cannot be changed any more, or ""."""
        self.before: dict[str, str] | None = self.encoded()
        """The values that the browser has; None if the cookie must be set in any case."""

    def encoded(self) -> dict[str, str]:
        """Return each value as JSON; the messages have the key "". Raise TypeError for any other value."""
        encoded: dict[str, str] = {}
        if not self.data and not self.messages:  # most visitors have none
            return encoded
        for name, value in (*self.data.items(), ("", self.messages)):
            try:
                encoded[name] = _encode(value)
            except (TypeError, ValueError, RecursionError) as error:
                raise TypeError(f"session[{name!r}] cannot be stored as JSON: {error}") from error
        return encoded

    def refuse_closed(self) -> None:
        """Raise RuntimeError if the session can no longer be changed."""
        if self.closed:
            raise RuntimeError(f"the session cannot be changed any more: {self.closed}")

    def __setitem__(self, name: str, value: Any) -> None:
        self.refuse_closed()
        if not isinstance(name, str) or not name:
            raise TypeError(f"session[{name!r}]: the name must be a str that is not empty")
        self.data[name] = value

    def __delitem__(self, name: str) -> None:
        self.refuse_closed()
        del self.data[name]

    __ior__: Any = None  # that of a UserDict would write past the methods above

    def __repr__(self) -> str:
        return f"<session of {', '.join(self.data) or 'no data'}>"


class SessionCookies:
    """The sessions that a browser has sent, by their principals, and the one that a login or logout begins."""

    def __init__(self, sent: dict[str | None, tuple[dict[str, Any], list[str]]], keep: Sequence[str]) -> None:
        self.sent = sent
        self.keep = keep
        self.read: dict[str | None, SessionData] = {}
        self.begun: SessionData | None = None

    def current(self, request: SessionRequest) -> SessionData:
        """Return the session of the principal, as far as the request is identified now (S21)."""
        if self.begun is not None:
            return self.begun
        owner = request.principal
        if owner not in self.read:
            data, messages = self.sent.get(owner) or ({}, [])
            self.read[owner] = SessionData(data, messages, request.session_closed, owner)
        return self.read[owner]

    def why_unkept(self) -> str:
        """Return the reason why an answer that was made with these sessions cannot be kept, or ""."""
        begun = (one for one in (self.begun, *self.read.values()) if one is not None)
        used = any(one.taken or one.before != {} or one.encoded() for one in begun)
        return "a session with data" if used else ""

    def begin(self, request: SessionRequest, owner: str | None) -> None:
        """Begin a new session, with the values of the last one that the site keeps."""
        last = self.current(request)
        last.refuse_closed()
        self.begun = SessionData({name: last[name] for name in self.keep if name in last}, [], "", owner)
        self.begun.before = None if self.sent else {}
        last.closed = "a login or logout has begun a new one, which request.session returns"


class SessionRequest(Request):
    """The attributes that ``session`` adds to a request."""

    __unkept__: Any = (("session_cookies", SessionCookies.why_unkept),)
    __kept__: Any = (("session_cookies", lambda response: make_private(response)),)
    session_cookies: SessionCookies = on_first_use(dropped=True)
    """The sessions that the browser has sent."""

    @property
    def session(self) -> SessionData:
        """A mapping of names to JSON values, which the visitor's browser keeps. The visitor can read it.

        It belongs to the principal. Before the request is identified, it is that of a visitor who is not logged in.
        """
        return self.session_cookies.current(self)

    session_closed: str = ""
    """The reason why the session cannot be changed any more, or ""."""

    def flash(self, message: str) -> None:
        """Keep a message for the visitor's next page, which takes it by ``take_messages``."""
        self.session.refuse_closed()
        if not isinstance(message, str):
            raise TypeError(f"flash() takes a message, a str, not {message!r:.80}")
        self.session.messages.append(message)

    def take_messages(self) -> list[str]:
        """Return the messages to show on this page, and forget them. They are kept if this request fails."""
        session = self.session
        if session.closed:
            return []
        messages = list(session.messages)
        if messages and self.environ["REQUEST_METHOD"] != "HEAD":  # the answer to HEAD shows nothing
            session.messages.clear()
            session.taken = True
        return messages


@element(
    adds=SessionRequest,
    facts=lambda *, keys, **options: Facts(writes=(keys,)),
    inside={
        "errors": "a session that is too large is answered like any other error",
        "retry": "every attempt starts with the session that the browser sent",
        "transaction": "nothing is committed if the session cannot be stored",
    },
    outside={
        "authenticate": "the check of a password may use the session",
        "traverse": "traversal hooks and views may use the session",
    },
    new_session=lambda request, principal: request.session_cookies.begin(request, principal),
)
def session(
    next: Handler,
    *,
    keys: str,
    max_age: int = 30 * 24 * 3600,
    cookie: str = "session_data",
    limit: int = 4000,
    keep: tuple[str, ...] = (),
) -> Offers:
    """Keep data of a visitor from request to request, and messages for the visitor's next page.

    keys     file with the keys that sign the cookie, one per line, the newest last; made if it is missing.
             ``authenticate`` may use the same file. Data counts where a login does: where the keys, and ``check``
             and ``realm`` of ``authenticate``, are the same (S27)
    max_age  seconds after the last change, when the session ends
    cookie   name of the cookie. Under https it has the prefix ``__Host-``
    limit    upper limit of the bytes of the cookie, name and value; 4096 at most
    keep     names of the values that a login and a logout keep, such as ``language``; all other data is forgotten

    ``request.session`` is a mapping of names to JSON values. ``request.flash("Saved.")`` keeps a message, and
    ``request.take_messages()`` returns the messages, each of them once. Both are kept in a signed cookie, which the
    visitor can read but not change. A request that uses neither of them gets no cookie, and no header. But a
    stream for a visitor with a session is private, unless its view says ``public``: it may read the session later.

    The data belongs to the principal, or to the visitor who is not logged in, and no other principal sees it (S21).
    Before the request is identified, the session is that of a visitor who is not logged in.

    The session is stored if the view returns, whatever the status of its answer. If it raises an error, or if the
    commit fails, the session and the messages stay as they were. Error views and streamed bodies can only read the
    session. If it is beyond the limit, SessionTooLarge names its keys, and nothing is committed.
    """
    at_least(1, max_age=max_age)
    if not 0 < limit <= MAX_COOKIE:
        raise ConfigurationError(f"session: option 'limit' is {limit}; browsers store from 1 to {MAX_COOKIE} bytes")
    if cookie == Session.COOKIE:
        raise ConfigurationError(f"session: option 'cookie': {cookie!r} is the name of the login's cookie")
    check_header(cookie, "")
    signing = read_keys(keys)
    cookies = lru_cache(lambda audience: SignedCookie(cookie, f"session data {audience}", signing, max_age))
    store = Store(cookies, limit, keep)

    def session(request: SessionRequest, response: Response) -> None:
        try:
            next(request, response)
        except BaseException as error:
            if isinstance(error, HTTPException) and error.wsgi_response.status_int < 400:
                store.save(request, error.wsgi_response)  # a redirect is an answer
            else:
                request.__dict__.pop("session_cookies", None)
                request.session_closed = FAILED
            raise
        if type(response.blocks) not in (list, FileBody) or "session_cookies" in request.__dict__:
            store.save(request, response)
        else:
            request.session_closed = SENT  # an output filter may still read it

    return Offers(session, session_cookies=store.load)


@dataclass
class Store:
    """Reads the session from the cookie of a request, and writes it to the cookie of an answer.

    cookies  ``(audience) -> SignedCookie``, whose data no site with other users reads (S27)
    """

    cookies: Callable[[str], SignedCookie]
    limit: int
    keep: Sequence[str]

    def cookie_for(self, request: Request) -> SignedCookie:
        """Return the cookie for the users of the site: those of ``authenticate``, if it is in the pipeline."""
        return self.cookies(getattr(getattr(request, "verify", None), "audience", ""))

    def load(self, request: SessionRequest) -> SessionCookies:
        """Return the sessions of the valid cookies. If several belong to one principal, the first one counts."""
        sent: dict[str | None, tuple[dict[str, Any], list[str]]] = {}
        for value in self.cookie_for(request).values(request):
            match value:
                case [dict(data), list(messages), (str() | None) as owner]:
                    sent.setdefault(owner, (data, messages))
        if request.session_closed:  # a filter, a stream or an error view is the first to read it
            make_private(request.environ["pipeline.response"])
        return SessionCookies(sent, self.keep)

    def save(self, request: SessionRequest, response: AnyResponse) -> None:
        """Set the cookie if the session has changed. From now on the session can only be read."""
        request.session_closed = SENT
        if "session_cookies" not in request.__dict__:
            if isinstance(response, Response) and any(self.cookie_for(request).values(request)):
                make_private(response, unless_public=True)  # a stream may read it behind its headers
            return
        session = request.session
        for one in request.session_cookies.read.values():
            if one.owner != session.owner and not one.closed and one.encoded() != one.before:
                raise RuntimeError(f"the session of {one.owner} was changed, and then the request was identified")
        session.closed = SENT
        make_private(response)
        if session.taken:  # a browser must not show its stored copy of the page, which has no messages
            del response.etag, response.last_modified
        after = session.encoded()
        if after == session.before:
            return
        text, cookie = "", self.cookie_for(request)
        for name, value in session.data.items():
            refuse_other_keys(f"session[{name!r}]", value)
        if session.data or session.messages:
            text = str(cookie.serializer.dumps([session.data, session.messages, session.owner]))
            self.refuse_large(cookie.name_for(request), text, after)
        cookie.set(request, response, text)

    def refuse_large(self, name: str, text: str, encoded: dict[str, str]) -> None:
        """Raise SessionTooLarge if the browser may not store the cookie."""
        if (size := len(name) + 1 + len(text)) > self.limit:
            sizes = {key or "the messages": len(value.encode()) for key, value in encoded.items()}
            listed = ", ".join(f"{key} {sizes[key]}" for key in sorted(sizes, key=sizes.__getitem__, reverse=True))
            raise SessionTooLarge(
                f"the session takes {size} bytes as a cookie; the option 'limit' of session allows {self.limit}. "
                f"Its values, in bytes: {listed}. Keep large values in a database, and their id in the session"
            )
