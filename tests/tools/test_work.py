"""``pipeline work``: each stored job is done once, or waits; judged by the database read afresh."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ZODB.DB import DB
from ZODB.FileStorage import FileStorage

from asking import ask
from either_database import write_site
from inis import ini_of
from pipeline.database.zodb_jobs import KEY
from pipeline.elements.zodb import close_all
from pipeline.interfaces import ConfigurationError
from pipeline.jobs import FIRST_WAIT, LONGEST_WAIT, TRIES, Stored, job
from pipeline.paste import load
from pipeline.tools.command import main

VIEWS = '''
from transaction.interfaces import TransientError
from webob.exc import HTTPNotFound

from pipeline.interfaces import Unavailable
from pipeline.testing import FakeDataManager

attempts = []
told = []

def write(request, name):
    if "zodb" in request.pipeline.offered:
        request.zodb.root()["site"][name] = request.zodb.root()["site"].get(name, 0) + 1
    else:
        request.sql.execute(text("insert into done values (:name)"), {"name": name})

@job
def done(request, name, times=1):
    for _ in range(times):
        write(request, name)
    request.after_commit(told.append, name)

@job
def fails(request, name):
    """Fails when it has written, with the visitor's text in its error."""
    write(request, name)
    raise KeyError(name)

@job
def not_there(request, name):
    write(request, name)
    raise HTTPNotFound(name)

@job
def doomed(request, name):
    write(request, name)
    request.tm.doom()

@job
def away(request, name):
    write(request, name)
    raise Unavailable("the mail server")

@job
def conflicts(request, name):
    write(request, name)
    attempts.append(name)
    if len(attempts) < 3:
        raise TransientError("a conflict")

@job
def always_conflicts(request, name):
    write(request, name)
    raise TransientError("a conflict")

@job
def halfway(request, name):
    write(request, name)
    request.tm.commit()
    request.tm.begin()
    write(request, name)
    raise KeyError(name)

@job
def late(request, name):
    """Its last part is refused when it is committed."""
    write(request, name)
    request.tm.commit()
    request.tm.begin()
    FakeDataManager(request.tm, fails={"tpc_vote": ValueError}).join()

@job
def in_parts(request, name):
    for _ in range(2):
        write(request, name)
        request.tm.commit()
        request.tm.begin()

@job
def further(request, name):
    done.later(request, name + " too")

def no_job(request, name):
    write(request, name)

JOBS = [done, fails, not_there, doomed, away, conflicts, always_conflicts, further, halfway, late, in_parts]

@view(context=Site, name="add", methods=("POST",), cross_site=True)
def add(site, request, kind: str, name: str, refused: bool = False):
    next(one for one in JOBS if one.__name__ == kind).later(request, name)
    if refused:
        raise HTTPNotFound()
    return "stored"
