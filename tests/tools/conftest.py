"""A site in a directory of its own, and the command run on it as on a terminal."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from pipeline.tools.command import main
from small_sites import call, environ, module, publish

__all__ = ["Site", "call", "environ", "module", "publish", "run", "site"]

INI = """\
[pipeline:main]
pipeline = errors traverse publisher

[filter:errors]
use = egg:wsgi-pipeline#errors

[filter:traverse]
use = egg:wsgi-pipeline#traverse
root = MODULE:root

[app:publisher]
use = egg:wsgi-pipeline#publisher
scan = MODULE
"""

CODE = """\
from pipeline import redirect, view


class Folder(dict):
    __parent__ = None
    __name__ = None


class Page:
    pass


def root():
    return Folder(docs=Folder(), page=Page())


@view(context=Folder)
def index(context, request):
    return "index"


@view(context=Folder, name="edit", methods=("POST",))
def edit(context, request):
    return "edited"
"""

_numbers = count()


class Site:
    """An ini and a module beside it."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.directory = directory
        self.capsys = capsys
        self.module = f"site_of_mistakes_{next(_numbers)}"
        self.ini = directory / "site.ini"
        self.code = directory / f"{self.module}.py"
        self.write(INI, CODE)

    def write(self, ini: str, code: str) -> None:
        self.ini.write_text(ini.replace("MODULE", self.module).replace("HERE", str(self.directory)))
        self.code.write_text(code)

    def run(self, command: str, *arguments: str) -> tuple[int, str]:
        """The status of a command on the ini, and what it said, white space as single blanks."""
        status = main([command, str(self.ini), *arguments])
        captured = self.capsys.readouterr()
        return status, " ".join((captured.out + captured.err).split())

    def line(self, text: str, file: Path | None = None) -> int:
        """The number of the first line with a text."""
        lines = (file or self.code).read_text().splitlines()
        return next(number for number, line in enumerate(lines, 1) if text in line)


def how_loggers_are() -> dict[logging.Logger, tuple[list[logging.Handler], int, bool, bool]]:
    named = (one for one in logging.root.manager.loggerDict.values() if isinstance(one, logging.Logger))
    return {one: (one.handlers[:], one.level, one.propagate, one.disabled) for one in (logging.root, *named)}


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """A command sets up the logging of its ini, which would write to the closed streams of its test for ever."""
    before = how_loggers_are()
    yield
    for one in how_loggers_are():
        state = before.get(one, ([], logging.NOTSET, True, False))
        others = [each for each in one.handlers if type(each) is not logging.StreamHandler and each not in state[0]]
        one.handlers[:], one.level, one.propagate, one.disabled = state
        one.handlers += others  # that of the inspector is made once
    logging.root.manager._clear_cache()  # type: ignore[attr-defined]  # of what is enabled at the levels


@pytest.fixture
def site(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield Site(tmp_path, capsys)
    for name in [name for name in sys.modules if name.startswith("site_of_mistakes_")]:
        del sys.modules[name]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """``run("show", "etc/deploy.ini")``: the status of a command, and what it said."""

    def run(*arguments: str) -> tuple[int, str]:
        status = main(list(arguments))
        captured = capsys.readouterr()
        return status, captured.out + captured.err

    return run
