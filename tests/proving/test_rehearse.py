"""``pipeline rehearse``: broken releases that load are refused, sound ones pass, within the budget."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import count
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from pipeline.database.storages import database_at
from pipeline.rehearsing.command import put_line
from pipeline.rehearsing.comparing import Line, Rehearsal, newest, rehearse, worse
from pipeline.rehearsing.sides import Process, directory_of
from pipeline.rehearsing.stage import CIRCLE, Answer, Measured, Stage, leads_nowhere
from pipeline.staging.asked import Asked, Logged, read_log
from pipeline.tools.command import main

INI = """
[pipeline:main]
pipeline = retry zodb sql errors transaction forms authenticate traverse publisher
[filter:timing]
use = egg:wsgi-pipeline#timing
[filter:retry]
use = egg:wsgi-pipeline#retry
[filter:zodb]
use = egg:wsgi-pipeline#zodb
uri = file://{data}/Data.fs
[filter:sql]
use = egg:wsgi-pipeline#sql
url = sqlite:///{data}/orders.sqlite
[filter:errors]
use = egg:wsgi-pipeline#errors
[filter:transaction]
use = egg:wsgi-pipeline#transaction
[filter:forms]
use = egg:wsgi-pipeline#forms
[filter:authenticate]
use = egg:wsgi-pipeline#authenticate
check = NAME:check
[filter:traverse]
use = egg:wsgi-pipeline#traverse
max_query = 100
[app:publisher]
use = egg:wsgi-pipeline#publisher
scan = NAME
"""
CODE = """
from persistent.mapping import PersistentMapping as Shop
from sqlalchemy import text
from ZODB.POSException import ConflictError
from pipeline import redirect, view

def check(request, login, password):
    return None

@view(context=Shop)
def index(shop, request, response):
    response.headers["Content-Security-Policy"] = "default-src 'self'"
    response.headers["Cache-Control"] = "private, max-age=5"
    return '<a href="@@orders">Orders</a> <a href="/@@about#top">About</a> <a href="/@@lost">Lost</a>'

@view(context=Shop, name="orders")
def orders(shop, request):
    rows = ", ".join(request.sql.scalars(text("SELECT what FROM orders")))
    return rows

@view(context=Shop, name="old")
def old(shop, request):
    return redirect("/@@about")

@view(context=Shop, name="admin", permission="edit")
def admin(shop, request):
    return "the admin's page"

@view(context=Shop, name="data")
def data(shop, request, response):
    response.content_type = "application/json"
    response.etag = "7"
    return '{"a": 1}'
"""
MORE = """
from persistent.mapping import PersistentMapping as Shop
from pipeline import render, view

@view(context=Shop, name="about")
def about(shop, request):
    return render("about.html", title=shop["title"])
