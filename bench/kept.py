"""The suite ``kept``: a page that is sent again, beside the same page made, and beside what others know of a page.

The home page of etc/deploy.ini is the first table. For the others, each framework serves the same thousand pages.
They are read by Zipf's law, with a change to any of them for each hundred reads, and a hundred reads in a second of
a clock that is moved on by hand. A page is stale if it lacks a change that was made before the request.
"""

from __future__ import annotations

import html
import os
import random
import tempfile
import time
from bisect import bisect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import accumulate
from typing import Any
from unittest import mock

from persistent import Persistent
from ZODB.DB import DB
from ZODB.DemoStorage import DemoStorage

from bench.default import INI, _access_log
from bench.measure import HEADERS, App, Contender, Figure, Result, Table, compare, environ, flat, get
from pipeline import Pipeline, Request, view
from pipeline.elements.keep import KeepRequest

PAGES, READS, PER_WRITE, PER_SECOND, SECONDS = 1_000, 40_000, 100, 100, 60
MADE_BY_US = "pipeline without keep"
RULE = "the rule of plone.app.caching"
KeepRequest.keep = 3_600  # as if each view said so
CHANGES = [0] * PAGES
"""How often each page was changed. Frameworks without a database show this."""


def kept(rounds: int = 60, seconds: float = 0.02) -> Result:
    with _access_log(os.devnull):
        of_home = compare(home(), rounds, seconds)
    shares = {RULE: dict(zip(("sent again", "stale"), _by_the_rule(), strict=True))}
    contenders = []
    for name, make in PEERS.items():
        app, change = make()
        shares[name] = _shares(app, change)
        contenders.append(Contender(name, app, environ("/p1"), None))
    pages = compare(contenders, rounds, seconds)  # the caches have the page of the first request
    return {
        "home": flat("The home page of etc/deploy.ini", of_home, "made"),
        "page": flat("One of the pages: made, or sent again by those that keep it", pages, MADE_BY_US),
        "shares": Table("Reads with a write per 100 reads", "%", shares),
    }


def home() -> list[Contender]:
    """The home page of etc/deploy.ini: made, made and kept, sent again, and as a 304."""
    from pipeline.paste import load

    directory = tempfile.mkdtemp(prefix="bench-kept-")
    text = INI.read_text().replace(" traverse base", " keep traverse base")
    with open(f"{directory}/kept.ini", "w", encoding="utf-8") as ini:
        ini.write(f"{text}\n[filter:keep]\nuse = egg:wsgi-pipeline#keep\n")
    uri = f"file://{directory}/Data.fs?blobstorage_dir={directory}/blobs"
    plain, again = (
        load(f"config:{path}", zodb_uri=uri, session_keys=f"{directory}/keys")
        for path in (INI, f"{directory}/kept.ini")
    )
    page = environ("/") | {"HTTP_ACCEPT_ENCODING": HEADERS["HTTP_ACCEPT_ENCODING"]}
    etag = dict([get(again, page) for _ in range(3)][2][1])["ETag"]
    pages = again.offered["kept_pages"]

    def miss(*asked: Any) -> Any:
        pages.clear(pages.changes)
        return again(*asked)

    return [
        Contender("made", plain, page, None),
        Contender("made and kept", miss, page, None),
        Contender("sent again", again, page, None),
        Contender("sent again, 304", again, page | {"HTTP_IF_NONE_MATCH": etag}, None, status="304"),
    ]


def text_of(number: int, changes: int) -> str:
    """A page, which begins with the number of its changes."""
    rows = "".join(f"<tr><td>{html.escape(f'{number} & {row}')}</td></tr>" for row in range(150))
    return f"{changes} <table>{rows}</table>"


def _reads() -> Iterator[tuple[int, int | None]]:
    """Yield the page that is read, and the one that is changed before it."""
    chance = random.Random(28)
    weights = list(accumulate(1 / rank for rank in range(1, PAGES + 1)))
    for number in range(READS):
        changed = chance.randrange(PAGES) if number % PER_WRITE == 0 else None
        yield bisect(weights, chance.random() * weights[-1]), changed


def _by_the_rule() -> tuple[Figure, Figure]:
    """A page is sent again until anything in the catalog has changed. Calculated, since Plone is not installed."""
    known: dict[int, int] = {}
    again = writes = 0
    for page, changed in _reads():
        writes += changed is not None
        again += known.get(page) == writes
        known[page] = writes
    return Figure.of([100 * again / READS]), Figure.of([0.0])


