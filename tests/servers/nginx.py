"""nginx in front of several instances of a site."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path

from servers.base import Server, find

CONFIGURATION = """\
daemon off;
worker_processes 1;
pid {directory}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
{upstream}
    server {{
        listen 127.0.0.1:{port};
{location}
    }}
}}
"""
PROXY = """\
        location / {
            proxy_pass http://site;
            proxy_set_header Host $http_host;
            proxy_http_version 1.1;
            proxy_connect_timeout 2s;
        }"""


class Nginx(Server):
    """Takes turns among the ports ``upstreams``; asks no second one for what the first may have done.

    None is ever left out (``max_fails``): one that refuses to connect is told apart at once. Another
    ``location`` needs no upstreams.
    """

    def __init__(
        self, directory: Path, upstreams: Sequence[int] = (), port: int | None = None, location: str = PROXY
    ) -> None:
        self.program = find("nginx", "apt install nginx")
        super().__init__(directory, port)
        servers = "\n".join(f"        server 127.0.0.1:{upstream} max_fails=0;" for upstream in upstreams)
        upstream = f"    upstream site {{\n{servers}\n    }}" if upstreams else ""
        self.file = directory / "nginx.conf"
        self.file.write_text(
            CONFIGURATION.format(
                directory=directory, port=self.port, upstream=upstream, location=location
            )
        )

    def command(self) -> list[str | Path]:
        # -e: without it, the log that was compiled in is opened first.
        return [self.program, "-e", "stderr", "-p", self.directory, "-c", self.file]

    def stop(self, seconds: float = 20, number: int = signal.SIGINT) -> int:
        return super().stop(seconds, number)
