"""Files as answers: whole, in ranges, conditional, and by the server's own ``wsgi.file_wrapper``."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from wsgiref.util import FileWrapper

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from webob import Request as Asked
from webob.static import FileApp
from ZODB.blob import Blob

import pipeline.http.conditional
import pipeline.http.files
from asking import ask
from pipeline import Pipeline, Request, Response, element, view
from pipeline.database.zodb_pools import pool_of
from pipeline.elements.coalesce import coalesce
from pipeline.elements.compress import compress
from pipeline.elements.errors import errors
from pipeline.elements.log import log
from pipeline.elements.retry import retry
from pipeline.elements.transaction import transaction
from pipeline.elements.traverse import traverse
from pipeline.elements.zodb import zodb
from pipeline.http.conditional import byte_range, may_send_part, precondition
from pipeline.http.files import BLOCK, SentFile, disposition, serve
from pipeline.publisher import publisher
from small_sites import made_by_the_edge

DATA = bytes(range(256)) * 1_000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "data.bin"
    path.write_bytes(DATA)
    os.utime(path, (1_700_000_000, 1_700_000_000))
    return path


def serving(file: Any, *, opened: Callable[[], Any] | None = None, **options: Any) -> Pipeline:
    """A site whose every page is this file."""

    @element
    def serving() -> Any:
        def serving(request: Request, response: Response) -> None:
            serve(request, response, opened() if opened is not None else file, **options)

        return serving

    return Pipeline(errors(), serving())


# What a view can say of a file.


def test_a_path(file: Path) -> None:
    for path in (file, str(file)):
        answer = ask(serving(path))
        assert answer.status_int == 200 and answer.body == DATA and answer.content_length == len(DATA)
        assert answer.headers["Content-Type"] == "application/octet-stream"
        assert answer.headers["Content-Disposition"] == 'attachment; filename="data.bin"'
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Last-Modified"] == "Tue, 14 Nov 2023 22:13:20 GMT"
        assert answer.headers["Accept-Ranges"] == "bytes"
        assert answer.headers["ETag"] == f'"{hashlib.blake2b(DATA, digest_size=16).hexdigest()}"'


@pytest.mark.parametrize("dest", ["script", "style", "worker", "serviceworker", "document", "image", ""])
def test_an_attachment_is_never_a_script_of_the_site__S7(file: Path, dest: str) -> None:
    headers = {"HTTP_SEC_FETCH_DEST": dest} if dest else {}
    answer = ask(serving(file, content_type="text/javascript"), **headers)
    assert answer.status_int == (200 if dest in ("document", "image", "") else 403)
    assert answer.status_int == 403 or "Sec-Fetch-Dest" in answer.headers["Vary"]
    assert ask(serving(file, inline=True), **headers).status_int == 200


def test_what_is_said_counts(file: Path) -> None:
    app = serving(
        file,
        content_type="text/plain; charset=utf-8",
        name="notes.txt",
        etag="abc",
        modified=datetime(2020, 1, 2, 3, 4, 5),
        inline=True,
    )
    answer = ask(app)
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert answer.headers["Content-Disposition"] == 'inline; filename="notes.txt"'
    assert answer.headers["ETag"] == '"abc"'
    assert answer.headers["Last-Modified"] == "Thu, 02 Jan 2020 03:04:05 GMT"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.html", "text/html"),
        ("a.PDF", "application/pdf"),
        ("a.tar.gz", "application/gzip"),
        ("a.tgz", "application/gzip"),
        ("a.svg.bz2", "application/octet-stream"),
        ("a", "application/octet-stream"),
        ("", "application/octet-stream"),
    ],
)
def test_the_type_is_guessed_from_the_name(name: str, kind: str) -> None:
    answer = ask(serving(None, opened=lambda: io.BytesIO(DATA), name=name))
    assert answer.headers["Content-Type"] == kind and "Content-Encoding" not in answer.headers


def test_what_is_no_file_is_a_404(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (
        tmp_path / "missing",
        tmp_path,
        tmp_path / "pipe",
        tmp_path / "pipe" / "x",
        "a\0b",
        "/dev/null",
    ):
        assert ask(serving(path)).status_int == 404


def test_a_time_in_the_future_is_now(file: Path) -> None:
    """RFC 9110, section 8.8.2.1."""
    answer = ask(serving(file, modified=time.time() + 1_000))
    assert abs((answer.last_modified - datetime.now(UTC)).total_seconds()) < 5
    zoned = datetime(2020, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    assert ask(serving(file, modified=zoned)).last_modified == datetime(2020, 1, 1, tzinfo=UTC)


class Counted(io.BytesIO):
    """A file that is none of the disk; says how often it was closed."""

    closings = 0

    def close(self) -> None:
        self.closings += 1
        super().close()


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("headers", [{}, {"HTTP_RANGE": "bytes=1-2"}, {"HTTP_IF_NONE_MATCH": "*"}])
def test_an_open_file_is_closed_once__R7(method: str, headers: dict[str, str]) -> None:
    file = Counted(DATA)
    ask(serving(file), method=method, environ=headers)
    assert file.closings == 1


def test_an_open_file_is_sent_from_where_it_stands() -> None:
    file = io.BytesIO(b"0123456789")
    file.seek(4)
    answer = ask(serving(file, name="x"), environ={"HTTP_RANGE": "bytes=1-2"})
    assert answer.body == b"56" and answer.headers["Content-Range"] == "bytes 1-2/6"


def test_a_file_that_cannot_say_its_length() -> None:
    class Stream:
        """Such as the output of a process."""

        def __init__(self) -> None:
            self.blocks = [b"abc", b"def", b""]

        def read(self, size: int) -> bytes:
            return self.blocks.pop(0)

        def close(self) -> None:
            pass

    answer = ask(serving(None, opened=Stream), environ={"HTTP_RANGE": "bytes=1-2"})
    assert answer.status_int == 200 and answer.body == b"abcdef" and "Accept-Ranges" not in answer.headers


def test_a_compressed_file_is_as_long_as_what_comes_out_of_it(tmp_path: Path) -> None:
    """Its descriptor is that of the file on the disk, which is shorter."""
    with gzip.open(tmp_path / "x.gz", "wb") as packed:
        packed.write(DATA)
    app = serving(None, opened=lambda: gzip.open(tmp_path / "x.gz"))  # noqa: SIM115
    for extra in ({}, {"wsgi.file_wrapper": FileWrapper}):
        assert ask(app, environ=extra).body == DATA


def test_a_file_that_grows_is_sent_as_far_as_it_went(file: Path) -> None:
    class Growing(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            block = super().read(size)
            here = self.tell()
            self.seek(0, os.SEEK_END)
            self.write(b"more")
            self.seek(here)
            return block

    assert ask(serving(Growing(DATA))).body == DATA


def test_a_file_that_shrinks_breaks_the_connection(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    body = serving(file)(Asked.blank("/").environ, lambda status, headers: None)
    os.truncate(file, 70_000)
    with pytest.raises(ValueError, match="shorter than its Content-Length"):
        list(body)


# Names (RFC 6266, RFC 8187).


@pytest.mark.parametrize(
    ("name", "header"),
    [
        (None, "attachment"),
        ("", "attachment"),
        ("a b.txt", 'attachment; filename="a b.txt"'),
        ('a"b.txt', "attachment; filename=\"a_b.txt\"; filename*=UTF-8''a%22b.txt"),
        ("100%.txt", "attachment; filename=\"100_.txt\"; filename*=UTF-8''100%25.txt"),
        ("n\xe4me.txt", "attachment; filename=\"n_me.txt\"; filename*=UTF-8''n%C3%A4me.txt"),
        ("\u20ac'(1).txt", "attachment; filename=\"_'(1).txt\"; filename*=UTF-8''%E2%82%AC%27%281%29.txt"),
        ("../../etc/passwd", 'attachment; filename=".._.._etc_passwd"'),
        ("a\\b", 'attachment; filename="a_b"'),
        ("a\r\nSet-Cookie: b", 'attachment; filename="a__Set-Cookie: b"'),
        ("a\u202etxt.exe", 'attachment; filename="a_txt.exe"'),
        ("a\udcffb", 'attachment; filename="a_b"'),
    ],
)
def test_names(name: str | None, header: str) -> None:
    assert disposition(name) == header
    assert disposition(name, inline=True) == header.replace("attachment", "inline")


@given(st.text(max_size=50))
def test_any_name_makes_a_header_that_can_be_sent(name: str) -> None:
    header = disposition(name)
    assert header.isascii() and header.isprintable()
    plain = re.match(r'attachment(?:; filename="([^"]*)"(?:; filename\*=UTF-8\'\'([\w!#$&+.^`|~%-]+))?)?\Z', header)
    assert plain is not None
    if plain[2]:
        kept = re.sub(r"[/\\]", "_", name)
        assert [*unquote(plain[2])] == [letter if letter.isprintable() else "_" for letter in kept]


# Conditional requests (RFC 9110, section 13).

TAG, TIME = '"tag"', "Tue, 14 Nov 2023 22:13:20 GMT"
BEFORE, AFTER = "Tue, 14 Nov 2023 22:13:19 GMT", "Tue, 14 Nov 2023 22:13:21 GMT"

PRECONDITIONS: list[tuple[dict[str, str], int]] = [
    ({}, 200),
    ({"IF_NONE_MATCH": TAG}, 304),
    ({"IF_NONE_MATCH": f"W/{TAG}"}, 304),
    ({"IF_NONE_MATCH": f'"x", {TAG}'}, 304),
    ({"IF_NONE_MATCH": "*"}, 304),
    ({"IF_NONE_MATCH": '"x"'}, 200),
    ({"IF_NONE_MATCH": "tag"}, 200),
    ({"IF_NONE_MATCH": '"'}, 200),
    ({"IF_NONE_MATCH": ""}, 200),
    ({"IF_MODIFIED_SINCE": TIME}, 304),
    ({"IF_MODIFIED_SINCE": AFTER}, 304),
    ({"IF_MODIFIED_SINCE": BEFORE}, 200),
    ({"IF_MODIFIED_SINCE": "Tuesday, 14-Nov-23 22:13:20 GMT"}, 304),
    ({"IF_MODIFIED_SINCE": "Tue Nov 14 22:13:20 2023"}, 304),
    ({"IF_MODIFIED_SINCE": "yesterday"}, 200),
    ({"IF_MODIFIED_SINCE": "Tue, 14 Nov 99999999999999 22:13:20 GMT"}, 200),
    ({"IF_MODIFIED_SINCE": "Tue, 99 Nov 2023 22:13:20 GMT"}, 200),
    ({"IF_NONE_MATCH": '"x"', "IF_MODIFIED_SINCE": AFTER}, 200),
    ({"IF_MODIFIED_SINCE": "Wednesday, 15-Nov-23 22:13:20 GMT"}, 304),
    ({"IF_MODIFIED_SINCE": f"{AFTER}, {AFTER}"}, 200),  # not one date: a recipient must ignore it
    ({"IF_UNMODIFIED_SINCE": f"{BEFORE}, {BEFORE}"}, 200),
    ({"IF_MATCH": TAG}, 200),
    ({"IF_MATCH": "*"}, 200),
    ({"IF_MATCH": '"x"'}, 412),
    ({"IF_MATCH": f"W/{TAG}"}, 412),
    ({"IF_UNMODIFIED_SINCE": TIME}, 200),
    ({"IF_UNMODIFIED_SINCE": BEFORE}, 412),
    ({"IF_UNMODIFIED_SINCE": "yesterday"}, 200),
    ({"IF_MATCH": TAG, "IF_UNMODIFIED_SINCE": BEFORE}, 200),
    ({"IF_MATCH": TAG, "IF_NONE_MATCH": TAG}, 304),
]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(("asked", "status"), PRECONDITIONS)
def test_preconditions(file: Path, method: str, asked: dict[str, str], status: int) -> None:
    environ = {f"HTTP_{name}": value for name, value in asked.items()}
    answer = ask(serving(file, etag="tag"), method=method, environ=environ)
    assert answer.status_int == status
    if status == 412:
        assert answer.content_type == "text/plain" and answer.body in (
            b"",
            b"The resource has changed since you last read it.\n",
        )
        assert not {"ETag", "Last-Modified", "Content-Disposition"} & set(answer.headers)
    else:
        assert answer.headers["ETag"] == TAG and answer.headers["Last-Modified"] == TIME
    if status == 304:
        assert answer.body == b"" and not {"Content-Type", "Content-Disposition"} & set(answer.headers)


def test_what_has_no_validator_has_no_condition(file: Path) -> None:
    assert precondition({"HTTP_IF_MODIFIED_SINCE": AFTER}, None, None) is None
    assert precondition({"HTTP_IF_NONE_MATCH": TAG}, None, None) is None
    assert precondition({"HTTP_IF_NONE_MATCH": TAG}, "tag", None) is None
    assert precondition({"HTTP_IF_MATCH": TAG}, None, None) == "412 Precondition Failed"


# Ranges (RFC 9110, section 14).

RANGES: list[tuple[str, tuple[int, int] | None]] = [
    ("bytes=0-0", (0, 1)),
    ("bytes=2-5", (2, 6)),
    ("bytes=5-", (5, 10)),
    ("bytes=-3", (7, 10)),
    ("bytes=-30", (0, 10)),
    ("bytes=0-99", (0, 10)),
    ("bytes=9-9999999999999999999999", (9, 10)),
    ("bytes=000000000000000000000002-00000000000000000000005", (2, 6)),
    ("BYTES = 2 - 5 ", (2, 6)),
    ("bytes=,2-5,", (2, 6)),
    ("bytes=10-", (10, 10)),
    ("bytes=10-20", (10, 10)),
    ("bytes=99999999999999999999999999-", (10, 10)),
    ("bytes=-0", (10, 10)),
    # Malformed, or of several, or in other units: the whole.
    ("bytes=5-2", None),
    ("bytes=0-1,4-5", None),
    ("bytes=0-1,", (0, 2)),
    ("bytes=-", None),
    ("bytes=", None),
    ("bytes", None),
    ("", None),
    ("bytes=a-b", None),
    ("bytes=1-2x", None),
    ("bytes=+1-2", None),
    ("bytes=1--2", None),
    ("bytes=\xb2-", None),
    ("lines=0-1", None),
    ("bytes=0-1;x", None),
]


@pytest.mark.parametrize(("header", "part"), RANGES)
def test_ranges(header: str, part: tuple[int, int] | None) -> None:
    assert byte_range(header, 10) == part
    data = b"0123456789"
    answer = ask(serving(None, opened=lambda: io.BytesIO(data)), environ={"HTTP_RANGE": header})
    if part is None:
        assert answer.status_int == 200 and answer.body == data
    elif part[0] == part[1]:
        assert answer.status_int == 416 and answer.headers["Content-Range"] == "bytes */10"
        assert answer.content_type == "text/plain" and data not in answer.body
        assert not {"Content-Disposition", "ETag", "Last-Modified"} & set(answer.headers)
    else:
        assert answer.status_int == 206 and answer.body == data[slice(*part)]
        assert answer.headers["Content-Range"] == f"bytes {part[0]}-{part[1] - 1}/10"
        assert answer.content_length == part[1] - part[0]


def test_of_nothing_there_is_no_range() -> None:
    assert byte_range("bytes=0-", 0) is byte_range("bytes=-5", 0) is None


@given(st.text(max_size=60) | st.from_regex(r"\Abytes=[0-9]{0,22}-[0-9]{0,22}\Z"), st.integers(0, 10**12))
@example("bytes=" + " " * 50, 10)
def test_any_range_has_an_answer(header: str, length: int) -> None:
    part = byte_range(header, length)
    assert part is None or 0 <= part[0] < part[1] <= length or part == (length, length)


def test_a_range_is_parsed_in_linear_time__S12() -> None:
    began = time.process_time()
    for header in ("bytes=" + " " * 60_000, "bytes=" + "," * 60_000, "bytes=" + "0" * 60_000, " " * 60_000):
        byte_range(header, 10)
        may_send_part(header, TAG, TIME)
        precondition({"HTTP_IF_NONE_MATCH": header + '"' * 5_000, "HTTP_IF_MODIFIED_SINCE": header}, TAG, TIME)
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("if_range", "is_part"),
    [
        (None, True),
        (TAG, True),
        (f"W/{TAG}", False),
        (f"w/{TAG}", False),
        (f'{TAG}, "x"', False),
        ('"x"', False),
        (TIME, True),
        (BEFORE, False),
        (AFTER, False),
        ("", False),
        ("tag", False),
        ("yesterday GMT", False),
    ],
)
def test_if_range(file: Path, if_range: str | None, is_part: bool) -> None:
    environ = {"HTTP_RANGE": "bytes=2-5"} | ({} if if_range is None else {"HTTP_IF_RANGE": if_range})
    answer = ask(serving(file, etag="tag"), environ=environ)
    assert (answer.status_int, answer.body) == ((206, DATA[2:6]) if is_part else (200, DATA))


@pytest.mark.parametrize(("age", "is_part"), [(-5, False), (0, False), (0.9, False), (1, True), (60, True)])
def test_if_range_believes_no_date_within_the_second_of_the_change(
    file: Path, monkeypatch: pytest.MonkeyPatch, age: float, is_part: bool
) -> None:
    """The file may change again within that second, and keep its date (RFC 9110, sections 8.8.2.2 and 13.1.5)."""
    monkeypatch.setattr(pipeline.http.conditional, "clock", lambda: 1_700_000_000 + age)
    answer = ask(serving(file), environ={"HTTP_RANGE": "bytes=2-5", "HTTP_IF_RANGE": TIME})
    assert (answer.status_int, answer.body) == ((206, DATA[2:6]) if is_part else (200, DATA))


@pytest.mark.parametrize(
    ("date", "seconds_later"),
    [
        ("Tue, 14 Nov 2023 22:13:20 +0000", 0),
        ("Wed, 15 Nov 2023 00:13:20 +0200", 0),
        ("Tue, 14 Nov 2023 17:13:20 -0500", 0),
        ("Tue, 14 Nov 2023 22:13:20 +0200", -7_200),
        ("Tue, 14 Nov 2023 22:13:20 -0200", 7_200),
        ("Wed, 15 Nov 2023 22:13:20 GMT", 86_400),
    ],
)
def test_the_zone_of_a_date(date: str, seconds_later: int) -> None:
    """HTTP dates are GMT. One that has another zone is the moment that it says."""
    assert may_send_part(date, None, TIME) == (seconds_later == 0)
    assert (precondition({"HTTP_IF_UNMODIFIED_SINCE": date}, None, TIME) is None) == (seconds_later >= 0)


@pytest.mark.parametrize(
    ("asked", "status"), [({"HTTP_IF_MATCH": '"x"'}, 412), ({"HTTP_RANGE": "bytes=999999999-"}, 416)]
)
def test_a_refusal_is_not_cached_as_the_file_would_be(asked: dict[str, str], status: int) -> None:
    """Headers that are true of the whole are not true of what says that it is not sent."""

    @element
    def end() -> Any:
        def end(request: Request, response: Response) -> None:
            response.body = DATA
            response.headers["Cache-Control"] = "public, max-age=31536000"
            response.headers["Expires"] = "Tue, 14 Nov 2033 22:13:20 GMT"
            response.headers["X-Ours"] = "stays"
            response.etag, response.conditional_response = "tag", True

        return end

    answer = ask(Pipeline(errors(), end()), environ=asked)
    assert answer.status_int == status and answer.headers["X-Ours"] == "stays"
    assert not {"Cache-Control", "Expires", "ETag"} & set(answer.headers)


def test_a_range_is_for_GET_alone(file: Path) -> None:
    answer = ask(serving(file), method="HEAD", environ={"HTTP_RANGE": "bytes=2-5"})
    assert answer.status_int == 200 and answer.content_length == len(DATA)


# The server's own way to send a file.


class ServerWrapper:
    """The ``wsgi.file_wrapper`` of a server that reads the file itself."""

    def __init__(self, file: Any, block_size: int = 8_192) -> None:
        self.file = file
        self.block_size = block_size
        self.close = file.close

    def __iter__(self) -> Iterator[bytes]:
        return iter(lambda: self.file.read(self.block_size), b"")


class FileServer:
    """What such a server does with an app."""

    def __init__(self, app: Any, method: str = "GET", **headers: str) -> None:
        self.environ = Asked.blank("/", method=method).environ
        self.environ.update(headers)
        self.environ["wsgi.file_wrapper"] = ServerWrapper
        self.sent = app(self.environ, self.start_response)

    def start_response(self, status: str, headers: Any, exc_info: Any = None) -> None:
        self.status, self.headers = status, dict(headers)

    @property
    def file(self) -> Any:
        assert type(self.sent) is ServerWrapper
        return self.sent.file


@pytest.mark.parametrize("server", [True, False])
@pytest.mark.parametrize("start", [0, 7])
@pytest.mark.parametrize("more", [-5, 0, 5])
def test_so_much_of_a_file_is_sent_as_its_length_says(file: Path, start: int, more: int, server: bool) -> None:
    """PEP 3333: from the current position "until the end is reached, or until Content-Length bytes have been
    written". It may have grown since an application asked for its length. Not every server stops there by itself:
    the next answer of the connection would begin with the rest."""
    length = len(DATA) - start + more

    def app(environ: dict[str, Any], start_response: Any) -> Any:
        start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(length))])
        opened = open(file, "rb")  # noqa: SIM115
        opened.seek(start)
        return environ["wsgi.file_wrapper"](opened)

    environ = {"wsgi.file_wrapper": ServerWrapper if server else FileWrapper}
    started: list[Any] = []
    sent = Pipeline(errors(), app)({**Asked.blank("/").environ, **environ}, lambda *said: started.append(said))
    if more > 0:
        with pytest.raises(ValueError, match="5 bytes shorter than its Content-Length"):
            b"".join(sent)
    else:
        assert dict(started[0][1])["Content-Length"] == str(length)
        assert b"".join(sent) == DATA[start : start + length]
    sent.close()


def test_the_server_gets_the_file(file: Path) -> None:
    server = FileServer(serving(file))
    assert server.file.fileno() > 2 and os.fstat(server.file.fileno()).st_size == len(DATA)
    assert os.lseek(server.file.fileno(), 0, os.SEEK_CUR) == 0
    assert b"".join(server.sent) == DATA
    server.sent.close()


def test_closing_what_the_server_has_closes_the_request_once__R7(file: Path) -> None:
    closed: list[str] = []

    @element
    def watching(next: Any) -> Any:
        def watching(request: Request, response: Response) -> None:
            request.on_close(lambda: closed.append("request"))
            next(request, response)
            app_iter = response.app_iter
            real = app_iter.file
            request.on_close(lambda: closed.append("file closed" if real.closed else "file open"))

        return watching

    server = FileServer(Pipeline(watching(), serving(file)))
    assert closed == [] and "pipeline.request" in server.environ
    server.sent.close()
    assert closed == ["file open", "request"] and "pipeline.request" not in server.environ
    server.sent.close()
    assert closed == ["file open", "request"]


def test_a_part_of_a_file_has_no_descriptor(file: Path) -> None:
    """uWSGI sends all that a descriptor leads to, wherever it stands and whatever Content-Length says."""
    server = FileServer(serving(file), HTTP_RANGE="bytes=100-199")
    assert not hasattr(server.file, "fileno")
    assert b"".join(server.sent) == DATA[100:200] and server.headers["Content-Length"] == "100"
    server.sent.close()


def test_a_file_that_was_read_from(file: Path) -> None:
    """What was read ahead stands in its buffer; a descriptor knows nothing of that."""

    def opened() -> Any:
        opened = open(file, "rb")  # noqa: SIM115
        assert opened.read(10) == DATA[:10]
        opened.seek(0)
        return opened

    server = FileServer(serving(None, opened=opened))
    assert os.lseek(server.file.fileno(), 0, os.SEEK_CUR) == 0
    assert os.read(server.file.fileno(), 10) == DATA[:10]
    server.sent.close()


def test_the_server_may_look_around_in_the_file(file: Path) -> None:
    """As waitress does to find the length, and whenever a client takes less than it was given."""
    server = FileServer(serving(file), HTTP_RANGE="bytes=100-199")
    sent: SentFile = server.file
    assert sent.seekable()
    start = sent.tell()
    sent.seek(0, os.SEEK_END)
    assert sent.tell() - start == 100
    assert sent.read() == b""
    sent.seek(start)
    assert sent.read(10) == DATA[100:110]
    sent.seek(-5, os.SEEK_CUR)
    assert sent.read() == DATA[105:200] and sent.read(5) == b""
    server.sent.close()


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_what_is_no_plain_file_is_sent_by_us(method: str) -> None:
    """A server's main loop may read it, which must not wait for a database, say."""
    server = FileServer(serving(io.BytesIO(DATA)), method)
    assert type(server.sent) is not ServerWrapper
    assert b"".join(server.sent) == (DATA if method == "GET" else b"")