"""
TEMPLATE = "<h1>{{ title.upper() }}</h1>"
FILES = {"__init__.py": CODE, "more.py": MORE, "about.html": TEMPLATE, "site.ini": INI}

ALL = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 1000000)"
SLOW = f"{ALL} SELECT 'tea' FROM c WHERE x = 999999"

ASKED = [
    *(Asked("GET", url, user="") for url in ("/", "/@@orders?page=1", "/@@about", "/@@old", "/@@admin", "/@@data")),
    Asked("GET", "/@@admin", user="ann"),
    Asked("GET", "/@@nothing", user=""),
    Asked("HEAD", "/@@data", user=""),
]

Changes = Sequence[tuple[str, str, str]]
"""File, what stands there, and what takes its place."""


class Release(NamedTuple):
    name: str
    changes: Changes
    worse: str = ""
    """What is said of a broken one: METHOD URL, and what got worse."""


PAGE, MORE_VIEWS, SETTINGS = "__init__.py", "more.py", "site.ini"
SELECT = '", ".join(request.sql.scalars(text("SELECT what FROM orders")))'
ORDERS = "GET /@@orders?page=1:"
NEW_VIEW = "import render, view\n\n@view(context=Shop, name={!r})\ndef new(shop, request): return 'new'\n"
NEW_INDEX = 'request.sql.execute(text("CREATE INDEX i ON orders (what)"))'
TWICE = "if request.attempt == 1: raise ConflictError\n    return rows"
OPEN = "GET /@@admin: 200 instead of 401: what was refused is open"
CIRCULAR = "GET /@@old: its redirect to /@@old leads in a circle"
GONE = "GET /@@data: 410 instead of 200"
NO_CSP = "GET /: the header Content-Security-Policy is gone"
CACHED = "GET /: Cache-Control is public, max-age=5 instead of private, max-age=5"
TYPE = "HEAD /@@data: Content-Type is text/plain instead of application/json"
ELSEWHERE = "GET /@@old: Location is / instead of /@@about"

BROKEN = [
    Release("exception", [(PAGE, "return rows", "return no_such_name")], f"{ORDERS} 500 instead of 200"),
    Release("template", [("about.html", "title.upper", "titel.upper")], "GET /@@about: 500 instead of 200"),
    Release("closed", [(PAGE, '"orders"', '"orders", permission="x"')], f"{ORDERS} 401 instead of 200"),
    Release("open", [(PAGE, ', permission="edit"', "")], OPEN),
    Release("circle", [(PAGE, '"/@@about"', '"/@@old"')], CIRCULAR),
    Release("slow", [(PAGE, "SELECT what FROM orders", SLOW)], f"{ORDERS} it takes "),
    Release("status", [(PAGE, "return '{", "response.status_int = 410; return '{")], GONE),
    Release("header", [(PAGE, "default-src 'self'", "")], NO_CSP),
    Release("column", [(PAGE, "SELECT what", "SELECT what || price")], f"{ORDERS} 500 instead of 200"),
    Release("attribute", [(MORE_VIEWS, '"title"', '"titles"')], "GET /@@about: 500 instead of 200"),
    Release("scan", [(SETTINGS, "scan = NAME", "scan = NAME.more")], "GET /: 404 instead of 200"),
    Release("option", [(SETTINGS, "max_query = 100", "max_query = 3")], f"{ORDERS} 414 instead of 200"),
    Release("link", [(PAGE, "@@about#top", "@@abuot")], "GET /: the link /@@abuot leads to 404"),
    Release("type", [(PAGE, "application/json", "text/plain")], TYPE),
    Release("etag", [(PAGE, 'etag = "7"', "etag = None")], "GET /@@data: the header ETag is gone"),
    Release("cache", [(PAGE, "private, max", "public, max")], CACHED),
    Release("elsewhere", [(PAGE, '"/@@about"', '"/"')], ELSEWHERE),
    Release("empty", [(PAGE, "return rows", 'return ""')], f"{ORDERS} the body is empty"),
    Release("attempts", [(PAGE, "return rows", TWICE)], f"{ORDERS} 2 attempts"),
]
SOUND = [
    Release("nothing", []),
    Release("text", [(PAGE, "return rows", 'return f"All orders: {rows}"')]),
    Release("new view", [(MORE_VIEWS, "import render, view", NEW_VIEW.format("new"))]),
    Release("page for a 404", [(MORE_VIEWS, "import render, view", NEW_VIEW.format("nothing"))]),
    Release("new header", [(PAGE, 'etag = "7"', 'etag = "7"; response.headers["X-Frame-Options"] = "DENY"')]),
    Release("faster", [(PAGE, SELECT, '"tea"')]),
    Release("renamed", [(PAGE, "def orders(", "def all_orders(")]),
    Release("template", [("about.html", TEMPLATE, "<p>{{ title }}</p>")]),
    Release("order of the views", [(SETTINGS, "scan = NAME", "scan = NAME.more NAME")]),
    Release("optional field", [(PAGE, "def orders(shop, request)", "def orders(shop, request, page: int = 1)")]),
    Release("timing", [(SETTINGS, "pipeline = retry", "pipeline = timing retry")]),
    Release("index", [(PAGE, "    rows =", f"    {NEW_INDEX}\n    rows =")]),
    Release("mended link", [(PAGE, "/@@lost", "/@@old")]),
    Release("etag changed", [(PAGE, 'etag = "7"', 'etag = "8"')]),
]


class Played:
    """The old side: what it has answered, so that both need not be loaded at once in one process."""

    def __init__(self, stage: Stage) -> None:
        self.logged: list[Logged] = []
        self.answers: dict[Asked, Answer] = {}
        self.times: dict[Asked, Measured] = {}
        for asked in ASKED:
            answer = self.answers[asked] = stage.answer(asked, 200)
            self.logged.append(Logged(asked, answer.status or 500, asked.url))
            self.times[asked] = stage.measure(asked, 60)

    def answer(self, request: Asked, expected: int) -> Answer:
        return self.answers[request]

    def measure(self, request: Asked, seconds: float) -> Measured:
        return self.times[request]


numbers = count()


def written(directory: Path, changes: Changes = (), data: Path | None = None, name: str = "") -> str:
    """Write a release of the site, as a package of its own. Return its ini."""
    name = name or f"shop_of_a_rehearsal_{next(numbers)}"
    package = directory / name
    package.mkdir(parents=True)
    for file, text in FILES.items():
        for changed, old, new in changes:
            assert changed != file or text.count(old) == 1, (file, old)
            text = text.replace(old, new) if changed == file else text
        place = directory / file if file == SETTINGS else package / file
        place.write_text(text.replace("NAME", name).replace("{data}", str(data or directory)))
    return str(directory / SETTINGS)


def fill(data: Path) -> None:
    """Make the databases of the site."""
    database = database_at(f"file://{data}/Data.fs")
    with database.transaction() as connection:
        connection.root()["title"] = "the shop"
    database.close()
    with closing(sqlite3.connect(data / "orders.sqlite")) as connection, connection:
        connection.execute("CREATE TABLE orders (what TEXT)")
        connection.execute("INSERT INTO orders VALUES ('tea')")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The databases, which no rehearsal changes."""
    data = tmp_path_factory.mktemp("data")
    fill(data)
    return data


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Played:
    stage = Stage(written(tmp_path_factory.mktemp("old"), data=data))
    with stage.loaded():
        return Played(stage)


