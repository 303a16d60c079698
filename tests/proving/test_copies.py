"""Sites on database servers are proved on copies. The original stays as it is, and nothing is left on the server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine
from sqlalchemy.engine import make_url

from pipeline.database import forks
from pipeline.proving.asked import asked
from pipeline.proving.proof import Proof
from proving import bugs, tables
from servers.sql_places import MARIADB, OTHER_DRIVERS, POSTGRES, SQLITE

INI = """
[pipeline:main]
pipeline = foreign retry sql filestore errors transaction forms traverse publisher
[filter:foreign]
paste.filter_app_factory = proving.tables:swallow
[filter:retry]
use = egg:wsgi-pipeline#retry
[filter:sql]
use = egg:wsgi-pipeline#sql
url = {url}
[filter:filestore]
paste.filter_factory = filestore:filestore
path = {store}
[filter:errors]
use = egg:wsgi-pipeline#errors
[filter:transaction]
use = egg:wsgi-pipeline#transaction
[filter:forms]
use = egg:wsgi-pipeline#forms
[filter:traverse]
use = egg:wsgi-pipeline#traverse
root = proving.tables:root
[app:publisher]
use = egg:wsgi-pipeline#publisher
scan = proving.tables
"""

CORPUS = [asked("GET", "/"), asked("POST", "/@@add", [("title", "one")]), asked("POST", "/@@raw")]
CORPUS += [asked("PUT", "/@@title"), asked("DELETE", "/@@last"), asked("POST", "/@@keep")]


class Place:
    """The database of a site, with what is in it."""

    def __init__(self, url: str, server: Any, name: str, ini: Path) -> None:
        self.url, self.server, self.name = url, server, name
        self.ini = str(ini)
        self.kind = "" if server is None else type(server).__name__
        store = ini.parent / "store.json"
        store.write_text('{"given": 1}')
        ini.write_text(INI.format(url=url.replace("%", "%%"), store=store))
        engine = create_engine(url)
        tables.Base.metadata.create_all(engine)
        with engine.begin() as connection:
            connection.execute(tables.Entry.__table__.insert().values(title="given"))
            connection.execute(tables.Remark.__table__.insert().values(entry_id=1, text="given"))
        engine.dispose()

    def content(self) -> list[Any]:
        """Return every row, byte for byte, and the numbers that come next."""
        engine = create_engine(self.url)
        with engine.connect() as connection:
            found = [
                tuple(row) for table in tables.Base.metadata.sorted_tables for row in connection.execute(table.select())
            ]
            if self.kind == "Postgres":
                found += map(tuple, connection.exec_driver_sql("SELECT sequencename, last_value FROM pg_sequences"))
            if self.kind == "MariaDB":
                query = f"SELECT table_name, auto_increment FROM information_schema.tables WHERE table_schema = '{self.name}'"
                found += map(tuple, connection.exec_driver_sql(query))
        engine.dispose()
        return [*found, (Path(self.ini).parent / "store.json").read_bytes()]

    def databases(self) -> str:
        """Return the databases of the server."""
        if self.kind == "Postgres":
            return str(self.server.ask("SELECT datname FROM pg_database"))
        return str(self.server.ask("SHOW DATABASES")) if self.kind else ""


@pytest.fixture
def place(request: Any, tmp_path: Path) -> Iterator[Place]:
    kind, _, driver = request.param.partition("+")
    if kind == "sqlite":
        url, server, name = f"sqlite:///{tmp_path}/site.sqlite", None, ""
    else:
        server, name = request.getfixturevalue(kind), request.getfixturevalue("new_name")()
        server.create(name)
        if kind == "mariadb":
            server.ask(r"GRANT ALL ON `prove\_%`.* TO 'site'@'127.0.0.1'")
        parsed = make_url(server.url(name))
        if driver:
            request.getfixturevalue("need_packages")(driver)
            parsed = parsed.set(drivername=f"{parsed.get_backend_name()}+{driver}")
        url = parsed.render_as_string(hide_password=False)
    yield Place(url, server, name, tmp_path / "site.ini")
    forks.close_all()
    if kind == "postgres":
        server.ask(f'DROP DATABASE "{name}"')


def proved(place: Place, view: str = "", judge: str = "faults") -> str:
    """Prove the site. Return what is found."""
    proof = Proof(place.ini, corpus=CORPUS, view=view)
    with proof.loaded():
        proof.pairs(20) if judge == "pairs" else getattr(proof, judge)()
        assert place.kind == "" or "prove_" in place.databases(), "the copies are there"
    assert proof.report.runs > 5
    return "\n".join(f"{one.what} ({one.count}) {one.request} [{one.plan}] {one.where}" for one in proof.report.found)


@pytest.mark.parametrize("place", [SQLITE, POSTGRES, MARIADB, *OTHER_DRIVERS], indirect=True)
@pytest.mark.timeout(300)
def test_a_sound_site_is_proved_and_stays_as_it_was(place: Place) -> None:
    before = place.content()
    assert proved(place) == ""
    assert place.content() == before
    assert "prove_" not in place.databases()
