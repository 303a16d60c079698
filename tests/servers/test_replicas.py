"""``sql`` with ``read_urls``, on real replicas: nobody misses what he has written, and a replica may fail.

One replica applies each change late. What is stored is read from the primary, without the element.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from around_a_view import end
from asking import ask
from pipeline import Pipeline, Response
from pipeline.auth.keys import read_keys
from pipeline.auth.sessions import SignedCookie
from pipeline.checking.stored import of_cluster
from pipeline.database import replicas, sql_drivers
from pipeline.database.replicas import PAUSE, Replica
from pipeline.database.sql_databases import _databases, close_all
from pipeline.elements.causal import COOKIE, HEADER, causal
from pipeline.elements.errors import errors
from pipeline.elements.retry import retry
from pipeline.elements.sql import sql
from pipeline.elements.transaction import transaction
from pipeline.interfaces import ConfigurationError, OrderError
from servers.base import children, wait_until
from servers.fixtures import Skip
from servers.postgres import Postgres
from servers.standby import replicated

pytestmark = [pytest.mark.servers, pytest.mark.timeout(120)]

LATE = {"postgresql": 400, "mariadb": 1_000}
"""Milliseconds after which the second replica has a change."""
DRIVERS = {"psycopg2": "postgresql", "psycopg": "postgresql", "pg8000": "postgresql"}
DRIVERS |= {"pymysql": "mariadb"}
TABLES = ("CREATE TABLE t (v varchar(50) PRIMARY KEY)", "INSERT INTO t VALUES ('was')", "CREATE SEQUENCE numbers")
PUT = {
    "postgresql": "CREATE FUNCTION put(v text) RETURNS void AS 'INSERT INTO t VALUES (v)' LANGUAGE sql",
    "mariadb": "\nDELIMITER //\nCREATE FUNCTION put(v text) RETURNS int DETERMINISTIC MODIFIES SQL DATA "
    "BEGIN INSERT INTO t VALUES (v); RETURN 1; END//",
}
CALL = {
    "postgresql": "SELECT nextval('numbers'), set_config('a.b', 'c', false)",
    "mariadb": "SELECT nextval(numbers), @c := 1",
}


class Base(DeclarativeBase):
    pass


class Row(Base):
    __tablename__ = "t"
    v: Mapped[str] = mapped_column(primary_key=True)


class Site:
    """A pipeline on a primary and two replicas, in this process."""

    def __init__(
        self, primary: Any, standbys: list[Any], keys: Path, driver: str = "psycopg2", **options: Any
    ) -> None:
        self.primary, self.standbys, self.keys, self.driver = primary, standbys, keys, driver
        urls = (make_url(one.url("site")) for one in (primary, *standbys))
        url, *read_urls = (url.set(drivername=f"{url.get_backend_name()}+{driver}") for url in urls)
        written = [one.render_as_string(hide_password=False) for one in read_urls]
        database = sql(url=url.render_as_string(hide_password=False), read_urls=tuple(written), **options)
        self.app = Pipeline(causal(keys=str(keys)), retry(), database, errors(), transaction(), end(view=self.view))
        self.attempts: list[int] = []

    def started_again(self, **options: Any) -> Site:
        """Return the same site, as if its process had begun again."""
        close_all()
        _databases.clear()
        return Site(self.primary, self.standbys, self.keys, self.driver, **options)

    def view(self, request: Any, response: Response) -> Iterable[bytes]:
        """Do what the path says. Answer the port of the server that is read, and the number of rows."""
        self.attempts.append(request.attempt)
        do, _, what = request.path[1:].partition("/")
        session = request.sql
        if do == "insert":
            session.execute(text("INSERT INTO t VALUES (:v)"), {"v": what})
        elif do == "add":
            session.add(Row(v=what))
        elif do == "change":
            session.get(Row, "was").v = what
        elif do == "call":
            session.execute(text(CALL[DRIVERS[self.driver]].replace(":=", r"\:=")))
            session.execute(text("SELECT put(:v)"), {"v": what})
        elif do == "lock":
            session.execute(text("SELECT v FROM t FOR UPDATE")).all()
            session.execute(text("INSERT INTO t VALUES (:v)"), {"v": what})
        elif do == "swallow":
            try:
                session.execute(text("INSERT INTO t VALUES (:v)"), {"v": what})
            except Exception:
                pass
        elif do == "primary":
            session = request.sql_primary
        elif do == "stream":
            return (b"%d " % look(session) for look in (port, rows))
        return [b"%d %d" % (port(session), rows(session))]

    def ask(self, path: str, told: str = "", **options: Any) -> tuple[int, int, str]:
        """Port of the server, number of rows, and what the visitor is told."""
        answer = ask(self.app, path, environ={"HTTP_X_WRITTEN": told} if told else {}, **options)
        assert answer.status == 200, answer.text
        where, found = map(int, answer.text.split())
        return where, found, answer.headers.get(HEADER, told)

    def ready(self) -> None:
        """Wait until both replicas are read."""
        ports = {one.port for one in self.standbys}
        wait_until(lambda: {self.ask("/")[0] for _ in range(4)} >= ports, 10, "both replicas are read")


def port(session: Any) -> int:
    is_postgres = session.get_bind().dialect.name == "postgresql"
    return int(session.scalar(text("SELECT inet_server_port()" if is_postgres else "SELECT @@port")))


def rows(session: Any) -> int:
    return int(session.scalar(text("SELECT count(*) FROM t")))


@contextmanager
def three(
    servers_dir: Path, missing: Skip, keys: Path, driver: str = "psycopg2", **options: Any
) -> Iterator[Site]:
    kind = DRIVERS[driver]
    statements = (*TABLES, PUT[kind])
    with replicated(servers_dir, missing, statements, (0, LATE[kind]), kind) as (primary, standbys):
        yield Site(primary, standbys, keys, driver, **options)
        close_all()


@pytest.fixture(scope="module")
def shared(servers_dir: Path, missing: Skip, tmp_path_factory: Any) -> Iterator[Callable[[str], Site]]:
    """Servers of one kind, which are started when they are first needed."""
    with ExitStack() as stack:

        @cache
        def of(kind: str) -> Site:
            driver = next(name for name in DRIVERS if DRIVERS[name] == kind)
            keys = tmp_path_factory.mktemp(kind) / "keys"
            return stack.enter_context(three(servers_dir, missing, keys, driver))

        yield of


@pytest.fixture(params=DRIVERS)
def site(request: Any, shared: Callable[[str], Site], need_packages: Callable[..., None]) -> Iterator[Site]:
    """The same servers for all tests that stop none, by each driver."""
    need_packages(request.param)
    servers = shared(DRIVERS[request.param])
    servers.primary.ask("DELETE FROM t WHERE v <> 'was'", "site")
    if servers.primary.ask("SELECT count(*) FROM t", "site") == "0":
        servers.primary.ask("INSERT INTO t VALUES ('was')", "site")
    site = Site(servers.primary, servers.standbys, servers.keys, request.param)
    site.ready()
    site.attempts.clear()
    yield site
    for database in list(_databases.values()):
        assert database.engine.pool.checkedout() == 0, "no connection is missing from the pool"  # type: ignore[attr-defined]
    close_all()


def test_nobody_misses_what_he_has_written(site: Site) -> None:
    count, told, seen = 1, "", Counter[int]()
    for number in range(30):
        _, count, told = site.ask(f"/insert/{number}", told, method="POST")
        for pause in (0, 0.02):
            time.sleep(pause)
            where, found, _ = site.ask("/", told)
            assert found == count, (number, where)
            seen[where] += 1
    quick, late = (one.port for one in site.standbys)
    # The one that is late has it only if this process stands still for as long, as on a busy machine.
    assert seen[quick] > 10 * seen[late]
    wait_until(lambda: {site.ask("/", told)[0] for _ in range(4)} == {quick, late}, 10, "the late one has it, too")
    site.ask("/insert/last", told, method="POST")
    found = {site.ask("/")[1] for _ in range(4)}
    assert min(found) == count, "who has not written it sees it later"
    forged = told[:-3] + "abc"
    assert {site.ask("/", forged)[0] for _ in range(4)} == {quick, late}, "a forged header counts as none"


@pytest.mark.parametrize("do", ["insert", "add", "change", "call", "lock", "swallow"])
def test_a_write_in_a_get_is_done_on_the_primary(site: Site, do: str) -> None:
    where, _, told = site.ask(f"/{do}/new")
    assert (where, site.attempts) == (site.primary.port, [1, 2])
    assert site.primary.ask("SELECT count(*) FROM t WHERE v = 'new'", "site") == "1"
    assert told


def test_a_view_may_ask_for_the_primary(site: Site) -> None:
    assert site.ask("/")[2] == "", "nothing is written, so nothing is told"
    site.attempts.clear()
    assert site.ask("/primary")[0] == site.primary.port
    assert site.attempts == [1, 2]
    assert site.ask("/stream")[0] in [one.port for one in site.standbys]
    assert site.ask("/", method="POST")[0] == site.primary.port


def freeze(server: Postgres, number: int) -> None:
    assert server.process is not None
    for pid in (server.process.pid, *children(server.process.pid)):
        os.kill(pid, number)


@pytest.mark.parametrize("driver", ["psycopg2", "pymysql"])
@pytest.mark.parametrize("what", ["killed", "paused", "promoted", "all killed"])
def test_a_replica_may_fail(
    what: str,
    driver: str,
    servers_dir: Path,
    missing: Skip,
    tmp_path: Path,
    need_packages: Callable[..., None],
    caplog: Any,
) -> None:
    """While a replica fails, 4 visitors write and read. All are answered, none waits long or misses a write."""
    need_packages(driver)
    with three(servers_dir, missing, tmp_path / "keys", driver) as site:
        site.ready()
        quick, late = site.standbys
        until = time.monotonic() + 6
        took: list[float] = []

        def visit(visitor: int) -> int:
            written, told = 0, ""
            while time.monotonic() < until:
                begun = time.monotonic()
                told = site.ask(f"/insert/{visitor}-{written}", told, method="POST")[2]
                written += 1
                for _ in range(5):
                    assert site.ask("/", told)[1] > written
                took.append(time.monotonic() - begun)
                time.sleep(0.02)
            return written

        with ThreadPoolExecutor(4) as pool:
            visits = [pool.submit(visit, number) for number in range(4)]
            time.sleep(1)
            if what == "promoted":
                quick.promote()
            else:
                for server in site.standbys if what == "all killed" else [quick]:
                    freeze(server, signal.SIGSTOP if what == "paused" else signal.SIGKILL)
            try:
                written = sum(one.result() for one in visits)
                assert max(took) < 5
                assert int(site.primary.ask("SELECT count(*) FROM t", "site")) == written + 1
                shown = {site.ask("/")[0] for _ in range(6)}
                left = late if what != "all killed" else site.primary
                assert shown == {left.port}, "the one that failed is left out"
                assert "; requests read elsewhere: " in caplog.text
            finally:
                if what == "paused":
                    freeze(quick, signal.SIGCONT)
        if what == "paused":
            wait_until(lambda: site.ask("/")[0] == quick.port, 10, "it is read again")


def test_a_refused_connection_is_read_elsewhere(
    servers_dir: Path, missing: Skip, tmp_path: Path, need_packages: Callable[..., None]
) -> None:
    """The connections that others use seem open when the replicas are killed, and new ones are refused."""
    need_packages("psycopg2")
    with three(servers_dir, missing, tmp_path / "keys") as site:
        site.ready()
        ports = [one.port for one in site.standbys]
        replicas = [one for one in _databases.values() if one.engine.url.port in ports]
        used = [one.engine.connect() for one in replicas for _ in range(one.engine.pool.checkedin())]  # type: ignore[attr-defined]
        for server in site.standbys:
            freeze(server, signal.SIGKILL)
        assert len(used) >= 2
        assert {site.ask("/")[0] for _ in range(6)} == {site.primary.port}
        for connection in used:
            connection.invalidate()


@pytest.mark.parametrize("driver", ["psycopg2", "pymysql"])
def test_a_replica_that_applies_nothing_is_left_out(
    driver: str, servers_dir: Path, missing: Skip, tmp_path: Path, need_packages: Callable[..., None], caplog: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A visitor sees what he has written also when his cookie has ended, and after a restart."""
    need_packages(driver)
    with three(servers_dir, missing, tmp_path / "keys", driver, max_lag=1.5) as site:
        site.ready()
        for one in site.standbys:
            one.pause(True)
        told = site.ask("/insert/mine", method="POST")[2]
        assert site.ask("/", told)[1] == 2, "the replicas do not have it"
        time.sleep(3)
        assert {site.ask("/")[1] for _ in range(6)} == {2}, "without the cookie"
        assert "it may be more than 1.5 seconds behind its primary" in caplog.text
        at_once = Replica.ask

        def late(self: Replica, connection: Any, query: str) -> int:
            """Answer as a primary that is busy."""
            time.sleep(1 if query == self.database.dialect.position else 0)
            return at_once(self, connection, query)

        monkeypatch.setattr(Replica, "ask", late)
        anew = site.started_again()
        seen = Counter[int]()
        until = time.monotonic() + 2.5
        while time.monotonic() < until:
            seen[anew.ask("/")[1]] += 1
        assert set(seen) == {2}, "a process that has just begun does not know how long a replica has lacked it"
        for one in site.standbys:
            one.pause(False)
        anew.ready()


