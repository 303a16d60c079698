"""Two visitors at two processes of one site, in any order of what they and the site do: who sees what afterwards?

The judge is ``Model``, which knows no cookie, no page that is kept and no transaction.
"""

from __future__ import annotations

import random
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import webob
import ZODB
from BTrees.OOBTree import OOBTree
from persistent import Persistent
from persistent.mapping import PersistentMapping

from pipeline import Pipeline, Response, view
from pipeline.auth.ended import end_sessions
from pipeline.auth.login import log_in, log_out
from pipeline.auth.policy import EVERYONE, LOGGED_IN, Group, LocalGrants
from pipeline.database.changes import Changes
from pipeline.elements.authenticate import authenticate
from pipeline.elements.compress import compress
from pipeline.elements.errors import errors
from pipeline.elements.forms import forms
from pipeline.elements.keep import address_of, keep
from pipeline.elements.session import SessionCookies, session
from pipeline.elements.transaction import transaction
from pipeline.elements.traverse import traverse
from pipeline.elements.vhost import vhost
from pipeline.elements.zodb import close_all, zodb
from pipeline.interfaces import PUBLIC
from pipeline.publisher import publisher

NAMES = ("ann", "bob", "cy")
GROUPS = ("editors", "readers")
PAGES = ("plain", "stream", "basket", "groups")

OFTEN = {"look": 80, "log in": 8, "log out": 3, "everywhere": 1, "password": 3, "remove": 1}
OFTEN |= {"grant": 8, "group": 3, "text": 8, "fill": 5, "copy": 3}
"""How often a thing is done, beside the others."""


class Site(PersistentMapping):  # type: ignore[misc]
    """The root: its pages, its users and what has ended."""


class Page(Persistent):  # type: ignore[misc]
    """A page that is kept, and that is for some visitors alone."""


@view(context=Page, permission="view")
def show(context: Page, request: Any) -> Any:
    request.keep = 60
    told = f"{context.text} for {request.principal} at {request.application_url}"
    if context.__name__ == "basket":
        told += f" with {request.session.get('basket')} {request.take_messages()}"
    if context.__name__ == "groups":
        told += f" in {sorted(request.groups)}"
    return iter([told.encode()]) if context.__name__ == "stream" else told


@view(context=Site, name="in", methods=("POST",), permission=PUBLIC)
def enter(context: Site, request: Any, response: Response, login: str, password: str) -> str:
    return "in" if log_in(request, response, login, password) else "out"


@view(context=Site, name="out", methods=("POST",), permission=PUBLIC)
def leave(context: Site, request: Any, response: Response, everywhere: bool) -> str:
    log_out(request, response, everywhere=everywhere)
    return "out"


@view(context=Site, name="fill", methods=("POST",), permission=PUBLIC)
def fill(context: Site, request: Any, what: str) -> str:
    request.session["basket"] = what
    request.flash(what)
    return "filled"


def site_of(request: Any) -> Any:
    return request.zodb.root()["site"]


def check(request: Any, login: str, password: str) -> str | None:
    return login if site_of(request)["passwords"].get(login) == password else None


class Model:
    """What each visitor may see. A browser has an account for each address, by http and by https."""

    def __init__(self) -> None:
        self.passwords: dict[str, str] = {}
        self.groups: dict[str, set[str]] = {name: set() for name in NAMES}
        self.grants: dict[str, set[Any]] = {name: set() for name in PAGES}
        self.texts = dict.fromkeys(PAGES, "0")
        self.sessions: dict[str, str] = {}
        """The principals of the sessions that go on, by their cookies."""
        self.baskets: dict[Any, tuple[str | None, str | None, list[str]]] = {}
        """Owner, basket and messages by browser and address."""

    def may_see(self, who: str | None, page: str) -> bool:
        holders = {EVERYONE} if who is None else {EVERYONE, LOGGED_IN, who, *map(Group, self.groups[who])}
        return not holders.isdisjoint(self.grants[page])

    def end_all(self, who: str) -> None:
        self.sessions = {cookie: principal for cookie, principal in self.sessions.items() if principal != who}

    def basket_of(self, place: Any, who: str | None) -> tuple[str | None, list[str]]:
        owner, basket, messages = self.baskets.get(place, (None, None, []))
        return (basket, messages) if owner == who else (None, [])

    def page(self, page: str, place: Any, who: str | None, url: str) -> str:
        told = f"{self.texts[page]} for {who} at {url}"
        if page == "basket":
            basket, messages = self.basket_of(place, who)
            told += f" with {basket} {messages}"
            if messages:
                self.baskets[place] = (who, basket, [])
        return told + (f" in {sorted(self.groups[who]) if who else []}" if page == "groups" else "")


