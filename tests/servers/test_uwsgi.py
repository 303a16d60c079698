"""Chunked bodies on a real uWSGI: its own HTTP, its router, and behind nginx by two protocols (R11, S11)."""

from __future__ import annotations

import contextlib
import re
import socket
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, NoReturn

import pytest

from pipeline_demo import site, users
from servers.base import wait_until
from servers.fixtures import running
from servers.nginx import Nginx
from servers.uwsgi import ETC, UWSGI

pytestmark = [pytest.mark.servers, pytest.mark.timeout(300)]

PASSWORD = "correct horse"
KEY = b"Basic " + b64encode(f"admin:{PASSWORD}".encode())
Skip = Callable[[str, str], NoReturn]


class Answer(NamedTuple):
    status: int
    head: str
    body: str


def send(port: int, head: str, *parts: bytes, hang_up: bool = False) -> Answer:
    """Send a request as it stands, and read until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        common = b"Host: 127.0.0.1:%d\r\nAuthorization: %s\r\n" % (port, KEY)
        client.sendall(head.encode() + b"\r\n" + common + b"".join(parts))
        if hang_up:
            client.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: client.recv(65536), b"")).decode()
    head, _, body = answer.partition("\r\n\r\n")
    if not head:
        raise ConnectionResetError("the server closed the connection without an answer")
    return Answer(int(head.split()[1]), head, body)


def get(port: int, path: str) -> Answer:
    return send(port, f"GET {path} HTTP/1.0", b"\r\n")


CHUNKED = b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"


def chunks(body: bytes, size: int) -> bytes:
    parts = [body[place : place + size] for place in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


@contextlib.contextmanager
def serving(directory: Path, missing: Skip, **options: object) -> Iterator[UWSGI]:
    """A site with the page ``page.md``, on uWSGI."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(site, "documentation", lambda: None)
        original = UWSGI.start

        def start(self: UWSGI, seconds: float = 60) -> None:
            site.create(self.uri)
            with site.connected(self.uri) as connection, connection.transaction_manager:
                users.set_password(site.root(connection.root()), "admin", PASSWORD)
            original(self, seconds)

        patch.setattr(UWSGI, "start", start)
        with running(UWSGI, directory, missing, **options) as server:
            if server.socket.startswith("http"):
                created = send(server.port, "PUT /page.md HTTP/1.0", b"Content-Length: 5\r\n\r\n", b"first")
                assert created.status == 201, server.said()
            yield server


HTTP = {
    "http-socket": {"socket": "http-socket"},
    "the router": {"socket": "http", "options": ("--http-chunked-input",)},
}


@pytest.fixture(scope="module", params=HTTP)
def uwsgi(request: pytest.FixtureRequest, servers_dir: Path, missing: Skip) -> Iterator[UWSGI]:
    options = HTTP[request.param]
    more = (*options.get("options", ()), "--socket-timeout", "2")
    with serving(servers_dir, missing, socket=options["socket"], options=more) as server:
        yield server


@pytest.mark.parametrize("size", [7, 1_000, 60_000])
def test_a_chunked_put_is_stored(uwsgi: UWSGI, size: int) -> None:
    body = b"# Tea\n\n" + b"Green tea. " * 20_000
    answer = send(uwsgi.port, "PUT /page.md HTTP/1.1", CHUNKED, chunks(body, size))
    assert answer.status == 204, uwsgi.said()
    assert len(get(uwsgi.port, "/page.md").body) > 200_000


def test_a_chunked_form_is_read(uwsgi: UWSGI) -> None:
    """By ``forms``, in the pipeline of browsers: what it lacks is said of the form, and not of an empty one."""
    kind = b"Content-Type: application/x-www-form-urlencoded\r\n"
    answer = send(uwsgi.port, "POST /@@login HTTP/1.1", kind, CHUNKED, chunks(b"came_from=%2F&login=admin", 5))
    assert answer.status < 500 and 'value="admin"' in answer.body, answer


def test_a_chunked_call_is_read(uwsgi: UWSGI) -> None:
    """By XML-RPC."""
    call = b"<?xml version='1.0'?><methodCall><methodName>list</methodName><params/></methodCall>"
    answer = send(uwsgi.port, "POST / HTTP/1.1", b"Content-Type: text/xml\r\n", CHUNKED, chunks(call, 30))
    assert answer.status == 200 and "page.md" in answer.body, answer


