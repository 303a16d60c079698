"""ZEO: one file storage, with blobs, served to several processes."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from servers.base import Missing, Server

CONFIGURATION = """\
<zeo>
    address 127.0.0.1:{port}
</zeo>
<filestorage 1>
    path {directory}/Data.fs
    blob-dir {directory}/blobs
</filestorage>
<eventlog>
    level warn
    <logfile>
        path STDOUT
    </logfile>
</eventlog>
"""


class ZEO(Server):
    def __init__(self, directory: Path, port: int | None = None) -> None:
        if find_spec("ZEO") is None:
            raise Missing("ZEO", "pip install 'wsgi-pipeline[zeo]'")
        super().__init__(directory, port)
        self.file = directory / "zeo.conf"
        self.file.write_text(CONFIGURATION.format(port=self.port, directory=directory))

    def command(self) -> list[str | Path]:
        return [sys.executable, "-m", "ZEO.runzeo", "-C", self.file]

    def uri(self, port: int | None = None, options: str = "") -> str:
        tail = f"&{options}" if options else ""
        return f"zeo://127.0.0.1:{port or self.port}?storage=1{tail}"
