"""Streams behind nginx, which buffers: events arrive as they are made, all else does not keep a server busy."""

from __future__ import annotations

import http.client
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from servers.fixtures import running
from servers.nginx import Nginx

pytestmark = pytest.mark.servers

SITE = """
import sys, time
from pathlib import Path
from waitress import serve
from pipeline import Pipeline, element
from pipeline.elements.coalesce import coalesce
from pipeline.elements.errors import errors

port, flag = int(sys.argv[1]), Path(sys.argv[2])

@element
def end():
    def end(request, response):
        response.headers["Content-Type"] = request.path_info[1:]
        response.app_iter = blocks()

    return end

def blocks():
    yield b"data: first\\n\\n"
    time.sleep(0.2)
    yield b"data: second\\n\\n"
    for _ in range(3000):
        if flag.exists():
            break
        time.sleep(0.01)
    yield b"data: last\\n\\n"

serve(Pipeline(errors(), coalesce(), end()), host="127.0.0.1", port=port)
"""


class PlainNginx(Nginx):
    """Speaks HTTP/1.0 to its upstream, and buffers, as nginx does where nobody has said otherwise."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        configuration = self.file.read_text()
        assert "buffering" not in configuration
        self.file.write_text(configuration.replace("proxy_http_version 1.1;", ""))


@pytest.mark.parametrize(("content_type", "is_live"), [("text/event-stream", True), ("text/plain", False)])
def test_nginx_hands_events_on_as_they_are_made(
    start: Callable[..., Any],
    free_port: int,
    tmp_path: Path,
    servers_dir: Path,
    missing: Any,
    content_type: str,
    is_live: bool,
) -> None:
    """The answer says ``X-Accel-Buffering: no``, which nginx obeys and keeps to itself."""
    script, flag = tmp_path / "site.py", tmp_path / "flag"
    script.write_text(SITE)
    start([sys.executable, script, str(free_port), flag], free_port)
    with running(PlainNginx, servers_dir, missing, upstreams=[free_port]) as nginx:
        connection = http.client.HTTPConnection("127.0.0.1", nginx.port, timeout=1)
        connection.request("GET", f"/{content_type}")
        arrived = b""
        try:
            answer = connection.getresponse()
            while b"second" not in arrived:  # what comes with the headers is handed on in any case
                arrived += answer.read1(100)
        except TimeoutError:
            pass
        finally:
            flag.touch()
            connection.close()
        assert (b"second" in arrived) == is_live
