"""No line is lost or stays in the old file when logrotate renames the files of a site, by the lines of the page."""

from __future__ import annotations

import logging
import logging.handlers
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from webob import Request

from pipeline.elements.log import log

pytestmark = pytest.mark.servers
PAGE = Path(__file__).parents[2] / "docs" / "howto" / "deploy.rst"


def lines_of_the_page(directory: Path) -> str:
    block = PAGE.read_text().partition("    /srv/notes/log/*.log {")[2].partition("    }")[0]
    assert "delaycompress" in block
    return f"{directory}/*.log {{{block}}}\n"


def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"answered"]


def test_every_line_is_kept(program: Callable[[str, str], str], tmp_path: Path) -> None:
    logrotate = program("logrotate", "apt install logrotate")
    directory = tmp_path / "log"
    directory.mkdir(mode=0o700)
    (tmp_path / "rules").write_text(lines_of_the_page(directory))
    (tmp_path / "rules").chmod(0o600)
    access = log(file=str(directory / "access.log"))(application)
    handlers = {
        "watched": logging.handlers.WatchedFileHandler(directory / "watched.log"),
        "plain": logging.FileHandler(directory / "plain.log"),
    }

    for file in directory.iterdir():
        file.chmod(0o640)

    def write(word: str) -> None:
        Request.blank(f"/{word}").get_response(access)
        for handler in handlers.values():
            handler.emit(logging.makeLogRecord({"msg": word}))

    def rotate() -> None:
        command = [logrotate, "--force", "--state", str(tmp_path / "state"), str(tmp_path / "rules")]
        subprocess.run(command, check=True, capture_output=True)

    try:
        for number in range(3):
            write(f"a{number}")
            rotate()
            write(f"b{number}")
            time.sleep(1.1)
            write(f"c{number}")
    finally:
        for handler in handlers.values():
            handler.close()
    rotate()
    for name in ("access", "watched"):
        packed = sorted(directory.glob(f"{name}.log.*"), reverse=True)
        text = "".join(subprocess.check_output(["zcat", "-f", str(file)], text=True) for file in packed)
        assert [text.count(f"{letter}{number}") for letter in "abc" for number in range(3)] == [1] * 9, name
        assert (
            "c2" in (directory / f"{name}.log.1").read_text()
            and "c1" not in (directory / f"{name}.log.1").read_text()
        )
    assert (directory / "plain.log").read_text() == "", "FileHandler writes on into the old file: the control"
    assert {file.stat().st_mode & 0o777 for file in directory.iterdir()} == {0o640}  # S26
