"""The site of README.rst runs as printed: in an empty directory, from a wheel with the extras that it names."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TOP = Path(__file__).resolve().parents[2]


def block(language: str) -> str:
    """The code of the first block in a language."""
    text = (TOP / "README.rst").read_text("utf-8")
    found = re.search(rf"^\.\. code-block:: {language}\n(?: +:.*\n)*((?:\n| +.*\n)+)", text, re.MULTILINE)
    assert found is not None, f"README.rst has no block of {language}"
    return textwrap.dedent(found[1]).strip() + "\n"


def test_it_fits_on_two_screens() -> None:
    assert len((TOP / "README.rst").read_text("utf-8").splitlines()) <= 120


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_site_of_the_readme(
    start: Callable[..., Any],
    get: Callable[..., Any],
    free_port: int,
    wheel: Path,
    tmp_path: Path,
) -> None:
    directory = tmp_path / "empty"
    directory.mkdir()
    made, install, new, show, serve = [line.split("#")[0].strip() for line in block("sh").splitlines()]
    assert "wsgi-pipeline[" in install and "http://127.0.0.1:8080/" in block("sh")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    for command in (
        made.replace("python3", sys.executable),
        install.replace("wsgi-pipeline[", f"{wheel}["),
        new,
        show.replace("pipeline show", "pipeline check"),
        show,
    ):
        subprocess.run(command, shell=True, check=True, cwd=directory, env=environ)
    server = start([*serve.split(), f"--port={free_port}"], free_port, cwd=directory, seconds=60)

    site = f"http://127.0.0.1:{free_port}/"
    assert get(site).status == 200, server.said()
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    added = get(f"{site}@@add", "POST", "title=Milk&text=Bread", **form)
    assert added.status == 303 and ">Bread</p>" in get(added.headers["Location"]).text
    assert '"GET / HTTP/1.1" 200 ' in server.said(), "it logs"
    assert (directory / "notes" / "var" / "Data.fs").exists()
