"""``session``: data and messages in a signed cookie, kept if the view returns, and as they were if it fails."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import transaction as transactions
from beaker.middleware import SessionMiddleware
from itsdangerous.timed import TimestampSigner
from webob.exc import HTTPConflict, HTTPSeeOther
from webtest import TestApp

from around_a_view import looking
from asking import ask
from pipeline import Pipeline, Response, element, redirect, view
from pipeline.auth.keys import read_keys
from pipeline.auth.sessions import Session, SignedCookie
from pipeline.elements.authenticate import authenticate
from pipeline.elements.errors import errors
from pipeline.elements.forms import forms
from pipeline.elements.retry import retry
from pipeline.elements.session import SessionRequest, SessionTooLarge, session
from pipeline.elements.transaction import transaction
from pipeline.elements.traverse import traverse
from pipeline.interfaces import ConfigurationError, OrderError
from pipeline.publisher import publisher
from pipeline.testing import FakeDataManager, fault

BROWSER = {"Accept": "text/html"}


class Root(dict[str, Any]):
    """The object of all views here."""


@view(context=Root)
def page(context: Root, request: SessionRequest) -> str:
    return "nothing"


@view(context=Root, name="plain")
def plain(context: Root, request: SessionRequest) -> str:
    return "plain"


@view(context=Root, name="read")
def read(context: Root, request: SessionRequest) -> str:
    return str(dict(request.session))


@view(context=Root, name="show", methods=("GET", "POST"))
def show(context: Root, request: SessionRequest, response: Response, status: int = 200) -> str:
    response.status_int = status
    return "|".join(request.take_messages())


@view(context=Root, name="set")
def set_value(context: Root, request: SessionRequest, name: str = "a", value: str = "1") -> str:
    request.session[name] = value
    return "set"


@view(context=Root, name="add")
def add(context: Root, request: SessionRequest) -> str:
    request.session.setdefault("list", []).append(len(request.session["list"]))
    return "added"


@view(context=Root, name="clear")
def clear(context: Root, request: SessionRequest) -> str:
    request.session.clear()
    return "cleared"


@view(context=Root, name="save", methods=("GET", "POST"))
def save(context: Root, request: SessionRequest, raised: bool = False) -> Any:
    request.flash("Saved.")
    answer = redirect("/show", 303)
    if raised:
        raise answer
    return answer


@view(context=Root, name="fail")
def fail(context: Root, request: SessionRequest, status: int = 500) -> str:
    request.session["a"] = "changed"
    request.flash("Not true.")
    request.take_messages()
    if status == 409:
        raise HTTPConflict()
    raise ZeroDivisionError


@view(context=ZeroDivisionError)
def failed(context: Exception, request: SessionRequest) -> str:
    return f"failed {dict(request.session)} {request.take_messages()}"


class LostError(Exception):
    """Has an error view that changes the session."""


@view(context=Root, name="lost")
def lose(context: Root, request: SessionRequest) -> str:
    raise LostError


@view(context=LostError)
def lost(context: Exception, request: SessionRequest) -> str:
    request.flash("This was lost.")
    return "never shown"


STORED: list[Any] = []
"""What was committed."""


@view(context=Root, name="large")
def large(context: Root, request: Any) -> str:
    FakeDataManager(request.tm, STORED, "x").join()
    request.session["basket"] = "".join(map(chr, range(0x4E00, 0x4E00 + 333))) + "x"
    return "too large"


@view(context=Root, name="show_and_commit")
def show_and_commit(context: Root, request: Any) -> str:
    FakeDataManager(request.tm, STORED, "x", fails={"tpc_vote": ValueError("full")}).join()
    request.session["a"] = 1
    return "|".join(request.take_messages())


@view(context=Root, name="yielding")
def yielding(context: Root, request: SessionRequest) -> Iterator[bytes]:
    request.flash("too late")
    yield b"block"


@view(context=Root, name="stream")
def stream(context: Root, request: SessionRequest, late: bool = False) -> Iterator[bytes]:
    if not late:
        request.session["seen"] = 1
    return blocks(request, late)


def blocks(request: SessionRequest, late: bool) -> Iterator[bytes]:
    yield str(dict(request.session)).encode()
    if late:
        request.flash("too late")


@view(context=Root, name="cached")
def cached(context: Root, request: SessionRequest, response: Response) -> str:
    shown = request.take_messages()
    response.etag, response.conditional_response = "same", True
    response.headers["Cache-Control"] = "public, max-age=60"
    response.headers["Vary"] = "Accept"
    return f"page {shown}"


@pytest.fixture
def keys(tmp_path: Path) -> str:
    return str(tmp_path / "keys")


@pytest.fixture
def make(keys: str) -> Callable[..., Any]:
    """``make(*inside, before=(), **options)``: a site; elements ``before`` stand outside of ``errors``."""

    def make(*inside: Any, before: Any = (), **options: Any) -> Any:
        return Pipeline(
            *before,
            errors(),
            transaction(),
            session(keys=keys, **options),
            forms(),
            *inside,
            traverse(root=Root),
            publisher(scan=(__name__,)),
        )

    return make


@pytest.fixture
def stored() -> list[Any]:
    STORED.clear()
    return STORED


@pytest.fixture
def client(make: Callable[..., Any]) -> TestApp:
    return TestApp(make())


def headers_of(answer: Any) -> set[str]:
    return {name for name, _ in answer.headerlist} - {"Content-Type", "Content-Length"}


def test_a_visitor_without_a_session_gets_nothing(client: TestApp) -> None:
    assert headers_of(client.get("/")) == set()
    client.get("/set")
    assert headers_of(client.get("/")) == set(), "the session was not touched"


def test_a_page_that_reads_the_session_is_private(client: TestApp) -> None:
    for _ in range(2):
        answer = client.get("/read")
        assert headers_of(answer) == {"Vary", "Cache-Control"}, "and nothing is set"
        assert (answer.headers["Vary"], answer.headers["Cache-Control"]) == ("Cookie", "private")
        client.get("/set")


def test_values_are_kept(client: TestApp) -> None:
    client.get("/set?name=a&value=%C3%A4%E2%82%AC")
    client.get("/set?name=b&value=2")
    assert client.get("/read").text == "{'a': 'ä€', 'b': '2'}"
    client.get("/add")
    client.get("/add")
    assert client.get("/read").text == "{'a': 'ä€', 'b': '2', 'list': [0, 1]}", "a change in place counts"
    assert "Set-Cookie" not in client.get("/set?name=b&value=2").headers, "nothing has changed"
    cleared = client.get("/clear")
    assert cleared.headers["Set-Cookie"].startswith("session_data=; Max-Age=0")
    assert client.cookies == {}


def test_how_the_cookie_is_kept(make: Callable[..., Any]) -> None:
    app = make(max_age=60)
    plain = ask(app, "/set").headers["Set-Cookie"]
    assert {"Max-Age=60", "Path=/", "HttpOnly", "SameSite=Lax"} <= set(plain.split("; "))
    secret = ask(app, "/set", **{"wsgi.url_scheme": "https"}).headers["Set-Cookie"]
    assert secret.startswith("__Host-session_data=") and "secure" in secret.split("; ")


def test_a_session_ends(make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    client = TestApp(make(max_age=60))
    later = TimestampSigner("x").get_timestamp() - 122
    with monkeypatch.context() as patch:
        patch.setattr(TimestampSigner, "get_timestamp", lambda self: later)
        client.get("/set")
    assert client.get("/read").text == "{}"


@pytest.mark.parametrize("value", ["x", "", '"', "e30.x.y", "x" * 3000])
def test_a_cookie_that_is_not_ours_is_an_empty_session(make: Callable[..., Any], value: str) -> None:
    assert ask(make(), "/read", HTTP_COOKIE=f"session_data={value}").text == "{}"


@pytest.mark.parametrize(
    "payload", [None, 1, [], [{}], [[], {}], {"a": 1}, ["a", "b"], [{"a": "0.1"}, []], [{"a": 1}, [], 1]]
)
def test_a_value_of_another_shape_is_an_empty_session(make: Callable[..., Any], keys: str, payload: Any) -> None:
    signed = SignedCookie("session_data", "session data ", read_keys(keys), 60).serializer.dumps(payload)
    assert ask(make(), "/read", HTTP_COOKIE=f"session_data={signed}").text == "{}"


def test_a_login_is_not_a_session_of_data(make: Callable[..., Any], keys: str) -> None:
    """The same keys sign both, for another purpose."""
    signed = Session(read_keys(keys), 60, "login").serializer.dumps([{}, ["forged"]])
    assert ask(make(), "/show", HTTP_COOKIE=f"session_data={signed}").text == ""


def test_a_planted_cookie_hides_nothing(make: Callable[..., Any]) -> None:
    sent = ask(make(), "/set").headers["Set-Cookie"].partition(";")[0]
    assert ask(make(), "/read", HTTP_COOKIE=f"session_data=x; {sent}").text == "{'a': '1'}"


# Messages


@pytest.mark.parametrize("address", ["/save", "/save?raised=1"])
def test_a_message_is_shown_once_by_the_next_page(client: TestApp, address: str) -> None:
    answer = client.get(address, status=303)
    assert answer.headers["Vary"] == "Cookie"
    assert client.get("/").text == "nothing"
    assert answer.follow().text == "Saved."
    assert client.get("/show").text == ""
    assert client.cookies == {}, "nothing is left"


def test_messages_survive_further_redirects_and_come_in_their_order(client: TestApp) -> None:
    client.get("/save", status=303)
    client.get("/save", status=303)
    assert client.get("/show").text == "Saved.|Saved."


def test_a_redirect_of_another_element_keeps_a_message(make: Callable[..., Any]) -> None:
    @element
    def leading(next: Any) -> Any:
        def leading(request: SessionRequest, response: Response) -> None:
            if request.path_info == "/old":
                request.flash("This page has moved.")
                raise HTTPSeeOther(location="/show")
            next(request, response)

        return leading

    client = TestApp(make(leading()))
    assert client.get("/old").follow().text == "This page has moved."


def test_a_page_that_shows_a_message_is_not_taken_from_a_cache(client: TestApp) -> None:
    tag = client.get("/cached").headers["ETag"]
    assert client.get("/cached", headers={"If-None-Match": tag}, status=304)
    client.get("/save", status=303)
    shown = client.get("/cached", headers={"If-None-Match": tag}, status=200)
    assert shown.text == "page ['Saved.']"
    assert "ETag" not in shown.headers
    assert shown.headers["Cache-Control"] == "private, max-age=60"
    assert shown.headers["Vary"] == "Accept, Cookie"


def test_the_answer_to_head_takes_no_message(client: TestApp) -> None:
    client.get("/save", status=303)
    assert client.head("/show").headers["Content-Length"] == "6"
    assert client.get("/show").text == "Saved."


def test_a_page_with_problems_shows_its_messages_once(client: TestApp) -> None:
    client.get("/save", status=303)
    assert client.get("/show?status=422", status=422).text == "Saved."
    assert client.get("/show").text == ""


@pytest.mark.parametrize("status", [500, 409])
def test_a_request_that_fails_keeps_the_old_session(client: TestApp, status: int) -> None:
    client.get("/set")
    client.get("/save", status=303)
    answer = client.get(f"/fail?status={status}", status=status)
    assert "Set-Cookie" not in answer.headers
    if status == 500:
        assert answer.text == "failed {'a': '1'} []", "an error view sees the old session, and takes no message"
    assert client.get("/show").text == "Saved."
    assert client.get("/read").text == "{'a': '1'}"


def test_an_error_view_cannot_change_the_session(client: TestApp, caplog: pytest.LogCaptureFixture) -> None:
    client.get("/lost", status=500)
    assert "the session cannot be changed any more: the request has failed" in caplog.text
    assert client.cookies == {}


def test_every_attempt_starts_with_the_session_of_the_browser__R2(make: Callable[..., Any]) -> None:
    conflict = transactions.interfaces.TransientError
    app = make(fault(error=conflict, at="exit", times=2), before=(retry(delay=0),))
    client = TestApp(app)
    client.get("/add")
    assert client.get("/read").text == "{'list': [0]}"
    app = make(fault(error=conflict, at="exit", times=2), before=(retry(delay=0),))
    client.app = app
    client.get("/save", status=303)
    client.app = make(fault(error=conflict, at="exit", times=2), before=(retry(delay=0),))
    assert client.get("/show").text == "Saved.", "attempts that failed have taken nothing, and doubled nothing"
    assert client.get("/show").text == ""


def test_a_failed_commit_keeps_the_old_session(make: Callable[..., Any]) -> None:
    client = TestApp(make())
    client.get("/save", status=303)
    answer = client.get("/show_and_commit", status=500)
    assert "Set-Cookie" not in answer.headers
    assert client.get("/show").text == "Saved."


# Limits, and what cannot be stored


def test_a_session_beyond_the_limit_names_its_keys(
    make: Callable[..., Any], caplog: pytest.LogCaptureFixture, stored: list[Any]
) -> None:
    client = TestApp(make(limit=600))
    client.get("/set?name=small")
    answer = client.get("/large", status=500)
    assert "Set-Cookie" not in answer.headers and stored == [], "nothing is committed"
    [record] = caplog.records
    assert "SessionTooLarge: the session takes 9" in str(record.exc_text)
    assert (
        "option 'limit' of session allows 600. Its values, in bytes: basket 1002, small 3, the messages 2"
        in str(record.exc_text)
    )
    assert client.get("/read").text == "{'small': '1'}"
    assert issubclass(SessionTooLarge, ValueError)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda request: request.session.update(a={1, 2}),
            "session['a'] cannot be stored as JSON: Object of type set",
        ),
        (
            lambda request: request.session.update(a=float("nan")),
            "session['a'] cannot be stored as JSON: Out of range",
        ),
        (
            lambda request: request.session.update(basket={"tea": [{7: 1}]}),
            "session['basket'] has a dict with the key 7, of which JSON would make a text",
        ),
        (lambda request: request.session.update({1: 2}), "session[1]: the name must be a str"),
        (lambda request: request.session.update({"": 2}), "session['']: the name must be a str that is not empty"),
        (lambda request: operator.ior(request.session, {"a": 1}), "'NoneType' object is not callable"),
        (lambda request: request.flash(b"x"), "flash() takes a message, a str, not b'x'"),
    ],
)
def test_what_cannot_be_stored_is_refused(
    make: Callable[..., Any], caplog: pytest.LogCaptureFixture, change: Callable[[Any], object], message: str
) -> None:
    assert ask(make(looking(change)), "/").status == 500
    assert message in caplog.text


# Streams


def test_a_stream_reads_the_session_and_its_cookie_is_decided_before(client: TestApp) -> None:
    answer = client.get("/stream")
    assert answer.text == "{'seen': 1}" and "Set-Cookie" in answer.headers
    assert client.get("/read").text == "{'seen': 1}"


def test_a_stream_that_changes_the_session_later_is_told(
    make: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(RuntimeError):
        ask(make(), "/stream?late=1")
    assert "the session cannot be changed any more: the answer is complete" in caplog.text


def test_a_view_that_yields_is_told(make: Callable[..., Any], caplog: pytest.LogCaptureFixture) -> None:
    """It runs when its first block is needed, after the session was stored."""
    assert ask(make(), "/yielding").status == 500
    assert "the session cannot be changed any more: the answer is complete" in caplog.text


# The place in a pipeline, and its neighbours


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        ("session errors", "a session that is too large is answered"),
        ("session retry", "every attempt starts with the session"),
        ("session transaction", "nothing is committed if the session cannot be stored"),
        ("authenticate session", "the check of a password may use the session"),
        ("traverse session", "traversal hooks and views may use the session"),
    ],
)
def test_its_place(keys: str, order: str, reason: str) -> None:
    elements: dict[str, Any] = {
        "errors": errors(),
        "retry": retry(),
        "transaction": transaction(),
        "session": session(keys=keys),
        "authenticate": authenticate(check=lambda *_: None),
        "traverse": traverse(root=Root),
    }
    outer, inner = order.split()
    with pytest.raises(OrderError, match=reason):
        Pipeline(elements[outer], elements[inner], publisher())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limit": 5000}, "option 'limit' is 5000; browsers store from 1 to 4096 bytes"),
        ({"limit": 0}, "option 'limit' is 0"),
        ({"cookie": "pipeline_login"}, "is the name of the login's cookie"),
        ({"cookie": "a b"}, "is not a token"),
        ({"keys": "/proc/none/keys"}, "keys: /proc/none/keys cannot be made"),
    ],
)
def test_options_that_are_refused(make: Callable[..., Any], keys: str, options: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Pipeline(session(**{"keys": keys, **options}), traverse(root=Root), publisher())


@pytest.mark.parametrize("options", [{}, {"cookie": "site_login"}])
def test_a_login_beside_data(keys: str, options: dict[str, str]) -> None:
    """The same keys sign both cookies."""
    name = options.get("cookie", "pipeline_login")
    check = authenticate(check=lambda request, login, password: login, by=("session",), keys=keys, **options)
    app = Pipeline(
        errors(),
        session(keys=keys),
        forms(),
        check,
        traverse(root=Root),
        publisher(scan=(__name__, "pipeline.auth.login")),
    )
    client = TestApp(app)
    client.post("/@@login", {"login": "ann", "password": "x"}, headers=BROWSER, status=303)
    client.get("/save", status=303)
    assert set(client.cookies) == {name, "session_data", "browser"}
    assert client.get("/show").text == "Saved."
    assert set(client.cookies) == {name, "browser"}


def middleware(app: Any) -> Any:
    """A foreign one, which copies the environ."""
    return lambda environ, start_response: app(dict(environ), start_response)


@pytest.mark.parametrize("outer", [False, True])
def test_beside_a_foreign_middleware(keys: str, outer: bool) -> None:
    around = (session(keys=keys), middleware) if outer else (middleware, session(keys=keys))
    client = TestApp(Pipeline(errors(), *around, forms(), traverse(root=Root), publisher(scan=(__name__,))))
    assert client.get("/save", status=303).follow().text == "Saved."
    assert client.get("/show").text == ""
    client.get("/set")
    client.get("/fail", status=500)
    assert client.get("/read").text == "{'a': '1'}"


def test_it_is_a_mapping(make: Callable[..., Any]) -> None:
    seen: list[Any] = []

    def use(request: Any) -> None:
        data = request.session
        data["b"] = 2
        data["a"] = 1
        del data["b"]
        seen.extend([repr(data), len(data), list(data), "a" in data, data.get("c")])

    ask(make(looking(use)), "/")
    assert seen == ["<session of a>", 1, ["a"], True, None]


def test_sessions_on_the_server_by_beaker(tmp_path: Path) -> None:
    """A foreign middleware: docs/howto/sessions.rst names it."""
    options = {"session.type": "file", "session.data_dir": str(tmp_path), "session.save_accessed_time": False}
    around = partial(SessionMiddleware, config=options)
    keys = str(tmp_path / "keys")
    inner = (around, forms(), traverse(root=Root), publisher(scan=(__name__,)))
    client = TestApp(Pipeline(errors(), session(keys=keys), *inner))
    assert headers_of(client.get("/")) == set()
    client.get("/beaker?" + "x" * 5000)
    assert client.get("/beaker").text == "5000", "more than a cookie has room for"
    [sent] = client.cookies.values()
    assert len(sent) < 100


@view(context=Root, name="beaker")
def beaker(context: Root, request: Any) -> str:
    stored = request.environ["beaker.session"]
    if request.query_string:
        stored["query"] = request.query_string
        stored.save()
    return str(len(stored.get("query", "")))


@pytest.mark.parametrize(("step", "status"), [("read", 200), ("write", 500)])
def test_an_output_filter_reads_the_session_and_does_not_change_it__S24(
    make: Callable[..., Any], step: str, status: int
) -> None:
    """The element has looked at the session already. A change would be lost without a word."""

    @element
    def filters(next: Any) -> Any:
        def late(request: Any, blocks: Any) -> Iterator[bytes]:
            if step == "write":
                request.session["late"] = "lost"
            yield f"{request.session.get('late')}".encode()

        def filters(request: Any, response: Any) -> None:
            next(request, response)
            response.add_filter(partial(late, request))

        return filters

    answer = ask(make(filters()), "/plain")
    assert answer.status == status
    assert status == 500 or (answer.headers["Cache-Control"], answer.headers["Vary"]) == ("private", "Cookie")
