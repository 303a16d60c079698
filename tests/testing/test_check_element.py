"""``check_element``: shipped elements keep the protocol, that of another package does, and broken ones do not."""

from __future__ import annotations

import io
import os
import socket
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from itertools import chain, count
from pathlib import Path
from typing import Any, NoReturn

import pytest
from sqlalchemy import text

from asking import ask
from filestore import Store, filestore
from pipeline import Pipeline, Request, element
from pipeline.composition import Element, Offers
from pipeline.elements.retry import retry
from pipeline.elements.sql import sql
from pipeline.elements.traverse import traverse
from pipeline.elements.zodb import zodb
from pipeline.interfaces import Facts
from pipeline.publisher import publisher
from pipeline.request import on_first_use
from pipeline.testing import FakeDataManager, NotConforming, check_element
from pipeline.testing.conformance import RULES
from pipeline.testing.declarations import fits
from pipeline.testing.probes import ending, logged

_numbers = count()

OPTIONS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "authenticate": lambda directory: {"check": lambda request, login, password: login},
    "traverse": lambda directory: {"root": dict, "slash_redirect": False},
    "zodb": lambda directory: {"uri": f"memory://check_element_{next(_numbers)}"},
    "sql": lambda directory: {"url": "sqlite://"},
    "retry": lambda directory: {"delay": 0.0},
    "session": lambda directory: {"keys": str(directory / "keys")},
    "causal": lambda directory: {"keys": str(directory / "keys")},
    "cors": lambda directory: {"origins": ("*",)},
}
"""The options of the shipped elements that have no default, or whose default would slow the test down."""

POINTS = [
    point
    for point in entry_points(group="paste.filter_factory")
    if point.dist is not None and point.dist.name == "wsgi-pipeline" and point.name[:4] not in ("zope", "ztk_")
]
"""All but those of Zope: ``test_check_ztk.py`` checks them, and Zope's own tests."""

A_BROWSER = {"HTTP_ACCEPT": "text/html,*/*;q=0.5", "HTTP_ACCEPT_ENCODING": "gzip, br, zstd", "HTTP_COOKIE": "a=b"}


@pytest.fixture
def shipped(tmp_path: Path, missing: Callable[[str, str], NoReturn]) -> Callable[[EntryPoint], Element]:
    """Return the element of an entry point, with its options."""
    return partial(configured, tmp_path, missing)


def configured(directory: Path, missing: Callable[[str, str], NoReturn], point: EntryPoint) -> Element:
    try:
        found = point.load()
    except ImportError as error:
        missing(f"what {point.name} needs ({error})", "pip install -e .[test]")
    options = OPTIONS[point.name](directory) if point.name in OPTIONS else {}
    return found(**options)  # type: ignore[no-any-return]


@pytest.mark.parametrize("environ", [{}, A_BROWSER], ids=["plain", "browser"])
@pytest.mark.parametrize("point", POINTS, ids=lambda point: point.name)
def test_a_shipped_element_keeps_the_protocol(
    point: EntryPoint, environ: dict[str, str], shipped: Callable[[EntryPoint], Element]
) -> None:
    element = shipped(point)
    in_database = "zodb_connection" in element.contract.requires
    outside = [zodb(uri=f"memory://check_element_{next(_numbers)}")] if in_database else []
    check_element(element, environ=environ, outside=outside)


def test_all_shipped_elements_are_checked() -> None:
    assert len(POINTS) >= 15


@pytest.mark.parametrize("name", ["base", "authenticate", "transaction"])
def test_a_shipped_element_keeps_the_protocol_inside_others(
    name: str, shipped: Callable[[EntryPoint], Element]
) -> None:
    [point] = [point for point in POINTS if point.name == name]
    outside: list[Any] = [zodb(uri=f"memory://check_element_{next(_numbers)}")]
    if name == "base":
        outside.append(traverse(slash_redirect=False))
    check_element(shipped(point), outside=outside)


def test_an_element_of_another_package_keeps_the_protocol(tmp_path: Path) -> None:
    check_element(filestore(path=str(tmp_path / "store.json")), **of_files(tmp_path))


def of_files(directory: Path) -> dict[str, Any]:
    """Return what changes the store of a request, and what lists the files of its directory."""

    def write(request: Any) -> None:
        request.store["count"] = request.store.get("count", 0) + 1

    return {"write": write, "stored": lambda: {path.name: path.read_bytes() for path in directory.iterdir()}}


