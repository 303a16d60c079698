"""``log``: one line for each request, which no client can forge."""

from __future__ import annotations

import io
import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from webob import Request

import pipeline.elements.log
from around_a_view import looking
from pipeline import Pipeline
from pipeline.elements.errors import errors
from pipeline.elements.log import Records, log
from pipeline.elements.vhost import vhost
from pipeline.interfaces import ConfigurationError

COMBINED = re.compile(
    r'(?P<host>\S+) - (?P<user>\S+) \[(?P<time>[^]]+)\] "(?P<request>[^ "]+ [^ "\\]+ [^ "]+)" (?P<status>\d{3}) '
    r'(?P<bytes>\d+|-) "(?P<referrer>[^"]*)" "(?P<agent>[^"]*)" (?P<seconds>\d+\.\d{6})'
)


def app(environ: Any, start_response: Any) -> Any:
    start_response("201 Created", [("Content-Type", "text/plain")])
    return [b"hello"]


def streaming(environ: Any, start_response: Any) -> Iterator[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain")])
    yield b"abc"
    yield b"de"


def failing(environ: Any, start_response: Any) -> Any:
    raise ZeroDivisionError


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Callable[..., dict[str, str]]:
    """``logged(app, path, ...)``: the fields of the one line that a request leaves."""
    caplog.set_level(logging.INFO, logger="pipeline.access")

    def logged(pipeline: Any = None, path: str = "/", **environ: str) -> dict[str, str]:
        caplog.clear()
        pipeline = log()(app) if pipeline is None else pipeline
        request = Request.blank(path, environ=environ)
        body = pipeline(request.environ, lambda *started: None)
        assert isinstance(body, list) == bool(caplog.records), "written when it is closed"
        list(body)
        if hasattr(body, "close"):
            body.close()
        [record] = [record for record in caplog.records if record.name == "pipeline.access"]
        assert record.levelno == logging.INFO
        line = record.getMessage()
        assert line.isprintable(), "one line, whatever the client sent"
        found = COMBINED.fullmatch(line)
        assert found is not None, line
        return found.groupdict()

    return logged


def test_a_line_in_the_combined_log_format(logged: Any) -> None:
    line = logged(
        path="/a/b?c=d",
        REMOTE_ADDR="192.0.2.1",
        HTTP_REFERER="http://example.org/",
        HTTP_USER_AGENT="tests/1 (x)",
        SCRIPT_NAME="/app",
        SERVER_PROTOCOL="HTTP/1.1",
    )
    assert re.fullmatch(r"\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}", line.pop("time"))
    assert 0 <= float(line.pop("seconds")) < 5
    assert line == {
        "host": "192.0.2.1",
        "user": "-",
        "request": "GET /app/a/b?c=d HTTP/1.1",
        "status": "201",
        "bytes": "5",
        "referrer": "http://example.org/",
        "agent": "tests/1 (x)",
    }


def test_what_is_not_known_is_a_dash(logged: Any) -> None:
    line = logged()
    assert (line["host"], line["user"], line["referrer"], line["agent"]) == ("-", "-", "-", "-")


@pytest.mark.parametrize(
    ("pipeline", "status", "sent"),
    [
        (lambda: log()(app), "201", "5"),
        (lambda: log()(streaming), "200", "5"),
        (lambda: Pipeline(log(), errors(), failing), "500", None),
        (lambda: log()(failing), "500", None),
    ],
)
def test_status_and_bytes_are_what_the_visitor_got(logged: Any, pipeline: Any, status: str, sent: Any) -> None:
    line = logged(pipeline())
    assert line["status"] == status
    assert line["bytes"] == sent if sent is not None else int(line["bytes"]) > 0


def test_no_byte_is_sent_for_head(logged: Any) -> None:
    assert logged(REQUEST_METHOD="HEAD")["bytes"] == "0"


def test_a_stream_that_was_given_up_says_how_far_it_got(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="pipeline.access")
    body = log()(streaming)(Request.blank("/").environ, lambda *started: None)
    next(iter(body))
    body.close()
    assert '" 200 3 "' in caplog.text


def inside(change: Callable[[Any], Any]) -> Any:
    return Pipeline(log(), looking(change), app)


@pytest.mark.parametrize(
    ("principal", "user"),
    [("ada", "ada"), ("ada lovelace", r"ada\x20lovelace"), ('a"\n\\', r"a\x22\x0a\x5c"), ("Žofie", "Žofie")],
)
def test_the_user_is_the_principal(logged: Any, principal: str, user: str) -> None:
    assert logged(inside(lambda request: setattr(request, "principal", principal)))["user"] == user


def test_the_address_is_the_one_that_was_asked(logged: Any) -> None:
    """Whatever elements further in make of it."""
    changed = inside(lambda request: request.environ.update(PATH_INFO="/changed", SCRIPT_NAME="/x"))
    assert logged(changed, "/asked")["request"].startswith("GET /asked ")


HOSTILE = [
    ("PATH_INFO", '/x"\r\n192.0.2.9 - - "forged"'),
    ("PATH_INFO", "/\x1b[31mred\x1b[0m\x9b31m\x85"),
    ("PATH_INFO", "/\0\x7f\\x22\\"),
    ("QUERY_STRING", 'a="b"\nc'),
    ("HTTP_USER_AGENT", 'x" 200 0 "-" "forged'),
    ("HTTP_USER_AGENT", "x\r\nforged"),
    ("HTTP_REFERER", '\\"\x85\u2028\u2029'),
    ("REQUEST_METHOD", 'GET"\n'),
    ("SERVER_PROTOCOL", 'HTTP/1.1"\n'),
]


@pytest.mark.parametrize(("key", "value"), HOSTILE)
def test_no_client_writes_a_line_of_its_own(logged: Any, key: str, value: str) -> None:
    """The fixture finds one printable line of the right form."""
    line = logged(**{key: value})
    assert not any(character in "".join(line.values()) for character in '"\r\n\x1b\x9b\x85\0\x7f')


@pytest.mark.parametrize("sent", [{"HTTP_X_FORWARDED_FOR": "{}"}, {"HTTP_FORWARDED": 'for="[{}]:80"'}])
def test_an_address_behind_proxies_has_no_text_of_a_visitor(logged: Any, sent: dict[str, str]) -> None:
    """A visitor inside of a trusted network writes what the proxy believes."""
    forms = ("X-Forwarded", "Forwarded")
    pipeline = Pipeline(log(), vhost(trusted=("10.0.0.0/8",), accept=forms, allowed_hosts=("*",)), app)
    told = {name: value.format("fe80::1% - ann (x)\x85 'y") for name, value in sent.items()}
    assert logged(pipeline, REMOTE_ADDR="10.0.0.9", **told)["host"] == "fe80::1"


def test_a_backslash_is_told_from_an_escape(logged: Any) -> None:
    assert logged(HTTP_USER_AGENT="\\x0a\n")["agent"] == r"\x5cx0a\x0a"


@pytest.mark.parametrize(
    ("environ", "url"),
    [
        # As the client sent it, where the server says that.
        ({"REQUEST_URI": "/a%20b/%2F/gr%C3%BC%C3%9Fe?x=%22&y=a+b"}, "/a%20b/%2F/gr%C3%BC%C3%9Fe?x=%22&y=a+b"),
        ({"RAW_URI": "/a%20b?", "PATH_INFO": "/a b"}, "/a%20b?"),
        ({"REQUEST_URI": "http://example.org/a%20b"}, "http://example.org/a%20b"),
        ({"REQUEST_URI": "*", "REQUEST_METHOD": "OPTIONS"}, "*"),
        # Never with what ends a request line or a field of the log.
        ({"REQUEST_URI": '/a b" 200 5\t"\r\n\\'}, "/a%20b%22%20200%205%09%22%0D%0A%5C"),
        ({"RAW_URI": "/gr\xc3\xbc\x00\x7f\u2028"}, "/gr%C3%BC%00%7F?"),
        # As it could have been sent, where the server does not.
        ({"PATH_INFO": "/a b/100%/gr\xc3\xbc?#"}, "/a%20b/100%25/gr%C3%BC%3F%23"),
        ({"PATH_INFO": "/\\x0a\n", "SCRIPT_NAME": "/a b"}, "/a%20b/%5Cx0a%0A"),
        ({"PATH_INFO": "/a", "QUERY_STRING": 'x=%41 "\n&y=/?'}, "/a?x=%41%20%22%0A&y=/?"),
        ({"PATH_INFO": "", "SCRIPT_NAME": ""}, "/"),
    ],
)
def test_the_url_is_as_it_was_sent(logged: Any, environ: dict[str, str], url: str) -> None:
    """A program that reads the log splits the request line at its blanks."""
    method, asked, _ = logged(**environ)["request"].split(" ")
    assert (method, asked) == (environ.get("REQUEST_METHOD", "GET"), url)


def test_the_method_and_the_protocol_have_no_blank(logged: Any) -> None:
    line = logged(REQUEST_METHOD="GET /x HTTP/1.0", SERVER_PROTOCOL="HTTP/1.1 x")
    assert line["request"] == r"GET\x20/x\x20HTTP/1.0 / HTTP/1.1\x20x"


class Sender:
    """A server's ``wsgi.file_wrapper`` that has read so many bytes of the file, or sends it by its own means."""

    def __init__(self, file: Any, size: int = 0) -> None:
        self.file = file
        self.close = file.close

    def __iter__(self) -> Iterator[bytes]:
        return iter(lambda: self.file.read(4), b"")


@pytest.mark.parametrize(
    ("content", "blocks", "sent"),
    [(b"0123456789", 0, "-"), (b"0123456789", 1, "4"), (b"0123456789", 3, "10"), (b"", 0, "0")],
)
def test_of_a_file_the_bytes_that_the_server_took(
    caplog: pytest.LogCaptureFixture, tmp_path: Path, content: bytes, blocks: int, sent: str
) -> None:
    """A server that sends the file without reading it here (sendfile) does not say how far it got."""
    caplog.set_level(logging.INFO, logger="pipeline.access")
    (tmp_path / "file").write_bytes(content)

    def download(environ: Any, start_response: Any) -> Any:
        start_response("200 OK", [("Content-Type", "text/plain")])
        return environ["wsgi.file_wrapper"]((tmp_path / "file").open("rb"))

    environ = Request.blank("/", environ={"wsgi.file_wrapper": Sender}).environ
    body = log()(download)(environ, lambda *started: None)
    for _ in zip(range(blocks), body, strict=False):
        pass
    body.close()
    assert f'" 200 {sent} "' in caplog.text


def test_another_logger(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="site.hits")
    Request.blank("/").get_response(log(logger="site.hits")(app))
    assert [record.name for record in caplog.records] == ["site.hits"]


def test_the_record_is_that_of_logging(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Formats of lines may use all that a record has, also in another thread or process, and a factory counts."""
    logger = logging.getLogger("tests.records")
    caplog.set_level(logging.INFO, logger="tests.records")
    made = Records(logger)

    def both() -> None:
        logger.info("%s", "a %s line")
        logger.handle(made("a %s line"))

    def judge() -> None:
        theirs, ours = (vars(record) for record in caplog.records[-2:])
        assert list(theirs) == list(ours)
        different = {name for name in theirs if theirs[name] != ours[name]} - {"message", "asctime"}
        place = {"pathname", "filename", "module", "lineno", "funcName"}
        assert different <= {*place, "created", "msecs", "relativeCreated"}
        for name in ("created", "relativeCreated"):
            assert 0 <= ours[name] - theirs[name] < 5_000
        assert -1.001 < ours["msecs"] - ours["created"] % 1 * 1000 < 0.001  # logging rounds nanoseconds, since 3.13
        assert caplog.records[-1].getMessage() == "a %s line"

    thread = threading.Thread(target=both, name="another")
    thread.start()
    thread.join()
    judge()
    assert caplog.records[-1].threadName == "another"
    monkeypatch.setattr(os, "getpid", lambda: 7)
    both()
    judge()
    assert caplog.records[-1].process == 7
    monkeypatch.setattr(logging, "_logRecordFactory", type("Other", (logging.LogRecord,), {}))
    both()
    judge()
    assert type(caplog.records[-1]).__name__ == "Other"


def test_a_logger_that_is_off_costs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="pipeline.access")
    closers: list[Any] = []
    pipeline = Pipeline(log(), looking(lambda request: closers.append(request.closers)), app)
    Request.blank("/").get_response(pipeline)
    assert closers == [None] and caplog.records == []


def test_a_log_that_fails_fails_no_request(caplog: pytest.LogCaptureFixture) -> None:
    """R6: the line is written while the request is closed."""
    caplog.set_level(logging.INFO, logger="pipeline.access")
    broken = inside(lambda request: setattr(request, "principal", 3))  # no str
    assert Request.blank("/").get_response(broken).status_int == 201
    assert "closing GET /" in caplog.text


def test_a_long_request_line_is_shortened() -> None:
    """A client fills no disk: of what it sends, so much stands in the log."""
    from pipeline.elements import log as module

    assert len(module._quoted("a" * 10**6)) == module.LONGEST + 2
    assert len(module._bare("a" * 10**6)) == module.LONGEST
    for environ in ({"REQUEST_URI": "/" * 10**6}, {"QUERY_STRING": "a" * 10**6}):
        assert len(module._asked(environ, "\xff" * 10**6)) <= 3 * module.LONGEST


# A file (option ``file``).


def test_lines_in_a_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    file = tmp_path / "access.log"
    file.write_text("before\n")
    pipeline = log(file=str(file))(app)
    for path in ("/a", "/b"):
        Request.blank(path, environ={"HTTP_REFERER": "\xe9\udc80"}).get_response(pipeline)
    before, *lines = file.read_text().splitlines()
    assert before == "before" and [found["request"] for line in lines if (found := COMBINED.fullmatch(line))] == [
        "GET /a HTTP/1.0",
        "GET /b HTTP/1.0",
    ]
    assert caplog.records == []


def test_a_file_that_was_rotated_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000_000_000.0]
    monkeypatch.setattr("pipeline.elements.log.time.time", lambda: now[0])
    file = tmp_path / "access.log"
    pipeline = log(file=str(file))(app)

    def ask(path: str) -> None:
        Request.blank(path).get_response(pipeline)

    ask("/1")
    file.rename(tmp_path / "access.log.1")
    ask("/2")
    now[0] += 1
    ask("/3")
    file.unlink()
    now[0] += 1
    ask("/4")
    assert [line.split()[6] for line in (tmp_path / "access.log.1").read_text().splitlines()] == ["/1", "/2"]
    assert [line.split()[6] for line in file.read_text().splitlines()] == ["/4"]
    assert "[09/Sep/2001:01:46:42 " in file.read_text() or time.timezone


@pytest.mark.parametrize("is_open", [False, True])
def test_a_file_in_the_place_of_a_rotated_one_is_for_the_same_users__S26(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_open: bool
) -> None:
    """Addresses of visitors, and what stands in queries, were for every user from the first rotation on. A process
    that has not written yet may be the one that makes the new file."""
    now = [1_000_000_000.0]
    monkeypatch.setattr("pipeline.elements.log.time.time", lambda: now[0])
    file = tmp_path / "access.log"
    file.touch(0o666 if is_open else 0o640)
    pipeline = log(file=str(file))(app)
    if is_open:
        Request.blank("/1").get_response(pipeline)
        file.chmod(0o640)
        now[0] += 1
    for number in (1, 2):
        file.rename(tmp_path / f"access.log.{number}")
        Request.blank("/2").get_response(pipeline)
        now[0] += 1
    assert file.stat().st_mode & 0o777 == 0o640 and "/2" in file.read_text()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_threads_and_processes_do_not_mix_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "access.log"
    pipeline = log(file=str(file))(app)

    def ask() -> None:
        for _ in range(200):
            Request.blank("/" + "x" * 3000).get_response(pipeline)

    if (child := os.fork()) == 0:
        ask()
        os._exit(0)
    threads = [threading.Thread(target=ask), threading.Thread(target=ask)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert os.waitpid(child, 0)[1] == 0
    lines = file.read_text().splitlines()
    assert len(lines) == 600 and all(map(COMBINED.fullmatch, lines))


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_lines_on_a_standard_stream(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    access = logging.getLogger(f"on.{name}")
    pipeline = log(file=name, logger=access.name)(app)
    assert not log(file=name).facts.writes
    Request.blank("/silent").get_response(pipeline)  # as of commands, which set up no logging
    access.setLevel(logging.INFO)
    Request.blank("/a", environ={"HTTP_REFERER": "\xe9\udc80"}).get_response(pipeline)
    found = getattr(capfd.readouterr(), name[3:])
    assert COMBINED.fullmatch(found.removesuffix("\n")) and "GET /a HTTP/1.0" in found


def test_a_standard_stream_that_is_no_file_or_takes_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    access = logging.getLogger("on.a.stream")
    access.setLevel(logging.INFO)
    monkeypatch.setattr("sys.stdout", stream := io.StringIO())  # as mod_wsgi has one
    Request.blank("/a").get_response(log(file="stdout", logger=access.name)(app))
    assert COMBINED.fullmatch(stream.getvalue().removesuffix("\n"))
    with open("/dev/full", "w") as full:
        monkeypatch.setattr("sys.stdout", full)
        pipeline = log(file="stdout", logger=access.name)(app)
        assert Request.blank("/").get_response(pipeline).status_int == 201
    assert "stdout cannot be written, a line is lost: No space left on device" in caplog.text


def test_a_file_that_cannot_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ConfigurationError, match=r"log: file .*/missing/log cannot be written: No such file"):
        log(file=str(tmp_path / "missing" / "log"))(app)
    place = tmp_path / "place"
    place.mkdir()
    pipeline = log(file=str(place / "log"))(app)
    (place / "log").unlink()
    place.rmdir()
    for _ in range(3):
        assert Request.blank("/").get_response(pipeline).status_int == 201
    assert 1 <= caplog.text.count("cannot be written, lines are lost: No such file") <= 2


def test_months_are_english_in_every_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    """A locale of the site would write another name, which no reader of logs knows."""
    monkeypatch.setattr(pipeline.elements.log, "_stamp", (0, ""))
    plain = time.strftime
    monkeypatch.setattr(time, "strftime", lambda form, *when: plain(form.replace("%b", "Mär"), *when))
    monkeypatch.setattr(time, "time", lambda: 1_709_294_400.0)
    assert "/Mar/2024:" in pipeline.elements.log._time()
