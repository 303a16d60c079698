"""The jobs of ``.ci/run``: what must pass before a change is in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from lanes import Job, run

TOP = Path(__file__).resolve().parents[1]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wsgi-pipeline"
"""Kept between runs: uv, the Pythons of Debian, compiled servers. uv keeps packages in a cache of its own."""
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
TIMED += ("test_draining.py",)
"""The tests that load a server, and count what fails."""
CHANGEABLE = "tests/core tests/publishing tests/forms tests/testing tests/test_docs.py tests/test_safety.py"
"""The tests of what a version of Python or ``-O`` can change: annotations, assertions, tracebacks."""


def pythons() -> Iterator[tuple[str, str]]:
    """Yield one CPython for each version: of pyenv, or on the PATH."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for version in ("3.11", "3.12", "3.13"):
        for place in (*root.glob(f"versions/{version}.*/bin/python"), shutil.which(f"python{version}")):
            if place and subprocess.run([place, "-c", "import ensurepip"], capture_output=True).returncode == 0:
                yield version, str(place)
                break


def environment(venv: str, *stamps: str, python: str = "", by: str = "") -> str:
    """Return the command that makes an environment. One is made at a time, since each writes src/*.egg-info."""
    words = f"VENV={venv}{f' PYTHON={python}' if python else ''}"
    return f"flock {CACHE}/lock {by} make {words} {' '.join(f'{venv}/{stamp}.stamp' for stamp in stamps)}"


def jobs() -> Iterator[Job]:
    """Yield the jobs that may run side by side. A job that others wait for comes early."""
    make_uv = f"python3 -m venv --clear {CACHE}/tools\n{CACHE}/tools/bin/pip install -q uv"
    link = f"mkdir -p {UV.parent}\nln -sf {CACHE}/tools/bin/uv {UV}"
    yield Job("uv", f"if ! test -x {UV}; then {make_uv}\n{link}; fi")
    yield Job("programs", ".ci/programs", processors=0)
    yield Job(
        "environment",
        f"{environment('.venv', 'test', 'lint')}\n"
        f"flock {CACHE}/lock {UV} pip install -q --python .venv/bin/python -e '.[servers]'\n"
        f"{UV} pip install -q --python .venv/bin/python --no-deps axe-playwright-python",
        needs=["uv", "programs"],
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
    make = "from servers.demo_site import *; make_python(Path(os.environ['PIPELINE_SERVERS']))"
    yield Job(
        "environment-servers",
        f'cd tests\n../.venv/bin/python -c "{make}"',
        needs=["environment", "programs"],
    )
    # These wait for servers most of the time.
    ignored = " ".join(f"--ignore=tests/servers/{name}" for name in TIMED)
    yield Job(
        "servers",
        suite(".venv/bin/python", f"-n 3 --dist loadfile {ignored}", SERVERS),
        needs=["environment-servers", "toxiproxy"],
        processors=0.5,
    )
    yield Job("lint", "make lint", needs=["environment"])
    yield Job("docs", "make docs", needs=["environment-docs"])
    yield Job("ztk", "make test-ztk WORKERS=0", needs=["environment-ztk"])
    yield Job("zope", "make test-zope WORKERS=0", needs=["environment-zope"])
    lowest = ".venv-lowest/bin/python"
    yield Job(
        "environment-lowest",
        f"{UV} venv -q --clear --seed --python .venv/bin/python .venv-lowest\n"
        f".venv/bin/python .ci/lowest.py >.venv-lowest/constraints.txt\n"
        f"flock {CACHE}/lock {UV} pip install -q --python {lowest} -c .venv-lowest/constraints.txt "
        "-e '.[test,databases]'",
        needs=["environment"],
    )
    yield Job("3.11, lowest", suite(lowest), needs=["environment-lowest"])
    here = dict(pythons())
    commits = int(subprocess.check_output(["git", "rev-list", "--count", "HEAD"], cwd=TOP))
    for number, version in enumerate(("3.12", "3.13")):
        if version in here:
            tests = "" if RELEASE or commits % 2 == number else CHANGEABLE
            venv = f".venv-{version}"
            make = environment(venv, "test", python=here[version])
            yield Job(f"environment-{version}", make, needs=["environment"])
            yield Job(
                f"{version} -O{'' if not tests else ', a part'}",
                suite(f"{venv}/bin/python -O", tests, FURTHER),
                needs=[f"environment-{version}", "programs"],
            )
    for version in ("3.14", "3.15"):
        venv = f".venv-{version}"
        make = environment(venv, "test", "lint", python=f"python{version}", by=INSIDE)
        yield Job(f"environment-{version}", f"export UV_LINK_MODE=copy\n{make}", needs=["environment", "pythons"])
        command = f"{INSIDE} {suite(f'{venv}/bin/python', marks=FURTHER)}"
        yield Job(version, command, needs=[f"environment-{version}"])
    yield Job("lint on 3.14", f"{INSIDE} make lint VENV=.venv-3.14", needs=["environment-3.14"])
    browsers = "(browser or slow) and not (servers or faults)"
    yield Job("browsers", suite(".venv/bin/python", "", browsers), needs=["environment", "docs"])
    yield Job("examples", "make test-examples", needs=["environment"])
    yield Job("serve", ".ci/serve-a-clone", needs=["programs"])
    yield Job("environment-bench", environment(".venv-bench-ci", "bench-ci"), needs=["environment"])


def timed(others: Iterable[Job]) -> Iterator[Job]:
    """Yield the jobs in which time counts. Each runs when all others have ended."""
    before = [job.name for job in others]
    files = " ".join(f"tests/servers/{name}" for name in TIMED)
    command = suite(".venv/bin/python", f"-n 2 --dist loadfile {files}", SERVERS)  # half of it is waiting
    yield Job("servers under load", command, needs=["environment-servers"], after=before)
    yield Job("bench", "make bench-ci", needs=["environment-bench"], after=[*before, "servers under load"])


def memory(wanted: int = 8 * 2**30) -> str | None:
    """Return a file system in memory, if programs may run there and it has so many bytes left.

    On a disk the databases of the tests wait most of the time. No test depends on it: what a process has written
    stays when the process is killed.
    """
    place = Path("/dev/shm")
    may_run = place.is_dir() and not os.statvfs(place).f_flag & os.ST_NOEXEC
    return str(place) if may_run and shutil.disk_usage(place).free > wanted else None


def suite(python: str, arguments: str = "", marks: str = QUICK) -> str:
    return f"{python} -m pytest -q -p no:cacheprovider -m '{marks}' {arguments}"


if __name__ == "__main__":
    os.environ["PATH"] = f"{UV.parent}:{os.environ['PATH']}"
    os.environ["PIP"] = f"{UV} pip install --quiet --python $(VENV)/bin/python"  # for make
    found = list(jobs())
    with tempfile.TemporaryDirectory(prefix="ci-", dir=memory()) as directory:
        Path(directory).chmod(0o1777)  # the servers run as other users
        os.environ["PIPELINE_SERVERS"] = os.environ["TMPDIR"] = directory
        os.environ["PIPELINE_SERVERS_PYTHON"] = f"{directory}/servers-venv/bin/python"
        status = run([*found, *timed(found)], TOP / ".ci-logs")
    sys.exit(status)