def rehearsed(ini: str, old: Played) -> Rehearsal:
    stage = Stage(ini)
    with stage.loaded():
        return rehearse(old.logged, stage, old)


def said(rehearsal: Rehearsal) -> list[str]:
    return [f"{line.logged.asked}: {what}" for line in rehearsal.worse for what in line.worse]


def state(data: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in data.iterdir()}


@pytest.mark.parametrize("release", BROKEN, ids=[release.name for release in BROKEN])
def test_a_broken_release_is_refused(release: Release, old: Played, data: Path, tmp_path: Path) -> None:
    rehearsal = rehearsed(written(tmp_path, release.changes, data), old)
    assert any(line.startswith(release.worse) for line in said(rehearsal)), said(rehearsal)
    assert rehearsal.exit_status == 1


@pytest.mark.parametrize("release", SOUND, ids=[release.name for release in SOUND])
def test_a_sound_release_passes(release: Release, old: Played, data: Path, tmp_path: Path) -> None:
    before = state(data)
    rehearsal = rehearsed(written(tmp_path, release.changes, data), old)
    assert (said(rehearsal), rehearsal.left, rehearsal.exit_status) == ([], [], 0)
    assert state(data) == before


def test_the_cause_is_told_as_explain_tells_it(old: Played, data: Path, tmp_path: Path) -> None:
    ini = written(tmp_path, BROKEN[0].changes, data)
    [line] = [line for line in rehearsed(ini, old).worse if "orders" in line.logged.asked.url]
    assert line.new is not None
    [cause] = line.new.causes
    assert "raised NameError" in cause["why"]
    assert cause["where"].endswith(f"__init__.py, line {CODE[: CODE.index('return rows')].count(chr(10)) + 1}")


SEEN_BY_STATUS = [one for one in BROKEN if one.name in ("exception", "scan", "open", "circle", "attempts")]


@pytest.mark.parametrize("release", SEEN_BY_STATUS, ids=[release.name for release in SEEN_BY_STATUS])
def test_without_the_old_code_the_status_of_the_log_is_compared(
    release: Release, old: Played, data: Path, tmp_path: Path
) -> None:
    stage = Stage(written(tmp_path, release.changes, data))
    with stage.loaded():
        rehearsal = rehearse(old.logged, stage)
    assert any(line.startswith(release.worse) for line in said(rehearsal)), said(rehearsal)


def test_a_sound_release_is_as_the_log_says(old: Played, data: Path, tmp_path: Path) -> None:
    stage = Stage(written(tmp_path, data=data))
    with stage.loaded():
        rehearsal = rehearse(old.logged, stage)
    assert (said(rehearsal), rehearsal.exit_status) == ([], 0)


FIRST, SECOND = (Logged(Asked("GET", f"/page/{number}"), 200, "page") for number in (1, 2))


class Told:
    """A side that answers as it is told, in so many seconds."""

    def __init__(self, statuses: dict[str, int], *seconds: float) -> None:
        self.statuses = statuses
        self.seconds = list(seconds or (0.01,))

    def answer(self, request: Asked, expected: int) -> Answer:
        return Answer(self.statuses[request.url])

    def measure(self, request: Asked, seconds: float) -> Measured:
        return Measured(self.seconds.pop(0) if len(self.seconds) > 1 else self.seconds[0], {}, True)


