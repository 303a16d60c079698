"""A session belongs to one principal: login and logout begin a new one, and what has ended stays ended (S21)."""

from __future__ import annotations

import json
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ZODB
from BTrees.OOBTree import OOBTree
from transaction.interfaces import TransientError
from webtest import TestApp

from pipeline import Pipeline, Request, Response, element, view
from pipeline.auth import ended
from pipeline.auth.authentication import AuthRequest, begin_session
from pipeline.auth.ended import end_session, end_sessions, generation_of, has_ended
from pipeline.auth.login import log_in
from pipeline.elements.authenticate import authenticate
from pipeline.elements.errors import errors
from pipeline.elements.forms import forms
from pipeline.elements.retry import retry
from pipeline.elements.session import SessionRequest, session
from pipeline.elements.transaction import transaction
from pipeline.elements.traverse import traverse
from pipeline.elements.zodb import close_all, zodb
from pipeline.interfaces import PUBLIC
from pipeline.publisher import publisher
from pipeline.testing import fault

BROWSER = {"Origin": "http://localhost"}


class Root(dict[str, Any]):
    """The object of all views here."""


class VisitorRequest(AuthRequest, SessionRequest):
    """A request of a visitor who may be logged in."""


@view(context=Root)
def show(context: Root, request: VisitorRequest) -> str:
    return f"{request.principal} {dict(request.session)} {request.take_messages()}"


@view(context=Root, name="set")
def set_value(context: Root, request: VisitorRequest, name: str = "basket", value: str = "tea") -> str:
    request.session[name] = value
    request.flash("Set.")
    return "set"


@view(context=Root, name="greet", methods=("POST",), permission=PUBLIC)
def greet(context: Root, request: VisitorRequest, response: Response, name: str) -> str:
    log_in(request, response, name, "x")
    request.session["greeted"] = name
    request.flash(f"Hello {name}.")
    return "greeted"


@view(context=Root, name="late", methods=("POST",), permission=PUBLIC)
def late(context: Root, request: VisitorRequest, response: Response) -> str:
    last = request.session
    log_in(request, response, "ann", "x")
    last["basket"] = "lost"
    return "never shown"


@view(context=Root, name="fail", methods=("POST",), permission=PUBLIC)
def fail(context: Root, request: VisitorRequest, response: Response) -> str:
    log_in(request, response, "ann", "x")
    raise ZeroDivisionError


def check(request: VisitorRequest, login: str, password: str) -> str | None:
    """Everyone is who they say. Counts the logins of a visitor, and shows what it can see."""
    request.session["tries"] = request.session.get("tries", 0) + 1
    SEEN.append(dict(request.session))
    return login if password == "x" else None


SEEN: list[dict[str, Any]] = []


@pytest.fixture
def keys(tmp_path: Path) -> str:
    SEEN.clear()
    return str(tmp_path / "keys")


@pytest.fixture
def make(keys: str) -> Callable[..., TestApp]:
    """``make(*elements, before=, sessions=, check=, realm=, **options of session)``: a browser at a site."""

    def make(
        *elements: Any, before: Any = (), sessions: Any = None, check: Any = check, realm: str = "a", **options: Any
    ) -> TestApp:
        app = Pipeline(
            *before,
            errors(),
            *elements,
            session(keys=keys, **options),
            forms(),
            authenticate(check=check, by=("session", "basic"), keys=keys, sessions=sessions, realm=realm),
            traverse(root=Root),
            publisher(scan=(__name__, "pipeline.auth.login")),
        )
        return TestApp(app)

    return make


@pytest.fixture
def browser(make: Callable[..., TestApp]) -> TestApp:
    return make()


def log_in_as(browser: TestApp, login: str, status: int = 303) -> Any:
    return browser.post("/@@login", {"login": login, "password": "x"}, headers=BROWSER, status=status)


def log_out(browser: TestApp, **fields: str) -> Any:
    return browser.post("/@@logout", fields, headers=BROWSER)


def basic(login: str) -> dict[str, str]:
    return {"Authorization": "Basic " + b64encode(f"{login}:x".encode()).decode()}


# Data


def test_data_from_before_the_login_is_gone__S21(browser: TestApp) -> None:
    browser.get("/set")
    log_in_as(browser, "ann")
    assert browser.get("/").text == "ann {} []"
    log_out(browser)
    assert browser.get("/").text == "None {} []"


def test_data_of_a_login_is_gone_after_it__S21(browser: TestApp) -> None:
    log_in_as(browser, "ann")
    browser.get("/set")
    assert browser.get("/").text == "ann {'basket': 'tea'} ['Set.']"
    log_out(browser)
    assert browser.get("/").text == "None {} []"
    log_in_as(browser, "ann")
    assert browser.get("/").text == "ann {} []", "also for the same principal"


