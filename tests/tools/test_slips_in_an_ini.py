"""Each line of an ini with a slip of the hand: ``pipeline check`` tells each, whichever section it stands in."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pipeline.__main__ import main

INI = (Path(__file__).parents[2] / "etc" / "deploy.ini").read_text("utf-8").replace("/../var/", "/var/")
LINES = INI.splitlines()
OPTIONS = [number for number, line in enumerate(LINES) if "=" in line and not line.startswith("#")]
SLIPS = {
    "a letter is missing": lambda name, value: f"{name[:-1]} = {value}",
    "a letter twice": lambda name, value: f"{name}{name[-1]} = {value}",
    "quotation marks": lambda name, value: f'{name} = "{value}"',
    "a comment": lambda name, value: f"{name} = {value} ; as in the other site",
}
FREE_TEXT = ("format",)
"""Options that may have any text."""


def told(lines: list[str], ini: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """Return the findings of check for an ini, without notes."""
    ini.write_text("\n".join(lines) + "\n", "utf-8")
    main(["check", "--json", str(ini)])
    return [one for one in json.loads(capsys.readouterr().out)["findings"] if one["level"] != "note"]


def findings(lines: list[str], ini: Path, capsys: pytest.CaptureFixture[str]) -> set[tuple[str, str]]:
    """Return level and text of each finding."""
    return {(one["level"], one["what"]) for one in told(lines, ini, capsys)}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in the directory of the ini: a path with a slip begins there."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_in_a_line_is_told(slip: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = tmp_path / "site.ini"
    before, silent = findings(LINES, ini, capsys), []
    for number in OPTIONS:
        line = LINES[number]
        indent = line[: len(line) - len(line.lstrip())]
        name, _, value = (part.strip() for part in line.partition("="))
        if (name in FREE_TEXT or not value) and "letter" not in slip:
            continue
        wrong = indent + SLIPS[slip](name, value)
        if findings([*LINES[:number], wrong, *LINES[number + 1 :]], ini, capsys) <= before:
            silent.append(f"line {number + 1}: {wrong}")
    assert not silent, "\n".join(silent)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("[server:main]", "[server:mian]"),
        ("[loggers]", "[logger]"),
        ("keys = stderr", "keys = stderr,"),
        ("handlers = stderr", "handlers = stderr,"),
        ("handlers = stderr", "#handlers = stderr"),
        ("threads = 8", "threads = 8\n  connection_limit = 5"),
        ("level = WARNING", "level = WARNING\n  propagate = 0"),
        ("asyncore_use_poll = true", "asyncore_use_poll = ture"),
        ("%(message)s", "%(message)"),
        ("style-src = 'self'", "style-src = 'self', 'none'"),
        ("style-src = 'self'", "style-src = 'self"),
    ],
)
def test_a_line_that_means_nothing_or_something_else_is_told(
    right: str, wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert right in INI
    before = findings(LINES, tmp_path / "site.ini", capsys)
    after = findings(INI.replace(right, wrong, 1).splitlines(), tmp_path / "site.ini", capsys)
    assert after - before


@pytest.mark.parametrize(
    ("line", "option"), [("get hosts = sites", "sitez"), ("get host = http_host", "http_hsot")]
)
def test_a_variable_that_is_not_there_has_its_line_and_the_nearest_name(
    line: str, option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = f"{line.partition('=')[0]}= {option}"
    number = LINES.index(line)
    found = told([*LINES[:number], wrong, *LINES[number + 1 :]], tmp_path / "site.ini", capsys)
    right = line.rpartition(" ")[2]
    said = f"there is no variable {option!r} in [DEFAULT]; did you mean {right!r}?"
    assert (number + 1, said) in [(one["line"], one["what"]) for one in found]


def test_what_is_said_of_a_value_has_no_password(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The value of an option that quotation marks or a comma belong to was shown as a whole (S25)."""
    ini = tmp_path / "site.ini"
    ini.write_text(
        "[pipeline:main]\npipeline = causal retry sql errors transaction authenticate traverse end\n"
        + "".join(
            f"[filter:{name}]\nuse = egg:wsgi-pipeline#{name}\n{options}"
            for name, options in {
                "causal": "keys = %(here)s/keys\n",
                "retry": "",
                "sql": 'url = "postgresql://u:sesame99@db/a"\n'
                "read_urls = postgresql://u:sesame99@db/a, postgresql://u:sesame99@db/b\n",
                "errors": "",
                "transaction": "",
                "authenticate": 'check = json:dumps\nlimits = "redis://:sesame99@db/0"\n',
                "traverse": "root = builtins:dict\n",
            }.items()
        )
        + "[app:end]\nuse = egg:wsgi-pipeline#publisher\nscan = json\n"
    )
    main(["check", str(ini)])
    said = capsys.readouterr().out
    for option in ("url: ", "read_urls: ", "limits: "):
        assert f"warning: {option}" in said
    assert "sesame99" not in said


