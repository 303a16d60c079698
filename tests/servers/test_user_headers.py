"""S13: a visitor cannot name a user in the header of single sign-on, through each proxy that `deploy` writes."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from typing import NoReturn

import pytest

from servers.base import Missing, find, find_behind_nginx
from servers.deployed import deployed, own

pytestmark = [pytest.mark.once, pytest.mark.servers, pytest.mark.timeout(120)]

VIEWS = """\
from pipeline import view

@view(context=dict)
def who(context, request):
    told = sorted(key for key in request.environ if key.startswith("HTTP_") and key.endswith("_USER"))
    return f"{request.principal}{request.script_name} {told}"

def check(request, login, password):
    return None
"""
INI = """\
[pipeline:main]
pipeline = vhost egg:wsgi-pipeline#errors who root end
[filter:vhost]
use = egg:wsgi-pipeline#vhost
trusted = unix
accept = x-forwarded
allowed_hosts = *
[filter:who]
use = egg:wsgi-pipeline#authenticate
check = users_in_headers:check
by = header
header = X_SSO_User
trusted = unix 127.0.0.1
[filter:root]
use = egg:wsgi-pipeline#traverse
root = builtins:dict
[app:end]
use = egg:wsgi-pipeline#publisher
scan = users_in_headers
"""
NAMES = "X-SSO-User", "x-sso-user", "X_SSO_User", "X-Forwarded-User", "Remote-User", "SCRIPT_NAME", "SCRIPT-NAME"


def site_in(place: Path) -> Path:
    place.mkdir()
    (place / "users_in_headers.py").write_text(VIEWS)
    (place / "site.ini").write_text(INI)
    own(place)
    return place


def ask(connection: HTTPConnection, header: str) -> str:
    try:
        connection.request("GET", "/", headers={header: "/" if header.startswith("SCRIPT") else "ann"})
        return connection.getresponse().read().decode()
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("target", "behind"), [*(("nginx", server) for server in ("granian", "gunicorn", "uwsgi")), ("lighttpd", "")],
)
def test_a_visitor_does_not_say_who_it_is__S13(
    target: str, behind: str, public_dir: Path, missing: Callable[[str, str], NoReturn]
) -> None:
    python = Path(os.environ.get("PIPELINE_SERVERS_PYTHON", sys.executable))
    try:
        if behind:
            find_behind_nginx(behind, python)
        else:
            find("lighttpd", "apt install lighttpd")
    except Missing as error:
        missing(*error.args)
    place = site_in(public_dir / f"users-{target}-{behind}")
    options = ("--behind", behind) if behind else ()
    with deployed(python, place / "site.ini", place / "site", target, *options, started=False) as server:
        if behind:  # in the nginx of the system, which may have another site that needs these
            conf = server.directory / "nginx.conf"
            conf.write_text(conf.read_text().replace("http {", "http { underscores_in_headers on;"))
        server.start()
        for header in NAMES:
            assert ask(HTTPConnection("127.0.0.1", server.port, timeout=30), header) == "None []", header
        if behind != "uwsgi":  # the proxy itself is believed
            proxy = HTTPConnection("127.0.0.1", timeout=30)
            proxy.sock = socket.socket(socket.AF_UNIX)
            proxy.sock.connect(str(server.directory / "run" / "site.sock"))
            assert ask(proxy, "X-SSO-User") == "ann ['HTTP_X_SSO_USER']"
    shutil.rmtree(place, ignore_errors=True)


@pytest.mark.parametrize("target", ["granian", "gunicorn", "uwsgi"])
def test_a_proxy_drops_what_the_server_would_take_for_its_own_header__S13(
    target: str, public_dir: Path, missing: Callable[[str, str], NoReturn]
) -> None:
    """A trusted proxy that sets X-SSO-User passes on the X_SSO_User of a visitor. Two servers take it for that."""
    python = Path(os.environ.get("PIPELINE_SERVERS_PYTHON", sys.executable))
    place = site_in(public_dir / f"underscores-{target}")
    try:
        server = deployed(python, place / "site.ini", place / "site", target)
    except Missing as error:
        missing(*error.args)
    with server as running:
        told = ask(HTTPConnection("127.0.0.1", running.port, timeout=30), "X_SSO_User")
        has_note = "drop headers with an underscore" in running.printed
    takes_it = target in ("granian", "uwsgi")
    assert (told, has_note) == (("ann ['HTTP_X_SSO_USER']", True) if takes_it else ("None []", False))
    shutil.rmtree(place, ignore_errors=True)
