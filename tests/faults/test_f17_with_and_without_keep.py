"""F17: two visitors ask the same pages with and without ``keep``, and each pair of answers is the same (R14, S24).

A page is a random program: what it reads of the request, the database and the policy, which filters it adds, what
it sets, and how code of others looks at the environ. Between the requests the database and a directory of users
change. The judge is the pipeline without ``keep``.
"""

from __future__ import annotations

import io
import random
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import webob
from persistent import Persistent
from persistent.mapping import PersistentMapping
from ZODB.DB import DB
from ZODB.DemoStorage import DemoStorage
from zope.interface import implementer

from faults.conftest import Figures
from faults.length import length
from pipeline import Pipeline, Response, view
from pipeline.auth.authentication import AuthRequest
from pipeline.auth.policy import LocalGrants
from pipeline.database.changes import Changes, Reads
from pipeline.elements import keep as element_of_keep
from pipeline.elements.authenticate import authenticate
from pipeline.elements.compress import compress
from pipeline.elements.errors import errors
from pipeline.elements.forms import forms
from pipeline.elements.keep import keep
from pipeline.elements.session import SessionRequest, session
from pipeline.elements.shield import ShieldRequest, shield
from pipeline.elements.transaction import transaction
from pipeline.elements.traverse import traverse
from pipeline.elements.zodb import close_all, zodb
from pipeline.http.noting import Noting
from pipeline.interfaces import ISecurityPolicy
from pipeline.publisher import publisher

PAIRS = length(20_000, 200_000)
AT_MOST = 12_000
"""Pairs within which each bug must be found."""
NONCE = re.compile("nonce-([^']+)'")
DIRECTORY: set[str] = set()
"""Users who may see guarded pages. It stands for LDAP or a file."""


class Text(Persistent):  # type: ignore[misc]
    """A part of a page."""

    value = "one"


class Page(Persistent):  # type: ignore[misc]
    """A page: the names of the steps of its program."""

    def __init__(self, steps: tuple[str, ...]) -> None:
        self.steps, self.text, self.more = steps, Text(), PersistentMapping()
        self.__grants__ = {"ann": frozenset({"see"})}


class Folder(PersistentMapping):  # type: ignore[misc]
    """The root of the site."""


class Filter:
    """An output filter: does a step when the page is made already."""

    def __init__(self, step: Callable[[], object]) -> None:
        self.step = step

    def __call__(self, blocks: Any) -> Any:
        yield from blocks
        yield str(self.step()).encode()


def header(name: str, value: str) -> Callable[..., str]:
    def header(page: Any, request: Any, response: Any) -> str:
        response.headers[name] = value
        return name

    return header


def sets_header(page: Any, request: Any, response: Any) -> str:
    before = request.headers.get("X-A")
    request.headers["X-A"] = "set"
    return f"{before} {request.headers['X-A']}"


def fails(page: Any, request: Any, response: Any) -> str:
    response.status_int = 404 if request.headers.get("X-B") else 200
    return "status"


def deactivates(page: Any, request: Any, response: Any) -> str:
    value = page.text.value
    page.text._p_deactivate()
    return str(value)


