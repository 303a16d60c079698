"""Chromium has nothing against the pages of a new site, of the demo, and of errors; a smuggled script does not run
(S24)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webdriver import WebDriver

from browsing import follow
from ports import unused_port
from processes import TOP

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

KEY = "k" * 40
SMUGGLED = """<script>document.title = 'run'</script>
<p id=p style='color: red' onclick="document.title = 'run'">text</p>"""


def refused(browser: WebDriver) -> list[str]:
    """What the browser has refused since this was last asked, by the policy of a page."""
    said = [entry["message"] for entry in browser.get_log("browser")]
    return [line for line in said if "Content Security Policy" in line]


def test_pages_have_their_own_scripts_and_styles_alone__S24(
    browser: WebDriver, start: Callable[..., Any], tmp_path: Path
) -> None:
    subprocess.run([sys.executable, "-m", "pipeline", "new", "shielded"], cwd=tmp_path, check=True)
    new = tmp_path / "shielded"
    note = new / "shielded" / "templates" / "note.html"
    note.write_text(note.read_text().replace("{{ note.text }}", "{{ note.text | safe }}"))
    demo = (TOP / "etc/deploy.ini").read_text().replace("%(here)s/../var", str(tmp_path / "var"))
    (tmp_path / "var").mkdir()
    (tmp_path / "demo.ini").write_text(demo)
    addresses = []
    for ini, cwd in ((new / "development.ini", new), (tmp_path / "demo.ini", tmp_path)):
        port = unused_port()
        command = [sys.executable, "-m", "pipeline", "serve", ini, "--no-reload", "--port", str(port)]
        start(command, port, cwd=cwd, env={"PIPELINE_DEBUG_KEY": KEY})
        addresses.append(f"http://127.0.0.1:{port}")
    site, demo = addresses

    for path in ("/", "/nothing", "/@@login", "/@@search?q=the", "/docs/", "/docs/design.rst", "/counter"):
        browser.get(demo + path)
        assert refused(browser) == [], path
        assert browser.execute_script("return document.styleSheets.length") > 0

    browser.get(f"{site}/nothing")
    assert refused(browser) == []
    assert "no view" not in browser.page_source, "the page of visitors"
    browser.get(f"{site}/?debug-key={KEY}")
    browser.get(f"{site}/nothing")
    assert refused(browser) == []
    assert "Traversal" in browser.page_source, "the page of developers"
    browser.get(site)
    assert browser.execute_script("return getComputedStyle(document.querySelector('label')).display") == "block"
    browser.find_element(By.NAME, "title").send_keys("Tea")
    browser.find_element(By.NAME, "text").send_keys(SMUGGLED)
    assert refused(browser) == []
    follow(browser, "//form//button")
    assert browser.find_element(By.ID, "p").text == "text", "the smuggled part is in the page"
    browser.find_element(By.ID, "p").click()
    assert browser.title == "Tea", "and does not run"
    assert len(refused(browser)) == 3, "the control: script, style and click were refused"
