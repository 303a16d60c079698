"""The site of etc/deploy.ini as its clients get it: filtered, compressed, in parts, from real servers."""

from __future__ import annotations

import hashlib
import re
import shutil
import socket
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPMessage, IncompleteRead
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import brotli
import html5lib
import pytest
from webob import Request as Asked
from webtest import TestApp

from pipeline_demo import site
from pipeline_demo.content import store
from pipeline_demo.models import Document, File, Folder
from ports import unused_port
from processes import TOP, Process
from unpacking import zstd_unpacker

from .streams import LINE, LINES, PAUSE

TEXT = b"A line of a long file, which is number %d.\n"
LOG = b"".join(TEXT % number for number in range(20_000))
PICTURE = b"\x89PNG\r\n\x1a\n" + b"".join(hashlib.sha256(b"%d" % n).digest() for n in range(10_000))


def write_ini(directory: Path, port: int) -> Path:
    """etc/deploy.ini with the views of ``streams`` and with data of its own."""
    text = (TOP / "etc" / "deploy.ini").read_text()
    for pattern, value in [
        (r"(?m)^(http_port =).*", f" {port}"),
        (r"(?m)^(zodb_uri =).*", f" {uri(directory)}"),
        (r"(?m)^(session_keys =).*", f" {directory}/session_keys"),
        (r"(?m)^(scan = pipeline_demo.*)$", " demo.streams"),
    ]:
        text, count = re.subn(pattern, lambda found, value=value: found[1] + value, text)  # type: ignore[misc]
        assert count == 1, pattern
    ini = directory / "output.ini"
    ini.write_text(text)
    return ini


def uri(directory: Path) -> str:
    return f"file://{directory}/Data.fs?blobstorage_dir={directory}/blobs"


def fill(directory: Path) -> None:
    with site.connected(uri(directory)) as connection, connection.transaction_manager:
        root = site.root(connection.root())
        for name, data, kind in [("log.txt", LOG, "text/plain"), ("a.png", PICTURE, "image/png")]:
            root[name] = File(name, store(BytesIO(data), connection, len(data)), kind)
        root["led"] = Folder("Led")
        root["led"]["start"] = Folder("Start")
        root["led"]["start"]["index.md"] = Document("Start", "A [relative link](page)")
        root["led"]["start"]["page"] = Document("Page", "This is the page.")


def command(server: str, ini: Path, port: int) -> list[str | Path]:
    bin = Path(sys.executable).parent
    if server == "waitress":
        return [bin / "paster", "serve", ini]
    if server == "gunicorn":
        bound = ["-b", f"127.0.0.1:{port}", "--threads", "4", "--no-control-socket"]
        return [bin / "gunicorn", "--paste", ini, *bound]
    bound = ["--http-socket", f"127.0.0.1:{port}", "--enable-threads", "--threads", "4", "--die-on-term"]
    return ["uwsgi", "--ini-paste", ini, "-H", sys.prefix, "--need-app", *bound]


class Served(NamedTuple):
    server: str
    port: int
    process: Process


SERVERS = ["waitress", "gunicorn"]
if shutil.which("uwsgi"):  # it is compiled when it is installed, which is too much to ask of everybody
    SERVERS.append("uwsgi")


