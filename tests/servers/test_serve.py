"""``pipeline serve``: what a developer sees, what it refuses in one line, and how it stops."""

from __future__ import annotations

import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pipeline.tools.command import main
from servers.zeo import ZEO

COMMAND = [sys.executable, "-m", "pipeline", "serve"]

CODE = '''\
"""A site of a few words."""
import os, time
from pathlib import Path

WORD = "first"

def make(global_conf, **options):
    def app(environ, start_response):
        path = environ["PATH_INFO"]
        if path == "/slow":
            time.sleep(1.5)
        body = WORD.encode()
        if path == "/option":
            body = options["word"].encode()
        if path == "/large":
            body = b"x" * 20_000_000
        if path == "/pid":
            body = str(os.getpid()).encode()
        if path == "/multiprocess":
            body = str(environ["wsgi.multithread"]).encode()
        start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
        return [body]
    return app
'''

INI = """\
[DEFAULT]
word = of the ini

[app:main]
paste.app_factory = words_{name}:make
get word = word

[server:main]
use = egg:waitress#main
"""


@pytest.fixture
def ini(tmp_path: Path) -> Path:
    """An ini with the code of its site beside it."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "words_beside.py").write_text(CODE)
    path = site / "site.ini"
    path.write_text(INI.format(name="beside"))
    return path


def get(port: int, path: str = "/", **headers: str) -> str:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        connection.request("GET", path, headers=headers)
        return connection.getresponse().read().decode()


def refused(*arguments: object, cwd: Path) -> str:
    """Run the command, which refuses; return what it said, which is one line."""
    done = subprocess.run([*COMMAND, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, done
    said = done.stdout + done.stderr
    assert said.startswith("pipeline serve: ") and said.count("\n") == 1, said
    return said


def wait_for(text: str, read: Callable[[], str], seconds: float = 20) -> str:
    end = time.monotonic() + seconds
    while text not in (said := read()):
        assert time.monotonic() < end, said
        time.sleep(0.05)
    return said


def processes_of(port: int) -> int:
    """Return how many processes answer, 1 or 2."""
    found: set[str] = set()
    for _ in range(400):
        found.add(get(port, "/pid"))
        if len(found) == 2:
            break
    return len(found)


@pytest.mark.servers
def test_it_says_the_address_and_logs_requests(
    ini: Path, start: Callable[..., Any], free_port: int, tmp_path: Path
) -> None:
    """Without [loggers] and from another directory; the code of the site is beside the ini."""
    (tmp_path / "elsewhere").mkdir()
    ini.write_text(
        "[pipeline:main]\npipeline = egg:wsgi-pipeline#log app\n\n"
        + INI.format(name="beside").replace(":main", ":app", 1)
    )
    server = start([*COMMAND, ini, "--port", str(free_port)], free_port, cwd=tmp_path / "elsewhere")
    assert get(free_port) == "first"
    said = wait_for('"GET / HTTP/1.1" 200 5', server.said)
    assert f"site.ini: http://127.0.0.1:{free_port}/ by waitress. Ctrl-C stops it." in said
    assert "pkg_resources" not in said and "Warning" not in said


@pytest.mark.servers
def test_a_change_of_code_template_or_ini_starts_it_again(
    ini: Path, start: Callable[..., Any], free_port: int
) -> None:
    """No request is refused meanwhile, and a mistake is one line."""
    code = ini.with_name("words_beside.py")
    server = start([*COMMAND, ini, "--port", str(free_port)], free_port)
    assert get(free_port) == "first"
    time.sleep(2)  # hupper lists the files of the modules every second
    answers: list[str] = []
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            answers.append(get(free_port))

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        code.write_text(CODE.replace('"first"', '"the second"'))
        wait_for("the second", lambda: get(free_port))
        ini.write_text(INI.format(name="beside").replace("of the ini", "another word"))
        wait_for("another word", lambda: get(free_port, "/option"))
    finally:
        stop.set()
        asking.join()
    assert set(answers) == {"first", "the second"}
    code.write_text("def make(:\n")
    wait_for("words_beside.py, line 1: invalid syntax", server.said)
    time.sleep(2)  # hupper begins to wait for a change
    code.write_text(CODE.replace('"first"', '"the third"'))
    wait_for("the third", lambda: get(free_port))
    assert "Traceback" not in server.said()


@pytest.mark.servers
def test_a_start_is_one_line_and_the_address_of_debug_mode_stays(
    ini: Path, start: Callable[..., Any], free_port: int
) -> None:
    ini.write_text("[pipeline:main]\npipeline = shown app\n\n[filter:shown]\nuse = egg:wsgi-pipeline#errors\n"
                   "debug = true\n\n" + INI.format(name="beside").replace(":main", ":app", 1))  # fmt: skip
    code = ini.with_name("words_beside.py")
    server = start([*COMMAND, ini.name, "--port", str(free_port)], free_port, cwd=ini.parent)
    wait_for("first", lambda: get(free_port))
    time.sleep(2)  # hupper lists the files of the modules every second
    for word in ("second", "third"):
        code.write_text(CODE.replace("first", word))
        wait_for(word, lambda: get(free_port))
        time.sleep(2)
    first, told, *starts = server.said().splitlines()
    assert first.startswith("site.ini: http://127.0.0.1:")
    [address] = re.findall(rf"http://127\.0\.0\.1:{free_port}(/\?debug-key=\S+) once$", told)
    assert starts == ["words_beside.py changed: the site starts again"] * 2
    with closing(http.client.HTTPConnection("127.0.0.1", free_port, timeout=30)) as connection:
        connection.request("GET", address)
        assert connection.getresponse().status == 303
    code.write_text("def make(:\n")
    wait_for("invalid syntax", server.said)
    time.sleep(2)
    code.write_text(CODE.replace("first", "fourth"))
    wait_for("fourth", lambda: get(free_port))
    assert server.said().count(address) == 2, "it may not have been told, so it is told again"


def test_templates_are_watched() -> None:
    from pipeline.tools import serve

    options = serve.parse(["etc/deploy.ini"])
    found = serve.watched(options)
    assert [path for path in found if path.endswith("pipeline_demo/**/*.html")]
    assert [path for path in found if path.endswith("etc/deploy.ini")]


@pytest.mark.servers
def test_what_waitress_refuses_by_itself_is_told(ini: Path, start: Callable[..., Any], free_port: int) -> None:
    """A body that is too long, a header without a colon, a browser that speaks https; the next client is served."""
    ini.write_text(ini.read_text() + "max_request_body_size = 1000\n")
    server = start([*COMMAND, ini, "--port", str(free_port), "--no-reload"], free_port)
    for sent, said in (
        (b"POST / HTTP/1.1\r\nContent-Length: 2000\r\n\r\n", "413 Request Entity Too Large: exceeds max_body"),
        (b"GET / HTTP/1.1\r\nno header\r\n\r\n", "400 Bad Request"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "speaks https, and this port speaks http"),
    ):
        with socket.create_connection(("127.0.0.1", free_port), timeout=10) as client:
            client.sendall(sent)
            assert bool(client.recv(100)) is sent[:1].isalpha()
        wait_for(f"127.0.0.1 {'is refused by waitress: ' * sent[:1].isalpha()}{said}", server.said)
    assert get(free_port) == "first"


@pytest.mark.servers
def test_variables_beat_those_of_default(ini: Path, start: Callable[..., Any], free_port: int) -> None:
    """Also in the sections of the logging."""
    ini.write_text(
        ini.read_text().replace("[DEFAULT]", "[DEFAULT]\nloudness = ERROR\n")
        + "[loggers]\nkeys = root\n[handlers]\nkeys = one\n[formatters]\nkeys = line\n"
        "[logger_root]\nlevel = %(loudness)s\nhandlers = one\n"
        "[handler_one]\nclass = StreamHandler\nargs = (sys.stdout,)\nformatter = line\n"
        "[formatter_line]\nformat = SHAPE %(message)s\n"
    )
    code = ini.with_name("words_beside.py")
    code.write_text(CODE.replace("    def app(", "    import logging; logging.info('heard')\n    def app("))
    variables = ["word=100% of it", "loudness=INFO"]
    server = start([*COMMAND, ini, *variables, "--port", str(free_port), "--no-reload"], free_port)
    assert get(free_port, "/option") == "100% of it"
    assert "SHAPE heard" in server.said()


@pytest.mark.servers
def test_the_working_directory_is_importable(
    ini: Path, start: Callable[..., Any], free_port: int, tmp_path: Path
) -> None:
    (tmp_path / "words_here.py").write_text(CODE.replace('"first"', '"here"'))
    ini.write_text(INI.format(name="here"))
    start([*COMMAND, "site/site.ini", "--port", str(free_port), "--no-reload"], free_port, cwd=tmp_path)
    assert get(free_port) == "here"


@pytest.mark.parametrize("reload", [True, False])
@pytest.mark.servers
def test_sigterm_lets_it_finish_what_it_has_begun(
    reload: bool, ini: Path, start: Callable[..., Any], free_port: int
) -> None:
    """An answer that is being made, and a long one that a slow client reads; R9 as far as waitress can.

    A client that goes on asking on one connection is told to ask the next server.
    """
    server = start([*COMMAND, ini, "--port", str(free_port), *([] if reload else ["--no-reload"])], free_port)
    assert get(free_port) == "first"
    answers: dict[str, int] = {}

    def read_slowly(path: str) -> None:
        with closing(http.client.HTTPConnection("127.0.0.1", free_port, timeout=30)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            answers[path] = 0
            while block := answer.read(1_000_000):
                answers[path] += len(block)
                time.sleep(0.1)

    told: list[float] = []

    def keep_asking() -> None:
        with closing(http.client.HTTPConnection("127.0.0.1", free_port, timeout=30)) as connection:
            while not told:
                connection.request("GET", "/")
                answer = connection.getresponse()
                assert answer.read() == b"first"
                if answer.getheader("Connection") == "close":
                    told.append(time.monotonic())
                time.sleep(0.02)

    readers = [threading.Thread(target=read_slowly, args=(path,)) for path in ("/slow", "/large")]
    readers.append(threading.Thread(target=keep_asking))
    for reader in readers:
        reader.start()
    time.sleep(0.7)
    began = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    for reader in readers:
        reader.join()
    assert told and 0 < told[0] - began < 5, "it does not go on for as long as the others need"
    assert answers == {"/slow": 5, "/large": 20_000_000}
    assert server.process.wait(10) == 0
    with pytest.raises(ConnectionRefusedError):
        get(free_port)


def start_two_workers(server: str, ini: Path, start: Callable[..., Any], port: int) -> Any:
    """Serve by two workers, and wait until both have started: the first one answers before there is another."""
    command = [*COMMAND, ini, "word=given", "--server", server, "--workers", "2", "--threads", "2"]
    running = start([*command, "--port", str(port)], port)
    wait_for("given", lambda: get(port, "/option"))
    wait_for("2", lambda: str(len(workers_of(running.process.pid))))
    return running


@pytest.mark.parametrize("server", ["gunicorn", "granian"])
@pytest.mark.servers
def test_several_workers(
    server: str, ini: Path, start: Callable[..., Any], free_port: int, need_packages: Callable[..., None]
) -> None:
    need_packages(server)
    running = start_two_workers(server, ini, start, free_port)
    assert get(free_port, "/option", SCRIPT_NAME="/option") == "given", "no visitor moves the site (S13)"
    assert processes_of(free_port) == 2
    assert f"site.ini: http://127.0.0.1:{free_port}/ by {server}." in running.said()
    answers: list[str] = []
    reader = threading.Thread(target=lambda: answers.append(get(free_port, "/slow")))
    reader.start()
    time.sleep(0.5)
    running.process.send_signal(signal.SIGTERM)
    reader.join()
    assert answers == ["first"]
    assert running.process.wait(20) == 0


@pytest.mark.parametrize("server", ["gunicorn", "granian"])
@pytest.mark.servers
def test_a_worker_that_is_killed_is_replaced(
    server: str, ini: Path, start: Callable[..., Any], free_port: int, need_packages: Callable[..., None]
) -> None:
    """Granian ends all workers when one is killed, unless it is told to start another."""
    need_packages(server)
    running = start_two_workers(server, ini, start, free_port)
    before = workers_of(running.process.pid)
    os.kill(min(before), signal.SIGKILL)
    end = time.monotonic() + 20
    while time.monotonic() < end and (len(now := workers_of(running.process.pid)) < len(before) or now == before):
        time.sleep(0.1)
    assert len(now) == len(before) and now != before
    assert running.process.poll() is None
    wait_for("given", lambda: get(free_port, "/option"))


def workers_of(pid: int) -> set[int]:
    """Return the processes that a server has started to answer requests; Python's own helper is not one."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    words = {child: Path(f"/proc/{child}/cmdline").read_bytes() for child in children}
    return {int(child) for child in children if b"resource_tracker" not in words[child]}


