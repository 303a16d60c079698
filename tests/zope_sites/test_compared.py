"""The same requests to Zope and to us, compared: status, headers, body, and what each stores."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from typing import Any
from wsgiref.util import FileWrapper

import pytest
from ZPublisher import HTTPResponse

from zope_sites.asked import TABLE, Asked
from zope_sites.compared_site import Sites, Tries
from zope_sites.stored import stored
from ztk.asking import ask

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
