"""``sql`` on a Galera cluster: a node is cut off from the others while requests write by it."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url
from ZODB.DB import DB

from around_a_view import ask, end
from faults.length import length
from pipeline import Pipeline, Request, Response
from pipeline.checking.stored import of_cluster, of_galera
from pipeline.database import sql_databases as module
from pipeline.database.storages import database_at
from pipeline.elements.errors import errors
from pipeline.elements.retry import retry
from pipeline.elements.transaction import transaction
from pipeline.elements.zodb import close_all, zodb
from pipeline.testing import Ledger
from servers.base import wait_until
from servers.galera import Node, cluster, whole
from servers.sql_places import Place, site, with_driver

pytestmark = [pytest.mark.servers, pytest.mark.timeout(length(600, 3600))]

CUTS = length(6, 100)
WRITERS = 9
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def nodes(servers_dir: Path, missing: Callable[[str, str], NoReturn]) -> Iterator[list[Node]]:
    with cluster(servers_dir, missing) as found:
        found[0].create("site")
        found[0].ask("CREATE TABLE site.t (v varchar(50) PRIMARY KEY)")
        yield found


@pytest.fixture
def cut(nodes: list[Node], need_packages: Any) -> Iterator[Node]:
    """The last node, which is the one that is cut off."""
    need_packages("pymysql", "mysql.connector")
    whole(nodes)
    yield nodes[-1]
    nodes[-1].isolate(False)
    module.close_all()
    module._databases.clear()


def place_of(node: Node, driver: str, monkeypatch: pytest.MonkeyPatch) -> Place:
    url = with_driver(make_url(node.url("site")), driver, monkeypatch)
    return Place("mariadb", url.render_as_string(hide_password=False), node, "site")


def lose_group(node: Node) -> None:
    node.isolate(True)
    wait_until(lambda: not node.is_up(), 30, "the node has lost its group")


def add(request: Request, response: Response) -> list[bytes]:
    request.sql.execute(text("INSERT INTO t VALUES (:v)"), {"v": request.GET["v"]})
    return [b"stored"]


def test_what_is_refused_is_not_stored_when_a_node_is_cut_off__R4(
    cut: Node, nodes: list[Node], monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """Each cut is a 503, with one line in the log. A COMMIT that it meets is unknown. No other answer is a 500."""
    app = site(place_of(cut, "pymysql", monkeypatch), add, pool_size=WRITERS)
    ledger, stop, lock = Ledger(), threading.Event(), threading.Lock()
    answers: Counter[tuple[int, str]] = Counter()

    def write() -> None:
        while not stop.is_set():
            with lock:
                id = ledger.send()
            answer = ask(app, f"/?v={id}")
            outcome = answer.headers.get("X-Outcome", "")
            with lock:
                ledger.answered(id, answer.status, outcome)
                answers[answer.status, outcome] += 1
            if answer.status == 503:
                time.sleep(0.05)

    writers = [threading.Thread(target=write) for _ in range(WRITERS)]
    for writer in writers:
        writer.start()
    try:
        for _ in range(CUTS):
            time.sleep(0.3)
            lose_group(cut)
            time.sleep(0.2)
            cut.isolate(False)
            whole(nodes)
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    print(f"{CUTS} cuts: {answers}")
    stored = nodes[0].ask("SET SESSION wsrep_sync_wait = 1; SELECT v FROM site.t").split()
    assert ledger.judge(stored) == []
    assert set(answers) == {(200, ""), (503, ""), (500, "unknown")}
    said = [record for record in caplog.records if record.levelno >= logging.WARNING]
    outages = [record for record in said if "cannot be reached" in record.getMessage()]
    assert len(outages) <= CUTS
    assert sum(record.exc_info is not None for record in said) == answers[500, "unknown"]


def test_another_host_of_the_url_answers_when_a_node_is_cut_off(
    cut: Node, nodes: list[Node], monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    apps = []
    for driver in ("pymysql", "mysqlconnector"):
        url = make_url(place_of(cut, driver, monkeypatch).url)
        hosts = [f"127.0.0.1:{node.port}" for node in (cut, *nodes[:-1])]
        several = url.set(host=None, port=None).update_query_dict({"host": hosts})
        apps.append(site(Place("mariadb", several.render_as_string(hide_password=False), cut, "site"), add))
    assert [ask(app, f"/?v=before-{number}").status for number, app in enumerate(apps)] == [200, 200]
    lose_group(cut)
    assert [ask(app, f"/?v=after-{number}").status for number, app in enumerate(apps)] == [200, 200]
    stored = nodes[0].ask("SELECT v FROM site.t WHERE v LIKE 'after-%' OR v LIKE 'before-%'").split()
    assert sorted(stored) == ["after-0", "after-1", "before-0", "before-1"]
    assert "cannot be reached" not in caplog.text


def test_what_does_not_hold_on_several_nodes_is_told(
    nodes: list[Node], need_packages: Any, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """RelStorage, whose locks are those of one node, and SERIALIZABLE."""
    need_packages("relstorage", "mysql.connector", "pymysql")
    whole(nodes)
    nodes[0].create("objects")
    database = database_at(nodes[0].uri("objects"))
    try:
        assert "by the same node" in caplog.text
        (told,) = of_galera("objects", database)
        assert "locks of RelStorage hold on one node only" in told.what
    finally:
        database.close()
    url = place_of(nodes[0], "pymysql", monkeypatch).url
    for level, count in (("SERIALIZABLE", 1), ("REPEATABLE READ", 0)):
        engine = create_engine(url, isolation_level=level)
        with engine.connect() as connection:
            assert len(list(of_cluster(connection))) == count
        engine.dispose()


@contextmanager
def behind(node: Node, seconds: float) -> Iterator[threading.Event]:
    """Have a node apply nothing for some seconds, and set the event then."""
    node.ask("GRANT RELOAD ON *.* TO 'site'@'127.0.0.1'")
    engine = create_engine(node.url("site"))
    over = threading.Event()
    with engine.connect() as connection:
        connection.execute(text("FLUSH TABLES WITH READ LOCK"))

        def go_on() -> None:
            over.set()
            connection.execute(text("UNLOCK TABLES"))

        timer = threading.Timer(seconds, go_on)
        timer.start()
        try:
            yield over
        finally:
            timer.join()
    engine.dispose()


@pytest.fixture
def objects(nodes: list[Node], need_packages: Any) -> Iterator[tuple[DB, str]]:
    """A database of RelStorage, as the first node has it, and its URI on the second one, which has the tables."""
    need_packages("relstorage", "mysql.connector")
    whole(nodes)
    name = f"objects{next(_numbers)}"
    nodes[0].create(name)
    with closing(database_at(nodes[0].uri(name))) as database:
        nodes[1].ask("SET SESSION wsrep_sync_wait = 1; SELECT 1")
        yield database, nodes[1].uri(name)


def test_a_node_that_is_behind_shows_relstorage_nothing_old(nodes: list[Node], objects: tuple[DB, str]) -> None:
    """Old states would stay in the cache of the process."""
    written, uri = objects
    with closing(database_at(uri)) as read:
        with read.transaction() as connection:
            assert "v" not in connection.root()
        with behind(nodes[1], 1) as over:
            with written.transaction() as connection:
                connection.root()["v"] = "new"
            with read.transaction() as connection:
                assert connection.root().get("v") == "new"
                assert over.is_set(), "it has waited"


@contextmanager
def held(node: Node, other: Node) -> Iterator[Callable[[], object]]:
    """Have a node apply nothing until the function is called: it waits for a table that another node has altered.
    Unlike with a global lock it takes statements that make and drop tables."""
    node.ask("SET GLOBAL wsrep_provider_options = 'gcs.fc_limit=10000'")  # otherwise the others wait for it
    engine = create_engine(node.url("site"))
    with engine.connect() as connection:
        connection.execute(text("LOCK TABLES t READ"))
        other.ask("ALTER TABLE site.t COMMENT 'altered'")
        yield connection.invalidate
    engine.dispose()


@pytest.mark.parametrize("begun", [False, True])
def test_a_node_that_is_behind_spares_the_tables_that_others_have_made(
    begun: bool, nodes: list[Node], need_packages: Any
) -> None:
    """It shows none of them yet, or one that a process that was killed has left."""
    need_packages("relstorage", "mysql.connector")
    whole(nodes)
    name = f"objects{next(_numbers)}"
    nodes[0].create(name)
    if begun:
        nodes[0].ask(f"CREATE TABLE {name}.commit_row_lock (tid BIGINT UNSIGNED NOT NULL PRIMARY KEY)")
    nodes[1].ask("SET SESSION wsrep_sync_wait = 1; SELECT 1")
    with held(nodes[1], nodes[0]) as go_on:
        with closing(database_at(nodes[0].uri(name))) as made, made.transaction() as connection:
            connection.root()["v"] = "stored"
        tables = f"SELECT count(*) FROM information_schema.tables WHERE table_schema = '{name}'"
        assert nodes[1].ask(tables) == str(int(begun))
        timer = threading.Timer(0.5, go_on)
        timer.start()
        try:
            with closing(database_at(nodes[1].uri(name))) as read, read.transaction() as connection:
                assert connection.root().get("v") == "stored"
        finally:
            timer.join()
    with closing(database_at(nodes[0].uri(name))) as read, read.transaction() as connection:
        assert connection.root().get("v") == "stored"


def write(db: DB) -> None:
    """Write as another client does."""
    with db.transaction() as connection:
        connection.root()["theirs"] = "stored"


def test_a_node_that_stays_behind_is_an_outage(nodes: list[Node], objects: tuple[DB, str]) -> None:
    """The server gives up the wait, and mysql-connector-python hides its error in one of its own."""
    other, uri = objects

    def add(request: Request, response: Response) -> list[bytes]:
        """Write, after another node has written something that this one does not have yet."""
        request.root[request.GET["v"]] = "stored"
        if request.GET["v"] == "refused":
            stack.enter_context(behind(nodes[1], 1))
            writer = threading.Thread(target=write, args=(other,))
            writer.start()
            writer.join()
        return [b"stored"]

    app = Pipeline(retry(), zodb(uri=uri), errors(), transaction(), end(view=add))
    nodes[1].ask("SET GLOBAL wsrep_provider_options = 'repl.causal_read_timeout=PT0.3S'")
    try:
        with ExitStack() as stack:
            assert ask(app, "/?v=refused").status == 503
        wait_until(lambda: ask(app, "/?v=mine").status == 200, 5, "the node is reached again", 0.2)
    finally:
        nodes[1].ask("SET GLOBAL wsrep_provider_options = 'repl.causal_read_timeout=PT30S'")
        close_all()
    with other.transaction() as connection:
        assert sorted(connection.root()) == ["mine", "theirs"]
