"""S22: a known browser or address gets in, whatever others do, and an attack does not get more guesses."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator
from itertools import count, cycle, islice
from pathlib import Path
from typing import Any

import pytest
from transaction.interfaces import TransientError
from webob import Request as WebObRequest

from pipeline import Pipeline, element, view
from pipeline.auth import limiter
from pipeline.elements.authenticate import authenticate
from pipeline.elements.errors import errors
from pipeline.elements.retry import retry
from pipeline.elements.traverse import traverse
from pipeline.elements.vhost import vhost
from pipeline.interfaces import Handler
from pipeline.publisher import publisher

HOUR = 3600
PER_HOUR = 130
"""Guesses of an account in the first hour, as docs/howto/authentication.rst states for the defaults."""
HOME = "192.0.2.1"
ELSEWHERE = "198.51.100.7"


class Folder(dict[str, Any]):
    """What is published."""


@view(context=Folder)
def show(context: Any, request: Any) -> str:
    return str(request.principal)


@element
def failing_with(next: Handler, *, errors: Callable[[], list[Exception]]) -> Handler:
    def failing_with(request: Any, response: Any) -> None:
        if found := errors():
            raise found.pop()
        next(request, response)

    return failing_with


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


class Site:
    """A site with logins, and the guesses that reached its check function."""

    def __init__(self, keys: Path, *outer: Any, **options: Any) -> None:
        self.guesses: list[str] = []
        self.refusals: list[Exception] = []
        """What the check raises next."""
        self.conflicts: list[Exception] = []
        """What the element inside of ``authenticate`` raises next."""
        self.app = Pipeline(
            *outer,
            errors(),
            authenticate(check=self.check, by=("session", "basic"), keys=str(keys), **options),
            failing_with(errors=self.conflicts_now),
            traverse(root=Folder),
            publisher(scan=(__name__, "pipeline.auth.login")),
        )

    def conflicts_now(self) -> list[Exception]:
        return self.conflicts

    def check(self, request: Any, login: str, password: str) -> str | None:
        if self.refusals:
            raise self.refusals.pop()
        if password == "right":
            return login.lower()
        self.guesses.append(login)
        return None

    def log_in(self, login: str, password: str, address: str, cookies: str = "", **environ: str) -> Any:
        """Send the form of the login page."""
        environ = {"REMOTE_ADDR": address, "HTTP_ORIGIN": "http://localhost", "HTTP_COOKIE": cookies, **environ}
        request = WebObRequest.blank("/@@login", environ, POST={"login": login, "password": password})
        return request.get_response(self.app)

    def ask(self, login: str, password: str, address: str) -> Any:
        """Send the password by HTTP basic, as a program does."""
        sent = "Basic " + b64encode(f"{login}:{password}".encode()).decode()
        request = WebObRequest.blank("/", {"REMOTE_ADDR": address, "HTTP_AUTHORIZATION": sent})
        return request.get_response(self.app)


def cookies_of(answer: Any) -> str:
    """Return the cookies as the browser sends them from now on, without that of the session: it has logged out."""
    pairs = [cookie.partition(";")[0] for cookie in answer.headers.getall("Set-Cookie")]
    return "; ".join(pair for pair in pairs if not pair.startswith("pipeline_login="))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(limiter, "time", clock)
    return clock


@pytest.fixture
def site(tmp_path: Path, clock: Clock) -> Site:
    return Site(tmp_path / "keys")


def addresses(number: int) -> Iterator[str]:
    """Yield so many addresses of IPv4 and IPv6, again and again."""
    several = [f"2001:db8:{n:x}::1" if n % 2 else f"203.0.{n // 256}.{n % 256}" for n in range(number)]
    return cycle(several)


@pytest.mark.parametrize("number", [1, 1000])
def test_the_owner_gets_in_from_a_known_browser_during_an_attack(number: int, site: Site, clock: Clock) -> None:
    """For two hours somebody guesses every 3 seconds, from one address or from a thousand."""
    known = cookies_of(site.log_in("ann", "right", HOME))
    per_hour = []
    for _ in range(2):
        site.guesses.clear()
        for attempt, address in enumerate(islice(addresses(number), HOUR // 3)):
            assert site.log_in("ann", "guess", address).status_int in (422, 429)
            if attempt % 100 == 99:
                assert site.log_in("ann", "right", ELSEWHERE, known).status_int == 303, attempt
                assert site.ask("ann", "right", HOME).text == "ann", "a program at an address that is known"
            clock.now += 3
        per_hour.append(len(site.guesses))
    assert 100 < per_hour[0] <= PER_HOUR and per_hour[1] <= 120
    site.log_in("ann", "guess", "203.0.113.1")
    assert site.log_in("ann", "right", "203.0.113.2").status_int == 429, "a browser that is not known has to wait"


def test_a_known_browser_has_a_count_of_its_own(site: Site, clock: Clock) -> None:
    known = cookies_of(site.log_in("ann", "right", HOME))
    for _ in range(10):
        assert site.log_in("ann", "guess", ELSEWHERE, known).status_int == 422
    for _ in range(10):  # then it is one of the others
        assert site.log_in("ann", "guess", ELSEWHERE, known).status_int == 422
    assert site.log_in("ann", "right", ELSEWHERE, known).status_int == 429
    assert site.ask("ann", "right", HOME).text == "ann"
    clock.now += 30
    assert site.log_in("ann", "right", ELSEWHERE, known).status_int == 303


def test_logging_in_again_begins_no_new_count(site: Site, clock: Clock) -> None:
    """Somebody who knew the password once has no more guesses by having logged in often."""
    known = cookies_of(site.log_in("ann", "right", HOME))
    again = cookies_of(site.log_in("ann", "right", ELSEWHERE, known))
    for number in range(20):
        assert site.log_in("ann", "guess", "203.0.113.1", (known, again)[number % 2]).status_int == 422
    for cookie in (known, again):
        assert site.log_in("ann", "guess", "203.0.113.1", cookie).status_int == 429


def test_all_known_browsers_of_an_account_share_a_limit_too(site: Site, clock: Clock) -> None:
    browsers = [cookies_of(site.log_in("ann", "right", HOME)) for _ in range(40)]
    for cookie in browsers:
        for _ in range(10):
            site.log_in("ann", "guess", ELSEWHERE, cookie)
    assert len(site.guesses) == 100 + 10, "ten times as many as for one browser, and then those of the unknown"


def test_a_browser_is_known_for_the_logins_that_succeeded_in_it(site: Site, clock: Clock) -> None:
    """S22: another account, even with a name that is another spelling, makes no browser known for this one."""
    known = cookies_of(site.log_in("josé", "right", ELSEWHERE))
    for _ in range(10):
        site.log_in("jose", "guess", ELSEWHERE, known)
    assert site.log_in("jose", "guess", ELSEWHERE, known).status_int == 429
    assert site.log_in("josé", "right", "203.0.113.1", known).status_int == 303, "its own count is not used up"


def test_a_browser_of_several_users_is_known_for_each(site: Site, clock: Clock) -> None:
    cookies = ""
    for name in ("ann", "ben", "eve"):
        cookies = cookies_of(site.log_in(name, "right", HOME, cookies))
    for name in ("ann", "ben", "eve"):
        for address in islice(addresses(30), 30):
            site.log_in(name, "guess", address)
        assert site.log_in(name, "right", ELSEWHERE).status_int == 429
        assert site.log_in(name, "right", ELSEWHERE, cookies).status_int == 303
    for number in range(10):
        cookies = cookies_of(site.log_in(f"visitor {number}", "right", HOME, cookies))
    assert len(cookies) < 1000


@pytest.mark.parametrize("changed", ["another letter", ".", "browser=", "browser=W10.aa.bb"])
def test_a_cookie_that_this_site_has_not_signed_is_not_believed(changed: str, site: Site, clock: Clock) -> None:
    known = cookies_of(site.log_in("ann", "right", HOME))
    for _ in range(10):
        site.log_in("ann", "guess", ELSEWHERE)
    if changed == "another letter":
        changed = "y" if known[-5] == "x" else "x"
    forged = known[:-5] + changed + known[-4:] if len(changed) == 1 else changed
    assert site.log_in("ann", "right", "203.0.113.1", forged).status_int == 429


def test_a_browser_that_is_known_to_another_site_with_the_same_keys_is_none__S27(
    site: Site, clock: Clock, tmp_path: Path
) -> None:
    """Anybody may register there under a name of this site."""
    forum = Site(tmp_path / "keys", realm="forum")
    known = cookies_of(forum.log_in("ann", "right", HOME))
    for _ in range(10):
        site.log_in("ann", "guess", ELSEWHERE)
        forum.log_in("ann", "guess", ELSEWHERE)
    assert forum.log_in("ann", "right", "203.0.113.1", known).status_int == 303
    assert site.log_in("ann", "right", "203.0.113.1", known).status_int == 429


def test_a_session_is_no_known_browser_and_a_known_browser_no_session(site: Site, clock: Clock) -> None:
    answer = site.log_in("ann", "right", HOME)
    pairs = dict(line.partition(";")[0].split("=", 1) for line in answer.headers.getall("Set-Cookie"))
    assert set(pairs) == {"pipeline_login", "browser"}
    swapped = f"pipeline_login={pairs['browser']}; browser={pairs['pipeline_login']}"
    request = WebObRequest.blank("/", {"REMOTE_ADDR": HOME, "HTTP_COOKIE": swapped})
    assert request.get_response(site.app).text == "None"
    for _ in range(10):
        site.log_in("ann", "guess", ELSEWHERE)
    assert site.log_in("ann", "right", "203.0.113.1", swapped).status_int == 429


# Addresses


def test_an_address_of_its_own_stops_guessing_many_names(site: Site, clock: Clock) -> None:
    for number in range(10):
        site.log_in(f"name {number}", "guess", ELSEWHERE)
    refused = site.log_in("ben", "right", ELSEWHERE)
    assert refused.status_int == 429 and "from your network" in refused.text
    assert site.log_in("ben", "right", "203.0.113.1").status_int == 303


PRIVATE = ["10.1.2.3", "192.168.0.1", "172.17.0.1", "169.254.1.1", "100.64.0.1", "fd00::1", "::ffff:10.0.0.1"]


@pytest.mark.parametrize("peer", ["127.0.0.1", "::1", "", "localhost", *PRIVATE])
def test_an_address_that_a_proxy_hides_is_not_counted(peer: str, site: Site, clock: Clock) -> None:
    """Behind a proxy that is not trusted all visitors have one address."""
    for number in range(10):
        assert site.log_in(f"nobody {number}", "guess", peer).status_int == 422
    assert site.log_in("ann", "right", peer).status_int == 303


def test_a_limit_for_the_site_takes_the_place_of_a_hidden_address(site: Site, clock: Clock) -> None:
    """S22: an X-Forwarded-For of the visitor, which nobody trusts, does not switch it off."""
    known = cookies_of(site.log_in("ann", "right", "127.0.0.1"))
    numbers = count()
    for number in islice(numbers, 100):
        forwarded = f"203.0.113.{number}"
        answer = site.log_in(f"nobody {number}", "guess", "127.0.0.1", HTTP_X_FORWARDED_FOR=forwarded)
        assert answer.status_int == 422
    refused = site.log_in("ben", "right", "127.0.0.1", HTTP_X_FORWARDED_FOR="203.0.113.7")
    assert refused.status_int == 429 and "on this site" in refused.text
    assert refused.headers["Retry-After"] == "3"
    assert site.log_in("ann", "right", "127.0.0.1", known).status_int == 303
    assert site.log_in("ben", "right", HOME).status_int == 303, "an address that distinguishes a visitor"
    clock.now += 3
    assert site.log_in("ben", "right", "127.0.0.1").status_int == 303


@pytest.mark.parametrize("told", ["", "10.0.0.2, 10.0.0.1", "unknown", "_hidden"])
@pytest.mark.parametrize("peer", ["10.0.0.1", "203.0.113.9"])
def test_a_trusted_proxy_that_hides_its_visitors(told: str, peer: str, tmp_path: Path, clock: Clock) -> None:
    """It has no header with an address, or only those of other proxies."""
    trusting = vhost(trusted=("10.0.0.0/8", "203.0.113.9"), accept=("X-Forwarded",), allowed_hosts=("*",))
    site = Site(tmp_path / "keys", trusting)
    headers = {"HTTP_X_FORWARDED_FOR": told} if told else {}
    for number in range(10):
        assert site.log_in(f"nobody {number}", "guess", peer, **headers).status_int == 422
    assert site.log_in("ann", "right", peer, **headers).status_int == 303


@pytest.mark.parametrize("visitor", ["198.51.100.7", "192.168.7.7", "127.0.0.2"])
def test_a_trusted_proxy_that_tells_its_visitors(visitor: str, tmp_path: Path, clock: Clock) -> None:
    site = Site(tmp_path / "keys", vhost(trusted=("unix",), accept=("X-Forwarded",), allowed_hosts=("*",)))
    for number in range(10):
        assert site.log_in(f"nobody {number}", "guess", "", HTTP_X_FORWARDED_FOR=visitor).status_int == 422
    assert site.log_in("ann", "right", "", HTTP_X_FORWARDED_FOR=visitor).status_int == 429
    assert site.log_in("ann", "right", "", HTTP_X_FORWARDED_FOR="203.0.113.1").status_int == 303


# The page


def test_a_conflict_makes_no_further_guess_of_one(tmp_path: Path, clock: Clock) -> None:
    """A page that every visitor may change, and a password that was changed: its saving was a 429 after ten
    conflicts, and the account was shut for new browsers."""
    site = Site(tmp_path / "keys", retry(), failures=2)
    site.conflicts = [TransientError("a conflict") for _ in range(5)]
    assert site.ask("ada", "old", ELSEWHERE).text == "None" and len(site.guesses) == 6
    assert site.ask("ada", "older", ELSEWHERE).text == "None", "the second guess"
    assert site.ask("ada", "oldest", ELSEWHERE).status_int == 429


def test_a_guess_of_a_later_attempt_is_one(tmp_path: Path, clock: Clock) -> None:
    """The first attempt may have failed before it came to the password, or in the check."""
    site = Site(tmp_path / "keys", retry(), failures=2)
    for guess in range(2):
        site.refusals = [TransientError("a conflict")]
        assert site.ask("ada", f"guess {guess}", ELSEWHERE).text == "None"
    assert site.ask("ada", "right", ELSEWHERE).status_int == 429


def test_the_page_says_why_and_when_to_try_again(site: Site, clock: Clock) -> None:
    for _ in range(10):
        site.log_in("<ann>", "guess", ELSEWHERE)
    clock.now += 5
    answer = site.log_in("<ann>", "right", HOME)
    assert answer.status_int == 429 and answer.headers["Retry-After"] == "25"
    assert answer.headers["Cache-Control"] == "no-store" and "Set-Cookie" not in answer.headers
    assert "tried for this name, by you or by others. Please try again in 25 seconds." in answer.text
    assert "You need not wait in a browser where you have logged in with this name before" in answer.text
    assert 'value="&lt;ann&gt;"' in answer.text, "the form is there, with the name"
    clock.now += 24
    assert "in 1 second." in site.log_in("<ann>", "right", HOME).text
    clock.now += 1
    assert site.log_in("<ann>", "right", HOME).status_int == 303


def test_a_long_wait_is_said_in_minutes(tmp_path: Path, clock: Clock) -> None:
    site = Site(tmp_path / "keys", failures=1, interval=100)
    site.log_in("ann", "guess", ELSEWHERE)
    assert "Please try again in 2 minutes." in site.log_in("ann", "right", HOME).text
    refused = site.ask("ann", "right", HOME)
    assert refused.status_int == 429 and "Please try again in 2 minutes." in refused.text
