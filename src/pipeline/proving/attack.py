"""Attack: each view as an outsider asks for it. The answer is what the declaration of the view promises."""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import cycle
from pathlib import Path
from string import ascii_lowercase
from typing import Any
from unittest import mock
from urllib.parse import quote, urlsplit

from zope.interface import Interface

from pipeline.interfaces import PUBLIC
from pipeline.proving import values
from pipeline.proving.corpus import OURS, names_in
from pipeline.proving.links import CHANGED, landed, leading
from pipeline.proving.report import Report
from pipeline.proving.rules import NOBODY, REFUSED, broken_invariants, failing, is_open
from pipeline.proving.values import EXAMPLES, FILES, HOSTILE, VALUES, is_markup
from pipeline.staging.asked import FORM, JSON, MULTIPART, Asked, Tags, of_this_site
from pipeline.staging.runs import LONGEST, Run
from pipeline.staging.site import Site, quiet
from pipeline.telling.secrets import is_secret
from pipeline.telling.words import is_of_the_site
from pipeline.views import View

ELSEWHERE = "http://elsewhere.example"
PATHS = (values.__file__, "../" * 20 + values.__file__.lstrip("/"))
"""Paths of a file that no site shows."""
NAMED = Path(values.__file__).read_bytes()[3:43]
"""The first words of its text."""
STRANGER = "prove-stranger"
"""A user to whom nothing belongs."""
READ = (PUBLIC, ("GET",))
"""Permission and methods of what every visitor may read, such as a style sheet: it says nothing of other views."""
SECRET = "prove-7d1f09ac"
"""Password of the visitor, which no log has by chance."""
LONG = (*((part, "") for part in ("a", " ", "<", "(", "a@", "&#", "\n*")), ("a", "!"), (" ", "!"))
"""Parts of long values, and what ends them. On these, expressions and parsers of texts go back again and again."""
MOST = {"GET": 6_000, "POST": 60_000}
"""Characters of a long value: those of a query have to pass the server."""

ANOTHER_DAY = "2031-05-17"
ANOTHER_NUMBER = "7919"
AMOUNT = re.compile(r"\d+([.,]\d+)?")
ESCAPED = re.compile(r"(?<!\\)\\++(?:u017e|xc5\\++xbe)|&#(382|x17e);|%c5%be|=c5=be|z\u030c")
"""The letter ž as texts in JSON, bytes, HTML, addresses and mails have it, and as two."""
OTHERS: dict[str, Sequence[Any]] = {JSON: VALUES, MULTIPART: FILES}
"""Further values, by the type of a body."""


def prove_attack(site: Site, requests: Iterable[Asked], report: Report, users: Sequence[str] = ()) -> None:
    """Ask for each view as an anonymous visitor, from another site, and with hostile values."""
    for request in report.within_budget(requests):
        own = site.afresh(request)
        with report.line("attack", str(request), own.status) as line:
            failed = [(what, request) for what in failing(own)]
            is_asked = own.views or not site.views
            for what, tried in failed or (attacks(site, request, own, users) if is_asked else ()):
                line.runs += 1
                if what:
                    report.note(line, what, str(tried), own.answered_by, cause=own.answered_by)


def attacks(site: Site, request: Asked, own: Run, users: Sequence[str] = ()) -> Iterator[tuple[str, Asked]]:
    """Try each attack on a view, or on a mounted application. Yield what is wrong, or "", with the request."""
    view = own.views[0] if own.views else None
    if view is not None:
        yield from without_a_login(site, request, view)
    yield from open_to_others(site, request, own, users)
    if request.is_safe:
        site.afresh(request)
        yield (CHANGED if site.has_stored else ""), request
    elif view is not None and view.same_site:
        yield from from_elsewhere(site, request, view)
    yield from with_hostile_values(site, request, view)
    if not request.is_safe:  # a URL is in every log
        yield from with_a_secret(site, request, view)
        yield from with_other_words(site, request)
        yield from with_other_numbers(site, request)
    for shorter, longer in long_values(request, view):
        yield from growing(site, shorter, longer)


def without_a_login(site: Site, request: Asked, view: View) -> Iterator[tuple[str, Asked]]:
    """Ask as an anonymous visitor."""
    needs = view.permission if view.permission != PUBLIC else None
    tried = request._replace(user=NOBODY)
    declared = (row[3] for row in site.views if row[3].permission)
    run, stored = site.afresh(tried), site.has_stored
    yield from ((what, tried) for what in failing(run))
    if needs is not None and view in run.views:
        yield f"S1: an anonymous visitor reaches a view that needs {needs!r}", tried
    elif stored and view.permission is None and any((one.permission, one.methods) != READ for one in declared):
        yield "S1: an anonymous visitor changes the database by a view that declares no permission", tried
    elif stored and needs is not None:
        yield f"S1: a request without {needs!r} changes the database", tried
    else:
        yield "", tried


