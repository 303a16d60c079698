"""The Dockerfile that ``pipeline deploy container`` writes: its steps run, and what it builds serves and drains.

The sites are the one that ``pipeline new`` makes, and the same without its ``pyproject.toml``. Nothing of this
machine is readable in the container but programs and what the build copied.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, NoReturn

import pytest

from servers.base import wait_until
from servers.container import Container, can_be
from servers.deployed import TOP

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

CLIENT = """
import socket, sys, time
connection = socket.create_connection(("127.0.0.1", 8080), timeout=60)
body = b"login=admin&password=wrong&x=" + b"y" * 100_000
head = "POST /@@login HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\nContent-Length: %d\\r\\n"
head += "Content-Type: application/x-www-form-urlencoded\\r\\n\\r\\n"
connection.sendall((head % len(body)).encode() + body[:50_000])
print("half is sent", flush=True)
sys.stdin.readline()
connection.sendall(body[50_000:])
answer = b""
while block := connection.recv(65536):
    answer += block
print(answer.split(b"\\r\\n")[0].decode(), answer.rstrip().endswith(b"</html>"), flush=True)
"""
"""A client of the container that sends half of a form, and the rest when it is told to."""
ASK = """
import sys, urllib.request as u
print(u.urlopen(u.Request("http://127.0.0.1:8080/", headers={"Host": sys.argv[1]}), timeout=20).read().decode())
"""
CAN_READ = """
import os, sys
for path in sys.argv[1:]:
    print(path, os.access(path, os.R_OK))
"""
SECRETS = ("session_keys", "Data.fs", "variables.env", "wsgi-pipeline.key")
"""What stands beside the site on this machine, and is not for the image."""


class Project(NamedTuple):
    directory: Path
    ini: str
    host: str
    """A host that the site serves."""
    page: str
    """Words of its first page."""


@pytest.fixture(scope="module")
def python(wheel: Path, public_dir: Path, missing: Callable[[str, str], NoReturn]) -> Path:
    """The environment that docs/howto/serving.rst makes, and beside it the wheels of all that it needs."""
    if os.getuid() != 0 or not can_be():
        pytest.skip("it needs namespaces: run it as root, on a kernel that allows them")
    system = "/usr/bin/python3"
    if subprocess.run([system, "-c", "import ensurepip, venv"], stderr=subprocess.DEVNULL).returncode:
        missing(f"venv of {system}", "apt install python3-venv")
    place = public_dir / "of-the-container"
    run(system, "-m", "venv", place / "venv")
    found = place / "venv" / "bin" / "python"
    wanted = f"{wheel}[site,gunicorn]"
    run(found, "-m", "pip", "download", "-q", "-d", place / "wheels", wanted, "setuptools>=68")
    run(found, "-m", "pip", "install", "-q", "--no-index", "--find-links", place / "wheels", f"{wheel}[site]")
    return found


@pytest.fixture(params=["bare", "wiki"])
def project(request: pytest.FixtureRequest, python: Path) -> Iterator[Project]:
    directory = python.parents[2] / request.param
    run(python.with_name("pipeline"), "new", directory)
    made = Project(directory, "production.ini", "www.example.com", f"<h1>{request.param}</h1>")
    if request.param == "bare":  # an ini without a package is its own project
        (directory / "pyproject.toml").unlink()
    shutil.copytree(python.parents[2] / "wheels", directory / "wheels")
    (directory / "var").mkdir(exist_ok=True)
    for name in SECRETS:
        for place in (directory, directory / "var"):
            (place / name).write_text("It is on this machine alone.")
    yield made
    shutil.rmtree(directory)


def run(*words: str | Path, cwd: Path | None = None, **environ: str) -> str:
    names = ("PATH", "SSL_CERT_FILE", "PIP_CERT", "PIP_INDEX_URL", "HTTPS_PROXY", "HOME")
    kept = {name: value for name, value in os.environ.items() if name in names}
    done = subprocess.run(words, cwd=cwd, env=kept | environ, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def test_the_container(project: Project, python: Path, tmp_path: Path) -> None:
    """It serves its site, has one process of a user that is not root, and drains on SIGTERM (R9, S25)."""
    directory = project.directory
    words = ["deploy", "container", directory / project.ini, directory / "server"]
    said = run(python.with_name("pipeline"), *words, cwd=directory, PIP_NO_INDEX="1")
    assert f"docker build -t site -f {directory}/server/Dockerfile {directory}\n" in said
    lock = (directory / "server" / "requirements.txt").read_text()
    assert len(re.findall(r"^\S+==\S+ --hash=sha256:[0-9a-f]{64}$", lock, re.MULTILINE)) > 10

    place = directory.with_name("image")
    dockerfile = directory / "server" / "Dockerfile"
    container = Container(dockerfile, directory, place, {"PIP_NO_INDEX": "1"})
    try:
        assert container.said["STOPSIGNAL"] == "SIGTERM" and container.said["VOLUME"] == "/srv/site/var"
        served(container, project, tmp_path)
    finally:
        container.kill()
        shutil.rmtree(place)


def served(container: Container, project: Project, tmp_path: Path) -> None:
    """Run it, ask it for its page, and stop it."""
    output = tmp_path / "output.log"
    container.start(output)
    assert not container.healthy(), "it is not up yet"
    try:
        wait_until(container.healthy, 60, "the container is healthy", interval=0.2)
    except TimeoutError as error:
        raise AssertionError(output.read_text()) from error

    def inside(code: str, *words: str | Path) -> list[str]:
        return container.in_it(["/srv/venv/bin/python", "-c", code, *map(str, words)])

    def asked(code: str, *words: str | Path) -> str:
        done = subprocess.run(inside(code, *words), env=container.environ, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr + output.read_text()
        return done.stdout

    state = dict(line.split(":\t", 1) for line in Path(f"/proc/{container.pid}/status").read_text().splitlines())
    assert state["Uid"].split()[0] == "10001" and state["NSpid"].split()[-1] == "1", "SIGTERM reaches gunicorn"
    assert project.page in asked(ASK, project.host)
    data = container.inside("srv/site/var/Data.fs").stat()
    assert data.st_uid == 10001 and data.st_size > 100, "the database is in the volume"
    secrets = [f"/srv/site/{name}" for name in SECRETS]
    there = [*secrets, "/srv/site/var/variables.env", "/srv/site/wheels", project.directory, TOP, sys.prefix]
    assert "True" not in asked(CAN_READ, *there)
    write = container.in_it(["/bin/sh", "-c", "echo x > /tmp/x && ! echo x > /srv/site/x"])
    assert subprocess.run(write, env=container.environ, capture_output=True).returncode == 0

    if project.ini == "site.ini":
        with subprocess.Popen(inside(CLIENT), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
            assert client.stdin is not None and client.stdout is not None
            assert client.stdout.readline() == "half is sent\n"
            time.sleep(0.3)
            os.kill(container.pid, 15)
            time.sleep(0.5)
            client.stdin.write("\n")
            client.stdin.flush()
            assert client.stdout.readline() == "HTTP/1.1 422 Unprocessable Entity True\n"
    else:
        os.kill(container.pid, 15)
    assert container.unshare.wait(40) == 0
    said = output.read_text()
    assert "Traceback" not in said and "Shutting down: Master" in said
