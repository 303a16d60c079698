"""Links: the links, forms and pictures of the pages of a site, followed as a visitor follows them.

A page that leads to nothing is a finding: a form whose button is a 404 was never tried by who made it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import urljoin, urlsplit

from webtest import TestResponse

from pipeline.proving.asked import Asked
from pipeline.proving.attack import afresh, failing
from pipeline.proving.corpus import forms_of
from pipeline.proving.report import Report
from pipeline.proving.runs import Run
from pipeline.proving.site import Site

MOST = 500
"""Requests that are followed to."""
DEAD = (404, 405, 410)
"""Statuses of a link or a form that leads to nothing."""
KINDS = (("a", "href"), ("link", "href"), ("img", "src"), ("script", "src"), ("iframe", "src"))
"""The tags that lead somewhere, each with its attribute."""


def prove_links(site: Site, requests: Sequence[Asked], report: Report, is_over: Callable[[], bool]) -> None:
    """Follow the links and forms of all pages, from the root and from the requests on."""
    with report.line("links", "the links and forms of all pages", None, 0) as line:
        for page, request, run in followed(site, requests):
            line.runs += 1
            for what in dead(run):
                report.note(line, what, str(request), "", f"the page {page.url}")
            if is_over():
                return


def followed(site: Site, requests: Sequence[Asked] = ()) -> Iterator[tuple[Asked, Asked, Run]]:
    """Yield each request that a page leads to, from the root and from the requests on: page, request and run."""
    gets = [Asked("GET", "/"), *(request for request in requests if request.method == "GET")]
    first = {str(request): request for request in gets}
    pages: list[tuple[Asked, Run | None]] = [(request, None) for request in first.values()]
    seen = set(first)
    for page, answer in pages:
        for request in leading(site, page, answer or afresh(site, page)):
            if str(request) not in seen and len(seen) < MOST:
                seen.add(str(request))
                run = afresh(site, request)
                yield page, request, run
                if request.method == "GET" and leads_on(run):
                    pages.append((request, run))


def dead(run: Run) -> Iterator[str]:
    """Yield that a page has led to nothing, or to an error."""
    yield from failing(run)
    if run.status in DEAD:
        yield f"a link or a form of a page is answered {run.status}"


def leads_on(run: Run) -> bool:
    """Return whether an answer may lead further."""
    return "html" in run.header("Content-Type") or bool(run.header("Location"))


def leading(site: Site, request: Asked, run: Run) -> Iterator[Asked]:
    """Yield the requests that an answer leads to, on this site."""
    if target := run.header("Location"):
        yield from own_link(site, request, urljoin(site.origin + request.url, target))
    if run.status != 200 or "html" not in run.header("Content-Type"):
        return
    page: Any = TestResponse(app_iter=[run.body], content_type="text/html", charset="utf-8").html
    base = urljoin(site.origin + request.url, page.base.get("href", "") if page.base else "")
    for tag, attribute in KINDS:
        for one in page.find_all(tag):
            if one.get(attribute):
                yield from own_link(site, request, urljoin(base, one[attribute].strip()))
    for form in forms_of(site.origin, request.url, run.body, base):
        yield form._replace(user=request.user)


def own_link(site: Site, request: Asked, address: str) -> Iterator[Asked]:
    """Yield the GET of a link, if it leads to this site."""
    target = urlsplit(address)
    if f"{target.scheme}://{target.netloc}" == site.origin:
        query = f"?{target.query}" if target.query else ""
        yield Asked("GET", f"{target.path or '/'}{query}", user=request.user, source=f"a link of {request.url}")