STEPS: dict[str, Callable[[Any, Any, Any], object]] = {
    "text": lambda page, request, response: page.text.value,
    "keys": lambda page, request, response: sorted(page.more),
    "deactivates": deactivates,
    "header": lambda page, request, response: request.headers.get("X-A"),
    "another header": lambda page, request, response: request.headers.get("X-B"),
    "sets a header": sets_header,
    "cookie": lambda page, request, response: request.cookies.get("a"),
    "query": lambda page, request, response: request.GET.get("q"),
    "form": lambda page, request, response: request.form.get("q"),
    "principal": lambda page, request, response: request.principal,
    "host": lambda page, request, response: request.application_url,
    "address": lambda page, request, response: request.remote_addr,
    "language": lambda page, request, response: request.headers.get("Accept-Language", "").partition(",")[0],
    "plain environ": lambda page, request, response: request.environ.get("HTTP_X_A"),
    "whole environ": lambda page, request, response: sorted(key for key in request.environ if key[:6] == "HTTP_X"),
    "webob": lambda page, request, response: webob.Request(request.environ).headers.get("X-B"),
    "nonce": lambda page, request, response: f"<script nonce={request.csp_nonce}>",
    "source": lambda page, request, response: request.allow_source("img-src", f"{request.headers.get('X-A')}.org"),
    "may be cached": header("Cache-Control", "private"),
    "no-store": header("Cache-Control", "no-store"),
    "cookie is set": lambda page, request, response: response.set_cookie("seen", request.headers.get("X-A") or ""),
    "session": lambda page, request, response: request.session.get("basket"),
    "status": fails,
    "unkept": lambda page, request, response: setattr(request, "unkept", "my reason"),
    "many names": lambda page, request, response: request.headers.get(f"X-{request.headers.get('X-B')}"),
    "filter: cookie": lambda page, request, response: response.add_filter(
        Filter(lambda: response.set_cookie("late", request.principal or ""))
    ),
    "filter: nonce": lambda page, request, response: response.add_filter(Filter(lambda: request.csp_nonce)),
    "filter: header": lambda page, request, response: response.add_filter(
        Filter(lambda: request.headers.get("X-A"))
    ),
    "filter: session": lambda page, request, response: response.add_filter(
        Filter(lambda: request.session.get("basket"))
    ),
}
FIXED = [("may be cached", "nonce"), ("may be cached", "filter: nonce"), ("deactivates", "may be cached")]


def run(page: Page, request: Any, response: Response) -> str:
    if hasattr(request, "kept"):
        request.keep = 60
    return " | ".join(str(STEPS[name](page, request, response)) for name in page.steps)


@view(context=Page)
def anybody(page: Page, request: AuthRequest, response: Response) -> str:
    return run(page, request, response)


@view(context=Page, name="guarded", permission="see")
def guarded(page: Page, request: AuthRequest, response: Response) -> str:
    return run(page, request, response)


@view(context=Folder, name="fill")
def fill(context: Folder, request: SessionRequest) -> str:
    request.session["basket"] = request.headers["X-A"]
    return "filled"


@implementer(ISecurityPolicy)
class Listed:
    """A policy that asks a directory of users."""

    def permits(self, request: Any, permission: str, context: Any) -> bool:
        return request.principal in DIRECTORY


def check(request: Any, login: str, password: str) -> str | None:
    return login if password == "right" else None