class World:
    """The site, its visitors, and the model."""

    def __init__(self, keys: str, seed: int) -> None:
        self.random, self.model, self.done = random.Random(seed), Model(), Counter[str]()
        self.db = ZODB.DB(None)
        with self.db.transaction() as connection:
            site = connection.root()["site"] = Site(passwords=PersistentMapping(), members=PersistentMapping())
            site["ended"], site.__parent__ = OOBTree(), None
            for name in PAGES:
                site[name] = page = Page()
                page.text, page.__name__, page.__parent__, page.__grants__ = "0", name, site, PersistentMapping()
        self.apps = [self.process(keys) for _ in range(2)]
        self.jars: list[dict[Any, str]] = [{}, {}]
        self.known: dict[Any, tuple[str, str]] = {}
        """The ETag and the body that each browser has last seen at an address."""
        self.copies: list[dict[Any, str]] = []

    def process(self, keys: str) -> Pipeline:
        by = authenticate(
            check=check, by=("session", "basic"), keys=keys, policy=LocalGrants, failures=100_000,
            sessions=lambda request: site_of(request)["ended"],
            groups=lambda request: site_of(request)["members"].get(request.principal, ()),
        )  # fmt: skip
        outer = vhost(trusted=("127.0.0.1",), accept=("X-Forwarded",), allowed_hosts=("*",))
        inner = (errors(), transaction(), session(keys=keys), forms(), by, keep(), traverse(), compress())
        return Pipeline(outer, zodb(db=self.db, root="site"), *inner, publisher(scan=(__name__,)))

    def change(self, change: Any) -> None:
        """Change the site as another process does."""
        with self.db.transaction() as connection:
            change(connection.root()["site"])

    def ask(self, place: Any, path: str, fields: Any = None, jar: Any = None, **headers: str) -> webob.Response:
        browser, scheme, prefix = place
        asked = webob.Request.blank(path, POST=fields, environ={"REMOTE_ADDR": "127.0.0.1"})
        asked.headers.update({"X-Forwarded-Proto": scheme, "X-Forwarded-Host": "h", "Origin": f"{scheme}://h"})
        asked.headers.update({"X-Forwarded-Prefix": prefix} if prefix else {})
        asked.headers.update({name.replace("_", "-"): value for name, value in headers.items() if value})
        sent = self.jars[browser] if jar is None else jar
        cookies = (f"{one[2]}={text}" for one, text in sent.items() if one[:2] == place[1:])
        asked.headers["Cookie"] = "; ".join(cookies)
        answer = asked.get_response(self.random.choice(self.apps))
        for cookie in answer.headers.getall("Set-Cookie") if jar is None else ():
            name, _, text = cookie.partition(";")[0].partition("=")
            self.jars[browser][scheme, prefix, name] = text
        return answer

    def login_of(self, place: Any, jar: Any = None) -> str:
        cookies = (self.jars[place[0]] if jar is None else jar).items()
        return next((text for one, text in cookies if one[:2] == place[1:] and "login" in one[2]), "")

    def step(self, number: int) -> None:
        """Do one thing, and judge it."""
        choose, model = self.random.choice, self.model
        place = choose((0, 1)), choose(("http", "https")), choose(("", "/p"))
        who, name, page = model.sessions.get(self.login_of(place)), choose(NAMES), choose(PAGES)
        what = self.random.choices(list(OFTEN), list(OFTEN.values()))[0]
        self.done[what] += 1
        if what == "look":
            self.look(place, page)
        elif what == "log in":
            before = self.login_of(place)
            password = choose((model.passwords.get(name, ""), "wrong"))
            answer = self.ask(place, "/in", {"login": name, "password": password})
            if answer.text == "in":
                model.sessions.pop(before, None)
                model.sessions[self.login_of(place)] = name
                model.baskets[place] = (name, None, [])
        elif what in ("log out", "everywhere"):
            before = self.login_of(place)
            self.ask(place, "/out", {"everywhere": str(what == "everywhere")})
            model.sessions.pop(before, None)
            model.baskets[place] = (None, None, [])
            if what == "everywhere" and who is not None:
                model.end_all(who)
        elif what in ("password", "remove"):
            model.end_all(name)
            model.passwords.pop(name, None)
            if what == "password":
                model.passwords[name] = str(number)
            passwords = dict(model.passwords)
            self.change(lambda site: (site["passwords"].clear(), site["passwords"].update(passwords)))
            self.change(lambda site: end_sessions(site["ended"], name))
        elif what == "grant":
            holder = choose((*NAMES, *map(Group, GROUPS), LOGGED_IN, EVERYONE))
            model.grants[page] ^= {holder}
            grants = dict.fromkeys(model.grants[page], ("view",))
            self.change(lambda site: (site[page].__grants__.clear(), site[page].__grants__.update(grants)))
        elif what == "group":
            model.groups[name] ^= {choose(GROUPS)}
            self.change(lambda site: site["members"].update({name: sorted(model.groups[name])}))
        elif what == "text":
            model.texts[page] = str(number)
            self.change(lambda site: setattr(site[page], "text", str(number)))
        elif what == "fill":
            self.ask(place, "/fill", {"what": str(number)})
            model.baskets[place] = (who, str(number), [*model.basket_of(place, who)[1], str(number)])
        else:
            self.copies.append({one: text for one, text in self.jars[place[0]].items() if "login" in one[2]})

    def look(self, place: Any, page: str) -> None:
        """Ask for a page, with one's own cookies, with a copy of some login, or with a password."""
        model, jar, password = self.model, None, ""
        if self.copies and self.random.random() < 0.2:
            jar, page = self.random.choice(self.copies), "plain" if page == "basket" else page
        who = model.sessions.get(self.login_of(place, jar))
        if who is None and self.random.random() < 0.2:
            login, right = self.random.choice(NAMES), self.random.random() < 0.7
            known = model.passwords.get(login)
            who = login if right and known is not None else None
            password = "Basic " + b64encode(f"{login}:{known if right else 'x'}".encode()).decode()
        seen = self.known.get((*place, page))
        tag = seen[0] if seen and self.random.random() < 0.6 else ""
        coding = self.random.choice(("", "gzip"))
        answer = self.ask(
            place, f"/{page}", None, jar, Authorization=password, If_None_Match=tag, Accept_Encoding=coding
        )
        asked = f"{page} of {place} as {who}: {answer.status}"
        self.done[answer.status] += 1
        assert (answer.status_int in (200, 304)) is model.may_see(who, page), asked
        if answer.status_int in (200, 304):
            if answer.content_encoding:
                answer.decode_content()
            body = answer.text if answer.status_int == 200 or seen is None else seen[1]
            assert body == model.page(page, place, who, f"{place[1]}://h{place[2]}"), asked
            assert who is None or "private" in answer.headers["Cache-Control"], asked
            if "ETag" in answer.headers:
                self.known[*place, page] = answer.headers["ETag"], body


