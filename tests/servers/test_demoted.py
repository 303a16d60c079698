"""A ZODB on a server that takes no writes, because it was demoted or is set to read only."""

from __future__ import annotations

import gc
import os
import socket
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

import pytest
from persistent.mapping import PersistentMapping
from sqlalchemy import text
from sqlalchemy.engine import make_url

from around_a_view import ask, end
from pipeline import Pipeline, Request, Response
from pipeline.database import sql_databases as module
from pipeline.database import zodb_pools
from pipeline.elements.errors import errors
from pipeline.elements.retry import retry
from pipeline.elements.transaction import transaction
from pipeline.elements.zodb import close_all, zodb
from pipeline.interfaces import Unavailable
from ports import unused_port
from servers.fixtures import Skip, running
from servers.mariadb import MariaDB
from servers.postgres import Postgres
from servers.sql_places import Place, site, with_driver

pytestmark = [pytest.mark.servers, pytest.mark.timeout(120)]


def view(request: Request, response: Response) -> Any:
    root = request.root
    if request.path == "/count":
        root["count"] = root.get("count", 0) + 1
    elif request.path == "/add":
        for number in range(2_000):  # more than the ids that a process has in advance
            root[str(number)] = PersistentMapping()
    return [b"%d" % root.get("count", 0)]


def restart(server: Postgres, standby: bool) -> None:
    """Make a server a replica, or a primary again."""
    server.stop()
    mark = server.data / "standby.signal"
    if standby:
        mark.touch()
        mark.chmod(0o666)
    else:
        mark.unlink()
    server.start()


@pytest.mark.parametrize("kind", [Postgres, MariaDB])
def test_a_server_that_takes_no_writes_is_a_503_until_it_does(
    kind: type[Any],
    servers_dir: Path,
    missing: Callable[[str, str], NoReturn],
    need_packages: Callable[..., None],
    caplog: Any,
) -> None:
    """Pages are shown all the while, and no request is tried again in vain."""
    need_packages("relstorage", *(["psycopg2"] if kind is Postgres else ["mysql.connector"]))
    with running(kind, servers_dir, missing) as server:
        server.create("site")
        app = Pipeline(retry(), zodb(uri=server.uri("site")), errors(), transaction(), end(view=view))

        def demote(replica: bool) -> None:
            if kind is Postgres:
                restart(server, replica)
            else:
                server.ask(f"SET GLOBAL read_only = {int(replica)}")

        try:
            assert ask(app, "/count").status == 200
            demote(True)
            begun = time.monotonic()
            for path in ("/count", "/add", "/count"):
                answer = ask(app, path)
                assert (answer.status, answer.headers["Retry-After"]) == (503, "1"), path
                assert (ask(app).status, ask(app).text) == (200, "1")
            assert time.monotonic() - begun < 15
            demote(False)
            assert [ask(app, path).status for path in ("/count", "/add")] == [200, 200]
            assert ask(app).text == "2"
        finally:
            close_all()
    assert "Traceback" not in "".join(
        record.exc_text or "" for record in caplog.records if record.name.startswith("pipeline")
    )
    assert "the database takes no writes" in caplog.text


NO_LIMITS = {"statement_timeout": None, "lock_timeout": None}
HOSTS = "host=127.0.0.1:{0}&host=127.0.0.1:{1}&target_session_attrs=read-write"


