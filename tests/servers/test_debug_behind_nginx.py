"""Debug mode behind nginx with a plain ``proxy_pass``: without the key nobody sees a traceback (S17)."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from http.client import HTTPConnection, HTTPMessage
from pathlib import Path
from typing import NoReturn

import pytest

from ports import unused_port
from processes import Process
from servers.fixtures import running
from servers.nginx import Nginx

pytestmark = pytest.mark.servers

SITE = """\
from pipeline import view


@view(name="broken")
def broken(context, request):
    raise RuntimeError("the secret of the site")


def root(request=None):
    return {}
"""

INI = """\
[app:main]
use = egg:wsgi-pipeline#publisher
filter-with = traverse
scan = broken_site

[filter:traverse]
use = egg:wsgi-pipeline#traverse
root = broken_site:root
filter-with = errors

[filter:errors]
use = egg:wsgi-pipeline#errors
debug = true

[server:main]
use = egg:waitress#main
host = 127.0.0.1
port = %(http_port)s
"""


SCRIPT = """\
from pathlib import Path

from pipeline.paste import load

application = load(f"config:{Path(__file__).with_name('site.ini')}", http_port="0")
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "broken_site.py").write_text(SITE)
    (tmp_path / "site.ini").write_text(INI)
    (tmp_path / "site_script.py").write_text(SCRIPT)
    return tmp_path


@pytest.fixture
def site(start: Callable[..., Process], directory: Path) -> tuple[int, Process]:
    """The site, served by waitress."""
    port = unused_port()
    paster = Path(sys.executable).with_name("paster")
    command = [paster, "serve", "site.ini", f"http_port={port}"]
    environment = {"PYTHONPATH": str(directory), "PYTHONWARNINGS": "ignore"}
    return port, start(command, port, cwd=directory, env=environment)


def ask(port: int, path: str, **headers: str) -> tuple[int, HTTPMessage, str]:
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()
    finally:
        connection.close()


def test_a_traceback_needs_the_key(
    site: tuple[int, Process], servers_dir: Path, missing: Callable[[str, str], NoReturn]
) -> None:
    port, process = site
    plain = f"location / {{ proxy_pass http://127.0.0.1:{port}; }}"
    with running(Nginx, servers_dir, missing, upstreams=[port], location=plain) as nginx:
        for headers in ({}, {"Host": "www.example.com"}, {"Cookie": "debug-key=x"}):
            status, _, page = ask(nginx.port, "/broken", **headers)
            assert status == 500 and "Traceback" not in page and "secret" not in page
        found = re.search(r"/\?debug-key=\S+", process.said())
        assert found, process.said()
        status, answered, _ = ask(nginx.port, found[0])
        assert status == 303 and answered["Location"].endswith("/") and "debug" not in answered["Location"]
        cookie = answered["Set-Cookie"].partition(";")[0]
        status, _, page = ask(nginx.port, "/broken", Cookie=cookie)
        assert status == 500 and "Traceback" in page and "the secret of the site" in page


@pytest.mark.parametrize("preload", [True, False])
def test_several_workers_know_one_key(
    preload: bool, start: Callable[..., Process], directory: Path
) -> None:
    """They inherit the key if the site is loaded before they are forked; else the environment has it."""
    port = unused_port()
    gunicorn = Path(sys.executable).with_name("gunicorn")
    options = ["--bind", f"127.0.0.1:{port}", "--no-control-socket", "--workers", "3", *["--preload"] * preload]
    environment = {"PYTHONPATH": str(directory), "PYTHONWARNINGS": "ignore"}
    if not preload:
        environment["PIPELINE_DEBUG_KEY"] = "k" * 43
    command = [gunicorn, *options, "site_script:application"]
    process = start(command, port, cwd=directory, env=environment)
    assert ask(port, "/broken")[0] == 500  # by a worker that has loaded the site, and said so
    found = re.search(r"/\?debug-key=\S+", process.said())
    assert found, process.said()
    cookie = ask(port, found[0])[1]["Set-Cookie"].partition(";")[0]
    pages = [ask(port, "/broken", Cookie=cookie)[2] for _ in range(30)]
    assert all("Traceback" in page for page in pages)
