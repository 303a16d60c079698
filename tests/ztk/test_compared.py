"""The same requests to Zope and to us, compared: status, headers, body, and what the server logs."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import zope.app.wsgi

from pipeline.ztk import WSGIPublisherApplication
from ztk.asked import TABLE, Asked
from ztk.asking import ask
from ztk.compared_site import Again, make_db

NO_LENGTH = "RFC 9110 section 8.6: a 204 has no Content-Length, and no Content-Type"
NO_BODY = "RFC 9110 section 9.3.2: HEAD has no body, also of an error"
DIFFERENT = {
    "no content": NO_LENGTH,
    "HEAD of an error": NO_BODY,
    "HEAD of nothing": NO_BODY,
    "more conflicts than attempts": "R2: a conflict that lasts is a 503 with Retry-After, and not a 500",
}
"""The requests that are answered differently, and why; docs/howto/ztk.rst lists them."""


@pytest.fixture(scope="module")
def apps() -> Iterator[tuple[Any, Any]]:
    logging.disable(logging.CRITICAL)
    databases = [make_db(), make_db()]
    yield zope.app.wsgi.WSGIPublisherApplication(databases[0]), WSGIPublisherApplication(databases[1], attempts=4)
    logging.disable(logging.NOTSET)
    for db in databases:
        db.close()


def seen(app: Any, asked: Asked) -> Any:
    Again.tries.clear()
    answer = ask(app, asked.method, asked.path, asked.headers, asked.body)
    logged = [answer.environ.get(name) for name in ("REMOTE_USER", "wsgi.logging_info")]
    return answer.status, sorted(answer.headers), answer.body, logged


@pytest.mark.parametrize("asked", TABLE, ids=[asked.name for asked in TABLE])
def test_an_answer_is_the_same(apps: tuple[Any, Any], asked: Asked) -> None:
    theirs, ours = (seen(app, asked) for app in apps)
    if asked.name not in DIFFERENT:
        assert ours == theirs
        return
    assert ours != theirs
    status, headers, body, logged = ours
    assert logged == theirs[3]
    if asked.name == "more conflicts than attempts":
        assert (status, theirs[0]) == ("503 Service Unavailable", "500 Internal Server Error")
        assert sorted({*headers} - {*theirs[1]}) == [("Retry-After", "1")]
    else:
        assert (status, body) == (theirs[0], b"")
        assert {*theirs[1]} - {*headers} <= {("Content-Length", "0"), ("Content-Type", "text/plain")}


def test_an_error_that_is_not_handled_leaves_the_application(apps: tuple[Any, Any]) -> None:
    for app in apps:
        with pytest.raises(RuntimeError, match=r"It failed\."):
            ask(app, "GET", "/folder/note/fails", {"wsgi.handleErrors": False})


def test_a_conflict_that_is_not_handled_leaves_the_application_as_it_was_raised(apps: tuple[Any, Any]) -> None:
    from ZODB.POSException import ConflictError

    for app in apps:
        Again.tries.clear()
        with pytest.raises(ConflictError):
            ask(app, "GET", "/folder/note/again?key=z&times=9", {"wsgi.handleErrors": False})
        assert Again.tries["z"] == 4


def test_a_path_that_is_not_utf_8_is_an_answer(apps: tuple[Any, Any]) -> None:
    theirs, ours = apps
    with pytest.raises(UnicodeDecodeError):
        ask(theirs, "GET", "/folder/%ff")
    assert ask(ours, "GET", "/folder/%ff").status == "400 Bad Request"
