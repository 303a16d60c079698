"""F19: visitors of a cluster. Each reads what it has written, from a node that another one has told of it.

PostgreSQL whose replicas are read by the cookie of ``causal``: under Patroni, while the primary changes, and after
a promotion that has lost what another replica has, and for browsers whose answers arrive in another order, also on
a database that was restored; and Galera, whose nodes wait for each other by ``wsrep_sync_wait``.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count, cycle
from pathlib import Path

import pytest

from environments import make_environment
from faults.conftest import Figures
from faults.length import FULL, length
from faults.load import Answer, Client
from faults.serving import SQL_ORDER, TABLES, Site, three
from servers import galera, patroni
from servers.base import wait_until
from servers.fixtures import Skip, running
from servers.haproxy import HAProxy, Upstream
from servers.postgres import Postgres
from servers.standby import Standby, replicated
from servers.toxiproxy import Toxiproxy

pytestmark = [pytest.mark.servers, pytest.mark.timeout(1800)]

READS = length(short=300, full=10_000)
SWITCHES = 10
ORDER = SQL_ORDER.replace("retry", "causal retry")
VISITORS = 3
LATE = 200
"""Milliseconds by which one node of Patroni applies changes late while it is a replica."""
LOST_FILES = 12
"""Files of the write-ahead log that a backup lacks. To make a replica ends one, so that fewer are soon reached."""
_visits = count(1)


class Visitors:
    """Visitors that write by one site, and read by another one at once.

    routes  the ports of sites: one that is written to, and one that is read
    page    the view that tells whether an id is stored
    tells   whether they send back what ``causal`` has told them
    """

    def __init__(self, routes: Sequence[tuple[int, int]], page: str, *, tells: bool) -> None:
        self.routes, self.page, self.tells = routes, page, tells
        self.pages: list[str] = []
        """What was read after each write that was acknowledged; a status where there was no page."""
        self.stop = threading.Event()
        self.failures: list[BaseException] = []

    def visit(self) -> None:
        clients = [(Client(write), Client(read)) for write, read in self.routes]
        turn = self.turns()
        try:
            for write, read in cycle(clients):
                if self.stop.is_set():
                    break
                turn(write, read)
        except BaseException as error:  # a bug of the experiment
            self.failures.append(error)
        finally:
            for client in (client for pair in clients for client in pair):
                client.close()

    def turns(self) -> Callable[[Client, Client], None]:
        """What one visitor does again and again."""

        def turn(write: Client, read: Client) -> None:
            id, wrote = self.write(write)
            if wrote.status == 200:
                self.read(read, id, {"X-Written": wrote.headers["x-written"]} if self.tells else {})

        return turn

    def write(self, client: Client, headers: dict[str, str] | None = None) -> tuple[str, Answer]:
        id = f"visit-{next(_visits)}"
        wrote = client.ask("POST", f"/@@write?id={id}", b"", headers)
        if wrote.status != 200:
            time.sleep(0.02)
        return id, wrote

    def read(self, client: Client, id: str, headers: dict[str, str]) -> Answer:
        answer = client.ask("GET", f"/@@{self.page}?id={id}", headers=headers)
        self.pages.append(answer.body.decode() if answer.status == 200 else f"status {answer.status}")
        return answer

    @contextmanager
    def visiting(self) -> Iterator[None]:
        threads = [threading.Thread(target=self.visit, daemon=True) for _ in range(VISITORS)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.stop.set()
            for thread in threads:
                thread.join(60)
        assert self.failures == []

    def have_read(self, reads: int, unseen: int = 0) -> None:
        """Wait until there are so many reads, and so many that were unseen."""

        def are_there() -> bool:
            done = len(self.of("1")) + self.unseen >= reads and self.unseen >= unseen
            return done or bool(self.failures)

        wait_until(are_there, 900, f"{reads} reads, {unseen} unseen", 0.2)

    def of(self, start: str) -> list[str]:
        return [page for page in self.pages if page.startswith(start)]

    @property
    def unseen(self) -> int:
        return len(self.of("0"))

    def tell(self) -> str:
        pages = ", ".join(f"{times:,} times {page!r}" for page, times in sorted(Counter(self.pages).items()))
        reads = len(self.of("1")) + self.unseen
        return f"{reads:,} reads after a write by another process, {self.unseen} unseen ({pages})"


AT_ONCE = 3
"""Writes of a browser that are sent before the first of them is answered."""
BETWEEN = 0.02
"""Seconds from one of them to the next, and from one read to the next."""


class Browsers(Visitors):
    """Visitors who write several times at once. The answers arrive in any order; then they read for a while.

    names_differ  False for a browser of a site whose cookie has one name: of two, the one that arrives last stays
    """

    def __init__(self, routes: Sequence[tuple[int, int]], *, names_differ: bool) -> None:
        super().__init__(routes, "seen", tells=True)
        self.names_differ = names_differ
        self.jars: list[dict[str, str]] = []
        """The cookies of a browser after each turn."""
        self.returning: Iterator[dict[str, str]] | None = None
        """The cookies with which browsers begin their turns, one after the other; None if they go on with them."""

    def turns(self) -> Callable[[Client, Client], None]:
        cookies: dict[str, str] = {}

        def take(answer: Answer) -> None:
            for line in filter(None, answer.headers.get("set-cookie", "").splitlines()):
                name, _, value = line.partition(";")[0].partition("=")
                if not self.names_differ:
                    name = name.partition(".")[0]
                if value.strip('"'):
                    cookies[name] = value
                elif self.names_differ:
                    cookies.pop(name, None)

        def sent() -> dict[str, str]:
            shown = cookies if self.names_differ else {f"{name}.00000000": cookies[name] for name in cookies}
            return {"Cookie": "; ".join(f"{name}={value}" for name, value in shown.items())} if cookies else {}

        def turn(write: Client, read: Client) -> None:
            if self.returning is not None:
                cookies.clear()
                cookies.update(next(self.returning))
            headers, written = sent(), []
            for _ in range(AT_ONCE):
                written.append(self.write(write, headers))
                time.sleep(BETWEEN)
            for _, answer in random.sample(written, AT_ONCE):
                take(answer)
            ids = [id for id, answer in written if answer.status == 200]
            for id in ids * AT_ONCE:
                take(self.read(read, id, sent()))
                time.sleep(BETWEEN)
            self.jars.append(dict(cookies))

        return turn


@pytest.mark.skipif(not FULL, reason="its primary changes ten times: make faults")
def test_patroni(
    figures: Figures,
    place: Path,
    servers_dir: Path,
    toxiproxy: Toxiproxy,
    missing: Skip,
    need_packages: Callable[..., None],
) -> None:
    need_packages("psycopg2", "sqlalchemy", "zope.sqlalchemy")
    python = make_environment(servers_dir / "patroni-venv", *patroni.PACKAGES, python="/usr/bin/python3")
    with ExitStack() as stack:
        cluster = stack.enter_context(patroni.cluster(servers_dir, python, toxiproxy, missing, LATE))
        primary = cluster.wait_for_primary()
        primary.create("site")
        primary.ask(TABLES, "site")
        upstreams = [Upstream(node.port, node.rest) for node in cluster.nodes]
        nodes = {"primary": ("/primary", upstreams)}
        proxy = stack.enter_context(running(HAProxy, place, missing, groups=nodes))
        options = {
            "causal": {"keys": str(place / "keys")},
            "sql": {"read_urls": " ".join(node.url("site") for node in cluster.nodes)},
        }
        sites = stack.enter_context(three(place, primary.url("site", proxy.port), ORDER, **options))
        routes = [(sites[number].port, sites[number - 1].port) for number in range(3)]
        for phase, events in (("", 0), (f", {SWITCHES} switch-overs", SWITCHES)):
            visitors = Visitors(routes, "seen", tells=True)
            control = Visitors(routes, "seen", tells=False)
            with visitors.visiting(), control.visiting():
                for _ in range(events):
                    time.sleep(2)
                    cluster.switch_over()
                    cluster.wait_until_whole()
                visitors.have_read(READS)
                control.have_read(1, unseen=1)
            figures("F19", f"Patroni{phase}", f"with causal {visitors.tell()}")
            figures("F19", f"Patroni{phase}, control", f"without the cookie {control.tell()}")
            assert visitors.unseen == 0
            assert visitors.of("1 replica")


@pytest.mark.parametrize("other_one", ["follows", "stays", "is ahead", "is paused"])
def test_replicas(
    figures: Figures,
    place: Path,
    servers_dir: Path,
    missing: Skip,
    need_packages: Callable[..., None],
    other_one: str,
) -> None:
    """One of two replicas is promoted. The other one follows it, or stays as it was, or has what the promoted one
    lacks: then it is at places that the new primary comes to later, with other commits. Or none is promoted, and
    the other one applies nothing any more."""
    need_packages("psycopg2", "sqlalchemy", "zope.sqlalchemy")
    with ExitStack() as stack:
        primary, (second, other) = stack.enter_context(replicated(servers_dir, missing, [TABLES], (0, 0)))
        hosts = "&".join(f"host=127.0.0.1:{one.port}" for one in (primary, second))
        url = f"postgresql+psycopg2://postgres@/site?{hosts}&target_session_attrs=read-write"
        options = {
            "causal": {"keys": str(place / "keys")},
            "sql": {"read_urls": f"{second.url('site')} {other.url('site')}"},
        }
        sites = stack.enter_context(three(place, url, ORDER, **options))
        routes = [(sites[number].port, sites[number - 1].port) for number in range(3)]
        visitors = Visitors(routes, "seen", tells=True)
        with visitors.visiting():
            visitors.have_read(100)
            if other_one == "is ahead":
                second.follow(None)
                primary.ask("INSERT INTO ledger SELECT 'lost' FROM generate_series(1, 200000)", "site")
                lost = "SELECT 1 FROM ledger WHERE id = 'lost' LIMIT 1"
                wait_until(lambda: other.ask(lost, "site") == "1", 60, "the other one has it")
            if other_one == "is paused":
                other.pause(True)
            else:
                primary.stop()
                second.promote()
            if other_one == "follows":
                other.follow(second)
            visitors.pages.clear()
            if other_one == "follows":

                def is_read() -> bool:
                    other.ask("CHECKPOINT")  # from then on it tells the new timeline
                    return bool(visitors.of("1 replica"))

                wait_until(is_read, 60, "the one that follows is read", 1)
            visitors.have_read(READS)
        figures("F19", f"two replicas, the other one {other_one}", f"with causal {visitors.tell()}")
        assert visitors.unseen == 0


def restore(primary: Postgres, backup: Path, replicas: Sequence[Standby]) -> None:
    """Have a primary go on with what a backup has, and its replicas with what it has."""
    for one in (primary, *replicas):
        one.stop()
        shutil.rmtree(one.data)
    subprocess.run(["cp", "-a", backup, primary.data], check=True)
    primary.start()
    for one in replicas:
        one.make_data()
        one.start()


@pytest.mark.parametrize("what", ["answers reordered", "a restored database"])
def test_browsers(
    figures: Figures,
    place: Path,
    servers_dir: Path,
    missing: Skip,
    need_packages: Callable[..., None],
    what: str,
) -> None:
    """One of two replicas is late, and the answers to a browser arrive in any order. Or the database is restored
    besides, so that browsers tell of positions to which the primary comes again later, or never: at each turn one
    that was not there since."""
    need_packages("psycopg2", "sqlalchemy", "zope.sqlalchemy")
    with ExitStack() as stack:
        primary, replicas = stack.enter_context(replicated(servers_dir, missing, [TABLES], (0, LATE)))
        options = {
            "causal": {"keys": str(place / "keys")},
            "sql": {"read_urls": " ".join(one.url("site") for one in replicas)},
        }
        sites = stack.enter_context(three(place, primary.url("site"), ORDER, **options))
        routes = [(sites[number].port, sites[number - 1].port) for number in range(3)]
        visitors = Browsers(routes, names_differ=True)
        control = Browsers(routes, names_differ=False)
        is_restored = what == "a restored database"
        backup = servers_dir / "backup"
        if is_restored:
            primary.stop()
            subprocess.run(["cp", "-a", primary.data, backup], check=True)
            primary.start()
        with visitors.visiting():
            visitors.have_read(100)
            if is_restored:
                for _ in range(LOST_FILES):
                    primary.ask("INSERT INTO ledger VALUES ('lost'); SELECT pg_switch_wal()", "site")
                lost = primary.ask("SELECT pg_current_wal_insert_lsn()")
                known = len(visitors.jars) + VISITORS
                visitors.have_read(len(visitors.pages) + 100)  # they are told of positions behind it
                visitors.returning = cycle(visitors.jars[known:])  # each is away until its turn comes
                restore(primary, backup, replicas)
                assert primary.ask("SELECT count(*) FROM ledger WHERE id = 'lost'", "site") == "0"
                assert primary.ask(f"SELECT pg_current_wal_insert_lsn() < '{lost}'") == "t"
                visitors.pages.clear()
            visitors.have_read(READS)
        figures("F19", f"browsers, {what}", f"with causal {visitors.tell()}")
        assert visitors.unseen == 0
        assert visitors.of("1 replica")
        if not is_restored:
            with control.visiting():
                control.have_read(1, unseen=1)
            figures("F19", f"browsers, {what}, control", f"with one name of the cookie {control.tell()}")


def test_galera(
    figures: Figures, place: Path, servers_dir: Path, missing: Skip, need_packages: Callable[..., None]
) -> None:
    need_packages("pymysql", "sqlalchemy", "zope.sqlalchemy")
    with ExitStack() as stack:
        nodes = stack.enter_context(galera.cluster(servers_dir, missing))
        nodes[0].create("site")
        nodes[0].ask(f"USE site; {TABLES[:-1]}, n int AUTO_INCREMENT PRIMARY KEY INVISIBLE)")

        def site(name: str, node: galera.Node, wait: str) -> Site:
            (place / name).mkdir()
            url = node.url("site").replace("mysqlconnector", "pymysql") + wait
            made = Site(place / name, url, order=ORDER, causal={"keys": str(place / "keys")})
            made.start()
            stack.callback(made.stop)
            return made

        wait = "?init_command=SET%%20SESSION%%20wsrep_sync_wait=1"
        sites = [site(f"site{number}", node, wait) for number, node in enumerate(nodes)]
        plain = site("plain", nodes[1], "")
        routes = [(sites[number].port, sites[number - 1].port) for number in range(3)]
        visitors = Visitors(routes, "has", tells=False)
        control = Visitors([(sites[0].port, plain.port), (sites[2].port, plain.port)], "has", tells=False)
        with visitors.visiting(), control.visiting():
            visitors.have_read(READS)
            control.have_read(1, unseen=1)
    figures("F19", "Galera", f"with wsrep_sync_wait {visitors.tell()}")
    figures("F19", "Galera, control", f"without it {control.tell()}")
    assert visitors.unseen == 0