@pytest.fixture(scope="module", params=SERVERS)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The site, served by each of the servers that have a ``wsgi.file_wrapper``."""
    directory = tmp_path_factory.mktemp("output")
    port = unused_port()
    ini = write_ini(directory, port)
    fill(directory)
    started = command(request.param, ini, port)
    process = Process(started, directory / "said", env={"PYTHONPATH": str(TOP / "tests")})
    try:
        process.wait_for_port(port)
        yield Served(request.param, port, process)
    finally:
        process.stop()


class Answer(NamedTuple):
    status: int
    headers: HTTPMessage
    body: bytes

    @property
    def encoding(self) -> str:
        return self.headers.get("Content-Encoding", "")

    def unpacked(self) -> bytes:
        if self.encoding == "gzip":
            return zlib.decompress(self.body, 31)
        if self.encoding == "br":
            return bytes(brotli.decompress(self.body))
        if self.encoding == "zstd":
            return zstd_unpacker()(self.body)
        assert not self.encoding
        return self.body


def ask(served: Served, path: str, method: str = "GET", **headers: str) -> Answer:
    connection = HTTPConnection("127.0.0.1", served.port, timeout=30)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, headers=named)
        answer = connection.getresponse()
        return Answer(answer.status, answer.headers, answer.read())
    finally:
        connection.close()


@pytest.fixture
def curl(served: Served, program: Callable[[str, str], str]) -> Callable[..., bytes]:
    def curl(path: str, *options: str) -> bytes:
        run = [program("curl", "apt install curl"), "-sS", "--max-time", "30", *options]
        return subprocess.run(
            [*run, f"http://127.0.0.1:{served.port}{path}"], check=True, capture_output=True
        ).stdout

    return curl


# Compression.


@pytest.mark.parametrize(
    ("accept", "encoding"),
    [
        ("gzip", "gzip"),
        ("gzip, deflate, br, zstd", "zstd"),
        ("gzip;q=0.9, br;q=1.0, zstd;q=0.1", "br"),
        ("br;q=0.5, gzip;q=0.8", "gzip"),
        ("gzip;q=0, *", "zstd"),
        ("*;q=0.1, identity;q=0.5", ""),
        ("gzip;q=0", ""),
        ("deflate", ""),
        ("", ""),
    ],
)
@pytest.mark.parametrize("path", ["/led/start/page", "/log.txt", "/@@lines"])
def test_what_the_client_wants_most(served: Served, path: str, accept: str, encoding: str) -> None:
    plain = ask(served, path, Accept_Encoding="identity")
    answer = ask(served, path, Accept_Encoding=accept)
    assert (answer.status, answer.encoding) == (200, encoding)
    assert answer.unpacked() == plain.body
    assert "Accept-Encoding" in answer.headers["Vary"] and "Accept-Encoding" in plain.headers["Vary"]
    assert not encoding or len(answer.body) < len(plain.body)


def test_curl_unpacks_what_it_gets(curl: Callable[..., bytes]) -> None:
    head, _, page = curl("/docs/", "--compressed", "-i").partition(b"\r\n\r\n")
    assert re.search(rb"(?i)^content-encoding: (zstd|br|gzip)\r$", head, re.MULTILINE)
    assert page == curl("/docs/") and page.rstrip().endswith(b"</html>")


def test_what_passes_as_it_is(served: Served) -> None:
    small = ask(served, "/counter", Accept="application/json", Accept_Encoding="gzip")
    picture = ask(served, "/a.png", Accept_Encoding="gzip")
    untouched = ask(served, "/@@plain", Accept_Encoding="gzip")
    assert 0 < len(small.body) < 1024
    assert not small.encoding and not picture.encoding and not untouched.encoding
    assert picture.body == PICTURE and untouched.body == LINE * 100


@pytest.mark.parametrize("path", ["/led/start/page", "/log.txt", "/a.png", "/@@plain", "/@@lines", "/led/"])
@pytest.mark.parametrize("accept", ["identity", "gzip"])
def test_HEAD_says_what_GET_does(served: Served, path: str, accept: str) -> None:
    got, head = (ask(served, path, method, Accept_Encoding=accept) for method in ("GET", "HEAD"))
    assert (head.status, head.body) == (got.status, b"")
    # What belongs to this message, and not to the page.
    passing = {"connection", "date", "transfer-encoding", "via"}
    if "Content-Length" not in got.headers or "Content-Length" not in head.headers:  # servers count for GET alone
        passing.add("content-length")
    for answer in (got, head):
        for name in passing:
            del answer.headers[name]
    assert sorted(head.headers.items()) == sorted(got.headers.items())


# Files: whole, in parts, or not again.


def test_a_file_is_saved_as_it_is(served: Served) -> None:
    file, picture = ask(served, "/log.txt"), ask(served, "/a.png")
    assert (file.body, file.headers["Content-Type"]) == (LOG, "text/plain")
    assert file.headers["Content-Disposition"] == 'attachment; filename="log.txt"'
    assert file.headers["X-Content-Type-Options"] == picture.headers["X-Content-Type-Options"] == "nosniff"
    assert (picture.body, picture.headers["Content-Disposition"]) == (PICTURE, 'inline; filename="a.png"')
    for answer, data in [(file, LOG), (picture, PICTURE)]:
        assert answer.headers["ETag"] == f'"{hashlib.sha256(data).hexdigest()}"'
        assert answer.headers["Content-Length"] == str(len(data)) and answer.headers["Last-Modified"]


def test_curl_gets_parts_and_resumes(curl: Callable[..., bytes], tmp_path: Path) -> None:
    assert curl("/log.txt", "-r", "1000-1999") == LOG[1000:2000]
    assert curl("/log.txt", "-r", "-100") == LOG[-100:]
    begun = tmp_path / "a.png"
    begun.write_bytes(PICTURE[:123_456])
    curl("/a.png", "-C", "-", "-o", str(begun))
    assert begun.read_bytes() == PICTURE
    etag = tmp_path / "etag"
    assert curl("/a.png", "--etag-save", str(etag)) == PICTURE
    assert curl("/a.png", "--etag-compare", str(etag)) == b""


def test_a_part_is_not_compressed(served: Served) -> None:
    asked = {"Range": "bytes=1000-1999", "Accept_Encoding": "gzip"}
    part = ask(served, "/a.png", **asked)
    assert (part.status, part.encoding, part.body) == (206, "", PICTURE[1000:2000])
    assert part.headers["Content-Range"] == f"bytes 1000-1999/{len(PICTURE)}"
    whole = ask(served, "/log.txt", **asked)  # of what would be compressed there are no parts
    assert (whole.status, whole.encoding, whole.unpacked()) == (200, "gzip", LOG)
    assert ask(served, "/log.txt", Range="bytes=99999999-").status == 416


def test_a_part_of_what_it_was(served: Served) -> None:
    seen = ask(served, "/log.txt")
    changed = parsedate_to_datetime(seen.headers["Last-Modified"]).timestamp()
    time.sleep(max(0, changed + 1 - time.time()))  # a date of this very second is no strong validator
    for validator in (seen.headers["ETag"], seen.headers["Last-Modified"]):
        part = ask(served, "/log.txt", Range="bytes=5-9", If_Range=validator)
        assert (part.status, part.body) == (206, LOG[5:10])
    for validator in ('"another"', f"W/{seen.headers['ETag']}", "Tue, 14 Nov 2023 22:13:20 GMT"):
        assert ask(served, "/log.txt", Range="bytes=5-9", If_Range=validator).body == LOG


@pytest.mark.parametrize("accept", ["identity", "gzip", "br", "zstd"])
def test_what_the_client_has_is_not_sent_again(served: Served, accept: str) -> None:
    first = ask(served, "/log.txt", Accept_Encoding=accept)
    etag = first.headers["ETag"]
    assert etag.startswith("W/") is (accept != "identity")
    for known in ({"If_None_Match": etag}, {"If_Modified_Since": first.headers["Last-Modified"]}):
        again = ask(served, "/log.txt", Accept_Encoding=accept, **known)
        assert (again.status, again.body, again.encoding, again.headers["ETag"]) == (304, b"", "", etag)
        assert "Accept-Encoding" in again.headers["Vary"]
    assert ask(served, "/log.txt", Accept_Encoding=accept, If_None_Match='"x"').unpacked() == LOG
    assert ask(served, "/log.txt", Accept_Encoding=accept, If_Match='"x"').status == 412


def test_the_server_gets_the_file_itself(make_app: Callable[..., TestApp], tmp_path: Path) -> None:
    """Which it may send without Python: neither a filter nor the database is in the way."""
    fill(tmp_path)
    app = make_app(uri(tmp_path)).app
    environ = Asked.blank("/log.txt").environ | {"wsgi.file_wrapper": lambda file, size: (file,)}
    [file] = app(environ, lambda status, headers: None)
    with open(file.fileno(), "rb", closefd=False) as sent:
        assert sent.read() == LOG
    file.close()


# Pages that are sent while they are made.


def blocks(served: Served, path: str, *headers: str) -> Iterator[bytes]:
    """The chunks of an answer as they are on the wire."""
    with socket.create_connection(("127.0.0.1", served.port), timeout=30) as client:
        lines = [f"GET {path} HTTP/1.1", "Host: localhost", "Connection: close", *headers, "", ""]
        client.sendall("\r\n".join(lines).encode())
        with client.makefile("rb") as answer:
            head = b"".join(iter(answer.readline, b"\r\n")).lower()
            if b"transfer-encoding: chunked" not in head:
                pytest.skip(f"{served.server} does not show the blocks")
            while size := int(answer.readline(), 16):
                yield answer.read(size)
                answer.readline()


def test_small_blocks_are_joined(served: Served) -> None:
    sent = list(blocks(served, "/@@lines"))
    assert b"".join(sent) == LINE * LINES
    assert sent[0] == LINE and len(sent) < LINES / 20


@pytest.mark.parametrize("accept", ["", "gzip"])
def test_what_is_made_slowly_leaves_as_it_is_made(served: Served, accept: str) -> None:
    """The next block is made only if the client has the one before."""
    unpack = zlib.decompressobj(31).decompress if accept else bytes
    text = b""
    for sent in blocks(served, "/@@slow", f"Accept-Encoding: {accept}"):
        text += unpack(sent)
        if text.endswith(b"\n") and not text.endswith(b"3\n"):
            time.sleep(PAUSE)
            assert ask(served, "/@@next").status == 200
    assert text == b"".join(b"block %d\n" % number for number in range(4))


def test_events_are_left_alone(served: Served) -> None:
    assert list(blocks(served, "/@@events")) == [b"data: %d\n\n" % n for n in range(20)]


@pytest.mark.parametrize("accept", ["identity", "gzip"])
def test_a_filter_that_breaks_breaks_the_connection(served: Served, accept: str) -> None:
    if served.server == "uwsgi":
        pytest.skip("without chunks, the end of an answer and a broken one are the same to a client")
    with pytest.raises((IncompleteRead, ConnectionResetError)):
        ask(served, "/@@breaks", Accept_Encoding=accept)
    assert ask(served, "/counter").status == 200
    assert "ValueError: the filter broke" in served.process.said()


# Pages reached by default steps.


def test_a_default_page_has_a_base(served: Served) -> None:
    led, itself = ask(served, "/led/"), ask(served, "/led/start/")
    base = f'<base href="http://127.0.0.1:{served.port}/led/start/" />'
    assert led.body.decode().count(base) == 1 and b"<base" not in itself.body
    packed = ask(served, "/led/", Accept_Encoding="gzip")
    assert packed.encoding == "gzip" and base in packed.unpacked().decode()
    # It says where the page is; but for that, and for the way back from a login, they are the same.
    without = led.body.decode().replace(base, "")
    trees = [html5lib.parse(re.sub(r"came_from=[^\"]*", "", text)) for text in (without, itself.body.decode())]
    assert html5lib.serialize(trees[0]) == html5lib.serialize(trees[1])
