"""What the tests in a browser share: Chromium, the screens to look at pages on, and axe-core, which judges them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.remote.webdriver import WebDriver

PHONE, DESK = (390, 844), (1280, 800)
SWITCHES = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars"),
]


@contextmanager
def chromium(program: Callable[[str, str], str], profile: Path, wait: str = "normal") -> Iterator[WebDriver]:
    """Headless Chromium with a profile of its own.

    wait  what a command waits for: "normal" for a page with all that it loads, "none" for nothing
    """
    options = webdriver.ChromeOptions()
    options.page_load_strategy = wait
    options.binary_location = program("chromium", "apt install chromium")
    for switch in [*SWITCHES, f"--user-data-dir={profile}"]:
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = Service(program("chromedriver", "apt install chromium-driver"))
    browser = webdriver.Chrome(options=options, service=service)
    browser.set_page_load_timeout(60)
    try:
        yield browser
    finally:
        browser.quit()


def show_on(browser: WebDriver, size: tuple[int, int], scheme: str) -> None:
    """Show pages as on a screen of that size, in ``light`` or ``dark`` colours."""
    width, height = size
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)


def read_axe(missing: Callable[[str, str], NoReturn]) -> str:
    """Return the text of axe-core. The package that has the newest one is for another driver, so it comes alone."""
    found = find_spec("axe_playwright_python")
    if found is None or found.origin is None:
        missing("axe-core", "pip install --no-deps axe-playwright-python")
    return Path(found.origin).with_name("axe.min.js").read_text(encoding="utf-8")


def look_for_faults(browser: WebDriver, axe: str) -> list[str]:
    """Return what axe-core finds on the page in the browser, and whether the page is wider than the screen."""
    browser.execute_script(axe)
    # For each rule that passes, one place is told: the places are what takes the time.
    result = browser.execute_async_script("axe.run({resultTypes: ['violations']}).then(arguments[0])")
    assert len(result["passes"]) > 10, "the control: axe has run"
    faults = [
        f"{rule['id']}, {rule['impact']}: {node['html']:.200} {node['failureSummary']}"
        for rule in result["violations"]
        for node in rule["nodes"]
    ]
    wide = browser.execute_script("return document.documentElement.scrollWidth - innerWidth")
    return faults + [f"wider than the screen by {wide}"] * (wide > 0)
