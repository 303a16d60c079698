"""``pipeline prove``, its function and its fixture: what is tried, what is said, and that nothing is left."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pipeline import Pipeline
from pipeline.database import forks
from pipeline.elements.errors import errors
from pipeline.elements.forms import forms
from pipeline.elements.retry import retry
from pipeline.elements.transaction import transaction
from pipeline.elements.traverse import traverse
from pipeline.elements.zodb import zodb
from pipeline.interfaces import ConfigurationError
from pipeline.loading.command_line import parser_of
from pipeline.proving.proof import JUDGES, Proof, plan_from
from pipeline.proving.report import Waiver
from pipeline.proving.rules import Record
from pipeline.publisher import publisher
from pipeline.staging.asked import Asked, read_log
from pipeline.staging.effects import effect
from pipeline.staging.runs import FAULTS
from pipeline.testing import prove as prove_site
from pipeline.testing.plugin import prove as prove
from pipeline.tools.command import main

SWALLOWING = "retry zodb errors swallow transaction forms traverse"
SOUND = "GET /$|add|plain|title"


def digest(directory: Path) -> dict[str, str]:
    """What is in the files of a directory."""
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in directory.rglob("*")
        if path.is_file()
    }


# Nothing is left behind.


def made(ini: Callable[..., str], tmp_path: Path) -> str:
    """A site with a Data.fs, which a request has made."""
    path = ini(f"log {SWALLOWING.replace(' swallow', '')}", f"file://{tmp_path}/Data.fs")
    assert main(["explain", path, "POST", "/@@add", "-d", "text=first", "--commit"]) == 0
    forks.close_all()
    return path


def test_the_site_is_as_it_was(ini: Callable[..., str], tmp_path: Path) -> None:
    path = made(ini, tmp_path)
    before = digest(tmp_path)
    with Proof(path, view="add").loaded() as proof:
        assert [str(one) for one in proof.requests] == ["POST /@@add"]
        report = proof.faults().attack().crash().pairs(5).report
    assert report.runs > 150
    assert digest(tmp_path) == before


def test_a_site_that_is_served_is_proved_as_well(ini: Callable[..., str], tmp_path: Path) -> None:
    """Its Data.fs is locked by the server."""
    path = made(ini, tmp_path)
    from pipeline.database.storages import database_at

    served = database_at(f"file://{tmp_path}/Data.fs")
    try:
        assert prove_site(path, view="add").found == []
    finally:
        served.close()


def test_a_database_with_a_relative_path_is_read(
    ini: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = ini(uri="file://Data.fs")
    assert main(["explain", path, "POST", "/@@add", "-d", "text=first", "--commit"]) == 0
    forks.close_all()
    with Proof(path, view="GET /$").loaded() as proof:
        assert b"1 notes" in proof.ask(proof.requests[0]).body


def test_a_database_that_is_not_there_is_not_made(ini: Callable[..., str], tmp_path: Path) -> None:
    path = ini(uri=f"file://{tmp_path}/Data.fs")
    assert prove_site(path, view="GET /$").found == []
    assert {one.name for one in tmp_path.iterdir()} == {"site.ini"}


def test_a_database_that_cannot_be_copied_is_refused(ini: Callable[..., str], tmp_path: Path) -> None:
    path = ini(uri=f"demo://?unhandled={tmp_path}")
    with pytest.raises(ConfigurationError):
        prove_site(path)


WRITERS = {
    "file": lambda place: Path(place, "written").write_text("x"),
    "sqlite": lambda place: sqlite3.connect(f"{place}/written").execute("CREATE TABLE a (b)"),
    "program": lambda place: __import__("subprocess").run(["touch", f"{place}/written"], check=True),
}


@pytest.mark.parametrize("kind", WRITERS)
def test_an_effect_of_a_view_is_refused_and_found(
    kind: str, ini: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proving.notes.outside", lambda: WRITERS[kind](tmp_path))
    found = prove_site(ini(), view="outside").found
    assert any(one.what.startswith("R2: before the commit, a view does what no abort takes back") for one in found)
    assert not (tmp_path / "written").exists()


def test_an_effect_may_be_allowed(
    ini: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proving.notes.outside", lambda: WRITERS["file"](tmp_path))
    assert prove_site(ini(), view="outside", allow=[str(tmp_path / "written")]).found == []


FILE, PYC = "/srv/site/file", "__pycache__/first.cpython-311.pyc.140"
EFFECT_OF = [
    ("open", (FILE, "w", os.O_WRONLY), FILE),
    ("open", (FILE, "r", os.O_RDONLY), ""),
    ("open", (5, "w", os.O_WRONLY), ""),
    ("open", ("/srv/site/__pycache__/first.cpython-311.pyc.140", "w", os.O_WRONLY), FILE.replace("file", PYC)),
    ("os.remove", (FILE, -1), FILE),
    ("socket.sendto", (None, ("127.0.0.1", 9)), "127.0.0.1:9"),
    ("socket.getaddrinfo", ("mail.example", 25, 0, 0, 0), "mail.example"),
    ("socket.getaddrinfo", ("127.0.0.1", 25, 0, 0, 0), ""),
    ("os.kill", (1, 15), "os.kill 1"),
    ("of.an.unknown.kind", (), "of.an.unknown.kind"),
    ("socket.connect", (None, ("mail.example", 25)), "mail.example:25"),
    ("sqlite3.connect", (":memory:",), ""),
    ("os.putenv", (b"NAME", b"value"), "NAME"),
    ("subprocess.Popen", (b"/usr/bin/mail", [], None, None), "/usr/bin/mail"),
]


@pytest.mark.parametrize(("event", "arguments", "name"), EFFECT_OF)
def test_what_counts_as_an_effect(event: str, arguments: tuple[object, ...], name: str) -> None:
    assert effect(event, arguments) == name


# The function, the fixture and the pipeline in Python.


def test_the_fixture_fails_the_test(ini: Callable[..., str], prove: Callable[..., Proof]) -> None:
    prove(ini(), view=SOUND).faults(depth=1).attack()
    with pytest.raises(AssertionError, match="R1: it is answered 200, and not stored"):
        prove(ini(SWALLOWING), view="plain").faults()


def test_too_few_views_fail_the_test(ini: Callable[..., str], prove: Callable[..., Proof]) -> None:
    with pytest.raises(AssertionError, match="of 20 views are tried"):
        prove(ini(), cover=2.0).faults(kinds=["exit"])


def test_a_pipeline_in_python_is_proved(tmp_path: Path) -> None:
    parts = [zodb(uri=f"memory://{tmp_path.name}", root="proving.notes:root"), errors(), transaction(), forms()]
    app = Pipeline(retry(), *parts, traverse(), publisher(scan=("proving.notes",)))
    report = prove_site(app, view=SOUND)
    assert report.found == []
    assert report.runs > 200
    assert "mail" in {one.request.rpartition("@")[2] for one in prove_site(app, view="mail").found}


def test_a_corpus_and_a_rule_of_ones_own(ini: Callable[..., str]) -> None:
    seen: list[Record] = []

    def short(record: Record) -> Iterator[str]:
        seen.append(record)
        if len(record.run.body) > 3:
            yield "the body is long"

    report = prove_site(ini(), corpus=[Asked("GET", "/@@hello?name=you")], more=[short])
    assert {one.what for one in report.found if one.judge == "faults"} == {"the body is long"}
    assert {str(record.run.views[-1])[:19] for record in seen if record.run.views} == {"proving.notes.hello"}


def test_faults_at_some_points_alone(ini: Callable[..., str]) -> None:
    report = Proof(ini(SWALLOWING), view="plain", points="tpc_vote")
    with report.loaded() as proof:
        proof.faults()
    assert {one.plan.partition("@")[2] for one in proof.report.found} == {"RequestConnection.tpc_vote:before"}


# The requests.


def test_the_newest_request_of_each_view_and_status_of_a_log(ini: Callable[..., str], tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    entries = [
        {"method": "GET", "url": "/a", "view": "v", "status": 200, "user": "ann"},
        {"method": "GET", "url": "/b", "view": "v", "status": 200, "user": None},
        {"method": "GET", "url": "/c", "view": "v", "status": 404},
        {"method": "POST", "url": "/d", "view": "w", "status": 303},
    ]
    log.write_text("\n".join(map(json.dumps, entries)))
    with Proof(ini(), log=str(log), view="/[abc]$").loaded() as proof:
        assert [(str(one), one.user) for one in proof.requests] == [("GET /b", ""), ("GET /c", "")]
    log.write_text('127.0.0.1 - - [01/Nov/2009] "GET / HTTP/1.1" 200 1')
    with pytest.raises(ConfigurationError, match=r"access.log, line 1: .* format = json"):
        list(read_log(str(log)))


def test_every_view_is_tried(ini: Callable[..., str]) -> None:
    with Proof(ini()).loaded() as proof:
        assert (proof.report.tried, proof.report.views, proof.report.untried) == (20, 20, [])
        added = next(one for one in proof.requests if one.url == "/@@add")
        assert (added.page, added.body) == ("/", b"text=prove")


# The command.


def test_the_help_names_all_judges_and_faults() -> None:
    said = {action.dest: action for action in parser_of("prove")._actions}
    assert str(said["judge"].help).startswith(f"of {', '.join(JUDGES)};")
    assert said["faults"].default == ",".join(FAULTS)


def test_the_command_says_what_it_found(ini: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    path = ini(SWALLOWING)
    assert main(["prove", path, "--view", "plain"]) == 1
    said = capsys.readouterr().out
    assert said.startswith(f"20 of 20 views of {path} are tried\nfaults: 1 request, ")
    [replay] = [line.strip() for line in said.splitlines() if "--replay" in line and "not stored" not in line][:1]
    words = replay.removeprefix("pipeline ").split(" ", 3)
    assert main([*words[:3], words[3].strip("'")]) == 1
    said = capsys.readouterr().out
    assert "  <- conflict, at " in said
    assert "found: R1: it is answered 200, and not stored\n" in said


def test_nothing_found(ini: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prove", ini(), "--view", SOUND]) == 0
    assert capsys.readouterr().out.endswith(" runs, 0 kinds of findings\n")


def test_the_budget(ini: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prove", ini(), "--view", SOUND, "--budget", "0"]) == 3
    assert "left out by the budget" in capsys.readouterr().out


def test_a_small_budget_is_shared_among_the_judges(
    ini: Callable[..., str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look at the clock takes a second, so that the machine does not matter."""
    for module in ("report", "proof"):
        monkeypatch.setattr(f"pipeline.proving.{module}.monotonic", partial(next, count()))
    assert main(["prove", ini(), "--view", SOUND, "--depth", "2", "--budget", "100"]) == 3
    said = capsys.readouterr().out.splitlines()
    judges = {line.partition(":")[0]: line for line in said if line.partition(":")[0] in JUDGES}
    runs = {judge: int(line.partition(", ")[2].partition(" ")[0]) for judge, line in judges.items()}
    assert len(runs) == 5 and min(runs.values()) > 0 and runs["sequences"] > 10, said
    assert [judge for judge, line in judges.items() if line.endswith("its share of the budget is over")] == [
        "faults", "sequences"
    ]


