"""The checks of balancers, as they ask by default, get the answers of the table in docs/howto/instances.rst."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from waitress.server import create_server

from pipeline.paste import load

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "instances.rst"
INI = """
[composite:main]
use = egg:wsgi-pipeline#switch
branches = health path=/@@health
default = site

[app:health]
use = egg:wsgi-pipeline#health

[pipeline:site]
pipeline = vhost errors traverse publisher

[filter:vhost]
use = egg:wsgi-pipeline#vhost
allowed_hosts = www.example.com

[filter:errors]
use = egg:wsgi-pipeline#errors

[filter:traverse]
use = egg:wsgi-pipeline#traverse
root = builtins:dict

[app:publisher]
use = egg:wsgi-pipeline#publisher
scan = servers.probe_views
"""
REQUESTS = {
    "HAProxy": "OPTIONS {} HTTP/1.0\r\n\r\n",
    "AWS ALB": "GET {} HTTP/1.1\r\nHost: 10.0.0.7:8080\r\nConnection: close\r\n\r\n",
    "uptime monitors": "HEAD {} HTTP/1.1\r\nHost: 10.0.0.7\r\nConnection: close\r\n\r\n",
    "nginx": "GET {} HTTP/1.0\r\nHost: site_upstream\r\nConnection: close\r\n\r\n",
}
"""By the first words of a row of the table."""


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    ini = tmp_path_factory.mktemp("checks") / "site.ini"
    ini.write_text(INI)
    server = create_server(load(f"config:{ini}"), host="127.0.0.1", port=0)
    threading.Thread(target=server.run, daemon=True).start()
    yield server.effective_port
    server.close()


def status_of(port: int, request: str) -> str:
    with closing(socket.create_connection(("127.0.0.1", port), timeout=10)) as client:
        client.sendall(request.encode())
        return client.recv(1000).decode("latin-1").split()[1]


@pytest.mark.parametrize("check", REQUESTS)
def test_a_default_check(check: str, port: int) -> None:
    [row] = re.findall(rf"   \* - {check}.*\n     - .*\n     - (\d+)\n     - (\d+)\n", PAGE.read_text())
    assert row == tuple(status_of(port, REQUESTS[check].format(path)) for path in ("/@@health", "/"))
    visitor = "GET / HTTP/1.1\r\nHost: www.example.com\r\nConnection: close\r\n\r\n"
    assert status_of(port, visitor) in ("200", "404"), "the host of the site is no 400"
