"""The inspector and the debug pages of the demo in a real browser, under load; axe-core looks at each page.

With PIPELINE_SCREENSHOTS=write the screenshots of the documentation are made anew.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webdriver import WebDriver

from browsing import DESK, PHONE, arriving, show_on
from pipeline_demo import site
from processes import TOP

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

LookAt = Callable[[str], None]
KEY = "k" * 40
WRITE = os.environ.get("PIPELINE_SCREENSHOTS") == "write"
DOCS = TOP / "docs" / "screenshots"
SHOWN = [
    ("list", DESK, "light"),
    ("list", PHONE, "dark"),
    ("request", DESK, "light"),
    ("debug-error", DESK, "light"),
]
"""The screenshots of the documentation."""
WITHOUT_PLACES = """
const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (texts.nextNode()) {
    const text = texts.currentNode;
    text.nodeValue = text.nodeValue.replaceAll(arguments[0] + "/", "").replace(/\\/tmp\\/[\\w./-]*\\//g, "");
}
"""
"""Takes the directories of this machine out of a page."""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("inspected")


def write_ini(directory: Path, port: int) -> Path:
    """etc/deploy.ini with the inspector and in debug mode, with data of its own."""
    text = (TOP / "etc" / "deploy.ini").read_text()
    for pattern, value in [
        (r"(?m)^(http_port =).*", f" {port}"),
        (r"(?m)^(zodb_uri =).*", f" file://{directory}/Data.fs?blobstorage_dir={directory}/blobs"),
        (r"(?m)^(session_keys =).*", f" {directory}/session_keys"),
        (r"(?m)^(pipeline =) log", " inspector log"),
        (r"(?m)^(use = egg:wsgi-pipeline#errors)$", "\ndebug = true"),
        (r"(?m)^(scan = pipeline_demo.*)$", " tools.inspected_views"),
    ]:
        text, count = re.subn(pattern, lambda found, value=value: found[1] + value, text)  # type: ignore[misc]
        assert count == 1, pattern
    ini = directory / "inspected.ini"
    ini.write_text(f"{text}\n[filter:inspector]\nuse = egg:wsgi-pipeline#inspector\n")
    return ini


@pytest.fixture
def address(directory: Path, start: Callable[..., Any], free_port: int) -> str:
    """The demo on a server of its own."""
    site.create(f"file://{directory}/Data.fs?blobstorage_dir={directory}/blobs")
    command = [Path(sys.executable).with_name("paster"), "serve", write_ini(directory, free_port)]
    start(command, free_port, env={"PYTHONPATH": str(TOP / "tests"), "PIPELINE_DEBUG_KEY": KEY})
    return f"http://127.0.0.1:{free_port}"


@pytest.fixture
def load(address: str) -> Iterator[None]:
    """Visitors, until the test ends."""
    done = threading.Event()
    paths = ["/", "/docs/", "/nothing", "/@@search?q=tea&token=abc", "/@@fails", "/@@conflicting", "/docs"]

    def visit() -> None:
        while not done.is_set():
            for path in paths:
                with contextlib.suppress(OSError), urllib.request.urlopen(address + path, timeout=20) as answer:
                    answer.read()
                time.sleep(0.05)

    threads = [threading.Thread(target=visit, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    yield
    done.set()
    for thread in threads:
        thread.join(30)


@pytest.fixture
def look_at(browser: WebDriver, faults: Callable[[], list[str]]) -> Callable[[str], None]:
    """``look_at(name)``: nothing is wrong with the page in the browser, on phone and desk, light and dark."""

    def look_at(name: str) -> None:
        for size, scheme in [(PHONE, "light"), (PHONE, "dark"), (DESK, "light"), (DESK, "dark")]:
            show_on(browser, size, scheme)
            assert faults() == [], (name, size, scheme)
            if WRITE and (name, size, scheme) in SHOWN:
                browser.execute_script(WITHOUT_PLACES, str(TOP))
                shown = browser.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
                DOCS.mkdir(exist_ok=True)
                kind = "phone" if size == PHONE else "desk"
                (DOCS / f"{name}-{kind}.png").write_bytes(base64.b64decode(shown["data"]))
        said = [entry["message"] for entry in browser.get_log("browser")]
        assert [line for line in said if "Content Security Policy" in line] == []

    return look_at


def text_of(browser: WebDriver, selector: str) -> str:
    found = browser.find_elements(By.CSS_SELECTOR, selector)
    assert found, f"no {selector} at {browser.current_url}: {browser.find_element(By.TAG_NAME, 'body').text:.3000}"
    return found[0].text


def rows(browser: WebDriver) -> list[str]:
    return [row.text for row in browser.find_elements(By.CSS_SELECTOR, ".requests tbody tr")]


def follow(browser: WebDriver, selector: str) -> None:
    """Follow a link by the keyboard."""
    with arriving(browser):
        browser.find_element(By.CSS_SELECTOR, selector).send_keys(Keys.ENTER)


def ask(browser: WebDriver, address: str, **filters: str) -> None:
    """Fill in the form of the filters, and send it."""
    browser.get(f"{address}/++inspect++/")
    for name, value in filters.items():
        field = browser.find_element(By.NAME, name)
        if field.get_attribute("type") == "checkbox":
            field.send_keys(Keys.SPACE)
        else:
            field.send_keys(value)
    with arriving(browser):
        browser.find_element(By.CSS_SELECTOR, "form button").send_keys(Keys.ENTER)


def log_in(browser: WebDriver, address: str) -> None:
    """Open the address with the key."""
    browser.get(f"{address}/++inspect++/")
    assert "Inspector" not in browser.page_source, "without the key it is not there (S17)"
    browser.get(f"{address}/?debug-key={KEY}")


@pytest.mark.usefixtures("load")
def test_the_debug_pages(browser: WebDriver, address: str, look_at: LookAt) -> None:
    log_in(browser, address)
    browser.get(f"{address}/@@fails")
    assert "ValueError: there is no price for coffee" in browser.page_source
    assert "Caused by KeyError" in browser.page_source
    assert "inspected_views.py" in text_of(browser, "details[open] summary")
    assert 'raise ValueError("there is no price for coffee")' in text_of(browser, "details[open] li.here")
    look_at("debug-error")
    browser.get(f"{address}/docs/nothing")
    assert "has no item" in text_of(browser, ".cause")
    look_at("debug-404")


@pytest.mark.usefixtures("load")
def test_the_list_of_requests_and_its_filters(browser: WebDriver, address: str, look_at: LookAt) -> None:
    log_in(browser, address)
    for path in ("/@@slow", "/@@fails", "/docs/nothing"):
        browser.get(address + path)
    browser.get(f"{address}/++inspect++/")
    assert text_of(browser, "h1") == "Requests"
    assert len(rows(browser)) > 5
    look_at("list")

    ask(browser, address, status="5")
    assert rows(browser) and all("500" in row for row in rows(browser))
    ask(browser, address, status="4", path="docs/noth")
    assert rows(browser) and all("/docs/nothing" in row and "404" in row for row in rows(browser))
    ask(browser, address, slow="1")
    assert any("/@@slow" in row for row in rows(browser))
    ask(browser, address, error="1", path="fails")
    assert rows(browser)
    browser.get(f"{address}/++inspect++/")
    follow(browser, "a[href*=live]")
    assert "Stop the updates" in browser.page_source


@pytest.mark.usefixtures("load")
def test_the_page_of_a_failed_request(browser: WebDriver, address: str, look_at: LookAt) -> None:
    log_in(browser, address)
    browser.get(f"{address}/@@fails")
    ask(browser, address, error="1", path="fails")
    follow(browser, ".requests tbody tr:first-child a")
    assert "there is no price for coffee" in text_of(browser, ".cause")
    assert "publisher" in text_of(browser, ".waterfall")
    look_at("request-error")


@pytest.mark.usefixtures("load")
def test_attempts_and_secrets(browser: WebDriver, address: str, look_at: LookAt) -> None:
    log_in(browser, address)
    browser.get(f"{address}/@@conflicting")
    ask(browser, address, path="conflicting", status="2")
    follow(browser, ".requests tbody tr:first-child a")
    assert "Attempt 3" in text_of(browser, ".sides")
    for section in browser.find_elements(By.CSS_SELECTOR, "details:not([open]) > summary"):
        section.send_keys(Keys.ENTER)
    assert "attempt 3 with password=(masked)" in text_of(browser, "section[aria-labelledby=log]")
    assert "swordfish" not in browser.page_source and KEY not in browser.page_source
    look_at("attempts")


@pytest.mark.usefixtures("load")
def test_the_page_of_a_request_and_the_drawing(browser: WebDriver, address: str, look_at: LookAt) -> None:
    log_in(browser, address)
    browser.get(f"{address}/@@search?q=tea&token=abc")
    ask(browser, address, path="search", status="2")
    follow(browser, ".requests tbody tr:first-child a")
    assert "token=abc" not in browser.page_source
    assert "search" in text_of(browser, "section[aria-labelledby=traversal]")
    look_at("request")
    follow(browser, "nav a[href=pipeline]")
    assert "traverse" in text_of(browser, ".pipe")
    look_at("pipeline")