def test_gtids_of_several_domains_have_no_order(
    servers_dir: Path, missing: Skip, tmp_path: Path, need_packages: Callable[..., None], caplog: Any
) -> None:
    """What a replica of MariaDB has is not known then. All is read from the primary, and the log says so."""
    need_packages("pymysql")
    with three(servers_dir, missing, tmp_path / "keys", "pymysql") as site:
        site.ready()
        site.primary.ask("SET gtid_domain_id = 7; INSERT INTO t VALUES ('other')", "site")
        for number in range(20):
            _, count, told = site.ask(f"/insert/{number}", method="POST")
            assert site.ask("/", told)[:2] == (site.primary.port, count)
        wait_until(lambda: {site.ask("/")[0] for _ in range(4)} == {site.primary.port}, 10, "both are left out")
        assert "or several GTID domains (MariaDB)" in caplog.text


def test_a_replica_of_mariadb_that_has_what_the_promoted_one_lacks_is_not_read(
    servers_dir: Path, missing: Skip, tmp_path: Path, need_packages: Callable[..., None]
) -> None:
    """Both count their GTIDs on from where they were: the numbers are the same, the commits are not."""
    need_packages("pymysql")
    servers = replicated(servers_dir, missing, (*TABLES, PUT["mariadb"]), (0, 0), "mariadb")
    with servers as (primary, (second, other)):
        second.pause(True)
        primary.ask("INSERT INTO t VALUES ('lost 1'); INSERT INTO t VALUES ('lost 2')", "site")
        wait_until(lambda: other.ask("SELECT count(*) FROM t", "site") == "3", 20, "the other one has it")
        primary.stop()
        second.promote()
        site = Site(second, [other], tmp_path / "keys", "pymysql", max_lag=1.5)
        try:
            wait_until(lambda: site.ask("/")[0] == other.port, 10, "the other one is read")
            for number in range(2):
                told = site.ask(f"/insert/{number}", method="POST")[2]
                assert site.ask("/", told)[0] == second.port, "the other one does not have it"
            wait_until(lambda: site.ask("/")[0] == second.port, 10, "the other one is left out")
        finally:
            close_all()


