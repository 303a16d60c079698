"""The Dockerfile that ``pipeline deploy container`` writes: its steps run, and what it builds serves and drains."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from servers.base import wait_until
from servers.container import Container, can_be
from servers.deployed import TOP, Deployed

pytestmark = [pytest.mark.servers, pytest.mark.timeout(300)]

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


@pytest.fixture
def container(python: Path, public_dir: Path, missing: Callable[[str, str], NoReturn]) -> Iterator[Container]:
    if os.getuid() != 0 or not can_be():
        pytest.skip("it needs namespaces: run it as root, on a kernel that allows them")
    place = public_dir / "container"
    shutil.copytree(TOP / "etc", place / "etc")
    deployed = Deployed(python, place / "etc" / "deploy.ini", place / "site", "container")
    # An environment that is installed with -e has the source elsewhere.
    words = [python, "-c", "import pipeline; print(pipeline.__path__[0])"]
    source = Path(
        subprocess.run(words, capture_output=True, text=True, check=True, cwd=place).stdout.strip()
    ).parent
    mounts = [] if source.is_relative_to(python.parent.parent) else [source.parent]
    assert f"docker build -t site -f {place}/site/Dockerfile {place}" in deployed.printed
    container = Container(place / "site" / "Dockerfile", place, place / "root", python, mounts)
    try:
        yield container
    finally:
        container.kill()
        shutil.rmtree(place, ignore_errors=True)


def test_the_container(container: Container, tmp_path: Path) -> None:
    """It is healthy when it serves, has one process of a user that is not root, and drains on SIGTERM (R9)."""
    assert container.said["STOPSIGNAL"] == "SIGTERM" and container.said["VOLUME"] == "/data"
    container.start(tmp_path / "output.log")
    assert not container.healthy(), "it is not up yet"
    try:
        wait_until(container.healthy, 60, "the container is healthy", interval=0.2)
    except TimeoutError as error:
        raise AssertionError((tmp_path / "output.log").read_text()) from error

    state = dict(line.split(":\t", 1) for line in Path(f"/proc/{container.pid}/status").read_text().splitlines())
    assert state["Uid"].split()[0] == "10001" and state["NSpid"].split()[-1] == "1", "SIGTERM reaches gunicorn"
    assert container.inside("data/Data.fs").stat().st_uid == 10001, "the database is in the volume"
    write = container.in_it(["/bin/sh", "-c", "echo x > /tmp/x && ! echo x > /srv/site/x"])
    assert subprocess.run(write, env=container.environ, capture_output=True).returncode == 0

    words = container.in_it(
        [shutil.which("python", path=container.environ["PATH"]) or sys.executable, "-c", CLIENT]
    )
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdin is not None and client.stdout is not None
        assert client.stdout.readline() == "half is sent\n"
        time.sleep(0.3)
        os.kill(container.pid, 15)
        time.sleep(0.5)
        client.stdin.write("\n")
        client.stdin.flush()
        assert client.stdout.readline() == "HTTP/1.1 422 Unprocessable Entity True\n"
    assert container.unshare.wait(40) == 0
    said = (tmp_path / "output.log").read_text()
    assert "Traceback" not in said and "Shutting down: Master" in said
