"""The built pages in a browser: axe-core finds nothing serious, and no page is wider than the screen."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
from selenium.webdriver.remote.webdriver import WebDriver

from browsing import DESK, PHONE, show_on
from faults.length import by_turns
from processes import Process

TOP = Path(__file__).resolve().parents[2]
PYTHON = TOP / ".venv-docs" / "bin" / "python"

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def pages(missing: Callable[[str, str], NoReturn]) -> list[Path]:
    """Build the pages where ``make docs`` does, which may just have built them, and return their files."""
    if not PYTHON.exists():
        missing("the environment of make docs", "make docs")
    built = TOP / "docs" / "_build" / "html"
    command = [PYTHON, "-m", "sphinx", "-q", "-W", "-n", "--keep-going", "-b", "html", TOP / "docs", built]
    subprocess.run(command, check=True)
    return sorted(page for page in built.rglob("*.html") if "_static" not in page.parts)


@pytest.mark.parametrize(("size", "scheme"), by_turns([(PHONE, "dark"), (DESK, "light")]))
def test_nothing_serious_is_found(
    browser: WebDriver, pages: list[Path], faults: Callable[[], list[str]], size: tuple[int, int], scheme: str
) -> None:
    show_on(browser, size, scheme)
    problems = {}
    for page in pages:
        browser.get(page.as_uri())
        # What is less than serious comes from the theme and from docutils.
        if found := [fault for fault in faults() if ", serious: " in fault or ", critical: " in fault]:
            problems[page.name] = found
    assert problems == {}


def test_the_picture_of_the_readme(
    browser: WebDriver, start: Callable[..., Process], free_port: int, tmp_path: Path
) -> None:
    """The site of etc/deploy.ini looks as the picture does. PIPELINE_SCREENSHOTS=write makes the picture anew."""
    readme = (TOP / "README.rst").read_text("utf-8")
    name = re.search(r"^\.\. image:: (\S+)$", readme, re.MULTILINE)
    assert name is not None
    database = f"zodb_uri=file://{tmp_path}/Data.fs?blobstorage_dir={tmp_path}/blobs"
    values = [str(TOP / "etc" / "deploy.ini"), database, f"session_keys={tmp_path}/keys"]
    command = [sys.executable, "-W", "ignore", "-m", "pipeline", "serve", *values, "--no-reload"]
    start([*command, "--port", str(free_port)], free_port, cwd=tmp_path, seconds=60)
    show_on(browser, (1280, 640), "light")
    browser.get(f"http://127.0.0.1:{free_port}/docs/howto/views.rst")
    assert "views" in browser.find_element("tag name", "h1").text
    picture = browser.get_screenshot_as_png()
    if os.environ.get("PIPELINE_SCREENSHOTS") == "write":
        (TOP / name[1]).parent.mkdir(exist_ok=True)
        (TOP / name[1]).write_bytes(picture)
    size = struct.unpack(">II", picture[16:24])
    assert struct.unpack(">II", (TOP / name[1]).read_bytes()[16:24]) == size
