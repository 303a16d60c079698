"""The pages of the inspector. They load nothing, run no script, and are usable without a mouse."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

from webob.exc import HTTPMethodNotAllowed, HTTPNotFound

from pipeline.database import pools
from pipeline.explaining.causes import way_of
from pipeline.explaining.recording import Record
from pipeline.inspector.explaining import noticed_beside, walk_of
from pipeline.interfaces import ConfigurationError
from pipeline.paste import Chain
from pipeline.response import NOSNIFF
from pipeline.telling.descriptions import described
from pipeline.telling.secrets import value_of
from pipeline.telling.styling import HAS_TEMPLATES, environment, policy
from pipeline.telling.words import header_name, is_header

if not HAS_TEMPLATES:
    raise ConfigurationError("inspector: its pages need Jinja2. Install it: pip install 'wsgi-pipeline[inspector]'")

PER_PAGE = 100
SECONDS_BETWEEN = 3
"""Seconds after which a live page is loaded again."""


class Filters(NamedTuple):
    """The choices of the developer on the list of requests."""

    status: str = ""
    """The first digit of the status, or the whole status."""
    method: str = ""
    path: str = ""
    slow: str = ""
    error: str = ""
    before: str = ""
    """Number of a request: older ones are shown."""
    live: str = ""

    def fits(self, record: Record, slow: float) -> bool:
        """Return whether a request is to be shown."""
        return (
            record.status.startswith(self.status)
            and self.method in ("", record.method)
            and self.path.lower() in f"{record.path}?{record.query}".lower()
            and not (self.slow and record.seconds < slow)
            and not (self.error and not (record.error or record.code >= 500))
            and not (self.before.isdecimal() and record.number >= int(self.before))
        )

    def query(self, **changed: str) -> str:
        """Return the query of the address with these filters, some of them changed."""
        given = {name: value for name, value in (self._asdict() | changed).items() if value}
        return f"?{urlencode(given)}" if given else "./"


def show_page(inspector: Any, request: Any, response: Any) -> None:
    """Answer a request for a page; its path begins with the address of the inspector."""
    if request.environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
        raise HTTPMethodNotAllowed(headers=[("Allow", "GET, HEAD")])
    _, _, rest = request.environ["PATH_INFO"].strip("/").partition("/")
    if not rest and not request.environ["PATH_INFO"].endswith("/"):
        response.status = 303
        response.headers["Location"] = f"{request.script_name}{request.environ['PATH_INFO']}/"
        return
    given = dict(parse_qsl(request.environ.get("QUERY_STRING", ""))[:50])
    filters = Filters(**{name: given[name][:200] for name in Filters._fields if name in given})
    if not rest:
        put(response, "list.html", **listed(inspector, filters))
        if filters.live:
            response.headers["Refresh"] = str(SECONDS_BETWEEN)
    elif rest == "pipeline":
        put(response, "pipeline.html", chains=drawn(inspector.steps))
    else:
        record = inspector.find(int(rest)) if rest.isascii() and rest.isdecimal() and len(rest) < 16 else None
        if record is None:
            raise HTTPNotFound("The inspector does not have that request, or not any more.")
        put(response, "request.html", **told_request(record, inspector))


def put(response: Any, template: str, **values: Any) -> None:
    """Put a page on the response."""
    text = environment().get_template(template).render(**values)
    headers = [
        ("Content-Type", "text/html; charset=UTF-8"),
        policy(),
        ("Cache-Control", "no-store"),
        ("Referrer-Policy", "no-referrer"),
        NOSNIFF,
    ]
    response.adopt("200 OK", headers, [text.encode("utf-8", "replace")])


def listed(inspector: Any, filters: Filters) -> dict[str, Any]:
    """Return what the list of requests shows."""
    kept = inspector.kept()
    found = [record for record in kept if filters.fits(record, inspector.slow)]
    shown = found[:PER_PAGE]
    longest = max((record.seconds for record in shown), default=0.0) or 1.0
    return {
        "filters": filters,
        "records": shown,
        "count": len(found),
        "kept": len(kept),
        "older": filters.query(before=str(shown[-1].number)) if len(found) > len(shown) else "",
        "live": filters.query(live="" if filters.live else "1", before=""),
        "longest": longest,
        "slow": inspector.slow,
        "methods": sorted({record.method for record in kept} | {"GET", "POST"}),
        "counters": inspector.counters(),
        "pools": sorted(pools.usages()),
    }


def told_request(record: Record, inspector: Any) -> dict[str, Any]:
    """Return what the page of a request shows."""
    by_attempt = groupby(sorted(record.parts, key=lambda part: part.attempt), key=lambda part: part.attempt)
    attempts = [(number, list(parts)) for number, parts in by_attempt]
    try:
        way, failure = walk_of(record), ""
    except Exception as error:
        way, failure = way_of(record), f"{type(error).__name__}: {error}"
    seen = [
        (part, {header_name(name): value for name, value in part.request.items() if is_header(name)})
        for part in way.parts
    ]
    return {
        "record": record,
        "causes": [*record.causes, *noticed_beside(record, way.look)],
        "slow": inspector.slow,
        "attempts": attempts,
        "way": way,
        "walk_failure": failure,
        "seen": seen,
        "newer": inspector.find(record.number + 1),
        "older": inspector.find(record.number - 1),
    }


def drawn(steps: Iterable[Any]) -> list[dict[str, Any]]:
    """Return the pipelines as ``pipeline show`` describes them, with secrets masked."""
    linked: list[list[Any]] = []
    for step in steps:  # those of a pipeline one after the other, the innermost first
        if not linked or (step.element is not None and step.element.is_end):
            linked.append([])
        linked[-1].insert(0, step)
    chains = [described(Chain("", tuple(chain))) for chain in linked]
    for part in (part for chain in chains for part in chain["parts"]):
        part["options"] = {name: value_of(name, value) for name, value in part["options"].items()}
    return chains
