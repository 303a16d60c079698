"""The wiki, whatever fails: pages, and a page that is added."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent.parent
SCRIPT = """
import sys
from urllib.parse import urlencode
from pipeline.staging.asked import FORM, OWN, Asked
from pipeline.testing import prove

editor = ("Authorization", "Basic ZWRpdG9yOnNlY3JldA==")
fields = {"form.name": "help", "form.title": "Help", "form.text": "words", "form.actions.add": "Add"}
asked = [Asked("GET", url, headers=(editor,)) for url in ("/wiki", "/wiki/search?words=welcome", "/wiki/add")]
asked.append(Asked("POST", "/wiki/add", urlencode(fields).encode(), (editor, *OWN, ("Content-Type", FORM))))
report = prove(sys.argv[1], corpus=asked)
assert [line.status for line in report.lines if line.judge == "faults"] == [200, 200, 200, 302]
assert report.found == [], report.text()
print(f"proved by {report.runs} runs")
"""


@pytest.mark.parametrize("ini", ["deploy.ini", "steps.ini"])
def test_the_wiki_is_proved(ini: str, tmp_path: Path) -> None:
    (tmp_path / "var").mkdir()
    (tmp_path / "etc").symlink_to(HERE / "etc")
    environ = {**os.environ, "PYTHONPATH": str(HERE / "src")}
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT, str(tmp_path / "etc" / ini)]
    run = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    assert "proved by" in run.stdout, run.stderr[-3000:]