@pytest.mark.parametrize("between", ["login", "logout", "cookie ends", "cookie of the data is copied"])
def test_the_next_visitor_of_a_browser_sees_nothing__S21(browser: TestApp, between: str) -> None:
    log_in_as(browser, "ann")
    browser.get("/set")
    [data] = [cookie for cookie in browser.cookiejar if cookie.name == "session_data"]
    if between == "logout":
        log_out(browser)
    elif between == "cookie ends":
        browser.reset()
        browser.cookiejar.set_cookie(data)
        assert browser.get("/").text == "None {} []"
    log_in_as(browser, "bob")
    if between == "cookie of the data is copied":
        browser.cookiejar.set_cookie(data)
    assert browser.get("/").text == "bob {} []"
    browser.get("/set?value=milk")
    assert browser.get("/").text == "bob {'basket': 'milk'} ['Set.']"


def test_http_basic_changes_the_principal_without_a_login__S21(browser: TestApp) -> None:
    browser.get("/set", headers=basic("ann"))
    assert browser.get("/", headers=basic("bob")).text == "bob {} []"
    assert browser.get("/").text == "None {} []"
    assert browser.get("/", headers=basic("ann")).text == "ann {'basket': 'tea'} ['Set.']"


def test_what_is_read_before_the_principal_is_known_is_the_anonymous_visitors__S21(browser: TestApp) -> None:
    browser.get("/set", headers=basic("ann"))
    browser.get("/", headers=basic("ann"))
    assert SEEN == [{"tries": 1}, {"tries": 1}], "the check sees nothing of ann, and its own change is not ann's"
    assert browser.get("/", headers=basic("ann")).text == "ann {'basket': 'tea'} []"
    browser.reset()
    for tries in (1, 2):
        browser.post("/@@login", {"login": "ann", "password": "wrong"}, headers=BROWSER, status=422)
        assert browser.get("/").text == f"None {{'tries': {tries}}} []"


def test_the_site_names_what_is_kept__S21(make: Callable[..., TestApp]) -> None:
    browser = make(keep=("language", "theme"))
    browser.get("/set?name=language&value=fi")
    browser.get("/set")
    log_in_as(browser, "ann")
    assert browser.get("/").text == "ann {'language': 'fi'} []"
    browser.get("/set?name=theme&value=dark")
    log_out(browser)
    assert browser.get("/").text == "None {'language': 'fi', 'theme': 'dark'} []"


def test_a_login_that_fails_changes_nothing__S21(browser: TestApp) -> None:
    browser.get("/set")
    browser.post("/fail", headers=BROWSER, status=500)
    assert browser.get("/").text == "None {'basket': 'tea'} ['Set.']"


def test_the_request_of_a_login_writes_into_the_new_session__S21(browser: TestApp) -> None:
    browser.get("/set")
    browser.post("/greet", {"name": "ann"}, headers=BROWSER)
    assert browser.get("/").text == "ann {'greeted': 'ann'} ['Hello ann.']"


def test_a_session_from_before_the_login_cannot_be_changed__S21(
    browser: TestApp, caplog: pytest.LogCaptureFixture
) -> None:
    browser.post("/late", headers=BROWSER, status=500)
    assert "a login or logout has begun a new one, which request.session returns" in caplog.text


def test_of_several_cookies_the_one_of_the_principal_counts__S21(make: Callable[..., TestApp]) -> None:
    """A sibling domain can plant another one ahead of it."""
    browser, planting = make(), make()
    planting.get("/set?value=planted", headers=basic("mallory"))
    log_in_as(browser, "ann")
    browser.get("/set")
    ours = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    headers = {"Cookie": f"session_data={planting.cookies['session_data']}; {ours}"}
    assert TestApp(browser.app).get("/", headers=headers).text == "ann {'basket': 'tea'} ['Set.']"


def test_every_attempt_at_a_login_begins_with_the_session_of_the_browser__S21(
    make: Callable[..., TestApp],
) -> None:
    browser = make(keep=("language",))
    browser.get("/set?name=language&value=fi")
    failing = fault(error=TransientError, at="exit", times=2)
    browser.app = make(failing, before=(retry(delay=0),), keep=("language",)).app
    browser.post("/greet", {"name": "ann"}, headers=BROWSER)
    assert browser.get("/").text == "ann {'language': 'fi', 'greeted': 'ann'} ['Hello ann.']"


# The hook


class CartRequest(Request):
    """What ``cart`` adds."""


CARTS: list[str] = []


def forget_cart(request: Request, principal: str | None) -> None:
    CARTS.append(f"{request.path} {principal}")


@element(adds=CartRequest, new_session=forget_cart)
def cart(next: Any) -> Any:
    return next


