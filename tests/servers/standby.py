"""Replicas of a server, by its own replication: of PostgreSQL, and of MariaDB."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from servers.base import find
from servers.fixtures import Skip, running
from servers.mariadb import MariaDB
from servers.postgres import REMEDY, Postgres


class Standby(Postgres):
    """A server that follows another one.

    delay  milliseconds by which it applies the changes late
    """

    def __init__(self, directory: Path, of: Postgres, delay: int = 0) -> None:
        self.of = of
        settings = [f"primary_conninfo=host=127.0.0.1 port={of.port} user=postgres"]
        settings += [f"recovery_min_apply_delay={delay}ms", "max_standby_streaming_delay=1s"]
        super().__init__(directory, settings=settings)

    def make_data(self) -> None:
        where = ["-h", "127.0.0.1", "-p", str(self.of.port), "-U", "postgres"]
        how = ["-R", "-c", "fast", "--no-sync", "-X", "stream"]
        self.run([find("pg_basebackup", REMEDY), *where, "-D", self.data, *how])

    def promote(self) -> None:
        self.ask("SELECT pg_promote()")

    def follow(self, other: Postgres | None) -> None:
        """Have it start again, and follow another server; or none."""
        self.stop()
        where = "" if other is None else f"host=127.0.0.1 port={other.port} user=postgres"
        self.settings = [f"primary_conninfo={where}", *self.settings[1:]]
        self.start()

    def pause(self, paused: bool) -> None:
        """Have it apply nothing any more; or go on."""
        self.ask(f"SELECT pg_wal_replay_{'pause' if paused else 'resume'}()")


class Primary(MariaDB):
    """A server of MariaDB whose changes others may follow."""

    def command(self) -> list[str | Path]:
        number = f"--server-id={self.port}"  # of each server, another one
        return [*super().command(), number, "--log-bin=binlog", "--log-slave-updates", "--sync-binlog=0"]

    def create(self, database: str) -> None:
        self.ask("GRANT REPLICATION SLAVE ON *.* TO 'follower'@'127.0.0.1' IDENTIFIED BY 'secret'")
        super().create(database)


class Follower(Primary):
    """A server that follows another one. It applies the changes late by whole seconds."""

    def __init__(self, directory: Path, of: Primary, delay: int = 0) -> None:
        self.of, self.delay = of, -(-delay // 1000)
        super().__init__(directory)

    def start(self) -> None:
        super().start()
        where = f"MASTER_HOST='127.0.0.1', MASTER_PORT={self.of.port}, MASTER_DELAY={self.delay}"
        who = "MASTER_USER='follower', MASTER_PASSWORD='secret', MASTER_USE_GTID=slave_pos"
        self.ask(f"SET GLOBAL read_only = 1; CHANGE MASTER TO {where}, {who}; START SLAVE")

    def promote(self) -> None:
        self.ask("STOP SLAVE; RESET SLAVE ALL; SET GLOBAL read_only = 0")

    def pause(self, paused: bool) -> None:
        """Have it apply nothing any more; or go on."""
        self.ask(f"{'STOP' if paused else 'START'} SLAVE SQL_THREAD")


KINDS: dict[str, tuple[Any, Any]] = {"postgresql": (Postgres, Standby), "mariadb": (Primary, Follower)}


@contextmanager
def replicated(
    directory: Path, missing: Skip, statements: Sequence[str], delays: Sequence[int], kind: str = "postgresql"
) -> Iterator[tuple[Any, list[Any]]]:
    """A primary with the database "site", in which the statements were run, and a replica for each delay."""
    first, second = KINDS[kind]
    with ExitStack() as stack:
        primary = stack.enter_context(running(first, directory, missing))
        primary.create("site")
        for statement in statements:
            primary.ask(statement, "site")
        yield primary, [
            stack.enter_context(running(second, directory, missing, of=primary, delay=delay)) for delay in delays
        ]