def test_a_new_file_that_is_left_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example has been so, and people copy it."""
    monkeypatch.setattr(Store, "tpc_abort", lambda store, transaction: store.lock.close())
    with pytest.raises(NotConforming, match="after that of the element had failed in tpc_vote there was") as caught:
        check_element(filestore(path=str(tmp_path / "store.json")), **of_files(tmp_path))
    assert caught.value.rule == "refused" and "store.new" in str(caught.value)


def test_zodb_keeps_the_rules_of_transactions(tmp_path: Path) -> None:
    def write(request: Any) -> None:
        request.root["count"] = request.root.get("count", 0) + 1

    def show(request: Any, response: Any) -> None:
        response.app_iter = [repr(dict(request.root)).encode()]

    database = zodb(uri=f"file://{tmp_path}/Data.fs")
    check_element(database, write=write, stored=lambda: ask(Pipeline(database, ending(act=show))).text)


def test_sql_keeps_the_rules_of_transactions(tmp_path: Path) -> None:
    def write(request: Any) -> None:
        request.sql.execute(text("insert into line (text) values ('a line')"))

    def lines() -> list[Any]:
        with closing(sqlite3.connect(tmp_path / "lines.db")) as database:
            return database.execute("select * from line").fetchall()

    with closing(sqlite3.connect(tmp_path / "lines.db")) as database:
        database.execute("create table line (id integer primary key, text text)")
    check_element(sql(url=f"sqlite:///{tmp_path}/lines.db"), write=write, stored=lines)


def test_write_and_stored_are_given_together() -> None:
    for given in ({"write": print}, {"stored": list}):
        with pytest.raises(TypeError, match="give write and stored together"):
            check_element(retry(), **given)


# -- Elements that break a rule ------------------------------------------------------------------------------------
#
# Each is named as the rule that it breaks.

BROKEN: dict[str, Element] = {}


def breaks(rule: str, **contract: Any) -> Callable[[Callable[..., Any]], Element]:
    """Make an element that breaks a rule."""

    def decorate(factory: Callable[..., Any]) -> Element:
        BROKEN[rule] = made = element(**contract)(factory)
        return made

    return decorate


@breaks("documented")
def undocumented(next: Any, *, colour: str = "red") -> Any:
    """Paint the page."""
    return next


@breaks("options")
def takes_a_list(next: Any, *, sizes: list[int] = []) -> Any:  # noqa: B006
    """Choose one of the ``sizes``."""
    return next


@breaks("reasons", inside={"retry": ""})
def gives_no_reason(next: Any) -> Any:
    """Stand inside of ``retry``."""
    return next


class BasketRequest(Request):
    basket: list[str] = []  # noqa: RUF012


@breaks("defaults", adds=BasketRequest)
def shares_a_list(next: Any) -> Any:
    """Add a basket."""
    return Offers(next)


@breaks("load")
def returns_no_handler(next: Any) -> Any:
    """Forget to return the handler."""

    def handler(request: Any, response: Any) -> None:
        next(request, response)


@breaks("reached")
def is_closed(next: Any) -> Any:
    """Answer every request."""

    def is_closed(request: Any, response: Any) -> None:
        response.plain("503 Service Unavailable", "closed")

    return is_closed


@breaks("result")
def returns_the_response(next: Any) -> Any:
    """Return the response, as a Pyramid tween does."""

    def returns_the_response(request: Any, response: Any) -> Any:
        next(request, response)
        return response

    return returns_the_response


@breaks("once")
def calls_twice(next: Any) -> Any:
    """Call the inner parts a second time."""

    def calls_twice(request: Any, response: Any) -> None:
        next(request, response)
        next(request, response)

    return calls_twice


@breaks("same")
def copies_the_request(next: Any) -> Any:
    """Hand on a copy of the request."""

    def copies_the_request(request: Any, response: Any) -> None:
        next(request.copy(), response)

    return copies_the_request


@breaks("declared")
def sets_an_undeclared_attribute(next: Any) -> Any:
    """Set an attribute that no class declares."""

    def sets_an_undeclared_attribute(request: Any, response: Any) -> None:
        request.colour = "red"
        next(request, response)

    return sets_an_undeclared_attribute


class IndexRequest(Request):
    index: dict[str, str] = on_first_use()


@breaks("provided", adds=IndexRequest)
def declares_and_does_not_offer(next: Any) -> Any:
    """Declare an attribute that it does not offer."""
    return next


class NumberRequest(Request):
    number: int = 0


@breaks("types", adds=NumberRequest)
def sets_another_type(next: Any) -> Any:
    """Set a number as text."""

    def sets_another_type(request: Any, response: Any) -> None:
        request.number = "7"
        next(request, response)

    return sets_another_type


@breaks("answer")
def sets_a_bad_header(next: Any) -> Any:
    """Set a header that wsgiref refuses."""

    def sets_a_bad_header(request: Any, response: Any) -> None:
        next(request, response)
        response.headerlist.append(("Status", "200 OK"))

    return sets_a_bad_header


@breaks("body")
def reads_the_body(next: Any) -> Any:
    """Read the body of the request, and leave none of it."""

    def reads_the_body(request: Any, response: Any) -> None:
        environ = request.environ
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO()
        next(request, response)

    return reads_the_body


@breaks("streams")
def joins_the_blocks(next: Any) -> Any:
    """Read a stream into memory."""

    def joins_the_blocks(request: Any, response: Any) -> None:
        next(request, response)
        response.app_iter = [b"".join(response.app_iter)]

    return joins_the_blocks


@breaks("closed")
def closes_as_middleware_does(next: Any) -> Any:
    """Close the body, as WSGI middleware must, and an element must not."""

    def wrapped(blocks: Any) -> Iterator[bytes]:
        try:
            yield from chain(blocks)
        finally:
            if hasattr(blocks, "close"):
                blocks.close()

    def closes_as_middleware_does(request: Any, response: Any) -> None:
        next(request, response)
        response.app_iter = wrapped(response.app_iter)

    return closes_as_middleware_does


@breaks("length")
def adds_a_block(next: Any) -> Any:
    """Make the body longer, and set the length that it had."""

    def adds_a_block(request: Any, response: Any) -> None:
        next(request, response)
        length = response.content_length
        response.app_iter = chain(response.app_iter, [b"one more"])
        if length:
            response.content_length = length

    return adds_a_block


@breaks("errors")
def swallows_errors(next: Any) -> Any:
    """Swallow every error."""

    def swallows_errors(request: Any, response: Any) -> None:
        try:
            next(request, response)
        except Exception:
            pass

    return swallows_errors


@breaks("first error")
def fails_to_clean_up(next: Any) -> Any:
    """Clean up what an error has kept from being made."""

    def fails_to_clean_up(request: Any, response: Any) -> None:
        made: dict[str, Any] = {}
        try:
            next(request, response)
            made["it"] = 1
        finally:
            del made["it"]

    return fails_to_clean_up


def apologizing(
    next: Any, caught: type[BaseException] = Exception, *, restores: bool = True, lets_conflicts_pass: bool = True
) -> Any:
    """Return a handler that answers errors with a page: rightly, if called with ``next`` alone."""

    def apologizing(request: Any, response: Any) -> None:
        before = response.snapshot()
        try:
            next(request, response)
        except caught as error:
            if lets_conflicts_pass and request.attempts_left and request.judge(error).transient:
                raise
            if restores:
                response.restore(before)
            response.plain("500 Internal Server Error", "sorry")

    return apologizing


def test_control_an_element_that_answers_errors_rightly_keeps_the_protocol() -> None:
    @element
    def apologizes(next: Any) -> Any:
        """Answer errors."""
        return apologizing(next)

    check_element(apologizes)


@breaks("interrupts")
def answers_interrupts(next: Any) -> Any:
    """Answer even SystemExit."""
    return apologizing(next, BaseException)


@breaks("taken back")
def leaves_half_an_answer(next: Any) -> Any:
    """Answer an error on top of what the view had begun."""
    return apologizing(next, restores=False)


@breaks("attempts")
def answers_conflicts(next: Any) -> Any:
    """Answer an error that ``retry`` would repair."""
    return apologizing(next, lets_conflicts_pass=False)


@breaks("environ")
def appends_to_the_environ(next: Any) -> Any:
    """Keep a list in the environ."""

    def appends_to_the_environ(request: Any, response: Any) -> None:
        request.environ["wsgiorg.routing_args"][0].append("colour")
        next(request, response)

    return appends_to_the_environ


@breaks("neighbours")
def looks_for_a_partner(next: Any) -> Any:
    """Look for another element at each request, which may stand behind a foreign middleware."""

    def looks_for_a_partner(request: Any, response: Any) -> None:
        next(request, response)
        if "ending" in request.pipeline.names:
            response.headers["X-Partner"] = "ending"

    return looks_for_a_partner


@breaks("clean-up")
def closes_what_is_closed(next: Any) -> Any:
    """Register a function that fails."""

    def closes_what_is_closed(request: Any, response: Any) -> None:
        request.on_close({}.popitem)
        next(request, response)

    return closes_what_is_closed


KEPT: list[Any] = []


@breaks("forgotten")
def keeps_the_last_request(next: Any) -> Any:
    """Remember the last request."""

    def keeps_the_last_request(request: Any, response: Any) -> None:
        KEPT[:] = [request]
        next(request, response)

    return keeps_the_last_request


@breaks("threads")
def lets_one_in_at_a_time(next: Any) -> Any:
    """Hold a lock around the inner parts."""
    lock = threading.Lock()

    def lets_one_in_at_a_time(request: Any, response: Any) -> None:
        with lock:
            next(request, response)

    return lets_one_in_at_a_time


TABLE: list[Any] = []
"""Stands for a database."""
TRANSACTIONAL: dict[str, Any] = {"write": lambda request: request.add(), "stored": lambda: list(TABLE)}


class TableRequest(Request):
    add: Callable[[], object] = on_first_use()


@breaks("commit", adds=TableRequest)
def stores_at_once(next: Any) -> Any:
    """Store each value when it is added."""
    return Offers(next, add=lambda request: lambda: TABLE.append(next_number()))


class Careful(FakeDataManager):
    """A data manager that makes a draft when it votes."""

    def tpc_vote(self, transaction: Any) -> None:
        super().tpc_vote(transaction)
        TABLE.append("draft")

    def tpc_finish(self, transaction: Any) -> None:
        TABLE.remove("draft")
        super().tpc_finish(transaction)

    def tpc_abort(self, transaction: Any) -> None:
        if "draft" in TABLE:
            TABLE.remove("draft")


class Careless(Careful):
    """A data manager that leaves its draft when another one refuses."""

    def tpc_abort(self, transaction: Any) -> None:
        """Forget it."""


def joining(manager: type[FakeDataManager]) -> Callable[[Any], Callable[[], object]]:
    """Return a function that opens ``request.add``."""

    def add(request: Any) -> Callable[[], object]:
        return lambda: manager(request.tm, TABLE, next_number()).join()

    return add


def next_number() -> int:
    return next(_numbers)


@breaks("refused", adds=TableRequest)
def leaves_a_draft(next: Any) -> Any:
    """Store what is added, in the transaction of the request."""
    return Offers(next, add=joining(Careless))


@element(adds=TableRequest)
def table(next: Any) -> Any:
    """Store what is added, in the transaction of the request."""
    return Offers(next, add=joining(Careful))


def test_control_an_element_that_takes_its_draft_back_keeps_the_protocol() -> None:
    TABLE.clear()
    check_element(table(), **TRANSACTIONAL)
    assert "draft" not in TABLE and len(TABLE) == 4


def test_an_element_that_keeps_its_lock_breaks_the_rule_of_refused_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pipeline.testing.conformance.WAIT", 0.2)
    lock = threading.Lock()

    class Locked(Careful):
        def tpc_begin(self, transaction: Any) -> None:
            lock.acquire()

        def tpc_finish(self, transaction: Any) -> None:
            super().tpc_finish(transaction)
            lock.release()

    @element(adds=TableRequest)
    def locks(next: Any) -> Any:
        """Store what is added, and forget the lock if another data manager refuses."""
        return Offers(next, add=joining(Locked))

    before = threading.active_count()
    with pytest.raises(NotConforming, match=r"Found: a later change waited 0\.2 s$") as caught:
        check_element(locks(), **TRANSACTIONAL)
    assert caught.value.rule == "refused"
    while threading.active_count() > before:  # the request that waits keeps the log from being restored
        if lock.locked():
            lock.release()
        time.sleep(0.01)


def test_an_element_that_joins_once_in_a_request_breaks_the_rule_of_the_commit() -> None:
    @element(adds=TableRequest)
    def joins_once(next: Any) -> Any:
        """Store what is added in the first transaction of the request alone."""

        def open_table(request: Any) -> Callable[[], object]:
            joined: list[FakeDataManager] = []

            def add() -> None:
                if not joined:
                    joined.append(Careful(request.tm, TABLE, next_number()).join())

            return add

        return Offers(next, add=open_table)

    with pytest.raises(NotConforming, match="a second commit in one request stored nothing") as caught:
        check_element(joins_once(), **TRANSACTIONAL)
    assert caught.value.rule == "commit"


@element
def spends_uploads(next: Any) -> Any:
    """Read a multipart body, and put back only what fits in memory."""

    def spends_uploads(request: Any, response: Any) -> None:
        environ = request.environ
        kind = environ.get("CONTENT_TYPE") or ""
        if kind:
            body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
            environ["wsgi.input"] = io.BytesIO(b"" if kind.startswith("multipart/") else body)
        next(request, response)

    return spends_uploads


@breaks("facts")
def writes_in_secret(next: Any) -> Any:
    """Write the number of the process to a file, and tell no operator."""
    place = Path(tempfile.mkdtemp())

    def writes_in_secret(request: Any, response: Any) -> None:
        (place / "broken.pid").write_text(str(os.getpid()))
        next(request, response)

    return writes_in_secret


def test_an_element_that_connects_to_a_server_names_it() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]

    def connecting(*servers: str) -> Element:
        @element(facts=lambda: Facts(servers=servers))
        def connects(next: Any) -> Any:
            """Say hello to a server."""
            socket.create_connection(("127.0.0.1", port)).close()
            return next

        return connects()

    with listener:
        check_element(connecting(f"localhost:{port}"))
        with pytest.raises(NotConforming, match=rf"it connects to port {port}, which is not among") as caught:
            check_element(connecting("localhost:1"))
    assert caught.value.rule == "facts"


SPECIAL: dict[str, dict[str, Any]] = {"environ": {"wsgiorg.routing_args": ([], {})}}
"""Keys of the environ that show the fault."""

FOUND = {
    "documented": "the docstring does not name the option 'colour'",
    "options": "option 'sizes': its type list[int] cannot be written in an ini",
    "reasons": "the place relative to 'retry' has the reason ''",
    "defaults": "the default of request.basket is []; declare it by on_first_use(), or use a tuple",
    "load": "it returned None",
    "reached": "the answer was 503 Service Unavailable before",
    "result": "it returned <Response",
    "once": "it called the next handler again, which had answered",
    "same": "it handed on <Request",
    "declared": "it set request.colour",
    "provided": "reading request.index raised AttributeError",
    "types": "request.number is '7', and its declared type is <class 'int'>",
    "answer": "Status header cannot be used",
    "body": "the inner parts read b'' in place of b'a=1&b=2'",
    "streams": "when it had answered, 3 blocks were read",
    "closed": "it was closed 2 times, when all of it was read",
    "length": "a streamed body is longer than its Content-Length",
    "errors": "after Failed('an inner part failed') it returned, and the answer was 200 OK [b'half an answer']",
    "first error": "KeyError('it') took the place of Failed('an inner part failed')",
    "interrupts": "after Interrupted() the answer was 500 Internal Server Error",
    "taken back": "its answer 500 Internal Server Error has a header of the inner part",
    "attempts": "the answer was ('500 Internal Server Error', [",
    "environ": "attempt 2 would start with another environ than the first: 'wsgiorg.routing_args'",
    "neighbours": "between foreign middleware",
    "clean-up": "KeyError('popitem(): dictionary is empty')",
    "forgotten": "it is still referred to by an object of list",
    "threads": "a request waited 0.2 s for another one to reach the inner parts",
    "commit": "before the commit there was [",
    "refused": "when a data manager after that of the element had failed in tpc_vote there was [",
    "facts": "broken.pid, which is not among the facts: @element(facts=...) with Facts(writes=...)",
}
"""What the message says of each broken element."""


@pytest.mark.parametrize("rule", RULES)
def test_a_broken_element_breaks_its_rule(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.testing.conformance.WAIT", 0.2)
    monkeypatch.setitem(globals(), "KEPT", [])  # gc.get_referrers does not see what is older than the tests
    broken = BROKEN[rule]()
    with pytest.raises(NotConforming) as caught:
        given = TRANSACTIONAL if rule in ("commit", "refused") else {}
        check_element(broken, environ=SPECIAL.get(rule, {}), **given)
    assert caught.value.rule == rule
    message = str(caught.value)
    assert message.startswith(f"{broken.name} breaks the rule {rule!r}: {RULES[rule]} Found: ")
    assert FOUND[rule] in message


def test_an_element_that_spends_a_multipart_body_breaks_the_rule_of_the_body__R11() -> None:
    with pytest.raises(NotConforming) as caught:
        check_element(spends_uploads)
    assert caught.value.rule == "body"
    assert "the inner parts read b'' in place of b'--limit" in str(caught.value)
    assert str(caught.value).endswith("multipart/form-data; boundary=limit")


def test_an_element_may_refuse_that_a_body_is_read_twice__R11() -> None:
    class Spent(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            raise RuntimeError("the body was read before")

    @element
    def reads_once(next: Any) -> Any:
        """Read the body, and refuse a second reader."""

        def reads_once(request: Any, response: Any) -> None:
            environ = request.environ
            if environ.get("CONTENT_LENGTH"):
                environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
                environ["wsgi.input"] = Spent()
            next(request, response)

        return reads_once

    check_element(reads_once)


def test_each_rule_has_a_broken_element() -> None:
    assert list(BROKEN) == list(RULES) == list(FOUND) and len(BROKEN) >= 12


# -- The kit itself ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("thing", [retry.factory, publisher(), "retry", None])
def test_only_an_element_that_stands_around_others_is_checked(thing: Any) -> None:
    with pytest.raises(TypeError, match="is not an element that stands around others"):
        check_element(thing)


def test_an_option_that_is_missing_is_a_fault_at_load() -> None:
    with pytest.raises(NotConforming, match="filestore needs the option 'path'") as caught:
        check_element(filestore)
    assert caught.value.rule == "load"


def test_a_factory_that_fails_is_a_fault_at_load() -> None:
    @element
    def fails(next: Any) -> Any:
        """Fail."""
        raise ValueError("it is Monday")

    with pytest.raises(NotConforming, match="it is Monday") as caught:
        check_element(fails)
    assert caught.value.rule == "load"


def test_a_handler_that_is_called_late_is_found() -> None:
    @element
    def late(next: Any) -> Any:
        """Answer, and then ask."""

        def late(request: Any, response: Any) -> None:
            def blocks() -> Iterator[bytes]:
                next(request, response)
                yield b"late"

            response.app_iter = blocks()

        return late

    with pytest.raises(NotConforming, match="when it had answered already"):
        check_element(late)


def test_a_request_that_must_be_special_is_given_by_path_and_environ() -> None:
    @element
    def guarded(next: Any) -> Any:
        """Let a visitor with a ticket in."""

        def guarded(request: Any, response: Any) -> None:
            if request.path_info == "/show" and request.headers.get("X-Ticket"):
                next(request, response)
            else:
                response.plain("403 Forbidden", "no ticket")

        return guarded

    with pytest.raises(NotConforming, match=r"Found: the answer was 403 Forbidden before"):
        check_element(guarded, path="/show")
    check_element(guarded, path="/show", environ={"HTTP_X_TICKET": "12"})


def test_an_unknown_requirement_is_provided_by_a_stand_in() -> None:
    @element(requires=("weather", "root", "context"))
    def umbrella(next: Any) -> Any:
        """Need things that other elements provide."""

        def umbrella(request: Any, response: Any) -> None:
            if request.root != {} or request.context != {}:
                raise RuntimeError("nothing is provided")
            next(request, response)

        return umbrella

    check_element(umbrella)


def test_the_log_is_as_it_was_after_a_check(caplog: pytest.LogCaptureFixture) -> None:
    import logging

    log = logging.getLogger("pipeline")
    before = log.handlers, log.propagate, log.level, log.disabled
    with logged() as records:
        logging.getLogger("pipeline.something").error("an error of a test")
    assert [record.getMessage() for record in records] == ["an error of a test"]
    assert (log.handlers, log.propagate, log.level, log.disabled) == before and not caplog.records


@pytest.mark.parametrize(
    ("value", "hint", "is_right"),
    [
        (1, int, True),
        (1, float, True),
        ("1", int, False),
        (None, "int | None", True),
        ("1", "int | None", False),
        ((1, 2), "tuple[int, ...]", True),
        ([1], "tuple[int, ...]", False),
        (len, "Callable[[Any], int]", True),
        (1, "Callable[[Any], int]", False),
        ("a", "Literal['a', 'b']", True),
        ("c", "Literal['a', 'b']", False),
        (object(), Any, True),
    ],
)
def test_a_value_has_its_declared_type(value: Any, hint: Any, is_right: bool) -> None:
    from typing import Literal

    if isinstance(hint, str):
        hint = eval(hint, {"Callable": Callable, "Literal": Literal, "Any": Any})
    assert fits(value, hint) is is_right


def test_the_docs_have_each_rule() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "howto" / "testing.rst").read_text("utf-8")
    rows = text.partition("   * - rule\n     - the element protocol says\n")[2].partition("\n\n")[0]
    assert rows.rstrip("\n").split("\n") == [
        line for rule, says in RULES.items() for line in (f"   * - {rule}", f"     - {says}")
    ]
