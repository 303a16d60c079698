"""A database server that is killed under load and started again: 503, or an outcome that is told as unknown."""

from __future__ import annotations

import gc
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url

from around_a_view import ask
from faults.length import length
from pipeline import Pipeline, Request, Response
from pipeline.database import sql_databases as module
from pipeline.testing import Ledger
from servers.postgres import Postgres
from servers.sql_places import Place, site, with_driver

pytestmark = [
    pytest.mark.servers,
    pytest.mark.timeout(length(300, 900)),
    # pg8000 leaves its socket to the collector if it cannot connect.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

KILLS = length(4, 20)
WRITERS = 8
DRIVERS = ("psycopg2", "psycopg", "pg8000")


def site_on(postgres: Postgres, name: str, driver: str, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    """A site that writes into a table of its own."""
    postgres.ask(f"CREATE TABLE {driver} (v text PRIMARY KEY)", name)
    url = with_driver(make_url(postgres.url(name)), driver, monkeypatch)

    def view(request: Request, response: Response) -> list[bytes]:
        request.sql.execute(text(f"INSERT INTO {driver} VALUES (:v)"), {"v": request.GET["v"]})
        return [b"stored"]

    place = Place("postgres", url.render_as_string(hide_password=False), postgres, name)
    return site(place, view, pool_size=WRITERS)


@pytest.fixture
def database(postgres: Postgres, new_name: Any, need_packages: Any) -> Iterator[str]:
    need_packages(*DRIVERS)
    postgres.create(name := new_name())
    yield name
    module.close_all()
    module._databases.clear()
    gc.collect()


def test_no_answer_is_a_plain_500(postgres: Postgres, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three drivers at the same time."""
    apps = {driver: site_on(postgres, database, driver, monkeypatch) for driver in DRIVERS}
    ledgers = {driver: Ledger() for driver in DRIVERS}
    answers: Counter[tuple[str, int, str]] = Counter()
    stop, lock = threading.Event(), threading.Lock()

    def write(driver: str) -> None:
        while not stop.is_set():
            with lock:
                id = ledgers[driver].send()
            answer = ask(apps[driver], f"/?v={id}")
            outcome = answer.headers.get("X-Outcome", "")
            with lock:
                ledgers[driver].answered(id, answer.status, outcome)
                answers[driver, answer.status, outcome] += 1
            time.sleep(0.02 if answer.status == 503 else 0.002)

    writers = [threading.Thread(target=write, args=(driver,)) for driver in DRIVERS for _ in range(WRITERS)]
    for writer in writers:
        writer.start()
    try:
        for number in range(KILLS):
            time.sleep(0.7)
            postgres.stop() if number % 2 else postgres.kill()
            time.sleep(0.2)
            postgres.start()
    finally:
        time.sleep(1.5)
        stop.set()
        for writer in writers:
            writer.join()
    assert {(status, outcome) for _, status, outcome in answers} <= {(200, ""), (503, ""), (500, "unknown")}, (
        answers
    )
    for driver, ledger in ledgers.items():
        assert answers[driver, 200, ""] and answers[driver, 503, ""], answers
        assert ledger.judge(postgres.ask(f"SELECT v FROM {driver}", database).split()) == []