@pytest.fixture
def keys(tmp_path: Path) -> Iterator[str]:
    yield str(tmp_path / "keys")
    close_all()


@pytest.mark.parametrize("seed", range(6))
def test_each_visitor_sees_what_is_for_this_visitor__S21_S26(seed: int, keys: str) -> None:
    world = World(keys, seed)
    for number in range(600):
        world.step(number)
    assert min(world.done["200 OK"], world.done["401 Unauthorized"]) > 15


def without_principal(request: Any, response: Any) -> Any:
    """Return the key of a page as if it were for all principals."""
    address = address_of(request, response)
    return address if isinstance(address, str) else tuple(one for one in address if one[:1] != ("principal",))


@pytest.mark.parametrize(
    ("where", "name", "fault"),
    [
        ("pipeline.auth.sessions", "has_ended", lambda *arguments: False),
        (Changes, "touch", lambda *arguments: False),
        (SessionCookies, "begin", lambda *arguments: None),
        ("pipeline.elements.keep", "address_of", without_principal),
    ],
)
def test_a_fault_is_found(where: Any, name: str, fault: Any, keys: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: each of these would show a visitor what is not for this visitor, or is not so any more."""
    if isinstance(where, str):
        monkeypatch.setattr(f"{where}.{name}", fault)
    else:
        monkeypatch.setattr(where, name, fault)
    with pytest.raises(AssertionError, match=" of "):
        for seed in range(20):
            world = World(keys, seed)
            for number in range(600):
                world.step(number)
