"""Every snippet of README.rst and docs/ is executed.

Python blocks (``.. code-block:: python``) of one file run in order, as one module whose ``__name__`` can
be scanned. A block whose ``:name:`` has a slash is a file that they use. An ini block with a ``:name:`` is a
file of that name, loaded as ``etc/pipeline.wsgi`` loads one; of an ini without a name, each section is loaded
that can be by itself. A comment behind a block, ``.. not run: why`` or ``.. not loaded: why``, takes it out.
"""

from __future__ import annotations

import logging
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest
from paste.deploy import loadapp, loadfilter

from pipeline.database import forks
from pipeline.paste import load

TOP = Path(__file__).resolve().parent.parent

_BLOCK = re.compile(
    r"""
    ^(?P<indent>[ ]*)\.\.[ ]code-block::[ ]*(?P<language>\S+)[ ]*\n
    (?P<options>(?:(?P=indent)[ ]+:[^\n]*\n)*)
    (?P<code>(?:[ ]*\n|(?P=indent)[ ]+[^\n]*(?:\n|\Z))*)
    (?:(?P=indent)\.\.[ ]not[ ](?:run|loaded):[ ]*(?P<excuse>\S[^\n]*))?
    """,
    re.MULTILINE | re.VERBOSE,
)


class Block(NamedTuple):
    """A code block of a document."""

    path: Path
    language: str
    line: int
    """The line of the file on which its code begins."""
    name: str
    code: str
    excuse: str | None


def documents() -> list[Path]:
    found = [TOP / "README.rst", *sorted((TOP / "docs").rglob("*.rst"))]
    # tests/docs follows the tutorial, whose files change from step to step.
    return [path for path in found if "_build" not in path.parts and path.name != "tutorial.rst"]


def blocks(path: Path, language: str) -> Iterator[Block]:
    text = path.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        if found["language"] == language:
            name = re.search(r":name:\s*(\S+)", found["options"])
            line = text.count("\n", 0, found.start("code")) + 1
            code = textwrap.dedent(found["code"])
            yield Block(path, language, line, name[1] if name else "", code, found["excuse"])


def shown(path: Path) -> str:
    return str(path.relative_to(TOP))


