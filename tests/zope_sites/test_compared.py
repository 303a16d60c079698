"""The same requests to Zope and to us, compared: status, headers, body, and what each stores."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from wsgiref.util import FileWrapper

import pytest
from AccessControl import getSecurityManager
from zExceptions import Forbidden, NotFound, Redirect, Unauthorized
from zope.component import getGlobalSiteManager
from zope.publisher.interfaces import EndRequestEvent
from ZPublisher import HTTPResponse
from ZPublisher.pubevents import (
    PubAfterTraversal,
    PubBeforeAbort,
    PubBeforeCommit,
    PubFailure,
    PubStart,
    PubSuccess,
)

from zope_sites.asked import ADMIN, TABLE, Asked
from zope_sites.compared_site import Hooks, Lost, Sites, Tries
from zope_sites.stored import stored
from ztk.asking import Answer, ask, environ_of

ERROR = "an error without an exception view is a 500 of the pipeline; plain Zope leaves it to the server"
LENGTH = "Content-Length is that of the body; plain Zope sends another one, so that clients wait or cut"
DIFFERENT = {
    "/f1/@@form?n:int=none": ERROR,
    "/f1/@@write": ERROR,
    "/f1/@@written": LENGTH,
    "unsatisfiable range": LENGTH,
}
"""The requests that are answered differently, and why; docs/howto/zope.rst lists them."""


@pytest.fixture(scope="module")
def sites() -> Iterator[Sites]:
    logging.disable(logging.CRITICAL)
    made = Sites("max-conflict-retries 3")
    HTTPResponse._NOW = 1_000_000_000
    yield made
    HTTPResponse._NOW = None
    logging.disable(logging.NOTSET)
    made.close()


def seen(app: Any, db: Any, asked: Asked) -> Any:
    Tries.made.clear()
    before = db.storage.lastTransaction()
    try:
        answer = ask(app, asked.method, asked.path, asked.headers, asked.body)
    except Exception as error:
        return repr(error), [], b"", [], stored(db, before)
    headers = sorted((name, TIMES.sub("-", str(value))) for name, value in answer.headers)
    body = b"" if asked.method == "HEAD" else TIMES.sub("-", answer.body.decode("latin-1")).encode("latin-1")
    return answer.status, headers, body, answer.environ.get("REMOTE_USER"), stored(db, before)


TIMES = re.compile(
    r"\d{4}[-/]\d\d[-/]\d\d.\d\d:\d\d(:\d\d)?( \w+)?|\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d|\d{10}(\.\d+)?"
    r"|=====+\d+=="
)
"""Times, and boundaries of answers in parts."""


def test_there_are_many() -> None:
    assert len({asked.name for asked in TABLE}) == len(TABLE) > 100


def without_length(answer: Any) -> Any:
    """Return an answer without its Content-Length."""
    status, headers, *rest = answer
    return status, [pair for pair in headers if pair[0] != "Content-Length"], *rest


def test_a_part_of_a_file_ends_where_it_should_if_the_server_sends_files(sites: Sites) -> None:
    answer = ask(sites.ours, "GET", "/f1/@@part", {"wsgi.file_wrapper": FileWrapper})
    assert (answer.status, answer.body) == ("200 OK", b"block " * 3)


@pytest.mark.parametrize("asked", TABLE, ids=[asked.name for asked in TABLE])
def test_an_answer_is_the_same(sites: Sites, asked: Asked) -> None:
    theirs, ours = seen(sites.theirs, sites.plain_db, asked), seen(sites.ours, sites.db, asked)
    reason = DIFFERENT.get(asked.name)
    if reason is ERROR:
        assert theirs[0][-1:] == ")", "an exception"
        assert ours[0] == "500 Internal Server Error"
        assert ours[3:] == (None, []) and theirs[-1] == []
        return
    if reason is LENGTH:
        assert int(dict(ours[1])["Content-Length"]) == len(ours[2]) != int(dict(theirs[1])["Content-Length"])
    elif ours[0][:3] in ("204", "304"):  # RFC 9110, sections 8.6 and 15.4.5
        assert ours[1] == [pair for pair in theirs[1] if pair[0] not in ("Content-Length", "Content-Type")]
        return
    elif asked.method == "HEAD":
        pass  # a length is that of GET, or there is none
    elif "Content-Length" not in dict(theirs[1]) and "Content-Length" in dict(ours[1]):
        assert dict(ours[1])["Content-Length"] == str(len(ours[2]))  # a server may add it as well
    else:
        assert ours == theirs
    assert without_length(ours) == without_length(theirs)


EVENTS = (PubStart, PubAfterTraversal, PubBeforeCommit, PubSuccess, PubBeforeAbort, PubFailure, EndRequestEvent)


@pytest.mark.parametrize("path", ["/f1/@@write?title=told", "/f1/@@write_and_refuse?title=told"])
@pytest.mark.parametrize("error", [Redirect, NotFound, Forbidden, Unauthorized, Lost])
@pytest.mark.parametrize("event", EVENTS)
def test_an_error_of_a_subscriber_has_the_answer_of_zope(sites: Sites, event: Any, error: Any, path: str) -> None:
    def fail(event: Any) -> None:
        raise error("http://elsewhere.example/")

    registry = getGlobalSiteManager()
    registry.registerHandler(fail, (event,))
    try:
        asked = Asked("told", "GET", path)
        theirs, ours = seen(sites.theirs, sites.plain_db, asked), seen(sites.ours, sites.db, asked)
    finally:
        registry.unregisterHandler(fail, (event,))
    if theirs[0][-1:] == ")":
        is_refusal = error is Unauthorized and "RuntimeError" in theirs[0]  # plain Zope raises that at the start
        assert ours[0] == ("401 Unauthorized" if is_refusal else "500 Internal Server Error")
        assert ours[-1] == theirs[-1]
    else:
        assert without_length(ours) == without_length(theirs)


@pytest.mark.parametrize("path", ["/f1/@@forbid", "/f1/none", "/f1/@@refuse", "/f1/@@again?title=b&key=t&times=2"])
def test_errors_that_a_test_wants_to_see_are_those_of_zope(sites: Sites, path: str) -> None:
    asked = Asked("thrown", "GET", path, {"x-wsgiorg.throw_errors": True})
    theirs, ours = seen(sites.theirs, sites.plain_db, asked), seen(sites.ours, sites.db, asked)
    assert without_length(ours) == without_length(theirs)


def test_a_connection_that_stays_open_keeps_nothing_of_its_requests(sites: Sites) -> None:
    for _ in range(3):
        told = [ask(app, "GET", "/f1/@@debug_info").body for app in (sites.theirs, sites.ours)]
        assert told == [b"2", b"2"]


@pytest.mark.parametrize(
    "path", ["/f1/@@hooks", "/f1/@@hooks_of_abort", "/f1/@@hooks?fail=1", "/f1/@@hooks_of_abort?fail=1"]
)
def test_the_hooks_of_a_transaction_are_called_as_by_zope(sites: Sites, path: str) -> None:
    called = []
    for app in (sites.theirs, sites.ours):
        Hooks.called.clear()
        ask(app, "GET", path)
        called.append([*Hooks.called])
    assert called[0] == called[1]
    assert bool(called[0]) is (path != "/f1/@@hooks_of_abort")


def test_what_a_view_wrote_is_not_stored_if_it_raises_an_exception_of_webob(sites: Sites) -> None:
    asked = Asked("webob", "GET", "/f1/@@write_and_limit?title=limited")
    theirs, ours = seen(sites.theirs, sites.plain_db, asked), seen(sites.ours, sites.db, asked)
    assert theirs[0].startswith("<TooMany"), "plain Zope leaves it to the server"
    assert ours[0] == "429 Too Many Requests"
    assert ours[-1] == theirs[-1] == []


def test_a_request_that_fails_early_is_not_that_of_the_user_before(sites: Sites) -> None:
    """Plain Zope forgets the user after it has read the inputs."""
    named = []
    for app in (sites.theirs, sites.ours):
        assert ask(app, "GET", "/f1/f2/@@who", ADMIN).environ["REMOTE_USER"] == "admin"
        environ = environ_of("GET", "/f1/@@form?n:int=none")
        with suppress(ValueError):
            Answer(app, environ)
        named.append(environ.get("REMOTE_USER"))
    assert named == ["admin", None]


def test_a_subscriber_does_not_meet_the_user_before(sites: Sites) -> None:
    users = []

    def note(event: Any) -> None:
        users.append(getSecurityManager().getUser().getUserName())

    registry = getGlobalSiteManager()
    registry.registerHandler(note, (PubStart,))
    try:
        for _ in range(2):
            ask(sites.ours, "GET", "/f1/f2/@@who", ADMIN)
    finally:
        registry.unregisterHandler(note, (PubStart,))
    assert users == ["Anonymous User"] * 2
