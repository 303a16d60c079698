"""uWSGI, serving a site of the checkout's ``etc`` on a database of its own."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from servers.base import Missing, Server

ETC = Path(__file__).resolve().parents[2] / "etc"


class UWSGI(Server):
    """One process of uWSGI with four threads. ``socket`` is its option for the port: what it speaks there."""

    def __init__(
        self,
        directory: Path,
        port: int | None = None,
        *,
        site: str = "all.ini",
        socket: str = "http-socket",
        options: Sequence[str] = (),
    ) -> None:
        self.program = Path(sys.executable).with_name("uwsgi")
        if not self.program.exists():
            raise Missing("uWSGI", "pip install 'wsgi-pipeline[servers]', which needs a C compiler")
        super().__init__(directory, port)
        self.socket = socket
        self.options = options
        self.uri = f"file://{directory}/Data.fs?blobstorage_dir={directory}/blobs"
        self.ini = directory / site
        for file in ("all.ini", "deploy.ini"):
            shutil.copy(ETC / file, directory / file)
        lines = self.ini.read_text().splitlines()
        chosen = {"zodb_uri": self.uri, "session_keys": f"{directory}/session_keys"}
        for name, value in chosen.items():
            lines = [f"{name} = {value}" if line.startswith(f"{name} =") else line for line in lines]
        self.ini.write_text("\n".join(lines))

    def command(self) -> Sequence[str | Path]:
        site = ["--ini-paste-logged", self.ini, "-H", sys.prefix, "--need-app"]
        listen = [f"--{self.socket}", f"127.0.0.1:{self.port}", "--threads", "4", "--die-on-term"]
        return [self.program, *site, *listen, *self.options]
