"""Sites on database servers are proved on copies. The original stays as it is, and nothing is left there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError

from inis import ini_of
from pipeline.database import forks
from pipeline.database.sql_dialects import dialects
from pipeline.database.sql_errors import Judge
from pipeline.interfaces import ConfigurationError
from pipeline.proving.proof import Proof
from pipeline.staging.asked import asked
from pipeline.staging.runs import Run, started
from pipeline.staging.sql_copies import SqlCopies
from proving import bugs, tables
from servers.sql_places import MARIADB, OTHER_DRIVERS, POSTGRES, SQLITE, with_driver

ORDER = ["foreign", "retry", "sql", "filestore", "errors", "transaction", "forms", "traverse"]

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
        options = {
            "foreign": "paste.filter_app_factory = proving.tables:swallow",
            "sql": f"url = {url.replace('%', '%%')}\ndriver_connection = true",
            "filestore": f"paste.filter_factory = filestore:filestore\npath = {store}",
            "traverse": "root = proving.tables:root",
        }
        ini.write_text(ini_of(ORDER, "proving.tables", **options))
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
            every = tables.Base.metadata.sorted_tables
            found = [tuple(row) for table in every for row in connection.execute(table.select())]
            if self.kind == "Postgres":
                found += map(tuple, connection.exec_driver_sql("SELECT sequencename, last_value FROM pg_sequences"))
            if self.kind == "MariaDB":
                query = "SELECT table_name, auto_increment FROM information_schema.tables WHERE table_schema = "
                query += f"'{self.name}'"
                found += map(tuple, connection.exec_driver_sql(query))
        engine.dispose()
        return [*found, (Path(self.ini).parent / "store.json").read_bytes()]

    def do(self, statement: str) -> None:
        """Execute a statement on the original."""
        engine = create_engine(self.url)
        with engine.begin() as connection:
            connection.exec_driver_sql(statement)
        engine.dispose()

    def databases(self) -> str:
        """Return the databases of the server."""
        if self.kind == "Postgres":
            return str(self.server.ask("SELECT datname FROM pg_database"))
        return str(self.server.ask("SHOW DATABASES")) if self.kind else ""


@pytest.fixture
def place(request: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
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
            parsed = with_driver(parsed, driver, monkeypatch)
        url = parsed.render_as_string(hide_password=False)
    yield Place(url, server, name, tmp_path / "site.ini")
    forks.close_all()
    if kind == "postgres":
        server.ask(f'DROP DATABASE "{name}"')


OLD = tuple(map(int, re.findall(r"\d+", version("sqlalchemy"))[:3])) < (2, 0, 56)
POINTS = r"^(?!sql\.rollback)" if OLD else ""
"""An older SQLAlchemy keeps a connection for ever whose reset is interrupted by SystemExit."""


def proved(place: Place, view: str = "", judge: str = "faults", **tried: Any) -> str:
    """Prove the site. Return what is found."""
    before = place.content()
    proof = Proof(place.ini, corpus=CORPUS, view=view, points=POINTS)
    with proof.loaded():
        getattr(proof, judge)(**tried)
        assert place.kind == "" or "prove_" in place.databases(), "the copies are there"
    assert proof.report.runs > 5
    assert place.content() == before, "the original is as it was"
    assert "prove_" not in place.databases(), "nothing is left on the server"
    return "\n".join(f"{one.what} {one.request} [{one.plan}] {one.where}" for one in proof.report.found)


ON_SERVERS = [POSTGRES, MARIADB]


@pytest.mark.parametrize("place", [SQLITE, *ON_SERVERS], indirect=True)
@pytest.mark.timeout(300)
def test_nothing_is_found_in_a_sound_site(place: Place) -> None:
    assert proved(place) == ""


@pytest.mark.parametrize("place", OTHER_DRIVERS, indirect=True)
@pytest.mark.timeout(300)
def test_nothing_is_found_with_another_driver(place: Place) -> None:
    assert proved(place, "raw", kinds=("conflict", "error")) == ""


@pytest.mark.parametrize("judge", ["pairs", "crash"])
@pytest.mark.parametrize("place", ON_SERVERS, indirect=True)
def test_nothing_is_found_by_the_other_judges(place: Place, judge: str) -> None:
    assert proved(place, "raw", judge, **({"most": 12} if judge == "pairs" else {})) == ""


PUT_BACK: list[tuple[Callable[[pytest.MonkeyPatch], None], str]] = [
    (bugs.commit_on_error, "R3: it failed before the commit, and is stored"),
    (bugs.silent_uncertainty, "R4: it is answered 500 and is stored"),
]


@pytest.mark.parametrize(("bug", "rule"), PUT_BACK, ids=[bug.__name__ for bug, _ in PUT_BACK])
@pytest.mark.parametrize("place", [SQLITE, *ON_SERVERS], indirect=True)
def test_a_bug_that_is_put_back_is_found(
    place: Place, bug: Callable[[pytest.MonkeyPatch], None], rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bug(monkeypatch)
    assert rule in proved(place, "title", kinds=("error",))


@pytest.mark.parametrize("place", ON_SERVERS, indirect=True)
def test_faults_are_those_that_the_driver_raises(place: Place) -> None:
    engine = create_engine(place.url)
    with SqlCopies(Path(place.ini).parent).in_use(), engine.connect() as connection:
        assert place.databases().count("prove_") == 1
        run = Run({"sql.execute:before": "conflict"})
        with started(run), pytest.raises(DBAPIError) as conflict:
            connection.exec_driver_sql("SELECT 1")
        judge = Judge(dialects()[engine.dialect.name].errors, engine.dialect.loaded_dbapi.Error)
        assert judge.is_transient(conflict.value)
        connection.rollback()
        run = Run({"sql.commit:before": "error"})
        connection.exec_driver_sql("UPDATE entry SET title = 'lost'")
        with started(run), pytest.raises(DBAPIError) as lost:
            connection.commit()
        assert lost.value.connection_invalidated or judge.is_lost(lost.value.orig)
    engine.dispose()
    assert "prove_" not in place.databases()


@pytest.mark.parametrize("place", ON_SERVERS, indirect=True)
def test_a_change_of_the_structure_is_undone(place: Place) -> None:
    copies = SqlCopies(Path(place.ini).parent)
    engine = create_engine(place.url)
    with copies.in_use():
        with engine.begin() as connection:
            connection.exec_driver_sql("UPDATE entry SET title = 'frozen'")
        engine.dispose()
        copies.freeze()
        assert copies.changed() == ()
        for statement in (
            "CREATE TABLE another (id integer)",
            "ALTER TABLE entry ADD COLUMN more integer",
            "DROP TABLE remark",
            "DELETE FROM remark",
            "INSERT INTO entry (title, made) SELECT title, made FROM entry",
        ):
            with engine.begin() as connection:
                connection.exec_driver_sql(statement)
            engine.dispose()
            assert copies.changed(), statement
            copies.reset()
            assert copies.changed() == (), statement
            with engine.connect() as connection:
                rows = connection.exec_driver_sql("SELECT * FROM entry JOIN remark ON entry_id = entry.id").all()
                assert [(len(row), row[1]) for row in rows] == [(6, "frozen")], statement
            engine.dispose()


@pytest.mark.parametrize("place", [POSTGRES], indirect=True)
def test_others_may_be_connected_to_the_original(place: Place) -> None:
    engine = create_engine(place.url)
    with engine.connect() as connection:
        connection.exec_driver_sql("SELECT 1")
        assert proved(place, "title", kinds=("error",)) == ""
    engine.dispose()


@pytest.mark.parametrize("place", [POSTGRES], indirect=True)
def test_a_role_that_only_reads_the_original_proves_it(place: Place) -> None:
    role = f"reader_{place.name}"
    place.server.ask(f"CREATE ROLE {role} LOGIN CREATEDB")
    place.server.ask(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}", place.name)
    place.server.ask(f"GRANT SELECT ON ALL SEQUENCES IN SCHEMA public TO {role}", place.name)
    url = place.url.replace("postgres@", f"{role}@")
    Path(place.ini).write_text(Path(place.ini).read_text().replace(place.url, url))
    assert proved(place, "title", kinds=("error",)) == ""
    place.server.ask(f"ALTER ROLE {role} NOCREATEDB")
    with pytest.raises(ConfigurationError, match="CREATEDB"):
        proved(place, "title")


@pytest.mark.parametrize("place", [MARIADB], indirect=True)
def test_what_would_reach_the_original_is_refused(place: Place) -> None:
    engine = create_engine(place.url)
    with SqlCopies(Path(place.ini).parent).in_use():
        name = place.name
        for statement in (f"DELETE FROM {name}.entry", f"DELETE FROM `{name}`.`entry`", f"USE {name}"):
            with engine.connect() as connection, pytest.raises(ConfigurationError, match="names the database"):
                connection.exec_driver_sql(statement)
        with engine.connect() as connection:
            connection.exec_driver_sql(f"SELECT {name}.id FROM entry AS {name}")
    engine.dispose()
    place.do("CREATE VIEW titles AS SELECT title FROM entry")
    with pytest.raises(ConfigurationError, match="view titles"):
        proved(place, "title")
    assert "prove_" not in place.databases()


@pytest.mark.parametrize("place", ON_SERVERS, indirect=True)
def test_a_table_of_another_server_is_refused(place: Place) -> None:
    """The copy would have the same table, and what is written to it would be stored on that server."""
    if place.kind == "Postgres":
        place.do("CREATE EXTENSION postgres_fdw")
        place.do("CREATE SERVER other FOREIGN DATA WRAPPER postgres_fdw")
        place.do("CREATE FOREIGN TABLE away (id integer) SERVER other")
    else:
        place.server.ask("INSTALL SONAME 'ha_federatedx'")
        url = make_url(place.url)
        there = f"mysql://{url.username}:{url.password}@{url.host}:{url.port}/{place.name}/entry"
        place.do(f"CREATE TABLE away ENGINE=FEDERATED CONNECTION='{there}'")
    with pytest.raises(ConfigurationError, match="foreign table away"):
        proved(place, "title")
    assert "prove_" not in place.databases()


@pytest.mark.parametrize("place", ON_SERVERS, indirect=True)
def test_nothing_is_left_after_an_exception(place: Place) -> None:
    with pytest.raises(KeyboardInterrupt), Proof(place.ini, corpus=CORPUS).loaded():
        assert "prove_" in place.databases()
        raise KeyboardInterrupt
    assert "prove_" not in place.databases()
