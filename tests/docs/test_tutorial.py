"""docs/tutorial.rst, followed as a new user does: in an empty directory, with a wheel, and not as root."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from docs.following import Block, Difference, Reader, alike, blocks, commands
from ports import unused_port
from servers.deployed import as_user, own

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "tutorial.rst").read_text("utf-8")
INSTALL = "pip install --quiet wsgi-pipeline"


@pytest.mark.slow
@pytest.mark.servers
@pytest.mark.timeout(600)
def test_the_tutorial(wheel: Path, public_dir: Path, missing: Callable[[str, str], NoReturn]) -> None:
    for program in ("curl", "nginx"):
        if not shutil.which(program, path="/usr/local/bin:/usr/bin:/bin:/usr/sbin"):
            missing(program, f"apt install {program}")
    home = public_dir / "tutorial"
    home.mkdir()
    port = unused_port()
    replaced = {
        INSTALL: INSTALL.replace("wsgi-pipeline", str(wheel)),
        "pipeline serve development.ini": f"pipeline serve development.ini --port {port}",
        "deploy nginx production.ini server": f"deploy nginx production.ini server --port {port}",
        "8080": str(port),
        "/home/ann": str(home / "ann"),
    }
    assert all(text in PAGE for text in replaced)
    (home / "ann").mkdir()
    reader = Reader(home / "ann", replaced, as_user)
    own(home)
    began = time.monotonic()
    try:
        reader.follow(PAGE)
    finally:
        reader.stop()
    print(f"The tutorial took a machine {time.monotonic() - began:.0f} s.")


def test_every_block_of_the_tutorial_is_used() -> None:
    """A file has a caption, and everything else is a command."""
    assert [
        block.line for block in blocks(PAGE) if block.language != "console" and "caption" not in block.options
    ] == []
    assert PAGE.count(".. code-block::") == len(list(blocks(PAGE)))
    assert "\n::\n" not in PAGE


# The reading itself.

SMALL = """\
.. code-block:: text
    :caption: a.txt

    one
    two

.. code-block:: diff
    :caption: a.txt

    -two
    +three

.. code-block:: text
    :caption: more of a.txt

    four

.. code-block:: console

    $ cat a.txt
    one
    three


    four
    $ echo Took 0.25s \\
        and more
    Took 9.99s and more
"""


def test_a_page_is_followed(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    Reader(tmp_path / "here", {}).follow(SMALL)


def test_an_output_that_differs_is_found(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    with pytest.raises(Difference, match=r"line 20: cat a\.txt"):
        Reader(tmp_path / "here", {}).follow(SMALL.replace("four\n    $", "five\n    $"))


def test_what_a_command_has_written_is_shown_if_its_output_differs(tmp_path: Path) -> None:
    page = ".. code-block:: console\n\n    $ echo the reason > why.txt; false && head -1 why.txt\n    something\n"
    with pytest.raises(Difference, match=r"why\.txt has\nthe reason"):
        Reader(tmp_path, {}).follow(page)


def test_a_change_of_a_line_that_is_not_there_is_found(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    with pytest.raises(AssertionError, match=r"line 10: a\.txt has 0 times"):
        Reader(tmp_path / "here", {}).follow(SMALL.replace("-two", "-ten"))


def test_commands_have_their_lines() -> None:
    block = Block(10, "console", {}, "$ one\nits output\n$ two \\\n  more\n")
    assert [tuple(command) for command in commands(block)] == [
        (10, "one", "its output\n"),
        (12, "two \\\n  more", ""),
    ]


def test_dates_and_durations_are_alike() -> None:
    assert alike("3 passed in 0.12s \n") == alike("3 passed in 4.5s")
    assert alike("3 passed in 0.12s") != alike("2 passed in 0.12s")
