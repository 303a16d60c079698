"""A real server of the site, from etc/deploy.ini, in a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline_demo import site

PASTER = Path(sys.executable).with_name("paster")


class Server:
    """The site with its database in ``directory``; started, stopped and started again on one port."""

    def __init__(self, start: Callable[..., Any], port: int, directory: Path, password: str) -> None:
        self.start_process = start
        self.port = port
        self.password = password
        self.keys = directory / "session_keys"
        self.uri = f"file://{directory}/Data.fs?blobstorage_dir={directory}/blobs"
        self.address = f"http://127.0.0.1:{port}"
        site.create(self.uri)
        self.start()

    def start(self) -> None:
        chosen = [f"http_port={self.port}", f"zodb_uri={self.uri}", f"session_keys={self.keys}"]
        command = [PASTER, "serve", "etc/deploy.ini", *chosen]
        self.process = self.start_process(command, self.port)

    def stop(self) -> None:
        self.process.stop()

    def restart(self) -> None:
        self.stop()
        self.start()
