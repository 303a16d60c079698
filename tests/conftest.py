"""What tests of every kind share: ports, processes, and saying what is missing.

Where ``PIPELINE_CI`` is 1, everything that the tests need is meant to be there, and what is
missing fails a test instead of skipping it.
"""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

import pytest
from _pytest._code import code

from environments import NOT_COPIED, make_wheel
from ports import unused_port
from processes import Process

if find_spec("hypothesis"):  # not every environment of the tests has it
    from hypothesis import settings

    settings.register_profile("pipeline", deadline=None)  # on a busy machine an example may take any time
    settings.load_profile("pipeline")

NOTHING_MISSING = os.environ.get("PIPELINE_CI") == "1"


def _missing(what: str, remedy: str) -> NoReturn:
    """Skip the test for want of `what`, saying how to get it; fail where nothing may be missing."""
    reason = f"{what} is missing: {remedy}"
    if NOTHING_MISSING:
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


LEFT_OUT = pytest.StashKey[Counter[str]]()
TOP = Path(__file__).resolve().parents[1]
KINDS = ("browser", "servers", "slow", "faults")
"""Marks of the tests that ``make test`` leaves out."""


def pytest_configure(config: pytest.Config) -> None:
    config.stash[LEFT_OUT] = Counter()
    keep_installed()
    read_again()
    gc.disable()  # until the tests are collected: they are kept anyway


@pytest.fixture(scope="session", autouse=True)
def debug_key_is_told() -> None:
    """A process tells the address with the key of debug mode once: before the first test, and not in its log."""
    from pipeline.http import debug_key

    debug_key.make()


def read_again() -> None:
    """Have pytest read the source of a failed test again, if Python 3.11 refuses it since a thread reads some, too.
    The whole run ended with an INTERNALERROR, and did not say which test had failed."""
    from pipeline.ini import parsed

    read = code.getstatementrange_ast
    code.getstatementrange_ast = lambda *given, **named: parsed(lambda last: read(*last, **named), given)


def keep_installed() -> None:
    """Let importlib.metadata read what is installed once, not for each database that is opened and each ini."""

    def keep(look: Callable[..., Any]) -> Callable[..., Any]:
        kept = cache(lambda path, given, wanted: look(*given, **dict(wanted)))
        return lambda *given, **wanted: kept(tuple(sys.path), given, tuple(wanted.items()))

    metadata.distribution, metadata.entry_points = keep(metadata.distribution), keep(metadata.entry_points)
    read = metadata.Distribution.entry_points.fget
    known: dict[str, Any] = {}

    def entry_points(self: Any) -> Any:
        place = str(self._path)
        if place not in known:  # by each, since many tests put a directory of their own on the path
            known[place] = read(self)
        return known[place]

    metadata.Distribution.entry_points = property(entry_points)


