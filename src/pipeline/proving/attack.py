"""Attack: each view as an outsider asks for it. The answer is what the declaration of the view promises."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from pipeline.interfaces import PUBLIC
from pipeline.proving.asked import FORM, Asked
from pipeline.proving.report import Report
from pipeline.proving.runs import Run
from pipeline.proving.site import Site
from pipeline.views import View

ELSEWHERE = "http://elsewhere.example"
MARK = "<prove x='\"&>"
"""A value that is no longer itself where it is quoted as HTML."""
NOBODY = ""
"""The user of an anonymous visitor, in the place of the user of the site."""


def prove_attack(site: Site, requests: Sequence[Asked], report: Report, is_over: Callable[[], bool]) -> None:
    """Ask for each view as an anonymous visitor, from another site, and with hostile values."""
    for request in requests:
        own, _ = tried_out(site, request)
        with report.line("attack", str(request), own.status, 0) as line:
            for what, tried in attacks(site, request, own.views[0]) if own.views else ():
                line.runs += 1
                if what:
                    report.note(line, what, str(tried), "", str(own.views[0]))
        if is_over():
            return


def attacks(site: Site, request: Asked, view: View) -> Iterator[tuple[str, Asked]]:
    """Try each attack on a view. Yield what is wrong, or "", with the request."""
    needs = view.permission if view.permission != PUBLIC else None
    unsafe = request.method not in ("GET", "HEAD")

    tried = request._replace(user=NOBODY)
    run, stored = tried_out(site, tried)
    yield from ((what, tried) for what in failing(run))
    if needs is not None and view in run.views:
        yield f"S1: an anonymous visitor reaches a view that needs {needs!r}", tried
    elif stored and view.permission is None and any(row[3].permission for row in site.views):
        yield "S1: an anonymous visitor changes the database by a view that declares no permission", tried
    elif stored and needs is not None:
        yield f"S1: a request without {needs!r} changes the database", tried
    else:
        yield "", tried

    if not unsafe:
        _, stored = tried_out(site, request)
        yield ("a GET changes the database" if stored else ""), request
    elif view.same_site:
        for user in (NOBODY, request.user):
            tried = request.with_headers({"Origin": ELSEWHERE, "Sec-Fetch-Site": "cross-site"})._replace(user=user)
            run, stored = tried_out(site, tried)
            who = "a visitor" if user is NOBODY else "a user"
            wrong = f"S23: another site has the browser of {who} call a view that is not cross_site"
            yield (wrong if view in run.views else ""), tried

    for value in (MARK, f"{ELSEWHERE}/"):
        for tried in with_value(request, view, value):
            run, _ = tried_out(site, tried)
            yield from ((what, tried) for what in failing(run))
            is_page = "html" in run.header("Content-Type")
            target = urlsplit(run.header("Location"))
            if is_page and MARK.encode() in run.body:
                yield "S7: a page has a value of the visitor as HTML", tried
            elif target.netloc and f"{target.scheme}://{target.netloc}" != site.origin:
                yield f"S8: a redirect goes where a value of the visitor says: {run.header('Location')}", tried
            else:
                yield "", tried


def failing(run: Run) -> Iterator[str]:
    """Yield that an answer is an error of the server."""
    if run.status is None or run.status >= 500:
        yield f"it is answered {run.status or type(run.escaped).__name__}"


def tried_out(site: Site, request: Asked) -> tuple[Run, bool]:
    """Run a request. Return the run, and whether something is stored."""
    site.copies.reset()
    run = site.ask(request)
    return run, not site.copies.stored().is_nothing


def with_value(request: Asked, view: View, value: str) -> Iterator[Asked]:
    """Yield the request with a value in each of its fields, one at a time."""
    path, _, query = request.url.partition("?")
    kind = dict(request.headers).get("Content-Type", "")
    pairs = parse_qsl(request.body.decode("latin-1") if kind == FORM else query, keep_blank_values=True)
    names = [name for name, _ in pairs]
    more = [name for name in (view.fill.names if view.fill is not None else ()) if name not in names]
    for name in [*dict.fromkeys(names), *more]:
        changed = [(key, value if key == name else old) for key, old in pairs]
        if name in more:
            changed.append((name, value))
        if kind == FORM:
            yield request._replace(body=urlencode(changed).encode())
        elif request.method in ("GET", "HEAD"):
            yield request._replace(url=f"{path}?{urlencode(changed)}")
    if request.method in ("GET", "HEAD"):
        yield request._replace(url=f"{path.rstrip('/')}/{quote(value, safe='')}")
