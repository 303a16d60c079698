"""A mistake is saved while Chromium has the page open: it shows the mistake, and the page again after the mending.

Each takes less than twice the time of the site's own start. A developer who has saved a file asks again. The page
of a site that does not load comes back by itself.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webdriver import WebDriver

from processes import Process

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]

SITE = """\
[pipeline:main]
pipeline = errors vhost traverse site

[filter:errors]
use = egg:wsgi-pipeline#errors
debug = true

[filter:vhost]
use = egg:wsgi-pipeline#vhost

[filter:traverse]
use = egg:wsgi-pipeline#traverse
root = NAME_root:root

[app:site]
use = egg:wsgi-pipeline#publisher
scan = NAME_views
"""
VIEWS = """\
from pipeline import render, view

@view()
def index(context, request):
    return render("index.html", title="All is well")
"""
TEMPLATE = "<!DOCTYPE html>\n<html lang='en'><title>{{ title }}</title>\n<h1>{{ title }}</h1></html>\n"
WELL = "All is well"


class Mistake(NamedTuple):
    """A change of a file, and what the page says of it."""

    file: str
    old: str
    new: str
    said: str
    loads: bool = False
    """Whether the site loads all the same, so that the visitor has to ask again."""


MISTAKES = {
    "a syntax error": Mistake("NAME_views.py", "def index(", "def index((", "NAME_views.py, line 4"),
    "a wrong order": Mistake("site.ini", "vhost traverse", "traverse vhost", "vhost must be outside traverse"),
    "a missing package": Mistake("NAME_views.py", "from", "import is_not_here\nfrom", "is_not_here"),
    "a template error": Mistake("index.html", "{{ title }}</h1>", "{{ title }</h1>", "index.html, line 3", True),
}


class Open(NamedTuple):
    """A site with its server, and its page in Chromium."""

    directory: Path
    name: str
    browser: WebDriver
    start: float
    """Seconds of the site's own start: the median of three."""

    def until(self, said: str, reload: bool) -> float:
        """Return the seconds until the page says something. Ask again and again if ``reload`` says so."""
        began = time.monotonic()
        while said not in (shown := self.shown()):
            assert time.monotonic() - began < 60, shown
            if reload:
                self.browser.refresh()
            time.sleep(0.05)
        return time.monotonic() - began

    def shown(self) -> str:
        try:
            return self.browser.find_element(By.TAG_NAME, "body").text
        except Exception:  # the page is being replaced
            return ""


@pytest.fixture
def opened(tmp_path: Path, start: Callable[..., Process], free_port: int, browser: WebDriver) -> Open:
    name = f"looked_at_{free_port}"
    files = {"site.ini": SITE, "NAME_views.py": VIEWS, "index.html": TEMPLATE}
    files["NAME_root.py"] = "def root(request):\n    return {}\n"
    for file, text in files.items():
        (tmp_path / file.replace("NAME", name)).write_text(text.replace("NAME", name))
    command = [sys.executable, "-m", "pipeline", "serve", tmp_path / "site.ini", "--port", str(free_port)]
    taken = []
    for again in (True, True, False):
        began = time.monotonic()
        server = start(command, free_port)
        end = time.monotonic() + 60
        while "debug-key=" not in server.said():
            assert time.monotonic() < end, server.said()
            time.sleep(0.02)
        browser.get(re.findall(r"http://\S+debug-key=\S+", server.said())[0])
        taken.append(time.monotonic() - began)
        if again:
            server.stop()
    assert WELL in browser.page_source
    return Open(tmp_path, name, browser, sorted(taken)[1])


def look(opened: Open, times: int) -> dict[str, list[tuple[float, float]]]:
    """Make and mend each mistake so many times. Return the seconds to the mistake, and to the page."""
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in MISTAKES}
    for _ in range(times):
        for name, mistake in MISTAKES.items():
            file = opened.directory / mistake.file.replace("NAME", opened.name)
            right = file.read_text()
            assert mistake.old in right
            file.write_text(right.replace(mistake.old, mistake.new))
            shown = opened.until(mistake.said.replace("NAME", opened.name), True)
            file.write_text(right)
            seconds[name].append((shown, opened.until(WELL, mistake.loads)))
    return seconds


@pytest.mark.parametrize("times", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_a_mistake_is_shown_and_the_page_comes_back(opened: Open, times: int) -> None:
    seconds = look(opened, times)
    longest = max(second for pairs in seconds.values() for pair in pairs for second in pair)
    for name, pairs in seconds.items():
        to_mistake, to_page = zip(*pairs, strict=True)
        said = f"{name}: mistake {max(to_mistake):.2f} s, page {max(to_page):.2f} s, start {opened.start:.2f} s"
        print(said, pairs)
    assert longest < 2 * opened.start
