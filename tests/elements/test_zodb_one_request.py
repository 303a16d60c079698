"""``zodb``: a connection, its objects and its transaction belong to one request (R13)."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from BTrees.OOBTree import OOBTree
from persistent import Persistent
from persistent.list import PersistentList
from persistent.mapping import PersistentMapping
from transaction import Transaction
from transaction.interfaces import NoTransaction, TransactionFailedError
from ZODB.blob import Blob
from ZODB.Connection import Connection
from ZODB.DB import DB
from ZODB.POSException import ConflictError, ConnectionStateError

from around_a_view import View, ask, end, looking
from pipeline import Pipeline, Request, Response, element
from pipeline.database import zodb_pools as module
from pipeline.database.connections import RequestConnection
from pipeline.database.transactions import Manager
from pipeline.database.zodb_pools import Pool
from pipeline.elements.errors import errors
from pipeline.elements.retry import retry
from pipeline.elements.transaction import transaction
from pipeline.elements.zodb import close_all, zodb
from pipeline.interfaces import ReadOnlyTransaction

WAS = "as it was"


class Thing(Persistent):  # type: ignore[misc]
    def __init__(self, value: str = WAS) -> None:
        self.value = value


@pytest.fixture(autouse=True)
def databases() -> Iterator[None]:
    yield
    close_all()
    module._pools.clear()


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = f"file://{tmp_path}/Data.fs"
    assert ask(site_of(uri, make)).status == 200
    return uri


def pool(uri: str) -> Pool:
    return module._pools[uri]


def site_of(uri: str, view: View, *outer: Any, **options: Any) -> Pipeline:
    return Pipeline(retry(delay=0), zodb(uri=uri, **options), errors(), *outer, transaction(), end(view=view))


def make(request: Request, response: Response) -> None:
    root = request.root
    root["thing"] = Thing()
    root["ghost"] = Thing()
    root["mapping"] = PersistentMapping(key=WAS, victim=WAS)
    root["list"] = PersistentList([WAS])
    root["tree"] = OOBTree({"key": WAS, **{str(number): WAS for number in range(100)}})


def state(root: Any) -> dict[str, Any]:
    return {
        "attribute": root["thing"].value,
        "mapping": dict(root["mapping"]),
        "list": list(root["list"]),
        "tree": dict(root["tree"]),
        "root": set(root),
    }


def see(uri: str) -> dict[str, Any]:
    """What the next visitor sees, who writes something else into each object."""
    seen = []

    def view(request: Request, response: Response) -> None:
        root = request.root
        seen.append(state(root))
        root["thing"].other = root["mapping"]["other"] = root["tree"]["other"] = root["other"] = len(seen)
        root["list"].append("other")

    answer = ask(site_of(uri, view))
    assert answer.status == 200
    return seen[0]


def stored(uri: str) -> dict[str, Any]:
    """What is stored, without what the next visitor has written."""
    close_all()
    db = DB(uri.removeprefix("file://"))
    with db.transaction() as connection:
        found = state(connection.root())
    db.close()
    found["list"].remove("other")
    for mapping in (found["mapping"], found["tree"]):
        del mapping["other"]
    found["root"].remove("other")
    return found


BEFORE = {
    "attribute": WAS,
    "mapping": {"key": WAS, "victim": WAS},
    "list": [WAS],
    "tree": {"key": WAS, **{str(number): WAS for number in range(100)}},
    "root": {"thing", "ghost", "mapping", "list", "tree"},
}


def in_attribute(root: Any) -> None:
    root["thing"].value = "changed"


def in_mapping(root: Any) -> None:
    root["mapping"]["key"] = "changed"


def in_list(root: Any) -> None:
    root["list"][0] = "changed"


def in_tree(root: Any) -> None:
    root["tree"]["key"] = "changed"


def of_mapping(root: Any) -> None:
    del root["mapping"]["victim"]


def of_tree(root: Any) -> None:
    del root["tree"]["key"]


def new(root: Any) -> None:
    root["new"] = Thing()


WRITES = [in_attribute, in_mapping, in_list, in_tree, of_mapping, of_tree, new]
Write = Callable[[Any], None]


def load_all(root: Any) -> None:
    state(root)


def kept_by(uri: str) -> Any:
    """The root as a request has left it in a global."""
    kept = []

    def view(request: Request, response: Response) -> None:
        load_all(request.root)
        request.root["ghost"]._p_deactivate()
        kept.append((request.root, request.tm, request.zodb))

    ask(site_of(uri, view))
    return kept[0]


# What is changed where nothing will commit it


def after_abort(request: Request, write: Write) -> None:
    load_all(request.root)
    request.tm.abort()
    write(request.root)


def after_commit(request: Request, write: Write) -> None:
    load_all(request.root)
    request.tm.commit()
    write(request.root)


def in_a_thread(request: Request, write: Write) -> None:
    load_all(request.root)
    request.tm.abort()
    problems: list[BaseException] = []

    def work() -> None:
        try:
            write(root)
        except BaseException as error:
            problems.append(error)

    root = request.root
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    raise problems[0]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("moment", [after_abort, after_commit, in_a_thread])
@pytest.mark.parametrize("swallowed", [False, True])
def test_a_write_of_a_view_without_transaction(
    uri: str, moment: Callable[[Request, Write], None], write: Write, swallowed: bool
) -> None:
    def view(request: Request, response: Response) -> None:
        with pytest.raises(NoTransaction, match=r"request\.tm\.begin") as raised:
            moment(request, write)
        if not swallowed:
            raise raised.value

    assert ask(site_of(uri, view)).status == (200 if swallowed else 500)
    assert see(uri) == BEFORE
    assert stored(uri) == BEFORE


@pytest.mark.parametrize("write", WRITES)
def test_a_write_in_on_close(uri: str, write: Write, caplog: Any) -> None:
    def view(request: Request, response: Response) -> None:
        load_all(request.root)
        request.on_close(lambda: write(request.root))

    assert ask(site_of(uri, view)).status == 200
    assert "ReadOnlyTransaction" in caplog.text
    assert see(uri) == BEFORE
    assert stored(uri) == BEFORE


@pytest.mark.parametrize("write", WRITES)
def test_a_write_of_an_element_outside_transaction(uri: str, write: Write) -> None:
    @element
    def outer(next: Any) -> Any:
        def outer(request: Request, response: Response) -> None:
            next(request, response)
            write(request.root)

        return outer

    assert ask(site_of(uri, lambda request, response: load_all(request.root), outer())).status == 500
    assert see(uri) == BEFORE
    assert stored(uri) == BEFORE


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("thread", [False, True], ids=["a global", "a thread"])
def test_a_write_between_two_requests(uri: str, write: Write, thread: bool) -> None:
    root, _, connection = kept_by(uri)

    def refused() -> None:
        with pytest.raises(NoTransaction, match="R13"):
            write(root)

    if thread:
        other = threading.Thread(target=refused)
        other.start()
        other.join()
    else:
        refused()
    used = []
    ask(site_of(uri, lambda request, response: used.append(request.zodb)))
    assert used[0] is not connection
    assert see(uri) == BEFORE
    assert stored(uri) == BEFORE


class Finalized:
    """Garbage of one request that writes when it is collected."""

    def __init__(self, write: Write, root: Any) -> None:
        self.write, self.root, self.itself = write, root, self

    def __del__(self) -> None:
        self.write(self.root)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("by", ["a finalizer", "a weak reference"])
def test_a_write_of_garbage_that_is_collected_in_the_next_request(uri: str, write: Write, by: str) -> None:
    """Python chooses the request in which the collector runs."""
    kept: list[Any] = []

    def leave(request: Request, response: Response) -> None:
        state(request.root)
        if by == "a finalizer":
            Finalized(write, request.root)
            return
        garbage, root = Thing(), request.root
        garbage.itself = garbage
        kept.append(weakref.ref(garbage, lambda ref: write(root)))

    def collect(request: Request, response: Response) -> None:
        state(request.root)
        gc.collect()

    gc.collect()
    gc.disable()
    try:
        assert ask(site_of(uri, leave)).status == 200
        assert ask(site_of(uri, collect)).status == 200
    finally:
        gc.enable()
    assert see(uri) == BEFORE
    assert stored(uri) == BEFORE


def test_a_read_or_another_transaction_between_two_requests(uri: str) -> None:
    """What reaches the database is refused. What does not has no effect on the next request."""
    root, tm, connection = kept_by(uri)
    for use in (
        lambda: root["ghost"].value,
        lambda: connection.get(b"\0" * 7 + b"\7"),
        lambda: connection[b"\0" * 7 + b"\7"],
        lambda: connection.oldstate(root["ghost"], root["ghost"]._p_serial),
        lambda: connection.add(Thing()),
        lambda: connection.sync(),
        lambda: connection.get_connection("other"),
        *(tm.begin, tm.get, tm.commit, tm.savepoint, tm.doom, tm.isDoomed),
        lambda: tm.registerSynch(Thing()),
    ):
        with pytest.raises(NoTransaction, match="R13"):
            use()
    assert root["thing"].value == WAS, "what is loaded is in memory, and no connection notices"
    used = []
    ask(site_of(uri, lambda request, response: used.append(request.zodb)))
    assert used == [connection], "nothing was changed, so it is used again"


def test_the_owner_of_a_database_can_close_it_after_a_request() -> None:
    """``DB.close`` aborts for each connection, and the pipeline keeps one that no request uses."""
    db = DB(None)
    assert ask(Pipeline(zodb(db=db), transaction(), end(view=make))).status == 200
    db.close()


def test_a_closed_connection_says_so(uri: str) -> None:
    root, _, _ = kept_by(uri)
    close_all()
    with pytest.raises(ConnectionStateError):
        root["ghost"].value  # noqa: B018
    with pytest.raises(ConnectionStateError, match="is closed"):
        root["thing"].value = "changed"


def test_a_look_at_no_transaction_costs_no_connection(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []
    monkeypatch.setattr(DB, "open", lambda db, **options: opened.append(db) or open_db(db, **options))

    def view(request: Request, response: Response) -> None:
        request.root["thing"].value  # noqa: B018
        request.tm.abort()
        for look in (request.tm.get, request.tm.isDoomed, request.tm.commit):
            with pytest.raises(NoTransaction):
                look()

    app = site_of(uri, view)
    for _ in range(1_000):
        assert app({"REQUEST_METHOD": "GET", "PATH_INFO": "/"}, lambda *arguments: None) == [b"done"]
    assert len(opened) == 0, "the one of the first request is used again"


open_db = DB.open


def test_a_write_that_was_refused_is_not_stored_by_its_own_request(uri: str) -> None:
    def view(request: Request, response: Response) -> None:
        load_all(request.root)
        request.tm.abort()
        with pytest.raises(NoTransaction):
            request.root["mapping"]["key"] = "changed"
        request.tm.begin()

    assert ask(site_of(uri, view)).status == 500
    assert see(uri) == BEFORE


@pytest.mark.parametrize("fails", ["savepoint", "commit"])
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("swallowed", [False, True])
def test_a_write_after_a_failure_that_was_swallowed(
    uri: str, fails: str, write: Write, swallowed: bool
) -> None:
    def view(request: Request, response: Response) -> None:
        load_all(request.root)
        request.root["mapping"]["lambda"] = lambda: None  # which cannot be pickled
        with contextlib.suppress(Exception):
            getattr(request.tm, fails)()
        with contextlib.suppress(*[TransactionFailedError] if swallowed else []):
            write(request.root)

    logging.disable(logging.ERROR)
    try:
        assert ask(site_of(uri, view)).status == 500
    finally:
        logging.disable(logging.NOTSET)
    assert see(uri) == BEFORE
    assert stored(uri) == BEFORE


@pytest.mark.parametrize("error", [ValueError, SystemExit])
def test_a_join_that_fails(error: type[BaseException], uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(transaction: Any, resource: Any) -> None:
        raise error

    def view(request: Request, response: Response) -> None:
        load_all(request.root)
        with monkeypatch.context() as patched, pytest.raises(error):
            patched.setattr(Transaction, "join", fail)
            request.root["mapping"]["key"] = "changed"

    assert ask(site_of(uri, view)).status == 200
    assert see(uri) == BEFORE
    assert stored(uri) == BEFORE


# What is read when ``transaction`` has ended


def test_what_is_loaded_after_the_commit_is_what_was_committed(uri: str) -> None:
    """An object that leaves the memory at the end of the commit, as one does in a full cache."""

    @element
    def outer(next: Any) -> Any:
        def outer(request: Request, response: Response) -> None:
            next(request, response)
            request.root["thing"]._p_deactivate()
            seen.append(request.root["thing"].value)

        return outer

    seen: list[str] = []

    def view(request: Request, response: Response) -> None:
        request.root["thing"].value = "changed"

    assert ask(site_of(uri, view, outer())).status == 200
    ask(site_of(uri, lambda request, response: seen.append(request.root["thing"].value)))
    assert seen == ["changed", "changed"]


def test_a_view_that_has_ended_its_transaction_loads_nothing(uri: str) -> None:
    """It would be loaded as it was before, and be seen so by the next request."""

    def view(request: Request, response: Response) -> None:
        request.root["thing"].value = "changed"
        request.tm.commit()
        request.root["thing"]._p_deactivate()
        with pytest.raises(NoTransaction, match=r"request\.tm\.begin"):
            request.root["thing"].value  # noqa: B018
        request.tm.begin()
        assert request.root["thing"].value == "changed"

    assert ask(site_of(uri, view)).status == 200


def test_after_the_answer_everybody_reads_and_nobody_writes(uri: str) -> None:
    seen: list[Any] = []

    def view(request: Request, response: Response) -> None:
        def closer() -> None:
            request.root["ghost"]._p_deactivate()
            seen.append(request.root["ghost"].value)
            with pytest.raises(ReadOnlyTransaction):
                request.root["ghost"].value = "changed"

        request.on_close(closer)

    assert ask(site_of(uri, view)).status == 200
    assert seen == [WAS]
    assert see(uri) == BEFORE


@pytest.mark.parametrize("before", ["reads", "aborts"])
def test_a_transaction_that_an_outer_element_has_ended_begins_again(uri: str, before: str) -> None:
    def look(request: Request) -> None:
        request.root["thing"].value  # noqa: B018
        if before == "aborts":
            request.tm.abort()

    app = site_of(uri, lambda request, response: in_attribute(request.root), looking(look))
    assert ask(app).status == 200
    assert see(uri)["attribute"] == "changed"


# Who closes a connection


@pytest.mark.parametrize("when", ["unchanged", "changed", "after the request"])
def test_a_connection_is_not_closed_by_a_view(uri: str, when: str) -> None:
    """It would be in the pool of ZODB, for another request, and in ours."""
    kept: list[Any] = []

    def close(connection: Any) -> None:
        with pytest.raises(ConnectionStateError, match="the element zodb closes"):
            connection.close()

    def view(request: Request, response: Response) -> None:
        kept.append(request.zodb)
        if when == "changed":
            in_attribute(request.root)
        if when != "after the request":
            close(request.zodb)

    assert ask(site_of(uri, view)).status == 200
    if when == "after the request":
        close(kept[0])
    assert see(uri)["attribute"] == ("changed" if when == "changed" else WAS)


def test_connections_of_other_databases_and_of_other_classes(tmp_path: Path) -> None:
    class Own(Connection):  # type: ignore[misc]
        def db(self) -> Any:
            return super().db()

    class OwnDB(DB):  # type: ignore[misc]
        klass = Own

    given = OwnDB(None)
    kept: list[Any] = []

    def view(request: Request, response: Response) -> None:
        kept.append((request.zodb, request.root))
        request.root["thing"] = Thing()

    app = Pipeline(zodb(db=given), transaction(), end(view=view))
    assert ask(app).status == 200
    connection, root = kept.pop()
    assert isinstance(connection, Own) and isinstance(connection, RequestConnection)
    with pytest.raises(NoTransaction, match="R13"):
        root["thing"] = None
    with given.transaction() as of_application:
        assert isinstance(of_application, Own), "what the application opens is its own, and needs no request"
        of_application.root()["thing"] = None
    close_all()
    given.close()

    def other(request: Request, response: Response) -> None:
        connection = request.zodb.get_connection("other")
        kept.append((connection, connection.root()))

    app = site_of(f"file://{tmp_path}/one.fs", other, databases={"other": f"file://{tmp_path}/two.fs"})
    ask(app)
    connection, root = kept.pop()
    with pytest.raises(NoTransaction, match="R13"):
        root["thing"] = None
    with pytest.raises(ConnectionStateError):
        connection.close()
    ask(app)
    assert kept.pop()[0] is not connection


# Synchronizers


class Told:
    """A synchronizer that counts what it is told."""

    count = 0

    def newTransaction(self, transaction: Any) -> None:
        type(self).count += 1

    def beforeCompletion(self, transaction: Any) -> None:
        type(self).count += 1

    def afterCompletion(self, transaction: Any) -> None:
        type(self).count += 1


@pytest.mark.parametrize("kept", [True, False], ids=["in a global", "by nobody"])
def test_a_synchronizer_of_a_view_belongs_to_its_request(uri: str, kept: bool) -> None:
    Told.count = 0
    known: list[Any] = []

    def view(request: Request, response: Response) -> None:
        told = Told()
        request.tm.registerSynch(told)
        known.append(told if kept else weakref.ref(told))

    app = site_of(uri, view)
    for _ in range(5):
        ask(app)
    gc.collect()
    assert kept or [one() for one in known] == [None] * 5
    assert len(pool(uri).idle[0].tm._synchs) == 1, "the connection"
    before = Told.count
    ask(site_of(uri, lambda request, response: load_all(request.root)))
    assert Told.count == before <= 15


def test_a_connection_that_a_view_opens_belongs_to_its_request(uri: str) -> None:
    known = []

    def view(request: Request, response: Response) -> None:
        connection = request.zodb.db().open(request.tm)
        assert connection.root()["thing"].value == WAS
        known.append(weakref.ref(connection))
        if len(known) > 2:
            connection.close()

    app = site_of(uri, view)
    for _ in range(3):
        ask(app)
    assert len(pool(uri).idle[0].tm._synchs) == 1


def test_synchronizers_of_elements_last() -> None:
    tm = Manager()
    tm.kept["element"] = told = Told()
    tm.registerSynch(told)
    tm.registerSynch(other := Told())
    tm.clearSynchs()
    tm.leave()
    assert [one() for one in tm._synchs.as_weakref_list()] == [told]
    assert other is not told


# Whatever interrupts it


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, ConflictError, ValueError])
@pytest.mark.parametrize("name", ["get", "newTransaction"])
@pytest.mark.parametrize("which", ["idle", "new", "first"])
def test_r5_an_error_while_a_connection_is_taken(
    name: str, error: type[BaseException], which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.database.storages.PATIENCE", 0.0)  # each of 100 attempts would wait so long
    uri = f"memory://taken-{name}-{error.__name__}-{which}"
    app = site_of(uri, read, max_connections=1, connection_wait=0.1)
    if which != "first":  # which opens the database, too
        assert ask(app).status == 200
    if which == "new":
        pool(uri).idle.pop().throw_away()

    def fail(*arguments: Any) -> None:
        raise error

    logging.disable(logging.ERROR)
    with monkeypatch.context() as patched, contextlib.suppress(SystemExit, KeyboardInterrupt):
        patched.setattr(RequestConnection, name, fail)
        ask(app)
    logging.disable(logging.NOTSET)
    assert pool(uri).usage().used == 0
    pool(uri).main.outage.since = None
    assert [ask(app).status for _ in range(2)] == [200, 200]


@pytest.mark.parametrize("error", [SystemExit, ValueError])
@pytest.mark.parametrize("callback", [True, False])
def test_r5_an_error_while_a_connection_is_given_back(
    callback: bool, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = f"memory://given-back-{error.__name__}-{callback}"
    called = []

    def fail(*arguments: Any) -> None:
        raise error

    def view(request: Request, response: Response) -> Iterator[bytes]:
        request.tm.leave_callbacks += [lambda: called.append(request), *([fail] if callback else [])]
        if not callback:
            monkeypatch.setattr(request.tm, "abort", fail)
        return iter([b"a stream"])

    logging.disable(logging.ERROR)
    with contextlib.suppress(SystemExit):
        ask(site_of(uri, view, max_connections=1, connection_wait=0.1))
    logging.disable(logging.NOTSET)
    assert len(called) == 1
    assert (len(pool(uri).all), len(pool(uri).idle)) == (0, 0), "it may not be clean"
    assert ask(site_of(uri, read, max_connections=1, connection_wait=0.1)).status == 200


def test_r5_a_database_that_is_disconnected_takes_no_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    uri = "memory://disconnected"
    app = site_of(uri, read, max_connections=1, connection_wait=0.1)
    assert ask(app).status == 200
    connected = [False, False, True]
    pool(uri).is_connected = lambda: connected.pop(0)
    assert [ask(app).status for _ in range(3)] == [503, 503, 200]


def read(request: Request, response: Response) -> Any:
    return [str(len(request.root)).encode()]


def test_s15_without_descriptors_a_blob_is_a_503(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the first one of the process."""
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(tempfile, "tempdir", None)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    def view(request: Request, response: Response) -> None:
        request.root["blob"] = blob = Blob()
        used = os.open(os.devnull, os.O_RDONLY)
        os.close(used)
        resource.setrlimit(resource.RLIMIT_NOFILE, (used, hard))
        blob.open("w")

    app = site_of(f"file://{tmp_path}/Data.fs?blobstorage_dir={tmp_path}/blobs", view)
    try:
        answer = ask(app)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (answer.status, answer.headers["Retry-After"]) == (503, "1")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_r12_a_database_of_the_application_is_not_used_by_a_child(caplog: Any) -> None:
    given = DB(None)
    app = Pipeline(zodb(db=given), errors(), transaction(), end(view=read))
    assert ask(app).status == 200
    child = os.fork()
    if child == 0:  # pragma: no cover
        status = 1
        try:
            said = f"process {os.getppid()}, from which this one was forked, has opened it"
            if [ask(app).status for _ in range(2)] == [503, 503] and said in caplog.text:
                status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert ask(app).status == 200
    close_all()
    given.close()