def test_HEAD_and_304_close_the_file(file: Path) -> None:
    for server in (FileServer(serving(file), "HEAD"), FileServer(serving(file), HTTP_IF_NONE_MATCH="*")):
        assert server.sent == [] and "pipeline.request" not in server.environ


def test_a_304_that_an_element_takes_back_sends_the_file(file: Path) -> None:
    @element(inside={"errors": "it changes what the edge judges"})
    def unconditional(next: Any) -> Any:
        def unconditional(request: Request, response: Response) -> None:
            next(request, response)
            response.conditional_response = False

        return unconditional

    app = Pipeline(errors(), unconditional(), *serving_parts(file))
    answer = ask(app, HTTP_IF_NONE_MATCH="*")
    assert (answer.status_int, answer.body) == (200, DATA)


def test_a_filter_that_takes_part_keeps_the_file_from_the_server(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_bytes(b"x" * 10_000)
    app = Pipeline(errors(), compress(), coalesce(), *serving_parts(page))
    packed = FileServer(app, HTTP_ACCEPT_ENCODING="gzip")
    assert type(packed.sent) is not ServerWrapper and packed.headers["Content-Encoding"] == "gzip"
    packed.sent.close()
    plain = FileServer(app)
    assert type(plain.sent) is ServerWrapper and "Accept-Encoding" in plain.headers["Vary"]
    plain.sent.close()


def serving_parts(file: Path) -> tuple[Any, ...]:
    @element
    def serving() -> Any:
        return lambda request, response: serve(request, response, file)

    return (serving(),)


def test_the_file_of_an_app_of_others_goes_the_same_way(file: Path) -> None:
    def app(environ: Any, start_response: Any) -> Any:
        start_response("200 OK", [("Content-Type", "text/html"), ("Content-Length", str(len(DATA)))])
        return environ["wsgi.file_wrapper"](open(file, "rb"), 4_096)

    server = FileServer(Pipeline(errors(), compress(), app))
    assert server.file.fileno() > 2 and b"".join(server.sent) == DATA
    assert server.environ["wsgi.file_wrapper"] is ServerWrapper
    server.sent.close()
    server = FileServer(Pipeline(errors(), compress(), app), HTTP_ACCEPT_ENCODING="gzip")
    assert gzip.decompress(b"".join(server.sent)) == DATA
    server.sent.close()


def test_the_file_app_of_webob(file: Path) -> None:
    app = Pipeline(errors(), FileApp(str(file)))
    server = FileServer(app)
    assert server.file.fileno() > 2
    server.sent.close()
    server = FileServer(app, HTTP_RANGE="bytes=2-5")
    assert server.status == "206 Partial Content" and b"".join(server.sent) == DATA[2:6]
    server.sent.close()


def test_a_view_returns_an_open_file(publish: Any, file: Path) -> None:
    @view(context=dict)
    def download(context: Any, request: Request, response: Response) -> Any:
        response.content_type = "application/octet-stream"
        return open(file, "rb")

    server = FileServer(publish(download))
    assert server.file.fileno() > 2 and server.headers["Content-Length"] == str(len(DATA))
    server.sent.close()


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    server = FileServer(serving(tmp_path / "empty"))
    assert b"".join(server.sent) == b"" and server.headers["Content-Length"] == "0"
    server.sent.close()


def test_the_log_says_how_much_was_sent(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "pipeline.access")
    server = FileServer(Pipeline(log(), serving(file)))
    server.sent.close()  # by its descriptor: how much, the server does not say
    server = FileServer(Pipeline(log(), serving(file)))
    next(iter(server.sent))
    server.sent.close()
    whole, part = (record.getMessage() for record in caplog.records)
    assert " 200 - " in whole and f" 200 {BLOCK} " in part


# What a slow client holds.


class Opened:
    """Stands for what a database element opens."""

    def __init__(self) -> None:
        self.trail: list[str] = []

    def element(self, file: Any, *, and_more: bool = False) -> Pipeline:
        @element
        def database(next: Any) -> Any:
            def database(request: Request, response: Response) -> None:
                request.on_close(lambda: self.trail.append("database"), last=True)
                if and_more:
                    request.on_close(lambda: self.trail.append("more"))
                next(request, response)

            return database

        return Pipeline(errors(), database(), *serving_parts(file))


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_slow_client_of_a_plain_file_holds_no_database(file: Path, wrapped: bool) -> None:
    opened = Opened()
    environ = Asked.blank("/").environ
    if wrapped:
        environ["wsgi.file_wrapper"] = ServerWrapper
    sent = opened.element(file)(environ, lambda status, headers: None)
    assert opened.trail == ["database"]
    assert b"".join(sent) == DATA
    sent.close()
    assert opened.trail == ["database"]


def test_what_else_is_to_be_closed_may_need_the_database(file: Path) -> None:
    opened = Opened()
    server = FileServer(opened.element(file, and_more=True))
    assert opened.trail == []
    server.sent.close()
    assert opened.trail == ["more", "database"]


def test_a_blob_is_a_plain_file(module: Callable[..., str], tmp_path: Path) -> None:
    """Through a real database: its connection is in the pool again while the client has read nothing."""

    def root(top: Any) -> Any:
        if "blob" not in top:
            top["blob"] = Blob(DATA)
        return top

    @view(context=Blob)
    def download(context: Any, request: Request, response: Response) -> None:
        serve(request, response, context.open("c"), name="x.bin")

    @view(context=Blob, methods=("POST",))
    def store(context: Any, request: Request) -> str:
        return "stored"

    name = module(download, store, root=root)
    uri = f"file://{tmp_path}/Data.fs?blobstorage_dir={tmp_path}/blobs"
    app = Pipeline(
        *(log(), retry(), zodb(uri=uri, root=f"{name}:root"), errors(), transaction()),
        *(traverse(), publisher(scan=(name,))),
    )
    ask(app, "/blob", method="POST")
    pool = pool_of(uri, {}, {})
    try:
        environ = Asked.blank("/blob").environ
        environ["wsgi.file_wrapper"] = ServerWrapper
        sent = app(environ, lambda status, headers: None)
        assert type(sent) is ServerWrapper and len(pool.idle) == 1
        assert b"".join(sent) == DATA
        sent.close()
        assert len(pool.idle) == 1
    finally:
        pool.close()


# Real servers.

SITE = """
import sys, threading, time
from pathlib import Path
from pipeline import Pipeline, element
from pipeline.elements.errors import errors
from pipeline.http.files import serve

FILE = Path(__file__).with_name("file")

@element
def files():
    def files(request, response):
        if request.path_info == "/closed":
            response.content_type = "text/plain"
            response.text = str(len(closed))
        else:
            request.on_close(lambda: closed.append(1))
            serve(request, response, FILE)
    return files

closed = []
app = Pipeline(errors(), files())

if __name__ == "__main__":
    import waitress
    waitress.serve(app, port=int(sys.argv[1]), threads=1)
"""


@pytest.fixture(params=["waitress", "gunicorn"])
def port(request: Any, start: Any, free_port: int, tmp_path: Path) -> int:
    (tmp_path / "site_of_files.py").write_text(SITE)
    with open(tmp_path / "file", "wb") as file:
        for _ in range(400):
            file.write(DATA)
    if request.param == "waitress":
        command = [sys.executable, tmp_path / "site_of_files.py", str(free_port)]
    else:
        command = [sys.executable, "-m", "gunicorn", "--no-control-socket", "-b", f"127.0.0.1:{free_port}"]
        command += ["--threads", "2", "--chdir", tmp_path, "site_of_files:app"]
    start(command, free_port)
    return free_port


def fetch(port: int, path: str = "/", *headers: str) -> tuple[bytes, bytes]:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        request = "\r\n".join([f"GET {path} HTTP/1.1", "Host: localhost", "Connection: close", *headers, "", ""])
        client.sendall(request.encode())
        with client.makefile("rb") as answer:
            head, _, body = answer.read().partition(b"\r\n\r\n")
            return head, body


def test_on_real_servers(port: int) -> None:
    size = 400 * len(DATA)
    head, body = fetch(port)
    assert b" 200 OK" in head and len(body) == size and body == DATA * 400
    head, body = fetch(port, "/", "Range: bytes=1000-1999")
    assert b" 206 " in head and f"Content-Range: bytes 1000-1999/{size}".encode() in head
    assert body == (DATA * 8)[1000:2000]
    head, body = fetch(port, "/", "If-None-Match: *")
    assert b" 304 " in head and body == b""
    end = time.monotonic() + 10
    while fetch(port, "/closed")[1] != b"3" and time.monotonic() < end:
        time.sleep(0.05)
    assert fetch(port, "/closed")[1] == b"3"


def test_clients_that_do_not_read_are_no_burden(port: int) -> None:
    """100 MB are more than any socket buffers; waitress here has one thread (R10)."""
    idle = []
    try:
        client = socket.create_connection(("127.0.0.1", port), timeout=30)
        idle.append(client)
        client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 200")
        assert fetch(port, "/closed")[1] == b"0"
    finally:
        for client in idle:
            client.close()
    end = time.monotonic() + 10
    while fetch(port, "/closed")[1] != b"1" and time.monotonic() < end:
        time.sleep(0.05)
    assert fetch(port, "/closed")[1] == b"1", "a client that goes away closes the file"


def test_a_temporary_file(publish: Any) -> None:
    @view(context=dict)
    def download(context: Any, request: Request, response: Response) -> Any:
        made = tempfile.TemporaryFile()  # noqa: SIM115
        made.write(DATA)
        made.seek(0)
        return made

    server = FileServer(publish(download))
    assert server.file.fileno() > 2 and b"".join(server.sent) == DATA
    server.sent.close()


@pytest.mark.parametrize("when", [0, 1, 315_532_800, 1_700_000_000])
def test_a_new_page_of_the_same_length_and_time_is_another(tmp_path: Path, when: int) -> None:
    """Reproducible builds give all files one time. Neither 304 nor the end of another file is right."""
    page = tmp_path / "page.html"
    sent = []
    for text in (b"<p>old</p>", b"<p>new</p>"):
        fresh = tmp_path / "fresh"
        fresh.write_bytes(text)
        os.utime(fresh, (when, when))
        fresh.replace(page)
        sent.append(ask(serving(page)))
        assert ("Last-Modified" in sent[-1].headers) == (when == 1_700_000_000)
    old, new = (answer.headers["ETag"] for answer in sent)
    assert old != new
    assert ask(serving(page), HTTP_IF_NONE_MATCH=old).body == b"<p>new</p>"
    assert ask(serving(page), HTTP_IF_NONE_MATCH=new).status_int == 304
    resumed = ask(serving(page), HTTP_RANGE="bytes=5-", HTTP_IF_RANGE=old)
    assert (resumed.status_int, resumed.body) == (200, b"<p>new</p>")


@pytest.mark.parametrize("settled", [1.0, -100])
def test_a_file_that_is_written_in_its_place_is_hashed_again(
    tmp_path: Path, settled: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.http.files.SETTLED", settled)
    page = tmp_path / "page.txt"
    tags = set()
    for text in (b"1", b"2", b"3"):
        page.write_bytes(text)
        os.utime(page, (1, 1))
        tags.add(ask(serving(page)).headers["ETag"])
        time.sleep(0.02 if settled < 0 else 0)  # ctime has steps of some milliseconds
    assert len(tags) == 3


def test_paths_that_lead_nowhere_are_404(tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to("circle")
    for path in ("x" * 300, "y/" * 3000, "circle", "circle/x", "not\0", "."):
        assert ask(serving(f"{tmp_path}/{path}")).status_int == 404, path


def test_the_types_of_the_web_are_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mimetypes.guess_type", lambda name, strict: ("text/plain", None))
    for name, kind in (("a.js", "text/javascript"), ("a.CSS", "text/css"), ("a.woff2", "font/woff2"),
                       ("a.svg", "image/svg+xml"), ("a.unknown", "text/plain")):  # fmt: skip
        (tmp_path / name).touch()
        assert ask(serving(tmp_path / name)).headers["Content-Type"].startswith(kind)


def test_a_file_that_shrinks_ends_what_the_server_reads(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 100)
    with open(path, "rb", buffering=0) as opened:
        sent = SentFile(pipeline.http.files.FileBody(opened), lambda sent: None)
        assert sent.read(10) == b"x" * 10
        os.truncate(path, 20)
        assert sent.read(1000) == b"x" * 10
        with pytest.raises(OSError, match="shorter"):
            sent.read(1000)


def test_a_file_keeps_what_the_answer_varies_by(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("a")
    request, response = made_by_the_edge(Asked.blank("/").environ)
    response.headers["Vary"] = "Accept"
    serve(request, response, file)
    assert response.headers.getall("Vary") == ["Accept, Sec-Fetch-Dest"]
    request.close()
