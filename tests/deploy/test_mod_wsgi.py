"""``etc/pipeline.wsgi`` under Debian's Apache with mod_wsgi in daemon mode, the second way of use.

mod_wsgi is tied to the Python it was built with, so the environment is made with /usr/bin/python3. Apache
runs in the foreground from a temporary ServerRoot; when started by root it serves as www-data, which may
not read a private home: what it serves is installed in, or copied to, a public temporary directory.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest

from environments import NOT_COPIED, make_environment

TOP = Path(__file__).resolve().parents[2]
MODULES = Path("/usr/lib/apache2/modules")

CONFIGURATION = """\
ServerRoot {root}
DefaultRuntimeDir run
PidFile run/apache.pid
ErrorLog /dev/stderr
ServerName 127.0.0.1
Listen 127.0.0.1:{port}
{user}

LoadModule mpm_event_module {modules}/mod_mpm_event.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule alias_module {modules}/mod_alias.so
LoadModule wsgi_module {modules}/mod_wsgi.so

AllowEncodedSlashes NoDecode
WSGISocketPrefix run/wsgi
# One process: a database in a file belongs to one process at a time.
WSGIDaemonProcess site processes=1 threads=5 python-home={venv} lang=C.UTF-8 locale=C.UTF-8
WSGIProcessGroup site
WSGIApplicationGroup %{{GLOBAL}}
WSGIPassAuthorization On
WSGIChunkedRequest On
WSGIScriptAlias {prefix} {etc}/pipeline.wsgi
<Directory {etc}>
    Require all granted
</Directory>
"""


@pytest.fixture(scope="module")
def venv(public_dir: Path, missing: Callable[[str, str], None]) -> Path:
    """An environment of the operating system's Python with the demo site installed in it."""
    if not (MODULES / "mod_wsgi.so").exists():
        missing("Apache's mod_wsgi", "apt install apache2 libapache2-mod-wsgi-py3")
    python = "/usr/bin/python3"
    if subprocess.run([python, "-c", "import ensurepip, venv"], stderr=subprocess.DEVNULL).returncode:
        missing(f"venv of {python}", "apt install python3-venv")
    if subprocess.run([python, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]).returncode:
        missing(f"{python} of version 3.11 or newer", "Debian 12 has it")
    source = shutil.copytree(TOP, public_dir / "source", ignore=NOT_COPIED)
    make_environment(public_dir / "venv", source, source / "examples/demo", python=python)
    return public_dir / "venv"


@pytest.fixture
def apache(
    venv: Path,
    public_dir: Path,
    program: Callable[[str, str], str],
    start: Callable[..., Any],
    free_port: int,
) -> Callable[[str], tuple[str, Any]]:
    """``apache(prefix)`` serves the site below `prefix`, and returns its address and its process."""

    def apache(prefix: str) -> tuple[str, Any]:
        executable = program("apache2", "apt install apache2 libapache2-mod-wsgi-py3")
        root = public_dir / f"apache-{free_port}"
        (root / "run").mkdir(parents=True)
        shutil.copytree(TOP / "etc", root / "etc")
        shutil.copytree(TOP / "docs", root / "docs", ignore=NOT_COPIED)
        data = root / "var"
        data.mkdir()
        as_root = os.geteuid() == 0
        if as_root:
            shutil.chown(data, "www-data", "www-data")
        configuration = CONFIGURATION.format(
            root=root,
            port=free_port,
            user="User www-data\nGroup www-data" if as_root else "",
            modules=MODULES,
            venv=venv,
            prefix=prefix,
            etc=root / "etc",
        )
        (root / "apache.conf").write_text(configuration)
        server = start([executable, "-d", root, "-f", root / "apache.conf", "-DFOREGROUND"], free_port)
        return f"http://127.0.0.1:{free_port}{prefix.rstrip('/')}/", server

    return apache


@pytest.mark.servers
@pytest.mark.parametrize("prefix", ["/", "/app"])
def test_the_site_under_mod_wsgi(
    prefix: str,
    apache: Callable[[str], tuple[str, Any]],
    get: Callable[..., Any],
    visit: Callable[[str, Any], set[str]],
    use: Callable[[str, Any], None],
) -> None:
    site, server = apache(prefix)
    first = get(site)
    assert first.status == 200, first.text + server.said()
    assert first.headers.get_content_type() == "text/html"
    assert "<h1" in first.text
    # Every link and every redirect stays below the prefix.
    assert len(visit(site, server)) > 3
    use(site, server)
    assert "Traceback" not in server.said()


@pytest.mark.servers
def test_a_redirect_carries_the_prefix(apache: Callable[[str], tuple[str, Any]], get: Callable[..., Any]) -> None:
    site, _ = apache("/app")
    answer = get(site.rstrip("/"))
    assert answer.status in (301, 302, 303, 307, 308)
    assert urljoin(site, answer.headers["Location"]) == site
