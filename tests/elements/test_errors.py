"""``errors``: what it answers, with which error view, and what it leaves alone."""

from __future__ import annotations

import gc
import json
import logging
import re
import sys
import weakref
from collections.abc import Callable, Iterator
from itertools import count
from types import ModuleType
from typing import Any
from wsgiref.validate import validator

import pytest
import webob
from transaction import TransactionManager
from transaction.interfaces import TransientError
from webob.exc import (
    HTTPException,
    HTTPFound,
    HTTPMethodNotAllowed,
    HTTPNotFound,
    HTTPServiceUnavailable,
    HTTPUnauthorized,
)

from pipeline import Pipeline, Request, Response, element, view
from pipeline.composition import Offers
from pipeline.database.transactions import OFFERED, DatabaseRequest, Manager
from pipeline.elements.errors import errors
from pipeline.elements.retry import retry
from pipeline.elements.transaction import transaction
from pipeline.elements.traverse import traverse
from pipeline.elements.zodb import zodb
from pipeline.http import debug_key
from pipeline.interfaces import IRequest, ReadOnlyTransaction, Unavailable
from pipeline.publisher import publisher

HTML = {"HTTP_ACCEPT": "text/html,*/*;q=0.8"}
JSON = {"HTTP_ACCEPT": "application/json"}


class Oops(Exception):
    pass


class WorseOops(Oops):
    pass


def visit(app: Any, path: str = "/", method: str = "GET", **environ: Any) -> webob.Response:
    """Ask under wsgiref's validator, which also sees to it that the body is closed."""
    asked = webob.Request.blank(path, environ, method=method)
    status, headers, body = asked.call_application(validator(app))
    try:
        return webob.Response(status=status, headerlist=headers, app_iter=list(body))
    finally:
        body.close()


def empty() -> dict[str, Any]:
    """A root without items."""
    return {}


@pytest.fixture
def site() -> Iterator[Callable[..., Pipeline]]:
    """``site(view, ..., outer=(errors(),), inner=())`` publishes these views on a root."""
    name = "site_of_test_errors"
    module = sys.modules[name] = ModuleType(name)

    def site(*views: Any, outer: Any = None, inner: Any = (), root: Any = empty) -> Pipeline:
        vars(module).clear()
        vars(module).update({"__name__": name, **{each.__name__: each for each in views}})
        for each in views:
            each.__module__ = name
        found = traverse() if root is None else traverse(root=root)
        outer = (errors(),) if outer is None else outer
        return Pipeline(*outer, *inner, found, publisher(scan=(name,)))

    yield site
    del sys.modules[name]


def raising(error: BaseException) -> Any:
    """The end of a pipeline at which there is nothing but an error."""

    @element
    def end() -> Any:
        def end(request: Request, response: Response) -> None:
            response.headers["X-Inner"] = "lost"
            response.set_cookie("inner", "lost")
            response.add_filter(lambda chunks: chunks)
            raise error

        return end

    return end()


