"""The tutorials of Pyramid, which come with its source distribution."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

PYRAMID = "pyramid==2.1"


def download(directory: Path) -> Path:
    """Return the directory docs/tutorials of Pyramid's source distribution, downloaded into a directory."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--no-build-isolation", "--no-binary", "pyramid", "--dest", str(directory), PYRAMID]
    subprocess.run(command, check=True)
    [archive] = directory.glob("pyramid-*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extraction_filter = getattr(tarfile, "data_filter", None)  # PEP 706; Debian's Python is 3.11.2
        tar.extractall(directory)
    [top] = directory.glob("pyramid-*/docs/tutorials")
    return top