@pytest.mark.parametrize(
    ("driver", "several"), [("psycopg2", True), ("psycopg", True), ("psycopg2", False), ("pg8000", False)]
)
def test_tables_of_a_primary_that_takes_no_writes_are_read(
    driver: str,
    several: bool,
    postgres: Postgres,
    new_name: Callable[[], str],
    need_packages: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The connections stay, as at a switch-over. The URL may name several hosts, and ask for one that writes."""
    need_packages(driver)
    postgres.create(name := new_name())
    postgres.ask("CREATE TABLE t (v text)", name)
    url = with_driver(make_url(postgres.url(name)), driver, monkeypatch).render_as_string()
    if several:
        url = url.replace(f"127.0.0.1:{postgres.port}", "") + "?" + HOSTS.format(unused_port(), postgres.port)

    def show(request: Request, response: Response) -> list[bytes]:
        if request.path == "/add":
            request.sql.execute(text("INSERT INTO t VALUES ('new')"))
        return [b"%d" % request.sql.scalar(text("SELECT count(*) FROM t"))]

    app = site(Place("postgres", url, postgres, name), show)

    def demote(yes: bool) -> None:
        postgres.ask(f"ALTER SYSTEM SET default_transaction_read_only = {'on' if yes else 'off'}")
        postgres.ask("SELECT pg_reload_conf()")
        time.sleep(0.3)

    try:
        assert ask(app, "/add").status == 200
        demote(True)
        for _ in range(2):
            assert ask(app, "/add").status == 503
            shown = [ask(app), ask(app, method="GET")]
            assert [(answer.status, answer.text) for answer in shown] == [(200, "1")] * 2
        demote(False)
        assert 200 in [ask(app, "/add").status for _ in range(2)]
        assert ask(app, "/add").status == 200
    finally:
        demote(False)
        module.close_all()
        module._databases.clear()


def test_objects_are_read_and_written_by_several_hosts(
    postgres: Postgres, new_name: Callable[[], str], need_packages: Callable[..., None]
) -> None:
    """The URI asks for a host that takes writes. Its options, and those of the database, arrive."""
    need_packages("relstorage", "psycopg2")
    postgres.create(name := new_name())
    uri = f"postgres://postgres@/{name}?host=127.0.0.1,127.0.0.1&port={unused_port()},{postgres.port}"
    uri += "&target_session_attrs=read-write&connect_timeout=7&connection_cache_size=123&keep_history=false"
    app = Pipeline(retry(), zodb(uri=uri), errors(), transaction(), end(view=view))
    try:
        assert ask(app, "/count").status == 200
        pool = zodb_pools._pools[uri]
        assert pool.db is not None and pool.db.getCacheSize() == 123
        connection = pool.db.storage._adapter.connmanager.open_for_load()[0]
        given = connection.get_dsn_parameters()
        assert (given["connect_timeout"], given["target_session_attrs"]) == ("7", "read-write")
        with socket.socket(fileno=os.dup(connection.fileno())) as ours:
            assert ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 10_000
        connection.close()
    finally:
        close_all()


@pytest.mark.parametrize("driver", ["psycopg2", "psycopg"])
@pytest.mark.parametrize(("query", "milliseconds"), [("", 10_000), ("?tcp_user_timeout=4000", 4000)])
def test_a_machine_that_is_gone_is_noticed(
    driver: str, query: str, milliseconds: int, postgres: Postgres, new_name: Callable[[], str]
) -> None:
    postgres.create(name := new_name())
    url = make_url(postgres.url(name) + query).set(drivername=f"postgresql+{driver}")
    engine = module.Database(url.render_as_string(), False, {}, NO_LIMITS).engine
    with engine.connect() as connection:
        number = os.dup(connection.connection.driver_connection.fileno())
        with socket.socket(fileno=number) as ours:
            assert ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == milliseconds
            assert ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 10
    engine.dispose()


DRIVERS = ["postgresql+psycopg2", "postgresql+psycopg", "postgresql+pg8000"]
DRIVERS += ["mysql+pymysql", "mysql+mysqlconnector"]


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("what", ["a machine that is gone", "a server that hangs"])
def test_a_machine_that_does_not_answer_is_a_503_in_seconds(driver: str, what: str, gone: int) -> None:
    """The kernel accepts connections to a server that hangs, and nothing answers."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = gone if "gone" in what else silent.getsockname()[1]
        engine = module.Database(f"{driver}://site@127.0.0.1:{port}/site", False, {}, NO_LIMITS).engine
        begun = time.monotonic()
        with pytest.raises(Unavailable):
            engine.connect()
        assert 2 < time.monotonic() - begun < 8
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()  # some drivers leave the socket to it


@pytest.mark.parametrize("kind", [Postgres, MariaDB])
def test_a_statement_may_take_longer_than_connecting(
    kind: type[Any], servers_dir: Path, missing: Skip, need_packages: Callable[..., None]
) -> None:
    drivers = [driver for driver in DRIVERS if driver.startswith(("mysql", "postgresql")[kind is Postgres])]
    need_packages(*[driver.partition("+")[2].replace("mysqlconnector", "mysql.connector") for driver in drivers])
    with running(kind, servers_dir, missing) as server:
        server.create("site")

        def wait(driver: str) -> None:
            url = make_url(server.url("site")).set(drivername=driver).render_as_string(hide_password=False)
            engine = module.Database(url, False, {}, NO_LIMITS).engine
            with engine.connect() as connection:
                connection.execute(text("SELECT pg_sleep(3.5)" if kind is Postgres else "SELECT sleep(3.5)"))
            engine.dispose()

        with ThreadPoolExecutor() as pool:
            list(pool.map(wait, drivers))
