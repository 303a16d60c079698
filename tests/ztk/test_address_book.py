"""A site out of the package index, as it is: icemac.addressbook, with its login, forms, catalog and resources.

It is in use since 2008, and was written for Python 3.8 and the Zope Toolkit of 2020. The directory ``address_book``
has what a deployment of it consists of.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from base64 import b64encode
from collections.abc import Callable
from difflib import unified_diff
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.support import expected_conditions
from selenium.webdriver.support.ui import WebDriverWait

from environments import install
from ports import unused_port
from processes import Process

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

FILES = Path(__file__).with_name("address_book")
CONF = """site-definition {directory}/site.zcml
<zodb>
  <filestorage>
    path {directory}/Data.fs
    blob-dir {directory}/blobs
  </filestorage>
</zodb>
<eventlog>
  <logfile>
    path {directory}/event.log
  </logfile>
</eventlog>
"""
PAGES = (
    *("/", "/AddressBook", "/AddressBook/@@welcome.html", "/AddressBook/@@person-list.html", "/AddressBook/Person"),
    *("/AddressBook/@@addPerson.html", "/AddressBook/@@name_search.html", "/AddressBook/@@masterdata.html"),
    "/AddressBook/@@name_search.html?form.widgets.search_term=Lovelace&form.buttons.search=Search",
    *("/AddressBook/++attribute++principals", "/AddressBook/++attribute++entities", "/AddressBook/none"),
    "/AddressBook/++preferences++/ab",
)
"""Pages that are compared with those of the site by itself."""


@pytest.fixture(scope="module")
def installed(missing: Callable[[str, str], Any]) -> None:
    """Install the site itself; ``make test-ztk`` has installed its needs."""
    if importlib.util.find_spec("fanstatic") is None:
        missing("what icemac.addressbook needs", "make test-ztk")
    install(Path(sys.executable), "icemac.addressbook==9.4", "--no-deps")


class Site:
    """The directory of the site, and the process that serves it."""

    def __init__(self, directory: Path, start: Callable[..., Process]) -> None:
        for file in FILES.iterdir():
            shutil.copy(file, directory)
        (directory / "zope.conf").write_text(CONF.format(directory=directory))
        self.directory = directory
        self.start = start
        self.port = unused_port()
        self.process: Process | None = None
        self.serve("main")

    def serve(self, app: str) -> None:
        """Serve an app of the ini. The server before is stopped."""
        if self.process is not None:
            self.process.stop()
        serve = [Path(sys.executable).with_name("pipeline"), "serve", "--no-reload", "--port", str(self.port)]
        env = {"PYTHONWARNINGS": "ignore"}
        self.process = self.start([*serve, f"{self.directory}/deploy.ini#{app}"], self.port, env=env, seconds=120)

    def url(self, path: str, host: str = "localhost") -> str:
        return f"http://{host}:{self.port}{path}"

    def page(self, path: str) -> list[str]:
        """Return status and body for the administrator, without what differs from one start to the next: addresses
        of objects, the time of day, and the order of resources in the head."""
        login = b64encode(b"admin:secret").decode()
        request = Request(self.url(path), headers={"Authorization": f"Basic {login}"})
        try:
            answer = urlopen(request)
        except OSError as error:
            answer = error
        body = answer.read().decode()
        resource = re.compile(r".*/fanstatic/.*")
        lines = re.sub(r" at 0x\w+|\b\d\d/\d\d/\d\d \d\d:\d\d\b", "", body).splitlines()
        rest = [line for line in lines if not resource.match(line)]
        tags = [tag for line in lines if resource.match(line) for tag in line.replace("><", ">\n<").split("\n")]
        return [f"{path} {answer.code}", *rest, *sorted(tags)]


@pytest.fixture
def site(installed: None, tmp_path: Path, start: Callable[..., Process]) -> Site:
    return Site(tmp_path, start)


class Visitor:
    """A browser, in the words of the walk."""

    def __init__(self, browser: Any, site: Site) -> None:
        self.browser = browser
        self.site = site

    def open(self, path: str) -> None:
        self.browser.get(self.site.url(path))

    def fill(self, **fields: str) -> None:
        """Type into fields, each by the last part of its name."""
        for name, text in fields.items():
            field = self.browser.find_element(By.CSS_SELECTOR, f"[name$='{name}']")
            field.clear()
            field.send_keys(text)

    def choose(self, name: str, text: str) -> None:
        self.browser.execute_script(
            "const [name, text] = arguments;"
            "const select = document.getElementsByName(name)[0];"
            "[...select.options].find(o => o.text.includes(text)).selected = true;",
            *(name, text),
        )

    def press(self, name: str) -> None:
        """Press a button, and wait for the next page."""
        page = self.browser.find_element(By.TAG_NAME, "html")
        self.browser.execute_script("arguments[0].click()", self.browser.find_element(By.NAME, name))
        WebDriverWait(self.browser, 60).until(expected_conditions.staleness_of(page))

    @property
    def text(self) -> str:
        return str(self.browser.find_element(By.TAG_NAME, "body").text)


@pytest.fixture
def visitor(site: Site, browser: WebDriver) -> Visitor:
    browser.implicitly_wait(10)
    return Visitor(browser, site)


def test_a_site_from_the_package_index_is_walked_through(site: Site, visitor: Visitor) -> None:
    make_the_book(site, visitor)
    log_in_and_work(visitor)
    ours = pages_of(site)
    site.serve("plain")  # all is in the database
    visitor.open("/AddressBook/@@loginForm.html")
    visitor.fill(login="ada@example.org", password="engine-1843")
    visitor.press("SUBMIT")
    search(visitor, "Hopp*")
    assert "Hopper" in visitor.text
    theirs = pages_of(site)
    different = "\n".join(unified_diff(theirs, ours, "plain", "here", n=0, lineterm=""))
    assert not different, different
    assert [line for line in ours if line.endswith(" 404")] == ["/AddressBook/none 404"]


def make_the_book(site: Site, visitor: Visitor) -> None:
    """The administrator, who is known by the password of the server, makes a book, a person and a user."""
    visitor.browser.get(site.url("/", host="admin:secret@127.0.0.1"))
    assert "There are no address books created yet" in visitor.text
    root = site.url("", host="127.0.0.1")
    visitor.browser.get(f"{root}/@@addAddressBook.html")
    visitor.fill(title="Friends")
    visitor.press("form.buttons.add")
    assert '"Friends" added.' in visitor.text
    visitor.browser.get(f"{root}/AddressBook/@@addPerson.html")
    visitor.press("form.buttons.add")
    assert "Required input is missing." in visitor.text
    visitor.fill(first_name="Ada", last_name="Lovelace", email="ada@example.org")
    visitor.press("form.buttons.add")
    assert '"Lovelace, Ada" added.' in visitor.text
    visitor.browser.get(f"{root}/AddressBook/++attribute++principals/@@addPrincipal.html")
    visitor.choose("form.widgets.person:list", "Lovelace")
    visitor.choose("form.widgets.roles:list", "Editor")
    visitor.fill(password="engine-1843", password_repetition="engine-1843")
    visitor.press("form.buttons.add")
    assert '"Lovelace, Ada" added.' in visitor.text


def log_in_and_work(visitor: Visitor) -> None:
    """The user logs in by the form, is refused before, adds, finds, edits and deletes a person, and logs out."""
    visitor.open("/AddressBook/@@person-list.html")
    assert "Please provide Login Information" in visitor.text
    visitor.fill(login="ada@example.org", password="wrong")
    visitor.press("SUBMIT")
    assert "password might be wrong." in visitor.text
    visitor.fill(login="ada@example.org", password="engine-1843")
    visitor.press("SUBMIT")
    assert "You have been logged-in successfully." in visitor.text
    visitor.open("/AddressBook/@@addPerson.html")
    visitor.fill(first_name="Grace", last_name="Hopper", city="Århus")
    visitor.press("form.buttons.add")
    assert '"Hopper, Grace" added.' in visitor.text
    search(visitor, "Hopp*")
    assert "Hopper" in visitor.text
    assert "Lovelace" not in visitor.text
    search(visitor, "Turing")
    assert "No person found." in visitor.text
    visitor.open("/AddressBook/Person-2")
    visitor.fill(first_name="Rear Admiral Grace")
    visitor.press("form.buttons.apply")
    assert "Data successfully updated." in visitor.text
    visitor.open("/AddressBook/@@person-list.html")
    assert "Rear Admiral Grace" in visitor.text
    visitor.open("/AddressBook/++attribute++principals/@@addPrincipal.html")
    assert "You are not authorized" in visitor.text
    visitor.open("/AddressBook/@@logout.html?nextURL=/AddressBook")
    visitor.open("/AddressBook/@@person-list.html")
    assert "Please provide Login Information" in visitor.text


def search(visitor: Visitor, term: str) -> None:
    """Ask the catalog."""
    visitor.open("/AddressBook/@@name_search.html")
    visitor.fill(search_term=term)
    visitor.press("form.buttons.search")


def pages_of(site: Site) -> list[str]:
    return [line for path in PAGES for line in site.page(path)]
