"""The lines for nginx that docs/howto prints, in a real nginx: a visitor's own forms count for nothing."""

from __future__ import annotations

import re
import socket
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path
from typing import NoReturn

import pytest

from processes import Process
from servers.fixtures import running
from servers.nginx import Nginx

pytestmark = [pytest.mark.servers, pytest.mark.timeout(120)]

DOCS = Path(__file__).resolve().parents[2] / "docs" / "howto"

SITE = '''\
import sys
from waitress import serve
from pipeline import Pipeline, view
from pipeline.elements.errors import errors
from pipeline.elements.traverse import traverse
from pipeline.elements.vhost import vhost
from pipeline.publisher import publisher

class Folder(dict):
    __parent__ = __name__ = None

def folder(parent, name):
    parent[name] = made = Folder()
    made.__parent__, made.__name__ = parent, name
    return made

ROOT = Folder()
SITES = folder(ROOT, "sites")
for name in ("example", "secret"):
    site = folder(SITES, name)
    for page in ("a page", "x?y"):
        folder(site, page)

@view(context=Folder)
def show(context, request):
    return f"{request.absolute_url(context)} {request.application_url} {request.environ['REMOTE_ADDR']}"

@view(context=Folder, name="stream")
def stream(context, request):
    return (b"x" * 65536 for _ in range(160))

port, accept = sys.argv[1:]
site = Pipeline(
    vhost(trusted=("127.0.0.1",), accept=(accept,), allowed_hosts=("127.0.0.1",)),
    errors(), traverse(root=lambda: ROOT), publisher(scan=("__main__",)),
)
# Where nobody reads, a thread waits with little in memory, as with other servers.
options = {"threads": 2, "outbuf_high_watermark": 65536}
serve(site, host="127.0.0.1", port=port, clear_untrusted_proxy_headers=False, **options)
'''


def lines(document: str, name: str) -> str:
    """The lines of a block of a document."""
    text = (DOCS / document).read_text("utf-8")
    found = re.search(rf"code-block:: nginx\n +:name: {re.escape(name)}\n((?:\n| +.*\n)+)", text)
    assert found is not None, f"{document} has no lines {name} for nginx"
    return textwrap.dedent(found[1])


@pytest.fixture
def behind(
    start: Callable[..., Process],
    free_port: int,
    servers_dir: Path,
    tmp_path: Path,
    missing: Callable[[str, str], NoReturn],
) -> Iterator[Callable[[str, str], int]]:
    """``behind(lines, form)``: the port of an nginx with these lines, in front of a site that accepts that form."""
    (tmp_path / "site.py").write_text(SITE)
    with ExitStack() as stack:

        def behind(lines: str, form: str) -> int:
            start([sys.executable, tmp_path / "site.py", str(free_port), form], free_port)
            location = f"location / {{ proxy_pass http://site; {lines} }}"
            nginx = stack.enter_context(
                running(Nginx, servers_dir, missing, upstreams=[free_port], location=location)
            )
            return nginx.port

        yield behind


def ask(port: int, path: str, seconds: float = 10, **headers: str) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", port, timeout=seconds)
    try:
        connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def check_the_host_of_a_request_line(port: int) -> None:
    """S10: Host cannot name one that nginx did not look at. The site serves 127.0.0.1 only."""
    for line, host, status in (("127.0.0.1", "evil.example", 200), ("evil.example", "127.0.0.1", 400)):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
            head = f"GET http://{line}:{port}/ HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n"
            client.sendall(head.encode())
            answer = b"".join(iter(lambda: client.recv(65536), b""))
        assert answer.startswith(b"HTTP/1.1 %d " % status) and b"evil" not in answer, answer


@pytest.mark.parametrize("form", ["VirtualHostBase", "++vh++"])
def test_a_path_that_is_rewritten(behind: Callable[[str, str], int], form: str) -> None:
    """S9: in whatever way a visitor writes a path, the proxy's form is the only one."""
    port = behind(lines("virtual-hosting.rst", form), form)
    site = f"http://127.0.0.1:{port}"
    assert ask(port, "/") == (200, f"{site}/ {site} 127.0.0.1")
    for page in ("a%20page", "x%3Fy"):
        assert ask(port, f"/{page}/?z=%20") == (200, f"{site}/{page} {site} 127.0.0.1")
    for other in (
        f"/VirtualHostBase/http/127.0.0.1:{port}/sites/secret/VirtualHostRoot/",
        # A line feed does not match `^/(.*)$`, and nginx would pass on such a path as it is.
        f"/VirtualHostBase/http/127.0.0.1:{port}/sites/secret/VirtualHostRoot/_vh_%0A/",
        f"/sites/secret/++vh++http:127.0.0.1:{port}/%0A/++/",
        f"/sites/secret/++vh++http:127.0.0.1:{port}/++/",
        "/_vh_x/a%20page/",
        "/++/a%20page/",
    ):
        status, text = ask(port, other)
        assert status == 404, (other, text)


def test_a_path_with_a_prefix(behind: Callable[[str, str], int]) -> None:
    """S9: as above, for the line with ``_vh_docs``."""
    port = behind(lines("virtual-hosting.rst", "prefix"), "VirtualHostBase")
    site = f"http://127.0.0.1:{port}/docs"
    assert ask(port, "/docs/") == (200, f"{site}/ {site} 127.0.0.1")
    assert ask(port, "/docs/a%20page/") == (200, f"{site}/a%20page {site} 127.0.0.1")
    for other in ("/docs/_vh_x/", "/docs/_vh_%0A/a%20page/", "/docs/%0A", "/docs//_vh_x/a%20page/"):
        status, text = ask(port, other)
        assert status == 404, (other, text)


def test_headers(behind: Callable[[str, str], int]) -> None:
    """S13: each of them is the proxy's, or taken away."""
    port = behind(lines("virtual-hosting.rst", "X-Forwarded"), "X-Forwarded")
    site = f"http://127.0.0.1:{port}"
    sent = {
        "X_Forwarded_For": "203.0.113.5",
        "X_Forwarded_Host": "evil.example",
        "X_Forwarded_Port": "81",
        "X_Forwarded_Prefix": "/evil",
        "X_Forwarded_Proto": "https",
    }
    expected = (200, f"{site}/ {site} 127.0.0.1")
    assert ask(port, "/") == expected
    for name, value in sent.items():
        if name != "X_Forwarded_For":
            assert ask(port, "/", **{name: value}) == expected, name
    # The visitor of this test is on a trusted address, like a proxy; what it says of those before it counts.
    assert ask(port, "/", **sent) == (200, f"{site}/ {site} 203.0.113.5")
    check_the_host_of_a_request_line(port)


@pytest.mark.parametrize("buffering", [True, False])
def test_streams_that_nobody_reads(behind: Callable[[str, str], int], buffering: bool) -> None:
    """R10: nginx reads them for the client. Without that they stop the server, as the second case shows."""
    wanted = lines("deploy.rst", "buffered")
    assert "proxy_buffering on;" in wanted
    port = behind(wanted if buffering else wanted.replace("buffering on", "buffering off"), "X-Forwarded")
    check_the_host_of_a_request_line(port)
    unread = []
    try:
        for _ in range(4):
            client = socket.socket()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", port))
            client.sendall(b"GET /@@stream HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert client.recv(8) == b"HTTP/1.1"
            unread.append(client)
            if not buffering and len(unread) == 2:
                break
        if buffering:
            assert ask(port, "/")[0] == 200
        else:
            with pytest.raises(TimeoutError):
                ask(port, "/", seconds=3)
    finally:
        for client in unread:
            client.close()