@pytest.mark.parametrize(("statuses", "expected"), [((404, 200), 0), ((404, 404), 1), ((500, 200), 1)])
def test_an_object_that_is_gone_is_pardoned_if_others_of_its_view_are_there(
    statuses: tuple[int, int], expected: int
) -> None:
    """The log does not tell what was deleted since."""
    new = Told(dict(zip(("/page/1", "/page/2"), statuses, strict=True)))
    assert rehearse([FIRST, SECOND], new).exit_status == expected


def test_a_page_that_was_gone_before_needs_no_pardon() -> None:
    [line] = rehearse([FIRST._replace(status=404)], Told({"/page/1": 404})).lines
    assert (line.verdict, line.note) == ("same", "")


def test_redirects_without_an_end_are_a_circle() -> None:
    """Each leads to a new address."""
    stage: Any = object.__new__(Stage)
    places = count()
    run: Any = SimpleNamespace(status=302, header=lambda name: f"/{next(places)}" if next(places) < 99 else "")
    stage.origin, stage.perform = "http://localhost", lambda request: (run, 0.0)
    assert stage.end_of(Asked("GET", "/"), run) == CIRCLE


@pytest.mark.parametrize("end", [200, 401, 404, 410, 500, 503, CIRCLE])
def test_a_link_that_leads_nowhere(end: int | str) -> None:
    assert leads_nowhere(end) is (end not in (200, 401))


@pytest.mark.parametrize(("seconds", "runs", "is_complete"), [(60.0, 5, True), (-1.0, 1, False)])
def test_a_time_is_that_of_all_runs_or_not_complete(
    seconds: float, runs: int, is_complete: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage: Any = object.__new__(Stage)
    times = count(1)
    stage.origin, stage.perform = "http://localhost", lambda request: (None, float(next(times)))
    monkeypatch.setattr("pipeline.rehearsing.stage.links_of", lambda *given: [])
    assert stage.measure(Asked("GET", "/"), seconds) == Measured((runs + 1) / 2, {}, is_complete)
    assert next(times) == runs + 1


def test_a_request_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    causes = [
        {"why": "KeyError: 'a'", "where": "/srv/shop.py, line 3", "remedy": "Catch it."},
        {"why": "a conflict", "where": "/srv/shop.py, line 5", "remedy": ""},
    ]
    line = Line(FIRST, Answer(200), Answer(500, causes=causes), ["500 instead of 200"], milliseconds=[1.5, 20.0])
    put_line(line)
    put_line(Line(FIRST, left="the budget was over"))
    put_line(Line(FIRST._replace(asked=Asked("GET", "/", user="ann")), None, Answer(404), note="it is 404 now"))
    assert capsys.readouterr().out == (
        "WORSE GET /page/1  200 -> 500  1.5 -> 20 ms\n"
        "      500 instead of 200\n"
        "      KeyError: 'a'\n"
        "      at /srv/shop.py, line 3\n"
        "      Catch it.\n"
        "      a conflict\n"
        "      at /srv/shop.py, line 5\n"
        "left  GET /page/1  (the budget was over)\n"
        "same  GET / as ann  200 -> 404  (it is 404 now)\n"
    )


TIMES = [
    (0.01, (0.2,), 1),
    (0.01, (0.2, 0.01), 0),  # slow once
    (0.01, (0.055,), 0),  # below the floor
    (0.2, (0.35,), 0),  # below the ratio
    (0.2, (0.41,), 1),
]


@pytest.mark.parametrize(("old", "new", "status"), TIMES)
def test_only_what_is_slower_twice_is_worse(old: float, new: Sequence[float], status: int) -> None:
    statuses = {"/page/1": 200}
    assert rehearse([FIRST], Told(statuses, *new), Told(statuses, old)).exit_status == status


def test_when_the_budget_is_over_the_rest_is_left() -> None:
    side = Told({"/page/1": 200, "/page/2": 200})
    rehearsal = rehearse([FIRST, SECOND], side, side, ends=monotonic() - 1)
    assert [line.verdict for line in rehearsal.lines] == ["left", "left"]
    assert rehearsal.exit_status == 3


def test_what_fails_on_both_copies_and_not_for_visitors_is_left() -> None:
    """Else a database that cannot be copied would look as if nothing were worse."""
    side = Told({"/page/1": 503})
    rehearsal = rehearse([FIRST], side, side)
    assert rehearsal.lines[0].left == "both answer 503, and visitors got 200"
    assert rehearsal.exit_status == 3


LOST = "500 instead of 200"
REFUSED = Answer(303, [("Location", "http://localhost/@@login?came_from=/")])


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (REFUSED, Answer(200), ["200 instead of 303: what was refused is open"]),
        (Answer(200), Answer(200, broken_by="OSError"), ["OSError reaches the server"]),
        (Answer(303, leads_to=200), Answer(303, leads_to=404), ["its redirect to  leads to 404"]),
        (Answer(303, leads_to=404), Answer(303, leads_to=404), []),
        (Answer(303, leads_to=CIRCLE), Answer(303, leads_to=CIRCLE), []),
        (Answer(500), Answer(200), []),
        (Answer(404), Answer(410), []),
        (Answer(None, broken_by="SystemExit"), Answer(503), []),
        (Answer(200), Answer(None, broken_by="SystemExit"), ["SystemExit reaches the server", LOST]),
        (Answer(200, attempts=2), Answer(200, attempts=2), []),
        (Answer(200, attempts=2), Answer(200, attempts=3), ["3 attempts"]),
        (Answer(200, size=9), Answer(200), ["the body is empty"]),
        (Answer(303, size=9), Answer(304), []),
    ],
)
def test_worse(old: Answer, new: Answer, expected: list[str]) -> None:
    assert list(worse(old.status or 500, old, new)) == expected