def open_to_others(site: Site, request: Asked, own: Run, users: Sequence[str]) -> Iterator[tuple[str, Asked]]:
    """Ask as others for what belongs to one, send a form as those whose page does not have it, and ask for a
    further page of an object as those to whom its own is refused. Yield what is wrong, or "", with the request.

    own    the run that has told whose it is
    users  further users, who may do nothing with what is another one's
    """
    above, _, name = request.url.partition("?")[0].rpartition("/@@")
    of_objects = [row[3] for row in site.views if row[0] not in (None, Interface)]
    is_further = request.is_safe and name and above and own.user and own.views and own.views[0] in of_objects
    # with headers of --user, the cookies of the page of a form may be those of a login
    page = Asked("GET", above if is_further else "" if site.headers or request.is_safe else request.page)
    is_shown = page.url and own.is_acknowledged and site.afresh(page).is_acknowledged
    does = "sees what only a page that is refused to him leads to"
    does = does if is_further else "sends a form that the page does not show to him"
    for user in dict.fromkeys((STRANGER, NOBODY, *users)):
        tried, others, who = request._replace(user=user), page._replace(user=user), user or "an anonymous visitor"
        if own.owners and user not in own.owners:
            yield is_open(own.owners, site.afresh(tried)), tried
        elif is_shown and user != (own.user or NOBODY) and (is_further or user != STRANGER):
            shown = site.afresh(others)
            has_form = any((one.method, one.url) == request[:2] for one in leading(site, others, shown))
            is_left_out = shown.status in REFUSED if is_further else not has_form
            run = site.afresh(tried)
            is_done = run.status == 200 and run.views == own.views if is_further else run.is_acknowledged
            is_wrong = is_left_out and is_done and (is_further or site.has_stored)
            yield (f"S1: {who} {does}" if is_wrong else ""), tried


def from_elsewhere(site: Site, request: Asked, view: View) -> Iterator[tuple[str, Asked]]:
    """Ask as the browser does that another site has told to."""
    for user in (NOBODY, request.user):
        tried = request.with_headers({"Origin": ELSEWHERE, "Sec-Fetch-Site": "cross-site"})._replace(user=user)
        run = site.afresh(tried)
        who = "a visitor" if user is NOBODY else "a user"
        wrong = f"S23: another site has the browser of {who} call a view that is not cross_site"
        yield (wrong if view in run.views else ""), tried


def with_hostile_values(site: Site, request: Asked, view: View | None) -> Iterator[tuple[str, Asked]]:
    """Ask with values that would be markup, an address, or a line of a header."""
    bodies = [json.dumps(value).encode() for value in VALUES] if request.kind == JSON else []
    hostile = (*HOSTILE, f"{ELSEWHERE}/", ELSEWHERE[5:], *PATHS, *OTHERS.get(request.kind, ()))
    # a visitor goes back to its page, and may see what he has stored
    back = [Asked("GET", request.page, user=request.user)] if request.page else []
    others = (request._replace(body=body) for body in bodies)
    for tried in (*others, *(tried for value in hostile for tried in with_value(request, view, value))):
        run = site.afresh(tried)
        target = urlsplit(run.header("Location"))
        pages = [landed(site, one) for one in (*leading(site, tried, run), *back)] if target.path else []
        if request.kind == MULTIPART:  # the page may lead to the file
            pages += [landed(site, link) for page in pages for link in leading(site, *page) if link.is_safe]
        shown = [run, *(page for _, page in pages)]
        failed = (what for one in shown for what in failing(one))
        yield from ((what, tried) for what in (*failed, *broken_invariants(site)))
        if any(map(is_markup, shown)):
            yield "S7: a page has a value of the visitor as HTML", tried
        elif NAMED in run.body:
            yield "a page shows the file that a value of the visitor names", tried
        elif target.netloc and of_this_site(site.origin, tried.url, target.geturl()) is None:
            yield f"S8: a redirect goes where a value of the visitor says: {run.header('Location')}", tried
        else:
            yield "", tried


def with_other_words(site: Site, request: Asked) -> Iterator[tuple[str, Asked]]:
    """Send a form with other words and dates, and look for each in what is stored and on the page of the form."""
    old = dict(request.fields)
    free = [name for name in old if not is_secret(name) and name not in request.tokens]
    letters = dict(zip(free, cycle(ascii_lowercase), strict=False))
    new = {name: f"prove{letters[name] * 34}ž" for name in free if OURS.search(str(old[name]))}
    new |= {name: ANOTHER_DAY for name in free if old[name] == EXAMPLES["date"]}
    tried = request.with_fields([*{**old, **new}.items()])
    run = site.afresh(tried)
    if not (new and run.is_acknowledged and site.has_stored):
        return
    left = repr(site.copies.values())
    page = Asked("GET", request.page, user=request.user)
    shown = site.ask(page) if page.url else Run()
    left = ESCAPED.sub("ž", f"{left}{shown.body.decode('utf-8', 'replace')}".casefold())
    limited = {given.get("name") for _, given in Tags(shown.body).found if "maxlength" in given}
    form = next((dict(one.fields) for one in leading(site, page, shown) if one[:2] == request[:2]), {})
    is_edited = any(value in form.get(name, "") for name, value in new.items())
    for name, value in new.items():
        is_ours = old[name] in EXAMPLES.values() or OURS.fullmatch(str(old[name]))
        is_old = form.get(name) == old[name] and (is_edited or not is_ours)
        if value not in left and value[:9] in left and name not in limited and value != ANOTHER_DAY:
            yield f"the field {name!r} is cut, and answered {run.status}: it had {len(value)} letters", tried
        elif value not in left and is_old:
            yield f"the field {name!r} is dropped, and answered {run.status}", tried


