"""``zodb``: connections that are kept warm, what happens to them, and databases that are not there (R5, R8)."""

from __future__ import annotations

import gc
import logging
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import pytest
import webob
from BTrees.OOBTree import OOBTree
from persistent import Persistent
from persistent.mapping import PersistentMapping
from transaction.interfaces import NoTransaction
from ZODB.Connection import Connection
from ZODB.DB import DB
from ZODB.FileStorage import FileStorage
from ZODB.POSException import ConflictError

from around_a_view import View, ask, end, start
from pipeline import Pipeline, Request, Response, element
from pipeline.database import zodb_pools as module
from pipeline.database.outages import Outage
from pipeline.database.places import make_directories
from pipeline.database.storages import ZEO_TIMEOUT, storage_of
from pipeline.database.transactions import Manager, is_open
from pipeline.database.zodb_pools import Pool, PooledConnection
from pipeline.elements import transaction as transaction_module
from pipeline.elements.errors import errors
from pipeline.elements.retry import retry
from pipeline.elements.sql import sql
from pipeline.elements.transaction import transaction
from pipeline.elements.zodb import close_all, zodb
from pipeline.interfaces import ConfigurationError, OrderError, ReadOnlyTransaction
from pipeline.testing import fault
from ports import unused_port
from servers.zeo import ZEO


@pytest.fixture(autouse=True)
def databases() -> Iterator[None]:
    yield
    close_all()
    module._pools.clear()


