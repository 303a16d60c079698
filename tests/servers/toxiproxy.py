"""toxiproxy: a TCP proxy that delays, holds and cuts connections when told to (its HTTP API)."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

from ports import unused_port
from servers.base import Missing, Server, find

PACKAGE = "github.com/Shopify/toxiproxy/v2/cmd/server@latest"


def program() -> str:
    """The path of the server: the one on the PATH, or one built by Go, once, in the user's cache."""
    try:
        return find("toxiproxy-server", "")
    except Missing:
        pass
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wsgi-pipeline"
    built = cache / "server"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists():
            try:
                go = find("go", "")
            except Missing:
                raise Missing("toxiproxy", f"apt install golang, or go install {PACKAGE}") from None
            environment = os.environ | {"GOBIN": str(cache)}
            done = subprocess.run(
                [go, "install", PACKAGE], env=environment, capture_output=True, text=True, timeout=300
            )
            if done.returncode:
                raise Missing("toxiproxy", f"go install {PACKAGE} failed: {done.stderr.strip()[-300:]}")
    return str(built)


class Toxiproxy(Server):
    def __init__(self, directory: Path, port: int | None = None) -> None:
        self.program = program()
        super().__init__(directory, port)

    def command(self) -> list[str | Path]:
        return [self.program, "-host", "127.0.0.1", "-port", str(self.port)]

    def proxy(self, upstream: int) -> Proxy:
        """A proxy before port ``upstream``; clients connect to its ``port``."""
        return Proxy(self.port, upstream)


class Proxy:
    """One proxy. ``control`` is the port of the API, so that another process can speak of the same."""

    def __init__(self, control: int, upstream: int) -> None:
        self.control = control
        self.port = unused_port()
        self.name = f"to-{upstream}-by-{self.port}"
        self._call(
            "POST",
            "/proxies",
            name=self.name,
            listen=f"127.0.0.1:{self.port}",
            upstream=f"127.0.0.1:{upstream}",
        )

    def poison(self, **toxic: object) -> None:
        """Add a toxic to every connection, present and to come: its name, type, stream, attributes."""
        self._call("POST", f"/proxies/{self.name}/toxics", **toxic)

    def cure(self) -> None:
        """Take all toxics away, and accept connections again."""
        call(self.control, "POST", "/reset")

    def cut(self) -> None:
        """Close every connection, and accept none until cured."""
        self._call("POST", f"/proxies/{self.name}", enabled=False)

    def _call(self, method: str, path: str, **data: Any) -> Any:
        return call(self.control, method, path, **data)


def call(control: int, method: str, path: str, **data: Any) -> Any:
    """One call of the API of toxiproxy."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{control}{path}",
        method=method,
        data=json.dumps(data).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        text = answer.read()
    return json.loads(text) if text else None
