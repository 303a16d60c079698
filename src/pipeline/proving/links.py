"""Links: the links, forms and pictures of the pages of a site, followed as a visitor follows them.

A page that leads to nothing is a finding: a form whose button is a 404 was never tried by who made it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipeline.proving.corpus import forms_of
from pipeline.proving.report import Report
from pipeline.proving.rules import failing
from pipeline.staging.asked import Asked, links_of, of_this_site
from pipeline.staging.runs import Run
from pipeline.staging.site import Site

CHANGED = "a GET changes the database"
"""The finding that attack has, too."""
MOST = 500
"""Requests that are followed to."""
DEAD = (404, 405, 410)
"""Statuses of a link or a form that leads to nothing."""


def prove_links(site: Site, requests: Sequence[Asked], report: Report) -> None:
    """Follow the links and forms of all pages, from the root and from the requests on."""
    with report.line("links", "the links and forms of all pages") as line:
        for page, shown, request, run in report.within_budget(followed(site, requests)):
            line.runs += 1
            where = f"the page {page.url}, {shown.answered_by}"
            for what in failing(run):
                report.note(line, what, str(request), where, cause=run.answered_by)
            if run.status not in DEAD and request.method == "GET" and site.has_stored:
                report.note(line, CHANGED, str(request), run.answered_by, cause=run.answered_by)
            elif run.status in DEAD:
                what = f"a link or a form of a page is answered {run.status}"
                end = request.alike.rpartition("/")[2]  # pages of one view are alike in it
                report.note(line, what, str(request), where, cause=f"{shown.answered_by} {end}")


def followed(site: Site, requests: Sequence[Asked] = ()) -> Iterator[tuple[Asked, Run, Asked, Run]]:
    """Yield each request that a page leads to, from the root and from the requests on: the page and its run, the
    request and its run."""
    gets = [Asked("GET", "/"), *(request for request in requests if request.method == "GET")]
    first = {str(request): request for request in gets}
    pages: list[tuple[Asked, Run | None]] = [(request, None) for request in first.values()]
    seen = set(first)
    for page, answer in pages:
        shown = answer or site.afresh(page)
        links = list(leading(site, page, shown))
        for link in links:
            if str(link) in seen or len(seen) >= MOST:
                continue
            seen.add(str(link))
            request, run = link, site.afresh(link)
            if run.status in DEAD:
                now = list(leading(site, page, site.afresh(page)))  # a name may be one of chance
                gone, new = ([one for one in links if one not in now], [one for one in now if one not in links])
                request = dict(zip(gone, new, strict=False)).get(link, link)
                run = site.ask(request)
                if run.status not in DEAD:  # the page has made it, such as a picture
                    continue
            yield page, shown, request, run
            if request.method == "GET":
                pages.append((request, run))


def landed(site: Site, link: Asked) -> tuple[Asked, Run]:
    """Ask for a link, and for what it redirects to on this site, such as a folder with a slash. Return the last
    request with its run."""
    run = site.ask(link)
    for further in leading(site, link, run) if run.header("Location") else ():
        return further, site.ask(further)
    return link, run


def leading(site: Site, request: Asked, run: Run) -> Iterator[Asked]:
    """Yield the requests that an answer leads to, on this site."""
    urls = links_of(site.origin, request.url, run) if run.status == 200 else []
    if target := run.header("Location"):
        urls += filter(None, [of_this_site(site.origin, request.url, target)])
    for url in urls:
        yield Asked("GET", url, user=request.user, source=f"a link of {request.url}")
    if run.status == 200 and "html" in run.header("Content-Type"):
        for form in forms_of(site.origin, request.url, run):
            yield form._replace(user=request.user)
