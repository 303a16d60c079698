"""Private servers on free ports of 127.0.0.1, each with a directory of its own, and wrk.

with Servers() as servers:
    server = servers.start("waitress", "pipeline")
    wrk(server, connections=8, seconds=1)
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from socket import create_server
from typing import Any

from bench.contenders import PATH
from bench.measure import HEADERS, Figure
from bench.serving import ran

TOP = Path(__file__).resolve().parent.parent
MODULES = Path("/usr/lib/apache2/modules")
THREADS = 8

APP = """\
import logging, sys, tempfile
sys.path.insert(0, {top!r})
tempfile.tempdir = {directory!r}
logging.getLogger("waitress.queue").setLevel(logging.ERROR)
from bench.serving import make
application = make({app!r}, {counts!r})
"""

APACHE = """\
ServerRoot {directory}
DefaultRuntimeDir {directory}
PidFile apache.pid
ErrorLog /dev/stderr
ServerName 127.0.0.1
Listen 127.0.0.1:{port}
{user}
LoadModule mpm_event_module {modules}/mod_mpm_event.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule alias_module {modules}/mod_alias.so
StartServers 1
ServerLimit 1
ThreadLimit 150
ThreadsPerChild 150
MaxRequestWorkers 150
MaxKeepAliveRequests 0
<Directory {directory}>
    Require all granted