def test_a_position_that_the_primary_never_comes_to_is_replaced(site: Site) -> None:
    """As after a backup was restored: soon the replicas are read again. The visitor gets the primary's position."""
    cookie = SignedCookie(COOKIE, "what is written", read_keys(str(site.keys)), 60)
    ((name, position),) = cookie.loads(site.ask("/insert/mine", method="POST")[2])[0].items()
    future = str(cookie.serializer.dumps({name: position + 2**40}))
    assert site.ask("/", future)[0] == site.primary.port
    ports = {one.port for one in site.standbys}
    wait_until(lambda: site.ask("/", future)[0] in ports, 5, "a replica is read")
    assert position <= cookie.loads(site.ask("/", future)[2])[0][name] < position + 2**20


def test_a_commit_at_a_position_that_was_doubted_before_is_not_missed(site: Site, monkeypatch: Any) -> None:
    """As after a backup was restored: a visitor tells of a position of before, and the primary comes there."""
    is_postgres = DRIVERS[site.driver] == "postgresql"
    cookie = SignedCookie(COOKIE, "what is written", read_keys(str(site.keys)), 60)
    ((name, position),) = cookie.loads(site.ask("/insert/mine", method="POST")[2])[0].items()
    told = str(cookie.serializer.dumps({name: position + (2**20 if is_postgres else 1)}))
    assert site.ask("/", told)[0] == site.primary.port
    time.sleep(2 * PAUSE)
    monkeypatch.setattr(replicas, "PAUSE", 5.0)
    time.sleep(2 * PAUSE)
    for one in site.standbys:
        one.pause(True)
    try:
        if is_postgres:
            site.primary.ask("SELECT pg_logical_emit_message(false, '', repeat('a', 1048576))", "site")
        site.primary.ask("INSERT INTO t VALUES ('other')", "site")
        assert site.ask("/", told)[1] == 3
    finally:
        for one in site.standbys:
            one.pause(False)


