"""Links: the links, forms and pictures of the pages of a site, followed as a visitor follows them.

A page that leads to nothing is a finding: a form whose button is a 404 was never tried by who made it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipeline.proving.corpus import forms_of
from pipeline.proving.judges import failing
from pipeline.proving.report import Report
from pipeline.staging.asked import Asked, links_of, of_this_site
from pipeline.staging.runs import Run
from pipeline.staging.site import Site

MOST = 500
"""Requests that are followed to."""
DEAD = (404, 405, 410)
"""Statuses of a link or a form that leads to nothing."""


def prove_links(site: Site, requests: Sequence[Asked], report: Report) -> None:
    """Follow the links and forms of all pages, from the root and from the requests on."""
    with report.line("links", "the links and forms of all pages", None, 0) as line:
        for page, request, run in report.within_budget(followed(site, requests)):
            line.runs += 1
            for what in wrong(site, request, run):
                report.note(line, what, str(request), "", f"the page {page.url}")


def followed(site: Site, requests: Sequence[Asked] = ()) -> Iterator[tuple[Asked, Asked, Run]]:
    """Yield each request that a page leads to, from the root and from the requests on: page, request and run."""
    gets = [Asked("GET", "/"), *(request for request in requests if request.method == "GET")]
    first = {str(request): request for request in gets}
    pages: list[tuple[Asked, Run | None]] = [(request, None) for request in first.values()]
    seen = set(first)
    for page, answer in pages:
        for request in leading(site, page, answer or site.afresh(page)):
            if str(request) not in seen and len(seen) < MOST:
                seen.add(str(request))
                run = site.afresh(request)
                if run.status in DEAD and site.afresh(page).status == 200:
                    if site.ask(request).status not in DEAD:  # the page has made it, such as a picture
                        continue
                    run = site.afresh(request)
                yield page, request, run
                if request.method == "GET" and leads_on(run):
                    pages.append((request, run))


def wrong(site: Site, request: Asked, run: Run) -> Iterator[str]:
    """Yield that a page has led to nothing, to an error, or to a change by a link."""
    yield from failing(run)
    if request.method == "GET" and site.has_stored:
        yield "a GET changes the database"
    if run.status in DEAD:
        yield f"a link or a form of a page is answered {run.status}"


def leads_on(run: Run) -> bool:
    """Return whether an answer may lead further."""
    return "html" in run.header("Content-Type") or bool(run.header("Location"))


def leading(site: Site, request: Asked, run: Run) -> Iterator[Asked]:
    """Yield the requests that an answer leads to, on this site."""
    urls = links_of(site.origin, request.url, run) if run.status == 200 else []
    if target := run.header("Location"):
        urls += filter(None, [of_this_site(site.origin, request.url, target)])
    for url in urls:
        yield Asked("GET", url, user=request.user, source=f"a link of {request.url}")
    if run.status == 200 and "html" in run.header("Content-Type"):
        for form in forms_of(site.origin, request.url, run.body):
            yield form._replace(user=request.user)