</Directory>
{serve}
"""

MOD_WSGI = """\
LoadModule wsgi_module {modules}/mod_wsgi.so
WSGISocketPrefix {directory}/wsgi
WSGIDaemonProcess site processes=1 threads={threads} python-path={packages} lang=C.UTF-8 locale=C.UTF-8
WSGIScriptAlias / {directory}/app.py process-group=site application-group=%{{GLOBAL}}
"""

NGINX = """\
daemon off;
worker_processes 1;
pid {directory}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 512; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    sendfile on;
    default_type text/html;
    server {{
        listen 127.0.0.1:{port};
        location / {{ {serve} }}
    }}
}}
"""


class Missing(Exception):
    """A server that is not installed here, or cannot serve what is; the reason in words."""


@dataclass
class Server:
    """A server that runs. ``port`` is its own, or that of what stands in front of it."""

    name: str
    process: subprocess.Popen[bytes]
    directory: Path
    port: int
    address: str
    """The address to which a proxy connects."""

    @property
    def counts(self) -> Path:
        return self.directory / "counts"

    def get(self, path: str = PATH) -> bytes:
        client = HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            client.request("GET", path)
            answer = client.getresponse()
            body = answer.read()
            if answer.status != 200:
                raise HTTPException(f"{self.name} answered {answer.status} {body[:200]!r}\n{self.said()}")
            return body
        finally:
            client.close()

    def wait_for(self, path: str, body: bytes) -> None:
        """Return when this is what it answers, byte for byte; SystemExit if it ends, or answers anything else."""
        end = time.monotonic() + 30
        while self.process.poll() is None and time.monotonic() < end:
            try:
                found = self.get(path)
            except OSError:
                time.sleep(0.02)
                continue
            if found != body:
                raise SystemExit(f"{self.name} answered {found[:200]!r}, not {body[:200]!r}")
            return
        raise SystemExit(f"{self.name} does not serve:\n{self.said()}")

    def said(self) -> str:
        return (self.directory / "said").read_text(errors="replace")[-2_000:]

    def stop(self) -> None:
        """End it, and all that it started."""
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


class Servers:
    """Those of a suite; all are stopped when it ends."""

    def __enter__(self) -> Servers:
        self.running = ExitStack()
        return self

    def __exit__(self, *error: object) -> None:
        self.running.close()

    def start(self, name: str, app: str, path: str = PATH, body: bytes = b"hello") -> Server:
        """Start the server ``name`` with an app of ``bench.serving``; return when it answers as it should."""
        server = self.start_behind(name, app)
        server.wait_for(path, body)
        if not ran(server.counts):
            raise SystemExit(f"{server.name} answers without running its application")
        return server

    def start_behind(self, name: str, app: str, unix: bool = False) -> Server:
        """The same for what a proxy asks, by INET or by a UNIX socket; nothing is asked yet."""
        directory = _public_directory()
        (directory / "counts").mkdir()
        (directory / "counts").chmod(0o777)  # for the user that Apache's processes run as
        names = {"top": str(TOP), "directory": str(directory), "counts": str(directory / "counts"), "app": app}
        (directory / "app.py").write_text(APP.format(**names))
        port = unused_port()
        address = f"unix:{directory}/socket" if unix else f"127.0.0.1:{port}"
        return self.run(f"{name} with {app}", _command(name, directory, address), directory, port, address)

    def static(self, name: str, path: str, data: bytes) -> Server:
        """nginx or Apache with a file."""
        directory = _public_directory()
        file = directory / "files" / path.removeprefix("/")
        file.parent.mkdir(parents=True)
        file.write_bytes(data)
        port = unused_port()
        if name == "nginx":
            command = _nginx(directory, port, f"root {directory}/files;")
        else:
            command = _apache(directory, port, f"Alias / {directory}/files/")
        server = self.run(f"{name} with a file", command, directory, port)
        server.wait_for(path, data)
        return server

    def nginx(self, behind: Server, path: str = PATH, body: bytes = b"hello") -> Server:
        """nginx in front of a server; it counts what that one counts."""
        directory = _public_directory()
        port = unused_port()
        if behind.name.startswith("uWSGI"):
            passes = f"include /etc/nginx/uwsgi_params; uwsgi_pass {behind.address};"
        else:
            passes = f"proxy_pass http://{behind.address}; proxy_set_header Host $http_host;"
        front = self.run(f"nginx before {behind.name}", _nginx(directory, port, passes), directory, port)
        (directory / "counts").symlink_to(behind.counts)
        end = time.monotonic() + 20
        while True:  # until the server behind it is there
            try:
                front.wait_for(path, body)
                return front
            except HTTPException:  # 502
                if time.monotonic() > end:
                    raise SystemExit(f"{behind.name} does not serve:\n{behind.said()}") from None
                time.sleep(0.1)

    def run(self, name: str, command: list[Any], directory: Path, port: int, address: str = "") -> Server:
        with (directory / "said").open("wb") as said:
            process = subprocess.Popen(
                command, cwd=directory, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
            )
        server = Server(name, process, directory, port, address)
        self.running.callback(server.stop)
        return server


def _command(name: str, directory: Path, address: str) -> list[Any]:
    """The command that starts a server in a directory with an ``app.py``."""
    python = [sys.executable, "-W", "ignore", "-m"]
    kind, _, processes = name.partition(" x ")
    if kind == "waitress":
        where = [f"--listen={address}"]
        if address.startswith("unix:"):
            where = [f"--unix-socket={address.removeprefix('unix:')}", "--unix-socket-perms=666"]
        more = [f"--threads={THREADS}", "--connection-limit=1000"]  # beyond its 100 it lets connections wait
        return [*python, "waitress", *where, *more, "app:application"]
    if kind == "gunicorn":
        threads = ["--worker-class=gthread", f"--threads={THREADS}", "--keep-alive=60"]
        workers = ["--no-control-socket", f"--workers={processes or 1}"]
        return [*python, "gunicorn", *workers, *threads, f"--bind={address}", "app:application"]
    if kind == "Granian":
        host, _, port = address.rpartition(":")
        where = [f"--host={host}", f"--port={port}", f"--workers={processes or 1}"]
        more = ["--interface=wsgi", "--no-ws", "--backpressure=1000", f"--blocking-threads={THREADS}"]
        return [*python, "granian", *where, *more, "app:application"]
    if kind.startswith("uWSGI"):
        uwsgi = Path(sysconfig.get_path("scripts"), "uwsgi")
        if not uwsgi.exists():
            raise Missing("uWSGI is not installed: pip install uWSGI, which needs a C compiler")
        listen = {
            "uWSGI": ["--http", address, "--http-keepalive"],
            "uWSGI http-socket": ["--http-socket", address],
            "uWSGI socket": ["--socket", address.removeprefix("unix:"), "--chmod-socket=666"],
        }[name]
        more = [
            "--threads",
            THREADS,
            "--listen",
            200,
            "--disable-logging",
            "--die-on-term",
            "--wsgi-file",
            "app.py",
        ]
        return list(map(str, [uwsgi, *listen, *more, "--virtualenv", sys.prefix]))
    port = int(address.rpartition(":")[2])
    return _apache(directory, port, _mod_wsgi(directory))


def _mod_wsgi(directory: Path) -> str:
    """mod_wsgi brings its own Python; what is installed here suits it, if that is of the same version."""
    if not (MODULES / "mod_wsgi.so").exists():
        raise Missing("mod_wsgi is not installed: apt install apache2 libapache2-mod-wsgi-py3")
    has = subprocess.run(["/usr/bin/python3", "-V"], capture_output=True, text=True, check=True).stdout.split()[1]
    if has.split(".")[:2] != sys.version.split(".")[:2]:
        raise Missing(f"mod_wsgi has Python {has}, which cannot use what is installed for {sys.version.split()[0]}")
    packages = Path(sysconfig.get_path("platlib"))
    for place in (packages, *packages.parents, TOP, *TOP.parents):
        if os.geteuid() == 0 and not place.stat().st_mode & 0o001:
            raise Missing(f"Apache's user may not read {place}")
    return MOD_WSGI.format(modules=MODULES, directory=directory, threads=THREADS, packages=packages)


def _apache(directory: Path, port: int, serve: str) -> list[Any]:
    user = "User www-data\nGroup www-data" if os.geteuid() == 0 else ""
    conf = directory / "apache.conf"
    conf.write_text(APACHE.format(directory=directory, port=port, user=user, modules=MODULES, serve=serve))
    return [_program("apache2"), "-d", directory, "-f", conf, "-DFOREGROUND"]


def _nginx(directory: Path, port: int, serve: str) -> list[Any]:
    conf = directory / "nginx.conf"
    conf.write_text(NGINX.format(directory=directory, port=port, serve=serve))
    return [_program("nginx"), "-e", "stderr", "-p", directory, "-c", conf]


def _program(name: str) -> str:
    found = shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
    if found is None:
        raise Missing(f"{name} is not installed: apt install {name}")
    return found


def _public_directory() -> Path:
    directory = Path(tempfile.mkdtemp())
    for place in (directory, directory.parent):
        place.chmod(0o777)
    return directory


def unused_port() -> int:
    with create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@dataclass
class Load:
    """The findings of wrk: requests in a second, and the milliseconds within which 99 of 100 were answered."""

    rate: float
    p99: float


ASKING = [
    f"-H{name.removeprefix('HTTP_').replace('_', '-')}: {value}"
    for name, value in HEADERS.items()
    if name not in ("HTTP_HOST", "HTTP_CONNECTION")
]


def wrk(server: Server, connections: int, seconds: float, path: str = PATH) -> Load:
    """Ask a server for a while; SystemExit if anything went wrong, or its app did not run for every answer."""
    counted = server.counts.exists()
    before = ran(server.counts) if counted else 0
    command = [_program("wrk"), "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", *ASKING]
    command += ["-s", str(Path(__file__).with_name("wrk.lua")), f"http://127.0.0.1:{server.port}{path}"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    requests, took, p99, wrong = map(float, said.rpartition("found ")[2].split())
    if wrong or not requests:
        raise SystemExit(
            f"{server.name}, {connections} connections: {wrong:.0f} went wrong\n{said}\n{server.said()}"
        )
    if counted and ran(server.counts) - before < requests:
        raise SystemExit(f"{server.name} did not run its application for every request")
    return Load(requests / took, p99)


def in_turn(
    servers: Mapping[str, Server], connections: int, rounds: int, seconds: float, path: str = PATH
) -> Iterator[tuple[str, Figure, Figure]]:
    """Ask each of them in turn: its name, requests in a second, and milliseconds at the 99th percentile."""
    found: dict[str, list[Load]] = {name: [] for name in servers}
    for _ in range(rounds):
        for name, server in servers.items():
            found[name].append(wrk(server, connections, seconds, path))
    for name, loads in found.items():
        yield name, Figure.of(load.rate for load in loads), Figure.of(load.p99 for load in loads)