@element
def outer(next: Any) -> Any:
    """Puts a header on each answer, on the way in."""

    def outer(request: Request, response: Response) -> None:
        response.headers["X-Outer"] = "stays"
        response.set_cookie("outer", "stays")
        next(request, response)

    return outer


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the log says, with each id as ID."""
    return [
        re.sub(r"\b[0-9a-f]{12}\b", "ID", f"{record.levelname} {record.getMessage()}")
        for record in caplog.records
    ]


# Pages


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [({}, "text/plain"), (HTML, "text/html"), (JSON, "application/problem+json")],
)
def test_an_error_is_a_page_with_the_id_under_which_it_is_logged(
    accept: dict[str, str], content_type: str, caplog: pytest.LogCaptureFixture
) -> None:
    answer = visit(Pipeline(errors(), raising(Oops("secret"))), **accept)
    assert (answer.status, answer.content_type) == ("500 Internal Server Error", content_type)
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "no-store"
    assert "secret" not in answer.text
    assert lines(caplog) == ["ERROR error ID: GET /: Oops"]
    id = caplog.records[0].getMessage().split()[1].rstrip(":")
    assert id in answer.text
    if content_type.endswith("json"):
        assert json.loads(answer.body)["instance"] == id


@pytest.mark.parametrize("error", [Oops(), HTTPNotFound(), Unavailable(), HTTPFound(location="/x")])
def test_the_response_is_what_it_was_when_the_element_was_entered(error: Exception) -> None:
    answer = visit(Pipeline(outer(), errors(), raising(error)))
    assert answer.headers["X-Outer"] == "stays"
    assert "X-Inner" not in answer.headers
    assert answer.headers.getall("Set-Cookie") == ["outer=stays; Path=/"]


@pytest.mark.parametrize("error", [Oops(), HTTPNotFound("no"), Unavailable(), HTTPNotFound(text="own")])
@pytest.mark.parametrize("accept", [{}, HTML, JSON])
def test_HEAD_is_answered_as_GET_is_but_for_the_body(error: Exception, accept: dict[str, str]) -> None:
    app = Pipeline(errors(), raising(error))
    get, head = visit(app, **accept), visit(app, method="HEAD", **accept)
    assert head.status == get.status
    assert head.body == b""
    assert head.headers["Content-Length"] == str(len(get.body)) != "0"
    assert {**head.headers, "Content-Length": None} == {**get.headers, "Content-Length": None}


# HTTP exceptions are answers


def test_an_HTTP_exception_is_an_answer_and_keeps_its_headers(caplog: pytest.LogCaptureFixture) -> None:
    error = HTTPUnauthorized("Who?", headers=[("WWW-Authenticate", 'Basic realm="x"'), ("X-More", "1")])
    error.set_cookie("tried", "yes")
    error.cache_control = "max-age=5"
    answer = visit(Pipeline(outer(), errors(), raising(error)), **JSON)
    assert answer.status_int == 401
    assert answer.json["detail"] == "Who?"
    assert answer.headers["WWW-Authenticate"] == 'Basic realm="x"'
    assert answer.headers["Cache-Control"] == "max-age=5"
    assert answer.headers.getall("Set-Cookie") == ["outer=stays; Path=/", "tried=yes; Path=/"]
    assert caplog.records == []


def test_a_5xx_that_is_raised_as_an_HTTP_exception_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    answer = visit(Pipeline(errors(), raising(HTTPServiceUnavailable(headers={"Retry-After": "7"}))))
    assert (answer.status_int, answer.headers["Retry-After"]) == (503, "7")
    assert caplog.records == []


@pytest.mark.parametrize(
    "error",
    [HTTPNotFound(json_body={"no": "thing"}), HTTPException("", webob.Response("own", status=404))],
)
def test_an_HTTP_exception_with_a_body_of_its_own_stays_as_it_is(error: Exception) -> None:
    own = error.wsgi_response  # type: ignore[attr-defined]
    answer = visit(Pipeline(errors(), raising(error)), **HTML)
    assert (answer.status_int, answer.body, answer.content_type) == (404, own.body, own.content_type)


def test_a_returned_error_with_a_body_stays_as_it_is(site: Any, caplog: pytest.LogCaptureFixture) -> None:
    @view(context=dict)
    def index(context: Any, request: Request) -> Any:
        return webob.Response("own page", status=502)

    @view(context=dict, name="filled")
    def filled(context: Any, request: Request, response: Response) -> None:
        response.status = 404
        response.text = "own page"

    app = site(index, filled)
    assert (visit(app).status_int, visit(app).text) == (502, "own page")
    assert (visit(app, "/filled").status_int, visit(app, "/filled").text) == (404, "own page")
    assert caplog.records == []


def test_a_redirect_is_no_error_whoever_raises_it(site: Any) -> None:
    @view(context=Exception)
    def all_errors(error: Exception, request: Request) -> str:
        return "an error view"

    app = site(all_errors, inner=())
    assert visit(app, "/x").text == "an error view"
    for status in (301, 302, 303, 307, 308):
        moved = webob.exc.status_map[status](location="/there")
        answer = visit(Pipeline(errors(), raising(moved)))
        assert (answer.status_int, answer.headers["Location"]) == (status, "/there")


@pytest.mark.parametrize("accept", [{}, HTML, JSON])
def test_what_the_client_sent_is_not_shown__S7(site: Any, accept: dict[str, str]) -> None:
    answer = visit(site(), "/<script>?<script>", HTTP_REFERER="<script>", **accept)
    assert answer.status_int == 404
    assert "<script>" not in answer.text


def test_a_header_that_cannot_be_sent_is_an_error__S6(caplog: pytest.LogCaptureFixture) -> None:
    error = HTTPMethodNotAllowed()
    error.headerlist.append(("Allow", "GET\r\nSet-Cookie: a=b"))
    answer = visit(Pipeline(errors(), raising(error)))
    assert answer.status_int == 500
    assert "Set-Cookie" not in answer.headers
    assert lines(caplog) == ["ERROR error ID: GET /: UnsafeHeader"]


# Error views


def test_the_error_view_of_the_most_specific_class_is_called(site: Any) -> None:
    @view(context=dict)
    def index(context: Any, request: Request) -> str:
        raise WorseOops("very")

    @view(context=dict, name="key")
    def key(context: Any, request: Request) -> str:
        raise KeyError("x")

    @view(context=Oops)
    def oops(error: Oops, request: Request) -> str:
        return f"oops {error}"

    @view(context=Exception)
    class AnyError:
        def __init__(self, error: Exception, request: Request) -> None:
            self.error = error

        def __call__(self) -> str:
            return f"any {type(self.error).__name__}"

    app = site(index, key, oops, AnyError)
    assert visit(app).text == "oops very"
    assert visit(app, "/key").text == "any KeyError"
    assert visit(app, "/none").text == "any HTTPNotFound"
    assert visit(app, "/none").status_int == 404


def test_an_error_view_may_be_for_a_request_type(site: Any) -> None:
    from zope.interface import alsoProvides

    class IRobot(IRequest):
        pass

    @element(outside={"traverse": "an error in traversal has its view too"})
    def robots(next: Any) -> Any:
        def robots(request: Request, response: Response) -> None:
            alsoProvides(request, IRobot)
            next(request, response)

        return robots

    @view(context=HTTPNotFound)
    def for_people(error: HTTPNotFound, request: Request) -> str:
        return "for people"

    @view(context=HTTPNotFound, request_type=IRobot)
    def for_robots(error: HTTPNotFound, request: Request) -> str:
        return "for robots"

    assert visit(site(for_people, for_robots), "/x").text == "for people"
    assert visit(site(for_people, for_robots, inner=(robots(),)), "/x").text == "for robots"


def test_an_error_view_finds_the_status_the_headers_and_the_id(site: Any, caplog: Any) -> None:
    @view(context=dict)
    def index(context: Any, request: Request) -> str:
        raise Oops

    @view(context=Exception)
    def any_error(error: Exception, request: Any, response: Response) -> str:
        return f"{response.status_int} {request.error_id} {response.headers.get('Allow')}"

    app = site(index, any_error, outer=(outer(), errors()))
    answer = visit(app)
    id = caplog.records[0].getMessage().split()[1].rstrip(":")
    assert answer.text == f"500 {id} None"
    assert answer.content_type == "text/html"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Outer"] == "stays"
    answer = visit(app, method="POST")
    assert answer.text == "405 None GET, HEAD, OPTIONS"
    assert answer.headers["Allow"] == "GET, HEAD, OPTIONS"
    assert visit(app, method="HEAD").headers["Content-Length"] == "21"


def test_an_error_view_may_answer_anything(site: Any) -> None:
    @view(context=Oops)
    def gone(error: Oops, request: Request, response: Response) -> str:
        response.status = 410
        response.content_type = "text/plain"
        return "gone"

    @view(context=KeyError)
    def teapot(error: KeyError, request: Request) -> webob.Response:
        return webob.Response("short and stout", status=418)

    @view(context=HTTPUnauthorized)
    def login(error: HTTPUnauthorized, request: Request) -> str:
        raise HTTPFound(location="/login")

    @view(context=ValueError)
    def missing(error: ValueError, request: Request) -> str:
        raise HTTPNotFound("There is none.")

    @view(context=IndexError)
    def own(error: IndexError, request: Request) -> str:
        raise HTTPNotFound(text="its own")

    @view(context=dict)
    def index(context: Any, request: Request) -> str:
        raise {
            "oops": Oops(),
            "key": KeyError(),
            "login": HTTPUnauthorized(),
            "value": ValueError(),
            "index": IndexError(),
        }[request.environ["QUERY_STRING"]]

    app = site(gone, teapot, login, missing, own, index)
    assert (visit(app, "/?oops").status_int, visit(app, "/?oops").content_type) == (410, "text/plain")
    assert (visit(app, "/?key").status_int, visit(app, "/?key").text) == (418, "short and stout")
    assert (visit(app, "/?login").status_int, visit(app, "/?login").location) == (302, "/login")
    assert (visit(app, "/?value").status_int, visit(app, "/?value").text) == (404, "There is none.\n")
    assert (visit(app, "/?index").status_int, visit(app, "/?index").text) == (404, "its own")


def failing(error: Exception) -> Any:
    @view(context=Exception)
    def any_error(given: Exception, request: Request, response: Response) -> str:
        response.headers["X-View"] = "lost"
        raise error

    return any_error


def test_an_error_in_an_error_view_is_a_plain_500_and_both_are_logged(
    site: Any, caplog: pytest.LogCaptureFixture
) -> None:
    @view(context=dict)
    def index(context: Any, request: Request) -> str:
        raise Oops

    answer = visit(site(index, failing(KeyError("x"))))
    assert answer.status == "500 Internal Server Error"
    assert re.fullmatch(r"An error occurred\. It was logged as [0-9a-f]{12}\.\n", answer.text)
    assert "X-View" not in answer.headers
    assert lines(caplog) == [
        "ERROR error ID: GET /: Oops",
        "ERROR error ID: GET /, in an error view: KeyError",
    ]
    ids = {record.getMessage().split()[1].rstrip(":") for record in caplog.records}
    assert len(ids) == 1 and ids.pop() in answer.text


def test_an_error_in_the_view_of_an_HTTP_exception_is_a_500_too(
    site: Any, caplog: pytest.LogCaptureFixture
) -> None:
    answer = visit(site(failing(KeyError("x"))), "/none", **JSON)
    assert answer.json["title"] == "Internal Server Error"
    assert lines(caplog) == ["ERROR error ID: GET /none, in an error view: KeyError"]
    assert "HTTPNotFound" in caplog.text, "the traceback says what the view was for"


def test_a_503_stays_one_when_its_view_fails(site: Any, caplog: pytest.LogCaptureFixture) -> None:
    @view(context=dict)
    def index(context: Any, request: Request) -> str:
        raise Unavailable("away")

    answer = visit(site(index, failing(Unavailable("still away"))))
    assert (answer.status_int, answer.headers["Retry-After"]) == (503, "1")
    assert lines(caplog)[0] == "WARNING error ID: GET /: 503, Unavailable: away"


def test_a_view_that_needs_what_is_away_adds_nothing_to_the_log(
    site: Any, caplog: pytest.LogCaptureFixture
) -> None:
    @view(context=dict)
    def index(context: Any, request: Request) -> str:
        raise known

    known = Unavailable("an outage")
    known.logged = True
    again = Unavailable("the same outage")
    again.logged = True
    answer = visit(site(index, failing(again)))
    assert (answer.status_int, answer.headers["Retry-After"]) == (503, "1")
    assert lines(caplog) == []
    answer = visit(site(index, failing(KeyError("x"))))
    assert answer.status_int == 503
    assert lines(caplog) == ["ERROR error ID: GET /, in an error view: KeyError"]
    assert caplog.records[0].getMessage()[6:18] in answer.text


def test_the_view_of_a_404_that_finds_the_database_away_is_a_503(
    site: Any, caplog: pytest.LogCaptureFixture
) -> None:
    answer = visit(site(failing(Unavailable("away"))), "/none")
    assert (answer.status_int, answer.headers["Retry-After"]) == (503, "1")
    assert lines(caplog) == ["WARNING error ID: GET /none, in an error view: 503, Unavailable: away"]


def test_an_error_view_may_decline(site: Any, caplog: pytest.LogCaptureFixture) -> None:
    @view(context=Exception)
    def decline(error: Exception, request: Request) -> str:
        raise error

    @view(context=dict)
    def index(context: Any, request: Request) -> str:
        raise Oops

    app = site(index, decline)
    assert visit(app).status_int == 500
    assert lines(caplog) == ["ERROR error ID: GET /: Oops"]
    answer = visit(app, "/x")
    assert (answer.status_int, answer.text) == (404, "There is nothing at this address.\n")


# What is passed on


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(), GeneratorExit()])
def test_what_is_no_Exception_passes(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(type(error)):
        visit(Pipeline(errors(), raising(error)))
    assert caplog.records == []


@pytest.mark.parametrize("error", [MemoryError(), RecursionError(), ExceptionGroup("g", [ValueError()])])
def test_every_Exception_is_answered(error: Exception) -> None:
    assert visit(Pipeline(errors(), raising(error))).status_int == 500


def test_a_transient_error_passes_while_attempts_are_left__R2(caplog: pytest.LogCaptureFixture) -> None:
    tried: list[int] = []

    @element
    def end() -> Any:
        def end(request: Request, response: Response) -> None:
            tried.append(request.attempts_left)
            raise TransientError("conflict")

        return end

    answer = visit(Pipeline(retry(attempts=3, delay=0), errors(), end()))
    assert tried == [2, 1, 0]
    assert (answer.status_int, answer.headers["Retry-After"]) == (503, "1")
    warnings = [line for line in lines(caplog) if line.startswith(("WARNING", "ERROR"))]
    assert warnings == ["WARNING error ID: GET /: 503, TransientError: conflict"]


# Transactions


_numbers = count()


@pytest.fixture
def database() -> Any:
    """The element of a database of this test alone."""
    return zodb(uri=f"memory://test-errors-{next(_numbers)}")


def test_an_error_view_reads_what_is_committed_now__R5(site: Any, database: Any) -> None:
    @view(context=object, name="set", methods=("POST",))
    def set_(context: Any, request: Request) -> str:
        request.root["said"] = request.environ["QUERY_STRING"]
        return "set"

    @view(context=object, name="fail")
    def fail(context: Any, request: Request) -> str:
        assert request.root["said"] == "first"
        request.root["said"] = "not committed"
        assert visit(app, "/set?second", method="POST").text == "set"
        raise Oops

    @view(context=Oops)
    def oops(error: Oops, request: Request) -> str:
        return f"{request.root['said']} {request.context['said']}"

    app = site(set_, fail, oops, outer=(database, errors(), transaction()), root=None)
    assert visit(app, "/set?first", method="POST").text == "set"
    assert visit(app, "/fail").text == "second second"


def test_what_an_error_view_writes_needs_a_transaction_of_its_own__R8(
    site: Any, database: Any, caplog: pytest.LogCaptureFixture
) -> None:
    @view(context=object)
    def index(context: Any, request: Request) -> str:
        request.root["index"] = 1
        raise Oops

    @view(context=object, name="keys")
    def keys(context: Any, request: Request) -> str:
        return " ".join(request.root)

    @view(context=Oops)
    def oops(error: Oops, request: Request) -> str:
        if request.environ["QUERY_STRING"] == "own":
            request.tm.abort()
            with request.tm:
                request.root["own"] = 1
        else:
            request.root["none"] = 1
        return "oops"

    app = site(index, keys, oops, outer=(database, errors(), transaction()), root=None)
    assert visit(app).status_int == 500
    assert lines(caplog)[1:] == ["ERROR error ID: GET /, in an error view: ReadOnlyTransaction"]
    assert visit(app, "/keys").text == ""
    assert visit(app, "/?own").text == "oops"
    assert visit(app, "/keys").text == "own"


def test_so_it_is_where_nothing_was_read_before__R8(site: Any, database: Any) -> None:
    @element(outside={"traverse": "this is before anything is read"})
    def refuse(next: Any) -> Any:
        def refuse(request: Request, response: Response) -> None:
            raise Oops

        return refuse

    @view(context=Oops)
    def oops(error: Oops, request: Request) -> str:
        if request.environ["QUERY_STRING"]:
            request.root["x"] = 1
        return f"{len(request.root)} items"

    for outer in ((refuse(), transaction()), (transaction(), refuse())):
        app = site(oops, outer=(database, errors(), *outer), root=None)
        assert visit(app).text == "0 items"
        assert visit(app, "/?write").status_int == 500
        assert visit(app).text == "0 items"


def test_nothing_of_a_refused_write_is_seen__R8(site: Any, database: Any) -> None:
    @view(context=object)
    def index(context: Any, request: Request) -> str:
        request.root["index"] = 1
        return "not reached"

    @view(context=ReadOnlyTransaction)
    def read_only(error: ReadOnlyTransaction, request: Request) -> str:
        return f"{len(request.root)} items"

    app = site(index, read_only, outer=(database, errors()), root=None)
    assert visit(app).text == "0 items", "without the element transaction, nothing can be written"


class Gone(Manager):
    """Stands for the manager of a database that is gone."""

    def begin(self) -> Any:
        raise OSError("connection lost")


def test_a_page_that_reads_nothing_is_shown_while_the_database_is_gone(site: Any) -> None:
    manager = Gone()

    @element(adds=DatabaseRequest, provides=("root",))
    def fake(next: Any) -> Any:
        return Offers(next, tm=lambda request: manager, root=lambda request: {}, **OFFERED)

    @view(context=dict)
    def index(context: Any, request: Request) -> str:
        assert request.tm is manager and request.root == {}
        raise Unavailable

    @view(context=Unavailable)
    def sorry(error: Unavailable, request: Request) -> str:
        assert "root" not in request.__dict__ and request.tm_in_use is None, "nobody reads stale state"
        return "back soon"

    answer = visit(site(index, sorry, outer=(fake(), errors()), root=None))
    assert (answer.status_int, answer.text) == (503, "back soon")
    assert manager.must_discard


@pytest.mark.parametrize("attempts", [1, 3])
def test_a_commit_that_fails_is_an_error_page_and_a_retry__R2(attempts: int, site: Any, caplog: Any) -> None:
    class Conflict(TransientError):
        pass

    class Failing:
        """A data manager whose first vote fails."""

        def sortKey(self) -> str:
            return "failing"

        def vote(self, transaction: Any) -> None:
            voted.append(self)
            if len(voted) == 1:
                raise Conflict("with somebody")

        def tpc_vote(self, transaction: Any) -> None:
            self.vote(transaction)

        tpc_begin = commit = tpc_finish = tpc_abort = abort = lambda self, transaction: None

    @view(context=dict)
    def index(context: Any, request: Request, response: Response) -> str:
        response.headers["X-View"] = "here"
        request.tm.get().join(Failing())
        return f"attempt {request.attempt}"

    voted: list[Any] = []
    answer = visit(site(index, outer=(retry(attempts=attempts, delay=0), errors(), transaction())))
    severe = [line for line in lines(caplog) if line.startswith(("WARNING", "ERROR"))]
    if attempts == 1:
        assert (answer.status_int, answer.headers["Retry-After"]) == (503, "1")
        assert "X-View" not in answer.headers
        assert severe == ["WARNING error ID: GET /: 503, Conflict: with somebody"]
    else:
        assert (answer.status_int, answer.text) == (200, "attempt 2")
        assert severe == []


def test_a_begun_transaction_is_what_the_manager_says(site: Any) -> None:
    manager = TransactionManager(explicit=True)

    @element(adds=DatabaseRequest, outside={"traverse": "stands for a database"})
    def fake(next: Any) -> Any:
        def fake(request: Request, response: Response) -> None:
            next(request, response)

        return Offers(fake, tm=lambda request: (manager.begin(), manager)[1], **OFFERED)

    @view(context=dict)
    def index(context: Any, request: Request) -> str:
        first.append(request.tm.get())
        raise Oops

    @view(context=Oops)
    def oops(error: Oops, request: Request) -> str:
        assert request.tm.get() is not first[0]
        return "begun anew"

    first: list[Any] = []
    assert visit(site(index, oops, outer=(fake(), errors()))).text == "begun anew"
    manager.abort()
    assert visit(site(index, oops, outer=(fake(), errors(), transaction()))).text == "begun anew"


# Tracebacks (S17)

HERE = {"REMOTE_ADDR": "127.0.0.1", "HTTP_HOST": "localhost:8080"}
KEY = "k" * 43
WITH_KEY = {**HERE, "HTTP_COOKIE": f"debug-key={KEY}"}


@pytest.fixture
def known_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debug_key, "_key", KEY)


@pytest.mark.usefixtures("known_key")
@pytest.mark.parametrize("accept", [{}, HTML, JSON])
def test_a_traceback_is_shown_in_debug_mode_to_a_visitor_with_the_key__S17(
    accept: dict[str, str], site: Any
) -> None:
    app = Pipeline(errors(debug=True), raising(Oops("<b>bold</b>")))
    answer = visit(app, **WITH_KEY, **accept)
    assert "Traceback" in answer.text and "Oops: " in answer.text
    assert ("<b>" in answer.text) == (accept is not HTML), "what no browser takes for HTML needs no escapes"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "<input" not in answer.text and "<script" not in answer.text
    assert "Traceback" not in visit(Pipeline(errors(), raising(Oops())), **WITH_KEY, **accept).text


@pytest.mark.usefixtures("known_key")
@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"REMOTE_ADDR": "::1"},
        {"HTTP_HOST": "127.0.0.1"},
        {"HTTP_COOKIE": "debug-key=wrong"},
        {"HTTP_COOKIE": "debug-key="},
    ],
)
def test_an_address_of_this_machine_is_not_enough__S17(environ: dict[str, str]) -> None:
    """Behind nginx with a plain proxy_pass every visitor has a loopback address and host."""
    answer = visit(Pipeline(errors(debug=True), raising(Oops())), **{**HERE, **environ})
    assert answer.status_int == 500 and "Traceback" not in answer.text


@pytest.mark.usefixtures("known_key")
def test_debug_shows_nothing_of_an_HTTP_exception() -> None:
    assert "Traceback" not in visit(Pipeline(errors(debug=True), raising(HTTPNotFound())), **WITH_KEY).text


@pytest.mark.usefixtures("known_key")
def test_debug_shows_the_error_in_an_error_view(site: Any) -> None:
    @view(context=dict)
    def index(context: Any, request: Request) -> str:
        raise Oops

    text = visit(site(index, failing(KeyError("x")), outer=(errors(debug=True),)), **WITH_KEY).text
    assert text.index("Oops") < text.index("During handling of the above exception") < text.index("KeyError")


# Reporter


def test_the_reporter_hears_of_every_5xx_that_is_logged(site: Any, caplog: pytest.LogCaptureFixture) -> None:
    told: list[Any] = []

    def reporter(request: Request, error: Exception, id: str) -> None:
        told.append((request.path_info, type(error).__name__, id))

    for error in (Oops(), Unavailable(), HTTPNotFound(), HTTPServiceUnavailable()):
        visit(Pipeline(errors(reporter=reporter), raising(error)))
    assert [name for _, name, _ in told] == ["Oops", "Unavailable"]
    assert [id for *_, id in told] == [record.getMessage()[6:18] for record in caplog.records]
    del told[:]
    visit(site(failing(KeyError("x")), outer=(errors(reporter=reporter),)), "/none")
    assert [name for _, name, _ in told] == ["KeyError"]


def test_a_reporter_that_fails_harms_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def reporter(request: Request, error: Exception, id: str) -> None:
        raise OSError("no network")

    answer = visit(Pipeline(errors(reporter=reporter), raising(Oops())))
    assert answer.status_int == 500
    id = caplog.records[0].getMessage()[6:18]
    assert id in answer.text
    assert caplog.records[1].getMessage().startswith(f"error {id}: the reporter <function ")


def test_options_come_from_an_ini() -> None:
    configured = errors({}, debug="yes", reporter="logging:info")
    assert configured.options["debug"] is True
    assert configured.options["reporter"].__name__ == "info"
    assert errors({}, reporter="").options["reporter"] is None


# Bodies that are made only when they are sent


def streaming(*blocks: Any) -> Any:
    @view(context=dict)
    def stream(context: Any, request: Request) -> Iterator[bytes]:
        request.on_close(lambda: closed.append("request"))
        try:
            for block in blocks:
                if isinstance(block, Exception):
                    raise block
                yield block
        finally:
            closed.append("generator")

    closed: list[str] = []
    stream.closed = closed  # type: ignore[attr-defined]
    return stream


def test_an_error_before_the_first_block_has_its_error_view__R7(
    site: Any, caplog: pytest.LogCaptureFixture
) -> None:
    @view(context=Oops)
    def oops(error: Oops, request: Request) -> str:
        return "oops"

    stream = streaming(b"", Oops())
    answer = visit(site(stream, oops, outer=(outer(), errors())))
    assert (answer.status_int, answer.text, answer.headers["X-Outer"]) == (500, "oops", "stays")
    assert lines(caplog) == ["ERROR error ID: GET /: Oops"]
    assert stream.closed == ["generator", "request"]


def test_an_HTTP_exception_before_the_first_block_is_an_answer(
    site: Any, caplog: pytest.LogCaptureFixture
) -> None:
    answer = visit(site(streaming(HTTPNotFound("none"))), **JSON)
    assert (answer.status_int, answer.json["detail"]) == (404, "none")
    assert caplog.records == []


def test_an_error_before_the_first_block_reads_the_database(site: Any, database: Any) -> None:
    @view(context=object)
    def index(context: Any, request: Request) -> Iterator[bytes]:
        yield b"%d" % request.root["none"]

    @view(context=KeyError)
    def key(error: KeyError, request: Request) -> str:
        return f"no {error}, {len(request.root)} items"

    app = site(index, key, outer=(database, errors(), transaction()), root=None)
    assert visit(app).text == "no 'none', 0 items"


def test_an_error_in_an_output_filter_is_an_error_page(site: Any, caplog: pytest.LogCaptureFixture) -> None:
    @element(inside={"errors": "a filter that fails is an error page"})
    def broken(next: Any) -> Any:
        def filter(chunks: Iterator[bytes]) -> Iterator[bytes]:
            raise Oops
            yield from chunks

        def broken(request: Request, response: Response) -> None:
            response.add_filter(filter)
            next(request, response)

        return broken

    @view(context=dict)
    def index(context: Any, request: Request) -> str:
        return "in memory"

    @view(context=Oops)
    def oops(error: Oops, request: Request) -> str:
        return "oops"

    assert visit(site(index, oops, inner=(broken(),))).text == "oops"
    assert visit(site(streaming(b"a"), oops, inner=(broken(),))).text == "oops"
    answer = visit(site(index, oops, outer=(element(broken.factory)(), errors())))
    assert (answer.status_int, answer.content_type) == (500, "text/plain"), "no page passes this filter"
    assert lines(caplog)[-1] == "ERROR error ID: GET /, in an error page: Oops"


def test_an_error_view_may_stream_and_may_fail_in_it(site: Any, caplog: pytest.LogCaptureFixture) -> None:
    @view(context=HTTPNotFound)
    def stream(error: HTTPNotFound, request: Request) -> Iterator[bytes]:
        if request.environ["QUERY_STRING"] == "fail":
            raise Oops
        yield b"streamed"

    app = site(stream)
    assert (visit(app, "/x").status_int, visit(app, "/x").text) == (404, "streamed")
    assert visit(app, "/x?fail").status_int == 500
    assert lines(caplog) == ["ERROR error ID: GET /x: Oops"]


# Around other things


def test_around_any_WSGI_app() -> None:
    def app(environ: dict[str, Any], start_response: Any) -> Any:
        raise Oops

    answer = visit(errors()(app), **HTML)
    assert (answer.status_int, answer.content_type) == (500, "text/html")


def test_behind_a_foreign_middleware(site: Any) -> None:
    def foreign(app: Any) -> Any:
        def foreign(environ: dict[str, Any], start_response: Any) -> Any:
            return app(environ, start_response)

        return foreign

    @view(context=Oops)
    def oops(error: Oops, request: Request) -> str:
        return "oops"

    app = site(streaming(Oops()), oops, outer=(outer(), foreign, errors()))
    assert (visit(app).status_int, visit(app).text) == (500, "oops")
    app = Pipeline(outer(), foreign, errors(), raising(Oops()))
    assert (visit(app).status_int, visit(app).headers["X-Outer"]) == (500, "stays")


@pytest.mark.parametrize("kind", [Oops, HTTPNotFound])
@pytest.mark.parametrize("end", [raising, streaming])
def test_an_error_leaves_no_reference_cycle(
    site: Any, end: Any, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What belongs to the request is gone with it, and waits for no collector of garbage."""
    log = logging.getLogger("pipeline")
    monkeypatch.setattr(log, "handlers", [logging.NullHandler()])
    monkeypatch.setattr(log, "propagate", False)  # pytest keeps what it logs, and with it the frames

    class Own:
        """Nobody but the request has one."""

    @element
    def watched(next: Any) -> Any:
        def watched(request: Request, response: Response) -> None:
            request.__dict__["own"] = Own()
            left.extend(map(weakref.ref, (request, response, request.__dict__["own"])))
            next(request, response)

        return watched

    error = kind()
    left: list[weakref.ref[Any]] = []
    inner = raising(error) if end is raising else None
    app = Pipeline(watched(), errors(), inner) if inner else site(streaming(error), outer=(watched(), errors()))
    environ = webob.Request.blank("/").environ
    gc.disable()
    try:
        for _ in range(3):
            b"".join(app(dict(environ), lambda *arguments: None))
            error.__traceback__ = None  # the error of this test lives on, and so would its frames
        assert len(left) == 9 and [one() for one in left] == [None] * 9
    finally:
        gc.enable()