def with_other_numbers(site: Site, request: Asked) -> Iterator[tuple[str, Asked]]:
    """Send a form with another number in each field that its page hides, such as a price, and look for it in what
    is stored. As that of an object, or of a version, it is refused: the site has none with it."""
    shown = site.afresh(Asked("GET", request.page, user=request.user)) if request.page else Run()
    hidden = Tags(shown.body).hidden()
    names = [name for name, old in request.fields if name in hidden and AMOUNT.fullmatch(str(old))]
    for tried in with_value(request, None, ANOTHER_NUMBER, {*names}.difference(request.tokens).__contains__):
        is_acknowledged = site.afresh(tried).is_acknowledged
        is_stored = is_acknowledged and ANOTHER_NUMBER in re.findall(r"\w+", repr(site.copies.values()))
        wrong = "a number of a hidden field is stored as it is sent: a visitor may send another one"
        yield (wrong if is_stored else ""), tried


def with_a_secret(site: Site, request: Asked, view: View | None) -> Iterator[tuple[str, Asked]]:
    """Ask with a password, and look for it in the logs."""
    formatter = logging.Formatter()
    for tried in with_value(request, view, SECRET, is_secret):
        lengths = [(path, path.stat().st_size) for path in site.copies.logs()]
        told = mock.patch.object(logging.Logger, "isEnabledFor", is_told)
        with quiet(logging.NOTSET), told, mock.patch.object(logging.Logger, "callHandlers") as called:
            site.afresh(tried)
        lines = [formatter.format(call.args[0]) for call in called.call_args_list]
        lines += [path.read_bytes()[length:].decode("latin-1") for path, length in lengths]
        yield ("S25: a secret of the visitor is in a log" if SECRET in "\n".join(lines) else ""), tried


IS_ENABLED = logging.Logger.isEnabledFor


def is_told(logger: logging.Logger, level: int) -> bool:
    """Return whether a logger takes a line: those of the site at any level, which an operator may set."""
    return is_of_the_site(sys._getframe(2).f_code.co_filename) or IS_ENABLED(logger, level)


def seconds(site: Site, request: Asked) -> float:
    """Return the seconds of processor time that a request takes."""
    site.copies.reset()
    began = time.thread_time()
    site.ask(request)
    return time.thread_time() - began


def growing(site: Site, shorter: Asked, longer: Asked) -> Iterator[tuple[str, Asked]]:
    """Yield whether the time grows faster than the length of a value, four times that of the shorter one."""
    took = seconds(site, longer)
    slow = 8 * max(seconds(site, shorter), 0.002) if took > 0.03 else took
    is_slow = took > slow and all(seconds(site, longer) > slow for _ in range(3))
    wrong = "S12: four times the length of a value takes more than eight times as long"
    yield (wrong if took > LONGEST / 2 or is_slow else ""), longer


def long_values(request: Asked, view: View | None) -> Iterator[tuple[Asked, Asked]]:
    """Yield the request with a long value in each of its fields: with a quarter of it, and with all."""
    most = MOST.get(request.method, 0)
    for part, end in LONG:
        texts = (part * (most // len(part) // fraction) + end for fraction in (4, 1))
        shorter, longer = (with_value(request, view, text, bool) for text in texts)
        yield from zip(shorter, longer, strict=True)


def with_value(
    request: Asked, view: View | None, value: Any, chosen: Callable[[str], object] = lambda name: True
) -> Iterator[Asked]:
    """Yield the request with a value in each of its fields, or of the chosen ones, one at a time."""
    fields = request.fields
    is_form = request.kind == FORM or request.is_safe
    names = dict.fromkeys([*dict(fields), *(view.fill.names if is_form and view and view.fill else ())])
    names |= dict.fromkeys(names_in(view, "GET", "params") if request.is_safe and view else ())
    for name in filter(chosen, names):
        more = [] if name in dict(fields) else [(name, value)]
        yield request.with_fields([*((key, put(old, value) if key == name else old) for key, old in fields), *more])
    if request.is_safe and chosen(""):
        path = request.url.partition("?")[0].rstrip("/")
        yield request._replace(url=f"{path}/{quote(value, safe='')}")


def put(old: Any, value: Any) -> Any:
    """Return a value for a field. A text becomes the name of a file; only a file becomes another file."""
    if isinstance(old, tuple) and isinstance(value, str):
        return value, old[1]
    return value if isinstance(old, tuple) == isinstance(value, tuple) else old
