"""Stores in memory that several processes share: Redis and memcached."""

from __future__ import annotations

from pathlib import Path

from servers.base import Server, find


class Redis(Server):
    """Redis without a file."""

    def __init__(self, directory: Path, port: int | None = None) -> None:
        self.program = find("redis-server", "apt install redis-server")
        super().__init__(directory, port)
        self.uri = f"redis://127.0.0.1:{self.port}/0"

    def command(self) -> list[str | Path]:
        options = ["--bind", "127.0.0.1", "--port", str(self.port), "--save", "", "--appendonly", "no"]
        return [self.program, *options]


class Memcached(Server):
    """memcached, which asks for a user of its own where it is run by root."""

    def __init__(self, directory: Path, port: int | None = None) -> None:
        self.program = find("memcached", "apt install memcached")
        super().__init__(directory, port)
        self.uri = f"memcached://127.0.0.1:{self.port}"

    def command(self) -> list[str | Path]:
        return [self.program, "-l", "127.0.0.1", "-p", str(self.port), "-u", "nobody"]
