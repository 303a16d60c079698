"""The site in a real browser: a document is written, read, kept over a restart, and edited by two."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.support.ui import WebDriverWait

from browsing import DESK, PHONE, follow, press, show_on, text_of, type_in
from faults.length import by_turns
from pipeline_demo import site, users
from pipeline_demo.models import Folder

from .serving import PASTER, Server
from .test_output import TOP, fill, write_ini

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]


def heading(browser: WebDriver) -> str:
    return text_of(browser, "h1")


def article(browser: WebDriver) -> str:
    return text_of(browser, "article")


def log_in(browser: WebDriver, server: Server, login: str = "admin", password: str | None = None) -> None:
    """By the link in the header."""
    browser.get(server.address)
    follow(browser, "//a[.='Log in']")
    type_in(browser, login=login, password=server.password if password is None else password)
    press(browser, "Log in")


def test_a_document_in_a_browser(browser: WebDriver, server: Server) -> None:
    browser.get(server.address)
    assert heading(browser) == "Welcome"
    assert not browser.find_elements(By.LINK_TEXT, "New document")

    log_in(browser, server)
    assert browser.current_url.rstrip("/").endswith(str(server.port))
    assert text_of(browser, ".login") == "admin"

    press(browser, "New document")
    type_in(browser, title="Notes on tea", text="Green tea at **80** degrees.")
    press(browser, "Save")
    assert heading(browser) == "Notes on tea"
    assert article(browser) == "Green tea at 80 degrees."

    press(browser, "Edit")
    type_in(browser, text="White tea at **75** degrees.\n\n<script>document.title = 'run'</script>")
    press(browser, "Save")
    assert article(browser) == "White tea at 75 degrees."
    assert browser.title == "Notes on tea"
    address = browser.current_url

    server.restart()
    browser.get(address)
    assert article(browser) == "White tea at 75 degrees."

    type_in(browser, q="degrees")
    follow(browser, "//form[@role='search']//button")
    follow(browser, "//a[.='Notes on tea']")
    assert browser.current_url == address

    press(browser, "Delete")
    press(browser, "Delete")
    assert heading(browser) == "Welcome"
    assert not browser.find_elements(By.LINK_TEXT, "Notes on tea")


def test_two_edit_at_once_in_a_browser(browser: WebDriver, server: Server) -> None:
    log_in(browser, server)
    press(browser, "New document")
    type_in(browser, title="Shared", text="first")
    press(browser, "Save")
    press(browser, "Edit")
    mine = browser.current_window_handle
    address = browser.current_url

    browser.switch_to.new_window("tab")
    browser.get(address)
    type_in(browser, text="theirs")
    press(browser, "Save")
    assert article(browser) == "theirs"

    browser.switch_to.window(mine)
    type_in(browser, text="mine")
    press(browser, "Save")
    assert heading(browser) == "Two versions of “Shared”"
    assert browser.find_element(By.ID, "text").get_property("value") == "mine"
    assert browser.find_element(By.ID, "stored").get_property("value") == "theirs"

    type_in(browser, text="theirs and mine")
    press(browser, "Save my text")
    assert article(browser) == "theirs and mine"


def test_nothing_is_wider_than_a_phone(browser: WebDriver, server: Server) -> None:
    browser.set_window_size(500, 800)
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": True},
    )
    log_in(browser, server)
    for path in [
        "",
        "docs/",
        "docs/design.rst",
        "@@add-document",
        "@@upload",
        "counter",
        "@@search?q=the",
        "no",
    ]:
        browser.get(f"{server.address}/{path}")
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 360, path


def paths(server: Server, path: str = "/") -> Iterator[str]:
    """Yield the paths of all folders and documents."""
    yield path
    asked = Request(server.address + path, headers={"Accept": "application/json"})
    with urlopen(asked, timeout=30) as answer:
        items = json.load(answer)["items"]
    for item in items:
        below = item["url"].removeprefix(server.address)
        if item["type"] == "folder":
            yield from paths(server, below)
        elif item["type"] == "document":
            yield below


@pytest.mark.timeout(600)
def test_axe_finds_nothing_on_imported_documents(
    browser: WebDriver, server: Server, faults: Callable[[], list[str]]
) -> None:
    """The documentation of this project, with its code and tables: on a phone in the dark, and on a desk."""
    problems = {}
    pages = (*paths(server), "/nothing", "/@@login", "/@@search?q=session", "/counter")
    screens = [(PHONE, "dark"), (DESK, "light")]
    for path, (size, scheme) in by_turns([*product(pages, screens)]):
        show_on(browser, size, scheme)
        browser.get(server.address + path)
        if found := faults():
            problems[path, size] = found
    assert problems == {}
    browser.execute_script("document.querySelector('p').style.color = 'rgb(0 0 0 / 30%)'")
    assert "color-contrast" in str(faults()), "the control: a style that was not judged before is judged"


@pytest.mark.timeout(300)
def test_axe_finds_nothing_while_an_author_works(
    browser: WebDriver, server: Server, faults: Callable[[], list[str]]
) -> None:
    show_on(browser, PHONE, "dark")
    log_in(browser, server)
    assert faults() == [] and text_of(browser, ".done") == "You are logged in as admin."
    press(browser, "New document")
    type_in(browser, title="Tea", text="# Tea\n\n```python\nwarm = 'tea'\n```\n\n| a |\n|---|\n| 1 |\n")
    press(browser, "Preview")
    assert faults() == [] and text_of(browser, ".trial .k, .trial .n") == "warm"
    press(browser, "Save")
    assert faults() == [] and text_of(browser, ".done") == "The document was made."
    press(browser, "Edit")
    type_in(browser, text="cold")
    press(browser, "Save")
    press(browser, "History")
    press(browser, "Revision 1")
    assert faults() == []
    show_on(browser, DESK, "light")
    assert faults() == []
    press(browser, "Restore revision 1")
    assert "tea" in article(browser)
    for path in ("", "@@add-folder", "@@upload", "tea/@@rename", "tea/@@delete", "docs/?sort=newest"):
        browser.get(f"{server.address}/{path}")
        assert faults() == [], path


def test_a_relative_link_of_a_default_page_in_a_browser(
    browser: WebDriver, start: Callable[..., Any], free_port: int, tmp_path: Path
) -> None:
    """By the base that is put in, as the page is shown at another address than its own."""
    fill(tmp_path)
    start([PASTER, "serve", write_ini(tmp_path, free_port)], free_port, env={"PYTHONPATH": str(TOP / "tests")})
    address = f"http://127.0.0.1:{free_port}"
    browser.get(f"{address}/led/")
    assert heading(browser) == "Start"
    assert browser.execute_script("return document.baseURI") == f"{address}/led/start/"
    page = browser.execute_script("return performance.getEntriesByType('navigation')[0].toJSON()")
    assert 0 < page["encodedBodySize"] < page["decodedBodySize"]
    follow(browser, "//a[.='relative link']")
    assert browser.current_url == f"{address}/led/start/page"
    assert article(browser) == "This is the page."


def test_login_and_logout_in_a_browser(browser: WebDriver, server: Server) -> None:
    """Who needs a login is led to it and back; who may not is told so, logged in or not."""
    with_users(server)
    browser.get(f"{server.address}/@@add-folder")
    assert heading(browser) == "Log in"
    type_in(browser, login="eve", password="wrong")
    press(browser, "Log in")
    assert text_of(browser, "[role=alert]") == "Name or password is wrong."
    type_in(browser, password="eve's own")
    press(browser, "Log in")
    assert browser.current_url == f"{server.address}/@@add-folder"
    assert heading(browser) == "You may not do this"

    follow(browser, "//button[.='Log out']")
    assert browser.current_url == f"{server.address}/"
    assert "You are logged out." in browser.page_source
    assert [cookie["name"] for cookie in browser.get_cookies()] == ["browser"], "the session is gone"
    browser.get(f"{server.address}/@@add-folder")
    type_in(browser, login="admin", password=server.password)
    press(browser, "Log in")
    assert heading(browser).startswith("New folder")
    assert [cookie["httpOnly"] for cookie in browser.get_cookies()] == [True, True]

    old, new = server.keys.read_text(), "k" * 32 + "\n"
    server.keys.write_text(old + new)
    server.restart()  # the keys stay, and with them the sessions
    browser.get(f"{server.address}/@@add-folder")
    assert heading(browser).startswith("New folder")
    server.keys.write_text(new)
    server.restart()  # the key is gone, and with it the session
    browser.get(f"{server.address}/@@add-folder")
    assert heading(browser) == "Log in"


def test_a_form_is_there_again_after_the_login_in_a_browser(browser: WebDriver, server: Server) -> None:
    log_in(browser, server)
    browser.get(f"{server.address}/@@add-document")
    type_in(browser, title="Minutes", text="first\nsecond <b>")
    browser.delete_all_cookies()  # as when the session has ended
    press(browser, "Save")
    assert heading(browser) == "Please log in"
    type_in(browser, login="admin", password="wrong")
    press(browser, "Log in")
    type_in(browser, password=server.password)
    press(browser, "Log in")
    assert heading(browser) == "What you typed"
    typed = browser.find_element(By.CSS_SELECTOR, "textarea[rows='12']")
    assert typed.get_attribute("value") == "first\nsecond <b>"
    press(browser, "Send it now")
    assert heading(browser) == "Minutes" and browser.current_url == f"{server.address}/minutes"
    assert text_of(browser, ".login") == "admin"


def test_a_folder_has_users_of_its_own_in_a_browser(browser: WebDriver, server: Server) -> None:
    with_users(server)
    browser.get(f"{server.address}/club/")
    assert not browser.find_elements(By.LINK_TEXT, "New document")
    browser.get(f"{server.address.replace('//', '//ben:secret@')}/club/@@login")
    assert browser.current_url == f"{server.address}/club/"
    assert text_of(browser, ".login") == "ben@/club"
    press(browser, "New document")
    type_in(browser, title="Minutes", text="of the club")
    press(browser, "Save")
    assert heading(browser) == "Minutes" and browser.current_url == f"{server.address}/club/minutes"

    browser.get(f"{server.address}/@@add-folder")
    assert heading(browser) == "Log in"  # outside of the folder he is nobody

    forge(browser, f"{server.address}/club/@@add-document", title="Forged", name="forged")
    assert heading(browser) == "You may not do this"  # though the browser sent his password
    browser.get(f"{server.address}/club/forged")
    assert heading(browser) == "There is nothing here"


def test_another_site_can_forge_nothing_in_a_browser(browser: WebDriver, server: Server) -> None:
    forge(browser, f"{server.address}/@@login", login="admin", password=server.password)
    assert heading(browser) == "You may not do this"
    browser.get(server.address)
    assert text_of(browser, ".login") == "Log in"

    log_in(browser, server)
    forge(browser, f"{server.address}/@@add-folder", title="Forged", name="forged")
    assert heading(browser) in ("You may not do this", "Please log in")  # a browser may keep the cookie back
    forge(browser, f"{server.address}/@@logout")
    browser.get(f"{server.address}/forged")
    assert heading(browser) == "There is nothing here"
    assert text_of(browser, "span.login") == "admin"


def test_a_wrong_password_is_slowed_down_in_a_browser(browser: WebDriver, server: Server) -> None:
    browser.get(f"{server.address}/@@login")
    for _ in range(10):
        type_in(browser, login="admin", password="guess")
        press(browser, "Log in")
        assert text_of(browser, "[role=alert]") == "Name or password is wrong."
    type_in(browser, login="admin", password=server.password)
    press(browser, "Log in")
    assert heading(browser) == "Please wait a moment"


def with_users(server: Server) -> None:
    """The site has a user without grants, and a folder with a user of its own."""
    server.stop()
    with site.connected(server.uri) as connection, connection.transaction_manager:
        root = site.root(connection.root())
        users.set_password(root, "eve", "eve's own")
        root["club"] = Folder("Club")
        users.add_member(root["club"], "ben", "secret")
    server.start()


def forge(browser: WebDriver, address: str, **fields: str) -> None:
    """Have a page of another site send a form."""
    browser.get("data:text/html,<h1>evil</h1>")
    browser.execute_script(
        """
        const form = document.createElement("form");
        form.method = "post"; form.action = arguments[0];
        for (const [name, value] of Object.entries(arguments[1])) {
            const input = document.createElement("input");
            input.name = name; input.value = value; form.append(input);
        }
        document.body.append(form);
        form.submit();
        """,
        address,
        fields,
    )
    WebDriverWait(browser, 30).until(lambda _: browser.current_url == address)
