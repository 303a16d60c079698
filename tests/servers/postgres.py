"""PostgreSQL with as many databases as are asked for; nobody needs a password."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from servers.base import Server, find

REMEDY = "apt install postgresql"


class Postgres(Server):
    user = "postgres"

    def __init__(self, directory: Path, port: int | None = None, settings: Sequence[str] = ()) -> None:
        self.program = find("postgres", REMEDY)
        beside = Path(self.program).resolve().with_name("psql")  # the one on Debian's PATH is a script of Perl
        self.client = beside if beside.exists() else find("psql", REMEDY)
        self.settings = settings
        super().__init__(directory, port)
        self.data = directory / "data"
        self.make_data()

    def make_data(self) -> None:
        options = ["--no-sync", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale", "C.UTF-8"]
        self.run([find("initdb", REMEDY), "-D", self.data, *options])

    def command(self) -> list[str | Path]:
        settings = ["listen_addresses=127.0.0.1", "max_connections=200", "max_prepared_transactions=50"]
        settings += ["recovery_init_sync_method=syncfs"]  # not file by file: there are thousands
        settings += ["deadlock_timeout=100ms"]  # as docs/reliability.rst advises
        settings += ["dynamic_shared_memory_type=mmap"]  # in its directory, so that a killed server leaves none
        settings += [f"unix_socket_directories={self.directory}", *self.settings]
        options = [word for setting in settings for word in ("-c", setting)]
        return [self.program, "-D", self.data, "-p", str(self.port), *options]

    def is_up(self) -> bool:
        return self._ask("SELECT 1", "postgres").returncode == 0

    def ask(self, statement: str, database: str = "postgres") -> str:
        """What ``psql`` prints for a statement, bare."""
        done = self._ask(statement, database)
        if done.returncode:
            raise RuntimeError(f"{statement}: {done.stderr}")
        return done.stdout.strip()

    def psql(self, statement: str, database: str) -> list[str]:
        """The command that prints what ``ask`` returns."""
        where = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-d", database]
        return [str(self.client), *where, "-X", "-q", "-A", "-t", "-c", statement]

    def _ask(self, statement: str, database: str) -> subprocess.CompletedProcess[str]:
        command = self.psql(statement, database)
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)

    def create(self, database: str) -> None:
        self.ask(f'CREATE DATABASE "{database}"')

    def stop(self, seconds: float = 20, number: int = signal.SIGQUIT) -> int:
        # SIGTERM would wait for the clients to go away; SIGINT for a checkpoint, 20 s of it after many tests.
        return super().stop(seconds, number)

    def uri(self, database: str, port: int | None = None, options: str = "") -> str:
        """For the element ``zodb``: RelStorage."""
        tail = f"?{options}" if options else ""
        return f"postgres://postgres@127.0.0.1:{port or self.port}/{database}{tail}"

    def url(self, database: str, port: int | None = None) -> str:
        """For the element ``sql``: SQLAlchemy."""
        return f"postgresql+psycopg2://postgres@127.0.0.1:{port or self.port}/{database}"