def _shares(app: App, change: Callable[[int], None]) -> dict[str, Figure]:
    """The share of the reads that got a page again, and of those that got a page without its last change."""
    asked = [environ(f"/p{number}") for number in range(PAGES)]
    again = stale = 0
    with _clock() as now:
        for page, changed in _reads():
            now[0] += 1 / PER_SECOND
            if changed is not None:
                change(changed)
            before = MADE[0]
            body = get(app, asked[page])[2]
            again += MADE[0] == before
            stale += int(body.partition(b" ")[0]) != CHANGES[page]
    return {"sent again": Figure.of([100 * again / READS]), "stale": Figure.of([100 * stale / READS])}


@contextmanager
def _clock() -> Iterator[list[float]]:
    """A clock that is moved on by hand."""
    now = [time.time()]
    with mock.patch("time.time", lambda: now[0]), mock.patch("time.monotonic", lambda: now[0]):
        yield now


MADE = [0]
"""How many pages were made."""


def made(path: str) -> str:
    MADE[0] += 1
    number = int(path[2:])
    return text_of(number, CHANGES[number])


def note(number: int) -> None:
    CHANGES[number] += 1


class Page(Persistent):  # type: ignore[misc]
    def __init__(self, number: int) -> None:
        self.number, self.changes = number, CHANGES[number]


@view(context=Page)
def page(context: Page, request: Request) -> str:
    MADE[0] += 1
    return text_of(context.number, context.changes)


def _pipeline(keeps: bool) -> tuple[App, Callable[[int], None]]:
    from pipeline.elements.errors import errors
    from pipeline.elements.keep import keep
    from pipeline.elements.transaction import transaction
    from pipeline.elements.traverse import traverse
    from pipeline.elements.zodb import zodb
    from pipeline.publisher import publisher

    db = DB(DemoStorage(), cache_size=10_000)
    with db.transaction() as connection:
        connection.root().update({f"p{number}": Page(number) for number in range(PAGES)})

    def change(number: int) -> None:
        note(number)
        with db.transaction() as connection:
            connection.root()[f"p{number}"].changes = CHANGES[number]

    inner = [keep()] if keeps else []
    app = Pipeline(zodb(db=db), errors(), transaction(), *inner, traverse(), publisher(scan=(__name__,)))
    return app, change


def _pyramid() -> tuple[App, Callable[[int], None]]:
    from pyramid.config import Configurator
    from pyramid.response import Response

    config = Configurator()
    config.add_route("page", "/{name}")
    config.add_view(lambda request: Response(made(request.path)), route_name="page", http_cache=SECONDS)
    return config.make_wsgi_app(), note


def _falcon() -> tuple[App, Callable[[int], None]]:
    import falcon

    class Resource:
        def on_get(self, request: Any, response: Any, name: str) -> None:
            response.content_type = "text/html; charset=utf-8"
            response.text = made(request.path)

    app = falcon.App()
    app.add_route("/{name}", Resource())
    return app, note


def _django(keeps: bool) -> tuple[App, Callable[[int], None]]:
    import django
    from django.conf import settings
    from django.core.handlers.wsgi import WSGIHandler
    from django.http import HttpResponse
    from django.urls import re_path

    if not settings.configured:
        cache = {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "OPTIONS": {"MAX_ENTRIES": 10_000}}
        settings.configure(
            ALLOWED_HOSTS=["*"],
            CACHES={"default": cache},
            CACHE_MIDDLEWARE_SECONDS=SECONDS,
            ROOT_URLCONF=(re_path("^p", lambda request: HttpResponse(made(request.path))),),
        )
        django.setup()
    names = ("UpdateCacheMiddleware", "FetchFromCacheMiddleware") if keeps else ()
    settings.MIDDLEWARE = [f"django.middleware.cache.{name}" for name in names]
    return WSGIHandler(), note


PEERS: dict[str, Callable[[], tuple[App, Callable[[int], None]]]] = {
    MADE_BY_US: lambda: _pipeline(False),
    "Pyramid": _pyramid,
    "Falcon": _falcon,
    "pipeline with keep": lambda: _pipeline(True),
    "Django": lambda: _django(False),
    "Django with its cache": lambda: _django(True),
}
