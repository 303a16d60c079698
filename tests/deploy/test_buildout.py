"""``buildout.cfg`` makes the scripts, and what it made serves the ini."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from environments import NOT_COPIED, make_environment

TOP = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_buildout_serves_the_site(
    start: Callable[..., Any], get: Callable[..., Any], free_port: int, tmp_path: Path
) -> None:
    checkout = tmp_path / "checkout"
    shutil.copytree(TOP, checkout, ignore=NOT_COPIED)
    (checkout / "var").mkdir(exist_ok=True)
    python = make_environment(tmp_path / "venv", "zc.buildout==6.0.1")
    kept = os.environ.get("PIPELINE_KEPT")  # the eggs of the last run: it takes those that are the newest
    eggs = [f"buildout:eggs-directory={kept}/eggs"] if kept else []
    subprocess.run([python.with_name("buildout"), *eggs], cwd=checkout, check=True)

    for script in ("pipeline", "pytest"):
        answer = subprocess.run(
            [checkout / "bin" / script, "--help"], capture_output=True, text=True, check=True
        )
        assert answer.stdout.startswith("usage:")
    start(
        [checkout / "bin" / "paster", "serve", "etc/deploy.ini", f"http_port={free_port}"],
        free_port,
        cwd=checkout,
    )
    assert get(f"http://127.0.0.1:{free_port}/").status == 200
    assert (checkout / "var" / "Data.fs").exists()
