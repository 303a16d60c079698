"""Declarations for ``prove``: invariants, and to whom an object belongs. And a sequence that is run again."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inis import ini_of
from pipeline.database import forks
from pipeline.interfaces import ConfigurationError
from pipeline.proving.noise import Noise
from pipeline.proving.proof import Proof
from pipeline.proving.sequences import is_sequence, steps_from, written
from pipeline.tools.command import main

SITE = '''
from typing import Any
from persistent import Persistent
from webob.exc import HTTPForbidden
from pipeline import redirect, view
from pipeline.promises import belongs_to, invariant

class Box(Persistent):
    """The root."""
    __parent__ = __name__ = None
    value = 0
    owner = "ann"

    def __init__(self) -> None:
        self.counter = Counter()

class Counter(Persistent):
    value = 0

def root(mapping: Any) -> Box:
    return mapping.setdefault("box", Box())

@view(context=Box)
def index(box: Box, request: Any) -> str:
    return "<p>box</p><form action=/@@put method=post><input name=value value=1></form>"

@view(context=Box, name="put", methods=("POST",))
@belongs_to(lambda box: OWNER)
def put(box: Box, request: Any, value: int) -> Any:
    if OWNER is not None and request.principal not in ALLOWED:
        raise HTTPForbidden
    box.value += value
    return redirect("/")
'''


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """``site(text, owner, allowed)`` writes a site with more text in its module. It returns the path of its ini."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def site(more: str = "", owner: str = "'ann'", allowed: str = "('ann',)") -> str:
        module = f"promised_{tmp_path.name.replace('-', '_')}"
        (tmp_path / f"{module}.py").write_text(f"OWNER, ALLOWED = {owner}, {allowed}\n{SITE}\n{more}")
        order = ["retry", "zodb", "errors", "transaction", "forms", "traverse"]
        zodb = f"uri = memory://{tmp_path.name}\nroot = {module}:root"
        (tmp_path / "site.ini").write_text(ini_of(order, module, zodb=zodb))
        return str(tmp_path / "site.ini")

    yield site
    forks.close_all()


def found(ini: str, *judges: str, **options: Any) -> list[str]:
    proof = Proof(ini, users=("ann", "bob"), **options)
    with proof.loaded():
        for judge in judges:
            getattr(proof, judge)()
    return [one.what for one in proof.report.found]


INVARIANTS = [
    ("def holds(root): return root.value >= -99", []),
    ("def holds(root): return root.value >= 0", ["the invariant holds does not hold, it is False"]),
    ("def holds(root): return True if root.value < 5 else 1", ["the invariant holds does not hold, it is 1"]),
    ("def holds(root): assert root.value >= -99", ["the invariant holds does not hold, it is None"]),
    ("def holds(request): return request.root.value >= 0", ["the invariant holds does not hold, it is False"]),
    ("def holds(root): return 1 / (root.value + 1) < 9", ["the invariant holds cannot be asked: ZeroDiv"]),
    ("def holds(thing): return True", ["the invariant holds asks for thing, and it can have root, session"]),
]


@pytest.mark.parametrize(("function", "said"), INVARIANTS)
def test_an_invariant_is_asked_after_each_request(site: Any, function: str, said: list[str]) -> None:
    whats = found(site(f"@invariant\n{function}\n"), "sequences")
    assert len(whats) == len(said)
    assert all(what.startswith(one) for what, one in zip(whats, said, strict=True)), whats


def test_an_invariant_is_asked_where_the_page_of_the_root_is_kept(site: Any) -> None:
    """A page that was kept is not traversed: the invariants could not be asked, and that was told as a finding."""
    ini = site("@invariant\ndef holds(root): return root.value >= -99\n")
    path, keep = Path(ini), "\n[filter:keep]\nuse = egg:wsgi-pipeline#keep\n"
    path.write_text(path.read_text().replace(" forms traverse", " forms keep traverse") + keep)
    [module] = path.parent.glob("promised_*.py")
    shown = '    return "<p>box'
    module.write_text(module.read_text().replace(shown, f"    request.keep = 60\n{shown}"))
    assert found(ini, "sequences", "links") == []


@pytest.mark.parametrize("judge", ["crash", "pairs"])
def test_an_invariant_is_asked_after_a_crash_and_after_both_ends_of_a_pair(site: Any, judge: str) -> None:
    whats = found(site("@invariant\ndef is_empty(root): return root.value == 0\n"), judge, view="put")
    assert "the invariant is_empty does not hold, it is False" in whats


OWNERS = [
    ("'ann'", "('ann',)", []),
    ("('ann', 'bob')", "('ann', 'bob')", []),
    ("None", "('ann',)", []),
    ("'ann'", "('ann', 'bob')", ["S1: bob changes what belongs to ann"]),
    ("'ann'", "('ann', 'prove-stranger')", ["S1: prove-stranger changes what belongs to ann"]),
    ("'ann'", "('ann', None)", ["S1: an anonymous visitor changes what belongs to ann"]),
    ("['bob']", "('ann', 'bob')", ["S1: ann changes what belongs to bob"]),
]


