"""The built pages in a browser: axe-core finds nothing serious, and no page is wider than the screen."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.remote.webdriver import WebDriver

from docs.following import blocks
from processes import Process

TOP = Path(__file__).resolve().parents[2]
PYTHON = TOP / ".venv-docs" / "bin" / "python"

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]

PHONE, DESK = (390, "dark"), (1280, "light")


@pytest.fixture(scope="module")
def pages(missing: Callable[[str, str], NoReturn], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Build the pages, and return their files."""
    if not PYTHON.exists():
        missing("the environment of make docs", "make docs")
    built = tmp_path_factory.mktemp("pages")
    command = [PYTHON, "-m", "sphinx", "-q", "-W", "-n", "--keep-going", "-b", "html", TOP / "docs", built]
    subprocess.run(command, check=True)
    return sorted(page for page in built.rglob("*.html") if "_static" not in page.parts)


@pytest.fixture(scope="module")
def axe(missing: Callable[[str, str], NoReturn]) -> str:
    found = find_spec("axe_playwright_python")  # it brings axe-core along
    if found is None or found.origin is None:
        missing("axe-core", "pip install --no-deps axe-playwright-python")
    return Path(str(found.origin)).with_name("axe.min.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def browser(program: Callable[[str, str], str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebDriver]:
    """Headless Chromium with a profile of its own."""
    options = webdriver.ChromeOptions()
    options.binary_location = program("chromium", "apt install chromium")
    profile = tmp_path_factory.mktemp("profile")
    for switch in ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"):
        options.add_argument(switch)
    options.add_argument(f"--user-data-dir={profile}")
    browser = webdriver.Chrome(
        options=options, service=Service(program("chromedriver", "apt install chromium-driver"))
    )
    browser.set_page_load_timeout(60)
    yield browser
    browser.quit()


def show(browser: WebDriver, page: str, width: int, scheme: str) -> None:
    """Open a page on a screen of that width, in light or dark colours."""
    metrics = {"width": width, "height": 640, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    browser.get(page)


def findings(browser: WebDriver, axe: str) -> list[str]:
    """Return what is serious on the page in the browser."""
    browser.execute_script(axe)
    result = browser.execute_async_script("axe.run().then(arguments[0])")
    assert len(result["passes"]) > 10, "the control: axe has run"
    lines = [
        f"{rule['id']}: {node['html']:.200}"
        for rule in result["violations"]
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"]
    ]
    wide = browser.execute_script("return document.documentElement.scrollWidth - innerWidth")
    return [*lines, *(f"wider than the screen by {wide}" for _ in range(wide > 0))]


@pytest.mark.parametrize("screen", [PHONE, DESK], ids=lambda screen: f"{screen[0]}px-{screen[1]}")
def test_nothing_serious_is_found(browser: WebDriver, pages: list[Path], axe: str, screen: tuple[int, str]) -> None:
    problems = {}
    for page in pages:
        show(browser, page.as_uri(), *screen)
        if found := findings(browser, axe):
            problems[page.name] = found
    assert problems == {}


def test_the_picture_of_the_readme(
    browser: WebDriver, start: Callable[..., Process], free_port: int, tmp_path: Path
) -> None:
    """The site of README.rst looks as its picture does. PIPELINE_SCREENSHOTS=write makes the picture anew."""
    readme = (TOP / "README.rst").read_text("utf-8")
    name = re.search(r"^\.\. image:: (\S+)$", readme, re.MULTILINE)
    assert name is not None
    ini = next(block for block in blocks(readme) if block.language == "ini")
    (tmp_path / "site.ini").write_text(ini.code)
    command = [sys.executable, "-W", "ignore", "-m", "pipeline", "serve", "site.ini", "--no-reload"]
    start([*command, "--port", str(free_port)], free_port, cwd=tmp_path, seconds=60)
    show(browser, f"http://127.0.0.1:{free_port}/docs/howto/views.rst", 1280, "light")
    assert "views" in browser.find_element("tag name", "h1").text
    picture = browser.get_screenshot_as_png()
    if os.environ.get("PIPELINE_SCREENSHOTS") == "write":
        (TOP / name[1]).parent.mkdir(exist_ok=True)
        (TOP / name[1]).write_bytes(picture)
    size = struct.unpack(">II", picture[16:24])
    assert struct.unpack(">II", (TOP / name[1]).read_bytes()[16:24]) == size
