"""The addresses that a page of a site has: its links, pictures, style sheets and scripts."""

from __future__ import annotations

from contextlib import suppress
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit

from pipeline.staging.runs import Run

LINKED = {"a": "href", "link": "href", "img": "src", "script": "src", "iframe": "src"}
"""The attribute of an HTML element that has a link."""


class Links(HTMLParser):
    """Collects the links of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, None] = {}
        self.base = ""
        """The address at which relative links begin, if the page says so."""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Note a link."""
        for name, value in attributes:
            if name == LINKED.get(tag) and value:
                self.found[value] = None
            elif tag == "base" and name == "href":
                self.base = value or ""


def links_of(origin: str, url: str, run: Run) -> list[str]:
    """Return the links of a page that stay in the site, but for those to itself."""
    if "html" not in run.header("Content-Type") or run.header("Content-Encoding"):
        return []
    links = Links()
    links.feed(run.body.decode("utf-8", "replace"))
    found = dict.fromkeys(of_this_site(origin, url, urljoin(links.base, link)) for link in links.found)
    return [one for one in found if one is not None and one != url]


def of_this_site(origin: str, url: str, link: str) -> str | None:
    """Return the path and query of a link on the page of a URL, or None if it leads out of the site."""
    with suppress(ValueError):
        found = urlsplit(urljoin(origin + url, link.strip()))
        host = urlsplit(origin).netloc
        # Zope writes the port into its links.
        if found.scheme in ("http", "https") and found.netloc in (host, f"{host}:80"):
            return (found.path or "/") + (f"?{found.query}" if found.query else "")
    return None
