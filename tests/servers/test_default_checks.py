"""The checks of balancers, as they ask by default, get the answers of the table in docs/howto/instances.rst."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from asking import served
from inis import WITH_HEALTH, ini_of
from pipeline.paste import load

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "instances.rst"
SITE = ini_of(
    ("vhost", "errors", "traverse"),
    "servers.probe_views",
    "site",
    vhost="allowed_hosts = www.example.com",
    traverse="root = builtins:dict",
)
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
    ini.write_text(WITH_HEALTH + SITE)
    with served(load(f"config:{ini}")) as address:
        yield int(address.rpartition(":")[2])


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
