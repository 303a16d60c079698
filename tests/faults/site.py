"""The site of the experiments: a counter that everybody writes, a ledger, and bodies that stream.

Its root is the only object with views. Every write carries an id, is counted in the ledger under it,
and does its work in one transaction. ``Tables`` is the same site on the tables of an SQL database.
"""

from __future__ import annotations

import gc
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from BTrees.OOBTree import OOBTree
from persistent import Persistent
from webob.exc import HTTPBadRequest, HTTPConflict

from pipeline import Request, Response, view
from pipeline.database.transactions import is_open
from pipeline.testing import FakeDataManager
from servers.toxiproxy import call

PAGE = 4096
"""Bytes of one page of the object that ``stream`` reads."""


class Hot(Persistent):  # type: ignore[misc]
    """The object that every writer changes. It resolves no conflict."""

    value = 0


class Page(Persistent):  # type: ignore[misc]
    def __init__(self, number: int) -> None:
        self.data = b"%08d" % number * (PAGE // 8)


class Payload(Persistent):  # type: ignore[misc]
    """Bytes that make a transaction larger."""

    data = b""


class Site(Persistent):  # type: ignore[misc]
    """The root of the site."""

    __parent__ = None
    __name__ = None

    def __init__(self) -> None:
        self.hot = Hot()
        self.ledger = OOBTree()
        self.payload = OOBTree()
        self.pages = [Page(number) for number in range(64)]


def root(mapping: Any) -> Site:
    """The site in a database; made on first use."""
    site: Site | None = mapping.get("site")
    if site is None:
        site = mapping["site"] = Site()
    return site


class Tables:
    """The root of the same site on SQL; its views are in ``faults.tables``."""

    def __getitem__(self, name: str) -> Any:
        raise KeyError(name)


def tables() -> Tables:
    return Tables()


def count(site: Site, id: str) -> None:
    """Note in the ledger that ``id`` was written: once more, if it is there already."""
    if not id:
        raise HTTPBadRequest("a write has an id")
    site.ledger[id] = site.ledger.get(id, 0) + 1


@view(context=Site)
def index(site: Site, request: Request) -> str:
    """Reads the database; the first of these makes the site."""
    return f"{site.hot.value}"


@view(context=Site, name="nothing")
@view(context=Tables, name="nothing")
def nothing(site: Any, request: Request) -> str:
    return "nothing"


@view(context=Site, name="add", methods=("POST",))
def add(site: Site, request: Request) -> str:
    """Add one to the counter, under the id of the query; the answer is the new value."""
    count(site, request.GET["id"])
    site.hot.value += 1
    return f"{site.hot.value}"


@view(context=Site, name="write", methods=("POST",))
def write(site: Site, request: Request) -> str:
    """Write an entry of the ledger, with as many bytes of payload as the query says, or as the body has.

    The body is read by WebOb, which keeps a copy of a long one on disk; or, with ``raw`` in the query, as it
    comes.
    """
    id = request.GET["id"]
    count(site, id)
    size = int(request.GET.get("size", 0))
    body = request.environ["wsgi.input"].read() if "raw" in request.GET else request.body
    if size or body:
        payload = site.payload.get(id)
        if payload is None:
            payload = site.payload[id] = Payload()
        payload.data = body or b"x" * size  # in one and the same object: what is written again takes no more room
    return "written"


@view(context=Site, name="collect")
def collect(site: Site, request: Request) -> str:
    """Collect garbage: WebOb's copy of a body goes with the environ, which is in a cycle of WebOb's."""
    return str(gc.collect())


@view(context=Site, name="has")
def has(site: Site, request: Request) -> str:
    return str(site.ledger.get(request.GET["id"], 0))


spies: list[FakeDataManager] = []


class Trigger(FakeDataManager):
    """A data manager that breaks something at a certain step of a transaction; it comes first at each."""

    def __init__(self, tm: Any, step: str, action: Callable[[], object]) -> None:
        super().__init__(tm, key="!")
        self.step = step
        self.action = action

    def _step(self, name: str) -> None:
        super()._step(name)
        if name == self.step:
            self.action()


attempts: Counter[str] = Counter()


@view(context=Site, name="broken", methods=("POST",))
def broken(site: Site, request: Request) -> str:
    """As ``write``; at a certain step of the first attempt's commit, the connection is poisoned."""
    step, poison = poison_of(request)
    if step != "begin":
        Trigger(request.tm, step, poison).join()
    return write(site, request)


def poison_of(request: Request) -> tuple[str, Callable[[], object]]:
    """At which step the connections to the database break, and what breaks them; at the first attempt only.

    The query says at which ``step``, with which ``toxic``, of which ``proxy`` at which ``control`` port, and
    after how many ``seconds`` it is over.
    """
    query = request.GET
    attempts[query["id"]] += 1
    toxic = json.loads(query["toxic"])
    path = f"/proxies/{query['proxy']}/toxics"
    control, seconds = int(query["control"]), float(query["seconds"])

    def poison() -> None:
        call(control, "POST", path, **toxic)
        cure = threading.Timer(seconds, call, (control, "DELETE", f"{path}/{toxic['name']}"))
        cure.daemon = True
        cure.start()

    return query["step"] if attempts[query["id"]] == 1 else "begin", poison


@view(context=Site, name="attempts")
@view(context=Tables, name="attempts")
def how_many_attempts(site: Any, request: Request) -> str:
    return str(attempts[request.GET["id"]])


@view(context=Site, name="spied", methods=("POST",))
def spied(site: Site, request: Request) -> str:
    """As ``write``, with a spy on its transaction."""
    spies.append(FakeDataManager(request.tm).join())
    return write(site, request)


@view(context=Site, name="refuse", methods=("POST",))
def refuse(site: Site, request: Request) -> str:
    """Write, and then answer 409: nothing of it is to be stored (R3)."""
    count(site, request.GET["id"])
    raise HTTPConflict("no")


@view(context=Site, name="fail", methods=("POST",))
def fail(site: Site, request: Request) -> str:
    count(site, request.GET["id"])
    raise RuntimeError("the view fails")


# What is open now and what was closed, by the id of the stream; to be read under the lock.
lock = threading.Lock()
opened: set[str] = set()
closed: Counter[str] = Counter()


class Pages:
    """A body that reads the database while it is sent, and counts its closings."""

    def __init__(self, site: Site, id: str, blocks: int) -> None:
        self.id = id
        self.blocks = self._blocks(site, blocks)
        with lock:
            opened.add(id)

    def _blocks(self, site: Site, blocks: int) -> Iterator[bytes]:
        for number in range(blocks):
            page = site.pages[number % len(site.pages)]
            yield page.data
            page._p_deactivate()

    def __iter__(self) -> Iterator[bytes]:
        return self.blocks

    def close(self) -> None:
        with lock:
            closed[self.id] += 1


@view(context=Site, name="stream")
def stream(site: Site, request: Request) -> Pages:
    return Pages(site, request.GET["id"], int(request.GET.get("blocks", 16)))


@view(context=Site, name="breaks")
def breaks(site: Site, request: Request) -> Iterator[bytes]:
    """A body that fails after its second block."""

    def blocks() -> Iterator[bytes]:
        yield site.pages[0].data
        yield site.pages[1].data
        raise RuntimeError("the stream breaks")

    return blocks()


@view(context=Site, name="streams")
def streams(site: Site, request: Request, response: Response) -> str:
    """What was opened and what is open in this process: bodies, connections, transactions."""
    response.content_type = "application/json"
    connections = [c for c in list(site._p_jar.db().pool.all) if c.transaction_manager is not None]
    with lock:
        return json.dumps(
            {
                "opened": len(opened),
                "open": sorted(opened - closed.keys()),
                "twice": sorted(id for id, times in closed.items() if times > 1),
                "connections": len(connections),
                "transactions": sum(is_open(c.transaction_manager) for c in connections),
            }
        )
