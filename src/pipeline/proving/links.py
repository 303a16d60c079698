"""Links: the links, forms and pictures of the pages of a site, followed as a visitor follows them.

A page that leads to nothing is a finding: a form whose button is a 404 was never tried by who made it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from http import HTTPStatus

from pipeline.proving.corpus import OURS, forms_of
from pipeline.proving.report import Report
from pipeline.proving.rules import failing
from pipeline.staging.asked import Asked, links_of, of_this_site, with_values
from pipeline.staging.runs import Run
from pipeline.staging.site import Site

CHANGED = "a GET changes the database"
"""The finding that attack has, too."""
MOST = 500
"""Requests that are followed to."""
FEW = 40
"""Those that are followed to after a change."""
PAGES = 30
"""Pages of one list."""
DEAD = (404, 405, 410)
"""Statuses of a link or a form that leads to nothing."""
QUOTED = "prove? &a=1#b+%41"
"""A text that has to be quoted in an address."""


def prove_links(site: Site, requests: Sequence[Asked], report: Report, storing: Sequence[Asked] = ()) -> None:
    """Follow the links and forms of all pages, from the root and from the requests on; and the links once more
    after each request that stores something, also with words that have to be quoted in an address.

    storing  the requests that store something
    """
    with report.line("links", "the links and forms of all pages") as line:
        quoted = [with_values(one, lambda old: QUOTED if OURS.fullmatch(str(old)) else old) for one in storing]
        afterwards: dict[tuple[Asked, ...], str] = {(): ""}
        afterwards |= {(one,): f", after {one}" for one in storing}
        afterwards.setdefault(tuple(quoted), f", after forms with {QUOTED!r}")
        for changes, after in report.within_budget(afterwards.items()):
            begin = () if changes else requests
            for page, shown, request, run in report.within_budget(followed(site, begin, changes)):
                line.runs += 1
                where = f"the page {page.url}, {shown.answered_by}{after}"
                for what in failing(run):
                    report.note(line, what, str(request), where, cause=run.answered_by)
                if run.status in DEAD or (run.status == HTTPStatus.BAD_REQUEST and not request.page):
                    what = f"a link or a form of a page is answered {run.status}"
                    end = request.alike.rpartition("/")[2]  # pages of one view are alike in it
                    report.note(line, what, str(request), where, cause=f"{shown.answered_by} {end}")
                elif not changes and request.method == "GET" and site.has_stored:
                    report.note(line, CHANGED, str(request), run.answered_by, cause=run.answered_by)
                if request.is_safe and request.page and any("password" in name for name, _ in request.fields):
                    report.note(line, "S25: a form has a password in its address", str(request), page.url)


def followed(
    site: Site, requests: Sequence[Asked] = (), changes: Sequence[Asked] = ()
) -> Iterator[tuple[Asked, Run, Asked, Run]]:
    """Yield each request that a page leads to, from the root and from the requests on: the page and its run, the
    request and its run.

    changes  requests that come before them, after which a few links alone are followed
    """
    site.copies.reset()
    for one in changes:
        site.ask(one)
    ask, most = (site.ask, FEW) if changes else (site.afresh, MOST)
    gets = [Asked("GET", "/"), *(request for request in requests if request.method == "GET")]
    first = {str(request): request for request in gets}
    pages: list[tuple[Asked, Run | None]] = [(request, None) for request in first.values()]
    seen = set(first)
    for page, answer in pages:
        shown = answer or ask(page)
        links = [link for link in leading(site, page, shown) if link.is_safe or not changes]
        for link in links:
            if str(link) in seen or len(seen) >= most:
                continue
            seen.add(str(link))
            request, run = link, ask(link)
            if run.status in DEAD:
                now = list(leading(site, page, ask(page)))  # a name may be one of chance
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
        yield Asked("GET", url, user=request.user)
    if run.status == 200 and "html" in run.header("Content-Type"):
        for form in forms_of(site.origin, request.url, run):
            yield form._replace(user=request.user)


def over_pages(site: Site, page: Asked, adding: Iterable[Asked]) -> Iterator[str]:
    """Yield what is wrong with a list on several pages while things are added to it: a page without any of them, or
    one that is on no page, though those before and after it are.

    adding  requests that add one thing each, whose address the answer tells
    """
    site.copies.reset()
    made: list[str] = []
    looks: list[list[set[str]]] = []
    for request in adding:
        run = site.ask(request)
        led = [one for one in leading(site, request, run) if run.header("Location")]
        made += [one.url for one in led]
        kinds = [one.alike for one in led]
        pages = [{one.url for one in links if one.alike in kinds} for links in paged(site, page)]
        if not run.is_acknowledged or not any(pages):  # no more can be added, or not to this list
            break
        looks.append(pages)
    if not looks or len(looks[-1]) <= len(looks[0]):  # such as months
        return
    found = set()
    for pages in looks:
        listed = [number for number, url in enumerate(made) if any(url in of_page for of_page in pages)]
        if set() in pages:
            found.add("a page of a list has nothing, and other pages have")
        if listed and len(listed) <= listed[-1] - listed[0]:
            found.add("what was added is on no page of a list, and what was added before and after it is")
    yield from sorted(found)


def bare(request: Asked) -> str:
    """Return what a request is alike, without the signs before the name of a view, which a link may leave out."""
    return request.alike.replace("@@", "")


def paged(site: Site, page: Asked) -> list[frozenset[Asked]]:
    """Return what each page of a list leads to: those pages have its path, and numbers or nothing in queries."""
    pages = {page.url: page}
    found: dict[frozenset[Asked], None] = {}
    for number in range(PAGES):
        if number < len(pages):
            one = [*pages.values()][number]
            led = [link for link in leading(site, one, site.ask(one)) if link.is_safe]
            # the first page may have two addresses
            found[frozenset(link._replace(page="") for link in led if not link.fields)] = None
            further = [link for link in led if link.fields and bare(link) == bare(page)]
            numbers = (one for one in further if all(not value or value.isdecimal() for _, value in one.fields))
            pages |= {link.url: link for link in numbers if link.url not in pages}
    return [*found]
