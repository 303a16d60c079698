"""The inspector: what it notes of requests, and what its pages show to the holder of the key (S17)."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import re
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from persistent.mapping import PersistentMapping
from sqlalchemy import text
from transaction.interfaces import TransientError
from webob import Request as Asked
from webob.exc import HTTPFound
from zope.interface import implementer

from asking import served
from pipeline import Pipeline, Response, element, view
from pipeline.elements.errors import errors
from pipeline.elements.forms import forms
from pipeline.elements.inspector import inspector
from pipeline.elements.log import log
from pipeline.elements.retry import retry
from pipeline.elements.shield import shield
from pipeline.elements.sql import sql
from pipeline.elements.transaction import transaction
from pipeline.elements.traverse import traverse
from pipeline.elements.zodb import zodb
from pipeline.explaining import recording
from pipeline.explaining.recording import Part, Record
from pipeline.http import debug_key
from pipeline.inspector.blocked import ask_for_reports
from pipeline.inspector.explaining import noticed_beside
from pipeline.interfaces import ConfigurationError, IPublishTraverse, OrderError
from pipeline.publisher import publisher
from pipeline.telling.secrets import masked_query, masked_text, told, told_header, told_variable
from tools.conftest import CODE, INI, Site

KEY = "k" * 40
COOKIE = f"{debug_key.COOKIE}={KEY}"


class Box(dict[str, Any]):
    """A container."""

    __parent__ = __name__ = None


@pytest.fixture(autouse=True)
def known_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debug_key, "_key", KEY)


@pytest.fixture
def inspected(module: Callable[..., str]) -> Iterator[Callable[..., Any]]:
    """``inspected(view, ..., outer=(element, ...), root=...)`` is a site with the inspector."""

    def inspected(*views: Any, outer: Any = None, root: Any = None, **options: Any) -> Pipeline:
        outer = (errors(),) if outer is None else outer
        walk = traverse() if root == "database" else traverse(root=lambda: root if root is not None else Box())
        return Pipeline(inspector(**options), *outer, walk, publisher(scan=(module(*views),)))

    yield inspected


@view(context=Box)
def index(context: Any, request: Any) -> str:
    return "index"


def ask(app: Any, path: str, **options: Any) -> Any:
    return Asked.blank(path, **options).get_response(app)


def page(app: Any, path: str = "") -> Any:
    answer = ask(app, f"/++inspect++/{path}", headers={"Cookie": COOKIE})
    assert answer.status_int == 200, answer.text
    return answer


def last(app: Any) -> str:
    """The page of the last request."""
    number = re.search(r'<a href="(\d+)">', page(app).text)
    assert number is not None
    return str(page(app, number[1]).text)


def words(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html.partition("</style>")[2]).split())


# Who sees it.


@pytest.mark.parametrize("cookie", ["", f"{debug_key.COOKIE}={'x' * 40}", f"other={KEY}"])
@pytest.mark.parametrize("path", ["/++inspect++/", "/++inspect++/1", "/++inspect++", "/++inspect++/pipeline"])
def test_without_the_key_it_is_not_there__S17(inspected: Any, path: str, cookie: str) -> None:
    plain = Pipeline(errors(), traverse(root=Box), publisher())
    app = inspected(index)
    ask(app, "/")
    answer = ask(app, path, headers={"Cookie": cookie})
    assert answer.status_int == 404
    assert answer.body == ask(plain, path).body


def test_it_hands_over_the_key_by_itself__S17(inspected: Any) -> None:
    answer = ask(inspected(index), f"/?debug-key={KEY}")
    assert answer.status_int == 303
    assert answer.headers["Set-Cookie"].startswith(COOKIE)


def test_its_own_pages_are_not_noted(inspected: Any) -> None:
    app = inspected(index)
    page(app)
    assert "No request fits" in page(app).text


def test_it_stands_outside_of_all_other_elements() -> None:
    with pytest.raises(OrderError, match="inspector must be outside log"):
        Pipeline(log(), inspector(), errors(), traverse(root=Box), publisher())


def test_a_number_of_requests_below_one_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="keep must be a number of at least 1"):
        Pipeline(inspector(keep=0), errors(), traverse(root=Box), publisher())


# The pages.


def test_the_pages_load_nothing_and_run_nothing__S7(inspected: Any) -> None:
    app = inspected(index)
    ask(app, "/")
    for path in ("", "pipeline"):
        answer = page(app, path)
        policy = answer.headers["Content-Security-Policy"]
        styles = re.findall(r"<style>(.*?)</style>", answer.text, re.DOTALL)
        digests = [base64.b64encode(hashlib.sha256(style.encode()).digest()).decode() for style in styles]
        assert len(digests) == 1
        assert policy.startswith("default-src 'none'; style-src 'sha256-")
        [allowed] = [rule.split()[1:] for rule in policy.split("; ") if rule.startswith("style-src")]
        assert {f"'sha256-{digest}'" for digest in digests} == set(allowed)
        assert "style=" not in answer.text and "<script" not in answer.text
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_what_visitors_sent_is_escaped__S7(inspected: Any) -> None:
    app = inspected(index)
    ask(app, "/%3Cscript%3Ealert(1)?%3Cb%3E=1", headers={"X-Evil": "<img src=x>"})
    for html in (page(app).text, last(app)):
        assert "<script" not in html and "<img" not in html
        assert "&lt;script&gt;alert(1)" in html


def test_only_get_and_head_are_answered(inspected: Any) -> None:
    answer = ask(inspected(index), "/++inspect++/", method="POST", headers={"Cookie": COOKIE})
    assert (answer.status_int, answer.headers["Allow"]) == (405, "GET, HEAD")


def test_the_address_without_the_slash_leads_to_the_page(inspected: Any) -> None:
    answer = ask(inspected(index), "/++inspect++", headers={"Cookie": COOKIE})
    assert (answer.status_int, answer.location) == (303, "/++inspect++/")


@pytest.mark.parametrize("path", ["99999", "nothing", "1" * 30, "%C2%B2"])
def test_a_request_that_it_does_not_have_is_a_404(inspected: Any, path: str) -> None:
    answer = ask(inspected(index), f"/++inspect++/{path}", headers={"Cookie": COOKIE})
    assert answer.status_int == 404


def test_the_filters(inspected: Any) -> None:
    @view(context=Box, name="fails")
    def fails(context: Any, request: Any) -> str:
        raise ValueError("for the test")

    app = inspected(index, fails, slow=30.0)
    for path, method in [("/", "GET"), ("/nothing?q=tea", "GET"), ("/fails", "GET"), ("/", "POST")]:
        ask(app, path, method=method)

    def shown(query: str) -> list[str]:
        return re.findall(r'<td class="path"><a href="\d+">([^<]*)</a>', page(app, query).text)

    assert shown("") == ["POST /", "GET /fails", "GET /nothing?q=tea", "GET /"]
    assert shown("?status=4") == ["POST /", "GET /nothing?q=tea"]
    assert shown("?status=2") == ["GET /"]
    assert shown("?method=POST") == ["POST /"]
    assert shown("?path=TEA") == ["GET /nothing?q=tea"]
    assert shown("?error=1&status=5") == ["GET /fails"]
    assert shown("?slow=1") == []
    assert shown("?before=x&unknown=1&status=9") == []


def test_as_many_requests_are_kept_as_it_is_told(inspected: Any) -> None:
    app = inspected(index, keep=3)
    for number in range(5):
        ask(app, f"/{number}")
    assert "3 of 3 requests" in page(app).text
    assert "/4" in page(app).text and "/1<" not in page(app).text


def test_older_requests_are_a_page_further(inspected: Any) -> None:
    app = inspected(index)
    for _ in range(120):
        ask(app, "/")
    first = page(app).text
    older = re.search(r'href="(\?before=\d+)"', first)
    assert older is not None and first.count('class="path"') == 100
    assert page(app, older[1]).text.count('class="path"') == 20


def test_a_live_page_is_loaded_again(inspected: Any) -> None:
    assert "Refresh" not in page(inspected(index)).headers
    assert page(inspected(index), "?live=1").headers["Refresh"] == "3"


def test_the_pipeline_has_the_parts_with_their_options(inspected: Any) -> None:
    app = inspected(index, outer=(retry(attempts=7), errors()))
    html = page(app, "pipeline").text
    said = words(html).partition("outside of all parts")[2]
    assert said.index("retry") < said.index("errors") < said.index("traverse") < said.index("publisher")
    assert "attempts 7" in said and "test_inspector.py" not in said
    assert re.findall(r'class="name"[^>]*>(\w+)<', html) == ["retry", "errors", "traverse", "publisher"]


def test_the_pipeline_masks_secrets(inspected: Any) -> None:
    @element
    def paying(next: Any, *, api_key: str) -> Any:
        return next

    app = inspected(index, outer=(errors(), paying(api_key="swordfish")))
    html = page(app, "pipeline").text
    assert "swordfish" not in html and "(masked)" in html


# What is noted.


def test_the_parts_with_their_times_and_changes(inspected: Any) -> None:
    @element
    def marking(next: Any) -> Any:
        def marking(request: Any, response: Any) -> None:
            request.environ["HTTP_X_MARK"] = "seen"
            next(request, response)
            response.headers["X-Left"] = "yes"

        return marking

    app = inspected(index, outer=(errors(), marking()))
    ask(app, "/")
    html = last(app)
    said = words(html)
    assert re.search(r"errors [\d.]+ marking [\d.]+ traverse [\d.]+ publisher [\d.]+", said)
    assert "HTTP_X_MARK seen" in said and "X-Left yes" in said
    assert "request.context a Box" in said
    seen = html[html.index("As each element saw it") :]
    before, _, behind = seen.partition('<span class="name">traverse</span>')
    assert "X-Mark" not in before[: before.index('<span class="name">marking</span>')] and "X-Mark" in behind


def test_a_header_is_told_of_the_part_that_sets_it_and_of_the_one_that_drops_it(inspected: Any) -> None:
    """On its way in, too; and although the pipeline adds keys of its own to the environ."""

    @element
    def early(next: Any) -> Any:
        def early(request: Any, response: Any) -> None:
            response.headers["X-Early"] = "yes"
            next(request, response)

        return early

    def dropping(app: Any) -> Any:
        def dropping(environ: Any, start_response: Any) -> Any:
            return app({name: value for name, value in environ.items() if name != "HTTP_X_SHOP"}, start_response)

        return dropping

    app = inspected(index, outer=(early(), dropping, errors()))
    assert ask(app, "/", headers={"X-Shop": "yes"}).headers["X-Early"] == "yes"
    parts = {str(part.name): part for part in records(app)[0].parts}
    assert parts["early"].answered["X-Early"] == "yes"
    assert "X-Early" not in parts["publisher"].answered
    assert parts["errors"].changed["HTTP_X_SHOP"] == "(gone)", "the change of the part outside of it"


def test_a_foreign_middleware_is_a_part(inspected: Any) -> None:
    def shouting(app: Any) -> Any:
        def shouting(environ: Any, start_response: Any) -> Any:
            return [block.upper() for block in app(environ, start_response)]

        return shouting

    app = inspected(index, outer=(shouting, errors()))
    assert ask(app, "/").text == "INDEX"
    assert re.search(r"shouting foreign [\d.]+ errors", words(last(app)))


def test_a_request_that_passes_no_other_part_has_a_page() -> None:
    """As that of a site whose parts were linked before the inspector."""

    def plain(environ: Any, start_response: Any) -> Any:
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"plain"]

    app = inspector()(plain)
    assert ask(app, "/").text == "plain"
    assert re.search(r"\(body\) [\d.]+", words(last(app)))


def test_traversal_is_walked_again_when_the_page_is_opened(inspected: Any) -> None:
    calls: list[str] = []

    @view(context=Box, name="")
    def counted(context: Any, request: Any) -> str:
        calls.append("called")
        return "counted"

    app = inspected(counted, root=Box(inner=Box()))
    ask(app, "/inner/")
    said = words(last(app))
    assert "inner {} answered by Box.__getitem__" in said
    assert "chosen" in said and "Walked again just now" in said
    assert calls == ["called"], "the view is not called again"


def test_a_path_is_walked_again_without_the_credentials__S25(inspected: Any) -> None:
    """They are masked in the record, so a step would take the masks for those of a visitor."""
    seen: list[str] = []

    @implementer(IPublishTraverse)
    class Steps(Box):
        def publishTraverse(self, request: Any, name: str) -> Box:
            seen.append(request.headers.get("Authorization", "") + request.headers.get("Cookie", ""))
            return Box()

    app = inspected(index, root=Steps())
    ask(app, "/inner/", headers={"Authorization": "Basic YTpi", "Cookie": "a=1"})
    last(app)
    assert seen == ["Basic YTpia=1", ""]


def test_nothing_is_committed_when_a_path_is_walked_again(inspected: Any) -> None:
    class Counting(PersistentMapping):  # type: ignore[misc]
        def __getitem__(self, name: str) -> Any:
            self.data["walked"] = self.data.get("walked", 0) + 1
            self._p_changed = True
            return Box()

    Counting.__module__, Counting.__qualname__ = __name__, "Counting"
    globals()["Counting"] = Counting

    def root(mapping: Any) -> Any:
        return mapping.setdefault("counting", Counting())

    outer = (retry(), zodb(uri="memory://walked-again", root=root), errors(), transaction())
    app = inspected(index, outer=outer, root="database")
    assert ask(app, "/box/").text == "index"
    assert ask(app, "/box/").text == "index"
    for _ in range(3):
        assert "answered by Counting.__getitem__" in words(last(app))
    found: list[int] = []

    @view(context=Box, name="count")
    def count(context: Any, request: Any) -> str:
        found.append(request.root.data["walked"])
        return ""

    assert ask(inspected(count, outer=outer, root="database"), "/box/count").status_int == 200
    assert found == [3], "two requests and this one"


def test_an_error_is_explained_when_it_happens(inspected: Any) -> None:
    @view(context=Box, name="fails")
    def fails(context: Any, request: Any) -> str:
        raise ValueError("password=swordfish is wrong")

    app = inspected(index, fails)
    ask(app, "/fails")
    said = words(last(app))
    assert "raised ValueError: password=(masked) is wrong" in said
    assert "test_inspector.py, line" in said and "Traceback" in said and "swordfish" not in said
    ask(app, "/fials")
    assert "did you mean &#39;fails&#39;" in last(app)
    assert "Walked again" not in last(app)


def test_an_error_that_no_element_answers_is_noted(inspected: Any) -> None:
    @view(context=Box, name="fails")
    def fails(context: Any, request: Any) -> str:
        raise ValueError("for the test")

    app = inspected(fails, outer=())
    assert ask(app, "/fails").status_int == 500
    assert "ValueError: for the test" in words(last(app))


def test_a_redirect_is_not_an_error(inspected: Any) -> None:
    @view(context=Box, name="away")
    def away(context: Any, request: Any) -> str:
        raise HTTPFound(location="/other?token=abc")

    app = inspected(away)
    ask(app, "/away")
    html = last(app)
    assert "Traceback" not in html and "/other?token=(masked)" in html
    assert '<section aria-labelledby="why">' not in html


def test_attempts_stand_side_by_side(inspected: Any) -> None:
    @view(context=Box, name="again")
    def again(context: Any, request: Any) -> str:
        if request.attempt < 3:
            raise TransientError(f"number {request.attempt}")
        return "done"

    @view(context=Box, name="never")
    def never(context: Any, request: Any) -> str:
        raise TransientError("for ever")

    app = inspected(again, never, outer=(retry(delay=0), errors()))
    assert ask(app, "/again").text == "done"
    said = words(last(app))
    assert "Attempt 1" in said and "Attempt 3" in said and "TransientError: number 2" in said
    assert "Conflicts repaired 1" in words(page(app).text)
    ask(app, "/never")
    assert "Conflicts repaired 1" in words(page(app).text), "one that failed in the end is not repaired"


def test_a_part_found_the_environ_of_its_own_attempt() -> None:
    """What was changed outside of retry is still there, and what was changed inside of it is gone."""
    record = Record(Asked.blank("/"))
    inside = [(1, {"HTTP_D": "1"}), (2, {"HTTP_D": "(gone)", "HTTP_B": "2"}), (2, {"HTTP_C": "3"})]
    for attempt, changed in ((1, {"HTTP_A": "1"}), *inside):
        part = Part()
        part.attempt, part.changed = attempt, changed
        record.parts.append(part)
    environ = record.environ_at(record.parts[2])
    assert {name: environ.get(f"HTTP_{name}") for name in "ABCD"} == {"A": "1", "B": "2", "C": None, "D": None}


def test_objects_are_noted_as_they_are_loaded_and_changed(inspected: Any) -> None:
    @view(context=PersistentMapping, name="store", methods=("POST",))
    def store(context: Any, request: Any) -> str:
        context["stored"] = context.get("stored", 0) + 1
        return "stored"

    def root(mapping: Any) -> Any:
        return mapping.setdefault("app", PersistentMapping())

    outer = (retry(), zodb(uri="memory://inspected", root=root), errors(), transaction())
    app = inspected(store, outer=outer, root="database")
    for _ in range(2):
        assert ask(app, "/@@store", method="POST").text == "stored"
    said = words(last(app))
    assert "Objects changed: 1" in said and "PersistentMapping in publisher" in said
    assert "Opened" in said and "request.root" in said
    assert re.search(r"Database connections: 0 used, 1 idle[^()]*\([^()]*inspected", words(page(app).text))


def test_statements_are_noted_without_their_values(inspected: Any) -> None:
    @view(context=Box, name="ask")
    def asking(context: Any, request: Any) -> str:
        return str(request.sql.execute(text("SELECT :word AS found"), {"word": "swordfish"}).scalar())

    app = inspected(asking, outer=(sql(url="sqlite://"), errors(), transaction()))
    assert ask(app, "/ask").text == "swordfish"
    assert "Database connections: 0 used" in words(page(app).text)
    said = words(last(app))
    assert "SQL statements: 1" in said and "SELECT ? AS found in publisher" in said
    assert "swordfish" not in said


def test_the_log_of_a_request_is_noted(inspected: Any) -> None:
    @view(context=Box, name="telling")
    def telling(context: Any, request: Any) -> str:
        logging.getLogger("site").warning("%d items, token=%s", 3, "abcdef")
        logging.getLogger("site").warning("%d", "not a number")
        return ""

    app = inspected(telling)
    logging.raiseExceptions, before = False, logging.raiseExceptions
    try:
        ask(app, "/telling")
    finally:
        logging.raiseExceptions = before
    logging.getLogger("site").warning("outside of a request")
    said = words(last(app))
    assert "WARNING site: 3 items, token=(masked)" in said and "TypeError" in said
    assert "outside of a request" not in said


def test_a_body_that_is_being_sent_is_open(inspected: Any) -> None:
    @view(context=Box, name="long")
    def long(context: Any, request: Any) -> Any:
        return iter([b"first", b"second"])

    app = inspected(long)
    environ = Asked.blank("/long").environ
    body = app(environ, lambda status, headers, exc_info=None: None)
    assert "still open" in last(app)
    list(body)
    body.close()
    assert "still open" not in last(app)
    assert "11 bytes" in words(last(app))


# Secrets.


def test_secrets_are_masked_in_all_that_is_noted(inspected: Any) -> None:
    @view(context=Box, name="login", methods=("POST",))
    def login(context: Any, request: Any) -> str:
        request.remembered = dict(request.form)
        return str(len(request.form))

    @element
    def cookies(next: Any) -> Any:
        def cookies(request: Any, response: Any) -> None:
            next(request, response)
            response.set_cookie("session", "made-secret")

        return cookies

    app = inspected(index, login, outer=(errors(), cookies(), forms()))
    ask(
        app,
        "/login?api_key=key-secret&page=3",
        POST={"login": "admin", "password": "form-secret"},
        headers={
            "Cookie": "a=cookie-secret; b=other-secret",
            "Authorization": "Basic header-secret",
            "X-Auth-Token": "token-secret",
            "Referer": "http://localhost/?token=referrer-secret",
        },
    )
    record = repr([vars(part) for part in records(app)[-1].parts]) + repr(vars(records(app)[-1]))
    for noted in (last(app), page(app).text, record):
        assert "-secret" not in noted
    html = last(app)
    assert "login=admin" in html and "page=3" in html and "Basic (masked)" in html


def records(app: Any) -> Any:
    """The records of an app."""
    cells = {
        name: cell.cell_contents
        for name, cell in zip(app.handler.__code__.co_freevars, app.handler.__closure__, strict=True)
    }
    return cells["inspecting"].records


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("HTTP_COOKIE", "a=1; b=2", "a=(masked); b=(masked)"),
        ("HTTP_AUTHORIZATION", "Bearer abc", "Bearer (masked)"),
        ("HTTP_X_CSRF_TOKEN", "abc", "(masked)"),
        ("QUERY_STRING", "a=1&password=abc", "a=1&password=(masked)"),
        ("HTTP_HOST", "localhost", "localhost"),
        ("X_URI", "postgres://user:abc@host/db", "postgres://user:(masked)@host/db"),
        ("HTTP_X_AUTH", "abc", "(masked)"),
        ("HTTP_X_AUTHOR", "ann", "ann"),
        ("HTTP_X_KEYBOARD", "de", "de"),
        ("QUERY_STRING", "a=1&%70assword=abc&b=2", "a=1&%70assword=(masked)&b=2"),
        ("QUERY_STRING", "code=abc&pin=1234&otp=5678&page=3", "code=(masked)&pin=(masked)&otp=(masked)&page=3"),
        ("QUERY_STRING", "user[password]=abc&a=1", "user[password]=(masked)&a=1"),
        ("QUERY_STRING", "pin:int=1234&a=1", "pin:(masked)&a=1"),
        ("QUERY_STRING", "password=a?b=c&d=e", "password=(masked)&d=e"),
        ("QUERY_STRING", "came_from=/reset?token=abc&a=1", "came_from=/reset?token=(masked)&a=1"),
        ("QUERY_STRING", "came_from=%2Freset%3Ftoken%3Dab%7Ec&a=1", "came_from=(masked)&a=1"),
        ("QUERY_STRING", "text=100%25&keyboard=de&author=ann", "text=100%25&keyboard=de&author=ann"),
        ("HTTP_REFERER", "http://localhost/#access_token=abc", "http://localhost/#access_token=(masked)"),
        ("form", {"password": "abc", "page": 3}, "password=(masked), page=3"),
    ],
)
def test_a_variable_in_words(name: str, value: Any, said: str) -> None:
    assert told_variable(name, value) == said


def test_headers_queries_and_texts_in_words() -> None:
    assert told_header("Set-Cookie", "session=abc; Path=/") == "session=(masked); Path=/"
    assert told_header("Location", "/a?token=abc") == "/a?token=(masked)"
    assert masked_query("plain") == "plain"
    assert told("x" * 1_000).endswith("...") and len(told("x" * 1_000)) == 300


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("login failed: password='a b', user=x", "login failed: password=(masked), user=x"),
        ("{'password': 'a b', 'user': 'x'}", "{'password': (masked), 'user': 'x'}"),
        ('{"password": "a b", "user": "x"}', '{"password": (masked), "user": "x"}'),
        ('{"password":"a\\"b c", "user": "x"}', '{"password":(masked), "user": "x"}'),
        ("{'password': ['a b', 'c d'], 'user': 'x'}", "{'password': (masked), 'user': 'x'}"),
        ("{b'password': b'a b', b'user': b'x'}", "{b'password': (masked), b'user': b'x'}"),
        ("MultiDict([('password', 'a b'), ('user', 'x')])", "MultiDict([('password', (masked)), ('user', 'x')])"),
        ('the body "{\\"password\\": \\"a b\\"}"', 'the body "{\\"password\\": (masked)'),
        ("cut off: password='a b, ", "cut off: password=(masked)"),
        ("Field 'pin', value 'a b': not a number", "Field 'pin', value (masked): not a number"),
        ("Authorization: Bearer abc; x", "Authorization: (masked); x"),
        ("Authorization: Basic {'password': 'abc'}", "Authorization: (masked)"),
        ("pin=x'password': 'abc'", "pin=(masked)"),
        ("pin=x('password', 'abc'), a", "pin=(masked)), a"),
        ("X-Auth: abc", "X-Auth: (masked)"),
        ("at redis://ann:a@b@c@host/0: lost", "at redis://ann:(masked)@host/0: lost"),
        ("GET /?%70assword=abc&code=1 failed", "GET /?%70assword=(masked)&code=(masked) failed"),
        ("pin=1234, otp: 5678", "pin=(masked), otp: (masked)"),
        ("the encoder spins: 3 options, 2 authors", "the encoder spins: 3 options, 2 authors"),
        ("no secret here, 100 % sure", "no secret here, 100 % sure"),
        ("password", "password"),
    ],
)
def test_a_text_in_words(text: str, said: str) -> None:
    assert masked_text(text) == said


@pytest.mark.parametrize("part", ["session.", "session ", "token='", 'key="', "pin=[", "%3Dcode", "a", "://a:"])
def test_masking_is_linear(part: str) -> None:
    """S12: a visitor chooses the path, and an error may quote it. This is processor time, with a wide margin."""
    text = "password " + part * (400_000 // len(part))
    start = time.process_time()
    masked_text(text)
    masked_query(text)
    assert time.process_time() - start < 5


def test_the_code_of_an_object_does_not_run_to_tell_it() -> None:
    class Loud:
        def __repr__(self) -> str:
            raise AssertionError

        __str__ = __repr__

    assert told(Loud()) == "a Loud"
    assert told([Loud(), 1]) == "(a Loud, 1)"


# Limits.


def test_a_record_keeps_no_object_of_the_request(inspected: Any) -> None:
    app = inspected(index)
    ask(app, "/")
    (record,) = records(app)
    assert not {"state", "left"} & vars(record).keys()
    assert all(part.error is None and part.fields is None for part in record.parts if part is not record.again)
    kinds = set(map(type, record.again.fields.values()))
    assert record.again.error is None and kinds <= {type(None), str, tuple, bool}
    assert all(type(value) is str for value in record.environ.values())


def test_parts_and_notes_have_a_limit(inspected: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    @view(context=Box, name="chatty")
    def chatty(context: Any, request: Any) -> str:
        for number in range(500):
            logging.getLogger("site").warning("line %d", number)
        return ""

    monkeypatch.setattr(recording, "MOST_PARTS", 2)
    app = inspected(chatty)
    ask(app, "/chatty")
    (record,) = records(app)
    assert len(record.parts) == 2 and record.dropped == 1
    assert len(record.notes) == recording.MOST_NOTES and record.counts["log"] == 500


def test_what_fails_in_the_inspector_does_not_change_an_answer(inspected: Any) -> None:
    class Odd:
        def __eq__(self, other: object) -> bool:
            raise RuntimeError("not comparable")

        __hash__ = None  # type: ignore[assignment]

    @element
    def odd(next: Any) -> Any:
        def odd(request: Any, response: Any) -> None:
            request.odd = Odd()
            next(request, response)
            request.odd = Odd()

        return odd

    app = inspected(index, outer=(errors(), odd()))
    assert ask(app, "/").text == "index"
    assert "request.odd an Odd" in words(last(app))


# The command.


def test_check_warns_of_the_inspector(site: Site) -> None:
    ini = INI.replace("pipeline = errors", "pipeline = inspector errors")
    site.write(f"{ini}\n[filter:inspector]\nuse = egg:wsgi-pipeline#inspector\n", CODE)
    status, said = site.run("check")
    assert status == 0
    assert "it is for development" in said and "[filter:inspector]" in said
    assert site.run("check", "--strict")[0] == 1


def test_explain_runs_a_site_with_the_inspector(site: Site) -> None:
    ini = INI.replace("pipeline = errors", "pipeline = inspector errors")
    site.write(f"{ini}\n[filter:inspector]\nuse = egg:wsgi-pipeline#inspector\n", CODE)
    status, said = site.run("explain", "GET", "/")
    assert status == 0 and "inspector" in said and "index" in said


def test_what_the_parts_beside_one_another_tell_stands_on_the_page(inspected: Any) -> None:
    @element
    def shop(next: Any) -> Any:
        def shop(request: Any, response: Any) -> None:
            if request.method == "POST":
                request.environ["wsgi.input"].read()
            next(request, response)
            response.headers["X-Shop"] = "two"

        return shop

    def stream(context: Any, request: Any, response: Any) -> Any:
        def blocks() -> Iterator[bytes]:
            yield b"one"
            response.headers["X-Late"] = "yes"
            yield b"two"

        response.headers["X-Shop"] = "one"
        return blocks()

    app = inspected(view(name="s", methods=("GET", "POST"))(stream), outer=(shop(), errors(), forms()))
    ask(app, "/s", method="POST", body=b"count=1", content_type="application/x-www-form-urlencoded")
    assert "shop read the body of the request (7 bytes read), and forms found only the rest" in words(last(app))
    assert ask(app, "/s").body == b"onetwo"
    said = words(last(app))
    assert "publisher set X-Shop, and shop" in said
    assert "X-Late was set when the body had begun to be sent" in said


def test_what_an_explanation_tells_is_not_told_twice() -> None:
    record: Any = SimpleNamespace(parts=[], causes=[], late_headers=["X-Late"])
    with patch("pipeline.inspector.explaining.path_of", lambda record: record.parts):
        record.causes = noticed_beside(record, None)
        assert len(record.causes) == 1
        assert noticed_beside(record, None) == []


def blocked(app: Any, document: Any, cookie: str = COOKIE) -> Any:
    """What the inspector answers to a report of a browser."""
    headers = {"Cookie": cookie, "Content-Type": "application/csp-report"}
    body = document if isinstance(document, bytes) else json.dumps({"csp-report": document}).encode()
    return ask(app, "/++inspect++/blocked", method="POST", body=body, headers=headers)


REPORT = {
    "document-uri": "http://localhost/?q=1",
    "blocked-uri": "inline",
    "effective-directive": "script-src-elem",
    "line-number": 7,
}


def test_what_a_browser_has_blocked_is_noted(inspected: Any, caplog: pytest.LogCaptureFixture) -> None:
    app = inspected(index, outer=(shield(), errors()))
    answer = ask(app, "/", headers={"Cookie": COOKIE})
    assert answer.headers["Content-Security-Policy"].endswith("; report-uri /++inspect++/blocked")
    assert "report-uri" not in ask(app, "/").headers["Content-Security-Policy"], "a visitor reports nothing"
    for sends in ("report-uri /reports", "report-to reports"):
        own = Response(headers={"Content-Security-Policy": f"default-src 'self'; {sends}"})
        ask_for_reports(Asked.blank("/"), own)
        assert own.headers["Content-Security-Policy"].endswith(sends), "a site has its own address"
    assert blocked(app, REPORT).status_int == 204
    said = "/, line 7: the browser did not take a script or style sheet in the page: script-src-elem"
    assert said in caplog.text and said in last(app)
    picture = {**REPORT, "blocked-uri": "http://x/\n[forged]?token=k3y", "effective-directive": "img-src"}
    blocked(app, picture)
    assert 'Allow it by request.allow_source("img-src", ...)' in caplog.text
    assert "\n[forged]" not in caplog.text and "k3y" not in caplog.text


@pytest.mark.parametrize(
    "document",
    [b"", b"[]", b"{", {}, {"document-uri": 1}, b'{"csp-report": 1}', pytest.param(b"[" * 60_000, id="deep")],
)
def test_a_report_that_cannot_be_read_is_a_400(inspected: Any, document: Any) -> None:
    assert blocked(inspected(index), document).status_int == 400


def test_nobody_without_the_key_reports__S17(inspected: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert blocked(inspected(index), REPORT, "").status_int == 404
    assert "did not take" not in caplog.text


@pytest.mark.browser
def test_a_browser_reports_what_it_blocks(inspected: Any, browser: Any, caplog: pytest.LogCaptureFixture) -> None:
    @view(context=Box)
    def scripted(context: Any, request: Any) -> str:
        return "<!DOCTYPE html>\n<script>document.title = 'it ran'</script>\n<img src='http://127.0.0.1:1/x.png'>"

    from selenium.webdriver.support.ui import WebDriverWait  # not every environment has it

    with served(inspected(scripted, outer=(shield(), errors()))) as address:
        browser.get(f"{address}/?{debug_key.COOKIE}={KEY}")
        found = ("a script or style sheet in the page", "http://127.0.0.1:1/x.png")
        WebDriverWait(browser, 20).until(lambda _: all(one in caplog.text for one in found))
        assert browser.title != "it ran"