@pytest.mark.parametrize(
    ("section", "settings"),
    [
        ("egg:gunicorn#main", "workers = 2\nthreads = 2\n"),
        ("egg:wsgi-pipeline#granian", "workers = 2\nthreads = 2\n"),
        ("egg:waitress#main", "threads = 2\nident = words\n"),
        ("egg:Paste#http", ""),
    ],
)
@pytest.mark.servers
def test_the_ini_can_say_the_same(
    section: str,
    settings: str,
    ini: Path,
    start: Callable[..., Any],
    free_port: int,
    need_packages: Callable[..., None],
) -> None:
    need_packages(section[4:].split("#")[0].replace("wsgi-pipeline", "granian").lower())
    text = ini.read_text().replace(
        "egg:waitress#main", f"{section}\nhost = 127.0.0.1\nport = {free_port}\n{settings}"
    )
    ini.write_text(text)
    start([*COMMAND, ini], free_port)
    wait_for("first", lambda: get(free_port))
    assert processes_of(free_port) == (2 if "workers" in settings else 1)


@pytest.mark.servers
def test_granian_speaks_http_1_alone(
    ini: Path, start: Callable[..., Any], free_port: int, need_packages: Callable[..., None]
) -> None:
    """R11: by HTTP/2 a body without a length would end wherever it breaks off."""
    need_packages("granian")
    start([*COMMAND, ini, "--server", "granian", "--port", str(free_port)], free_port)
    wait_for("first", lambda: get(free_port))
    with socket.create_connection(("127.0.0.1", free_port), timeout=10) as client:
        client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0")  # and empty SETTINGS
        client.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: client.recv(65536), b""))
    assert not answer or answer.startswith(b"HTTP/1.1 4"), answer


