"""Writers with a ledger, and the reading of databases afterwards."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import zodburi
from ZODB.DB import DB

from faults.load import CUT, REFUSED, Answer, Client, Load
from pipeline.testing import Ledger
from servers.mariadb import MariaDB
from servers.postgres import Postgres

_runs = count(1)


class Writers:
    """Clients that write, each time under a new id, and enter in the ledger what became of it.

    target   the path of the view; the id is added to it
    query    what else the query has
    gateway  whether a proxy stands between, whose 502 and 504 say that it does not know either
    """

    def __init__(self, target: str, query: str = "", *, gateway: bool = False) -> None:
        self.target = target
        self.cut = (CUT, 502, 504) if gateway else (CUT,)
        self.query = f"&{query}" if query else ""
        self.ledger = Ledger()
        self.answers: list[Answer] = []
        self.run = next(_runs)

    def on(self, port: int | Callable[[int], int], threads: int, pause: float = 0) -> Load:
        """A load on a port, or on the port for each thread, to be entered with ``with``."""
        self.run = next(_runs)
        load = Load(port, threads, self.write, pause)
        load.answers = self.answers
        return load

    def write(self, client: Client, thread: int, number: int) -> Answer:
        id = f"{self.run}-{thread}-{number}"
        self.ledger.sent(id)
        answer = client.ask("POST", f"{self.target}?id={id}{self.query}", b"")
        self.enter(id, answer)
        return answer

    def enter(self, id: str, answer: Answer) -> None:
        """Only a connection that was cut, and an answer that says so (R4), leave it open what was stored."""
        status = CUT if answer.status in self.cut else answer.status
        if status == REFUSED:  # it was not even sent
            self.ledger.failed(id)
        else:
            self.ledger.answered(id, status, answer.headers.get("x-outcome", ""))


def rows_in(server: Postgres | MariaDB, database: str) -> dict[str, int]:
    """The ledger of a database of tables, likewise."""
    if isinstance(server, MariaDB):
        rows = server.ask(f"SELECT id, count(*) FROM `{database}`.ledger GROUP BY id").replace("\t", "|")
    else:
        rows = server.ask("SELECT id, count(*) FROM ledger GROUP BY id", database)
    return {id: int(times) for id, _, times in (row.partition("|") for row in rows.splitlines())}


def stored_in(uri: str) -> tuple[dict[str, int], int]:
    """The ledger and the counter in a database, read without the site."""
    factory, options = zodburi.resolve_uri(uri)
    db = DB(factory(), **options)
    try:
        with db.transaction() as connection:
            site = connection.root()["site"]
            return dict(site.ledger), site.hot.value
    finally:
        db.close()