def test_nobody_misses_a_commit_whose_place_is_not_known(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection is lost between COMMIT and the question for the place. The second visitor is not the first."""

    def lost(*arguments: object) -> None:
        raise OSError("the connection is lost")

    for number in range(2):
        with monkeypatch.context() as patched:
            patched.setattr(sql_drivers, "ask", lost)
            _, count, told = site.ask(f"/insert/{number}", method="POST")
        end = time.monotonic() + 1
        while time.monotonic() < end:
            assert site.ask("/", told)[1] == count, "each program goes on with what it was told first"
    told = site.ask("/", told)[2]
    ports = {one.port for one in site.standbys}
    wait_until(lambda: {site.ask("/", told)[0] for _ in range(4)} == ports, 10, "both replicas are read again")


def test_what_a_primary_with_replicas_does_not_promise_is_told(shared: Callable[[str], Site]) -> None:
    """``pipeline check --database`` asks the server. The replicas are not waited for, and the URL has two hosts."""
    url = make_url(shared("postgresql").primary.url("site"))
    several = url.set(host=None, port=None).update_query_dict({"host": [f"127.0.0.1:{url.port}", "127.0.0.1:1"]})
    what = []
    for one in (url, several):
        engine = create_engine(one)
        with engine.connect() as connection:
            what += [finding.what for finding in of_cluster(connection)]
        engine.dispose()
    assert [" ".join(words.split()[:5]) for words in what] == [
        "what was acknowledged is lost",
        "its URL names several hosts,",
        "what was acknowledged is lost",
    ]


def test_what_replicas_need(tmp_path: Path) -> None:
    url = "postgresql+psycopg2://127.0.0.1:1/site"
    rest = (errors(), transaction(), end(view=lambda request, response: ""))
    with pytest.raises(OrderError, match=r"sql requires 'written'.*such as causal"):
        Pipeline(retry(), sql(url=url, read_urls=(url,)), *rest)
    with pytest.raises(OrderError, match=r"sql requires 'attempts'.*such as retry"):
        Pipeline(causal(keys=str(tmp_path / "keys")), sql(url=url, read_urls=(url,)), *rest)
    for other in ("sqlite+pysqlite://", "mysql+mysqlconnector://127.0.0.1:1/site"):
        with pytest.raises(ConfigurationError, match=f"{re.escape(other.split(':')[0])} does not tell how far"):
            database = sql(url=other, read_urls=(other,))
            Pipeline(causal(keys=str(tmp_path / "keys")), retry(), database, *rest)
