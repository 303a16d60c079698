"""Pages that are kept, under readers and writers: the site, its load, and the judge of each answer.

A page has a number of changes. What it says is a function of that number, so each answer is judged: it must be that
of a number between the last change that was acknowledged before the request, and the last one that had begun when
the answer came. The numbers are in memory that processes share; an odd one means that a change is on its way.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from bisect import bisect
from collections import Counter
from itertools import accumulate
from multiprocessing import get_context
from typing import Any, NamedTuple

from BTrees.OOBTree import OOBTree
from persistent import Persistent
from transaction import TransactionManager
from ZEO.ClientStorage import ClientStorage
from ZODB.DB import DB
from zope.interface import implementer

from pipeline import Pipeline, Request, element, view
from pipeline.cookies import cookies_of
from pipeline.database.storages import ask_for_news
from pipeline.elements.authenticate import authenticate
from pipeline.elements.errors import errors
from pipeline.elements.keep import keep
from pipeline.elements.transaction import transaction
from pipeline.elements.traverse import traverse
from pipeline.elements.zodb import zodb
from pipeline.interfaces import ISecurityPolicy
from pipeline.options import resolve
from pipeline.publisher import publisher

SLOT: Any = Request.environ
PLAN: dict[str, float] = {"deactivate": 0, "pause": 0, "early": 0}
"""Whether the view deactivates the objects that it has read; the seconds that it takes; and the seconds for which
an outer element, which has begun the transaction, waits before it. None of it is a bug of the site."""


class Half(Persistent):  # type: ignore[misc]
    """One of two objects that are always changed together."""

    number = 0


class Grant(Persistent):  # type: ignore[misc]
    """What the policy reads of a page, and nothing else does."""

    number = 0


class Page(Persistent):  # type: ignore[misc]
    """A page. It is never changed itself."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.left, self.right, self.grant, self.keys = Half(), Half(), Grant(), OOBTree()

    def change(self, number: int) -> None:
        """Make one change more: of the text, the grant or a key."""
        if number % 3 == 0:
            self.left.number = self.right.number = number
        elif number % 3 == 1:
            self.grant.number += 1
        elif "key" in self.keys:
            del self.keys["key"]
        else:
            self.keys["key"] = number


def expected(page: int, number: int, cookie: str) -> str:
    """The answer for a page after so many changes."""
    if (number + 2) // 3 % 4 == 3:
        return "401"
    text = number - number % 3
    return f"{page} {text} {text} {(number + 1) // 3 % 2} {cookie}"


@implementer(ISecurityPolicy)
class Policy:
    """Permits what the grant of a page says."""

    asks_the_database_alone = True

    def permits(self, request: Any, permission: str, context: Any) -> bool:
        return bool(context.grant.number % 4 != 3)


@view(context=Page, permission="see")
def page(context: Page, request: Any) -> str:
    request.keep = 60
    # As the elements read a cookie: a view that reads request.environ has read all of it.
    cookie = ",".join(cookies_of(SLOT.__get__(request), "side"))
    text = f"{context.number} {context.left.number} {context.right.number} {int('key' in context.keys)} {cookie}"
    if PLAN["deactivate"]:
        context.left._p_deactivate()
        context.right._p_deactivate()
    if PLAN["pause"]:
        time.sleep(PLAN["pause"])
    return text


@element
def early(next: Any) -> Any:
    """Begin the transaction outside of ``keep``, as an element does that reads sessions in the database."""

    def early(request: Any, response: Any) -> None:
        if PLAN["early"]:
            len(request.root)
            time.sleep(PLAN["early"])
        next(request, response)

    return early


def make_pages(db: DB, count: int) -> None:
    """Store the pages of a site."""
    with db.transaction() as connection:
        pages = connection.root()["pages"] = OOBTree()
        for number in range(count):
            pages[f"p{number}"] = Page(number)


def site_on(db: DB, *, keeps: bool = True) -> Pipeline:
    """The site on a database."""
    parts: list[Any] = [zodb(db=db, root="pages"), errors(), transaction(), early()]
    parts += [authenticate(check=str, policy=Policy)]
    parts += [keep()] if keeps else []
    return Pipeline(*parts, traverse(), publisher(scan=(__name__,)))


def get(app: Any, path: str, cookie: str = "", **environ: Any) -> str:
    """The text of an answer, or its status if that is not 200."""
    started: list[str] = []
    environ = {
        "REQUEST_METHOD": "GET",
        "PATH_INFO": path,
        "SCRIPT_NAME": "",
        "QUERY_STRING": "",
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "80",
        "HTTP_HOST": "localhost",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.url_scheme": "http",
        "wsgi.errors": sys.stderr,
        "HTTP_COOKIE": f"other={random.random()}; side={cookie}",
        **environ,
    }
    body = app(environ, lambda status, headers, exc_info=None: started.append(status))
    text = b"".join(body).decode("latin-1")
    return text if started[0] == "200 OK" else started[0][:3]


