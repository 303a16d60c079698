"""Which SQL statements are known to change nothing."""

from __future__ import annotations

import pytest

from pipeline.database.statements import LONGEST, is_plain_read

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
    "SELECT 1 # a comment\n",
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
    assert is_plain_read(statement)


@pytest.mark.parametrize("statement", CHANGES)
def test_everything_else_counts_as_a_change(statement: str) -> None:
    assert not is_plain_read(statement)
