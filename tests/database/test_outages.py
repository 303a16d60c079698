"""How often a database is tried that cannot be reached."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from around_a_view import ask, end
from pipeline import Pipeline
from pipeline.database import forks, sql_databases
from pipeline.database.outages import Outage
from pipeline.elements.errors import errors
from pipeline.elements.sql import sql

HELD = 1.4
"""Seconds for which the proxy holds a connection, until it gives up its search for a server."""


def test_a_try_that_took_longer_than_the_pause_is_followed_at_once(need_packages: Any) -> None:
    """As behind haproxy. The server may have come back while the try was held."""
    need_packages("psycopg2", "sqlalchemy")
    begun: list[float] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)

        def hold() -> None:
            for _ in range(3):
                connection, _ = listener.accept()
                begun.append(time.monotonic())
                time.sleep(HELD)
                connection.close()

        proxy = threading.Thread(target=hold)
        proxy.start()
        url = f"postgresql+psycopg2://site@127.0.0.1:{listener.getsockname()[1]}/site?sslmode=disable"
        app = Pipeline(sql(url=url), errors(), end(view=lambda request, _: request.sql.connection() and None))
        while proxy.is_alive():
            assert ask(app).status == 503
            time.sleep(0.02)
        proxy.join()
    sql_databases.close_all()
    first, second = (after - before for before, after in pairwise(begun))
    assert first > HELD + Outage.PAUSE - 0.1, "a request that was refused waits"
    assert HELD <= second < HELD + Outage.PAUSE - 0.1


def database_of(url: str) -> sql_databases.Database:
    return sql_databases.Database(url, False, {}, {"statement_timeout": None, "lock_timeout": None})


def test_threads_that_find_a_host_dead_at_once_all_come_to_the_other_one(need_packages: Any) -> None:
    """Each thread tries each host, whatever the others do to the order."""
    need_packages("pymysql", "sqlalchemy")
    database = database_of("mysql+pymysql://site@/site?host=db1&host=db2")
    at_once = threading.Barrier(4)

    def connect(host: str, **options: Any) -> Any:
        if host == "db1":
            at_once.wait(10)
            raise database.judge.of_driver(2003, "Can't connect")
        cursor = SimpleNamespace(execute=str, close=str, description=None)
        return SimpleNamespace(cursor=lambda: cursor, close=str, _read_timeout=1, host=host)

    dialect = SimpleNamespace(connect=connect)
    with ThreadPoolExecutor(4) as pool:
        tries = [pool.submit(database.connect, dialect, SimpleNamespace(info={}), (), {}) for _ in range(4)]
    assert [one.result().host for one in tries] == ["db2"] * 4
    assert [one["host"] for one in database.hosts] == ["db2", "db1"], "and the next one is tried there first"


def test_connections_are_counted_while_other_threads_open_some(need_packages: Any) -> None:
    """Another thread opens one at each line of Python that is executed here."""
    need_packages("psycopg2", "sqlalchemy")
    database = database_of("postgresql+psycopg2://site@/site")
    database.leaves = lambda connection, called: False  # type: ignore[method-assign]
    kept = []

    class Record:
        dbapi_connection = fairy_ref = None
        record_info: dict[str, Any] = {}  # noqa: RUF012

    def open_one() -> None:
        kept.append(Record())
        database.on_connect(None, kept[-1])

    def trace(frame: Any, event: str, value: Any) -> Any:
        if frame.f_code.co_name in ("has_connections", "connections_in_use", "open_records", "__iter__"):
            open_one()  # it is not traced itself
            return trace
        return None

    open_one()
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        found = database.has_connections(), database.connections_in_use()
    finally:
        sys.settrace(before)
    assert found == (False, []) and len(kept) > 5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("name", ["outage", "refusals", "writes"])
def test_r12_a_lock_that_a_thread_of_the_parent_has_stops_no_child(
    name: str, need_packages: Any, tmp_path: Path
) -> None:
    need_packages("sqlalchemy")
    limits = {"statement_timeout": None, "lock_timeout": None}
    database = sql_databases.database_of(f"sqlite:///{tmp_path}/site.sqlite", False, {}, limits)
    outage = getattr(database, name)
    with outage._lock:
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(3)
            forks.check()
            getattr(database, name).begin(OSError("gone"))
            getattr(database, name).end()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