'''

Run = Callable[..., tuple[int, str, str]]


class Site:
    """A site with jobs, on one of the two databases."""

    def __init__(self, kind: str, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.kind, self.directory, self.capsys = kind, directory, capsys
        places = {"zodb": "file://%(here)s/Data.fs", "sql": "sqlite:///%(here)s/site.db"}
        write_site(directory, kind, places[kind], VIEWS, retry="patience = 0.2")
        if kind == "sql":
            assert self.run("--create") == (0, "The queue is there.\n", "")
            self.ask("create table done (name text)")

    def run(self, *options: str) -> tuple[int, str, str]:
        status = main(["work", "site.ini", *options])
        close_all()
        said = self.capsys.readouterr()
        return status, said.out, said.err

    def add(self, kind: str, name: str = "sea", refused: str = "") -> int:
        app = load(f"config:{self.directory}/site.ini")
        body = f"kind={kind}&name={name}&refused={refused}".encode()
        answer = ask(app, "/add", "POST", body, CONTENT_TYPE="application/x-www-form-urlencoded")
        close_all()
        return answer.status_int

    def ask(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        connection = sqlite3.connect(self.directory / "site.db")
        try:
            with connection:
                return connection.execute(statement, values).fetchall()
        finally:
            connection.close()

    def stored(self, change: Callable[[Any], None] | None = None) -> tuple[dict[str, int], list[Stored]]:
        """What the jobs have written, by name, and the queue; ``change`` gets that of a ZODB first."""
        if self.kind == "sql":
            names = [name for (name,) in self.ask("select name from done")]
            rows = [Stored(*row) for row in self.ask("select * from pipeline_jobs")]
            return {name: names.count(name) for name in names}, rows
        db = DB(FileStorage(str(self.directory / "Data.fs")))
        try:
            with db.transaction() as connection:
                queue = connection.root().get(KEY, {})
                if change is not None:
                    change(queue)
                return dict(connection.root()["site"]), [Stored(id, *rest) for id, rest in queue.items()]
        finally:
            db.close()

    def make_due(self) -> None:
        """Have no job wait any more."""
        if self.kind == "sql":
            self.ask("update pipeline_jobs set due = 1 where due is not null")
            return

        def change(queue: Any) -> None:
            for id, (name, arguments, due, failed, error) in list(queue.items()):
                queue[id] = (name, arguments, 1.0 if due else due, failed, error)

        self.stored(change)


@pytest.fixture(autouse=True)
def logging_of_pytest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.tools.work.set_up_logging", lambda ini, variables: None)


@pytest.fixture(params=["zodb", "sql"])
def site(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Site]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(tmp_path)
    yield Site(request.param, tmp_path, capsys)
    close_all()
    sys.modules.pop("working", None)


def test_a_job_is_done_once_and_only_if_its_request_was_stored(site: Site) -> None:
    assert site.add("done", "sea") == 200
    assert site.add("done", "hill", refused="1") == 404
    _, (waiting,) = site.stored()
    assert (waiting.name, waiting.arguments, waiting.failed) == ("working:done", '[["sea"], {}]', 0)
    for _ in range(2):
        assert site.run("--once")[0] == 0
        assert site.stored() == ({"sea": 1}, [])
    assert sys.modules["working"].told == ["sea"], "after_commit is that of the job's own transaction"


@pytest.mark.parametrize("kind", ["fails", "not_there", "doomed", "away"])
def test_a_job_that_fails_stores_nothing_and_waits_longer_each_time(site: Site, kind: str, caplog: Any) -> None:
    site.add(kind, "secret")
    waits = []
    for number in range(1, TRIES + 1):
        before = time.time()
        status, _, _ = site.run("--once")
        assert status == 1
        done, (waiting,) = site.stored()
        assert done == {} and waiting.failed == number
        if waiting.due is not None:
            waits.append(round(waiting.due - before, -1))
        site.make_due()
    assert waits == [min(FIRST_WAIT * 2**number, LONGEST_WAIT) for number in range(TRIES - 1)]
    assert waiting.due is None and "secret" not in waiting.error
    last = [one.getMessage() for one in caplog.records if one.name == "pipeline.jobs"][-1]
    assert last.startswith(f"job working:{kind} has failed 8 times, now by ") and "secret" not in last
    assert last.endswith("; it waits for pipeline work --again")
    assert site.run("--once")[0] == 0, "nothing is due"
    _, listed, _ = site.run("--list")
    assert f"failed      working:{kind}  8 times, last by {waiting.error}" in listed
    assert site.run("--again")[1] == "1 job is due again\n"
    assert site.stored()[1][0].failed == 0 and site.run("--list")[1].split()[1] == "due"


def test_the_metrics_of_the_site_have_the_jobs_of_its_workers(site: Site, tmp_path: Path) -> None:
    """Two that are done, and one that fails and waits. A worker is a process of its own."""
    pytest.importorskip("prometheus_client")
    from prometheus_client import CollectorRegistry
    from prometheus_client.multiprocess import MultiProcessCollector

    for kind in ("done", "done", "fails"):
        site.add(kind)
    figures = tmp_path / "figures"
    figures.mkdir()
    command = [sys.executable, "-m", "pipeline", "work", "site.ini", "--once"]
    environ = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(figures), "PYTHONPATH": str(tmp_path)}
    subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, timeout=60)
    registry = CollectorRegistry()
    MultiProcessCollector(registry, str(figures))  # type: ignore[no-untyped-call]
    for state, jobs in {"due": 0, "later": 1, "failed": 0}.items():
        assert registry.get_sample_value("pipeline_jobs", {"state": state}) == jobs
    outcomes = {("done", "done"): 2, ("fails", "failed"): 1}
    for (name, outcome), times in outcomes.items():
        labels = {"job": f"working:{name}", "outcome": outcome}
        assert registry.get_sample_value("pipeline_job_attempts_total", labels) == times


def test_a_conflict_is_no_failure(site: Site) -> None:
    """It is tried again by ``retry``; if that gives up, by the worker."""
    site.add("conflicts")
    assert site.run("--once")[0] == 0
    assert site.stored() == ({"sea": 1}, []) and len(sys.modules["working"].attempts) == 3
    site.add("always_conflicts", "hill")
    assert site.run("--once")[0] == 0
    done, (waiting,) = site.stored()
    assert done == {"sea": 1} and waiting.failed == 0


def test_jobs_that_cannot_be_done_now_do_not_keep_out_those_behind_them(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those do that other workers have: as many of them as a worker looks at were all that it ever looked at."""
    monkeypatch.setattr("pipeline.tools.work.AT_ONCE", 2)
    for kind, name in [("always_conflicts", "hill")] * 3 + [("done", "sea")]:
        site.add(kind, name)
    assert site.run("--once")[0] == 0
    done, waiting = site.stored()
    assert done == {"sea": 1} and [one.failed for one in waiting] == [0, 0, 0]


def test_a_job_may_store_another(site: Site) -> None:
    site.add("further")
    assert site.run("--once")[0] == 0
    assert site.stored() == ({"sea too": 1}, [])


def test_one_job_does_not_stop_another(site: Site) -> None:
    for kind in ("fails", "done", "away", "doomed"):
        site.add(kind, kind)
    assert site.run("--once")[0] == 1
    done, waiting = site.stored()
    assert done == {"done": 1} and [one.failed for one in waiting] == [1, 1, 1]


@pytest.mark.parametrize("kind", ["halfway", "late"])
def test_a_job_that_fails_behind_a_commit_of_its_own_waits_for_a_person(site: Site, kind: str, caplog: Any) -> None:
    """It is out of the queue, and was told as done. What it has stored would be stored twice (R2a)."""
    site.add(kind)
    assert site.run("--once")[0] == 1
    done, (waiting,) = site.stored()
    assert done == {"sea": 1} and (waiting.name, waiting.due, waiting.failed) == (f"working:{kind}", None, 1)
    last = [one.getMessage() for one in caplog.records if one.name == "pipeline.jobs"][-1]
    assert last.endswith("; it has stored a part by itself, so it waits for pipeline work --again")
    assert site.run("--again")[1] == "1 job is due again\n"


def test_a_job_may_commit_by_itself(site: Site) -> None:
    site.add("in_parts")
    assert site.run("--once")[0] == 0
    assert site.stored() == ({"sea": 2}, [])


def test_a_job_that_another_worker_has_put_back_waits(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stands in the list that this worker has made before: eight workers tried it eight times at once."""
    site.add("fails")
    others: list[int] = []

    def shuffle(found: list[int]) -> None:
        if not others:
            others.append(0)
            others[0] = main(["work", "site.ini", "--once"])

    monkeypatch.setattr("pipeline.tools.work.random.shuffle", shuffle)
    assert (site.run("--once")[0], others) == (0, [1])
    done, (waiting,) = site.stored()
    assert done == {} and waiting.failed == 1 and waiting.due is not None and waiting.due > time.time()


def test_a_job_with_the_number_of_one_that_has_failed_is_not_lost(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite gives the number of the last row again, when another worker has done that job meanwhile."""
    if site.kind != "sql":
        pytest.skip("the ids of a ZODB are random")
    site.add("fails", "first")
    after = Stored.after

    def meanwhile(failed: Stored, *error: Any) -> Stored:
        site.ask("delete from pipeline_jobs")
        site.ask("insert into pipeline_jobs values (?, 'working:done', '[[\"second\"], {}]', 1, 0, '')", failed.id)
        return after(failed, *error)

    monkeypatch.setattr(Stored, "after", meanwhile)
    assert site.run("--once")[0] == 1
    assert site.stored() == ({"second": 1}, [])


@pytest.mark.parametrize("name", ["working:nothing", "working:no_job", "nowhere:x", "os:system", "x"])
def test_a_name_that_is_no_job_is_called_by_nobody(site: Site, name: str) -> None:
    """Who can write to the database cannot have a function of his choice called."""
    site.add("done")
    if site.kind == "sql":
        site.ask("update pipeline_jobs set name = ?", name)
    else:
        site.stored(lambda queue: queue.update({id: (name, *rest[1:]) for id, rest in queue.items()}))
    assert site.run("--once")[0] == 1
    done, (waiting,) = site.stored()
    assert done == {} and waiting.error == "ConfigurationError"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((object(),), TypeError),
        (((1, 2),), TypeError),
        (({1: 2},), TypeError),
        (({"a"},), TypeError),
        ((b"x",), TypeError),
        (("\ud800", [None, 1.5, {"a": "ü"}]), None),
    ],
)
def test_arguments_that_json_would_change_are_refused(arguments: Any, error: Any) -> None:
    added: list[Stored] = []

    class Request:
        class job_queue:
            add = added.append

    if error is not None:
        with pytest.raises(error):
            write.later(Request, *arguments)
    else:
        write.later(Request, *arguments)
    assert len(added) == (error is None)


@job
def write(request: Any, *names: Any) -> list[Any]:
    """The arguments."""
    return list(names)


GIVEN = [((), {}), (("sea", 1), {}), (("sea",), {"size": 1}), ((), {"Name": "sea"})]


@pytest.mark.parametrize("given, named", GIVEN)
def test_arguments_that_the_function_does_not_take_are_refused(given: Any, named: Any) -> None:
    """The page was a 200, and each of eight attempts of a worker failed."""
    with pytest.raises(TypeError, match=r"the job .*:write_one could not be done: (missing|too many|got an unexp)"):
        write_one.later(None, *given, **named)


@job
def write_one(request: Any, name: str) -> None: ...


def test_a_job_is_still_a_function() -> None:
    assert write(None, "a", "b") == ["a", "b"] and write.__name__ == "write" and write.__doc__ == "The arguments."


async def write_later(request: Any) -> None: ...


def write_in_parts(request: Any) -> Any:
    yield


@pytest.mark.parametrize("function", [write_later, write_in_parts])
def test_a_function_of_which_a_call_runs_nothing_is_refused(function: Any) -> None:
    """The worker took it for done."""
    with pytest.raises(ConfigurationError, match=f"job {function.__name__} (is async|has a yield)"):
        job(function)


def test_a_local_function_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="is a local function, which no worker finds again"):

        @job
        def local(request: Any) -> None: ...


@pytest.mark.parametrize(
    ("order", "said"),
    [
        (("errors", "transaction", "traverse"), "jobs need a database: the element zodb or sql"),
        (("zodb", "errors", "traverse"), "the pipeline has no element transaction, so nothing is stored"),
    ],
)
def test_a_pipeline_that_cannot_store_is_refused(
    order: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    root = {} if "zodb" in order else {"traverse": "root = builtins:dict"}
    zodb = {"zodb": "uri = memory://work"} if "zodb" in order else {}
    (tmp_path / "site.ini").write_text(ini_of(order, "", **root, **zodb))
    monkeypatch.chdir(tmp_path)
    assert main(["work", "site.ini", "--once"]) == 1
    close_all()
    assert said in capsys.readouterr().err


def test_a_database_that_another_process_has_is_refused(site: Site) -> None:
    if site.kind == "sql":
        return
    site.add("done")
    storage = FileStorage(str(site.directory / "Data.fs"))
    try:
        status, _, said = site.run("--once")
    finally:
        storage.close()
    assert status == 1 and "workers need a database that several processes share, such as zeo://" in said
    assert len(site.stored()[1]) == 1


@pytest.mark.parametrize(("every", "sleeps"), [("3", [0.5]), ("0.2", [0.2, 0.2])])
def test_a_worker_waits_and_ends_after_the_job_at_hand(
    site: Site, every: str, sleeps: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may end while it waits, also in a later turn."""
    site.add("done")
    slept: list[float] = []
    sleep_well = time.sleep

    def sleep(seconds: float) -> None:
        slept.append(round(seconds, 1))
        sleep_well(seconds)
        if len(slept) == len(sleeps):
            os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    monkeypatch.setattr("pipeline.tools.work.time.sleep", sleep)
    try:
        assert site.run("--every", every)[0] == 0
    finally:
        for number, handler in zip((signal.SIGTERM, signal.SIGINT), before, strict=True):
            signal.signal(number, handler)
    assert slept == sleeps and site.stored() == ({"sea": 1}, [])


def test_a_site_that_refuses_the_request_of_a_worker_is_told(site: Site, caplog: Any) -> None:
    """The job waits, and the status of the command says so: it was taken for the job of another worker."""
    site.add("done")
    code = site.directory / "working.py"
    text = (site.directory / "site.ini").read_text()
    (site.directory / "site.ini").write_text(
        text.replace("errors transaction", "errors closed transaction")
        + "\n[filter:closed]\npaste.filter_factory = working:closed\n"
    )
    code.write_text(code.read_text() + CLOSED)
    sys.modules.pop("working")
    assert site.run("--once")[0] == 1
    assert len(site.stored()[1]) == 1
    [said] = [one.getMessage() for one in caplog.records if one.name == "pipeline.jobs"]
    assert said == "no job is done: the site has answered 403 to POST /job, the request of a worker"


CLOSED = """
from webob.exc import HTTPForbidden
from pipeline import element

@element
def closed(next):
    def closed(request, response):
        if request.method == "POST":
            raise HTTPForbidden("closed for repairs")
        next(request, response)
    return closed
"""


@pytest.mark.parametrize("every", ["nan", "-1", "inf"])
def test_a_worker_that_would_never_wait_or_never_look_again_does_not_start(every: str, capsys: Any) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["work", "site.ini", f"--every={every}"])
    assert ended.value.code == 2
    assert f"argument --every: {every} is not a number from 0 to 1000000" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["nan", "-1", "inf", "1e300"])
@pytest.mark.parametrize(
    ("command", "option"),
    [("top", "every"), ("rehearse", "budget"), ("rehearse", "slower"), ("rehearse", "floor"), ("prove", "cover")],
)
def test_no_command_takes_a_number_that_is_no_time(command: str, option: str, value: str, capsys: Any) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "site.ini", f"--{option}={value}"])
    assert ended.value.code == 2
    assert f"argument --{option}: {value} is not a number from 0 to 1000000" in capsys.readouterr().err
