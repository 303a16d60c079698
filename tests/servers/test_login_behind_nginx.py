"""S22: logins behind the real nginx, as ``pipeline deploy nginx etc/deploy.ini`` writes it, from many addresses."""

from __future__ import annotations

import grp
import os
import re
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlencode

import pytest

from pipeline_demo import site
from pipeline_demo.users import set_password
from servers.base import Missing, find_behind_nginx
from servers.deployed import TOP, Deployed, deployed, own

pytestmark = [pytest.mark.servers, pytest.mark.timeout(180)]


BY_HTTP = pytest.mark.parametrize("server", ["gunicorn", "granian"], indirect=True, scope="module")
"""Here nginx says in a header who the visitor is. uWSGI's protocol has an address alone, and an address of this
machine could be that of a proxy."""
ALL = pytest.mark.parametrize("server", ["gunicorn", "granian", "uwsgi"], indirect=True, scope="module")


@pytest.fixture(scope="module")
def server(
    request: pytest.FixtureRequest, public_dir: Path, missing: Callable[[str, str], NoReturn]
) -> Iterator[Deployed]:
    python = Path(os.environ.get("PIPELINE_SERVERS_PYTHON", sys.executable))
    try:
        find_behind_nginx(request.param, python)
    except Missing as error:
        missing(*error.args)
    place = public_dir / f"login-{request.param}"
    etc = shutil.copytree(TOP / "etc", place / "etc")
    uri = f"file://{place}/Data.fs?blobstorage_dir={place}/blobs"
    with site.connected(uri) as connection, connection.transaction_manager:
        set_password(site.root(connection.root()), "admin", "secret")
    own(place)
    words = ("nginx", "--behind", request.param, f"zodb_uri={uri}", f"session_keys={place}/keys")
    with deployed(python, etc / "deploy.ini", place / "site", *words) as server:
        yield server
    shutil.rmtree(place, ignore_errors=True)


def log_in(server: Deployed, name: str, password: str, address: str, **headers: str) -> tuple[HTTPResponse, str]:
    """Send the form of the login page from an address of this machine."""
    connection = HTTPConnection("127.0.0.1", server.port, timeout=30, source_address=(address, 0))
    try:
        connection.request(
            "POST",
            "/@@login",
            urlencode({"login": name, "password": password}),
            {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}
            | {header.replace("_", "-"): value for header, value in headers.items()},
        )
        answer = connection.getresponse()
        return answer, answer.read().decode()
    finally:
        connection.close()


@ALL
def test_one_visitor_does_not_lock_out_another(server: Deployed) -> None:
    """Names that do not exist are guessed at one address."""
    for number in range(12):
        answer, _ = log_in(server, f"nobody {number}", "guess", "127.0.0.80")
        assert answer.status in (422, 429)
    answer, _ = log_in(server, "admin", "secret", "127.0.0.81")
    assert answer.status == 303


@BY_HTTP
def test_the_address_of_the_visitor_has_to_wait(server: Deployed) -> None:
    """It has to wait whatever it says it is, and no other address has to."""
    for number in range(10):
        answer, _ = log_in(server, f"nobody {number}", "guess", "127.0.0.10")
        assert answer.status == 422
    for lie in ({}, {"X_Forwarded_For": "127.0.0.99"}, {"Forwarded": "for=127.0.0.99"}):
        answer, page = log_in(server, "admin", "secret", "127.0.0.10", **lie)
        assert answer.status == 429 and "Too many wrong passwords were tried from your network." in page
    answer, _ = log_in(server, "admin", "secret", "127.0.0.11")
    assert answer.status == 303


@BY_HTTP
def test_the_owner_gets_in_from_a_known_browser(server: Deployed) -> None:
    answer, _ = log_in(server, "admin", "secret", "127.0.0.20")
    known = "; ".join(cookie.partition(";")[0] for cookie in answer.headers.get_all("Set-Cookie", []))
    assert answer.status == 303 and "browser=" in known
    for number in range(12):
        answer, page = log_in(server, "admin", "guess", f"127.0.0.{30 + number}")
    wait = re.search(r"for this name, by you or by others\. Please try again in (\d+) seconds\.", page)
    assert answer.status == 429 and wait is not None and answer.getheader("Retry-After") == wait[1]
    assert log_in(server, "admin", "secret", "127.0.0.60")[0].status == 429
    assert log_in(server, "admin", "secret", "127.0.0.61", Cookie=known)[0].status == 303
    assert log_in(server, "admin", "secret", "127.0.0.20")[0].status == 303, "a known address"


@ALL
def test_the_log_has_the_address_of_the_visitor(server: Deployed) -> None:
    log_in(server, "admin", "guess", "127.0.0.70")
    assert re.search(r"^127\.0\.0\.70 - .*POST /@@login", server.said(), re.MULTILINE)


@ALL
def test_the_socket_and_the_variables_are_not_for_everybody(server: Deployed) -> None:
    """S25."""
    socket = (server.directory / "run" / "site.sock").stat()
    assert stat.S_ISSOCK(socket.st_mode) and stat.S_IMODE(socket.st_mode) == 0o660
    if os.getuid() == 0:
        assert grp.getgrgid(socket.st_gid).gr_name == "www-data"
    assert stat.S_IMODE((server.directory / "variables.env").stat().st_mode) == 0o600
    assert "Data.fs" not in (server.directory / "wsgi.py").read_text()
