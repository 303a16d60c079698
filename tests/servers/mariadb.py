"""MariaDB with as many databases as are asked for; its user has the password ``secret``."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from servers.base import Server, find

REMEDY = "apt install mariadb-server"


class MariaDB(Server):
    user = "mysql"

    def __init__(self, directory: Path, port: int | None = None) -> None:
        self.program = find("mariadbd", REMEDY)
        super().__init__(directory, port)
        self.data = directory / "data"
        self.socket = directory / "s"
        self.make_data()

    def make_data(self) -> None:
        options = ["--auth-root-authentication-method=normal", "--skip-test-db"]
        self.run([find("mariadb-install-db", REMEDY), *self.places(), *options])

    def places(self) -> list[str]:
        """Where it has its files. One that starts removes the temporary tables of all that have the same tmpdir."""
        return ["--no-defaults", f"--datadir={self.data}", f"--tmpdir={self.directory}"]

    def command(self) -> list[str | Path]:
        return [
            self.program,
            *self.places(),
            f"--socket={self.socket}",
            f"--pid-file={self.directory / 'pid'}",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            "--character-set-server=utf8mb4",
            "--max-connections=200",
            "--skip-name-resolve",
        ]

    def is_up(self) -> bool:
        return self._ask("SELECT 1").returncode == 0

    def ask(self, statement: str, database: str = "") -> str:
        """What ``mariadb`` prints for a statement, bare."""
        done = self._ask(f"USE `{database}`; {statement}" if database else statement)
        if done.returncode:
            raise RuntimeError(f"{statement}: {done.stderr}")
        return done.stdout.strip()

    def _ask(self, statement: str) -> subprocess.CompletedProcess[str]:
        where = ["--no-defaults", f"--socket={self.socket}", "--user=root"]
        command = [find("mariadb", REMEDY), *where, "--batch", "--skip-column-names", "-e", statement]
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=os.environ
        )

    def create(self, database: str) -> None:
        self.ask(f"CREATE DATABASE `{database}`")
        self.ask(f"GRANT ALL ON `{database}`.* TO 'site'@'127.0.0.1' IDENTIFIED BY 'secret'")

    def uri(self, database: str, port: int | None = None, options: str = "") -> str:
        """For the element ``zodb``: RelStorage, through mysql-connector-python."""
        tail = f"?{options}" if options else ""
        return f"mariadb://site:secret@127.0.0.1:{port or self.port}/{database}{tail}"

    def url(self, database: str, port: int | None = None) -> str:
        """For the element ``sql``: SQLAlchemy, through mysql-connector-python."""
        return f"mysql+mysqlconnector://site:secret@127.0.0.1:{port or self.port}/{database}"