class Pairs:
    """A site with and without ``keep``, on one database."""

    def __init__(self, place: Path, seed: int) -> None:
        self.chance = chance = random.Random(seed)
        self.db = DB(DemoStorage())
        with self.db.transaction() as connection:
            connection.root()["site"] = folder = Folder()
            others = [tuple(chance.choices(list(STEPS), k=chance.choice((2, 2, 3)))) for _ in STEPS]
            programs = [*FIXED, *((step,) for step in STEPS), *others]
            chance.shuffle(programs)
            folder.update({f"p{number}": Page(program) for number, program in enumerate(programs)})
        self.pages = len(programs)
        policies = (LocalGrants, Listed)
        self.plain = [self.site(place, policy, keeps=False) for policy in policies]
        self.kept = [self.site(place, policy, keeps=True) for policy in policies]
        self.counts: Counter[str] = Counter()
        self.nonces: set[str] = set()
        self.visitors = [
            {"HTTP_X_A": "a1", "HTTP_ACCEPT_LANGUAGE": "de,en", "REMOTE_ADDR": "10.0.0.1", "HTTP_COOKIE": "a=1"},
            {"HTTP_X_A": "a2", "HTTP_X_B": "1", "HTTP_HOST": "b.example", "HTTP_COOKIE": "a=2"},
        ]
        self.visitors[1]["QUERY_STRING"] = "q=1"
        for visitor, name in zip(self.visitors, ("ann", "ben"), strict=True):
            visitor["HTTP_AUTHORIZATION"] = "Basic " + b64encode(f"{name}:right".encode()).decode()
            _, headers, _ = self.get(self.plain[0], "/fill", visitor)
            [cookie] = [value for key, value in headers if key == "Set-Cookie"]
            visitor["HTTP_COOKIE"] += f"; {cookie.partition(';')[0]}"

    def site(self, place: Path, policy: Any, keeps: bool) -> Pipeline:
        keys = str(place / "keys")
        return Pipeline(
            shield(),
            zodb(db=self.db, root="site"),
            errors(),
            transaction(),
            session(keys=keys),
            forms(),
            authenticate(check=check, policy=policy),
            *([keep()] if keeps else []),
            traverse(max_query=2_000),
            compress(),
            publisher(scan=(__name__,)),
        )

    def get(self, app: Any, path: str, sent: dict[str, str]) -> tuple[str, list[tuple[str, str]], bytes]:
        environ = {**BASE, "PATH_INFO": path, **sent, "wsgi.input": io.BytesIO(), "wsgi.errors": io.StringIO()}
        started: list[Any] = []
        body = app(environ, lambda status, headers, exc_info=None: started.append((status, headers)))
        try:
            return (*started[-1], b"".join(body)) if started else ("", [], b"")
        finally:
            getattr(body, "close", lambda: None)()

    def ask(self) -> str:
        """Ask one pair. Return how the answers differ, or ""."""
        chance = self.chance
        if chance.random() < 0.05:
            self.change()
        sent = dict(chance.choice(self.visitors))
        for name in list(sent):
            if chance.random() < 0.15:
                del sent[name]
        if chance.random() < 0.1:
            sent["HTTP_ACCEPT_ENCODING"] = "gzip"
        if chance.random() < 0.2:
            sent["QUERY_STRING"] = chance.choice(("q=2", "fbclid=3", "q=1&a=" + "x" * 3_000))
        if chance.random() < 0.1:
            sent["REQUEST_METHOD"] = "HEAD"
        path = f"/p{int(self.pages * chance.random() ** 2)}{chance.choice(('', '', '/guarded'))}"
        which = chance.randrange(2)
        answers = [self.get(apps[which], path, sent) for apps in (self.plain, self.kept)]
        plain, kept = map(comparable, answers)
        self.counts[plain[0][:3]] += 1
        nonces = {found for name, value in answers[1][1] for found in NONCE.findall(value)}
        if nonces & self.nonces:
            return f"{path} {sent}: the nonce of another answer"
        self.nonces |= nonces
        return "" if plain == kept else f"{path} {sent}: {plain} and {kept}"

    def change(self) -> None:
        DIRECTORY.symmetric_difference_update({self.chance.choice(("ann", "ben"))})
        with self.db.transaction() as connection:
            page = connection.root()["site"][f"p{int(self.pages * self.chance.random() ** 2)}"]
            kind = self.chance.randrange(3)
            if kind == 0:
                page.text.value = f"{self.chance.random()}"
            elif kind == 1:
                page.more[f"{len(page.more)}"] = 1
            else:
                page.__grants__ = {self.chance.choice(("ann", "ben")): frozenset({"see"})}

    def run(self, pairs: int) -> tuple[int, str]:
        """Return how many pairs were asked until two differed, and how; "" if none did."""
        for number in range(1, pairs + 1):
            if different := self.ask():
                return number, different
        return pairs, ""

    def close(self) -> None:
        close_all()
        self.db.close()


BASE: dict[str, Any] = {
    "REQUEST_METHOD": "GET", "SCRIPT_NAME": "", "QUERY_STRING": "",
    "SERVER_NAME": "a.example", "SERVER_PORT": "80", "HTTP_HOST": "a.example", "REMOTE_ADDR": "10.0.0.9",
    "SERVER_PROTOCOL": "HTTP/1.1", "wsgi.version": (1, 0), "wsgi.url_scheme": "http", "wsgi.multithread": False,
    "wsgi.multiprocess": False, "wsgi.run_once": False,
}  # fmt: skip


def comparable(answer: tuple[str, list[tuple[str, str]], bytes]) -> tuple[Any, ...]:
    """An answer without its ETag, which keep adds, its length, and the value of its nonce."""
    status, headers, body = answer
    nonces = {found for _, value in headers for found in NONCE.findall(value)}
    text, listed = body.decode("latin-1"), sorted(repr(pair) for pair in headers if pair[0].lower() not in IGNORED)
    for nonce in nonces:
        text, listed = text.replace(nonce, "N"), [one.replace(nonce, "N") for one in listed]
    return status, listed, re.sub("logged as [0-9a-f]+", "", text)


IGNORED = ("etag", "content-length")


@pytest.fixture
def pairs(place: Path) -> Any:
    made = Pairs(place, 17)
    yield made
    made.close()


