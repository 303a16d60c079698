"""The site that tests/servers deploys: an environment of the system's Python, the inis, and a database in ZEO."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import NoReturn

import pytest

from environments import NOT_COPIED, UV, install, make_environment
from pipeline_demo import site
from pipeline_demo.users import set_password
from servers.deployed import TOP, own
from servers.fixtures import running
from servers.zeo import ZEO


@pytest.fixture(scope="session")
def python(public_dir: Path, missing: Callable[[str, str], NoReturn]) -> Path:
    """Debian's Python in an environment with the site and the servers: the one that mod_wsgi is built for.

    PIPELINE_SERVERS_PYTHON names one that is there already.
    """
    if given := os.environ.get("PIPELINE_SERVERS_PYTHON"):
        return Path(given)
    system = "/usr/bin/python3"
    if subprocess.run([system, "-c", "import ensurepip, venv"], stderr=subprocess.DEVNULL).returncode:
        missing(f"venv of {system}", "apt install python3-venv")
    return make_python(public_dir, system)


def make_python(directory: Path, system: str = "/usr/bin/python3", kept: Path | None = None) -> Path:
    """Return the Python of a new environment with the site and the servers, in a directory.

    kept  directory of such environments, by their requirements. Each is copied, and gets the site of this checkout.
    """
    source = shutil.copytree(TOP, directory / "servers-source", ignore=NOT_COPIED)
    mod_wsgi = ["mod_wsgi"] if shutil.which("apxs") else []  # apxs is in apache2-dev
    packages = [f"{source}[zeo,servers]", source / "examples/demo", *mod_wsgi]
    venv = directory / "servers-venv"
    if kept is None or UV is None:
        return make_environment(venv, *packages, python=system)
    version = subprocess.check_output([system, "-VV"])
    key = sha256(version + (TOP / "setup.py").read_bytes() + repr(mod_wsgi).encode()).hexdigest()[:16]
    if not (kept / key).exists():
        shutil.rmtree(kept, ignore_errors=True)
        make_environment(kept / "new", *packages, python=system, options=["--relocatable"])
        (kept / "new").rename(kept / key)
    shutil.copytree(kept / key, venv, symlinks=True)
    install(venv / "bin" / "python", "--no-deps", "--reinstall", str(source), str(source / "examples/demo"))
    return venv / "bin" / "python"


@pytest.fixture(scope="session")
def inis(public_dir: Path, servers_dir: Path, missing: Callable[[str, str], NoReturn]) -> Iterator[Path]:
    """The ini of the site, with what it needs beside it, and its database in ZEO."""
    directory = public_dir / "etc"
    shutil.copytree(TOP / "etc", directory)
    here = Path(__file__).parent
    shutil.copy(here / "matrix.ini", directory)
    shutil.copy(here / "probe_views.py", directory)
    (directory / "var").mkdir()
    (directory / "large.bin").write_bytes(bytes(range(256)) * 40960)
    own(directory)
    with running(ZEO, servers_dir, missing) as zeo:
        with site.connected(blobs_in(zeo, servers_dir / "cache")) as connection, connection.transaction_manager:
            set_password(site.root(connection.root()), "admin", "secret")
        (directory / "uri").write_text(blobs_in(zeo, directory / "var" / "blobs"))
        yield directory


def blobs_in(zeo: ZEO, directory: Path) -> str:
    """Return the URI of the database, with a cache of its blobs."""
    return zeo.uri(options=f"blob_dir={directory}&shared_blob_dir=0")