@pytest.fixture(params=["memory", "file"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://test_zodb" if request.param == "memory" else f"file://{tmp_path}/Data.fs"


def pool(uri: str) -> Pool:
    return module._pools[uri]


def site_of(uri: str, view: View, **options: Any) -> Pipeline:
    """In the default order."""
    return Pipeline(retry(), zodb(uri=uri, **options), errors(), transaction(), end(view=view))


def write(request: Request, response: Response) -> None:
    request.root["count"] = request.root.get("count", 0) + 1


def read(request: Request, response: Response) -> Any:
    return [str(request.root.get("count", 0)).encode()]


# Connections


def test_what_is_written_is_read_by_the_next_request(uri: str) -> None:
    assert ask(site_of(uri, write)).status_int == 200
    assert ask(site_of(uri, read)).text == "1"


def test_a_request_that_reads_nothing_opens_nothing(uri: str) -> None:
    app = site_of(uri, lambda request, response: None)
    assert ask(app).status_int == 200
    assert pool(uri).db is None


def test_a_connection_is_used_again(uri: str) -> None:
    seen = []
    app = site_of(uri, lambda request, response: seen.append((request.zodb, request.tm, request.root)))
    ask(app)
    ask(app)
    assert seen[0] == seen[1]
    assert len(pool(uri).idle) == 1


def test_a_page_takes_no_way_by_an_exception(uri: str) -> None:
    """Each costs as much as some ten calls: ZODB looked for a method of its storage by one, after each request."""
    app = site_of(uri, read)
    ask(app)
    raised: list[str] = []

    def trace(frame: FrameType, event: str, found: Any) -> Any:
        if event == "exception" and frame.f_globals["__name__"].startswith(("pipeline.", "ZODB.")):
            raised.append(f"{frame.f_code.co_name}: {found[1]!r}")
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        ask(app)
    finally:
        sys.settrace(before)
    assert raised == []


def test_the_root_is_that_of_the_connection(uri: str) -> None:
    def view(request: Request, response: Response) -> None:
        assert request.root is request.zodb.root()
        assert request.root is request.root
        assert request.tm is request.zodb.transaction_manager
        assert request.tm_in_use is request.tm

    assert ask(site_of(uri, view)).status_int == 200


def test_no_connection_is_used_by_two_requests_at_a_time(uri: str) -> None:
    """Some of them are streamed, some fail, and some are given up."""
    used: set[int] = set()
    lock = threading.Lock()
    problems: list[str] = []

    def enter(connection: Any) -> None:
        with lock:
            if id(connection) in used:
                problems.append("a connection is used by two")
            used.add(id(connection))

    def leave(connection: Any) -> None:
        with lock:
            used.discard(id(connection))

    def view(request: Request, response: Response) -> Any:
        request.on_close(lambda: leave(request.zodb))
        enter(request.zodb)
        time.sleep(0.0005)
        if request.path == "/error":
            raise ValueError
        return iter([b"a", b"b"]) if request.path == "/stream" else None

    app = site_of(uri, view, pool_size=4)

    def work() -> None:
        for path in 6 * ("/", "/stream", "/error", "/abandoned"):
            if path == "/abandoned":
                body = start(app)
                getattr(body, "close", lambda: None)()
            else:
                ask(app, path)

    logging.disable(logging.ERROR)
    try:
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        logging.disable(logging.NOTSET)
    assert problems == []
    assert used == set()
    assert len(pool(uri).idle) <= 4


def opening_stream(request: Request, response: Response) -> Iterator[bytes]:
    request.root  # noqa: B018
    return iter([b"a block", b"another"])


@pytest.mark.parametrize("size", [0, 1, 3])
def test_at_most_pool_size_connections_are_kept(uri: str, size: int) -> None:
    """More are opened when they are needed, and closed again."""
    app = site_of(uri, opening_stream, pool_size=size)
    bodies = [start(app) for _ in range(5)]
    assert len(pool(uri).all) == 5
    for body in bodies:
        body.close()
    del body, bodies
    gc.collect()
    assert len(pool(uri).idle) == size
    assert len(pool(uri).all) == size


def test_a_connection_that_was_not_used_is_closed_after_pool_timeout(uri: str) -> None:
    app = site_of(uri, opening_stream, pool_timeout=1000)
    for body in [start(app) for _ in range(3)]:
        body.close()
    assert len(pool(uri).idle) == 3
    pool(uri).idle[0].since -= 1000
    pool(uri).idle[1].since -= 1000
    start(app).close()
    assert len(pool(uri).idle) == 1


@pytest.mark.parametrize(
    ("query", "options", "expected"),
    [
        ("", {}, (10000, 0, 16, None)),
        ("?connection_cache_size=7&connection_pool_size=3", {}, (7, 0, 3, None)),
        ("?connection_cache_size=7", {"cache_size": 8, "cache_size_bytes": 9}, (8, 9, 16, None)),
        ("?connection_pool_timeout=5", {"pool_size": 2}, (10000, 0, 2, 5)),
    ],
)
def test_options(query: str, options: dict[str, Any], expected: tuple[Any, ...]) -> None:
    uri = "memory://test_options" + query
    found: list[Any] = []

    def view(request: Request, response: Response) -> None:
        db = request.zodb.db()
        found.append((db.getCacheSize(), db.getCacheSizeBytes()))

    assert ask(site_of(uri, view, **options)).status_int == 200
    assert (*found[0], pool(uri).size, pool(uri).timeout) == expected


def test_the_cache_is_kept_to_its_size_between_requests(uri: str) -> None:
    def fill(request: Request, response: Response) -> None:
        for number in range(100):
            request.root[str(number)] = PersistentMapping()

    def look(request: Request, response: Response) -> None:
        for value in request.root.values():
            value.get("x")

    counts = []
    for view in (fill, look, lambda request, response: counts.append(request.zodb._cache.cache_non_ghost_count)):
        assert ask(site_of(uri, view, cache_size=10)).status_int == 200
    assert counts[0] <= 11


def test_many_connections_are_no_reason_for_a_warning(uri: str, caplog: Any) -> None:
    app = site_of(uri, opening_stream)
    for body in [start(app) for _ in range(40)]:
        body.close()
    assert caplog.records == []


# root


class Site(PersistentMapping):
    pass


def make_site(root: Any) -> Any:
    if "site" not in root:
        root["site"] = Site()
    return root["site"]


def test_root_by_dotted_name(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "test_zodb_site", test_module := ModuleType("test_zodb_site"))
    test_module.make_site = make_site  # type: ignore[attr-defined]
    seen = []
    app = site_of(uri, lambda request, response: seen.append(type(request.root)), root="test_zodb_site:make_site")
    ask(app)
    ask(app)
    assert seen == [Site, Site]


def test_r5_a_root_that_was_made_in_vain_is_not_seen_again(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands outside of the transaction, as an error view does, gets the root that is stored, or none."""
    monkeypatch.setitem(sys.modules, "test_zodb_site", test_module := ModuleType("test_zodb_site"))
    test_module.make_site = make_site  # type: ignore[attr-defined]
    kept: list[bool] = []

    @element(outside={"transaction": "it looks at what is left"})
    def look(next: Any) -> Any:
        def look(request: Request, response: Response) -> None:
            try:
                next(request, response)
            finally:
                kept.append("root" in request.__dict__)

        return look

    def view(request: Request, response: Response) -> None:
        write(request, response)
        if request.path == "/fails":
            raise ValueError

    database = zodb(uri=uri, root="test_zodb_site:make_site")
    app = Pipeline(retry(), database, errors(), look(), transaction(), end(view=view))
    assert ask(app, "/fails").status_int == 500
    assert ask(app).status_int == 200
    assert ask(app, "/fails").status_int == 500
    assert kept == [False, True, True]


def test_root_by_path(uri: str) -> None:
    def make(request: Request, response: Response) -> None:
        request.root["a"] = PersistentMapping({"b": PersistentMapping({"name": "found"})})

    ask(site_of(uri, make))
    app = site_of(uri, lambda request, response: [request.root["name"].encode()], root="a/b")
    assert ask(app).text == "found"


def test_a_root_that_is_not_there_is_an_error_that_says_so(uri: str, caplog: Any) -> None:
    assert ask(site_of(uri, lambda request, response: request.root, root="a/b")).status_int == 500
    assert "root = a/b, but there is no 'a' in the database" in caplog.text


@pytest.mark.parametrize("name", ["no_such_module:attribute", "os.path:no_such_attribute"])
def test_a_root_that_cannot_be_imported_is_refused_at_load(uri: str, name: str) -> None:
    with pytest.raises(ConfigurationError, match="option 'root'"):
        zodb(uri=uri, root=name)(lambda environ, start_response: [])


@pytest.mark.parametrize("name", ["os:getpid", "builtins:setattr", "os:sep"])
def test_a_root_that_cannot_be_called_with_that_of_the_database_is_refused_at_load(uri: str, name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"option 'root': {name} cannot be called"):
        zodb(uri=uri, root=name)(lambda environ, start_response: [])


# Several databases


def others(tmp_path: Path) -> dict[str, str]:
    return {"catalog": f"file://{tmp_path}/Catalog.fs", "memory": "memory://test_others"}


def test_databases_refer_to_each_other(uri: str, tmp_path: Path) -> None:
    def make(request: Request, response: Response) -> None:
        catalog = request.zodb.get_connection("catalog").root()
        catalog["entry"] = PersistentMapping({"title": "in another database"})
        request.zodb.get_connection("catalog").add(catalog["entry"])
        request.root["entry"] = catalog["entry"]

    def look(request: Request, response: Response) -> Any:
        entry = request.root["entry"]
        assert entry._p_jar is request.zodb.get_connection("catalog")
        assert entry._p_jar.get_connection("unnamed") is request.zodb
        return [entry["title"].encode()]

    databases = others(tmp_path)
    assert ask(site_of(uri, make, databases=databases)).status_int == 200
    close_all() if uri.startswith("file:") else None
    assert ask(site_of(uri, look, databases=databases)).text == "in another database"


def test_databases_commit_together_or_not_at_all(uri: str, tmp_path: Path) -> None:
    def make(request: Request, response: Response) -> None:
        request.root["here"] = request.zodb.get_connection("catalog").root()["there"] = True
        response.status = 400 if request.path == "/refused" else 200

    seen = []

    def look(request: Request, response: Response) -> None:
        seen.append(["here" in request.root, "there" in request.zodb.get_connection("catalog").root()])

    for path in ("/refused", "/"):
        ask(site_of(uri, make, databases=others(tmp_path)), path)
        ask(site_of(uri, look, databases=others(tmp_path)))
    assert seen == [[False, False], [True, True]]


def test_a_database_beside_the_main_one_is_opened_on_first_use(uri: str, tmp_path: Path) -> None:
    """And the site works without it as far as it is not used."""
    databases = {"catalog": f"file://{tmp_path}/no/such/directory/Data.fs"}

    def view(request: Request, response: Response) -> None:
        request.root  # noqa: B018
        if request.path == "/search":
            request.zodb.get_connection("catalog").root()

    app = site_of(uri, view, databases=databases)
    assert ask(app).status_int == 200
    assert ask(app, "/search").status_int == 503
    assert ask(app).status_int == 200


def test_there_is_no_other_database(uri: str) -> None:
    def view(request: Request, response: Response) -> None:
        with pytest.raises(KeyError):
            request.zodb.get_connection("catalog")

    assert ask(site_of(uri, view)).status_int == 200


# What is refused at load


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("postgresql://user:secret@host/db", "not a valid URI of a database.*RelStorage calls it postgres://"),
        ("nonsense", "not a valid URI of a database"),
        ("memory://x?no_such_option=1", "no_such_option"),
        ("memory://x?connection_cache_size=many", "many"),
    ],
)
def test_a_uri_that_is_none(uri: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        zodb(uri=uri)(lambda environ, start_response: [])
    assert "secret" not in str(caught.value)


def test_one_database_has_one_set_of_options(tmp_path: Path) -> None:
    def link(**options: Any) -> None:
        zodb(**options)(lambda environ, start_response: [])

    uri, other = f"file://{tmp_path}/a.fs", f"file://{tmp_path}/b.fs"
    link(uri=uri, cache_size=5)
    link(uri=uri, cache_size=5, root="else")
    with pytest.raises(ConfigurationError, match="with different options"):
        link(uri=uri, cache_size=6)
    with pytest.raises(ConfigurationError, match="opened twice"):
        link(uri=other, databases={"catalog": uri})
    with pytest.raises(ConfigurationError, match="opened twice"):
        link(uri=other, databases={"catalog": other})
    with pytest.raises(ConfigurationError, match="two databases are named 'unnamed'"):
        link(uri=other, databases={"unnamed": "memory://test_unnamed"})
    link(uri=other, databases={"catalog": "memory://test_catalog"})


def test_the_order() -> None:
    with pytest.raises(OrderError, match="zodb must be outside sql"):
        Pipeline(sql(url="sqlite://"), zodb(uri="memory://"), end(view=read))
    with pytest.raises(OrderError, match="retry must be outside zodb"):
        Pipeline(zodb(uri="memory://"), retry(), end(view=read))


# Without ``transaction``, and once it is over, the database can only be read (R8)


def attribute(root: Any) -> None:
    root["object"].name = "changed"


def mapping(root: Any) -> None:
    root["added"] = True


def tree(root: Any) -> None:
    root["tree"]["key"] = "changed"


def added(root: Any) -> None:
    root._p_jar.add(PersistentMapping())


class Thing(Persistent):
    name = "as it was"


WRITES = [attribute, mapping, tree, added]


def make_things(request: Request, response: Response) -> None:
    request.root["object"] = Thing()
    request.root["tree"] = OOBTree({"key": "as it was"})


def look_at_things(request: Request, response: Response) -> Any:
    root = request.root
    return [f"{root['object'].name}, {root['tree']['key']}, {'added' in root}".encode()]


@pytest.mark.parametrize("change", WRITES)
def test_without_transaction_a_write_is_refused(uri: str, change: Callable[[Any], None], caplog: Any) -> None:
    """Also what changes the object in memory before it says so is not seen by the next request."""
    ask(site_of(uri, make_things))
    app = Pipeline(zodb(uri=uri), errors(), end(view=lambda request, response: change(request.root)))
    look = Pipeline(zodb(uri=uri), errors(), end(view=look_at_things))
    assert ask(look).text == "as it was, as it was, False"
    assert ask(app).status_int == 500
    assert "ReadOnlyTransaction" in caplog.text
    assert re.search(r"only reads \(R8\).*element 'transaction'", caplog.text)
    assert ask(look).text == "as it was, as it was, False"


@pytest.mark.parametrize("change", WRITES)
def test_r8_a_write_while_the_body_is_sent_is_refused(uri: str, change: Callable[[Any], None]) -> None:
    ask(site_of(uri, make_things))

    def view(request: Request, response: Response) -> Iterator[bytes]:
        request.root["count"] = 1

        def body() -> Iterator[bytes]:
            yield b"a block"
            yield b"another"
            change(request.root)

        return body()

    app = site_of(uri, view)
    body = start(app)
    with pytest.raises(ReadOnlyTransaction, match="R8"):
        list(body)
    body.close()
    assert ask(site_of(uri, look_at_things)).text == "as it was, as it was, False"
    assert ask(site_of(uri, read)).text == "1", "what the view wrote is stored"


@pytest.mark.parametrize("opened", ["in the view", "while sending"])
def test_r8_a_stream_reads_a_state_of_its_own(uri: str, opened: str) -> None:
    """One that does not change while it is sent."""
    ask(site_of(uri, write))

    def view(request: Request, response: Response) -> Iterator[bytes]:
        if opened == "in the view":
            request.root  # noqa: B018

        def body() -> Iterator[bytes]:
            for _ in range(3):
                yield str(request.root["count"]).encode()
                request.root._p_deactivate()

        return body()

    body = start(site_of(uri, view))
    blocks = [next(body)]
    ask(site_of(uri, write))
    blocks += body
    body.close()
    assert blocks == [b"1", b"1", b"1"]
    assert ask(site_of(uri, read)).text == "2"


def test_r8_a_stream_reads_what_its_view_has_written(uri: str) -> None:
    def view(request: Request, response: Response) -> Iterator[bytes]:
        write(request, response)
        return (str(request.root[key]).encode() for key in ["count"])

    assert ask(site_of(uri, view)).text == "1"


def test_a_body_in_memory_has_given_everything_back_before_it_is_sent(uri: str) -> None:
    seen = []

    def start_response(status: str, headers: Any, exc_info: Any = None) -> Any:
        seen.append(len(pool(uri).idle))

    site_of(uri, read)(webob.Request.blank("/").environ, start_response)
    assert seen == [1]


# What becomes of the connection in the end (R5)


def stream(request: Request, response: Response) -> Iterator[bytes]:
    return (str(request.root.get(key)).encode() for key in ("a", "b", "c"))


def read_all(body: Any) -> None:
    list(body)
    body.close()


def give_up(body: Any) -> None:
    next(body)
    body.close()


def give_up_at_once(body: Any) -> None:
    body.close()


@pytest.mark.parametrize("client", [read_all, give_up, give_up_at_once])
def test_r5_a_stream_gives_the_connection_back(uri: str, client: Callable[[Any], None]) -> None:
    body = start(site_of(uri, stream))
    assert len(pool(uri).idle) == 0
    client(body)
    assert len(pool(uri).idle) == 1
    assert not is_open(pool(uri).idle[0].tm)


def test_r5_a_stream_that_fails_gives_the_connection_back(uri: str) -> None:
    def view(request: Request, response: Response) -> Iterator[bytes]:
        request.root  # noqa: B018

        def body() -> Iterator[bytes]:
            yield b"a block"
            yield b"another"
            raise ValueError

        return body()

    body = start(site_of(uri, view))
    with pytest.raises(ValueError):
        list(body)
    assert len(pool(uri).idle) == 1


def test_what_a_stream_does_when_it_is_closed_still_has_the_connection(uri: str) -> None:
    """Though it was opened later than the stream was made."""
    seen = []

    def view(request: Request, response: Response) -> Iterator[bytes]:
        def body() -> Iterator[bytes]:
            try:
                yield str(request.root.get("a")).encode()
                yield b"another"
            finally:
                request.root._p_deactivate()
                seen.append((request.root.get("count"), len(pool(uri).idle)))

        return body()

    ask(site_of(uri, write))
    give_up(start(site_of(uri, view)))
    assert seen == [(1, 0)]
    assert len(pool(uri).idle) == 1


@pytest.mark.parametrize("at", ["enter", "exit", "close"])
@pytest.mark.parametrize("error", [ValueError, ConflictError, MemoryError, GeneratorExit, SystemExit])
def test_r5_whatever_happens(uri: str, at: str, error: type[BaseException]) -> None:
    """The connection comes back, nothing is stored but by an answer, and the next request is as ever."""

    def app(*, faulty: bool) -> Pipeline:
        between = (fault(error=error, at=at, when=lambda request: faulty),)
        return Pipeline(zodb(uri=uri), errors(), transaction(), *between, end(view=write))

    logging.disable(logging.ERROR)
    try:
        ask(app(faulty=True))
    except BaseException as raised:
        assert isinstance(raised, error)
    finally:
        logging.disable(logging.NOTSET)
    idle = list(pool(uri).idle)
    assert len(idle) == (0 if at == "enter" else 1)
    assert not any(is_open(kept.tm) for kept in idle)
    ask(app(faulty=False))
    assert ask(site_of(uri, read)).text == ("2" if at == "close" else "1")


def test_a_connection_that_had_an_error_is_thrown_away(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def view(request: Request, response: Response) -> None:
        seen.append(request.zodb)
        if request.path == "/fails":
            write(request, response)
            monkeypatch.setattr(request.zodb, "tpc_vote", lambda transaction: 1 / 0)

    app = site_of(uri, view)
    ask(app)
    assert ask(app, "/fails").status_int == 500
    ask(app)
    assert seen[0] is seen[1]
    assert seen[1] is not seen[2]
    assert len(pool(uri).idle) == 1
    assert ask(site_of(uri, read)).text == "0"


def test_a_connection_whose_clean_up_failed_is_thrown_away(uri: str, caplog: Any) -> None:
    def view(request: Request, response: Response) -> None:
        request.tm.get().addAfterAbortHook(lambda: 1 / 0)
        response.status = 400
        write(request, response)

    assert ask(site_of(uri, view)).status_int == 500
    assert ask(site_of(uri, read)).text == "0"
    assert len(pool(uri).idle) == 1


def test_an_error_of_the_application_is_none_of_the_connection(uri: str) -> None:
    seen = []

    def view(request: Request, response: Response) -> None:
        seen.append(request.zodb)
        raise ValueError

    app = site_of(uri, view)
    ask(app)
    ask(app)
    assert seen[0] is seen[1]


# Databases that are not there


def lines_of(caplog: Any) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "pipeline.database"]


def test_a_database_that_is_down_at_start(tmp_path: Path, caplog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """503 with Retry-After and one line of log, and it comes back by itself."""
    monkeypatch.setattr(Outage, "PAUSE", 0.05)
    place = tmp_path / "later"
    app = site_of(f"file://{place}/Data.fs", write)
    for _ in range(5):
        answer = ask(app)
        assert (answer.status_int, answer.headers["Retry-After"]) == (503, "1")
        time.sleep(0.02)
    place.mkdir()
    time.sleep(0.06)
    assert ask(app).status_int == 200
    assert ask(app).status_int == 200
    down, up = lines_of(caplog)
    answered = r"requests that need it are answered 503: \w+: .*"
    assert re.fullmatch(rf"the database file://\S+ cannot be reached; {answered}", down)
    assert re.fullmatch(r"the database file://\S+ is reached again, after \d+\.\d s", up)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == [
        record for record in caplog.records if record.name == "pipeline.database"
    ], "nothing else is logged but the outage"


def test_a_file_that_another_process_has_open(tmp_path: Path, caplog: Any) -> None:
    storage = FileStorage(f"{tmp_path}/Data.fs")
    try:
        assert ask(site_of(f"file://{tmp_path}/Data.fs", write)).status_int == 503
    finally:
        storage.close()
    assert "another process has it open; for several there are ZEO and RelStorage" in caplog.text


HOLDS = "import sys; from ZODB.FileStorage import FileStorage; file = FileStorage(sys.argv[1]); "
HOLDS += "print('it has it', flush=True); sys.stdin.read()"


def open_and_close(path: str, other: subprocess.Popen[bytes]) -> None:
    while other.poll() is None:
        for number in [os.open(path, os.O_RDONLY) for _ in range(100)]:
            os.close(number)


@pytest.mark.parametrize(("patience", "status"), [(30, 200), (0.3, 503)])
@pytest.mark.parametrize("number", [None, os.getpid, os.getppid])
def test_a_process_waits_for_the_file_that_its_predecessor_has__R9(
    patience: float, status: int, number: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of its requests is a 503. If the other process stays, they are, and no further one waits. In another
    container the predecessor has the number of this process, or of its parent: it was not waited for. Other threads
    close files while this process looks through its own."""
    monkeypatch.setattr("pipeline.database.storages.LOCK_PATIENCE", patience)
    path = f"{tmp_path}/Data.fs"
    app = site_of(f"file://{path}", write)
    command = [sys.executable, "-W", "ignore", "-c", HOLDS, path]
    with (
        ThreadPoolExecutor(5) as threads,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other,
    ):
        assert other.stdin is not None and other.stdout is not None
        other.stdout.readline()
        threads.submit(open_and_close, path, other)
        if number is not None:
            Path(f"{path}.lock").write_text(f"{number()}")
        answers = [threads.submit(ask, app) for _ in range(4)]
        if status == 503:
            assert {answer.result().status_int for answer in answers} == {503}
            began = time.monotonic()
            assert ask(app).status_int == 503 and time.monotonic() - began < 0.3
        time.sleep(0.3)
        assert status == 503 or not any(answer.done() for answer in answers)
        other.stdin.close()
        assert {answer.result().status_int for answer in answers} == {status}


def test_while_it_is_down_one_request_in_a_second_tries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = []
    uri = f"file://{tmp_path}/no/such/directory/Data.fs"
    app = site_of(uri, write)
    source = pool(uri).main
    monkeypatch.setattr(source, "storage", lambda: tries.append(time.monotonic()) or 1 / 0)
    monkeypatch.setattr(Outage, "PAUSE", 1000)
    threads = [threading.Thread(target=lambda: [ask(app) for _ in range(20)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(tries) == 1, "they all came within the pause"
    source.outage._next_try = 0.0  # it is over
    ask(app)
    ask(app)
    assert len(tries) == 2


class Flaky:
    """A storage whose server can be made to go away, as RelStorage sees it."""

    def __init__(self, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.down = False
        self.pool = pool(uri)
        monkeypatch.setattr(module, "lost_exceptions", lambda storage: (TimeoutError,))
        monkeypatch.setattr(Outage, "PAUSE", 0.05)
        poll = Connection.newTransaction

        def poll_or_fail(connection: Any, transaction: Any, sync: bool = True) -> None:
            if self.down:
                raise TimeoutError("the server does not answer")
            poll(connection, transaction, sync)

        monkeypatch.setattr(Connection, "newTransaction", poll_or_fail)


def test_a_database_that_goes_away_and_comes_back(uri: str, caplog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    app = site_of(uri, write)
    server = Flaky(uri, monkeypatch)
    bodies = [start(site_of(uri, stream)) for _ in range(3)]
    for body in bodies:
        body.close()
    assert len(pool(uri).idle) == 3
    server.down = True
    for _ in range(5):
        assert ask(app).status_int == 503
    assert len(pool(uri).idle) == 0, "all were dead"
    server.down = False
    time.sleep(0.06)
    assert ask(app).status_int == 200
    assert len(lines_of(caplog)) == 2


def test_a_connection_that_is_lost_in_the_middle_is_tried_again_with_another(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def view(request: Request, response: Response) -> None:
        seen.append(request.zodb)
        write(request, response)
        if len(seen) == 1:
            raise TimeoutError("the connection was reset")

    monkeypatch.setattr(module, "lost_exceptions", lambda storage: (TimeoutError,))
    assert ask(site_of(uri, view)).status_int == 200
    assert seen[0] is not seen[1]
    assert ask(site_of(uri, read)).text == "1"


def test_a_storage_that_knows_that_it_is_disconnected_is_not_waited_for(
    uri: str, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """ZEO does, and a call to it would wait for seconds."""
    app = site_of(uri, write)
    assert ask(app).status_int == 200
    connected = [False, False, True, True]
    pool(uri).is_connected = lambda: connected.pop(0)
    assert [ask(app).status_int for _ in range(4)] == [503, 503, 200, 200]
    assert len(lines_of(caplog)) == 2


def test_a_file_storage_that_has_closed_itself_is_opened_again(tmp_path: Path) -> None:
    """It does so when it fails while it finishes a commit."""
    uri = f"file://{tmp_path}/Data.fs"

    def view(request: Request, response: Response) -> None:
        write(request, response)
        storage = request.zodb.db().storage
        if request.path == "/fails":
            storage._finish_finish = lambda tid: 1 / 0

    app = site_of(uri, view)
    assert ask(app).status_int == 200
    answer = ask(app, "/fails")
    assert (answer.status_int, answer.headers["X-Outcome"]) == (500, "unknown")
    assert ask(app).status_int == 200
    assert ask(site_of(uri, read)).text in "23"


def test_what_is_shown_of_a_uri_has_no_secrets() -> None:
    assert module.loggable_uri("postgres://user:secret@host:5432/db?sslmode=x") == "postgres://host:5432/db"
    assert module.loggable_uri("file:///srv/Data.fs?blobstorage_dir=/x") == "file:///srv/Data.fs"
    assert module.loggable_uri("memory://name") == "memory://name"


# RelStorage and ZEO, as far as they can be had without a server

with_relstorage = pytest.mark.skipif(
    sys.version_info >= (3, 15), reason="RelStorage 4.3 crashes on Python 3.15, in its own cache"
)


@with_relstorage
def test_relstorage_on_sqlite(tmp_path: Path) -> None:
    uri = f"sqlite://?data_dir={tmp_path}/data"
    assert ask(site_of(uri, write)).status_int == 200
    assert ask(site_of(uri, write)).status_int == 200
    assert ask(site_of(uri, read)).text == "2"
    import sqlite3

    assert sqlite3.OperationalError in pool(uri).lost
    body = start(site_of(uri, stream))
    ask(site_of(uri, write))
    give_up(body)


@pytest.mark.parametrize("uri", ["file://{}/Data.fs", pytest.param("sqlite://?data_dir={}", marks=with_relstorage)])
@pytest.mark.parametrize("exists", [True, False], ids=["in a directory that others may read", "in a new one"])
def test_what_a_database_makes_is_private__S26(tmp_path: Path, uri: str, exists: bool) -> None:
    """All files but the lock, which has the number of a process: the index of a Data.fs and its pack, too."""
    directory = tmp_path / "data"
    if exists or uri.startswith("file"):
        directory.mkdir(mode=0o755)
    app = site_of(uri.format(directory), write)
    for _ in range(2):
        assert ask(app).status_int == 200
    pool(uri.format(directory)).db.pack()
    close_all()
    files = {file.name: oct(file.stat().st_mode & 0o777) for file in directory.iterdir() if file.is_file()}
    files.pop("Data.fs.lock", None)
    assert len(files) >= (1 if uri.startswith("sqlite") else 4)
    assert set(files.values()) == {"0o600"}, files


def test_the_file_of_a_data_dir_stands_in_the_directory_that_was_made(tmp_path: Path) -> None:
    make_directories(f"sqlite://?data_dir={tmp_path}/a+b%20c")
    assert [file.name for file in (tmp_path / "a b c").iterdir()] == ["main.sqlite3"]


def test_zeo_goes_away_and_comes_back(tmp_path: Path, caplog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Outage, "PAUSE", 0.05)
    server = ZEO(tmp_path)
    server.start()
    uri = server.uri()
    try:
        app = site_of(uri, write)
        assert ask(app).status_int == 200
        server.stop()
        wait_until(lambda: ask(app).status_int == 503)
        started = time.monotonic()
        for _ in range(20):
            assert ask(app).status_int == 503
        assert time.monotonic() - started < 10 * ZEO_TIMEOUT, "no request waits for a server that is not there"
        server.start()
        wait_until(lambda: ask(app).status_int == 200)
        assert int(ask(site_of(uri, read)).text) >= 2
    finally:
        close_all()
        server.stop()
    assert len(lines_of(caplog)) == 2


def wait_until(true: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


# root, limits, files and damage


def test_root_by_a_function(uri: str) -> None:
    """As ``traverse(root=function)``."""
    seen = []
    app = site_of(uri, lambda request, response: seen.append(type(request.root)), root=make_site)
    assert ask(app).status_int == 200
    assert seen == [Site]


def test_max_connections(uri: str) -> None:
    """A request beyond it waits, and then is a 503 in true words."""
    app = site_of(uri, opening_stream, max_connections=2, connection_wait=0.2)
    first, second = start(app), start(app)
    begun = time.monotonic()
    answer = ask(app)
    assert (answer.status_int, answer.headers["Retry-After"]) == (503, "1")
    assert time.monotonic() - begun >= 0.2
    pool(uri).wait = 60.0  # the other thread has all the time that it needs
    waiting = threading.Timer(0.05, first.close)
    waiting.start()
    assert ask(app).status_int == 200
    waiting.join()
    second.close()
    assert [ask(app).status_int for _ in range(5)] == [200] * 5
    assert len(pool(uri).all) <= 2


def test_max_connections_is_kept_whatever_happens(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the connection of a request is thrown away, and its error view takes another one."""

    def view(request: Request, response: Response) -> None:
        write(request, response)
        if request.path == "/fails":
            monkeypatch.setattr(request.zodb, "tpc_vote", lambda transaction: 1 / 0)
        if request.path == "/conflict" and request.attempt < 3:
            raise ConflictError

    logging.disable(logging.ERROR)
    try:
        app = site_of(uri, view, max_connections=1, connection_wait=0.1)
        for path, status in 3 * [("/fails", 500), ("/conflict", 200), ("/", 200)]:
            assert ask(app, path).status_int == status
    finally:
        logging.disable(logging.NOTSET)


def test_max_connections_is_never_exceeded(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even for the moment in which a connection is given back."""
    give_back = PooledConnection.give_back

    def slowly(kept: PooledConnection) -> None:
        time.sleep(0.01)
        give_back(kept)

    monkeypatch.setattr(PooledConnection, "give_back", slowly)
    seen: list[int] = []

    def view(request: Request, response: Response) -> None:
        request.zodb  # noqa: B018
        seen.append(len(pool(uri).all))

    app = site_of(uri, view, max_connections=1)
    threads = [threading.Thread(target=lambda: [ask(app) for _ in range(5)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [1] * 20


def test_max_connections_while_the_database_is_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Outage, "PAUSE", 0.0)
    place = tmp_path / "later"
    app = site_of(f"file://{place}/Data.fs", write, max_connections=1, connection_wait=0.1)
    assert [ask(app).status_int for _ in range(3)] == [503] * 3
    place.mkdir()
    assert ask(app).status_int == 200


def modes(directory: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mode & 0o777 for path in directory.iterdir()}


@pytest.fixture
def common_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("common_umask")
def test_new_files_are_for_their_owner_only(tmp_path: Path) -> None:
    app = site_of(f"file://{tmp_path}/Data.fs?blobstorage_dir={tmp_path}/blobs", write)
    assert ask(app).status_int == 200
    expected = {"Data.fs": 0o600, "Data.fs.tmp": 0o600, "blobs": 0o700}
    assert expected.items() <= modes(tmp_path).items()
    pool(next(iter(module._pools))).db.pack()  # type: ignore[union-attr]
    assert ask(app).status_int == 200
    assert (expected | {"Data.fs.old": 0o600}).items() <= modes(tmp_path).items()


@pytest.mark.usefixtures("common_umask")
@pytest.mark.parametrize("mode", [0o600, 0o640])
def test_what_an_interrupted_commit_has_left_is_as_private_as_its_file__S26(tmp_path: Path, mode: int) -> None:
    """The machine lost its power: the last transaction is cut short. ZODB moves that part to a file of its own."""
    uri, file = f"file://{tmp_path}/Data.fs", tmp_path / "Data.fs"
    assert [ask(site_of(uri, write)).status_int for _ in range(2)] == [200, 200]
    close_all()
    (tmp_path / "Data.fs.index").unlink()
    file.chmod(mode)
    for number in range(2):
        os.truncate(file, file.stat().st_size - 10)
        before = file.read_bytes()
        assert ask(site_of(uri, read)).status_int == 200
        close_all()
        rest = tmp_path / f"Data.fs.tr{number}"
        assert rest.stat().st_mode & 0o777 == mode
        assert file.read_bytes() + rest.read_bytes() == before and rest.stat().st_size > 10


@pytest.mark.usefixtures("common_umask")
@pytest.mark.parametrize(
    "uri", ["zeo://h:1?blob_dir={}", "zeo://h:1?client=1&var={}", "mysql://h/d?cache_local_dir={}"]
)
def test_directories_with_copies_are_for_their_owner_only__S26(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What opens the storage finds the directory, which it would have made by the umask."""
    place = tmp_path / "var" / "copies"
    opens = place.joinpath("cache").touch
    monkeypatch.setattr("pipeline.database.storages.zodburi.resolve_uri", lambda uri: (opens, {}))
    storage_of(uri.format(place))[0]()
    assert modes(place.parent) == {"copies": 0o700}


@pytest.mark.usefixtures("common_umask")
@pytest.mark.parametrize("uri", ["zeo://{}?client=c&var={}", "zeo://{}?client=c&storage=main&var={}"])
def test_the_cache_of_a_zeo_client_is_for_its_owner_only__S26(uri: str, tmp_path: Path, caplog: Any) -> None:
    """ZEO takes it for its own, and would have made it by the umask, in a directory that others may read."""
    tmp_path.chmod(0o755)
    caplog.set_level(logging.INFO, "ZEO.cache")
    place = f"127.0.0.1:{unused_port()}"
    assert ask(site_of(uri.format(place, tmp_path) + "&wait_timeout=1", read)).status_int == 503
    close_all()
    (cache,) = tmp_path.glob("c-*.zec")
    assert f"reusing persistent cache file '{cache}'" in caplog.text
    assert cache.stat().st_mode & 0o777 == 0o600
    assert not list(tmp_path.glob("*.bad"))


@pytest.mark.usefixtures("common_umask")
def test_a_cache_of_relstorage_that_others_may_read_is_told__S26(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setattr("pipeline.database.storages.zodburi.resolve_uri", lambda uri: (bool, {}))
    for mode, told in ((0o700, 0), (0o755, 1)):
        tmp_path.chmod(mode)
        storage_of(f"mysql://h/d?cache_local_dir={tmp_path}")[0]()
        assert caplog.text.count(f"chmod 700 {tmp_path}") == told


@pytest.mark.usefixtures("common_umask")
def test_files_that_are_there_are_left_alone(tmp_path: Path) -> None:
    FileStorage(f"{tmp_path}/Data.fs").close()
    (tmp_path / "blobs").mkdir(mode=0o750)
    app = site_of(f"file://{tmp_path}/Data.fs?blobstorage_dir={tmp_path}/blobs", write)
    assert ask(app).status_int == 200
    pool(next(iter(module._pools))).db.pack()  # type: ignore[union-attr]
    assert {"Data.fs": 0o644, "blobs": 0o750}.items() <= modes(tmp_path).items()


@pytest.mark.parametrize("how", ["another file", "cut header", "overwritten"])
def test_a_damaged_file_is_said_to_be_damaged(tmp_path: Path, how: str, caplog: Any) -> None:
    """It is not an outage, and to try again does not help."""
    path = tmp_path / "Data.fs"
    app = site_of(f"file://{path}", write)
    for _ in range(20):
        ask(app)
    close_all()
    (tmp_path / "Data.fs.index").unlink()
    data = bytearray(path.read_bytes())
    if how == "another file":
        data[:4] = b"%PDF"
    elif how == "cut header":
        data = data[:2]
    else:
        data[12:20] = b"\0" * 7 + b"\1"  # the length of the first transaction
    path.write_bytes(data)
    caplog.clear()
    for _ in range(3):
        answer = ask(app)
        assert answer.status_int == 500
        assert "try again" not in answer.text and "Retry-After" not in answer.headers
    [line] = lines_of(caplog)
    assert "Data.fs is damaged or is not a Data.fs; requests that need it are answered 500: " in line
    assert "restore it from a backup (repozo)" in line
    assert path.read_bytes() == data
    assert "cannot be reached" not in caplog.text


def test_a_file_that_is_repaired_is_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Outage, "PAUSE", 0.0)
    (tmp_path / "Data.fs").write_bytes(b"nonsense")
    app = site_of(f"file://{tmp_path}/Data.fs", write)
    logging.disable(logging.ERROR)
    try:
        assert [ask(app).status_int for _ in range(3)] == [500] * 3
    finally:
        logging.disable(logging.NOTSET)
    (tmp_path / "Data.fs").unlink()
    assert ask(app).status_int == 200


def test_zeo_gives_an_id_twice_after_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server forgets which ids it has given in advance; the site that meets one of them tries again."""
    from ZEO.ClientStorage import ClientStorage

    def add(request: Request, response: Response) -> None:
        names = request.root
        for other in list(names.values()):
            other.get("x")  # so that the objects of others are in the cache
        names[request.path] = PersistentMapping()

    monkeypatch.setattr(Outage, "PAUSE", 0.05)
    server = ZEO(tmp_path)
    server.start()
    uri, address = server.uri(), ("127.0.0.1", server.port)
    other: Any = None
    try:
        app = site_of(uri, add, server_sync=True)
        assert ask(app, "/a").status_int == 200
        server.stop()
        server.start()
        other = DB(ClientStorage(address, server_sync=True))
        with other.transaction() as connection:
            for number in range(50):
                connection.root()[f"{number}"] = PersistentMapping()
        wait_until(lambda: ask(app, "/b").status_int == 200)
        assert [ask(app, f"/c{number}").status_int for number in range(20)] == [200] * 20
        with other.transaction() as connection:
            assert len(connection.root()) == 72
    finally:
        close_all()
        if other is not None:
            other.close()
        server.stop()


def test_zeo_server_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another process has acknowledged is there in the next request, also after the server was restarted."""
    from ZEO.ClientStorage import ClientStorage

    server = ZEO(tmp_path)
    server.start()
    uri, address = server.uri(), ("127.0.0.1", server.port)
    other: Any = None
    try:
        app = site_of(uri, read, server_sync=True)
        assert ask(app).text == "0"
        assert pool(uri).main.storage is not None
        other = DB(ClientStorage(address))
        for number in range(1, 200):
            with other.transaction() as connection:
                connection.root()["count"] = number
            assert ask(app).text == str(number)
        server.stop()
        server.start()
        wait_until(lambda: ask(app).status_int == 200)
        asked = []
        storage = pool(uri).db.storage  # type: ignore[union-attr]
        monkeypatch.setattr(storage, "_call", lambda name: asked.append(name) or storage.lastTransaction())
        assert (ask(app).text, asked) == ("199", ["lastTransaction"])  # also after the client has connected anew
    finally:
        close_all()
        if other is not None:
            other.close()
        server.stop()


# Processes


@with_relstorage
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_process_does_not_use_what_its_parent_has_open(tmp_path: Path) -> None:
    """A pool made before a fork is not used after it, and is left alone."""
    uri = f"sqlite://?data_dir={tmp_path}/data"
    app = site_of(uri, write)
    body = start(site_of(uri, stream))
    ask(app)
    inherited = {id(kept) for kept in pool(uri).all}
    child = os.fork()
    if child == 0:  # pragma: no cover
        status = 1
        try:
            ask(app)
            body.close()  # of a request that the parent has not done with
            fresh = {id(kept) for kept in pool(uri).all}
            if not fresh & inherited and len(pool(uri).idle) == 1:
                status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    ask(app)
    read_all(body)
    assert ask(site_of(uri, read)).text == "3"


def test_close_all_closes_also_what_is_in_use(uri: str) -> None:
    body = start(site_of(uri, stream))
    close_all()
    assert pool(uri).db is None
    if uri.startswith("file:"):
        FileStorage(uri.removeprefix("file://")).close()  # it is not locked any more
    body.close()
    assert len(pool(uri).idle) == 0
    ask(site_of(uri, write))
    assert ask(site_of(uri, read)).text == "1"


def test_at_the_end_of_a_process_the_databases_are_closed(tmp_path: Path) -> None:
    import subprocess

    script = f"""
import webob
from pipeline import Pipeline, element
from pipeline.elements.zodb import zodb
from pipeline.elements.transaction import transaction
@element
def end():
    def end(request, response):
        request.root["x"] = 1
        response.app_iter = [b""]
    return end
app = Pipeline(zodb(uri="file://{tmp_path}/Data.fs"), transaction(), end())
assert webob.Request.blank("/").get_response(app).status_int == 200
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "Data.fs.index").exists(), "which is written when the storage is closed"


# Positive controls


def test_control_close_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PooledConnection, "give_back", lambda kept: None)
    with pytest.raises(AssertionError):
        test_r5_a_stream_gives_the_connection_back("memory://test_control_1", read_all)


def test_control_the_connection_is_given_back_before_the_stream_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    on_close = Request.on_close
    monkeypatch.setattr(Request, "on_close", lambda request, closer, last=False: on_close(request, closer))
    with pytest.raises(AssertionError):
        test_what_a_stream_does_when_it_is_closed_still_has_the_connection("memory://test_control_2")


def test_control_a_refused_write_stays_in_memory(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    throw_away = PooledConnection.throw_away

    def keep(kept: PooledConnection) -> None:
        if kept.tm.must_discard:
            kept.tm.must_discard = False
            kept.pool.idle.append(kept)
        else:
            throw_away(kept)

    monkeypatch.setattr(PooledConnection, "throw_away", keep)
    with pytest.raises(AssertionError):
        test_without_transaction_a_write_is_refused("memory://test_control_3", tree, caplog)


def test_control_a_stream_may_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_module, "begin_to_read", lambda tm: tm.begin())
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        test_r8_a_write_while_the_body_is_sent_is_refused("memory://test_control_4", mapping)


def test_control_a_stream_has_no_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_module, "begin_to_read", lambda tm: None)
    monkeypatch.setattr(transaction_module, "ENDED", transaction_module.IN_USE)  # or it begins by itself
    with pytest.raises((AssertionError, NoTransaction)):
        test_r8_a_write_while_the_body_is_sent_is_refused("memory://test_control_5", mapping)


def test_the_private_parts_that_are_used_are_there() -> None:
    """Of ZODB and of transaction, which have no public ones for it."""
    assert callable(DB(None).open()._release_resources)
    connection = DB(None).open()
    connection.newTransaction(None)  # it does not look at the transaction ...
    assert connection.beforeCompletion(None) is None and connection.afterCompletion(None) is None
    from transaction import TransactionManager

    tm = TransactionManager(explicit=True)
    assert tm._txn is None
    begun = tm.begin()
    assert tm._txn is begun
    assert (begun._resources, begun._voted, begun._before_commit, begun._after_commit) == ([], {}, [], [])


# A database of the application


@pytest.fixture
def given() -> Iterator[DB]:
    db = DB(None)
    yield db
    close_all()
    db.close()


def test_a_database_of_the_application_is_used_and_not_closed(given: DB) -> None:
    app = Pipeline(zodb(db=given), transaction(), end(view=write))
    ask(app)
    ask(app)
    assert len(given.pool.all) == 1
    close_all()
    connection = given.open()
    assert connection.root()["count"] == 2
    connection.close()


def test_a_function_may_return_the_database(given: DB) -> None:
    app = Pipeline(zodb(db=lambda: given), transaction(), end(view=write))
    assert ask(app).status_int == 200


def test_the_class_of_the_managers_may_be_given(given: DB) -> None:
    class Own(Manager):
        pass

    seen: list[type] = []
    app = Pipeline(zodb(db=given, manager=Own), end(view=lambda request, response: seen.append(type(request.tm))))
    ask(app)
    assert seen == [Own]


@pytest.mark.parametrize("options", [{}, {"uri": "memory://twice", "db": object()}])
def test_a_database_comes_from_one_place(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="give one of the options uri and db"):
        Pipeline(zodb(**options), end(view=read))


def test_a_zope_conf_needs_the_function_that_loads_it() -> None:
    with pytest.raises(ConfigurationError, match="zope_conf needs db"):
        Pipeline(zodb(uri="memory://no_site", zope_conf="zope.conf"), end(view=read))


@pytest.mark.parametrize("options", [{"cache_size": 3}, {"databases": {"other": "memory://other"}}])
def test_a_database_of_the_application_has_its_own_options(options: dict[str, Any], given: DB) -> None:
    with pytest.raises(ConfigurationError, match="has its own options"):
        Pipeline(zodb(db=given, **options), end(view=read))
