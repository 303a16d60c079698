"""The jobs of ``.ci/run``: what must pass before a change is in."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from lanes import Job, run

TOP = Path(__file__).resolve().parents[1]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wsgi-pipeline"
"""Kept between runs: uv, Pythons of Debian, compiled servers, packages of the servers' environment, and in
"kept" the eggs of the buildout and the results of plain Zope. uv keeps packages in a cache of its own."""
UV = CACHE / "bin" / "uv"
"""In a directory of its own, which is put on the PATH: tests make environments by it."""
ROOT = CACHE / "pythons" / "root"
"""This file names the directory that has the Pythons of Debian."""
INSIDE = f'.ci/pythons --in "$(cat {ROOT})"'
QUICK = "not browser and not servers and not slow and not faults"
SERVERS = "servers or faults"
RELEASE = os.environ.get("PIPELINE_CI_ALL") == "1"
FURTHER = QUICK if RELEASE else f"{QUICK} and not once"
"""The quick tests on every Python but 3.11: without those that one Python runs for all."""
TIMED = ("test_matrix.py", "test_restarts.py", "test_slow_clients.py", "test_throughput.py", "test_add_instance.py")
TIMED += ("test_draining.py", "test_reload.py")
"""The tests that load a server, and count what fails."""
FORKING = ("tests/database", "tests/proving")
"""Tests that fork often, which costs two to four times as much in a process that has collected all tests."""
WHOLE = ("servers", "faults", "proving")
"""Directories of tests in which tables that files share give the marks."""
ELSEWHERE = ("ztk", "zope_sites", "plone_sites", "adopted_sites")
"""Directories of tests that have an environment of their own."""
CHANGEABLE = "tests/core tests/publishing tests/forms tests/testing tests/test_docs.py tests/test_safety.py"
"""The tests of what a version of Python or ``-O`` can change: annotations, assertions, tracebacks."""


def pythons() -> Iterator[tuple[str, str]]:
    """Yield the CPython of each version that is installed: one of pyenv, or on the PATH."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for version in ("3.12", "3.13"):
        for place in (*root.glob(f"versions/{version}.*/bin/python"), shutil.which(f"python{version}")):
            if place and subprocess.run([place, "-c", "import ensurepip"], capture_output=True).returncode == 0:
                yield version, str(place)
                break


@cache
def turn() -> int:
    """Return the number of this commit, by which several take turns."""
    return int(subprocess.check_output(["git", "rev-list", "--count", "HEAD"], cwd=TOP))


def environment(venv: str, *stamps: str, python: str = "", by: str = "") -> str:
    """Return the command that makes an environment. One is made at a time, since each writes src/*.egg-info."""
    words = f"VENV={venv}{f' PYTHON={python}' if python else ''}"
    return f"flock {CACHE}/lock {by} make {words} {' '.join(f'{venv}/{stamp}.stamp' for stamp in stamps)}"


