"""A connection that a request gives back is as a new one (R13): nothing of its session is met by the next request.

The connection of the pool and one that was just opened are compared by the server's own catalogue.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import create_engine, event
from sqlalchemy.engine import make_url

from around_a_view import ask
from faults.length import length
from pipeline import Request, Response
from pipeline.database import sql_databases
from servers.sql_places import (
    MARIADB,
    POSTGRES,
    Place,
    do,
    on_each_driver,
    on_mariadb,
    on_postgres,
    place,
    raw,
    site,
)

__all__ = ["place"]

LOOK = {
    "postgres": (
        # those of plpgsql are there once a session has called a function in it
        "SELECT name, setting FROM pg_settings "
        "WHERE name <> 'application_name' AND position('plpgsql.' IN name) = 0 ORDER BY name",
        "SELECT current_user, session_user, current_setting('search_path'), current_setting('app.user', true)",
        "SELECT locktype, objid FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()",
        "SELECT name FROM pg_prepared_statements WHERE from_sql",
        "SELECT name FROM pg_cursors WHERE is_holdable",
        "SELECT pg_listening_channels()",
        "SELECT relname FROM pg_class WHERE relnamespace = pg_my_temp_schema() ORDER BY relname",
    ),
    "mariadb": (
        "SELECT variable_name, variable_value FROM information_schema.session_variables WHERE variable_name NOT IN "
        "('TIMESTAMP', 'PSEUDO_THREAD_ID', 'RAND_SEED1', 'RAND_SEED2', 'LAST_INSERT_ID', 'IDENTITY', 'INSERT_ID', "
        "'WARNING_COUNT', 'ERROR_COUNT', 'LAST_GTID', 'GTID_CURRENT_POS', 'GTID_BINLOG_POS', 'IN_TRANSACTION') "
        "ORDER BY 1",
        "SELECT DATABASE(), @user, @other, IS_USED_LOCK('left') = CONNECTION_ID()",
    ),
    "sqlite": (
        "PRAGMA foreign_keys",
        "PRAGMA cache_size",
        "PRAGMA recursive_triggers",
        "SELECT name FROM pragma_database_list WHERE name <> 'temp' ORDER BY name",
        "SELECT name FROM sqlite_temp_master ORDER BY name",
    ),
}
"""Queries for all that a session keeps."""
TRIGGERED = "CREATE TRIGGER on_insert BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION on_insert()"
LEFT = {
    "postgres": (
        "SET ROLE pg_read_all_data",
        "SELECT set_config('app.user', 'alice', false)",
        "select SET_CONFIG('app.user', 'alice', false) /* of a comment */",
        "SELECT leave('alice')",
        "INSERT INTO t SELECT leave('alice')",
        "UPDATE t SET v = v || leave('alice') WHERE v = 'was'",
        "WITH x AS (SELECT leave('alice')) SELECT * FROM x",
        "SET search_path TO pg_catalog",
        "SET statement_timeout = 12345",
        "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE",
        "SET default_transaction_read_only = on",
        "CREATE TEMPORARY TABLE mine AS SELECT 'alice' AS v",
        "SELECT 'alice' AS v INTO TEMP mine",
        "DECLARE mine CURSOR WITH HOLD FOR SELECT 1",
        "LISTEN alice",
        "PREPARE mine AS SELECT 1",
        "SELECT pg_advisory_lock(7)",
        "SELECT pg_catalog.pg_try_advisory_lock_shared(8)",
        "DO $$ BEGIN PERFORM set_config('app.user', 'alice', false); END $$",
    ),
    "mariadb": (
        "SET @user = 'alice'",
        "SELECT @user := 'alice'",
        "SELECT 'alice' INTO @user",
        "SELECT leave_it('alice')",
        "INSERT INTO t SELECT leave_it('alice')",
        "SELECT GET_LOCK('left', 0)",
        "SET foreign_key_checks = 0",
        "SET SESSION sql_mode = ''",
        "USE information_schema",
    ),
    "sqlite": (
        "CREATE TEMPORARY TABLE mine AS SELECT 'alice' AS v",
        "PRAGMA foreign_keys = 1",
        "PRAGMA cache_size = 17",
        "PRAGMA recursive_triggers = 1",
    ),
}
CLEAN = {
    "postgres": (
        "INSERT INTO t (v) VALUES ('a') ON CONFLICT (v) DO UPDATE SET v = EXCLUDED.v RETURNING v",
        'INSERT INTO "t" ("v") VALUES (\'b\')',
        "UPDATE t SET v = v WHERE length(v) > 100",
        "DELETE FROM t WHERE v IN ('a', 'b')",
        "SELECT to_tsvector('a b') @@ plainto_tsquery('a'), random(), gen_random_uuid()",
        "SELECT v FROM t FOR UPDATE",
        "SET LOCAL statement_timeout = 5000",
        "SAVEPOINT a",
        "SELECT pg_advisory_xact_lock(9)",
    ),
    "mariadb": (
        "INSERT INTO t (v) VALUES ('a') ON DUPLICATE KEY UPDATE v = VALUES(v)",
        "DELETE FROM t WHERE v = 'a'",
        "SELECT SOUNDEX('a'), RAND() FROM t FOR UPDATE",
    ),
    "sqlite": ("INSERT INTO t (v) VALUES ('a')", "DELETE FROM t", "SELECT random(), json_valid('1')"),
}
"""Statements after which the connection is used again."""
MADE = {
    "postgres": (
        "CREATE FUNCTION leave(v text) RETURNS text LANGUAGE plpgsql AS "
        "$$ BEGIN PERFORM set_config('app.user', v, false); RETURN v; END $$",
    ),
    "mariadb": ("CREATE FUNCTION leave_it(v text) RETURNS text BEGIN SET @user = v; RETURN v; END",),
}
"""Functions that leave something."""
BODY = "LANGUAGE plpgsql {kind} AS $$ BEGIN PERFORM set_config('app.user', 'alice', false); RETURN 'a'; END $$"
STABLE = f"CREATE FUNCTION stable() RETURNS text {BODY.replace('{kind}', 'STABLE')}"
ON_T2 = "CREATE TABLE t2 (v text{})"
UNSEEN: dict[str, tuple[tuple[tuple[str, ...], str], ...]] = {
    "postgres": (
        (("CREATE VIEW seen AS SELECT leave('alice') AS v",), "SELECT v FROM seen"),
        (("CREATE VIEW seen AS SELECT set_config('app.user', 'alice', false) AS v",), "SELECT v FROM seen"),
        (("CREATE VIEW seen AS SELECT pg_advisory_lock(7)::text AS v",), "SELECT v FROM seen"),
        *(
            (
                (
                    "INSERT INTO t (v) VALUES ('alice')",
                    f"CREATE FUNCTION of_row({of}) RETURNS text LANGUAGE sql AS $$ SELECT leave('alice') $$",
                ),
                "SELECT t.of_row FROM t",
            )
            for of in ("t", "anyelement", "t, n integer DEFAULT 1")
        ),
        ((ON_T2.format(", w text DEFAULT leave('alice')"),), "INSERT INTO t2 (v) VALUES ('a')"),
        ((ON_T2.format(" CHECK (leave(v) = v)"),), "INSERT INTO t2 VALUES ('alice')"),
        (
            (ON_T2.format(""), "CREATE RULE r AS ON INSERT TO t2 DO ALSO SELECT leave('alice')"),
            "INSERT INTO t2 VALUES ('a')",
        ),
        (("CREATE DOMAIN mine AS text CHECK (leave(VALUE) = VALUE)",), "SELECT CAST('alice' AS mine)"),
        (
            (
                "CREATE FUNCTION two(a text, b text) RETURNS text LANGUAGE sql AS $$ SELECT leave(a) $$",
                "CREATE OPERATOR === (FUNCTION = two, LEFTARG = text, RIGHTARG = text)",
            ),
            "SELECT CAST('alice' AS text) === CAST('b' AS text)",
        ),
        (
            (
                "CREATE FUNCTION next(state text, v text) RETURNS text LANGUAGE sql AS $$ SELECT leave(v) $$",
                "CREATE AGGREGATE total(text) (SFUNC = next, STYPE = text)",
            ),
            "SELECT total('alice')",
        ),
        (
            ("CREATE FUNCTION total(v text) RETURNS text LANGUAGE sql AS $$ SELECT leave(v) $$",),
            "SELECT total('alice')",
        ),
        ((STABLE,), "SELECT stable()"),
        (
            (STABLE, "CREATE FUNCTION chain() RETURNS text LANGUAGE sql STABLE AS $$ SELECT public . stable () $$"),
            "SELECT chain()",
        ),
        (
            (
                f"CREATE FUNCTION fixed(v text) RETURNS text {BODY.replace('{kind}', 'IMMUTABLE')}",
                "CREATE INDEX i ON t (fixed(v))",
            ),
            "INSERT INTO t VALUES ('alice')",
        ),
        (
            (
                'CREATE FUNCTION "Mine"(v text) RETURNS text LANGUAGE sql AS $$ SELECT leave(v) $$',
                "CREATE FUNCTION on_insert() RETURNS trigger LANGUAGE plpgsql AS "
                '$$ BEGIN NEW.v := "Mine"(NEW.v); RETURN NEW; END $$',
                TRIGGERED,
            ),
            "INSERT INTO t (v) VALUES ('alice')",
        ),
        ((), "UPDATE pg_settings SET setting = '12345' WHERE name = 'statement_timeout'"),
    ),
    "mariadb": (
        (("CREATE VIEW seen AS SELECT leave_it('alice') AS v",), "SELECT v FROM seen"),
        (("CREATE VIEW seen AS SELECT GET_LOCK('left', 0) AS v",), "SELECT v FROM seen"),
        (
            ("CREATE FUNCTION total(v text) RETURNS text BEGIN SET @user = v; RETURN v; END",),
            "SELECT total('alice')",
        ),
        (
            ("CREATE TRIGGER i BEFORE INSERT ON t FOR EACH ROW BEGIN SET NEW.v = `leave_it`(NEW.v); END",),
            "INSERT INTO t (v) VALUES ('alice')",
        ),
    ),
}
"""What a database has, and a statement in whose text no function is named that is known to leave something."""
MIXTURES = length(short=30, full=300)
TRIGGER = {
    "postgres": (
        "CREATE FUNCTION on_insert() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body}; RETURN NEW; END $$",
        "CREATE TRIGGER on_insert BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION on_insert()",
    ),
    "mariadb": ("CREATE TRIGGER on_insert BEFORE INSERT ON t FOR EACH ROW BEGIN {body}; END",),
}
LEAVING_BODIES = {
    "postgres": (
        "NEW.v := leave(NEW.v)",
        "PERFORM set_config('app.user', NEW.v, false)",
        "PERFORM pg_advisory_lock(7)",
        "SET search_path TO pg_catalog",
        "IF true THEN SET SESSION statement_timeout = 12345; END IF",
        "CREATE TEMPORARY TABLE mine (v text)",
        "EXECUTE 'LISTEN alice'",
        "LISTEN alice",
    ),
    "mariadb": (
        "SET @user = NEW.v",
        "SET NEW.v = leave_it(NEW.v)",
        "DO GET_LOCK('left', 0)",
        "SET SESSION sql_mode = ''",
        "SET foreign_key_checks = 0",
    ),
}
HARMLESS_BODIES = {
    "postgres": (
        "NEW.v := lower(NEW.v) || now()",
        "UPDATE t SET v = v WHERE v = NEW.v",
        "INSERT INTO t2 SELECT NEW.v, clock_timestamp()",
    ),
    "mariadb": ("SET NEW.v = LOWER(NEW.v)", "INSERT INTO t2 SELECT NEW.v, NOW(); SET NEW.v = 'b'"),
}


def seen(connection: Any, place: Place) -> list[Any]:
    """Return all that a session keeps, by a connection of SQLAlchemy."""
    return [[tuple(row) for row in connection.exec_driver_sql(query)] for query in LOOK[place.kind]]


def fresh(place: Place, made: bool = False) -> list[Any]:
    """Return what a new session has. Make the functions before, unless they are ``made`` already."""
    if not made:
        place.do(*MADE.get(place.kind, ()))
    engine = create_engine(place.url)
    try:
        with engine.connect() as connection:
            return seen(connection, place)
    finally:
        engine.dispose()


def from_pool(place: Place) -> list[Any]:
    """Return what the session has that the next request gets."""
    [database] = sql_databases._databases.values()
    with database.engine.connect() as connection:
        return seen(connection, place)


def run(place: Place, work: Any) -> int:
    def view(request: Request, response: Response) -> list[bytes]:
        work(request)
        return [b"done"]

    return ask(site(place, view)).status


def by_engine(*statements: str) -> Callable[[Request], None]:
    """Execute statements by a connection that the view takes from the engine, and commit."""

    def work(request: Request) -> None:
        with request.sql.get_bind().begin() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement.replace("%", "%%"))

    return work


@pytest.mark.parametrize("way", [do, raw, by_engine])
@on_each_driver
def test_nothing_is_left(place: Place, way: Any) -> None:
    expected = fresh(place)
    found = {}
    for statement in LEFT[place.kind]:
        status = run(place, way(statement))
        now = from_pool(place)
        if status != 200 or now != expected:
            found[statement] = status, now
    assert found == {}


@pytest.mark.parametrize(("place", "made", "statement"), [
    pytest.param(of.values[0], made, statement, marks=of.marks, id=f"{of.id}: {(*made, statement)[0]:.60}")
    for of in (POSTGRES, MARIADB)
    for made, statement in UNSEEN[str(of.id)]
], indirect=["place"])
def test_nothing_is_left_by_what_the_text_does_not_say(
    place: Place, made: tuple[str, ...], statement: str
) -> None:
    """Functions that views, rules, defaults, constraints and operators call, and a ``total`` of the site."""
    expected = fresh(place)
    place.do(*made)
    try:
        assert (run(place, do(statement)), from_pool(place)) == (200, expected)
    finally:  # the triggers of all databases of MariaDB are asked for
        place.do(*(["DROP TRIGGER i"] if made and "CREATE TRIGGER i " in made[0] else []))


@on_mariadb
def test_views_that_call_nothing_of_the_site_are_read_once(place: Place) -> None:
    """The question takes the time to read the views, whatever the number of the functions is."""
    shown = "SELECT (v), CONCAT(v, '(', '`'), COUNT(*) AS `many(` FROM t WHERE v IN ('a') GROUP BY v"
    place.do(
        *(f"CREATE FUNCTION f_{number}(v text) RETURNS text RETURN v" for number in range(300)),
        *(f"CREATE VIEW v_{number} AS {shown}" for number in range(300)),
    )
    run(place, do("SELECT v FROM v_1"))
    [database] = sql_databases._databases.values()
    opened: list[str] = []
    event.listen(database.engine, "connect", lambda connection, record: opened.append("opened"))
    assert (run(place, do("SELECT v FROM v_1")), opened, database.reads_change) == (200, [], False)
    query = "SELECT COUNT(view_definition) FROM information_schema.views WHERE table_schema = DATABASE()"

    def seconds(connection: Any, work: Callable[[Any], object]) -> float:
        begun = time.perf_counter()
        work(connection)
        return time.perf_counter() - begun

    def ask_again(connection: Any) -> None:
        database.functions_until = 0.0
        assert not database.leaves(connection.connection.driver_connection, frozenset())

    with database.engine.connect() as connection:
        read = min(seconds(connection, lambda it: it.exec_driver_sql(query).all()) for _ in range(5))
        asked = min(seconds(connection, ask_again) for _ in range(5))
    assert asked < 8 * read + 0.05


@on_postgres
def test_a_policy_leaves_nothing(place: Place) -> None:
    fresh(place)
    role = f"visitor_{place.name}"
    place.do(
        *(f'CREATE ROLE "{role}" LOGIN', f'GRANT ALL ON t TO "{role}"', "ALTER TABLE t ENABLE ROW LEVEL SECURITY"),
        "CREATE POLICY p ON t USING (leave(v) = v)",
    )
    place = place._replace(url=make_url(place.url).set(username=role).render_as_string())
    expected = fresh(place, made=True)
    assert (run(place, do("SELECT v FROM t")), from_pool(place)) == (200, expected)


@on_each_driver
def test_a_connection_that_has_nothing_left_is_used_again(place: Place) -> None:
    expected = fresh(place)
    opened: list[str] = []
    run(place, do("SELECT 1"))
    [database] = sql_databases._databases.values()
    event.listen(database.engine, "connect", lambda connection, record: opened.append("opened"))
    for statement in CLEAN[place.kind]:
        assert (run(place, do(statement)), opened) == (200, []), statement
    assert from_pool(place) == expected


def with_trigger(place: Place, body: str, before: str = "SELECT 1") -> tuple[int, list[Any], list[str]]:
    """Let a view insert where there is such a trigger. Return its status, what is left, and new connections.

    before  what a request has done before the trigger was made
    """
    made = [statement.replace("{body}", body) for statement in TRIGGER.get(place.kind, ())]
    run(place, do(before))
    place.do("CREATE TABLE IF NOT EXISTS t2 (v TEXT, w TEXT)", *made)
    run(place, do("SELECT 1"))
    [database] = sql_databases._databases.values()
    opened: list[str] = []
    note = event.listens_for(database.engine, "connect")(lambda connection, record: opened.append("opened"))
    status = run(place, do("INSERT INTO t (v) VALUES ('alice')"))
    found = from_pool(place)
    event.remove(database.engine, "connect", note)
    place.do("DELETE FROM t")
    for statement in reversed(made):
        words = statement.split()
        place.do(f"DROP {words[1]} on_insert{' ON t' * (words[1] + place.kind == 'TRIGGERpostgres')}")
    database.engine.dispose()
    database.functions_until = 0.0
    return status, found, opened


@on_each_driver
def test_a_trigger_leaves_nothing(place: Place) -> None:
    expected = fresh(place)
    bodies = LEAVING_BODIES.get(place.kind, ())
    found = {body: (status, now) for body in bodies for status, now, _ in [with_trigger(place, body)]}
    assert {body: answer for body, answer in found.items() if answer != (200, expected)} == {}


@on_each_driver
def test_a_trigger_that_is_made_later_leaves_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database is asked again after a while. The harmless trigger before it is a control."""
    monkeypatch.setattr(sql_databases, "KNOWN_FOR", 0.0)
    expected, before = fresh(place), "INSERT INTO t (v) VALUES ('before')"
    for body in (*HARMLESS_BODIES.get(place.kind, ())[:1], *LEAVING_BODIES.get(place.kind, ())[:2]):
        assert with_trigger(place, body, before)[:2] == (200, expected), body


@on_each_driver
def test_a_trigger_that_leaves_nothing_costs_no_connection(place: Place) -> None:
    expected = fresh(place)
    bodies = HARMLESS_BODIES.get(place.kind, ())
    found = {body: with_trigger(place, body) for body in bodies}
    assert {body: answer for body, answer in found.items() if answer != (200, expected, [])} == {}


@on_each_driver
def test_mixtures_leave_nothing(place: Place) -> None:
    numbers = random.Random(7)
    expected = fresh(place)
    statements = [*LEFT[place.kind], *CLEAN[place.kind]]
    for _ in range(MIXTURES):
        some = numbers.sample(statements, numbers.randint(1, 4))
        run(place, numbers.choice([do, do, raw])(*some))
        assert from_pool(place) == expected, some
