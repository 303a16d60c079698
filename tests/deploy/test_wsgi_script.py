"""``etc/pipeline.wsgi`` with a folder of the database as the whole site."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pipeline_demo import site
from pipeline_demo.models import Document, Folder

pytestmark = pytest.mark.once
TOP = Path(__file__).resolve().parents[2]

ASK = """
import json, runpy, sys
from webob import Request
application = runpy.run_path("etc/pipeline.wsgi")["application"]
for path in sys.argv[1:]:
    answer = Request.blank(path, base_url="http://www.example.com").get_response(application)
    print("answer", json.dumps([answer.status_int, answer.location, answer.text]))
"""


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data directory with a folder in a folder."""
    monkeypatch.setattr(site, "documentation", lambda: None)
    uri = f"file://{tmp_path}/Data.fs?blobstorage_dir={tmp_path}/blobs"
    with site.connected(uri) as connection, connection.transaction_manager:
        root = site.root(connection.root())
        root["sites"] = Folder("Sites")
        root["sites"]["example"] = example = Folder("Example")
        example["news"] = Folder("News")
        example["news"]["first"] = Document("First", "Good news.")
        root["other"] = Document("Other", "Not of the example.")
    return tmp_path


def ask(data: Path, *paths: str, **variables: str) -> list[Any]:
    """What the script answers, in a process of its own: a database in a file belongs to one."""
    environ = os.environ | {"PIPELINE_VAR": str(data)} | variables
    command = [sys.executable, "-W", "ignore", "-c", ASK, *paths]
    ran = subprocess.run(command, cwd=TOP, env=environ, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line[7:]) for line in ran.stdout.splitlines() if line.startswith("answer ")]


def test_a_folder_is_the_whole_site(data: Path) -> None:
    home, slash, first, *others, literal = ask(
        data,
        *("/", "/news", "/news/first", "/other", "/sites/example/", "/../other", "/++vh++http:x:80/++/news/"),
        PIPELINE_SITE="/sites/example",
    )
    assert home[0] == 200 and "<h1>Example</h1>" in home[2]
    links = re.findall(r'(?:href|src|action)="(http[^"]+)"', home[2] + first[2])
    assert "http://www.example.com/news/" in links and len(links) > 6
    assert not [link for link in links if "/sites/" in link or not link.startswith("http://www.example.com/")]
    assert slash[:2] == [302, "/news/"]
    assert "Good news." in first[2]
    assert [answer[0] for answer in others] == [404, 404, 400]
    assert literal[0] == 404  # nobody is trusted


def test_without_it_the_root_is_the_site(data: Path) -> None:
    home, example, other = ask(data, "/", "/sites/example/", "/other")
    assert "<h1>Welcome</h1>" in home[2]
    assert "http://www.example.com/sites/example/news/" in example[2]
    assert other[0] == 200