def jobs() -> Iterator[Job]:
    """Yield the jobs that may run side by side. One that others wait for, and a long one, comes early."""
    make_uv = f"python3 -m venv --clear {CACHE}/tools\n{CACHE}/tools/bin/pip install -q uv"
    link = f"mkdir -p {UV.parent}\nln -sf {CACHE}/tools/bin/uv {UV}"
    yield Job("uv", f"if ! test -x {UV}; then {make_uv}\n{link}; fi")
    yield Job(
        "environment",
        f"{environment('.venv', 'test', 'lint')}\n"
        f"flock {CACHE}/lock {UV} pip install -q --python .venv/bin/python -e '.[servers]'\n"
        f"{UV} pip install -q --python .venv/bin/python --no-deps axe-playwright-python",
        needs=["uv"],
    )
    yield Job(
        "toxiproxy",
        "cd tests\n../.venv/bin/python -c 'from servers import toxiproxy; toxiproxy.program()'",
        needs=["environment"],
    )
    not_tried = "" if os.environ.get("PIPELINE_SID") == "required" else "3.14, 3.15: not tried"
    unpack = f"mkdir -p {CACHE}/pythons\n.ci/pythons {CACHE}/pythons >{ROOT}"
    yield Job("pythons", unpack, processors=0, may_fail=not_tried)
    yield Job("environment-docs", environment(".venv-docs", "docs"), needs=["environment"])
    yield Job("environment-ztk", environment(".venv-ztk", "ztk"), needs=["environment"])
    yield Job("environment-zope", environment(".venv-zope", "zope"), needs=["environment"])
    make = "from servers.demo_site import *; make_python(Path(os.environ['PIPELINE_SERVERS'])"
    make += f", kept=Path('{CACHE}/servers'))"
    yield Job(
        "environment-servers",
        f'cd tests\nflock {CACHE}/lock-servers ../.venv/bin/python -c "{make}"',
        needs=["environment"],
    )
    # These wait for servers most of the time.
    timed = " ".join(f"tests/servers/{name}" for name in TIMED)
    ignored = timed.replace("tests/", "--ignore=tests/")
    yield Job(
        "servers",
        suite(".venv/bin/python", f"-n 3 --dist loadfile {ignored} {files_with('servers', 'faults')}", SERVERS),
        needs=["environment-servers", "toxiproxy"],
        processors=0.5,
    )
    yield Job("docs", "make docs", needs=["environment-docs"])
    browsers = "(browser or slow) and not (servers or faults)"
    yield Job(
        "browsers",
        suite(".venv/bin/python", files_with("browser", "slow"), browsers),
        needs=["environment", "docs"],
        processors=0.5,
    )
    yield Job(
        "servers under load",
        suite(".venv/bin/python", f"-n 2 --dist loadfile {timed}", SERVERS),  # half of it is waiting
        needs=["environment-servers"],
        after=["servers", "browsers"],  # it bears one other job
    )
    lowest = ".venv-lowest/bin/python"
    yield Job(
        "environment-lowest",
        f"{UV} venv -q --clear --seed --python .venv/bin/python .venv-lowest\n"
        f".venv/bin/python .ci/lowest.py >.venv-lowest/constraints.txt\n"
        f"flock {CACHE}/lock {UV} pip install -q --python {lowest} -c .venv-lowest/constraints.txt "
        "-e '.[test,databases]' -e examples/demo",
        needs=["environment"],
    )
    yield Job("3.11, lowest", quick(lowest, QUICK), needs=["environment-lowest"])
    yield Job("ztk", "make test-ztk WORKERS=0", needs=["environment-ztk"])
    yield Job("environment-bench", environment(".venv-bench-ci", "bench-ci"), needs=["environment"])
    yield Job("bench", "make bench-ci", needs=["environment-bench"])  # the least of many short rounds
    here = dict(pythons())
    for number, version in enumerate(("3.12", "3.13")):
        if version not in here:
            missing = f"echo Python {version} is not installed\nexit 1"
            yield Job(f"{version} -O", missing, may_fail="" if RELEASE else f"{version}: not tried")
            continue
        tests = "" if RELEASE or turn() % 2 == number else CHANGEABLE
        venv = f".venv-{version}"
        python = f"{venv}/bin/python -O"
        yield Job(f"environment-{version}", environment(venv, "test", python=here[version]), needs=["environment"])
        yield Job(
            f"{version} -O{'' if not tests else ', a part'}",
            quick(python, FURTHER) if not tests else suite(python, tests, FURTHER),
            needs=[f"environment-{version}"],
        )
    for version in ("3.14", "3.15"):
        venv = f".venv-{version}"
        make = environment(venv, "test", "lint", python=f"python{version}", by=INSIDE)
        yield Job(f"environment-{version}", f"export UV_LINK_MODE=copy\n{make}", needs=["environment", "pythons"])
        yield Job(version, quick(f"{INSIDE} {venv}/bin/python", FURTHER), needs=[f"environment-{version}"])
    yield Job("lint on 3.14", f"{INSIDE} make lint VENV=.venv-3.14", needs=["environment-3.14"])
    yield Job("lint", "make lint", needs=["environment"])
    yield Job("zope", "make test-zope WORKERS=0", needs=["environment-zope"])
    yield Job("examples", "make test-examples", needs=["environment"])
    yield Job("serve", ".ci/serve-a-clone")


def memory(wanted: int = 8 * 2**30) -> str | None:
    """Return a file system in memory, if programs may run there and it has so many bytes left.

    On a disk the databases of the tests wait most of the time. No test depends on it: what a process has written
    stays when the process is killed.
    """
    place = Path("/dev/shm")
    may_run = place.is_dir() and not os.statvfs(place).f_flag & os.ST_NOEXEC
    return str(place) if may_run and shutil.disk_usage(place).free > wanted else None


def files_with(*marks: str) -> str:
    """Return the directories and files of the tests that may have one of the marks.

    To collect all tests takes a process 6 s. tests/conftest.py refuses a mark that is not found here.
    """
    text = re.compile(rf"mark\.({'|'.join(marks)})\b")
    tests = (path for path in sorted(TOP.glob("tests/**/test_*.py")) if text.search(path.read_text("utf-8")))
    others = (str(path.relative_to(TOP)) for path in tests if {*WHOLE, *ELSEWHERE}.isdisjoint(path.parts))
    return " ".join([*(f"tests/{name}" for name in WHOLE), *others])


def quick(python: str, marks: str) -> str:
    """Return the command for the tests that need no server, in two processes."""
    others = " ".join(f"--ignore={directory}" for directory in FORKING)
    runs = (suite(python, arguments, marks) for arguments in (" ".join(FORKING), others))
    return "\n".join(["failed=0", *(f"{run} || failed=1" for run in runs), "exit $failed"])


def suite(python: str, arguments: str, marks: str) -> str:
    """Return the command for tests, which knows those that failed in its last run, and shows where one hangs."""
    cache = f".ci-logs/failed/{hashlib.sha256(f'{python} {arguments}'.encode()).hexdigest()[:16]}"
    options = f"-q --durations=20 --durations-min=3 -o faulthandler_timeout=600 -o cache_dir={cache}"
    return f"{{ {python} -m pytest {options} -m '{marks}' {arguments} $AGAIN || test $? = \"$NONE\"; }}"


if __name__ == "__main__":
    os.environ["PATH"] = f"{UV.parent}:{os.environ['PATH']}"
    os.environ["PIP"] = f"{UV} pip install --quiet --python $(VENV)/bin/python"  # for make
    with tempfile.TemporaryDirectory(prefix="ci-", dir=memory()) as directory:
        Path(directory).chmod(0o1777)  # the servers run as other users
        os.environ["PIPELINE_SERVERS"] = os.environ["TMPDIR"] = directory
        if not RELEASE:
            os.environ["PIPELINE_KEPT"] = str(CACHE / "kept")
            os.environ["PIPELINE_TURN"] = str(turn())
        os.environ["PIPELINE_SERVERS_PYTHON"] = f"{directory}/servers-venv/bin/python"
        status = run(list(jobs()), TOP / ".ci-logs")
    sys.exit(status)