class Load:
    """Threads that read the pages of a site by Zipf's law, and change them uniformly."""

    def __init__(self, db: DB, seqs: Any, *, process: int = 0, processes: int = 1, found: Any = None) -> None:
        self.db, self.seqs, self.found = db, seqs, found
        self.process, self.processes = process, processes
        self.app = site_on(db)
        self.weights = list(accumulate(1 / rank for rank in range(1, len(seqs) + 1)))
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []

    def run(self, threads: int, reads: int, per_write: int, seconds: float) -> None:
        """Read so often in all, at most for so long, with one change for each ``per_write`` reads. If there is
        ``found``, a list of one number, stop at the first wrong answer of any process."""
        deadline = time.monotonic() + seconds
        each = -(-reads // threads)
        running = [
            threading.Thread(target=self._run, args=(number, threads, each, per_write, deadline))
            for number in range(threads)
        ]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()

    def _run(self, thread: int, threads: int, reads: int, per_write: int, deadline: float) -> None:
        chance = random.Random(f"{self.process} {thread}")
        tm = TransactionManager(explicit=True)
        connection = self.db.open(transaction_manager=tm)
        own = [page for page in range(len(self.seqs)) if page % (threads * self.processes) == self._place(thread)]
        try:
            for _ in range(reads):
                if time.monotonic() > deadline or (self.found is not None and self.found[0]):
                    return
                if own and chance.randrange(per_write) == 0:
                    self.write(tm, connection, chance.choice(own))
                self.read(bisect(self.weights, chance.random() * self.weights[-1]), chance.choice("ab"))
        except BaseException as error:
            self.wrong.append(f"{type(error).__name__}: {error}")
            raise
        finally:
            connection.close()

    def _place(self, thread: int) -> int:
        return thread * self.processes + self.process

    def write(self, tm: TransactionManager, connection: Any, page: int) -> None:
        """Make one change to a page, which no other thread changes."""
        number = self.seqs[page] // 2 + 1
        tm.begin()
        self.seqs[page] += 1
        connection.root()["pages"][f"p{page}"].change(number)
        tm.commit()
        self.seqs[page] += 1
        self.counts["writes"] += 1

    def read(self, page: int, cookie: str) -> None:
        """Read a page, and judge the answer."""
        before = self.seqs[page]
        answer = get(self.app, f"/p{page}", cookie)
        after = self.seqs[page]
        self.counts["reads"] += 1
        self.counts["denied"] += answer == "401"
        possible = [expected(page, number, cookie) for number in range(before // 2, (after + 1) // 2 + 1)]
        if answer not in possible:
            words = answer.split()
            kind = "torn" if len(words) == 5 and words[1] != words[2] else "stale"
            self.counts[kind] += 1
            if self.found is not None:
                self.found[0] = 1
            if len(self.wrong) < 20:
                self.wrong.append(f"{kind}: {answer}, and not {possible}")


class OnZEO(NamedTuple):
    """A load in processes on a ZEO server."""

    address: tuple[str, int]
    pages: int
    reads: int
    per_write: int = 100
    seconds: float = 3_000
    processes: int = 2
    """Each has six threads. One process of several needs ``server_sync`` to see the commits of the others."""
    bug: str = ""

    def serve(self, process: int, seqs: Any, found: Any, out: Any) -> None:
        """Run the load of one process."""
        storage = ClientStorage(self.address, wait_timeout=20)
        if self.processes > 1:
            storage.sync = lambda: ask_for_news(storage)  # as server_sync of zodb
        db = DB(storage)
        if self.bug:
            resolve("faults.kept_bugs:BUGS")[self.bug](setattr)
        load = Load(db, seqs, process=process, processes=self.processes, found=found if self.bug else None)
        load.run(6, self.reads // self.processes, self.per_write, self.seconds)
        out.put((load.counts + load.app.offered["kept_pages"].counts, load.wrong))

    def run(self) -> tuple[Counter[str], list[str]]:
        """Return what was counted, and what was wrong."""
        db = DB(ClientStorage(self.address, wait_timeout=20))
        make_pages(db, self.pages)
        db.close()
        spawn = get_context("spawn")
        seqs, found, out = spawn.RawArray("Q", self.pages), spawn.RawArray("Q", 1), spawn.Queue()
        running = [spawn.Process(target=self.serve, args=(n, seqs, found, out)) for n in range(self.processes)]
        for process in running:
            process.start()
        results = [out.get(timeout=self.seconds + 60) for _ in running]
        for process in running:
            process.join()
        counts: Counter[str] = Counter()
        for counted, _ in results:
            counts.update(counted)
        return counts, [one for _, wrong in results for one in wrong]