def entry(url: str, status: int, view: str | None = None, **more: object) -> str:
    return json.dumps({"method": "GET", "url": url, "status": status, "user": None, "view": view, **more}) + "\n"


def test_the_log_chooses_the_newest_of_each_view_and_status(tmp_path: Path) -> None:
    log = tmp_path / "access.json"
    asked = [("/a", 200, "a"), ("/b", 200, "a"), ("/c", 200, "a"), ("/c", 500, "a"), ("/d", 200, "a")]
    asked += [("/e", 404, ""), ("/f", 404, ""), ("/a", 200, "a")]
    log.write_text("".join(entry(*one) for one in asked) + entry("/p", 200, "p", method="POST"))
    first = [("/a", 200), ("/f", 404), ("/c", 500)]
    assert [(one.asked.url, one.status) for one in newest(read_log(str(log)), 1)] == first
    both = [*first, ("/d", 200), ("/e", 404)]
    assert [(one.asked.url, one.status) for one in newest(read_log(str(log)), 2)] == both


# The command, and its processes.

URLS = (("/@@orders", 200), ("/@@data", 200), ("/@@admin", 401))


@pytest.fixture
def releases(tmp_path: Path) -> Callable[..., list[str]]:
    """``releases(changes)`` are the arguments of a rehearsal of two releases, with one package of one name."""
    data = tmp_path / "data"
    data.mkdir()
    fill(data)

    def releases(changes: Changes = (), urls: Sequence[tuple[str, int]] = URLS) -> list[str]:
        log = tmp_path / "access.json"
        log.write_text("".join(entry(*url) for url in urls))
        new, old = (
            written(tmp_path / one, changed, data, "shop") for one, changed in (("new", changes), ("old", ()))
        )
        return ["rehearse", new, "--against", old, "--log", str(log), "--budget", "60"]

    return releases