@pytest.mark.parametrize(("owner", "allowed", "said"), OWNERS)
def test_what_belongs_to_one_is_refused_to_all_others(site: Any, owner: str, allowed: str, said: list[str]) -> None:
    whats = found(site(owner=owner, allowed=allowed), "attack")
    assert [what for what in whats if "belongs" in what] == said


def test_a_finding_is_short_and_is_run_again_by_one_command(
    site: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    ini = site("@invariant\ndef is_odd(root): return root.value != 4\n")
    assert main(["prove", ini, "--users", "ann,bob", "--judge", "sequences"]) == 1
    said = capsys.readouterr().out
    printed = command_in(said)
    command = printed[-1]
    steps = command.split(" then ")
    assert {step.partition(" ")[2].partition("=")[0] for step in steps} == {"POST /@@put value"}
    assert main(printed) == 1
    *asked, said = capsys.readouterr().out.splitlines()[-len(steps) - 1 :]
    assert [line[7:] for line in asked] == steps and len(steps) < 4
    assert said == "found: the invariant is_odd does not hold, it is False"
    assert main([*printed[:-1], " then ".join(steps[:-1])]) == 0


def command_in(said: str, **environ: str) -> list[str]:
    """The words of the command that is printed with the first finding, as a shell reads them."""
    line = next(line for line in said.splitlines() if line.startswith("    pipeline prove "))
    shell = ["sh", "-c", f"set -- {line}; printf '%s\\0' \"$@\""]
    return subprocess.run(shell, env=environ, capture_output=True, text=True, check=True).stdout.split("\0")[1:-1]


LOGIN = "login=a; b='c'"
OF_A_USER = """
@view(context=Box, name="count", methods=("POST",))
def count(box: Box, request: Any) -> str:
    if request.principal != "ann" or request.headers.get("Cookie") != "login=a; b='c'":
        raise HTTPForbidden
    try:
        box.value += 1
        box.counter.value += 1
    except Exception:
        return "counted"
    if box.value == 2:
        raise ValueError
    return "counted"
"""


@pytest.mark.parametrize(("judge", "what"), [("faults", "R1: "), ("sequences", "it is answered 500")])
def test_what_is_printed_runs_a_finding_again_that_needs_a_login(
    judge: str, what: str, site: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["prove", site(OF_A_USER), "--user", "ann", "-H", f"Cookie: {LOGIN}"]
    assert main([*words, "--view", "count", "--judge", judge, "--seed", "8"]) == 1
    said = capsys.readouterr().out
    assert f"found: {what}" in said
    assert main(command_in(said, PROVE_COOKIE=LOGIN)) == 1
    assert f"found: {what}" in capsys.readouterr().out


@pytest.mark.parametrize("is_json", [False, True])
def test_a_secret_that_was_given_is_in_no_report__S25(
    is_json: bool, site: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command of a finding names variables of the shell in the place of the secrets, and can be pasted."""
    secret, junit = "7d1f'09$ac", tmp_path / "junit.xml"
    headers = [f"Cookie: {LOGIN}", f"Authorization: Bearer {secret}", "Accept-Language: de", f"X`id`: {secret}"]
    variables = [f"password={secret}", f"db=postgresql://ann:{secret}@localhost/x", "port=8080"]
    words = ["prove", site(OF_A_USER), *variables, "--user", "ann", "--view", "count", "--judge", "faults"]
    words += [word for header in headers for word in ("-H", header)]
    assert main([*words, *["--json"] * is_json, "--junit", str(junit)]) == 1
    printed = capsys.readouterr()
    told = printed.out + printed.err + junit.read_text()
    assert "R1: " in told
    assert [one for one in ("7d1f", "09$ac", "login=", "b='c'") if one in told] == []
    if not is_json:
        given = {"PROVE_COOKIE": LOGIN, "PROVE_AUTHORIZATION": f"Bearer {secret}", "PROVE_X_ID_": secret}
        given |= {"PROVE_PASSWORD": secret, "PROVE_DB": variables[1].removeprefix("db=")}
        again = command_in(told, **given)
        assert [one for one in (*headers, *variables) if one not in again] == []
        assert all(f" {name}" in printed.out.splitlines()[-1] for name in given)


WITHOUT_A_PLAN = """
SEEN = []

@view(context=Box, name="visit")
def visit(box: Box, request: Any, name: str = "") -> str:
    SEEN.append(name)
    box.value += 1
    return "<a href='@@gone'>x</a>"

@invariant
def is_small(root): return root.value < 2
"""


@pytest.mark.parametrize(
    ("judge", "what", "asked"),
    [
        ("attack", "a GET changes the database", "GET /@@visit"),
        ("links", "a link or a form of a page is answered 404", "GET /@@gone"),
        ("growth", "R13: ", "GET /"),
        ("crash", "the invariant is_small does not hold", "POST /@@put"),
        ("pairs", "the invariant is_small does not hold", "POST /@@put | POST /@@put"),
    ],
)
def test_what_is_printed_finds_it_again_without_a_plan(
    judge: str, what: str, asked: str, site: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    text = WITHOUT_A_PLAN.replace("< 2", "< 1") if judge == "crash" else WITHOUT_A_PLAN
    words = ["prove", site(text), "--user", "ann", "--view", "POST" if judge in ("crash", "pairs") else ""]
    assert main([*words, "--judge", judge]) == 1
    said = capsys.readouterr().out
    assert f"found: {what}" in said and f"    {asked}" in said
    again = command_in(said[said.index(f"found: {what}") :])
    assert main(again) == 1
    assert f"found: {what}" in capsys.readouterr().out


@pytest.mark.parametrize(
    "text",
    [
        "- GET /",
        "ann POST /1/@@note note=%C5%BE+%26 then - GET /?a=b",
        "ann PATCH /1 %7B%22a%22%3A%20%22%C5%BE%22%7D",
    ],
)
def test_a_sequence_is_written_as_it_is_read(text: str) -> None:
    assert is_sequence(text)
    assert written(steps_from(text)) == text


def test_a_secret_of_a_log_is_in_no_finding(site: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = site('@view(context=Box, name="fails")\ndef fails(box: Box, request: Any) -> str: raise KeyError\n')
    line = '{"method": "GET", "url": "/@@fails?password=hunter2", "status": 200, "user": null, "view": "x"}'
    (tmp_path / "access.json").write_text(line)
    assert main(["prove", ini, "--users", "ann,bob", "--log", str(tmp_path / "access.json")]) == 1
    printed = capsys.readouterr()
    assert "sequences: it is answered 500" not in printed.out and "hunter2" not in printed.out + printed.err
    assert "it is answered 500" in printed.out


def test_what_is_no_sequence_is_told() -> None:
    assert not is_sequence("POST /@@put error@view:enter")
    with pytest.raises(ConfigurationError, match="'ann GET' is not of the form USER METHOD URL"):
        steps_from("ann GET /1 then ann GET")


NOISE = [
    ("(1, 'ann', 'tok1')", "(1, 'ann', 'tok2')", "(1, 'ann', 'x')", True),
    ("(1, 'ann', 'tok1')", "(1, 'ann', 'tok2')", "(1, 'bob', 'x')", False),
    ("(1, 'ann', 'tok1')", "(1, 'ann', 'tok2')", "(1, 'ann')", False),
    ("(1, 0.52, 3)", "(1, 0.71, 3)", "(1, 0.1, 3)", True),
    ("(1, 0.52, 3)", "(1, 0.71, 3)", "(1, 0.1, 4)", False),
    ("(1, 'a')", "(1, 'a')", "(1, 'b')", False),
    ("(1, 'ann', 'tok1')", "(1, 'ann', 'tok2')", "(1, 'ann', ()", False),
]


@pytest.mark.parametrize(("first", "second", "third", "alike"), NOISE)
def test_only_what_differs_in_two_runs_is_noise(first: str, second: str, third: str, alike: bool) -> None:
    noise = Noise()
    noise.learn((("table", (first,)),), (("table", (second,)),))
    assert (noise.without((first,)) == noise.without((third,))) is alike


def test_the_time_for_noise_grows_with_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row has noise of its own. It is counted how often two rows are compared: the machine does not matter."""
    compared: list[object] = []

    def counting(*rows: Any, strict: bool) -> Any:
        compared.append(rows)
        return zip(*rows, strict=strict)

    monkeypatch.setattr("pipeline.proving.noise.zip", counting, raising=False)
    one, other, third = (tuple(f"({row}, 'ann', '{run}{row}')" for row in range(300)) for run in "abc")
    noise = Noise()
    noise.learn(one, other)
    assert noise.without(third) == noise.without(one) != third
    assert len(compared) <= 2 * 300


APPLICATION = '''
from pipeline.promises import invariant

class Current:
    """An object that a request alone has, as ``flask.request`` is."""
    __slots__ = ()
    def __getattr__(self, name):
        raise RuntimeError(f"{name} outside of a request")

current = Current()

@invariant
def holds(root):
    return "value" in root

def app(global_conf, **options):
    def app(environ, start_response):
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"mounted"]
    return app
'''


def test_an_invariant_beside_a_mounted_application_is_found_among_its_objects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    module = f"mounted_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{module}.py").write_text(APPLICATION)
    ini = ini_of(["retry", "zodb", "errors", "transaction"], module, zodb=f"uri = memory://{tmp_path.name}")
    ini = ini.partition("[app:")[0].replace("publisher", "mounted")
    (tmp_path / "site.ini").write_text(f"{ini}[app:mounted]\npaste.app_factory = {module}:app\n")
    assert found(str(tmp_path / "site.ini"), "sequences") == ["the invariant holds does not hold, it is False"]
    forks.close_all()