@pytest.fixture
def module(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    """A new module that can be imported, and so scanned."""
    name = re.sub(r"\W", "_", f"snippets of {request.node.name}")
    sys.modules[name] = module = ModuleType(name)
    yield module
    del sys.modules[name]


def run(block: Block, module: ModuleType) -> None:
    """Execute a block; a traceback says the line of the document."""
    code = "\n" * (block.line - 1) + block.code
    # Not optimised: under `python -O` too, what a snippet asserts is true.
    exec(compile(code, block.path, "exec", dont_inherit=True, optimize=0), vars(module))


@pytest.fixture
def log_as_before() -> Iterator[None]:
    """What a page does to the log of the pipeline ends with the page."""
    logger = logging.getLogger("pipeline")
    handlers, level = logger.handlers[:], logger.level
    yield
    logger.handlers[:] = handlers
    logger.setLevel(level)


@pytest.fixture
def closed() -> Iterator[None]:
    """A database with a relative path is closed in the directory that it was opened in."""
    yield
    forks.close_all()


@pytest.mark.usefixtures("log_as_before")
@pytest.mark.filterwarnings("ignore:'cgi' is deprecated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:Module globals is missing a __spec__.loader:DeprecationWarning")
@pytest.mark.parametrize("path", [path for path in documents() if list(blocks(path, "python"))], ids=shown)
def test_python(
    path: Path, module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closed: None
) -> None:
    for package in re.findall(r"^\.\. needs: (\w+)$", path.read_text(encoding="utf-8"), re.MULTILINE):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for block in (*blocks(path, "python"), *blocks(path, "html+jinja")):
        if "/" in block.name:  # a file of a package, and no code to run here
            (tmp_path / block.name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / block.name).write_text(block.code, encoding="utf-8")
    for block in blocks(path, "python"):
        if block.excuse is None and "/" not in block.name:
            run(block, module)


@pytest.mark.parametrize("path", [path for path in documents() if list(blocks(path, "ini"))], ids=shown)
def test_inis(path: Path, module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    inis = list(blocks(path, "ini"))
    for block in inis:  # all of them first: one may use another
        file = tmp_path / (block.name or f"line_{block.line}.ini")
        file.parent.mkdir(exist_ok=True)
        file.write_text(block.code, encoding="utf-8")
    for block in inis:
        if block.excuse is None:
            try:
                if block.name:
                    load(f"config:{tmp_path / block.name}")
                else:
                    load_sections(tmp_path / f"line_{block.line}.ini")
            except Exception as error:
                error.add_note(f"{shown(path)}, the ini on line {block.line}")
                raise


def load_sections(file: Path) -> None:
    """Load what stands in an ini by itself: its filters and apps, with their options."""
    sections = re.findall(r"^\[(filter|app):([^]]+)\]", file.read_text(encoding="utf-8"), re.MULTILINE)
    assert sections, (
        f"{file.read_text()!r} has nothing that can be loaded; say '.. not loaded: why' behind it"
    )
    for kind, name in sections:
        (loadfilter if kind == "filter" else loadapp)(f"config:{file}", name)


def test_the_readme_is_there() -> None:
    """And shows an own element, which `test_python` executes."""
    code = "".join(block.code for block in blocks(TOP / "README.rst", "python"))
    assert "@element" in code and "next(request, response)" in code


def test_the_index_of_the_how_to_pages_says_what_each_is_for() -> None:
    text = (TOP / "docs" / "howto" / "index.rst").read_text("utf-8")
    pages = sorted(path.stem for path in (TOP / "docs" / "howto").glob("*.rst") if path.stem != "index")
    assert sorted(re.findall(r"^    ([\w-]+)$", text, re.MULTILINE)) == pages
    assert sorted(re.findall(r"^\* :doc:`([\w-]+)`: .+", text, re.MULTILINE)) == pages


# The reading of documents itself.

DOCUMENT = """\
Title
=====

.. code-block:: python

    first = 1

    second = [
        first]

Text.

.. code-block:: ini
    :name: site.ini

    [a]
    b = c

.. not loaded: there is no b

* An item:

  .. code-block:: python

      third = 3
  .. not run: indeed

.. code-block:: text

    no code

.. code-block:: python
"""


def test_blocks_are_found(tmp_path: Path) -> None:
    path = tmp_path / "x.rst"
    path.write_text(DOCUMENT)
    found = [(block.line, block.code.strip("\n"), block.excuse) for block in blocks(path, "python")]
    assert found == [
        (5, "first = 1\n\nsecond = [\n    first]", None),
        (24, "third = 3", "indeed"),
        (33, "", None),
    ]
    [ini] = blocks(path, "ini")
    assert (ini.name, ini.excuse) == ("site.ini", "there is no b")


def test_what_a_snippet_asserts_is_checked(tmp_path: Path, module: ModuleType) -> None:
    path = tmp_path / "x.rst"
    path.write_text(".. code-block:: python\n\n    assert 1 == 2\n")
    with pytest.raises(AssertionError):
        run(next(blocks(path, "python")), module)


def test_a_failing_block_says_its_line(tmp_path: Path, module: ModuleType) -> None:
    path = tmp_path / "x.rst"
    path.write_text("Text\n\n.. code-block:: python\n\n    fine = 1\n    1 / 0\n")
    with pytest.raises(ZeroDivisionError) as failed:
        run(next(blocks(path, "python")), module)
    assert failed.traceback[-1].lineno + 1 == 6 and str(failed.traceback[-1].path) == str(path)


PASSED_ON = re.compile(r"^\W*(?:proxy_set_header|\w+_param)\s.*\$\{?http_host\b.*", re.MULTILINE)
"""A line of nginx that gives the site the header Host."""


def test_no_line_for_nginx_passes_on_the_header_host() -> None:
    """S10: the site gets the host that nginx has read. A request line may name another one than Host."""
    found = ["    proxy_set_header Host $http_host;", "uwsgi_param HTTP_HOST ${http_host} if_not_empty;"]
    assert [line for line in found if not PASSED_ON.search(line)] == []
    files = [path for name in ("docs", "etc", "examples", "src") for path in (TOP / name).rglob("*.*")]
    kinds = (".rst", ".ini", ".conf", ".md", ".py", ".txt")
    texts = [TOP / "README.rst", *(path for path in files if path.suffix in kinds and path.is_file())]
    assert len(texts) > 200
    assert [(shown(path), line) for path in texts for line in PASSED_ON.findall(path.read_text("utf-8"))] == []


def test_the_tests_that_pages_name_are_there() -> None:
    named = {name for path in documents() for name in re.findall(r"``(tests/\S+?\.py)``", path.read_text("utf-8"))}
    assert len(named) > 40
    named.remove("tests/test_site.py")  # of a site that is made by a command
    assert [name for name in sorted(named) if not (TOP / name).exists()] == []
