"""``sql`` on a Galera cluster: a node is cut off from the others while requests write by it."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url

from around_a_view import ask
from faults.length import length
from pipeline import Request, Response
from pipeline.checking.stored import of_cluster, of_galera
from pipeline.database import sql_databases as module
from pipeline.database.storages import database_at
from pipeline.testing import Ledger
from servers.base import wait_until
from servers.galera import Node, cluster, whole
from servers.sql_places import Place, site, with_driver

pytestmark = [pytest.mark.servers, pytest.mark.timeout(length(600, 3600))]

CUTS = length(6, 100)
WRITERS = 9


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
