"""What the tests in a browser share: Chromium, the screens to look at pages on, and axe-core, which judges them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn, TypeVar

from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.support.ui import WebDriverWait

from ports import unused_port

T = TypeVar("T")

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
    service = Service(program("chromedriver", "apt install chromium-driver"), port=unused_port())
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


FAULTS = """
const [judged, done] = arguments;
const found = new Map();
for (const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT); walker.nextNode();) {
    if (!walker.currentNode.data.trim()) continue;
    const place = walker.currentNode.parentElement;
    const style = getComputedStyle(place);
    const said = [style.color, style.fontSize, style.fontWeight, style.textShadow];
    for (let above = place; above; above = above.parentElement) {
        const behind = getComputedStyle(above);
        const ground = `${behind.backgroundColor} ${behind.backgroundImage} ${behind.opacity}`;
        if (ground !== "rgba(0, 0, 0, 0) none 1") said.push(ground);
    }
    const words = said.join("; ");
    if (!judged.includes(words)) found.set(words, place);
}
const told = {resultTypes: ["violations"]};  // for each rule that passes, one place is told: places take time
axe.run({...told, rules: {"color-contrast": {enabled: false}}}).then(async (rest) => {
    const only = {...told, runOnly: {type: "rule", values: ["color-contrast"]}};
    const contrast = found.size ? (await axe.run({include: [...found.values()]}, only)).violations : [];
    done([[...found.keys()], rest.passes.length, [...rest.violations, ...contrast]]);
});
"""
"""Judges a page. Whether a text can be read is judged once for each style: all that decides the text's colour and
what is behind it. To measure that for each text is four fifths of axe's time."""


def look_for_faults(browser: WebDriver, axe: str, judged: set[str]) -> list[str]:
    """Return what axe-core finds on the page in the browser, and whether the page is wider than the screen.

    judged  the styles of texts that are known to have enough contrast; those of this page are added
    """
    browser.execute_script(axe)
    styles, passes, violations = browser.execute_async_script(FAULTS, sorted(judged))
    assert passes > 10, "the control: axe has run"
    faults = [
        f"{rule['id']}, {rule['impact']}: {node['html']:.200} {node['failureSummary']}"
        for rule in violations
        for node in rule["nodes"]
    ]
    if not faults:
        judged.update(styles)
    wide = browser.execute_script("return document.documentElement.scrollWidth - innerWidth")
    return faults + [f"wider than the screen by {wide}"] * (wide > 0)


def patiently(browser: WebDriver, what: Callable[[], T]) -> T:
    """Do it again while a page is on its way in or out, which the driver has several errors for."""
    wait = WebDriverWait(browser, 30, ignored_exceptions=[WebDriverException])
    return wait.until(lambda _: (what(),))[0]


def text_of(browser: WebDriver, selector: str) -> str:
    return patiently(browser, lambda: browser.find_element(By.CSS_SELECTOR, selector).text)


def type_in(browser: WebDriver, **fields: str) -> None:
    for name, text in fields.items():
        field = patiently(browser, lambda name=name: browser.find_element(By.NAME, name))
        field.clear()
        field.send_keys(text)


def press(browser: WebDriver, label: str) -> None:
    follow(browser, f"//main//*[self::button or self::a][normalize-space()='{label}']")


def follow(browser: WebDriver, path: str) -> None:
    """Click what stands at an XPath, and wait for the page it leads to."""
    with arriving(browser):
        patiently(browser, lambda: browser.find_element(By.XPATH, path).click())


@contextmanager
def arriving(browser: WebDriver) -> Iterator[None]:
    """Wait at the end until another page is there as a whole: its address alone changes before its elements are."""
    before = patiently(browser, lambda: browser.execute_script("return performance.timeOrigin"))
    yield
    wait = WebDriverWait(browser, 30, ignored_exceptions=[WebDriverException])
    wait.until(
        lambda _: browser.execute_script(
            "return document.readyState == 'complete' && performance.timeOrigin != arguments[0]", before
        )
    )