@pytest.mark.timeout(3600)
def test_the_answers_are_the_same(figures: Figures, pairs: Pairs) -> None:
    count, different = pairs.run(PAIRS)
    kept = sum((app.offered["kept_pages"].counts for app in pairs.kept), Counter[str]())
    said = ", ".join(f"{n:,} {text}" for text, n in kept.most_common() if "not kept" not in text)
    figures("F17", "with and without keep", f"{count:,} pairs; {said}; {different or '0 differ'}")
    assert different == ""
    assert kept["sent again"] > PAIRS / 20 and pairs.counts["403"] and pairs.counts["404"]


Set = Callable[[Any, str, Any], object]


def without(set: Set, requests: Any, *names: str) -> None:
    """Have an element say of no attribute that an answer with it is not kept."""
    set(requests, "__unkept__", tuple((name, lambda value: "") for name, _ in requests.__unkept__))


def never(set: Set, key: Any) -> None:
    """Have the environ not note a key."""
    note = Noting.note

    def forget(self: Any, name: Any) -> None:
        note(self, name)
        if name == key:
            self.noted.discard(name)

    set(Noting, "note", forget)


def unjudged(set: Set, text: str) -> None:
    """Have keep not take a reason for one, and look at none behind it."""
    reasons = element_of_keep.reasons
    set(element_of_keep, "reasons", lambda *given: takewhile(lambda one: one != text, reasons(*given)))


def before_the_filters(set: Set) -> None:
    """Judge the page before its filters have run, as keep did."""
    reasons, finish = element_of_keep.reasons, element_of_keep.finish_in_memory
    set(element_of_keep, "finish_in_memory", lambda *given: None)

    def early(request: Any, response: Any, *given: Any) -> Iterator[str]:
        yield from reasons(request, response, *given)
        finish(request, response)

    set(element_of_keep, "reasons", early)


def whole_environ(set: Set) -> None:
    """Give code of the site the plain environ, and do not count it as read."""
    reasons = element_of_keep.reasons

    def judged(request: Any, response: Any, noting: Noting, *given: Any) -> Iterator[str]:
        noting.noted.discard("*")
        return reasons(request, response, noting, *given)  # type: ignore[no-any-return]

    set(element_of_keep, "reasons", judged)


def is_principal(part: Any) -> bool:
    return isinstance(part, tuple) and part[:1] == ("principal",)


def without_principal(set: Set) -> None:
    address_of = element_of_keep.address_of

    def address(request: Any, response: Any) -> Any:
        found = address_of(request, response)
        return found if isinstance(found, str) else tuple(part for part in found if not is_principal(part))

    set(element_of_keep, "address_of", address)


BUGS: dict[str, Callable[[Set], object]] = {
    "objects are not checked": lambda set: set(Changes, "touch", lambda self, oids, since: False),
    "a deactivated object": lambda set: set(Reads, "are_complete", True),
    "a header is not noted": lambda set: never(set, "HTTP_X_A"),
    "a query is not noted": lambda set: never(set, "QUERY_STRING"),
    "the address is not noted": lambda set: never(set, "REMOTE_ADDR"),
    "the language is not noted": lambda set: never(set, "HTTP_ACCEPT_LANGUAGE"),
    "a cookie is kept": lambda set: unjudged(set, "a cookie"),
    "the principal is not in the key": without_principal,
    "the status is not judged": lambda set: unjudged(set, "its status is not 200"),
    "a nonce is kept": lambda set: without(set, ShieldRequest),
    "a policy that asks others": lambda set: without(set, AuthRequest),
    "judged before the filters": before_the_filters,
    "the whole environ is not noted": whole_environ,
    "a long query": lambda set: set(element_of_keep, "LONGEST_QUERY", 1 << 30),
}


@pytest.mark.parametrize("name", BUGS)
def test_control(name: str, figures: Figures, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    BUGS[name](monkeypatch.setattr)
    element_of_keep.declared_in.cache_clear()
    made = Pairs(place, 17)
    try:
        count, different = made.run(AT_MOST)
        figures("F17", f"control: {name}", f"found after {count:,} pairs" if different else "not found")
        assert different
    finally:
        made.close()
        element_of_keep.declared_in.cache_clear()
