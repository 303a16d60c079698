"""``buildout.cfg`` makes the scripts, and what it made serves the ini."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TOP = Path(__file__).resolve().parents[2]
NOT_COPIED = shutil.ignore_patterns(
    ".*", "__pycache__", "*.egg-info", "bin", "build", "develop-eggs", "dist", "eggs", "parts", "var"
)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_buildout_serves_the_site(
    start: Callable[..., Any], get: Callable[..., Any], free_port: int, tmp_path: Path
) -> None:
    checkout = tmp_path / "checkout"
    shutil.copytree(TOP, checkout, ignore=NOT_COPIED)
    (checkout / "var").mkdir()
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    subprocess.run([venv / "bin" / "pip", "install", "--quiet", "zc.buildout==6.0.1"], check=True)
    subprocess.run([venv / "bin" / "buildout"], cwd=checkout, check=True)

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
