"""``pipeline adopt``: real packages of sites that exist, before and after, each ini in a process of its own."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from email.utils import formatdate
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pipeline.adopting.asking import ask, with_hidden_fields
from pipeline.adopting.comparing import differences
from pipeline.adopting.reading import Existing
from pipeline.adopting.writing import parts_of
from pipeline.tools.adopt import write_as
from pipeline.tools.command import main

pytestmark = pytest.mark.once

CODE = Path(__file__).with_name("adopted")
LOGGING = """\
[loggers]
keys = root
[handlers]
keys = console
[formatters]
keys =
[logger_root]
level = WARN
handlers = console
[handler_console]
class = StreamHandler
args = (sys.stderr,)
"""


class Adopted(NamedTuple):
    """What the command did."""

    status: int
    said: str
    """What it said, white space as single blanks."""
    ini: str
    """The new ini; "" if there is none."""

    @property
    def pipeline(self) -> str:
        """The parts of the pipeline."""
        return next(line for line in self.ini.splitlines() if line.startswith("pipeline = "))[11:]


@pytest.fixture
def adopt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Adopted]:
    """Write an ini beside the code of the sites, and run the command on it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("sites", "plain"):
        shutil.copy(CODE / f"{name}.py", tmp_path / f"adopted_{name}.py")

    def adopt(ini: str, *arguments: str) -> Adopted:
        old = tmp_path / "old.ini"
        old.write_text(ini)
        status = main(["adopt", "old.ini", *arguments])
        said = capsys.readouterr()
        new = tmp_path / "pipeline.ini"
        written = new.read_text() if new.exists() else ""
        assert old.read_text() == ini
        if status == 0:
            assert main(["check", "pipeline.ini"]) == 0, capsys.readouterr().out
        return Adopted(status, " ".join((said.out + said.err).split()), written)

    return adopt


def app(name: str, *lines: str, module: str = "sites") -> str:
    return "\n".join([f"[app:main]\npaste.app_factory = adopted_{module}:{name}", *lines, ""])


SAME = app("same", module="plain")


