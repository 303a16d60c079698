"""Which SQL statements are known to change nothing."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing, suppress

import pytest

from pipeline.database.statements import LONGEST, WRITES, statement_of

READS = [
    "SELECT 1",
    " select a, b from t where a = %(a_1)s and b in (%(b_1_1)s, %(b_1_2)s) order by a desc ",
    "SELECT book.id, book.title \nFROM book JOIN author ON author.id = book.author_id \nWHERE book.id = ?",
    'SELECT "update", `insert` FROM "delete"',
    "SELECT 'INSERT INTO t; -- f()' AS x",
    "SELECT 'it''s', \"a\"\"b\"",
    "SELECT count(*), max(a), coalesce(b, 0) FROM t GROUP BY c HAVING sum(a) > 3;",
    "  (select 1) union (select 2)",
    "WITH x AS (SELECT 1) SELECT * FROM x",
    "SELECT rank() OVER (PARTITION BY a ORDER BY b) FROM t",
    "SELECT replace(a, 'x', 'y'), lower(a), CAST(a AS VARCHAR(5)) FROM t",
    "VALUES (1), (2)",
    "SELECT a -- the id; don't INSERT\nFROM t",
    "/* all of it */ SELECT a FROM t",
]
CHANGES = [
    "",
    "SELECTED",
    "INSERT INTO t VALUES (1)",
    "SELECT 1; INSERT INTO t VALUES (1)",
    "SELECT * INTO t2 FROM t",
    "SELECT setval('s', 3)",
    "SELECT nextval('s')",
    "SELECT NEXT VALUE FOR s",
    "SELECT s.nextval",
    "SELECT lo_create(0)",
    'SELECT "my function"(1)',
    "SELECT public.f (1)",
    "SELECT a FROM t FOR UPDATE",
    "SELECT a FROM t FOR SHARE",
    "SELECT a FROM t LOCK IN SHARE MODE",
    "SELECT a INTO OUTFILE 'x' FROM t",
    "SELECT a FROM t PROCEDURE ANALYSE()",
    "WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x",
    "WITH x AS (SELECT 1 AS a) REPLACE INTO t SELECT a FROM x",
    "WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x",
    "/* a /* nested */ comment */ INSERT INTO t VALUES (1)",
    "-- SELECT\nDELETE FROM t",
    "SELECT 1 /*!50000 INTO OUTFILE 'x' */",
    "SELECT 1 /*M!100000 INTO OUTFILE 'x' */",
    "SELECT 1 # a comment\n",
    "SELECT 1 --2",
    "SELECT 1 -- don't\n, f() -- won't",
    r"SELECT 'a\'; INSERT INTO t VALUES (1); --'",
    "SELECT 'an open quote",
    "SELECT $$a$$",
    "EXPLAIN ANALYZE INSERT INTO t VALUES (1)",
    "EXPLAIN SELECT 1",
    "SET LOCAL x = 1; INSERT INTO t VALUES (1)",
    "SET STATEMENT max_statement_time = 1 FOR INSERT INTO t VALUES (1)",
    "BEGIN NOT ATOMIC INSERT INTO t VALUES (1); END",
    "PRAGMA user_version = 7",
    "CREATE TABLE t (a int)",
    "CALL something()",
    "DO $$ BEGIN INSERT INTO t VALUES (1); END $$",
    "EXECUTE prepared",
    "COPY t FROM STDIN",
    "VACUUM",
    "SELECT '" + LONGEST * "x" + "'",
]


@pytest.mark.parametrize("statement", READS)
def test_plain_reads(statement: str) -> None:
    assert statement_of(statement).is_plain_read


@pytest.mark.parametrize("statement", CHANGES)
def test_everything_else_counts_as_a_change(statement: str) -> None:
    assert not statement_of(statement).is_plain_read


REPLACE = [
    "COMMIT AND CHAIN",
    "INSERT INTO t VALUES (1); COMMIT; BEGIN",
    "select 1; end; begin;",
    "/* a comment */ START TRANSACTION",
    "CALL p()",
    "EXECUTE IMMEDIATE 'COMMIT'",
    "DO $$ BEGIN PERFORM f(); END $$",
    "PREPARE TRANSACTION 'x'",
]
ORDINARY = [
    "INSERT INTO t VALUES ('commit')",
    "  update t set a = case when b then 1 else 2 end",
    "SELECT CASE WHEN a THEN 'begin' END FROM t;",
    "WITH x AS (SELECT 1) DELETE FROM t",
    "SAVEPOINT x",
    "ROLLBACK TO SAVEPOINT x",
    "RELEASE SAVEPOINT x",
    "SET LOCAL x = 1",
    "EXPLAIN SELECT 1",
    "-- a\nSELECT 1",
    "(SELECT 1) UNION (SELECT 2)",
]


@pytest.mark.parametrize("statement", REPLACE)
def test_what_may_end_a_transaction_and_begin_another(statement: str) -> None:
    assert statement_of(statement).may_replace and not statement_of(statement).is_ordinary


@pytest.mark.parametrize("statement", ORDINARY)
def test_what_ends_no_transaction(statement: str) -> None:
    assert statement_of(statement).is_ordinary and not statement_of(statement).may_replace


@pytest.mark.parametrize("statement", ["CREATE TABLE t (a int)", "PRAGMA user_version = 7"])
def test_what_may_end_a_transaction_and_begins_none(statement: str) -> None:
    assert not statement_of(statement).is_ordinary and not statement_of(statement).may_replace


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SET autocommit=1", True),
        ("set @a = 1, autocommit := on", True),
        ("SELECT 1; SET SESSION AUTOCOMMIT = TRUE", True),
        ("SET autocommit = 0", False),
        ("SET autocommit=OFF", False),
        ("INSERT INTO notes VALUES ('autocommit=1')", False),
        ("SELECT @@autocommit", False),
    ],
)
def test_what_sets_autocommit(statement: str, expected: bool) -> None:
    assert statement_of(statement).sets_autocommit is expected


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        *((one, True) for one in ("SAVEPOINT a", "release savepoint a;", "RELEASE a", "ROLLBACK TO SAVEPOINT a")),
        *((one, True) for one in ("rollback to a", 'SAVEPOINT "a b"')),
        *((one, False) for one in ("savepoints", "ROLLBACK", "rollback work")),
    ],
)
def test_what_sets_or_ends_a_savepoint_ends_no_transaction(statement: str, expected: bool) -> None:
    assert statement_of(statement).is_ordinary is expected


@pytest.mark.parametrize("statement", ["NOTIFY x", "SELECT pg_notify('x', 'y')", "SELECT lo_unlink(1)"])
def test_what_postgresql_accepts_in_a_transaction_that_only_reads(statement: str) -> None:
    assert statement_of(statement).is_unrefused


@pytest.mark.parametrize("statement", ["COMMIT", "select 1 ; end", "rollback", "ABORT", "START TRANSACTION"])
def test_what_ends_a_transaction_that_only_reads(statement: str) -> None:
    assert statement_of(statement).is_unrefused


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        *((one, True) for one in ("ROLLBACK", "abort", "select 1; rollback", "-- a\n/* b */ ROLLBACK AND CHAIN")),
        *((one, False) for one in ("ROLLBACK TO x", "rollback work to savepoint x", "SELECT 'a; rollback'")),
        ("CREATE TABLE a (b text DEFAULT '; rollback')", False),
    ],
)
def test_what_takes_back_a_transaction(statement: str, expected: bool) -> None:
    assert statement_of(statement).takes_back is expected


@pytest.mark.parametrize("statement", ["SELECT f(), lo_get(1)", "ROLLBACK TO SAVEPOINT x", "CALL f()"])
def test_what_postgresql_refuses_itself(statement: str) -> None:
    assert not statement_of(statement).is_unrefused


PARTS = (
    *("'a'", "'it''s'", '"a"', "`b`", "-- don't\n", '-- "\n', "--x'\n", "--\n", "--1\n", "/* won't */", '/* " */'),
    *("/*! ' */", "/* -- */", "/*M! ' */", "- -1", ", 1", ", 'b'", " + ", " FROM t", ", f()", ", f/* ( */()"),
)


def test_sqlite_agrees_about_the_functions_that_are_called() -> None:
    """Statements of strings and comments in any order: none calls a function that is not told."""
    called: list[int] = []
    with closing(sqlite3.connect(":memory:")) as database:
        database.create_function("f", 0, lambda: called.append(1))
        database.executescript("CREATE TABLE t (a, b); INSERT INTO t VALUES (1, 2)")
        chance = random.Random(7)
        told = quiet = 0
        for _ in range(20_000):
            statement = "SELECT 1 " + " ".join(chance.choices(PARTS, k=chance.randint(1, 6)))
            called.clear()
            with suppress(sqlite3.Error):
                database.execute(statement).fetchall()
                told += len(called) and statement_of(statement).called == {"f"}
                quiet += not called and statement_of(statement).is_plain_read
                if called:
                    assert not statement_of(statement).is_plain_read, statement
                    assert statement_of(statement).called in (None, {"f"}), statement
    assert told > 500 and quiet > 500


@pytest.mark.parametrize(
    ("statement", "called"),
    [
        ("INSERT INTO t (a, b) VALUES (1, lower(c)) ON CONFLICT (a) DO NOTHING", {"conflict", WRITES}),
        ('INSERT INTO "T" ("A") SELECT f(a) FROM t', {"f", WRITES}),
        ("INSERT INTO s.t (a) VALUES (nextval('s.a'))", {"nextval", WRITES}),
        ("WITH x AS (DELETE FROM t RETURNING a) SELECT a FROM x", {WRITES}),
        ("UPDATE t SET a = G(a) WHERE b IN (1, 2)", {"g", WRITES}),
        ("/* by = orders */ DELETE FROM t WHERE a = 1", {WRITES}),
        ("SET LOCAL app.user = 'alice'", set()),
        ("SAVEPOINT a", set()),
        ("SELECT s.f(1), H(2)", {"f", "h"}),
        ("SET app.user = 'alice'", None),
        ("SELECT a INTO t2 FROM t", None),
        ("SELECT @a := 1", None),
        ('SELECT "my function"(1)', None),
        ("INSERT INTO t VALUES (1); SET ROLE a", None),
        ("INSERT INTO t VALUES ($$a$$)", None),
        ("/*! SET @a = 1 */", None),
        ("SELECT 1 /*M!, GET_LOCK('a', 1) */", None),
        ("SELECT 1 /* don't */, pg_advisory_lock(1) /* won't */", {"pg_advisory_lock"}),
        ("CREATE TEMPORARY TABLE t (a int)", None),
        ("LISTEN a", None),
        ("PREPARE a AS SELECT 1", None),
        ("SELECT '" + LONGEST * "x" + "'", None),
    ],
)
def test_functions_that_may_leave_something(statement: str, called: set[str] | None) -> None:
    assert statement_of(statement).called == called
