"""A visitor of a served site: one request at a time, and the links of a page."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable
from http.client import HTTPConnection, HTTPMessage
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

import pytest


class Answer(NamedTuple):
    status: int
    headers: HTTPMessage
    text: str


def fetch(url: str, method: str = "GET", body: str | None = None, **headers: str) -> Answer:
    """One request on a connection of its own; a redirect is an answer like any other."""
    parts = urlsplit(url)
    connection = HTTPConnection(parts.netloc, timeout=30)
    try:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return Answer(response.status, response.headers, response.read().decode("utf-8", "replace"))
    finally:
        connection.close()


def links(url: str, page: str, attributes: str) -> set[str]:
    """What `page`, read at `url`, refers to on its own server, as complete addresses without fragment."""
    found = (urljoin(url, link) for link in re.findall(rf"""\b(?:{attributes})=["']([^"'#]+)""", page))
    return {link for link in found if urlsplit(link).netloc == urlsplit(url).netloc}


@pytest.fixture
def visit() -> Callable[[str, Any], set[str]]:
    """``visit(url, server)`` reads the site mounted at `url`, two clicks deep, and returns what it saw.

    Every link and form stays below `url`, and every answer is a page or a redirect to one.
    """

    def visit(url: str, server: Any) -> set[str]:
        seen: set[str] = set()
        waiting = [(url, 0)]
        while waiting and len(seen) < 60:
            address, clicks = waiting.pop(0)
            if address in seen:
                continue
            seen.add(address)
            answer = fetch(address)
            if answer.status in (301, 302, 303, 307, 308):
                further = {urljoin(address, answer.headers["Location"])}
            else:
                # What needs a login says so.
                assert answer.status in (200, 401, 403), f"{address}: {answer.text}\n\n{server.said()}"
                html = answer.headers.get_content_type() == "text/html"
                further = links(address, answer.text, "href|src") if html and clicks < 2 else set()
                for link in links(address, answer.text, "action"):
                    assert link.startswith(url), f"{address} has a form for {link}"
            for link in further:
                assert link.startswith(url), f"{address} leads to {link}"
            waiting.extend((link, clicks + 1) for link in sorted(further))
        return seen

    return visit


@pytest.fixture
def use() -> Callable[[str, Any], None]:
    """``use(url, server)`` writes to the site at `url`, and logs in as `server` said."""

    def use(url: str, server: Any) -> None:
        numbers = [int(fetch(url + "counter/@@next", "POST").text) for _ in range(3)]
        assert numbers == list(range(numbers[0], numbers[0] + 3))

        shown = re.search(r"password: +in (\S+), until the first login", server.said())
        assert shown, server.said()
        file = Path(shown[1])
        first = file.read_text().strip()
        assert file.stat().st_mode & 0o077 == 0 and first not in server.said()
        for password, refused in (("not this one", True), (first, False)):
            credentials = b64encode(f"admin:{password}".encode()).decode()
            answer = fetch(url + "@@add-document", Authorization=f"Basic {credentials}")
            assert (answer.status == 401) is refused, answer
            assert file.exists() is refused

    return use


@pytest.fixture
def get() -> Callable[..., Answer]:
    return fetch
