"""``request_id``: one id in the answer, the access line, the error page and all records of the request."""

from __future__ import annotations

import contextvars
import io
import json
import logging
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from persistent.mapping import PersistentMapping
from transaction.interfaces import TransientError

from around_a_view import end, start
from asking import ask
from pipeline import Pipeline, Response, view
from pipeline.elements.errors import errors
from pipeline.elements.keep import keep
from pipeline.elements.log import log
from pipeline.elements.request_id import Formatter, current, request_id
from pipeline.elements.retry import retry
from pipeline.elements.transaction import transaction
from pipeline.elements.traverse import traverse
from pipeline.elements.vhost import vhost
from pipeline.elements.zodb import close_all, zodb
from pipeline.interfaces import OptionError
from pipeline.publisher import publisher

OWN = re.compile(r"[0-9a-f]{32}")
TRACED = "4bf92f3577b34da6a3ce929d0e0e4736"
site_log = logging.getLogger("a.site")


class Lines:
    """The ids of the records that are logged."""

    def __init__(self) -> None:
        self.stream = io.StringIO()
        self.handler = logging.StreamHandler(self.stream)
        self.handler.setFormatter(Formatter("%(request_id)s %(message)s"))

    def __enter__(self) -> Lines:
        site_log.addHandler(self.handler)
        site_log.setLevel(logging.INFO)
        return self

    def __exit__(self, *error: object) -> None:
        site_log.removeHandler(self.handler)

    @property
    def all(self) -> list[str]:
        return self.stream.getvalue().splitlines()


@pytest.fixture(autouse=True)
def records() -> Iterator[None]:
    make = logging.getLogRecordFactory()
    yield
    logging.setLogRecordFactory(make)


def site(view: Any, *outer: Any, **options: Any) -> Pipeline:
    return Pipeline(*outer, request_id(**options), vhost(), retry(delay=0), errors(), end(view=view))


def fails(request: Any, response: Response) -> Any:
    raise KeyError("x")


SENT = [
    ({}, "own"),
    ({"HTTP_X_REQUEST_ID": "abc-123"}, "abc-123"),
    ({"HTTP_X_REQUEST_ID": "a" * 64}, "a" * 64),
    ({"HTTP_X_REQUEST_ID": "a" * 65}, "own"),
    ({"HTTP_X_REQUEST_ID": "a b"}, "own"),
    ({"HTTP_X_REQUEST_ID": 'a"\r\nb'}, "own"),
    ({"HTTP_X_REQUEST_ID": ""}, "own"),
    ({"HTTP_TRACEPARENT": f"00-{TRACED}-00f067aa0ba902b7-01"}, TRACED),
    ({"HTTP_TRACEPARENT": f"00-{TRACED}"}, "own"),
    ({"HTTP_X_REQUEST_ID": "abc", "HTTP_TRACEPARENT": f"00-{TRACED}-00f067aa0ba902b7-01"}, "abc"),
]


@pytest.mark.parametrize(("sent", "expected"), SENT)
@pytest.mark.parametrize("peer", ["127.0.0.1", "192.0.2.1", ""])
def test_whose_id_is_used(sent: dict[str, str], expected: str, peer: str) -> None:
    told: list[str] = []
    app = site(lambda request, response: told.append(request.request_id), trusted=("127.0.0.1", "unix"))
    id = ask(app, "/", REMOTE_ADDR=peer, **sent).headers["X-Request-ID"]
    assert told == [id]
    assert OWN.fullmatch(id) if expected == "own" or peer == "192.0.2.1" else id == expected


def test_each_request_has_its_own() -> None:
    app = site(lambda request, response: None)
    assert len({ask(app, "/").headers["X-Request-ID"] for _ in range(50)}) == 50
    with pytest.raises(OptionError, match="option 'trusted': "):
        site(fails, trusted=("nowhere",))