def pytest_collection_finish() -> None:
    """Take the tests themselves out of all garbage collections to come: they are a million objects."""
    if "hypothesis" in sys.modules:  # it looks for the holder of its generator, which is frozen afterwards
        from hypothesis.internal.entropy import deterministic_PRNG

        with deterministic_PRNG():
            pass
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Take what the tests of a file leave, such as imported modules, out of the collections of later files."""
    yield
    if nextitem is not None and nextitem.path != item.path:
        forget_databases()
        gc.collect()
        gc.freeze()


def forget_databases() -> None:
    """Close the databases that the tests of a file have left open: a child that is forked looks at each of them."""
    for name, kept in {"database.zodb_pools": "_pools", "database.sql_databases": "_databases"}.items():
        module = sys.modules.get(f"pipeline.{name}")
        if module is not None:
            module.close_all()
            getattr(module, kept).clear()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "faults" in item.path.parts:
            item.add_marker("faults")
        if wrong := set(KINDS).intersection(mark.name for mark in item.iter_markers()) - kinds_of(item.path):
            raise pytest.UsageError(f"{item.nodeid} has the mark {wrong}, which .ci/jobs.py looks for in its file")


@cache
def kinds_of(path: Path) -> set[str]:
    """Return the marks of KINDS that the tests of a file may have: those that its text names.

    In three directories a table that several files share may give them.
    """
    text = path.read_text("utf-8")
    shared = not {"servers", "faults", "proving"}.isdisjoint(path.parts)
    return {kind for kind in KINDS if shared or f"mark.{kind}" in text}


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    for item in items:
        kinds = [kind for kind in KINDS if item.get_closest_marker(kind)]
        item.config.stash[LEFT_OUT].update(kinds[-1:])


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):  # a worker of pytest-xdist
        session.config.workeroutput["left_out"] = dict(session.config.stash[LEFT_OUT])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Take over what a worker has left out; all of them leave out the same."""
    node.config.stash[LEFT_OUT] = Counter(getattr(node, "workeroutput", {}).get("left_out"))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if left_out := config.stash[LEFT_OUT]:
        counts = ", ".join(f"{count} {kind}" for kind, count in left_out.items())
        terminalreporter.write_line(f"Left out: {counts}. They run by: make test-all")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("slow") and not NOTHING_MISSING:
        pytest.skip("installs from the package index for a minute or more: make test-all runs it")


@pytest.fixture(scope="session")
def missing() -> Callable[[str, str], NoReturn]:
    """``missing("mod_wsgi", "apt install ...")`` skips the test, or fails it under PIPELINE_CI."""
    return _missing


@pytest.fixture(scope="session")
def need_packages() -> Callable[..., None]:
    """``need_packages("redis", "limits")`` skips the test, or fails it under PIPELINE_CI, if one is missing."""

    def need_packages(*names: str) -> None:
        for name in names:
            try:
                found = find_spec(name)
            except ModuleNotFoundError:  # of the package that it is in
                found = None
            if found is None:
                _missing(f"the package {name}", "pip install 'wsgi-pipeline[test]'")

    return need_packages


@pytest.fixture
def free_port() -> int:
    return unused_port()


@pytest.fixture(scope="session")
def program() -> Callable[[str, str], str]:
    """``program("apache2", "apt install apache2")``: its path, or the test is skipped."""

    def program(name: str, remedy: str) -> str:
        # /usr/sbin is on the PATH of root alone.
        path = shutil.which(name, path=os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin")
        return path or _missing(name, remedy)

    return program


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """``start(command, port, cwd=..., env=...)`` runs a server until the test ends, listening on `port`."""
    processes: list[Process] = []

    def start(command: list[str | Path], port: int, *, seconds: float = 30, **options: object) -> Process:
        process = Process(command, tmp_path / f"output-{len(processes)}.log", **options)  # type: ignore[arg-type]
        processes.append(process)
        process.wait_for_port(port, seconds)
        return process

    yield start
    for process in reversed(processes):
        process.stop()


@pytest.fixture
def browser(program: Callable[[str, str], str], tmp_path: Path) -> Iterator[Any]:
    from browsing import chromium  # not every environment of the tests has selenium

    with chromium(program, tmp_path / "profile") as browser:
        yield browser


@pytest.fixture
def faults(browser: Any, missing: Callable[[str, str], NoReturn]) -> Callable[[], list[str]]:
    """``faults()``: what axe-core finds on the page in the browser, and whether it is wider than the screen."""
    from browsing import look_for_faults, read_axe

    axe = read_axe(missing)
    judged: set[str] = set()
    return lambda: look_for_faults(browser, axe, judged)


@pytest.fixture(scope="session")
def wheel(public_dir: Path) -> Path:
    """The wheel of this checkout."""
    checkout = shutil.copytree(TOP, public_dir / "checkout", ignore=NOT_COPIED)
    return make_wheel(checkout, public_dir)


@pytest.fixture(scope="session")
def public_dir() -> Iterator[Path]:
    """A temporary directory that other users may read, as those of pytest may not."""
    path = Path(tempfile.mkdtemp(prefix="wsgi-pipeline-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)
