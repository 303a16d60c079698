"""PgBouncer before a PostgreSQL: each transaction may run on another connection to the server."""

from __future__ import annotations

import subprocess
from pathlib import Path

from servers.base import Server, find
from servers.postgres import Postgres


class PgBouncer(Server):
    user = "postgres"

    def __init__(self, directory: Path, server: Postgres, connections: int = 3) -> None:
        self.program = find("pgbouncer", "apt install pgbouncer")
        self.server = server
        super().__init__(directory)
        self.file = directory / "pgbouncer.ini"
        self.file.write_text(
            f"[databases]\n* = host=127.0.0.1 port={server.port} user=postgres\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\n"
            f"auth_type = any\npool_mode = transaction\ndefault_pool_size = {connections}\nmax_client_conn = 200\n"
            f"ignore_startup_parameters = extra_float_digits\n"
        )

    def command(self) -> list[str | Path]:
        return [self.program, self.file]

    def is_up(self) -> bool:
        command = self.server.psql("SELECT 1", "postgres")
        command[command.index("-p") + 1] = str(self.port)
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True).returncode == 0