@pytest.mark.parametrize("format", ["combined", "json"])
def test_the_access_line_the_page_and_the_record_have_it(
    format: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "access.log"
    app = site(fails, log(file=str(file), format=format))
    answer = ask(app, "/")
    id = answer.headers["X-Request-ID"]
    line = file.read_text()
    assert line.endswith(f" {id}\n") if format == "combined" else json.loads(line)["request_id"] == id
    assert id in answer.text
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert f"error {id}: " in record.getMessage() and record.request_id == id  # type: ignore[attr-defined]


def test_all_records_of_a_request_have_it_until_its_body_is_sent() -> None:
    def act(request: Any, response: Response) -> Any:
        site_log.info("attempt %d", request.attempt)
        if request.attempt < 3:
            raise TransientError("another request was faster")
        request.on_close(lambda: site_log.info("closed"))
        return stream()

    def stream() -> Iterator[bytes]:
        for number in range(3):
            site_log.info("block %d", number)
            yield b"x"

    with Lines() as lines:
        app = site(act)
        site_log.info("before")
        answer = ask(app, "/")
        site_log.info("after")
    id = answer.headers["X-Request-ID"]
    words = [f"attempt {number}" for number in (1, 2, 3)] + [f"block {number}" for number in range(3)] + ["closed"]
    assert lines.all == ["- before", *(f"{id} {word}" for word in words), "- after"]


made: list[str] = []


@view(context=PersistentMapping, name="kept")
@view(context=PersistentMapping, name="told")
def page(root: Any, request: Any) -> str:
    made.append(request.view_name)
    request.keep = 60
    return str(request.request_id) if request.view_name == "told" else "kept"


def test_a_kept_page_has_no_id_of_another_request() -> None:
    made.clear()
    ends = (transaction(), keep(), traverse(), publisher(scan=(__name__,)))
    app = Pipeline(request_id(), zodb(uri="memory://ids"), errors(), *ends)
    try:
        answers = [ask(app, path, "GET") for path in ["/kept"] * 4 + ["/told"] * 4]
    finally:
        close_all()
    ids = [answer.headers["X-Request-ID"] for answer in answers]
    assert made.count("kept") < 4 and made.count("told") == 4 and len(set(ids)) == 8
    assert [answer.text for answer in answers] == [*["kept"] * 4, *ids[4:]]


def test_threads_do_not_mix_theirs() -> None:
    both = threading.Barrier(2, timeout=20)
    told: dict[str, list[str]] = {}

    def act(request: Any, response: Response) -> None:
        for _ in range(20):
            both.wait()
            told.setdefault(request.request_id, []).append(current.get())

    app = site(act)
    threads = [threading.Thread(target=ask, args=(app, "/")) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(told) == 2 and all(set(ids) == {id} for id, ids in told.items())


def test_a_body_that_is_closed_late_takes_no_id_from_the_next_request() -> None:
    app = site(lambda request, response: iter([b"x"]))
    first, second = start(app), start(app)
    id = current.get()
    first.close()
    assert current.get() == id != ""
    second.close()
    assert current.get() == ""


def test_a_thread_of_the_view_has_it_in_a_copy_of_the_context() -> None:
    def act(request: Any, response: Response) -> None:
        copied = contextvars.copy_context()
        thread = threading.Thread(target=copied.run, args=(site_log.info, "in a thread"))
        thread.start()
        thread.join()

    with Lines() as lines:
        id = ask(site(act), "/").headers["X-Request-ID"]
    assert lines.all == [f"{id} in a thread"]


def test_records_are_marked_once_and_by_the_factory_of_the_site() -> None:
    class Record(logging.LogRecord):
        """A record of the site."""

    logging.setLogRecordFactory(Record)
    request_id()(lambda environ, start_response: [])
    make = logging.getLogRecordFactory()
    request_id()(lambda environ, start_response: [])
    assert logging.getLogRecordFactory() is make
    assert type(site_log.makeRecord("a", 20, "b", 1, "c", (), None)) is Record


def test_a_record_without_an_id_is_formatted() -> None:
    logging.setLogRecordFactory(logging.LogRecord)
    record = logging.LogRecord("a", 20, "b", 1, "said", (), None)
    assert Formatter("%(request_id)s %(message)s").format(record) == "- said"
    assert Formatter("%(own)s %(request_id)s", defaults={"own": "x"}).format(record) == "x -"