def test_elements_are_told_of_logins_and_logouts__S21(make: Callable[..., TestApp]) -> None:
    CARTS.clear()
    for browser in (make(cart()), make(cart(), lambda app: lambda *wsgi: app(*wsgi))):
        log_in_as(browser, "ann")
        browser.post("/@@login", {"login": "bob", "password": "wrong"}, headers=BROWSER, status=422)
        log_out(browser)
    assert CARTS == ["/@@login ann", "/@@logout None"] * 2


def test_a_login_of_ones_own_tells_them_too__S21(browser: TestApp) -> None:
    request = Request.blank("/")
    begin_session(request, "ann")  # outside of every pipeline
    assert request.pipeline is None


# Sessions that end before their time


@pytest.fixture(params=["dict", "ZODB"])
def kept(request: pytest.FixtureRequest) -> Iterator[tuple[list[Any], Any, Any]]:
    """The elements of the database, the option ``sessions``, and a function that changes the mapping as another
    process does."""
    if request.param == "dict":
        texts: dict[str, str] = {}
        yield [], lambda request: texts, lambda change: change(texts)
        return
    db = ZODB.DB(None)
    with db.transaction() as connection:
        connection.root()["ended"] = OOBTree()

    def change_it(change: Callable[[Any], None]) -> None:
        with db.transaction() as connection:
            change(connection.root()["ended"])

    yield [zodb(db=db), transaction()], lambda request: request.zodb.root()["ended"], change_it
    close_all()
    db.close()


@pytest.fixture
def two(make: Callable[..., TestApp], kept: Any) -> tuple[TestApp, TestApp]:
    """Two browsers, at two processes of one site, with ann logged in at each."""
    before, sessions, _ = kept
    browsers = tuple(make(*before[1:], before=before[:1], sessions=sessions) for _ in range(2))
    for browser in browsers:
        log_in_as(browser, "ann")
    return browsers[0], browsers[1]


def who(browser: TestApp) -> str:
    return browser.get("/").text.split()[0]


def copy_of(browser: TestApp) -> TestApp:
    """Another browser with a copy of its cookies."""
    copied = TestApp(browser.app)
    for cookie in browser.cookiejar:
        copied.cookiejar.set_cookie(cookie)
    return copied


def test_a_logout_ends_the_copies_of_its_cookie__S21(two: tuple[TestApp, TestApp]) -> None:
    one, other = two
    copied = copy_of(one)
    assert who(copied) == "ann"
    log_out(one)
    assert (who(one), who(copied), who(other)) == ("None", "None", "ann")
    log_in_as(one, "ann")
    assert (who(one), who(copied), who(other)) == ("ann", "None", "ann")


def test_a_login_ends_the_session_that_the_browser_had__S21(two: tuple[TestApp, TestApp]) -> None:
    one, other = two
    copied = copy_of(one)
    log_in_as(one, "bob")
    assert (who(one), who(copied), who(other)) == ("bob", "None", "ann")


def test_to_log_out_everywhere__S21(two: tuple[TestApp, TestApp], make: Callable[..., TestApp]) -> None:
    one, other = two
    copied, bob = copy_of(one), TestApp(one.app)
    log_in_as(bob, "bob")
    log_out(one, everywhere="1")
    assert (who(one), who(copied), who(other), who(bob)) == ("None", "None", "None", "bob")
    log_in_as(one, "ann")
    assert (who(one), who(other)) == ("ann", "None")


def test_a_new_password_and_a_removal_end_all_sessions__S21(two: tuple[TestApp, TestApp], kept: Any) -> None:
    one, other = two
    change = kept[2]
    change(lambda ended: end_sessions(ended, "ann"))
    assert (who(one), who(other)) == ("None", "None")
    log_in_as(one, "ann")
    assert (who(one), who(other)) == ("ann", "None")


def test_another_site_ends_no_session__S21(two: tuple[TestApp, TestApp]) -> None:
    one, _ = two
    one.post("/@@logout", {"everywhere": "1"}, headers={"Origin": "http://evil.example"}, status=403)
    assert who(one) == "ann"


def forum_check(request: VisitorRequest, login: str, password: str) -> str | None:
    """Stands for the check of a site where visitors register themselves."""
    return login


OTHER_USERS = pytest.mark.parametrize("options", [{"check": forum_check}, {"realm": "b"}])


@OTHER_USERS
def test_a_login_of_another_site_with_the_same_keys_is_none__S27(make: Any, options: Any) -> None:
    intranet, forum, again = make(), make(**options), make(**options)
    log_in_as(forum, "ann")
    sent = {"Cookie": "; ".join(f"{name}={value}" for name, value in forum.cookies.items())}
    assert again.get("/", headers=sent).text.startswith("ann")
    assert intranet.get("/", headers=sent).text.startswith("None")


