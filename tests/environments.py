"""Environments and wheels that tests make: by uv where it is found, in a tenth of the time, else by pip."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

UV = shutil.which("uv")
NOT_COPIED = shutil.ignore_patterns(
    *(".git", ".venv*", ".*_cache", ".hypothesis", ".ci-logs", "__pycache__", "*.egg-info", "_build"),
    *("build", "dist", "develop-eggs", "eggs", "parts", "Data.fs*", "blobs*"),
)
"""What tools leave in a checkout. Others may write it while a test copies the rest."""


def make_environment(path: Path, *packages: str, python: str = sys.executable, options: Sequence[str] = ()) -> Path:
    """Return the Python of a new environment in which the packages are installed. The options are those of uv."""
    if UV is not None:
        run(UV, "venv", "--quiet", "--seed", "--python", python, *options, path)
    else:
        run(python, "-m", "venv", path)
    found = path / "bin" / "python"
    install(found, *packages)
    return found


def install(python: Path, *packages: str) -> None:
    """Install packages in an environment."""
    if not packages:
        return
    if UV is not None:
        run(UV, "pip", "install", "--quiet", "--compile-bytecode", "--python", python, *packages)
    else:
        run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages)


def make_wheel(checkout: Path, directory: Path) -> Path:
    """Return the wheel of a checkout, built in that directory."""
    if UV is not None:
        run(UV, "build", "--quiet", "--wheel", "--out-dir", directory, checkout)
    else:
        run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", directory, checkout)
    [wheel] = directory.glob("wsgi_pipeline-*.whl")
    return wheel


def run(*command: object) -> None:
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
