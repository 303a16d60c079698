"""Every target of fuzz/ can be imported and holds for the inputs that it begins with, also without atheris."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parent.parent
TARGETS = sorted({path.stem for path in (TOP / "fuzz").glob("*.py")} - {"__init__", "target"})
ATHERIS = '''\
"""In the place of atheris: the inputs that a target begins with, and an empty one."""
import contextlib, pathlib

def instrument_imports(include=()):
    return contextlib.nullcontext()

def Setup(arguments, judge):
    global inputs, judged
    inputs = [b"", *(path.read_bytes() for path in sorted(pathlib.Path(arguments[-1]).iterdir()))]
    judged = judge

def Fuzz():
    print(len(inputs))
    for data in inputs:
        judged(data)
'''
RUN = '''\
"""Run each target as `python -m fuzz.NAME` does, and print what it says."""
import contextlib, io, json, runpy, sys, traceback
for name in sys.argv[1:]:
    sys.argv[:] = [f"{name}.py"]
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            runpy.run_module(f"fuzz.{name}", run_name="__main__", alter_sys=True)
        print(json.dumps([name, said.getvalue().strip()]), flush=True)
    except BaseException:
        print(json.dumps([name, traceback.format_exc()]), flush=True)
'''


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each target has printed: the number of its inputs, or a traceback."""
    directory = tmp_path_factory.mktemp("fuzz")
    shutil.copytree(TOP / "fuzz", directory / "fuzz", ignore=shutil.ignore_patterns("__pycache__"))
    (directory / "atheris.py").write_text(ATHERIS)
    (directory / "run.py").write_text(RUN)
    done = subprocess.run(
        [sys.executable, "run.py", *TARGETS],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(directory)},
        capture_output=True,
        text=True,
        timeout=100,
    )
    return dict(json.loads(line) for line in done.stdout.splitlines())


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_holds_for_its_first_inputs(target: str, said: dict[str, str]) -> None:
    assert said[target].isdecimal() and int(said[target]) > 1, said[target]