def test_an_error_view_may_add_a_filter_though_the_body_was_being_made(site: Any) -> None:
    """The edge had put the filters around the body whose first block fails. That answer is taken back."""

    @view(context=Oops)
    def oops(error: Oops, request: Request, response: Response) -> str:
        response.add_filter(lambda chunks: (chunk.upper() for chunk in chunks))
        return "oops"

    answer = visit(site(streaming(Oops()), oops))
    assert (answer.status_int, answer.text) == (500, "OOPS")


# The same on one page: what the visitor and what the operator see


class Full:
    """A data manager that has no room for what it is to store."""

    def sortKey(self) -> str:
        return "full"

    def tpc_vote(self, transaction: Any) -> None:
        raise OSError("no space left")

    tpc_begin = commit = tpc_finish = tpc_abort = abort = lambda self, transaction: None


SORRY = "An error occurred. It was logged as ID."
AGAIN = "This cannot be done now. Please try again."
CONFLICT = "503, ConflictError: database conflict error"
MID_STREAM = "in mid-stream, after 7 bytes"
DOWN = "file:///no/such/place/Data.fs"  # that of docs/howto/errors.rst is another one: an outage is logged once
UNKEPT = "its body was not kept: it is longer than body_limit, 10 bytes"


@pytest.mark.parametrize(
    ("path", "body", "status", "text", "logged"),
    [
        ("/broken", b"", 500, SORRY, ["ERROR error ID: POST /broken: Oops"]),
        (
            "/twice",
            b"",
            500,
            SORRY,
            [
                "ERROR error ID: POST /twice: WorseOops",
                "ERROR error ID: POST /twice, in an error view: KeyError",
            ],
        ),
        ("/full", b"", 500, SORRY, ["ERROR error ID: POST /full: OSError"]),
        (
            "/add?conflicts=1",
            b"",
            200,
            "2 added",
            ["INFO POST /add, attempt 1: ConflictError", "INFO POST /add: repaired after 2 attempts"],
        ),
        (
            "/add?conflicts=9",
            b"",
            503,
            f"{AGAIN} It was logged as ID.",
            ["INFO POST /add, attempt 1: ConflictError", f"WARNING error ID: POST /add: {CONFLICT}"],
        ),
        (
            "/add?conflicts=1",
            b"eleven char",
            503,
            f"{AGAIN} It was logged as ID.",
            [
                f"WARNING error ID: POST /add: {CONFLICT}",
                f"WARNING POST /add: not tried again after ConflictError, because {UNKEPT}",
            ],
        ),
        ("/stream", b"", 200, "begun, ", [f"ERROR error ID: POST /stream, {MID_STREAM}: Oops"]),
        ("/down", b"", 503, AGAIN, [f"ERROR the database {DOWN} cannot be reached; requests that need it"]),
    ],
    ids=[
        "an error page",
        "an error in the error page",
        "a failed commit",
        "a conflict that was repaired",
        "a conflict that was not",
        "a body too large to replay",
        "an exception in mid-stream",
        "a database that is down",
    ],
)
def test_what_the_visitor_and_the_operator_see(
    path: str, body: bytes, status: int, text: str, logged: list[str], site: Any, database: Any, caplog: Any
) -> None:
    post = ("POST",)

    @view(context=object, name="broken", methods=post)
    def broken(root: Any, request: Request) -> str:
        raise Oops

    @view(context=object, name="twice", methods=post)
    def twice(root: Any, request: Request) -> str:
        raise WorseOops

    @view(context=WorseOops)
    def worse(error: WorseOops, request: Request) -> str:
        raise KeyError

    @view(context=object, name="full", methods=post)
    def full(root: Any, request: Request) -> str:
        request.tm.get().join(Full())
        return "stored"

    @view(context=object, name="add", methods=post)
    def add(root: Any, request: Request) -> str:
        root["added"] = root.get("added", 0) + 1
        if request.attempt <= int(request.GET.get("conflicts", 0)):
            assert visit(app, "/add", "POST").status_int == 200
        return f"{root['added']} added"

    @view(context=object, name="stream", methods=post)
    def stream(root: Any, request: Request) -> Iterator[bytes]:
        yield b"begun, "
        raise Oops

    if path == "/down":
        database = zodb(uri=DOWN)
    caplog.set_level("INFO", "pipeline")
    outer = (retry(attempts=2, delay=0, body_limit=10), database, errors(), transaction())
    app = site(broken, twice, worse, full, add, stream, outer=outer, root=None)
    got: dict[str, Any] = {}
    blocks = app(
        webob.Request.blank(path, method="POST", body=body).environ,
        lambda status, headers: got.update(status=int(status[:3]), headers=dict(headers)),
    )
    received = bytearray()
    try:
        for block in blocks:
            received += block
    except Oops:
        assert path == "/stream"
    seen = re.sub("[0-9a-f]{12}", "ID", received.decode()).removesuffix("\n")
    assert (got["status"], seen) == (status, text)
    assert ("Retry-After" in got["headers"]) == (status == 503)
    assert len(lines(caplog)) == len(logged)
    for line, start in zip(lines(caplog), logged, strict=True):
        assert line.startswith(start)