@OTHER_USERS
@pytest.mark.parametrize("login", ["ann", ""])
def test_the_data_of_another_site_with_the_same_keys_is_none__S27(make: Any, options: Any, login: str) -> None:
    """Neither that of a visitor who is not logged in, nor that of a user who has the same name there."""
    intranet, forum, again = make(), make(**options), make(**options)
    for site in (intranet, forum) if login else ():
        log_in_as(site, login)
    forum.get("/@@set?name=role&value=chief")
    for site, seen in ((again, True), (intranet, False)):
        cookies = {**forum.cookies, **{name: one for name, one in site.cookies.items() if name == "pipeline_login"}}
        sent = {"Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items())}
        shown = site.get("/", headers=sent).text
        assert shown.startswith(login or "None") and ("chief" in shown) is seen


def test_without_the_option_a_copy_goes_on_and_nothing_else_is_promised__S21(make: Callable[..., TestApp]) -> None:
    browser = make()
    log_in_as(browser, "ann")
    copied = copy_of(browser)
    refused = browser.post("/@@logout", {"everywhere": "1"}, headers=BROWSER, status=400)
    assert "authenticate has no option 'sessions'" in refused.text and who(browser) == "ann"
    log_out(browser)
    assert (who(browser), who(copied)) == ("None", "ann")


def test_a_longer_age_of_sessions_revives_none_that_has_ended__S21(
    keys: str, kept: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of a session was forgotten when its cookie would have expired by the age that the site had then."""
    before, sessions, _ = kept

    def restarted(age: int) -> TestApp:
        by_session = authenticate(check=check, by=("session",), keys=keys, sessions=sessions, session_age=age)
        parts = [*before[:1], errors(), *before[1:], session(keys=keys), forms(), by_session, traverse(root=Root)]
        return TestApp(Pipeline(*parts, publisher(scan=(__name__, "pipeline.auth.login"))))

    browser, now = restarted(600), int(time.time())
    log_in_as(browser, "ann")
    copied = {"Cookie": "; ".join(f"{name}={value}" for name, value in browser.cookies.items())}
    log_out(browser)
    later = restarted(8 * 3600)
    for seconds in (60, 5_000, 15_000):
        monkeypatch.setattr(time, "time", lambda seconds=seconds: now + seconds)
        assert later.get("/", headers=copied).text.startswith("None"), seconds
        log_in_as(later, "ann")
        log_out(later)
        assert later.get("/", headers=copied).text.startswith("None"), seconds


def test_what_has_ended_is_kept_until_its_cookie_would_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: dict[str, str] = {}
    now = int(time.time())
    end_session(texts, "ann", "first", now + 10)
    assert has_ended(texts, "ann", "first", 0) and not has_ended(texts, "ann", "second", 0)
    assert not has_ended(texts, "bob", "first", 0)
    monkeypatch.setattr(time, "time", lambda: now + 11)
    end_session(texts, "ann", "second", now + 20)
    assert json.loads(texts["ann"]) == [0, {"first": now + 10, "second": now + 20}]
    monkeypatch.setattr(time, "time", lambda: now + 16)
    end_session(texts, "ann", "second", now + 20)
    assert json.loads(texts["ann"]) == [0, {"second": now + 20}]
    end_sessions(texts, "ann")
    assert json.loads(texts["ann"]) == [1, {}] and generation_of(texts, "ann") == 1
    assert has_ended(texts, "ann", "third", 0) and not has_ended(texts, "ann", "third", 1)


def test_a_principal_has_a_text_of_limited_length__S21(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ended, "MOST_ENDED", 3)
    texts: dict[str, str] = {}
    for number in range(4):
        end_session(texts, "ann", str(number), int(time.time()) + 1000)
    assert json.loads(texts["ann"]) == [1, {}]
    assert all(has_ended(texts, "ann", str(number), 0) for number in range(5))


# A principal


@pytest.mark.parametrize("principal", [5, False, b"ann", ("ann",)])
def test_a_principal_that_is_not_a_str_is_refused_with_the_name_of_the_check(
    make: Callable[..., TestApp], caplog: pytest.LogCaptureFixture, principal: Any
) -> None:
    def odd(request: Request, login: str, password: str) -> Any:
        return principal

    browser = make(check=odd)
    browser.get("/", headers=basic("ann"), status=500)
    log_in_as(browser, "ann", status=500)
    said = f"TypeError: {odd.__module__}.{odd.__qualname__} returned a {type(principal).__name__}, and a principal"
    assert caplog.text.count(said) == 2
    assert "session" not in browser.cookies


def test_a_check_that_returns_false_is_still_limited(make: Callable[..., TestApp]) -> None:
    browser = make(check=lambda request, login, password: False)
    answers = [browser.get("/", headers=basic("ann"), expect_errors=True).status_int for _ in range(12)]
    assert answers == [500] * 10 + [429] * 2
