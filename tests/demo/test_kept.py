"""A form that is sent after the session ended: what was typed is there again after the login."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from webtest import TestApp, Upload

from pipeline import Pipeline, Request
from pipeline.elements.authenticate import authenticate
from pipeline.elements.errors import errors
from pipeline.elements.forms import forms
from pipeline.elements.retry import retry
from pipeline.elements.session import session
from pipeline.elements.transaction import transaction as commit
from pipeline.elements.traverse import traverse
from pipeline.elements.zodb import zodb
from pipeline.publisher import publisher
from pipeline_demo import check
from pipeline_demo.views import kept

TYPED = ' first line\r\n<b>second</b> & "third" ü€\r\n'
_numbers = itertools.count()


@pytest.fixture
def password(known_password: str) -> str:
    return known_password


@pytest.fixture
def browser(password: str, no_documentation: None, tmp_path: Path) -> TestApp:
    """A browser at a site with sessions, and with a second login."""

    def or_eve(request: Request, login: str, given: str) -> str | None:
        return "eve" if (login, given) == ("eve", "eve's own") else check(request, login, given)

    keys = tmp_path / "keys"
    keys.write_text("k" * 32)
    keys.chmod(0o600)
    app = Pipeline(
        retry(delay=0),
        zodb(uri=f"memory://kept-{next(_numbers)}", root="pipeline_demo:root"),
        errors(),
        commit(),
        session(keys=str(keys)),
        forms(max_memory=8 * 1024 * 1024),
        authenticate(check=or_eve, by=("session", "basic"), keys=str(keys), failures=4),
        traverse(),
        publisher(scan=("pipeline_demo",)),
    )
    environ = {"HTTP_ACCEPT": "text/html", "HTTP_ORIGIN": "http://localhost"}
    return TestApp(app, extra_environ=environ)


def log_in(browser: TestApp, password: str, login: str = "admin", **fields: str) -> Any:
    return browser.post("/@@login", {"login": login, "password": password, **fields})


def form_of(browser: TestApp, password: str, address: str = "/@@add-document", **fields: str) -> Any:
    """A form on a page, filled in by a visitor whose session has ended since."""
    log_in(browser, password)
    form = form_on(browser.get(address))
    for name, value in fields.items():
        form[name] = value
    browser.reset()
    return form


def form_on(page: Any) -> Any:
    """The form of a page that is neither the search nor the logout."""
    return next(form for form in page.forms.values() if form.method == "post" and "logout" not in form.action)


def test_what_was_typed_is_there_again_after_the_login(browser: TestApp, password: str) -> None:
    form = form_of(browser, password, title="Kept", name="kept", text=TYPED)
    asked = form.submit(status=401)
    assert asked.html.h1.text == "Please log in" and "there again" in asked.text
    assert asked.headers["Cache-Control"] == "no-store"
    login = form_on(asked)
    login["login"], login["password"] = "admin", "wrong"
    again = form_on(login.submit(status=422))
    again["login"], again["password"] = "admin", password
    page = again.submit(status=200)
    assert page.html.h1.text == "What you typed" and "<b>second" not in page.text
    assert page.html.textarea.text.strip("\n") == "Kept"
    browser.get("/kept", status=404)
    stored = form_on(page).submit(status=303).follow()
    assert stored.html.h1.text == "Kept"
    text = browser.get("/kept", headers={"Accept": "application/json"}).json["text"]
    assert text.splitlines() == TYPED.splitlines()


def test_a_form_with_a_problem_shows_it_when_it_is_sent_again(browser: TestApp, password: str) -> None:
    login = form_on(form_of(browser, password, title="", text="typed").submit(status=401))
    login["login"], login["password"] = "admin", password
    again = form_on(login.submit()).submit(status=422)
    assert form_on(again)["text"].value.strip() == "typed"


def test_a_form_is_kept_while_logins_are_limited(browser: TestApp, password: str) -> None:
    form = form_of(browser, password, title="Kept", text="typed")
    page = form.submit(status=401)
    for status in (422, 422, 422, 422, 429):
        login = form_on(page)
        login["login"], login["password"] = "admin", "wrong"
        page = login.submit(status=status)
    assert int(page.headers["Retry-After"]) > 0 and page.html.h1.text == "Please wait a moment"
    assert "typed" in form_on(page)["kept"].value


def test_a_form_that_another_site_made_is_not_kept(browser: TestApp, password: str) -> None:
    """A browser keeps the session's cookie back then, so that it looks as if the session had ended."""
    log_in(browser, password)
    browser.reset()
    for token in ("", "x", "a.b.c"):
        page = browser.post("/@@add-document", {"title": "Forged", "text": "evil", "token": token}, status=401)
        assert "kept" not in page.text and "evil" not in page.text


def test_the_form_of_another_login_is_not_kept(browser: TestApp, password: str) -> None:
    """An attacker has a token too, for a login of the attacker's own."""
    login = form_on(form_of(browser, password, title="Kept", text="typed").submit(status=401))
    login["login"], login["password"] = "eve", "eve's own"
    assert login.submit(status=303).location.endswith("/@@add-document")
    # What the login page carries along is a client's word: it is judged again.
    for kept_text in ("[]", "{}", "[[1, 2]]", '[["token", "x"]]', "[" * 100_000, "null"):
        log_in(browser, "eve's own", "eve", kept=kept_text).follow(status="*")


def test_files_are_chosen_again(browser: TestApp, password: str) -> None:
    form = form_of(browser, password, "/@@upload")
    form["file"] = [Upload("a.txt", b"bytes")]
    login = form_on(form.submit(status=401))
    assert "bytes" not in login["kept"].value
    login["login"], login["password"] = "admin", password
    again = form_on(login.submit()).submit(status=422)
    assert "choose them once more" in again.text


def test_what_is_too_large_is_not_kept(browser: TestApp, password: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MAX_KEPT", 1000)
    page = form_of(browser, password, title="Kept", text="x" * 1000).submit(status=401)
    assert "kept" not in page.text and page.html.h1.text == "Please log in"


def test_the_longest_text_is_kept(browser: TestApp, password: str) -> None:
    text = ("€" * 100 + "\n") * 3_400
    login = form_on(form_of(browser, password, title="Long", text=text).submit(status=401))
    login["login"], login["password"] = "admin", password
    assert form_on(login.submit()).submit(status=303).follow().html.h1.text == "Long"


def test_a_program_gets_the_error_alone(browser: TestApp, password: str) -> None:
    form = form_of(browser, password, title="Kept", text="typed")
    page = form.submit(status=401, headers={"Accept": "application/json"})
    assert "typed" not in page.text and page.content_type.endswith("json")
    assert "WWW-Authenticate" in page.headers
