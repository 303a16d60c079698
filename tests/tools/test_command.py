"""The command as a program: help, version, exit status, completion, and colour."""

from __future__ import annotations

import os
import pty
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import hupper
import pytest

from pipeline.http import debug_key
from pipeline.loading import site as loading
from pipeline.tools import serve
from pipeline.tools.command import commands, main, summary
from tools.conftest import Site

TOP = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent


def run(*arguments: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a program as from a terminal that it does not see."""
    return subprocess.run(
        arguments, env=os.environ | environ, cwd=TOP, capture_output=True, text=True, timeout=60, check=False
    )


def test_the_module_is_the_command() -> None:
    """``python -m pipeline`` says the same as ``pipeline``."""
    module, program = run(sys.executable, "-m", "pipeline", "--help"), run(BIN / "pipeline", "--help")
    assert module.stdout == program.stdout != ""
    for text in (*commands(), "exit status: 0 done, 1 refused", "2 wrong usage", "register-python-argcomplete"):
        assert text in program.stdout


def test_the_version() -> None:
    said = run(sys.executable, "-m", "pipeline", "--version")
    assert (said.stdout, said.returncode) == (f"wsgi-pipeline {version('wsgi-pipeline')}\n", 0)


def test_the_exit_status(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    """0 done, 1 a mistake was found, 2 wrong usage; an error is one line on standard error."""

    def status(*arguments: str | Path) -> object:
        try:
            return main([str(argument) for argument in arguments])
        except SystemExit as exit:  # of argparse
            return exit.code

    assert status("check", site.ini) == 0
    assert status("explain", site.ini, "GET", "/nothing") == 1
    of_the_site = (("check", "word"), ("explain", "GET", "docs"), ("explain", "GET", "/", "word"))
    for wrong in ([], ["chek"], ["show"], ["show", "--no"], *([a, str(site.ini), *b] for a, *b in of_the_site)):
        assert status(*wrong) == 2, wrong
    capsys.readouterr()
    program = BIN / "pipeline"
    missing = run(program, "show", "no.ini")
    assert (missing.returncode, missing.stdout, missing.stderr.count("\n")) == (1, "", 1)
    assert missing.stderr.startswith("pipeline show: ") and "no.ini: No such file" in missing.stderr
    bare = run(program)
    assert (bare.returncode, bare.stdout, bare.stderr) == (2, "", run(program, "--help").stdout)


def test_a_mistake_of_ours_is_a_traceback_with_the_request_to_report_it(
    site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not taken for a mistake in the ini, whatever its class: in a command, a reload, and a trial."""
    monkeypatch.setattr("pipeline.telling.descriptions.sentence", [].index)  # ValueError
    assert main(["show", str(site.ini)]) == 1
    monkeypatch.setattr(debug_key, "_chosen", None)  # the test puts it back
    monkeypatch.setattr(hupper, "get_reloader", lambda: SimpleNamespace(watch_files=lambda files: None))
    monkeypatch.setattr(serve, "watched", {id: id}.__getitem__)  # KeyError, or TypeError
    monkeypatch.setattr("pipeline.serving.on_waitress.serve", lambda choice, listener, load: listener.close())
    with pytest.raises(SystemExit):
        serve.reloaded([str(site.ini)], socket.create_server(("127.0.0.1", 0)).detach(), "", False)
    monkeypatch.setattr(loading, "deployed", [].index)
    assert loading.try_out(str(site.ini), []) == 1  # type: ignore[arg-type]
    said = capsys.readouterr().err
    assert said.count("Traceback (most recent call last):") == said.count("Please report it, with all the") == 3


def test_a_mistake_of_the_user_is_one_line(
    site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also an error of the user's own code: it is not ours, so it is not to be reported to us."""
    site.code.write_text(site.code.read_text() + "\n{}[1]\n")
    assert main(["views", str(site.ini)]) == 1
    assert main(["element", "nonsense"]) == 1
    assert main(["show", str(site.directory / "none.ini")]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 3 and "report" not in said
    assert f"pipeline views: {site.code}, line {site.line('{}[1]')}: KeyError: 1\n" in said


@pytest.mark.parametrize("command", sorted(commands()))
def test_what_is_missing_is_named(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Variables of an ini are never required, so they are not among what is."""
    if command == "element":  # lists all elements
        return
    with pytest.raises(SystemExit) as ended:
        main([command])
    said = capsys.readouterr().err.splitlines()[-1]
    assert ended.value.code == 2
    assert "the following arguments are required: " in said
    assert "name=value" not in said


def test_every_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    """Those of the demo come from another package."""
    assert {"serve", "demo-user"} <= set(commands()) and all(map(summary, commands().values()))
    for command in commands():
        with pytest.raises(SystemExit) as exit:
            main([command, "--help"])
        assert exit.value.code == 0
        assert f"usage: pipeline {command} " in capsys.readouterr().out


def in_a_terminal(*arguments: str | Path, **environ: str) -> str:
    """What a program says on a terminal."""
    parent, child = pty.openpty()
    with subprocess.Popen(arguments, stdout=child, stderr=child, env=os.environ | environ) as process:
        os.close(child)
        said = b""
        try:
            while block := os.read(parent, 10_000):
                said += block
        except OSError:  # the other side is closed
            pass
        os.close(parent)
        assert process.wait() == 0
    return said.decode()


@pytest.mark.once
@pytest.mark.parametrize("arguments", [("show",), ("views",), ("explain", "GET", "/docs/")])
def test_colour_on_a_terminal_alone(
    site: Site, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    command = (BIN / "pipeline", arguments[0], site.ini, *arguments[1:])
    assert "\033[1m" in in_a_terminal(*command)
    assert "\033" not in in_a_terminal(*command, NO_COLOR="1")
    assert "\033" not in run(*command).stdout


# Completion, by argcomplete.


BASH = """
eval "$(register-python-argcomplete pipeline)"
COMP_LINE="$1" COMP_POINT=${#1} COMP_TYPE=9
_python_argcomplete pipeline
printf '%s\\n' "${COMPREPLY[@]}"
"""
ZSH = """
autoload -U compinit is-at-least && compinit -u -D
eval "$(register-python-argcomplete pipeline)"
_describe() { print -l -- "${completions[@]}" }
BUFFER="$1" CURSOR=${#1} words=(pipeline)
_python_argcomplete pipeline
"""


@pytest.fixture(params=["bash", "zsh"])
def completed(request: pytest.FixtureRequest, missing: Callable[[str, str], None]) -> Callable[[str], set[str]]:
    """``completed("pipeline sh")``: the words that the shell offers."""
    if shutil.which(request.param) is None:
        missing(request.param, f"apt install {request.param}")
    script = {"bash": BASH, "zsh": ZSH}[request.param]

    def completed(line: str) -> set[str]:
        path = f"{BIN}:{os.environ['PATH']}"
        flag = "-f" if request.param == "zsh" else "--norc"
        ran = run(request.param, flag, "-c", script, "completion", line, PATH=path, PYTHONWARNINGS="ignore")
        return {word.partition(":")[0].strip().replace("\\", "") for word in ran.stdout.splitlines()} - {""}

    return completed


@pytest.mark.once
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("pipeline sh", {"show", "shell"}),
        ("pipeline show --l", {"--long"}),
        ("pipeline show etc/dep", {"etc/deploy.ini"}),
        ("pipeline deploy ng", {"nginx"}),
    ],
)
def test_the_shell_completes_a_line(completed: Callable[[str], set[str]], line: str, words: set[str]) -> None:
    assert completed(line) == words


@pytest.mark.once
def test_the_shell_completes_the_command(completed: Callable[[str], set[str]]) -> None:
    assert completed("pipeline ") >= set(commands())


def test_a_broken_pipe_of_the_site_is_an_error(
    site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that has closed its connection is not the reader of what the command prints."""
    site.code.write_text(site.code.read_text() + "\nraise BrokenPipeError(32, 'Broken pipe')\n")
    assert main(["views", str(site.ini)]) == 1
    assert "BrokenPipeError" in capsys.readouterr().err


def test_a_command_that_its_reader_cuts_off_has_not_done_all(tmp_path: Path) -> None:
    """``pipeline new DIR | head -1`` writes a part of the site."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [BIN / "pipeline", "new", tmp_path / "cut-off"]
    environ = os.environ | {"PYTHONUNBUFFERED": "1"}
    done = subprocess.run(command, env=environ, stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")