SERVER = "[server:main]\nuse = egg:waitress#main\nport = %(port)s\n"


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o660])
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_nobody_reads_the_new_ini_who_could_not_read_the_old_one__S26(
    tmp_path: Path, mode: int, umask: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From its first byte on."""
    old, new = tmp_path / "old.ini", tmp_path / "new.ini"
    old.write_text("[DEFAULT]\npassword = secret\n")
    old.chmod(mode)
    modes = []
    real = os.open

    def opened(*arguments: Any, **more: Any) -> int:
        number = real(*arguments, **more)
        modes.append(os.fstat(number).st_mode & 0o777)
        return number

    monkeypatch.setattr(os, "open", opened)
    before = os.umask(umask)
    try:
        write_as(old, new, old.read_text())
    finally:
        os.umask(before)
    assert new.read_text() == old.read_text()
    assert all(one & ~0o600 == 0 for one in modes) and new.stat().st_mode & 0o777 == mode
    with pytest.raises(FileExistsError):
        write_as(old, new, "")


def test_a_site_with_pyramid_zodbconn_is_in_one_transaction(adopt: Any) -> None:
    """Its code uses the transaction of the thread, its views are proved, and its own includes stay."""
    ini = "[DEFAULT]\nport = 6543\n" + app(
        "zodb",
        "zodbconn.uri = file://%(here)s/Data.fs?connection_cache_size=2000",
        "pyramid.includes = adopted_sites.named",
        "tm.commit_veto = pyramid_tm.default_commit_veto",
    )
    found = adopt(f"{ini}{SERVER}{LOGGING}", "--page", "/", "--write", "/edit text=second")
    assert found.status == 0, found.said
    assert found.pipeline == "log vhost retry zodb errors transaction site"
    for line in (
        "pyramid.includes = pipeline.mounting adopted_sites.named",
        "uri = file://%(here)s/Data.fs?connection_cache_size=2000",
        "manager = pipeline.toolkit.manager:ImplicitManager",
        "veto = pyramid_tm.default_commit_veto",
        "port = %(port)s",
        "keys = root, pipeline_access",
    ):
        assert line in found.ini.splitlines()
    assert "POST /edit: 303 See Other" in found.said
    assert "0 kinds of findings" in found.said
    assert "outside of it, retry makes the further attempts" in found.said


def test_a_site_that_dooms_the_transaction_of_the_thread_stores_nothing(adopt: Any) -> None:
    ini = app("zodb", "zodbconn.uri = file://%(here)s/Data.fs")
    found = adopt(ini, "--write", "/edit text=second&then=doom")
    assert found.status == 1
    assert "no page has changed behind the POST" in found.said


SQL = {
    "sql": ("log vhost retry errors transaction site", "pipeline.mounting has pyramid_tm"),
    "thread": ("log vhost retry errors transaction site", "manager = pipeline.toolkit.manager:ImplicitManager"),
}


@pytest.mark.parametrize("name", SQL)
def test_a_site_with_zope_sqlalchemy(name: str, adopt: Any, tmp_path: Path) -> None:
    """The pipeline commits. If its code names no manager, the session joins the transaction of the thread."""
    ini = app(name, "sqlalchemy.url = sqlite:///%(here)s/data.sqlite")
    found = adopt(ini, "--write", "/edit text=second")
    assert found.status == 0, found.said
    pipeline, said = SQL[name]
    assert found.pipeline == pipeline
    assert said in found.said
    with closing(sqlite3.connect(tmp_path / "data.sqlite")) as database:
        assert database.execute("select text from entry").fetchall() == [("second",)]


ISOLATION: dict[str, tuple[dict[str, str], bool]] = {
    "PostgreSQL": ({"sqlalchemy.url": "postgresql://host/data"}, True),
    "under another name": ({"db.url": "postgresql://host/", "sqlalchemy.isolation_level": "SERIALIZABLE"}, True),
    "it is set": ({"db.url": "mysql://host/data", "db.isolation_level": "SERIALIZABLE"}, False),
    "SQLite": ({"sqlalchemy.url": "sqlite:///data"}, False),
}


@pytest.mark.parametrize("name", ISOLATION)
def test_a_database_in_its_default_isolation_is_told_of(name: str) -> None:
    """Two requests that change one row do not conflict there, so retry has nothing to do."""
    settings, is_told = ISOLATION[name]
    existing = Existing(Path("old.ini"), [], "main", [], "main", "site:main", settings)
    found = {"tweens": ["pyramid_tm.tm_tween_factory"], "modules": ["zope.sqlalchemy"], "databases": []}
    left = parts_of(existing, found | {"has_manager_hook": True, "commit_veto": ""})[1]
    assert ["SERIALIZABLE" in one.why for one in left] == [True] * is_told


PASTE = """\
[pipeline:main]
pipeline = egg:Paste#translogger who session counter
[filter:session]
use = egg:Beaker#beaker_session
beaker.session.type = file
beaker.session.data_dir = %(here)s/sessions
[filter:who]
paste.filter_factory = adopted_sites:who
[app:counter]
paste.app_factory = adopted_sites:counter
"""


def test_a_stack_of_paste_keeps_its_middleware(adopt: Any) -> None:
    """An access log of its own, repoze.who, and a session of Beaker, which the old ini reads again."""
    found = adopt(PASTE, "--write", "/", "-H", "Authorization: Basic YW5uOnNlY3JldA==")
    assert found.status == 0, found.said
    assert found.pipeline == "vhost errors egg:Paste#translogger who session site"
    assert "session a session is saved when the application has answered" in found.said
    assert "the element log is left out" in found.said
    assert "the application commits as it did" in found.said
    assert "[filter:session]\nuse = config:old.ini#session\n" in found.ini


def test_a_composite_stays_whole(adopt: Any) -> None:
    ini = "[composite:main]\nuse = egg:Paste#urlmap\n/ = one\n/two = two\n"
    ini += app("zodb", "zodbconn.uri = memory://one").replace("main", "one") + SAME.replace("main", "two")
    found = adopt(ini, "--page", "/", "--page", "/two")
    assert found.status == 0, found.said
    assert found.pipeline == "log vhost retry errors config:old.ini#main"
    assert "its options cannot be set from outside" in found.said


def test_what_is_made_of_a_set_is_the_same_in_both(adopt: Any) -> None:
    assert adopt(app("of_a_set", module="plain")).status == 0


def test_a_site_that_answers_otherwise_is_found(adopt: Any) -> None:
    found = adopt(app("different", module="plain"))
    assert found.status == 1
    assert "line 1 of the body was 'alone', and is 'in a pipeline'" in found.said


def test_a_write_that_is_not_stored_is_found(adopt: Any) -> None:
    found = adopt(SAME, "--write", "/ text=new")
    assert found.status == 1
    assert "no page has changed behind the POST" in found.said


OURS = "[pipeline:main]\npipeline = errors same\n[filter:errors]\nuse = egg:wsgi-pipeline#errors\n"
REFUSED = {
    "a pipeline of ours": (OURS + SAME.replace("main", "same"), (), "errors is a part of wsgi-pipeline"),
    "another directory": (SAME, ("-o", "../new.ini"), "the new ini stands beside the old one"),
    "a file that is there": (SAME, ("-o", "old.ini"), "is there already"),
    "a page without a slash": (SAME, ("--page", "docs"), "the path 'docs' must start with /"),
    "a site that does not load": (app("nothing", module="plain"), (), "has no attribute 'nothing'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str, adopt: Any) -> None:
    ini, arguments, said = REFUSED[name]
    found = adopt(ini, *arguments)
    assert (found.status, found.ini) == (1, "")
    assert said in found.said


def answer(body: str, status: str = "200 OK", **headers: str) -> dict[str, Any]:
    pairs = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return {"status": status, "headers": pairs, "body": body}


COMPARED = {
    "the same": (["a"], ["a"], ""),
    "a line that changes by itself": (["a\n1", "a\n2"], ["a\n3", "a\n4"], ""),
    "another line beside it": (["a\n1", "a\n2"], ["b\n3", "b\n4"], "line 1 of the body was 'a', and is 'b'"),
    "several lines": (["a\nb\nc"], ["a\nd\ne"], "line 2 of the body was 'b', and is 'd'"),
    "a line more": (["a"], ["a\nb"], "line 2 of the body was '', and is 'b'"),
}


@pytest.mark.parametrize("name", COMPARED)
def test_bodies_are_compared_line_by_line(name: str) -> None:
    before, after, said = COMPARED[name]
    answers = [[answer(body) for body in (bodies * 2)[:2]] for bodies in (before, after)]
    assert "; ".join(differences(*answers)) == said


def test_status_and_headers_are_compared() -> None:
    old = [answer("", ETag=number, Set_Cookie=f"a={number}", Vary="Accept") for number in "12"]
    new = [answer("", ETag="3", Set_Cookie="a=3", Vary="Accept")] * 2
    assert list(differences(old, new)) == []
    new = [answer("", ETag="3", Set_Cookie="b=3", Vary="Cookie")] * 2
    assert list(differences(old, new)) == [
        "the header set-cookie was a, and is b",
        "the header vary was Accept, and is Cookie",
    ]
    names = [[answer("", Set_Cookie=f"{name}=1") for name in both] for both in ("ab", "cc")]
    assert list(differences(*names)) == [], "the name of the cookie changes by itself"
    assert list(differences(old, [answer("", "500 No")] * 2)) == ["the status was 200 OK, and is 500 No"]


DATES = {
    "as long after the answer": ("Expires", 60, 100, 160, ""),
    "a date that stays": ("Expires", 60, 9_000, 60, ""),
    "a day later": ("Expires", 60, 100, 160 + 86_400, "the header expires was"),
    "changed now": ("Last-Modified", 0, 100, 100, ""),
    "another header": ("X-Date", 60, 100, 160, "the header x-date was"),
}


@pytest.mark.parametrize("name", DATES)
def test_dates_are_compared_by_their_distance_from_the_answer(name: str) -> None:
    """Both answers of one ini come in one second, and those of the other ini seconds later."""
    header, first, later, second, said = DATES[name]
    old, new = (
        [answer("") | {"headers": [(header, formatdate(date, usegmt=True))], "time": time}] * 2
        for time, date in ((0, first), (later, second))
    )
    assert ";".join(differences(old, new))[: len(said) or 99] == said
    later_again = [answers[1] | {"time": answers[1]["time"] + 9} for answers in (old, new)]
    assert ";".join(differences([old[0], later_again[0]], [new[0], later_again[1]]))[: len(said) or 99] == said


def test_a_form_is_sent_with_its_hidden_fields() -> None:
    page = "<input type=hidden name=token value=1><input type=hidden name=text value=old><input name=b>"
    sent = with_hidden_fields({"data": ["text=new"]}, page)
    assert sent["data"] == ["token=1&text=new"] or sent["data"] == ["text=new&token=1"]
    assert with_hidden_fields({"data": ['{"a": 1}']}, page) == {"data": ['{"a": 1}']}
    page = "<input type=hidden name=city value=Ž>".encode().decode("latin-1")  # as the answer has it
    assert with_hidden_fields({"data": ["b=2"]}, page) == {"data": ["city=%C5%BD&b=2"]}


def test_a_cookie_whose_name_python_refuses_hides_no_page() -> None:
    def app(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [("Content-Type", "text/html"), ("Set-Cookie", "a@b=1"), ("Set-Cookie", "ok=2")])
        return [b"the page"]

    cookies: SimpleCookie = SimpleCookie()
    answer = ask(app, {"method": "GET", "path": "/", "headers": [], "data": []}, cookies)
    assert (answer["status"], answer["body"], [*cookies]) == ("200 OK", "the page", ["ok"])
