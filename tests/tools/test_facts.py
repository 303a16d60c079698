"""Facts: an element from outside with the same facts gets the same from each tool as one of ours."""

from __future__ import annotations

import ast
import json
import os
import re
import socket
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from webob import Request

from inis import WITH_HEALTH, ini_of
from pipeline.composition import Element
from pipeline.inspector.pages import drawn
from pipeline.interfaces import ConfigurationError, Facts
from pipeline.paste import load, plan
from pipeline.tools import deploy, serve
from pipeline.tools.command import main
from tools.keeper import keeper, twins

TOP = Path(__file__).resolve().parents[2]
WORDS = {"base", "errors", "events", "log", "site"}
"""Names of elements that are words of other things, too."""
ELEMENTS = {file.stem for file in (TOP / "src/pipeline/elements").glob("[a-z]*.py")} - WORDS

INI = (
    WITH_HEALTH
    + """
[pipeline:site]
pipeline = {names} end

{sections}
[app:end]
paste.app_factory = tools.test_facts:plain
"""
)

STORE = "[filter:store]\npaste.filter_factory = filestore:filestore\npath = {here}/var/store.json\n"
KEEPER = """\
[filter:keeper]
paste.filter_factory = tools.keeper:keeper
lock = {here}/var/keeper.lock
token = 0pen-sesame
server = 127.0.0.1:7001
"""


def plain(global_conf: Any) -> Any:
    """Make an app that answers with the keys of its environ."""

    def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [environ["PATH_INFO"].encode()]

    return app


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    """``write("store keeper", STORE + KEEPER)`` writes an ini, and returns its path."""

    def write(names: str, sections: str) -> str:
        place = tmp_path / "etc"
        (place / "var").mkdir(parents=True, exist_ok=True)
        (tmp_path / "pyproject.toml").touch()
        ini = place / "site.ini"
        ini.write_text(INI.format(names=names, sections=sections.replace("{here}", "%(here)s")))
        return str(ini)

    return write


def deployed(ini: str, target: str, *options: str) -> dict[str, str]:
    """Return what is written for a server."""
    directory = Path(ini).parent.parent / "server"
    assert main(["deploy", target, ini, str(directory), *options]) == 0
    return {path.name: path.read_text() for path in directory.iterdir() if path.is_file()}


@pytest.fixture(autouse=True)
def everything_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("target", "nginx"):
        monkeypatch.setattr(f"pipeline.deploying.{module}.need_program", lambda name, *more: f"/usr/bin/{name}")
    monkeypatch.setattr(deploy, "need_readable", lambda path, user: None)
    monkeypatch.setattr("pipeline.deploying.nginx.module_line", lambda program: "")
    monkeypatch.setattr("pipeline.deploying.container.lock_of", lambda root: "# A lock.\n")


@pytest.mark.parametrize("command", ["check", "show", "serve", "deploy gunicorn"])
def test_a_value_of_which_no_facts_can_be_told_is_named(command: str, tmp_path: Path, capsys: Any) -> None:
    order, ini = ["zodb", "errors", "transaction", "traverse"], tmp_path / "site.ini"
    ini.write_text(ini_of(order, "proving.notes", zodb="uri = zeo://[::1"))
    directory = [str(tmp_path / "server")] if command.startswith("deploy") else []
    assert main([*command.split(), str(ini), *directory]) == 1
    said = capsys.readouterr()
    place = f"{ini}, section [filter:zodb], line {1 + ini.read_text().splitlines().index('[filter:zodb]')}"
    assert "zodb: Invalid IPv6 URL" in said.out + said.err and place in said.out + said.err
    assert "Traceback" not in said.err


# Two elements from outside.


def test_systemd_lets_a_site_write_where_its_elements_say(write: Callable[..., str]) -> None:
    ini = write("store keeper", STORE + KEEPER)
    var = Path(ini).parent / "var"
    unit = deployed(ini, "systemd")["server.service"]
    paths = re.findall(r"^ReadWritePaths=(.*)$", unit, re.MULTILINE)[0].split()
    assert str(var) in paths
    assert "# It connects to 127.0.0.1:7001.\nWants=network-online.target\nAfter=network-online.target\n" in unit