@pytest.mark.once
def test_what_cannot_be_served_is_one_line_with_the_remedy(ini: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refused(ini, "--port", port, cwd=tmp_path)
    assert (
        said == f"pipeline serve: 127.0.0.1:{port}: Address already in use; choose another with --host or --port\n"
    )
    assert refused("none.ini", cwd=tmp_path).endswith("none.ini: No such file or directory\n")
    for wrong, said in (
        (["word"], "argument name=value: 'word' is not of the form name=value"),
        (["--port", "99999"], "argument --port: '99999' is not a whole number from 1 to 65535"),
    ):
        done = subprocess.run([*COMMAND, ini, *wrong], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr.splitlines()[-1]) == (2, f"pipeline serve: error: {said}")
    said = refused(ini, "--workers", 2, cwd=tmp_path)
    assert said.endswith("for several workers add --server gunicorn or --server granian\n")
    ini.write_text("[pipeline:main]\npipeline = egg:wsgi-pipeline#traverse egg:wsgi-pipeline#publisher\n")
    assert "traverse requires 'root'" in refused(ini, cwd=tmp_path)
    ini.write_text("[app:main]\nuse = egg:wsgi-pipeline#nothing\n")
    assert "nothing" in refused(ini, cwd=tmp_path)
    ini.write_text("[app:main\n")
    assert "site.ini" in refused(ini, cwd=tmp_path)


@pytest.mark.once
def test_a_change_does_not_wait_for_the_watcher_of_the_modules(ini: Path, tmp_path: Path) -> None:
    """The watcher pauses for a minute here. The old process ends at once, and so the new one starts."""
    code = """if True:
        import socket, sys
        from hupper import worker
        from pipeline.tools import serve

        class Pipe:
            def activate(self, handle): ...
            def send(self, packet): ...

        serve.PAUSE = worker.WatchSysModules.poll_interval = 60
        serve.run = lambda *arguments: 0
        listener = socket.create_server(("127.0.0.1", 0))
        worker.worker_main("pipeline.tools.serve.reloaded", Pipe(), [sys.argv[1:], listener.fileno(), "key", True])
    """
    subprocess.run([sys.executable, "-c", code, ini], cwd=tmp_path, check=True, timeout=50)


@pytest.mark.once
def test_several_workers_cannot_share_a_file(tmp_path: Path) -> None:
    said = refused("etc/deploy.ini", "--server", "gunicorn", "--workers", "2", cwd=Path.cwd())
    assert re.search(r"2 processes cannot serve .*: one process has file:\S+Data\.fs .* zeo://", said)


def test_a_missing_extra_is_named(
    ini: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("pipeline.tools.serve.find_spec", lambda name: None)
    assert main(["serve", str(ini), "--server", "granian"]) == 1
    assert capsys.readouterr().err == (
        "pipeline serve: the module granian is missing: pip install 'wsgi-pipeline[granian]'\n"
    )


@pytest.mark.servers
def test_it_says_what_it_means_to_listen_on_every_address(
    ini: Path, start: Callable[..., Any], free_port: int
) -> None:
    server = start([*COMMAND, ini, "--host", "0.0.0.0", "--port", str(free_port), "--no-reload"], free_port)
    assert "It listens on every address of this machine: every client that reaches the machine" in server.said()


@pytest.mark.servers
def test_it_says_the_addresses_that_the_ini_has(ini: Path, start: Callable[..., Any], free_port: int) -> None:
    ini.write_text(f"{ini.read_text()}listen = *:{free_port}\n")
    server = start([*COMMAND, ini, "--no-reload"], free_port)
    assert get(free_port) == "first"
    assert f"site.ini: *:{free_port} by waitress." in server.said()
    assert "It listens on every address of this machine" in server.said()


LISTENS = """
import socket

def server(global_conf, host="0.0.0.0", port="1"):
    def run(app):
        print("listens", host, port, flush=True)
        with socket.create_server((host, int(port))) as listener:
            listener.accept()
    return run
"""
WAITRESS = "use = egg:waitress#main"
OTHER = "paste.server_factory = listens:server\nhost = 0.0.0.0"


@pytest.mark.servers
@pytest.mark.parametrize("section", [WAITRESS, WAITRESS + "\nlisten = *:{other}", OTHER])
def test_the_address_of_the_command_line_is_that_of_the_server(
    section: str, ini: Path, start: Callable[..., Any], free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It beats every address in the ini, of each server, and the sockets that systemd gave to another process: the
    server listens on that address alone."""
    monkeypatch.setenv("LISTEN_FDS", "1")
    monkeypatch.setenv("LISTEN_PID", "1")
    with socket.create_server(("127.0.0.1", 0)) as other:
        ini.with_name("listens.py").write_text(LISTENS)
        section = section.format(other=other.getsockname()[1])
        ini.write_text(ini.read_text().replace(WAITRESS, section))
        where = ["--host", "127.0.0.1", "--port", str(free_port)]
        server = start([*COMMAND, ini, *where, "--no-reload"], free_port)
    said = wait_for(f"site.ini: http://127.0.0.1:{free_port}/ by ", server.said)
    assert "every address" not in said
    if section == OTHER:
        wait_for(f"listens 127.0.0.1 {free_port}", server.said)
    else:
        assert get(free_port) == "first"


def test_waitress_takes_one_socket_of_systemd(ini: Path, tmp_path: Path) -> None:
    """The variables are those of this process."""
    given = "os.environ.update(LISTEN_FDS='2', LISTEN_PID=str(os.getpid()))"
    code = f"import os, sys; {given}; os.execv(sys.argv[1], sys.argv[1:])"
    command = [sys.executable, "-c", code, *COMMAND, str(ini)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and "systemd has opened 2 sockets, and waitress takes one" in done.stderr


def test_the_command_says_its_version_and_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        main(["--version"])
    assert done.value.code == 0 and capsys.readouterr().out.startswith("wsgi-pipeline ")
    with pytest.raises(SystemExit) as done:
        main(["--help"])
    help = capsys.readouterr().out
    assert done.value.code == 0
    assert all(f"\n  {name} " in help for name in ("serve", "deploy", "show", "check", "explain", "copy-database"))
    with pytest.raises(SystemExit) as done:
        main(["srve"])
    assert done.value.code == 2


@pytest.mark.servers
def test_production_ini_runs_two_workers_on_zeo(
    start: Callable[..., Any], zeo: ZEO, free_port: int, tmp_path: Path
) -> None:
    uri = zeo.uri(options=f"blob_dir={tmp_path}/blobs&shared_blob_dir=0")
    variables = [f"zodb_uri={uri}", f"session_keys={tmp_path}/keys", f"http_port={free_port}"]
    server = start([*COMMAND, "etc/production.ini", *variables, f"watch={tmp_path}/watch"], free_port)
    assert get(free_port, "/@@health") == "ready\n"
    numbers = [int(post(free_port, "/counter/@@next")) for _ in range(20)]
    assert numbers == list(range(numbers[0], numbers[0] + 20))
    said = wait_for('"POST /counter/@@next HTTP/1.1" 200', server.said)
    assert said.count("Booting worker") == 2
    assert "/@@health" not in said


def post(port: int, path: str) -> str:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        connection.request("POST", path)
        return connection.getresponse().read().decode()


SITE = """\
[pipeline:main]
pipeline = errors vhost traverse site

[filter:vhost]
use = egg:wsgi-pipeline#vhost

[filter:errors]
use = egg:wsgi-pipeline#errors
debug = true

[filter:traverse]
use = egg:wsgi-pipeline#traverse
root = {name}_root:root

[app:site]
use = egg:wsgi-pipeline#publisher
scan = {name}_views
"""
VIEWS = """\
from pipeline import view

@view()
def index(context, request):
    return "a page"
"""
MISTAKES = {
    "syntax": ("views", lambda text: f"{text}\ndef broken(:", "SyntaxError"),
    "a missing module": ("views", lambda text: f"import is_not_here\n{text}", "is_not_here"),
    "the order": ("ini", lambda text: text.replace("vhost traverse", "traverse vhost"), "where traversal starts"),
    "an option": ("ini", lambda text: text.replace("debug = true", "debugg = true"), "debugg"),
}
"""The file that gets the mistake, the change, and a word on the page."""


@pytest.mark.once
def test_a_mistake_is_a_page_until_it_is_mended(
    tmp_path: Path, start: Callable[..., Any], free_port: int
) -> None:
    """Also if a file is changed while the site starts, when the reloader has not looked at it yet; and if a backup,
    which has an older time, is put back."""
    name = f"mended_{free_port}"
    files = {"ini": tmp_path / "site.ini", "views": tmp_path / f"{name}_views.py"}
    files["ini"].write_text(SITE.format(name=name))
    files["views"].write_text(VIEWS)
    (tmp_path / f"{name}_root.py").write_text("def root(request):\n    return {}\n")
    server = start([*COMMAND, files["ini"], "--port", str(free_port)], free_port)
    cookie = ""

    def ask() -> tuple[int, str, str | None]:
        with closing(http.client.HTTPConnection("127.0.0.1", free_port, timeout=30)) as connection:
            connection.request("GET", "/", headers={"Cookie": cookie})
            answer = connection.getresponse()
            return answer.status, answer.read().decode(), answer.getheader("Refresh")

    def until(status: int) -> tuple[int, str, str | None]:
        end = time.monotonic() + 60
        while (answer := ask())[0] != status:
            assert time.monotonic() < end, answer
            time.sleep(0.05)
        return answer

    assert until(200)[1] == "a page"
    cookie = re.findall(r"debug-key=\S+", server.output.read_text())[0]
    for which, change, word in MISTAKES.values():
        right = files[which].read_text()
        backup = Path(shutil.copy2(files[which], tmp_path / "backup"))
        files[which].write_text(change(right))
        _, page, refresh = until(500)
        assert word in page and refresh == "1"
        if which == "ini":
            backup.replace(files[which])
        else:
            files[which].write_text(right)
        assert until(200)[1:] == ("a page", None)
    files["views"].write_text(f"import made_{name}\n{VIEWS}")
    until(500)
    (tmp_path / f"made_{name}.py").write_text("")
    assert until(200)[1] == "a page"