@pytest.mark.once
def test_the_command_asks_each_side_in_a_process_of_its_own(
    releases: Callable[..., list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = releases([BROKEN[0].changes[0]])
    before = state(tmp_path / "data")
    assert main([*arguments, "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert {one["url"]: one["verdict"] for one in told["requests"]} == {
        "/@@orders": "WORSE",
        "/@@data": "same",
        "/@@admin": "same",
    }
    assert "raised NameError" in told["requests"][-1]["causes"][0]["why"]
    assert state(tmp_path / "data") == before


@pytest.mark.once
@pytest.mark.parametrize(("changes", "status"), [([], 0), ([(PAGE, ', permission="edit"', "")], 1)])
def test_a_permission_is_seen_to_be_gone_that_only_its_user_has_asked_for(
    changes: Changes, status: int, releases: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """The log has no request that was refused."""
    arguments = releases(changes)
    log = Path(arguments[arguments.index("--log") + 1])
    log.write_text(entry("/@@admin", 200, "shop.admin", user="ann"))
    assert main([*arguments, "--json"]) == status
    told = json.loads(capsys.readouterr().out)["requests"]
    assert [(one["user"], one["worse"]) for one in told] == [
        ("ann", []),
        (None, ["200 instead of 401: what was refused is open"] * status),
    ]


HANGS = [(PAGE, "return rows", "import threading; threading.Event().wait(600)")]
ENDS = [(PAGE, "return rows", "import os; os._exit(7)")]


@pytest.mark.once
@pytest.mark.parametrize(
    ("changes", "more", "status", "expected"),
    [
        ([], [], 0, "3 requests of 3 kinds were rehearsed in"),
        ([], ["--live"], 0, "3 requests of 3 kinds were rehearsed in"),
        (ENDS, [], 1, "its process has ended: exit status 7"),
        ([(PAGE, "return rows", "return rows(")], [], 1, "does not load: "),
        ([], ["--python", "/bin/false"], 2, "the code that is served now cannot be asked: its process has ended"),
        ([], ["--budget", "0.01"], 2, "the code that is served now cannot be asked: the budget is over. "),
        ([], ["--log", "/no/such/log"], 2, "No such file"),
        ([], ["--each", "0"], 2, "the option each must be a number of at least 1, not 0"),
    ],
)
def test_the_command(
    changes: Changes,
    more: list[str],
    status: int,
    expected: str,
    releases: Callable[..., list[str]],
    capfd: pytest.CaptureFixture[str],
) -> None:
    try:
        found = main([*releases(changes), *more])
    except SystemExit as error:
        found = int(str(error.code))
    printed = "".join(capfd.readouterr())
    assert (found, expected in printed) == (status, True), printed


@pytest.mark.once
def test_the_budget_ends_what_hangs_and_leaves_no_copies(
    releases: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made: list[str] = []
    monkeypatch.setattr("pipeline.rehearsing.comparing.HANGS", 0.1)
    load = Process.load

    def noting(side: Process) -> None:
        load(side)
        made.append(side.directory)

    monkeypatch.setattr(Process, "load", noting)
    began = monotonic()
    assert main([*releases(HANGS), "--budget", "12"]) == 1
    assert monotonic() - began < 100, "the view hangs for 600 seconds"
    assert "no answer after" in capsys.readouterr().out
    assert len(made) == 2
    assert [one for one in made if Path(one).exists()] == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("{there}/old/etc/site.ini", "etc/site.ini", "{there}/old"),
        ("{there}/old/site.ini", "site.ini", "{there}/old"),
        ("{there}/old/site.ini", "etc/site.ini", "{there}/old"),
        ("{there}/old/../site.ini", "../site.ini", "{there}/old/.."),
    ],
)
def test_the_old_code_has_a_working_directory_of_its_own(
    old: str, new: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would import the new code from this one."""
    here = tmp_path / "new"
    for path in (here / new, Path(old.format(there=tmp_path))):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    monkeypatch.chdir(here)
    assert directory_of(old.format(there=tmp_path), new) == expected.format(there=tmp_path)


WRITES = [(PAGE, "    rows =", f"    shop['new'] = 1\n    {NEW_INDEX}\n    rows =")]


def test_live_stores_nothing_and_asks_views_alone(data: Path, tmp_path: Path) -> None:
    def stored() -> list[bytes]:
        return [(data / name).read_bytes() for name in ("Data.fs", "orders.sqlite")]

    before = stored()
    stage = Stage(written(tmp_path, WRITES, data), live=True)
    with stage.loaded():
        answer = stage.answer(ASKED[1], 200)
        stage.measure(ASKED[1], 60)
        assert stage.answer(ASKED[3], 302).leads_to == 200
    assert (answer.status, answer.left) == (200, "")
    assert stored() == before


PAGE_OF_A_LOG = Asked("GET", "/")
FOREIGN = """
def foreign(global_conf):
    def app(environ, start_response):
        raise AssertionError("it is asked")
    return app
"""


def test_live_does_not_ask_a_foreign_application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "foreign_to_rehearse.py").write_text(FOREIGN)
    monkeypatch.syspath_prepend(tmp_path)
    ini = tmp_path / SETTINGS
    ini.write_text(
        "[pipeline:main]\npipeline = errors app\n[filter:errors]\nuse = egg:wsgi-pipeline#errors\n"
        "[app:app]\npaste.app_factory = foreign_to_rehearse:foreign\n"
    )
    stage = Stage(str(ini), live=True)
    with stage.loaded():
        assert stage.answer(PAGE_OF_A_LOG, 200).left == "only views are asked on the live database"
