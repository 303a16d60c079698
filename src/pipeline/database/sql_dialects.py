"""SQL databases, one value for each: what they are told in words of their own, and what they say.

Another package adds a database by an entry point of the group ``wsgi_pipeline.sql_dialects``: its name is the name
of the dialect in SQLAlchemy, and its object a ``Dialect``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from typing import Any, NamedTuple

from pipeline.database.sql_drivers import (
    MYSQLCONNECTOR,
    PG8000,
    PSYCOPG,
    PSYCOPG_3,
    PYMYSQL,
    PYSQLITE,
    Driver,
)
from pipeline.interfaces import ConfigurationError

GROUP = "wsgi_pipeline.sql_dialects"


class InDoubt(NamedTuple):
    """The statements for transactions that are prepared, and neither committed nor rolled back."""

    query: str
    """Query for them. The last column of a row is the id."""
    commit: str
    rollback: str
    alone: str = "ROLLBACK"
    """Statement by which the connection that rolls it back has no transaction of its own."""


@dataclass(frozen=True)
class Errors:
    """The codes of the errors that mean something to a request.

    Databases name an error by a code: PostgreSQL by its SQLSTATE, MySQL and MariaDB by a number, SQLite by a name.
    """

    transient: frozenset[str | int] = frozenset()
    """The same statements may succeed if they are executed again."""
    not_now: frozenset[str | int] = frozenset()
    """Answered 503 and not tried again: another attempt would take as long, or fail in the same way."""
    gone: frozenset[str | int] = frozenset()
    """The connection cannot be used any more: the server takes no writes, or shuts down. A new connection may lead
    to another server."""
    read_only: frozenset[str | int] = frozenset()
    """The write was refused, because the transaction only reads."""
    refused: frozenset[str | int] = frozenset()
    """Errors at COMMIT that say that nothing is stored. After any other error there the outcome is unknown (R4)."""
    refused_classes: tuple[str, ...] = ()
    """The first characters of such codes, where a whole class of SQLSTATE says so."""
    no_savepoint: frozenset[str | int] = frozenset()
    """The open transaction does not have the savepoint, so that it is another transaction."""


LINE = 64
"""Bits of a position for the place in a log; in front of them its timeline (PostgreSQL) or server (MariaDB)."""


@dataclass(frozen=True)
class Dialect:
    """One SQL database."""

    drivers: Mapping[str, Driver]
    """The drivers that can be asked for the state of a transaction, by the name that they have in a URL."""
    begin_reading: tuple[str, ...] = ()
    """Statements at the begin of a transaction that only reads. It then sees one state of the database, and the
    database itself refuses every write (R8). Without them only plain reads are allowed."""
    end_reading: str | None = None
    """Statement that allows writing again, where the setting outlasts the transaction."""
    ready: str = ""
    """Executed on each new connection. It fails on a server that takes connections and no statements. After an
    error, where the driver knows the state of the transaction from the answer to the last statement alone."""
    statement_timeout: str = ""
    """Executed on each new connection, with ``{seconds}``, ``{milliseconds}`` or ``{whole}`` (seconds)."""
    lock_timeout: str = ""
    in_doubt: InDoubt | None = None
    """Known if the database commits in two phases."""
    has_savepoint: str = "RELEASE SAVEPOINT {name}"
    """Statement that fails if the open transaction does not have a savepoint."""
    position: str = ""
    """Query for the position of a primary: its ``LINE``, and a number that is higher after each commit."""
    replayed: str = ""
    """Query for the position of a replica: it has all commits up to there. Without a row if it is not a replica."""
    slack: int = 0
    """Difference of the two positions for a replica that has all commits, at most."""
    kept: tuple[str, int] = ("", 0)
    """Query, behind a rollback, for its warnings, and the code of the one that some changes were not taken back."""
    leaving: str = ""
    """Query for those of the functions ``{names}`` that may leave something in their session; "" if none does. It
    also finds "all writes" and "all reads" if such a statement may call one unseen, by a trigger or a view, and
    "all changes" if a read may change something so. ``{computing}`` are names of functions that are not asked for.
    """
    before_leaving: tuple[str, ...] = ()
    """Statements in front of that query."""
    errors: Errors = field(default_factory=Errors)


GTID = f"""SELECT CAST(SUBSTRING_INDEX(SUBSTRING_INDEX(gtid, '-', 2), '-', -1) AS UNSIGNED) * {2**LINE}
    + CAST(SUBSTRING_INDEX(gtid, '-', -1) AS UNSIGNED) FROM DUAL WHERE gtid REGEXP '^[^,]+$'"""

POSTGRESQL = Dialect(
    {"psycopg2": PSYCOPG, "psycopg": PSYCOPG_3, "pg8000": PG8000},
    begin_reading=("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",),
    statement_timeout="SET statement_timeout = {milliseconds}",
    lock_timeout="SET lock_timeout = {milliseconds}",
    in_doubt=InDoubt(
        "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()",
        "COMMIT PREPARED",
        "ROLLBACK PREPARED",
    ),
    # It needs another savepoint, or its transaction could not go on after the error.
    has_savepoint="SAVEPOINT pipeline_now; RELEASE SAVEPOINT {name}",
    # Each promotion begins a timeline, which a replica tells after a checkpoint of it.
    position="SELECT ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::bigint"
    f" * 2.0 ^ {LINE}"
    " + pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')",
    replayed="SELECT greatest((pg_control_checkpoint()).timeline_id,"
    f" (pg_control_recovery()).min_recovery_end_timeline) * 2.0 ^ {LINE}"
    " + pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0') WHERE pg_is_in_recovery()",
    slack=40,  # the header of a page of the log, which the primary counts before it has written behind it
    # A function whose body is known may leave something by a statement in it, or by a function that it calls; any
    # other if it is volatile, but for some that end with the transaction or only count. What rules, defaults,
    # constraints and policies call is read as PostgreSQL stores it. A function of a row is also called as t.name.
    before_leaving=("SET LOCAL jit = off",),  # to compile the plan takes longer than to execute it
    leaving=r"""WITH RECURSIVE functions AS (SELECT pg_proc.oid, lower(proname) AS name, prosrc AS body,
            CASE WHEN pg_proc.oid >= 16384 THEN lower(regexp_replace(prosrc, '["\s]', '', 'g')) END AS calls,
            pg_proc.oid >= 16384 AND prosrc <> '' AND lanname IN ('sql', 'plpgsql') AS is_known,
            provolatile = 'v' AND NOT (prorettype = 'trigger'::regtype AND lanname IN ('internal', 'c')) AS changes
        FROM pg_catalog.pg_proc JOIN pg_catalog.pg_language ON pg_language.oid = prolang
        WHERE NOT (lanname IN ('internal', 'c') AND proname IN (
            'random', 'gen_random_uuid', 'clock_timestamp', 'timeofday', 'pg_sleep', 'pg_notify',
            'nextval', 'currval', 'lastval', 'setval', 'pg_advisory_xact_lock', 'pg_advisory_xact_lock_shared',
            'pg_try_advisory_xact_lock', 'pg_try_advisory_xact_lock_shared',
            'gen_random_bytes', 'gen_salt', 'uuid_generate_v1', 'uuid_generate_v1mc', 'uuid_generate_v4'))),
        leaving AS (SELECT oid, name FROM functions WHERE CASE WHEN is_known
            THEN body ~* '(^|;|\m(begin|then|else|loop))\s*(set|listen|prepare|declare\s+\w+\s.*\mhold)\M'
                OR body ~* '\m(temp|temporary|execute|pg_settings)\M'
            ELSE changes END
        UNION SELECT functions.oid, functions.name FROM functions JOIN leaving
            ON is_known AND strpos(calls, leaving.name || '(') > 0),
        trees AS (SELECT ev_action::text AS tree, ev_type = '1' AS by_reads FROM pg_catalog.pg_rewrite
            WHERE oid >= 16384 AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend
                WHERE classid = 'pg_class'::regclass AND objid = ev_class AND deptype = 'e')
        UNION ALL SELECT adbin::text, false FROM pg_catalog.pg_attrdef
        UNION ALL SELECT conbin::text, contypid <> 0 FROM pg_catalog.pg_constraint
        UNION ALL SELECT concat(indexprs, indpred), false FROM pg_catalog.pg_index WHERE indexrelid >= 16384
        UNION ALL SELECT concat(polqual, polwithcheck), true FROM pg_catalog.pg_policy),
        called AS (SELECT DISTINCT substring(part FROM '^\d+')::oid AS oid, by_reads
            FROM trees, unnest(string_to_array(replace(tree, 'fnoid ', 'funcid '), 'funcid ')) AS part
        UNION ALL SELECT tgfoid, false FROM pg_catalog.pg_trigger WHERE NOT tgisinternal
        UNION ALL SELECT oprcode::oid, true FROM pg_catalog.pg_operator WHERE oid >= 16384
        UNION ALL SELECT castfunc, true FROM pg_catalog.pg_cast WHERE oid >= 16384
        UNION ALL SELECT unnest(ARRAY[aggtransfn, aggfinalfn])::oid, true FROM pg_catalog.pg_aggregate
            WHERE aggfnoid >= 16384
        UNION ALL SELECT pg_proc.oid, true FROM pg_catalog.pg_proc
            JOIN pg_catalog.pg_type ON pg_type.oid = proargtypes[0] AND pronargs - pronargdefaults <= 1
            WHERE pg_proc.oid >= 16384 AND (typtype = 'c' OR typname IN ('record', 'anyelement'))
        UNION ALL SELECT oid, true FROM functions WHERE oid >= 16384 AND name IN ({computing}))
        SELECT name FROM leaving WHERE name IN ({names})
        UNION SELECT CASE WHEN by_reads THEN 'all reads' ELSE 'all writes' END FROM called JOIN leaving USING (oid)
        UNION SELECT 'all changes' FROM called JOIN functions USING (oid) WHERE by_reads AND changes""",
    errors=Errors(
        # Serialization failure, deadlock, a lock that was not free within lock_timeout.
        transient=frozenset({"40001", "40P01", "55P03"}),
        # A statement time-out, or it was cancelled; the server was demoted, or set to read only; its disk is full.
        not_now=frozenset({"57014", "25006", "53100"}),
        gone=frozenset({"25006", "57P01", "57P02", "57P03"}),
        read_only=frozenset({"25006"}),
        # PostgreSQL writes the commit record after all checks, so an error of a check or of a deferred trigger
        # comes before it. These may come after it: 08 (connection), 40003 (completion unknown), 53 (resources), 58
        # (system), 57P0x (a shutdown while COMMIT waits for a standby), XX (internal).
        refused=frozenset({"40001", "40002", "40P01", "55P03", "55006", "57014"}),
        refused_classes=(
            *("0A", "21", "22", "23", "25", "27", "28", "2B", "2D", "38", "39", "3B", "3D", "3F", "42", "44", "P0"),
        ),
        no_savepoint=frozenset({"3B001"}),
    ),
)
MYSQL = Dialect(
    {"pymysql": PYMYSQL, "mysqlconnector": MYSQLCONNECTOR},
    begin_reading=(
        "SET SESSION TRANSACTION READ ONLY",  # READ ONLY of the transaction alone would allow CREATE
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT",
    ),
    end_reading="SET SESSION TRANSACTION READ WRITE",
    ready="DO 1",  # a node of Galera without its group answers SELECT 1, and a ping
    statement_timeout="SET SESSION max_statement_time = {seconds}",
    lock_timeout="SET SESSION innodb_lock_wait_timeout = {whole}, SESSION lock_wait_timeout = {whole}",
    in_doubt=InDoubt("XA RECOVER", "XA COMMIT", "XA ROLLBACK", "SET autocommit = 1"),
    # MariaDB: server and number of a GTID, domain-server-number. With several domains there is no order.
    position=GTID.replace("gtid", "@@gtid_binlog_pos"),
    replayed=GTID.replace("gtid", "@@gtid_slave_pos") + " AND @@read_only",
    kept=("SHOW WARNINGS", 1196),  # of tables without transactions, such as those of MyISAM
    # The server quotes the name of each routine in a view, so that each view is read once, not once for each name.
    leaving=r"""WITH leaving AS (SELECT lower(routine_name) AS name FROM information_schema.routines
        UNION SELECT 'get_lock'),
        called AS (SELECT 1 FROM information_schema.routines
            WHERE routine_schema = DATABASE() AND lower(routine_name) IN ({computing})
        UNION SELECT 1 FROM information_schema.views WHERE table_schema = DATABASE()
            AND view_definition REGEXP '[^\\s.,(`]`[(]|(?i)\\bget_lock[(]')
        SELECT name FROM leaving WHERE name IN ({names})
        UNION SELECT 'all reads' FROM called UNION SELECT 'all changes' FROM called
        UNION SELECT 'all writes' FROM information_schema.triggers
        WHERE action_statement REGEXP '@|(?i)\\bset\\s+(?!new\\b)' OR EXISTS (
            SELECT 1 FROM leaving WHERE LOCATE(name, action_statement)
                AND action_statement REGEXP CONCAT('(?i)\\b', name, '`?\\s*[(]'))""",
    errors=Errors(
        transient=frozenset({1213, 1205, 1020}),  # deadlock, lock wait timeout; MariaDB: changed since it was read
        # A statement time-out (MariaDB, MySQL), or it was cancelled; the server takes no writes; its disk is full.
        not_now=frozenset({1969, 3024, 1317, 1290, 1836, 1021, 1114}),
        # 1047, 1180: a node of Galera that has lost its group. Another node may answer the next attempt.
        gone=frozenset({1290, 1836, 1047, 1053, 1180, 1927}),
        read_only=frozenset({1792, 1290, 1836}),
        # Deadlock, or certification by Galera; lock wait; changed since it was read; the server or the transaction
        # only reads; certification by group replication. Not: 1180, which Galera also says of a COMMIT that the
        # other nodes have stored; 1026, 1030 (disk), 1047, 1053, 1317, 1927, 1969, the client's own from 2000 on.
        refused=frozenset({1213, 1205, 1020, 1290, 1792, 1836, 3101}),
        no_savepoint=frozenset({1305}),
    ),
)
SQLITE = Dialect(
    {"pysqlite": PYSQLITE},
    begin_reading=("PRAGMA query_only = 1",),
    end_reading="PRAGMA query_only = 0",
    lock_timeout="PRAGMA busy_timeout = {milliseconds}",
    errors=Errors(
        transient=frozenset({"SQLITE_BUSY", "SQLITE_LOCKED"}),
        not_now=frozenset({"SQLITE_FULL"}),
        read_only=frozenset({"SQLITE_READONLY"}),
        # Not: SQLITE_IOERR, SQLITE_CORRUPT and whatever else the disk says.
        refused=frozenset(
            {"SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_CONSTRAINT", "SQLITE_READONLY", "SQLITE_FULL", "SQLITE_ERROR"}
        ),
        no_savepoint=frozenset({"SQLITE_ERROR"}),
    ),
)

OURS = {"postgresql": POSTGRESQL, "mysql": MYSQL, "mariadb": MYSQL, "sqlite": SQLITE}
"""The databases that are tested here, by the name of their dialect."""


@cache
def dialects() -> dict[str, Dialect]:
    """Return the dialects by name, with those of other packages."""
    return {**{point.name: point.load() for point in entry_points(group=GROUP)}, **OURS}


def dialect_of(name: str, driver: str) -> tuple[Dialect, Driver]:
    """Return the dialect of that name, and its driver of that name. Refuse one that cannot be asked."""
    dialect = dialects().get(name)
    if dialect is None or driver not in dialect.drivers:
        known = sorted({name for dialect in dialects().values() for name in dialect.drivers})
        raise ConfigurationError(
            f"sql: option 'url': the driver {driver} does not tell whether a transaction is open, so a change "
            f"could be stored twice after a conflict. Use one of {', '.join(known)}"
        )
    return dialect, dialect.drivers[driver]


def refuse_unknown_level(dialect: Any, level: str) -> None:
    """Raise ConfigurationError for a level of isolation that a dialect of SQLAlchemy does not have."""
    with suppress(NotImplementedError):
        known = dialect.get_isolation_level_values(None)
        if level and level.upper().replace("_", " ") not in known:
            levels = ", ".join(one for one in known if one != "AUTOCOMMIT")
            raise ConfigurationError(f"sql: isolation_level is {level}, and {dialect.name} has {levels}")


def time_outs(
    dialect: Dialect, name: str, statement_timeout: float | None, lock_timeout: float | None
) -> Iterator[str]:
    """Yield the statements that set the time-outs of a connection, given in seconds."""
    for option, seconds, statement in (
        ("statement_timeout", statement_timeout, dialect.statement_timeout),
        ("lock_timeout", lock_timeout, dialect.lock_timeout),
    ):
        if seconds is None:
            continue
        if not 0.001 <= seconds <= 2_000_000:
            raise ConfigurationError(f"sql: option '{option}': {seconds} is not between 0.001 and 2000000 seconds")
        if not statement:
            raise ConfigurationError(f"sql: option '{option}': {name} does not have it; leave it out")
        values = {"seconds": seconds, "milliseconds": round(seconds * 1000), "whole": max(1, round(seconds))}
        yield statement.format(**values)
