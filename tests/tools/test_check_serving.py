"""``pipeline check`` of inis that load, and cannot be served: the logging and the options of the server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.checking.logs import of_logging
from pipeline.checking.servers import is_for_development, of_server
from pipeline.loading.site import logging_in
from pipeline.telling.findings import Finding

INI = """\
[DEFAULT]
lowest = INFO

[server:main]
use = egg:waitress#main
host = 127.0.0.1
threads = 4
max_request_body_size = 1000

[loggers]
keys = root, site

[handlers]
keys = stderr, file

[formatters]
keys = line

[logger_root]
level = %(lowest)s
handlers = stderr

[logger_site]
qualname = site
level = INFO
handlers = file

[handler_stderr]
class = StreamHandler
args = (sys.stderr,)
formatter = line

[handler_file]
class = handlers.WatchedFileHandler
args = ('%(here)s/site.log', 'a')
formatter = line

[formatter_line]
format = %(asctime)s %(levelname)s %(message)s
"""

WRONG: list[tuple[str, str, str, str]] = [
    ("class = StreamHandler", "class = StremHandler", "handler_stderr", "class = StremHandler: "),
    (
        "class = handlers.WatchedFileHandler",
        "class = nowhere.Handler",
        "handler_file",
        "there is no module 'nowhere'",
    ),
    (
        "args = (sys.stderr,)\nformatter = line",
        "args = (sys.stderr,)\nformatter = lin",
        "handler_stderr",
        "the formatter 'lin'",
    ),
    (
        "args = (sys.stderr,)",
        "args = (sys.stder,)",
        "handler_stderr",
        "the arguments of StreamHandler: AttributeError",
    ),
    (
        "args = (sys.stderr,)",
        "args = (sys.stderr, 1)",
        "handler_stderr",
        "the arguments of StreamHandler: TypeError",
    ),
    ("args = (sys.stderr,)", "args = (sys.stderr", "handler_stderr", "the arguments of StreamHandler: "),
    (
        "%(here)s/site.log",
        "%(here)s/log/site.log",
        "handler_file",
        "log is not there, so handlers.WatchedFileHandler",
    ),
    ("%(here)s/site.log", "%(ther)s/site.log", "handler_file", "ther"),
    ("level = %(lowest)s", "level = %(lowst)s", "logger_root", "lowst"),
    ("qualname = site\nlevel = INFO", "qualname = site\nlevel = INFOS", "logger_site", "'INFOS' is not a level"),
    ("format = %(asctime)s %(levelname)s %(message)s", "format = nothing", "formatter_line", "Invalid format"),
    (
        "[formatter_line]\n",
        "[formatter_line]\nclass = nowhere.Formatter\n",
        "formatter_line",
        "there is no module 'nowhere'",
    ),
    ("keys = stderr, file", "keys = stderr", "logger_site", "which [handlers] does not list"),
    ("keys = line", "keys = line, other", "formatters", "[formatter_other] is not there"),
]


def found_in(tmp_path: Path, text: str) -> list[Finding]:
    ini = tmp_path / "site.ini"
    ini.write_text(text)
    return list(of_logging(ini, {}))


def test_a_variable_of_the_command_line_beats_that_of_the_ini(tmp_path: Path) -> None:
    """As the server reads it. A path may have a percent sign."""
    (tmp_path / "100%").mkdir()
    ini = tmp_path / "100%" / "site.ini"
    ini.write_text(INI)
    assert list(of_logging(ini, {"lowest": "DEBUG"})) == []
    (found,) = of_logging(ini, {"lowest": "LOUD"})
    assert found.what == "'LOUD' is not a level of logging"
    assert logging_in(ini, {"lowest": "50%"}).get("logger_root", "level") == "50%"
    assert logging_in(ini, {}).get("handler_file", "args").startswith(f"('{tmp_path}/100%/site.log'")


def test_lines_of_the_access_log_that_are_left_out(tmp_path: Path) -> None:
    text = INI.replace("qualname = site", "qualname = pipeline.access")
    assert found_in(tmp_path, text) == []
    (finding,) = found_in(tmp_path, text.replace("level = INFO\n", "level = WARNING\n"))
    assert finding.what == "the lines of the access log are of level INFO, and are left out at WARNING"
    assert finding.where.endswith("section [logger_site], line 25") and finding.remedy == "Write level = INFO."


READ = "import logging.config, sys; logging.config.fileConfig(sys.argv[1], {'here': sys.argv[2]})"


def serves(tmp_path: Path) -> bool:
    """Return whether a server reads the sections. It is the judge."""
    ran = subprocess.run([sys.executable, "-c", READ, tmp_path / "site.ini", tmp_path], capture_output=True)
    return ran.returncode == 0


@pytest.mark.parametrize(("line", "wrong", "section", "said"), WRONG)
def test_logging_that_a_server_would_not_read(
    line: str, wrong: str, section: str, said: str, tmp_path: Path
) -> None:
    assert line in INI
    text = INI.replace(line, wrong, 1)
    (finding,) = found_in(tmp_path, text)
    assert finding.level == "error" and said in finding.what
    assert f"section [{section}], line " in finding.where
    number = int(finding.where.rpartition(" ")[2])
    first = text.splitlines().index(f"[{section}]") + 1
    assert first <= number <= first + 5
    assert not (tmp_path / "site.log").exists(), "nothing is opened"
    assert not serves(tmp_path)


def test_logging_that_is_right(tmp_path: Path) -> None:
    assert found_in(tmp_path, INI) == []
    assert serves(tmp_path)
    with_class = INI.replace(
        "[formatter_line]\n", "[formatter_line]\nclass = pipeline.elements.request_id.Formatter\n"
    )
    assert found_in(tmp_path, with_class) == []
    styled = INI.replace("format = %(asctime)s %(levelname)s %(message)s", "format = {message}\nstyle = {")
    assert found_in(tmp_path, styled) == []
    (unread,) = found_in(tmp_path, INI.replace("[loggers]", "[loggers_of_another]"))
    assert (unread.level, unread.what) == ("warning", "[loggers] with its keys is not there, and logging needs it")
    assert found_in(tmp_path, INI + "\n[loggers]\n") == [], "the site does not load, and says why"


def test_a_handler_that_does_not_see_a_rotation(tmp_path: Path) -> None:
    (finding,) = found_in(tmp_path, INI.replace("handlers.WatchedFileHandler", "FileHandler"))
    assert finding.level == "note" and "when logrotate has renamed it" in finding.what
    assert serves(tmp_path)


def of_a_server(tmp_path: Path, *lines: str) -> list[str]:
    ini = tmp_path / "server.ini"
    ini.write_text("\n".join(["[server:main]", *lines]) + "\n")
    return [
        f"{one.where.rpartition(' ')[2]} {one.what} {one.remedy}"
        for one in of_server(ini, {}, None)
        if one.level == "error"
    ]


@pytest.mark.parametrize(
    ("server", "line", "said"),
    [
        ("waitress", "hots = 127.0.0.1", "3 waitress has no option 'hots' Did you mean host?"),
        ("waitress", "thread = 4", "3 waitress has no option 'thread' Did you mean threads?"),
        ("waitress", "threads = 4", None),
        ("waitress", "asyncore_use_poll = true", None),
        ("gunicorn", "hots = 127.0.0.1", "3 gunicorn has no option 'hots' Did you mean host?"),
        ("gunicorn", "worker_class = gthread", None),
        ("gunicorn", "worker_class = nowhere.Worker", "3 worker_class = nowhere.Worker: RuntimeError: class uri"),
        ("gunicorn", "graceful_timeout = 30", None),
        ("gunicorn", "graceful_timeout = 30s", "3 graceful_timeout = 30s: ValueError: "),
        ("gunicorn", "preload_app = perhaps", "3 preload_app = perhaps: ValueError: Invalid boolean"),
        ("gunicorn", "port = 8O80", "3 port = 8O80: ValueError: "),
        ("gunicorn", "user = nobody-of-that-name", "3 user = nobody-of-that-name: "),
        ("waitress", "port = 8O80", "3 port = 8O80: ValueError: "),
        ("waitress", "threads = four", "3 threads = four: ValueError: "),
        ("waitress", "unix_socket_perms = 888", "3 unix_socket_perms = 888: ValueError: "),
    ],
)
def test_options_of_a_server(server: str, line: str, said: str | None, tmp_path: Path) -> None:
    pytest.importorskip(server)
    found = of_a_server(tmp_path, f"use = egg:{server}#main", line)
    assert (found == []) if said is None else (len(found) == 1 and found[0].startswith(said)), found


@pytest.mark.parametrize(
    ("server", "is_so"),
    [
        ("use = egg:waitress#main\nhost = 127.0.0.1\nport = 8080", True),
        ("use = egg:waitress#main\nhost = 0.0.0.0", False),
        ("use = egg:waitress#main", False),
        ("use = egg:gunicorn#main\nhost = 127.0.0.1", False),
    ],
)
def test_a_server_for_this_machine_alone(server: str, is_so: bool, tmp_path: Path) -> None:
    (tmp_path / "site.ini").write_text(f"[server:main]\n{server}\n")
    assert is_for_development(tmp_path / "site.ini") is is_so


@pytest.mark.parametrize(
    ("where", "file", "section", "line"),
    [
        ("site.ini, section [app:main], line 7", "site.ini", "app:main", 7),
        ("site.ini, section [app:main]", "site.ini", "app:main", None),
        ("shop.py, line 12", "shop.py", None, 12),
        ("site.ini", "site.ini", None, None),
    ],
)
def test_the_place_of_a_finding_for_programs(where: str, file: str, section: str | None, line: int | None) -> None:
    told = Finding("error", where, "what", "remedy").as_dict()
    expected = {"file": file, "section": section, "line": line, "what": "what", "remedy": "remedy"}
    assert told == {"level": "error", **expected}


def test_the_words_of_a_finding_leave_its_values_as_they_are() -> None:
    """Two blanks of a path are two, though the words are in one line."""
    assert Finding.of("path as it is", "site.ini", file="a  b").what.startswith("'a  b' is taken as it is: an ini")