@pytest.mark.parametrize(
    ("names", "section", "option"),
    [
        ("log", "[filter:log]\nuse = egg:wsgi-pipeline#log\n", "file = {here}/logs/access.log"),
        ("sql", "[filter:sql]\nuse = egg:wsgi-pipeline#sql\n", "url = sqlite:///{here}/logs/site.db"),
        ("zodb", "[filter:zodb]\nuse = egg:wsgi-pipeline#zodb\n", "uri = file://{here}/logs/Data.fs"),
    ],
)
def test_systemd_lets_our_elements_write_their_files(
    write: Callable[..., str], names: str, section: str, option: str
) -> None:
    ini = write(names, section + option + "\n")
    unit = deployed(ini, "systemd")["server.service"]
    assert f" {Path(ini).parent}/logs\n" in re.findall(r"^ReadWritePaths=.*\n", unit, re.MULTILINE)[0]
    assert "After=network.target\n" in unit, "no server is needed"


def test_the_container_has_a_volume_for_what_elements_write(
    write: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    files = deployed(write("store", STORE), "container")
    assert "\nVOLUME /srv/site/etc/var\n" in files["Dockerfile"]
    assert "&& chown 10001:10001 /srv/site/etc/var\n" in files["Dockerfile"]
    assert "\netc/var\n" in files["Dockerfile.dockerignore"]
    assert "-v site-srv-site-etc-var:/srv/site/etc/var -p" in capsys.readouterr().out


@pytest.mark.parametrize("target", ["container", "systemd"])
def test_a_service_that_cannot_write_beside_the_code_is_not_written(
    target: str, write: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    ini = write("store", STORE.replace("var/", ""))
    assert main(["deploy", target, ini, str(Path(ini).parent / "server")]) == 1
    assert "let this section name a directory of its own" in capsys.readouterr().err


def test_a_secret_stands_in_no_image_and_is_shown_by_no_tool__S25(
    write: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    ini = write("keeper", KEEPER)
    assert main(["deploy", "container", ini, str(Path(ini).parent / "server")]) == 1
    line = 1 + Path(ini).read_text().splitlines().index("token = 0pen-sesame")
    assert f"{ini}, line {line}: this line has a password" in capsys.readouterr().err
    os.chmod(ini, 0o644)
    deployed(ini, "gunicorn")
    assert f"{ini}, line {line}, has a password, and every user" in capsys.readouterr().out
    for command in ("show", "check"):
        main([command, ini])
        main([command, ini, "--json"])
        said = capsys.readouterr()
        assert "keeper" in said.out and "sesame" not in said.out + said.err
    chains = list(plan(f"config:{ini}"))
    assert "sesame" not in str(drawn(chains[1].steps)) and "(masked)" in str(drawn(chains[1].steps))


def test_one_process_serves_an_element_that_says_so(
    write: Callable[..., str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[Any] = []
    monkeypatch.setattr(serve, "run", lambda arguments, listener: served.append(arguments) or 0)
    command = ["serve", "--server", "gunicorn", "--port", "8765", "--workers", "2"]
    assert main([*command, write("store", STORE)]) == 0 and len(served) == 1
    ini = write("store keeper", STORE + KEEPER)
    lock = Path(ini).parent / "var" / "keeper.lock"
    lock.touch()
    assert main([*command, ini]) == 1 and len(served) == 1 and lock.exists()
    said = capsys.readouterr().err
    assert "[filter:keeper], line " in said
    assert f"2 processes cannot serve this site: it locks {lock}. Use --workers 1\n" in said
    assert main([*command[:-1], "1", ini]) == 0 and len(served) == 2
    assert not lock.exists(), "what a killed process has left is removed before the start"
    assert "workers = 1\n" in deployed(ini, "gunicorn")["gunicorn.conf.py"]
    assert "workers = 2\n" in deployed(write("store", STORE), "gunicorn")["gunicorn.conf.py"]


@pytest.mark.servers
@pytest.mark.parametrize(("names", "workers"), [("store", 2), ("store keeper", 1)])
def test_elements_from_outside_are_served(
    names: str, workers: int, write: Callable[..., str], start: Callable[..., Any], free_port: int
) -> None:
    """After a process was killed, and with the probes of ``health`` in each worker."""
    ini = write(names, STORE + KEEPER * ("keeper" in names))
    (Path(ini).parent / "var" / "keeper.lock").touch()
    places = [TOP / "tests", TOP / "examples" / "element" / "src"]
    command = [sys.executable, "-m", "pipeline", "serve", ini, "--server", "gunicorn", "--port", str(free_port)]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, places))}
    start([*command, "--workers", str(workers)], free_port, env=environ)
    for path, text in (("/page", b"/page"), ("/@@health", b"ready\n")):
        with urllib.request.urlopen(f"http://127.0.0.1:{free_port}{path}", timeout=30) as answer:
            assert answer.read() == text


def database() -> Any:
    """Return a database that the application opens, which no tool does."""
    raise AssertionError("it was opened")


def test_a_database_of_the_application_is_not_asked_for_its_uri(
    write: Callable[..., str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "run", lambda arguments, listener: 0)
    section = "[filter:zodb]\nuse = egg:wsgi-pipeline#zodb\ndb = tools.test_facts:database\n"
    ini = write("zodb", section)
    assert main(["serve", ini, "--server", "gunicorn", "--workers", "2", "--port", "8765"]) == 0
    assert "workers = 2\n" in deployed(ini, "gunicorn")["gunicorn.conf.py"]
    assert main(["show", "--long", ini]) == 0 and "db = tools.test_facts:database" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("target", "file"),
    [("gunicorn", "gunicorn.conf.py"), ("systemd", "gunicorn.conf.py"), ("granian", "granian.sh")],
)
def test_what_a_killed_process_has_left_is_removed_before_a_start(
    write: Callable[..., str], target: str, file: str
) -> None:
    ini = write("keeper", KEEPER)
    text = deployed(ini, target)[file]
    lock = Path(ini).parent / "var" / "keeper.lock"
    lock.touch()
    if file.endswith(".py"):
        conf: dict[str, Any] = {}
        exec(text, conf)
        conf["on_starting"](None)
        assert not lock.exists()
    else:
        assert f"\nrm -f -- {lock}\nexec " in text
    assert str(lock) not in deployed(write("store", STORE), target)[file]


def test_servers_take_the_longest_body_of_any_element(write: Callable[..., str]) -> None:
    files = deployed(write("forms", TWIN_OF_FORMS), "nginx", "--behind", "uwsgi")
    assert "client_max_body_size 66536;" in files["site.conf"]


TWIN_OF_FORMS = "[filter:forms]\npaste.filter_factory = tools.keeper:twin_of_forms\nmax_body = 1000\n"


def test_nginx_is_refused_if_an_element_does_not_believe_it(
    write: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    ini = write("keeper", KEEPER)
    assert main(["deploy", "nginx", ini, str(Path(ini).parent / "server")]) == 1
    said = capsys.readouterr().err
    assert "keeper would not believe what nginx says of the visitors" in said and "believes nobody at unix" in said


def test_check_gives_the_advice_of_an_element(
    write: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    ini = write("errors keeper", "[filter:errors]\nuse = egg:wsgi-pipeline#errors\n" + KEEPER)
    Path(ini).parent.joinpath("var").rmdir()
    assert main(["check", ini]) == 1
    said = capsys.readouterr().out
    assert f"error: the directory {Path(ini).parent}/var is missing" in said
    assert "warning: keeper tells its process to every visitor" in said
    assert "no element answers errors" not in said


def test_show_tells_the_facts(write: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    ini = write("keeper", KEEPER)
    assert main(["show", "--long", ini]) == 0
    said = "".join(capsys.readouterr().out.split())  # a long path may be broken at a hyphen
    lock = f"{Path(ini).parent}/var/keeper.lock"
    assert "token=(masked)" in said
    assert f"writes{lock}connectsto127.0.0.1:7001serveskeeper.exampleoneprocess:itlocks{lock}" in said


def health(ini: str, path: str = "/@@health") -> tuple[int, str]:
    answer = Request.blank(path).get_response(load(f"config:{ini}"))
    return answer.status_int, answer.text


def test_health_asks_the_elements_that_can_be_asked(write: Callable[..., str]) -> None:
    ini = write("store keeper", STORE + KEEPER)
    store, lock = Path(ini).parent / "var" / "store.json", Path(ini).parent / "var" / "keeper.lock"
    assert health(ini) == (200, "ready\n")
    store.write_text("no JSON")
    assert health(ini) == (503, "filestore: cannot be reached\nkeeper: cannot be reached\n"), "the lock is taken"
    store.unlink()
    lock.unlink()
    assert health(ini) == (200, "ready\n")


def test_health_does_not_ask_an_element_that_says_nothing(write: Callable[..., str]) -> None:
    """It provides a database, and a page of it works."""
    section = "[filter:silent]\npaste.filter_factory = tools.test_facts:silent\n"
    assert health(write("silent", section)) == (200, "ready\n")


def _silent(next: Any) -> Any:
    """Provide a database, and no facts."""
    return next


silent = Element(_silent, keeper.contract._replace(name="silent", provides=("database",), facts=None, adds=None))


# Ours, and others with the same facts.

OPTIONS = {
    "authenticate": "check = tools.test_facts:plain\nby = session\nkeys = {here}/var/keys\nlimits = redis://h/0\n",
    "forms": "max_body = 12345\n",
    "log": "file = {here}/var/access.log\n",
    "sendfile": "locations = /srv/blobs = /_blobs/\n",
    "session": "keys = {here}/var/keys\n",
    "sql": "url = postgresql://user@db.example.com/site\n",
    "vhost": "allowed_hosts = *\ntrusted = unix\naccept = X-Forwarded\n",
    "zodb": "uri = file://{here}/var/Data.fs?blobstorage_dir={here}/var/blobs\n",
}


@pytest.mark.parametrize("target", ["container", "granian", "gunicorn", "nginx", "systemd", "uwsgi"])
@pytest.mark.parametrize("name", OPTIONS)
def test_a_twin_is_deployed_like_the_element_itself(name: str, target: str, write: Callable[..., str]) -> None:
    assert set(OPTIONS) == set(twins)
    found = [
        deployed(write("it", f"[filter:it]\npaste.filter_factory = {factory}\n{OPTIONS[name]}"), target)
        for factory in (f"pipeline.elements.{name}:{name}", f"tools.keeper:twin_of_{name}")
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize("command", ["check", "show"])
@pytest.mark.parametrize("name", OPTIONS)
def test_a_twin_is_told_like_the_element_itself(
    name: str, command: str, write: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    found = []
    for factory in (f"pipeline.elements.{name}:{name}", f"tools.keeper:twin_of_{name}"):
        ini = write("it", f"[filter:it]\npaste.filter_factory = {factory}\n{OPTIONS[name]}")
        main([command, ini, "--json"])
        said = json.loads(re.sub(rf"twin_of_{name}\b|\b{name}\b", "NAME", capsys.readouterr().out))
        for part in (part for chain in said for part in chain["parts"]) if command == "show" else ():
            for name_of_class in ("adds", "request class"):
                part.pop(name_of_class, None)
        found.append(said)
    assert found[0] == found[1]


# No tool knows an element.


def looked_up(tree: ast.AST, names: set[str]) -> Iterator[int]:
    """Yield the lines that compare with the name of an element, look one up, or import one."""
    for node in ast.walk(tree):
        values: list[ast.expr | None] = []
        if isinstance(node, ast.Compare):
            values = [node.left, *node.comparators]
        elif isinstance(node, ast.Dict):
            values = list(node.keys)
        elif isinstance(node, ast.Subscript):
            values = [node.slice]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            values = list(node.args) if node.func.attr in ("get", "has", "find") else []
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pipeline.elements."):
            yield node.lineno
        for value in values:
            for one in value.elts if isinstance(value, (ast.Tuple, ast.List, ast.Set)) else [value]:
                if isinstance(one, ast.Constant) and isinstance(one.value, str) and one.value in names:
                    yield one.lineno


@pytest.mark.parametrize(
    "text",
    [
        *('x.name == "zodb"', 'x in ("forms", "a")', '{"sql": 1}', 'd["vhost"]', 'd.get("retry")'),
        "from pipeline.elements.log import log",
    ],
)
def test_a_name_would_be_found(text: str) -> None:
    assert list(looked_up(ast.parse(text), ELEMENTS)) == [1]


def test_no_tool_knows_an_element_by_its_name() -> None:
    source = TOP / "src" / "pipeline"
    files = [source / f"{name}.py" for name in ("health", "foreign", "mounting")]
    rooms = "checking database deploying explaining inspector loading serving telling tools"
    for room in rooms.split():
        files += source.joinpath(room).rglob("*.py")
    places = {
        f"{file.relative_to(source)}:{line}"
        for file in files
        if file.name != "adopt.py"  # it chooses the elements of the ini that it writes
        for line in looked_up(ast.parse(file.read_text()), ELEMENTS)
    }
    assert places == set()


def test_a_function_of_facts_takes_the_options_of_its_element() -> None:
    def partial_facts(*, lock: str) -> Facts:
        return Facts(writes=(lock,))

    wrong = Element(keeper.factory, keeper.contract._replace(facts=partial_facts))
    with pytest.raises(ConfigurationError, match=r"the facts of keeper \(tools\.keeper\): .*unexpected keyword"):
        wrong(lock="x", token="y").facts  # noqa: B018
    assert keeper(lock="x", token="y").facts.servers == (), "the default of server counts"


def test_facts_are_a_value() -> None:
    assert Facts() == Facts() and Facts(writes=("a",)) != Facts()
    with pytest.raises(AttributeError):
        Facts().writes = ("a",)  # type: ignore[misc]


def test_a_second_start_removes_nothing_of_the_first(
    write: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The lock is of a process that runs, since a server has the port."""
    ini = write("store keeper", STORE + KEEPER)
    lock = Path(ini).parent / "var" / "keeper.lock"
    lock.touch()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert main(["serve", ini, "--port", str(listener.getsockname()[1])]) == 1
    assert "Address already in use" in capsys.readouterr().err and lock.exists()
