"""``causal``: a visitor reads what the visitor has written, also from a process that learns of it late."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import permutations
from pathlib import Path
from threading import Semaphore
from typing import Any

import pytest
from webob import Request as Asked
from webob import Response as Answer
from ZODB import DB
from ZODB.utils import u64

from pipeline import Pipeline, Response, element
from pipeline.auth.keys import read_keys
from pipeline.auth.sessions import SignedCookie
from pipeline.elements.causal import COOKIE, HEADER, causal
from pipeline.elements.errors import errors
from pipeline.elements.keep import keep
from pipeline.elements.retry import retry
from pipeline.elements.transaction import transaction
from pipeline.elements.zodb import close_all, zodb
from pipeline.interfaces import Handler, OrderError
from servers.zeo import ZEO


@element()
def counter(next: Handler) -> Handler:
    """Count the POSTs, and answer the count."""

    def counter(request: Any, response: Response) -> None:
        if request.method == "POST":
            request.root["count"] = request.root.get("count", 0) + 1
        request.keep = 60
        response.text = str(request.root.get("count", 0))
        response.headers["X-Wants"] = str(max(request.written.values(), default=0))
        if request.path == "/fails":
            response.status = 409
            request.commit_on_error = True
        if request.path == "/breaks":
            response.app_iter = (bytes(1 // zero) for zero in [0])

    return counter


def site(keys: Path, db: Any, **options: Any) -> Pipeline:
    parts = (zodb(db=db), errors(), transaction(), keep(), counter(), answered)
    return Pipeline(retry(), causal(keys=str(keys), **options), *parts)


def answered(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    raise AssertionError("nothing is asked of it")


class Two:
    """Two processes of a site on one ZEO server. The second learns of a commit of the first when it asks."""

    def __init__(self, address: tuple[str, int], keys: Path) -> None:
        from ZEO.ClientStorage import ClientStorage

        self.dbs = [DB(ClientStorage(address)) for _ in range(2)]
        self.apps = [site(keys, db) for db in self.dbs]
        self.questions = 0
        self.may_learn = Semaphore(0)
        storage = self.dbs[1].storage
        learn, call = storage.invalidateTransaction, storage._call

        def learn_late(tid: bytes, oids: Any) -> None:
            self.may_learn.acquire(timeout=60)
            learn(tid, oids)

        def count(name: str, *arguments: Any) -> Any:
            if name == "lastTransaction":
                self.questions += 1
                self.may_learn.release()
            return call(name, *arguments)

        storage.invalidateTransaction, storage._call = learn_late, count
        self.ask(1)

    def ask(self, process: int, method: str = "GET", path: str = "/", **headers: str) -> Answer:
        asked = Asked.blank(path, method=method, base_url="https://localhost")
        asked.environ.update(headers)
        return asked.get_response(self.apps[process])


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Two]:
    server = ZEO(tmp_path)
    server.start()
    made = Two(("127.0.0.1", server.port), tmp_path / "keys")
    yield made
    made.may_learn.release(100)
    close_all()
    for db in made.dbs:
        db.close()
    server.stop()


def cookie_of(answer: Answer) -> str:
    return answer.headers["Set-Cookie"].partition(";")[0]


def test_a_position_that_the_server_never_comes_to_is_forgotten(two: Two, tmp_path: Path) -> None:
    """As after a backup was restored. The first answer tells where the server is."""
    wrote = two.ask(0, "POST")
    cookie = SignedCookie(COOKIE, "what is written", read_keys(str(tmp_path / "keys")), 60)
    ((name, position),) = cookie.loads(wrote.headers[HEADER])[0].items()
    answer = two.ask(0, HTTP_X_WRITTEN=str(cookie.serializer.dumps({name: position + 2**40})))
    assert answer.text == "1"
    assert cookie.loads(answer.headers[HEADER])[0] == {name: position}
    assert HEADER not in two.ask(0, HTTP_X_WRITTEN=answer.headers[HEADER]).headers


def test_the_answer_to_a_stream_that_fails_after_the_commit_tells_what_is_stored(two: Two) -> None:
    wrote = two.ask(0, "POST", "/breaks")
    assert (wrote.status_int, wrote.headers["X-Outcome"]) == (500, "committed")
    assert two.ask(1, HTTP_COOKIE=cookie_of(wrote)).text == "1"
    assert two.ask(1, HTTP_X_WRITTEN=wrote.headers[HEADER]).text == "1"
    read = two.ask(0, path="/breaks")
    assert (read.status_int, read.headers.getall("Set-Cookie"), read.headers.get(HEADER)) == (500, [], None)


def test_a_visitor_reads_the_own_write(two: Two) -> None:
    for number in range(1, 6):
        wrote = two.ask(0, "POST")
        assert two.ask(1).text == str(number - 1)  # somebody else reads what is known there
        assert two.ask(1, HTTP_COOKIE=cookie_of(wrote)).text == str(number)
        assert two.ask(1, HTTP_X_WRITTEN=wrote.headers[HEADER]).text == str(number)
        assert two.questions == number  # the second one is answered without a question


def test_a_page_that_is_kept_is_not_older_than_the_own_write(two: Two) -> None:
    for _ in range(3):
        two.ask(1)
    pages = two.apps[1].offered["kept_pages"]
    assert pages.counts["sent again"]
    for number in range(1, 4):
        wrote = two.ask(0, "POST")
        assert two.ask(1).text == str(number - 1)
        assert two.ask(1, HTTP_COOKIE=cookie_of(wrote)).text == str(number)


def test_a_commit_is_told_by_a_cookie_for_this_host_alone(two: Two) -> None:
    told = two.ask(0, "POST").headers["Set-Cookie"]
    assert told.startswith(f"__Host-{COOKIE}.") and "Max-Age=60" in told
    assert {"HttpOnly", "secure", "Path=/", "SameSite=Lax"} <= set(told.split("; "))
    failed = two.ask(0, "POST", "/fails")
    assert (failed.status_int, "Set-Cookie" in failed.headers) == (409, True)  # its changes are committed
    read = two.ask(0, HTTP_COOKIE=cookie_of(failed))
    assert "Set-Cookie" not in read.headers and HEADER not in read.headers


def keep_cookies(jar: dict[str, str], answer: Answer) -> None:
    """What a browser does with an answer."""
    for line in answer.headers.getall("Set-Cookie"):
        name, _, value = line.partition(";")[0].partition("=")
        jar.pop(name, None)
        if value and "Max-Age=0" not in line:
            jar[name] = value


@pytest.mark.parametrize("order", list(permutations(range(3))))
@pytest.mark.parametrize("written_before", [False, True])
def test_of_writes_at_once_the_last_is_read_in_whatever_order_their_answers_arrive(
    two: Two, order: tuple[int, ...], written_before: bool
) -> None:
    two.may_learn.release(20)
    jar: dict[str, str] = {}

    def ask(method: str = "GET") -> Answer:
        return two.ask(0, method, HTTP_COOKIE="; ".join(f"{name}={value}" for name, value in jar.items()))

    def last() -> str:
        return str(u64(two.dbs[0].storage.lastTransaction()))

    if written_before:
        keep_cookies(jar, ask("POST"))
    answers = [ask("POST") for _ in order]  # none of them has arrived when the next one is sent
    for number in order:
        keep_cookies(jar, answers[number])
    assert (len(jar), ask().headers["X-Wants"]) == (len(order), last())
    keep_cookies(jar, ask("POST"))
    assert (len(jar), ask().headers["X-Wants"]) == (1, last()), "the cookies do not pile up"


def test_of_many_writes_at_once_the_last_is_read(two: Two) -> None:
    """A page that uploads thirty pictures. Each answer sets a cookie, and the browser sends all of them."""
    two.may_learn.release(100)
    jar: dict[str, str] = {}
    for answer in [two.ask(0, "POST") for _ in range(30)]:
        keep_cookies(jar, answer)

    def ask(method: str = "GET") -> Answer:
        return two.ask(0, method, HTTP_COOKIE="; ".join(f"{name}={value}" for name, value in jar.items()))

    assert (len(jar), ask().headers["X-Wants"]) == (30, str(u64(two.dbs[0].storage.lastTransaction())))
    keep_cookies(jar, ask("POST"))
    assert len(jar) == 11, "the head of an answer must not become too long for a proxy"
    keep_cookies(jar, ask("POST"))
    assert len(jar) == 1


FORGED: list[Callable[[str], str]] = [
    lambda cookie: cookie[:-9] + ("A" if cookie[-9] != "A" else "B") + cookie[-8:],
    lambda cookie: cookie.partition("=")[0] + "=e30.aaaa.bbbb",
    lambda cookie: cookie.partition("=")[0] + "=" + "." * 4000,
    lambda cookie: cookie.partition("=")[0] + "=",
]


@pytest.mark.parametrize("forge", FORGED)
def test_a_forged_cookie_counts_as_none(two: Two, forge: Callable[[str], str]) -> None:
    forged = forge(cookie_of(two.ask(0, "POST")))
    assert two.ask(1, HTTP_COOKIE=forged).status_int == 200
    assert two.ask(1, HTTP_X_WRITTEN=forged.partition("=")[2]).status_int == 200
    assert two.questions == 0


def test_a_cookie_of_another_key_counts_as_none(two: Two, tmp_path: Path) -> None:
    other = site(tmp_path / "other keys", two.dbs[0])
    signed = cookie_of(Asked.blank("/", method="POST", base_url="https://localhost").get_response(other))
    two.ask(1, HTTP_COOKIE=signed)
    assert two.questions == 0


def test_a_position_that_the_server_does_not_have_costs_one_question(two: Two, tmp_path: Path) -> None:
    """Such as a cookie of the time before a backup was restored."""
    from pipeline.auth.keys import read_keys
    from pipeline.auth.sessions import SignedCookie

    made = SignedCookie(COOKIE, "what is written", read_keys(str(tmp_path / "keys")), 60)
    wrote = two.ask(0, "POST")
    positions, _ = made.loads(wrote.headers[HEADER])
    later = str(made.serializer.dumps({name: position + 2**40 for name, position in positions.items()}))
    assert two.ask(1, HTTP_X_WRITTEN=later).text == "1"
    assert two.questions == 1


def test_a_database_that_is_never_behind_has_no_cookie(tmp_path: Path) -> None:
    own = causal(keys=str(tmp_path / "keys"))
    app = Pipeline(own, zodb(uri="memory://causal"), errors(), transaction(), counter(), answered)
    try:
        answer = Asked.blank("/", method="POST").get_response(app)
        assert (answer.text, "Set-Cookie" in answer.headers, HEADER in answer.headers) == ("1", False, False)
    finally:
        close_all()


def test_it_stands_outside_of_the_database(tmp_path: Path) -> None:
    own = causal(keys=str(tmp_path / "keys"))
    with pytest.raises(OrderError, match="before it begins"):
        Pipeline(zodb(uri="memory://causal-order"), errors(), own, counter(), answered)
