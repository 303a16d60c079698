"""``pipeline prove`` finds nothing in an adopted Plone, whose views it does not know, by its faults.

Its judge of links tells what plain Plone does, too: the first page makes annotations and small pictures.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import pytest

from plone_sites.test_compared import made as made

PAGES = ("/Plone", "/Plone/about", "/Plone/folder", "/Plone/about/edit", "/Plone/folder/++add++Document")


def digest(directory: Path) -> dict[Path, str]:
    """What is in the database and the blobs of an instance."""
    files = [directory / "Data.fs", *(directory / "blobs").rglob("*.blob")]
    return {path: sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.timeout(900)
def test_prove_finds_nothing_in_plone(made: Path, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    log.write_text("\n".join(json.dumps({"method": "GET", "url": url, "status": 200}) for url in PAGES))
    login = f"Authorization: Basic {b64encode(b'admin:secret').decode()}"
    command = [sys.executable, "-W", "ignore", "-m", "pipeline", "prove", str(made / "etc" / "ours.ini")]
    command += ["--user", "admin", "-H", login, "--log", str(log), "--view", "^GET /Plone/(about|folder)$"]
    command += ["--judge", "faults", "--faults", "conflict,error", "--budget", "120"]
    before = digest(made / "var")
    environ = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=800, check=False)
    print(ran.stdout, ran.stderr)
    assert digest(made / "var") == before
    assert [line for line in ran.stdout.splitlines() if line.startswith("found: ")] == []
    runs = {judge: int(number) for judge, number in re.findall(r"(?m)^(\w+): .*?(\d+) runs", ran.stdout)}
    assert runs["faults"] > 50, "a busy machine does some hundred"
