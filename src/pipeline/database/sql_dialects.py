"""Differences of SQL databases: transactions that only read, time-outs, prepared transactions, savepoints."""

from __future__ import annotations

from pipeline.interfaces import ConfigurationError

BEGIN_READING: dict[str, tuple[str, ...]] = {
    "postgresql": ("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",),
    "mysql": (
        "SET SESSION TRANSACTION READ ONLY",  # READ ONLY of the transaction alone would allow CREATE
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT",
    ),
    "sqlite": ("PRAGMA query_only = 1",),
}
"""Statements at the begin of a transaction that only reads, by dialect. The transaction then sees one state of the
database, and the database itself refuses every write (R8). With other dialects only plain reads are allowed."""
BEGIN_READING["mariadb"] = BEGIN_READING["mysql"]

END_READING = {"mysql": "SET SESSION TRANSACTION READ WRITE", "sqlite": "PRAGMA query_only = 0"}
"""The statement that allows writing again, for dialects where the setting outlasts the transaction."""
END_READING["mariadb"] = END_READING["mysql"]

STATEMENT_TIMEOUT = {
    "postgresql": "SET statement_timeout = {milliseconds}",
    "mysql": "SET SESSION max_statement_time = {seconds}",
}
STATEMENT_TIMEOUT["mariadb"] = STATEMENT_TIMEOUT["mysql"]
LOCK_TIMEOUT = {
    "postgresql": "SET lock_timeout = {milliseconds}",
    "mysql": "SET SESSION innodb_lock_wait_timeout = {whole}, SESSION lock_wait_timeout = {whole}",
    "sqlite": "PRAGMA busy_timeout = {milliseconds}",
}
LOCK_TIMEOUT["mariadb"] = LOCK_TIMEOUT["mysql"]
"""Executed on each new connection."""

IN_DOUBT = {
    "postgresql": (
        "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()",
        "COMMIT PREPARED",
        "ROLLBACK PREPARED",
    ),
    "mysql": ("XA RECOVER", "XA COMMIT", "XA ROLLBACK"),
}
"""For each dialect with two-phase commit: the query for prepared transactions, whose last column is the id, and the
statements that end one."""
IN_DOUBT["mariadb"] = IN_DOUBT["mysql"]

HAS_SAVEPOINT = {"postgresql": "SAVEPOINT pipeline_now; RELEASE SAVEPOINT {name}"}
"""The statement that fails if the open transaction does not have a savepoint, by dialect. PostgreSQL needs another
savepoint, or its transaction could not go on after the error."""


def time_outs(dialect: str, statement_timeout: float | None, lock_timeout: float | None) -> list[str]:
    """Return the statements that set the time-outs of a connection, given in seconds."""
    statements = []
    for option, seconds, known in (
        ("statement_timeout", statement_timeout, STATEMENT_TIMEOUT),
        ("lock_timeout", lock_timeout, LOCK_TIMEOUT),
    ):
        if seconds is None:
            continue
        if not 0.001 <= seconds <= 2_000_000:
            raise ConfigurationError(f"sql: option '{option}': {seconds} is not between 0.001 and 2000000 seconds")
        if dialect not in known:
            raise ConfigurationError(f"sql: option '{option}': {dialect} does not have it; leave it out")
        values = {"seconds": seconds, "milliseconds": round(seconds * 1000), "whole": max(1, round(seconds))}
        statements.append(known[dialect].format(**values))
    return statements