def test_too_few_views(ini: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prove", ini(), "--cover", "1", "--budget", "0"]) == 1
    assert "--cover asks for 100%" in capsys.readouterr().out


def test_json_and_junit(ini: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    junit = tmp_path / "junit.xml"
    arguments = ["--view", "plain", "--json", "--junit", str(junit), "--judge", "faults"]
    assert main(["prove", ini(SWALLOWING), *arguments]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["findings"][0]["rule"] == "R1"
    assert told["views"] == {"all": 20, "tried": 20, "untried": [], "succeeded": 20}
    suite = ElementTree.parse(junit).getroot()
    assert suite.get("failures") == str(len(told["findings"]))
    assert [case.get("name") for case in suite] == ["views tried", "POST /@@plain"]


WRONG = [["--faults", "fire"], ["--judge", "jury"], ["--depth", "9"]]
WRONG += [["--budget", "nan"], ["--budget", "inf"], ["--budget", "1e7"], ["--cover", "nan"]]
WRONG += [["--view", "["]]


@pytest.mark.parametrize("words", WRONG, ids=map(" ".join, WRONG))
def test_wrong_usage(words: list[str], ini: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["prove", ini(), *words])
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert words[0] in told
    assert words[1] in told


@pytest.mark.parametrize("text", ["error at view:enter", "fire@view:enter"])
def test_a_plan_that_is_none(text: str) -> None:
    with pytest.raises(ConfigurationError, match="is not of the form kind@point"):
        plan_from(text)


def test_a_replay_of_another_request(ini: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prove", ini(), "--replay", "GET /nowhere"]) == 1
    assert "names no request of the site. They are: GET /" in capsys.readouterr().err


# Findings that are left.

NOT_STORED = "R1: it is answered 200, and not stored"
LEFT = Waiver("faults", NOT_STORED, "POST /@@plain", "conflict@transaction:enter", "known")


def waived(ini: str, *waivers: Waiver) -> list[str]:
    with Proof(ini, view="plain", waived=waivers).loaded() as proof:
        return [one.what for one in proof.faults().report.found]


def test_a_finding_is_waived_with_its_plan(ini: Callable[..., str]) -> None:
    path = ini(SWALLOWING)
    assert waived(path) == [LEFT.what]
    assert waived(path, LEFT) == []
    assert waived(path, LEFT._replace(plan="conflict@view:enter"))[-1] == f"a waiver matches nothing: {LEFT.what}"
    with pytest.raises(ConfigurationError, match="6 findings are waived, and 5 are the most"):
        waived(path, *6 * [LEFT])


def test_a_file_of_waivers(ini: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "waived.toml"
    file.write_text("[[waive]]\n" + "".join(f'{name} = "{value}"\n' for name, value in LEFT._asdict().items()))
    assert main(["prove", ini(SWALLOWING), "--view", "plain", "--judge", "faults", "--waive", str(file)]) == 0
    file.write_text('[[waive]]\njudge = "faults"\n')
    capsys.readouterr()
    assert main(["prove", ini(SWALLOWING), "--waive", str(file)]) == 1
    assert "with judge, what, request, plan, reason" in capsys.readouterr().err


def test_the_fixture_is_that_of_the_plugin() -> None:
    assert sys.modules["pipeline.testing.plugin"].prove is prove