BROKEN = {
    # what it is: what is sent, and the status
    "it breaks off": (b"5\r\nhel", True, 400),
    "no size": (b"zz\r\nhello\r\n", False, 400),
    "no end of a chunk": (b"fffffffffffffff0\r\nhello\r\n0\r\n\r\n", False, 400),
    "no further chunk": (b"5\r\nhello\r\n", False, 408),
    "a chunk beyond uWSGI's limit": (chunks(b"x" * 1_100_000, 1_100_000), False, 400),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_body_stores_nothing(uwsgi: UWSGI, what: str) -> None:
    """R11: one line of log, no traceback, and the page is what it was."""
    sent, hangs_up, status = BROKEN[what]
    before = get(uwsgi.port, "/page.md").body
    said = len(uwsgi.said())
    answer: Answer | None = None
    with contextlib.suppress(ConnectionResetError):  # the rest is not read, or the router gives up
        answer = send(uwsgi.port, "PUT /page.md HTTP/1.1", CHUNKED, sent, hang_up=hangs_up)
    assert answer is None or answer.status == status

    def told() -> list[str]:
        return [line for line in uwsgi.said()[said:].splitlines() if "pipeline.http" in line]

    lines = wait_until(told, 10, "the line of a client that has gone comes after him")
    assert len(lines) == 1 and f"PUT /page.md: {status}, the body failed after" in lines[0], lines
    assert "Traceback" not in uwsgi.said()
    assert get(uwsgi.port, "/page.md").body == before


def test_a_body_shorter_than_its_length_stores_nothing(uwsgi: UWSGI) -> None:
    before = get(uwsgi.port, "/page.md").body
    answer = send(uwsgi.port, "PUT /page.md HTTP/1.1", b"Content-Length: 9\r\n\r\n", b"short")
    assert answer.status == 408 if uwsgi.socket == "http-socket" else answer.status in (408, 504), answer
    assert get(uwsgi.port, "/page.md").body == before
    assert "Traceback" not in uwsgi.said()


def test_a_router_that_keeps_the_chunks_is_refused(servers_dir: Path, missing: Skip) -> None:
    """R11: without ``http-chunked-input`` it passes none of them on, and says so nowhere."""
    with serving(servers_dir, missing, socket="http", options=("--socket-timeout", "2")) as server:
        answer = send(server.port, "PUT /page.md HTTP/1.1", CHUNKED, chunks(b"second", 3))
        assert answer.status == 408
        assert "first" in get(server.port, "/page.md").body
        assert "http-chunked-input" in server.said()


def location(protocol: str, port: int) -> str:
    """What ``etc/nginx-uwsgi.conf`` has, for that protocol and port."""
    text = (ETC / "nginx-uwsgi.conf").read_text()
    return re.sub(r"\buwsgi_(pass|param)", rf"{protocol}_\1", text).replace("127.0.0.1:3031", f"127.0.0.1:{port}")


@pytest.mark.parametrize(("protocol", "option"), [("uwsgi", "socket"), ("fastcgi", "fastcgi-socket")])
def test_a_chunked_body_behind_nginx(protocol: str, option: str, servers_dir: Path, missing: Skip) -> None:
    """S11 stays strict: it is nginx that is told to pass one length, by a line of what we ship."""
    with serving(servers_dir, missing, socket=option) as server:
        with running(Nginx, servers_dir, missing, location=location(protocol, server.port)) as nginx:
            answer = send(nginx.port, "PUT /page.md HTTP/1.1", CHUNKED, chunks(b"# Behind nginx", 3))
            assert answer.status == 201, (answer, server.said())
            assert "Behind nginx" in get(nginx.port, "/page.md").body
        both = location(protocol, server.port).replace(f'{protocol}_param HTTP_TRANSFER_ENCODING "";', "")
        with running(Nginx, servers_dir, missing, location=both) as nginx:
            answer = send(nginx.port, "PUT /page.md HTTP/1.1", CHUNKED, chunks(b"third", 3))
            assert answer.status == 400 and "contradict each other" in answer.body
            assert "Behind nginx" in get(nginx.port, "/page.md").body
