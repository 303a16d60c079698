"""Replicas of a PostgreSQL server, by its own streaming replication."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from servers.base import find
from servers.fixtures import Skip, running
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


@contextmanager
def replicated(
    directory: Path, missing: Skip, statements: Sequence[str], delays: Sequence[int]
) -> Iterator[tuple[Postgres, list[Standby]]]:
    """A primary with the database "site", in which the statements were run, and a replica for each delay."""
    with ExitStack() as stack:
        primary = stack.enter_context(running(Postgres, directory, missing))
        primary.create("site")
        for statement in statements:
            primary.ask(statement, "site")
        yield primary, [
            stack.enter_context(running(Standby, directory, missing, of=primary, delay=delay)) for delay in delays
        ]
