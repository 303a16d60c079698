"""The wiki in a test browser, as one app and as steps."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent.parent
SCRIPT = """
import sys
from paste.deploy import loadapp
from zope.testbrowser.wsgi import Browser

app = loadapp("config:" + sys.argv[1])
browser = Browser("http://localhost/wiki", wsgi_app=app)
assert browser.url == "http://localhost/wiki", browser.url
assert ">Start</a>" in browser.contents
browser.getLink("Start").click()
assert '<a href="http://localhost/wiki/help">help</a>' in browser.contents

browser.open("http://localhost/wiki/search?words=welcome")
assert ">Start</a>" in browser.contents, browser.contents

browser.raiseHttpErrors = False
browser.open("http://localhost/wiki/add")
assert browser.headers["status"].startswith("401"), browser.headers["status"]
browser.open("http://localhost/wiki/help")
assert browser.headers["status"].startswith("404")

browser.raiseHttpErrors = True
browser.addHeader("Authorization", "Basic ZWRpdG9yOnNlY3JldA==")
browser.open("http://localhost/wiki/add")
browser.getControl("Name").value = "not a name"
browser.getControl("Add").click()
assert "Constraint not satisfied" in browser.contents
browser.getControl("Name").value = "help"
browser.getControl("Text").value = "Write <links> in brackets: [[start]]"
browser.getControl("Add").click()
assert browser.url == "http://localhost/wiki/help", browser.url
assert "Write &lt;links&gt; in brackets" in browser.contents
browser.getLink("Edit").click()
browser.getControl("Title").value = "Help with the wiki"
browser.getControl("Save").click()
assert "<h1>Help with the wiki</h1>" in browser.contents

browser.open("http://localhost/wiki")
browser.getControl(name="words").value = "brackets"
browser.getControl("Search").click()
assert ">Help with the wiki</a>" in browser.contents
assert "Start" not in browser.contents

browser.open("http://localhost/++rest++rest/wiki/help")
assert browser.contents == "Write <links> in brackets: [[start]]", browser.contents
browser.open("http://localhost/++rest++rest/wiki")
assert browser.contents == "help\\nstart", browser.contents
browser.open("http://localhost/wiki/++vh++https:wiki.example.org:443/++/")
assert 'href="https://wiki.example.org/help"' in browser.contents, browser.contents
browser.post("http://localhost/wiki/help/delete", "")
assert "Help" not in browser.contents
print("walked through")
"""


@pytest.mark.parametrize("ini", ["deploy.ini", "steps.ini"])
def test_the_wiki_is_walked_through(ini: str, tmp_path: Path) -> None:
    (tmp_path / "var").mkdir()
    (tmp_path / "etc").symlink_to(HERE / "etc")
    environ = {**os.environ, "PYTHONPATH": str(HERE / "src")}
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT, str(tmp_path / "etc" / ini)]
    run = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    assert "walked through" in run.stdout, run.stderr[-3000:]
