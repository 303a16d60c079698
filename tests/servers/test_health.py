"""``egg:wsgi-pipeline#health``: alive, and ready if every database of the ini answers in time."""

from __future__ import annotations

import logging
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from webob import Request

from pipeline.database import sql_databases
from pipeline.elements import zodb
from pipeline.paste import load
from servers.disk import Disk, mounted
from servers.zeo import ZEO

# From CPython 3.13 on, a connection to SQLite that could not be opened is said to be unclosed, sometime later.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:Exception ignored in. <sqlite3:pytest.PytestUnraisableExceptionWarning"),
]

INI = """
[composite:main]
use = egg:wsgi-pipeline#switch
branches = health path=/@@health
default = site

[pipeline:site]
pipeline = egg:wsgi-pipeline#log {elements} egg:wsgi-pipeline#traverse publisher

[filter:zodb]
use = egg:wsgi-pipeline#zodb
uri = {uri}

[filter:sql]
use = egg:wsgi-pipeline#sql
url = {url}

[app:health]
use = egg:wsgi-pipeline#health
timeout = 0.5

[app:publisher]
use = egg:wsgi-pipeline#publisher
"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """``site(uri=..., url=...)``: asks the health of an ini with these databases."""

    def site(uri: str = "memory://", url: str = "sqlite://", elements: str = "zodb") -> Callable[[str], Any]:
        file = tmp_path / "site.ini"
        file.write_text(INI.format(uri=uri, url=url, elements=elements))
        app = load(f"config:{file}")
        return lambda path: Request.blank(path).get_response(app)

    yield site
    zodb.close_all()
    sql_databases.close_all()


def test_it_says_that_it_is_alive_and_ready(site: Callable[..., Any], caplog: pytest.LogCaptureFixture) -> None:
    ask = site("memory://health", "sqlite://", "zodb sql")
    with caplog.at_level(logging.DEBUG):
        for path, text in (("/@@health/alive", "alive\n"), ("/@@health", "ready\n")):
            answer = ask(path)
            assert (answer.status_int, answer.text) == (200, text)
            assert answer.headers["Cache-Control"] == "no-store"
            assert "Set-Cookie" not in answer.headers
    assert not [record for record in caplog.records if record.name == "pipeline.access"]


def test_a_question_that_was_not_asked_is_asked_again(
    site: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system gives no thread for a moment, or the thread of a question is ended from outside."""
    ask = site("memory://health-threads")

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    def end(request: Any) -> None:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        assert ask("/@@health").status_int == 500
    assert ask("/@@health").text == "ready\n"
    with monkeypatch.context() as patch:
        patch.setattr(zodb.Connection, "db", end)
        assert ask("/@@health").status_int == 503
    assert ask("/@@health").text == "ready\n"


def test_a_database_that_cannot_be_reached_is_named(site: Callable[..., Any], tmp_path: Path) -> None:
    ask = site("memory://health2", f"sqlite:///{tmp_path}/missing/site.db", "zodb sql")
    assert ask("/@@health/alive").status_int == 200
    answer = ask("/@@health")
    assert (answer.status_int, answer.text) == (503, "sql: cannot be reached\n")
    (tmp_path / "missing").mkdir()
    end = time.monotonic() + 5
    while (answer := ask("/@@health")).status_int != 200 and time.monotonic() < end:
        time.sleep(0.1)
    assert answer.text == "ready\n"


def test_it_is_ready_while_the_server_refuses_one_more_connection(
    site: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as it allows are open, and a request has that of this process for a moment."""
    ask = site("memory://health-refused", f"sqlite:///{tmp_path}/site.sqlite", "zodb sql")
    assert ask("/@@health").status == "200 OK"
    (database,) = (one for one in sql_databases._databases.values() if str(tmp_path) in one.shown)
    in_use = database.engine.connect()
    in_use.info[sql_databases.CLOSE_AT_END] = False  # as that of a request

    def refuse(*arguments: object, **options: object) -> NoReturn:
        raise sqlite3.OperationalError("remaining connection slots are reserved")

    monkeypatch.setattr(database.engine.dialect, "connect", refuse)
    giving_back = threading.Timer(0.1, in_use.close)
    giving_back.start()
    assert ask("/@@health").text == "ready\n"
    giving_back.join()


def test_a_database_that_hangs_is_named_in_time_and_is_asked_once(site: Callable[..., Any], zeo: ZEO) -> None:
    ask = site(zeo.uri())
    wait_until_ready(ask)
    assert zeo.process is not None
    os.kill(zeo.pid, signal.SIGSTOP)
    try:
        for _ in range(3):
            started = time.monotonic()
            answer = ask("/@@health")
            assert (answer.status_int, answer.text) == (503, "zodb: no answer within 0.5 s\n")
            assert time.monotonic() - started < 2
            assert ask("/@@health/alive").status_int == 200
    finally:
        os.kill(zeo.pid, signal.SIGCONT)
    wait_until_ready(ask)


@pytest.fixture
def disk(tmp_path: Path, missing: Callable[[str, str], NoReturn]) -> Iterator[Disk]:
    with mounted(tmp_path / "disk", 8, missing) as disk:
        yield disk


@pytest.mark.servers  # it mounts a disk
def test_a_full_disk_is_named(disk: Disk, site: Callable[..., Any]) -> None:
    """The site can be read, so it is ready; a probe for writes fails. What is tried leaves nothing behind."""
    ask = site(f"file://{disk.path}/Data.fs", f"sqlite:///{disk.path}/site.db", "zodb sql")
    ready = [(200, "ready\n")] * 2
    assert asked_both(ask) == ready
    files = set(disk.path.iterdir())
    disk.fill()
    said = "zodb: cannot write: No space left on device\nsql: cannot write: No space left on device\n"
    assert asked_both(ask) == [(200, f"ready\n{said}"), (503, said)]
    assert ask("/@@health/alive").text == "alive\n"
    disk.empty()
    assert asked_both(ask) == ready
    assert set(disk.path.iterdir()) == files


def asked_both(ask: Callable[[str], Any]) -> list[tuple[int, str]]:
    """Return what is said to a proxy, and to a probe for writes."""
    return [(answer.status_int, answer.text) for answer in map(ask, ("/@@health", "/@@health/writes"))]


def wait_until_ready(ask: Callable[[str], Any]) -> None:
    """Wait for a database that starts, or goes on, beside the other work of this machine."""
    end = time.monotonic() + 10
    while (answer := ask("/@@health")).status_int != 200 and time.monotonic() < end:
        time.sleep(0.1)
    assert answer.text == "ready\n"


def test_an_unknown_option_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "site.ini"
    file.write_text("[app:main]\nuse = egg:wsgi-pipeline#health\ntimout = 3\n")
    with pytest.raises(Exception, match="health has no option 'timout'; did you mean 'timeout'"):
        load(f"config:{file}")
