"""The requests of an access log in JSON, which the element ``log`` writes with ``format = json``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import unquote

from pipeline.interfaces import ConfigurationError
from pipeline.staging.asked import Asked


class Logged(NamedTuple):
    """One request of an access log."""

    asked: Asked
    status: int
    view: str
    """The view that has answered it, or its URL; "" if it was refused, and no view was found."""

    @property
    def kind(self) -> tuple[str, str, int]:
        """Requests of one kind are answered by the same view with the same status."""
        return self.asked.method, self.view, self.status


def of_log(path: str) -> Iterator[Asked]:
    """Yield the requests of an access log in JSON (``format = json`` of the element log), the newest of each
    view and status."""
    newest = {}
    for logged in read_log(path):
        newest[logged.asked.method, logged.view or unquote(logged.asked.url), logged.status] = logged.asked
    return iter(newest.values())


def read_log(path: str) -> Iterator[Logged]:
    """Yield the requests of an access log in JSON. A body is not in the log, so these are GET and HEAD."""
    with open(path, encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            try:
                entry = json.loads(line)
                method, url, status = entry["method"], entry["url"], int(entry["status"])
            except (ValueError, LookupError, TypeError):
                raise ConfigurationError(
                    f"{path}, line {number}: it is not a line of an access log in JSON, which the element log "
                    f"writes with format = json"
                ) from None
            if method in ("GET", "HEAD") and str(url).startswith("/"):
                user, agent = entry.get("user") or "-", str(entry.get("agent") or "")
                accept = "text/html,*/*;q=0.8" if agent.startswith("Mozilla/") else "*/*"
                headers = (("Accept", accept), *([("User-Agent", agent)] if agent else []))
                asked = Asked(method, url, b"", headers, "" if user == "-" else user, f"{path}, line {number}")
                is_refused = "view" in entry and status >= 400  # by an element: any URL may be asked
                yield Logged(asked, status, entry.get("view") or ("" if is_refused else unquote(url)))