@pytest.mark.parametrize("command", (["check"], ["show"], ["serve", "--no-reload"]))
@pytest.mark.parametrize("slip", ("sesame%99", "sesame%(there)s", "%(sesame"))
def test_a_percent_sign_in_a_password_is_told_without_the_password__S25(
    command: list[str], slip: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What ConfigParser says of an unknown %(name)s ends with the whole value."""
    ini = tmp_path / "site.ini"
    ini.write_text(INI.replace("zodb_uri = file://", f"zodb_uri = postgres://site:{slip}@db/"))
    main([*command, str(ini)])
    captured = capsys.readouterr()
    said = captured.out + captured.err
    assert "a percent sign in a value is written %%" in said
    assert "sesame" not in said and "@db" not in said


BROKEN = {
    "an option": ("zodb_uri = file://", "zodb_uri = postgres://site:sesame%(there)s@db/"),
    "an option, unfinished": ("zodb_uri = file://", "zodb_uri = postgres://site:%(sesame@db/"),
    "a handler": ("args = (", "args = ('postgres://site:sesame%(there)s@db/', "),
    "a line": ("[pipeline:main]", "[pipeline:main]\npostgres://site:sesame@db/"),
    "a line, in front": ("# The document site", "url = postgres://site:sesame@db/"),
}


@pytest.mark.parametrize("slip", BROKEN)
def test_a_server_that_loads_an_ini_logs_no_password_of_it__S25(slip: str, tmp_path: Path) -> None:
    """What ConfigParser says of an ini ends with the value, or with the line. A server writes it to its log."""
    assert BROKEN[slip][0] in INI
    ini = tmp_path / "site.ini"
    ini.write_text(INI.replace(*BROKEN[slip], 1))
    load = f"from pipeline.loading.site import application_of; application_of({str(ini)!r})"
    done = subprocess.run([sys.executable, "-c", load], capture_output=True, text=True, check=False)
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 1 and last.startswith("pipeline.") and str(ini) in last
    assert "sesame" not in done.stderr


@pytest.mark.parametrize(
    ("section", "is_told"),
    [("filtr:old", True), ("retry", True), ("piepline:other", True), ("alembic", False), ("program:x", False)],
)
def test_a_section_that_nothing_reads_is_told_unless_it_may_be_for_another_program(
    section: str, is_told: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = told([*LINES, f"[{section}]", "a = b"], tmp_path / "site.ini", capsys)
    lines = [one["line"] for one in found if one["what"] == f"no pipeline uses [{section}]"]
    assert lines == [len(LINES) + 1] * is_told


def test_a_number_that_no_port_has_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = told(INI.replace("http_port = 8080", "http_port = 80800").splitlines(), tmp_path / "site.ini", capsys)
    assert ("error", "80800 is not the number of a port") in [(one["level"], one["what"]) for one in found]


def test_what_paste_deploy_says_has_the_name_of_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ini = tmp_path / "site.ini"
    ini.write_text(INI.replace("use = egg:wsgi-pipeline#log\n", ""))
    assert main(["show", str(ini)]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert str(ini) in line and "section 'filter:log'" in line
