"""F18: clusters, whose nodes are killed, stopped, cut off and replaced while sites write (R4).

PostgreSQL under Patroni, and MariaDB with Galera. Beside our sites a plain application of Flask and SQLAlchemy
writes to the same cluster at the same time, behind the same haproxy. At full length alone: ``make faults``.
"""

from __future__ import annotations

import os
import signal
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from environments import make_environment
from faults.conftest import Figures
from faults.judge import Writers, rows_in, stored_in
from faults.length import FULL
from faults.load import Answer, Load
from faults.serving import SQL_ORDER, TABLES, TESTS, Site
from faults.test_f2_killed_database import is_clean
from servers import galera, patroni
from servers.base import Server, wait_until
from servers.disk import mounted
from servers.fixtures import Skip
from servers.haproxy import HAProxy, Upstream
from servers.toxiproxy import Toxiproxy

pytestmark = [
    pytest.mark.servers,
    pytest.mark.timeout(7200),
    pytest.mark.skipif(not FULL, reason="takes half an hour for each cluster: make faults"),
]

TIMES = {"killed": 20, "cut off": 20, "stopped for 10 s": 20}
DISK = 1024
"""MiB of the disk of each node."""
STOPPED = 10.0
WRITERS = 2
"""For each site."""
PLAIN = "Flask and SQLAlchemy"
Stored = Callable[[], dict[str, int]]
Event = Callable[[], None]


class Plain(Server):
    """A plain application, to compare with."""

    def __init__(self, directory: Path, python: Path, url: str) -> None:
        self.python, self.url = python, url
        super().__init__(directory)

    def command(self) -> list[str | Path]:
        return [self.python, TESTS / "faults" / "plain_site.py", self.url, str(self.port)]


@pytest.fixture(scope="module")
def python(servers_dir: Path) -> Path:
    """An environment that the user of PostgreSQL may read, with Patroni and the plain application."""
    packages = [*patroni.PACKAGES, "flask", "sqlalchemy", "pymysql", "waitress"]
    return make_environment(servers_dir / "patroni-venv", *packages, python="/usr/bin/python3")


class Happened(NamedTuple):
    """One event, from the fault until the cluster is whole and every site has stored something."""

    kind: str
    begin: float
    end: float

    def of(self, answers: Sequence[Answer]) -> list[Answer]:
        return [answer for answer in answers if self.begin <= answer.at <= self.end]

    def silence(self, answers: Sequence[Answer]) -> float:
        """Return the longest time without an acknowledged write, in seconds."""
        stored = sorted(answer.at for answer in self.of(answers) if answer.status == 200)
        marks = [self.begin, *stored, self.end]
        return max(after - before for before, after in pairwise(marks))


class Ledgers:
    """Sites that write, each with its ledger, and what has happened meanwhile."""

    def __init__(self, sites: dict[str, tuple[Server, Stored]]) -> None:
        self.sites = sites
        self.writers = {name: Writers("/@@write") for name in sites}
        self.loads: list[Load] = []
        self.happened: list[Happened] = []

    @contextmanager
    def writing(self) -> Iterator[None]:
        with ExitStack() as stack:
            for site, _ in self.sites.values():
                stack.callback(site.stop)
                site.start()
                if isinstance(site, Site):
                    site.prepare()
            for name, (site, _) in self.sites.items():
                self.loads.append(stack.enter_context(self.writers[name].on(site.port, WRITERS, pause=0.03)))
            yield

    def happens(self, kind: str, event: Event, whole: Event) -> None:
        time.sleep(0.5)
        begin = time.monotonic()
        event()
        self.all_write()
        whole()
        self.all_write()
        self.happened.append(Happened(kind, begin, time.monotonic()))
        print(self.tell(self.happened[-1:]), flush=True)

    def all_write(self) -> None:
        now = time.monotonic()
        for load in self.loads:
            load.wait_for_success(now, 90)

    def tell(self, happened: Sequence[Happened]) -> str:
        """Tell for each site how long nothing was stored, and which answers failed."""
        told = []
        for name, writers in self.writers.items():
            silences = [one.silence(writers.answers) for one in happened]
            answers = [answer for one in happened for answer in one.of(writers.answers)]
            failed = [answer for answer in answers if answer.status != 200]
            unknown = sum(answer.headers.get("x-outcome") == "unknown" for answer in failed)
            refused = sum(answer.status == 503 for answer in failed)
            told.append(
                f"{name} {statistics.median(silences):.1f} s, at most {max(silences):.1f}: {refused} answers 503, "
                f"{unknown} unknown, {len(failed) - refused - unknown} others"
            )
        return f"{happened[0].kind}, {len(happened)} times: nothing stored for {'; '.join(told)}"

    def judge(self, cluster: str, figures: Figures) -> None:
        """Look at what each site has stored, and at its answers."""
        for kind in dict.fromkeys(one.kind for one in self.happened):
            figures("F18", cluster, self.tell([one for one in self.happened if one.kind == kind]))
        wrong: dict[str, object] = {}
        for name, (site, stored) in self.sites.items():
            writers = self.writers[name]
            problems, counts = writers.ledger.judge(stored()), writers.ledger.counts()
            unclean = [answer for answer in writers.answers if not is_clean(answer)]
            lost = sum("acknowledged and is not" in problem for problem in problems)
            refused = sum("failed and is stored" in problem for problem in problems)
            figures(
                "F18",
                f"{cluster}, {name}",
                f"{counts['acknowledged']:,} writes acknowledged, {lost} lost, {refused} refused and stored, "
                f"{len(problems) - lost - refused} stored twice; {counts['unknown']} said to be unknown, "
                f"{len(unclean)} unclean",
            )
            if name != PLAIN and (problems or unclean):
                wrong[name] = problems[:20], unclean[:20], plain_errors(site.said())[:3], site.said()[-4000:]
        assert wrong == {}


def spread(times: dict[str, int]) -> list[str]:
    """Return each kind as often as is said, evenly mixed."""
    places = [(number / many, kind) for kind, many in times.items() for number in range(many)]
    return [kind for _, kind in sorted(places)]


def plain_errors(said: str) -> list[str]:
    """Return what a site has logged of its answers 500 that are not unknown, each with its traceback."""
    logged = said.split(" ERROR pipeline: error ")[1:]
    return [text[:6000] for text in logged if "CommitUncertain" not in text.partition("\n")[0]]


def test_patroni(
    figures: Figures, place: Path, servers_dir: Path, python: Path, toxiproxy: Toxiproxy, missing: Skip
) -> None:
    with ExitStack() as stack:
        cluster = stack.enter_context(patroni.cluster(servers_dir, python, toxiproxy, missing))
        nodes = cluster.nodes
        primary = cluster.wait_for_primary()
        for name in ("objects", "hosts", "proxied", "plain"):
            primary.create(name)
            if name != "objects":
                primary.ask(TABLES, name)
        upstreams = [Upstream(node.port, node.rest) for node in nodes]
        proxy = HAProxy(place / "haproxy", {"primary": ("/primary", upstreams)})
        proxy.start()
        stack.callback(proxy.stop)
        uri = primary.uri("objects", proxy.port)
        hosts = "&".join(f"host=127.0.0.1:{node.port}" for node in nodes)
        several = f"postgresql+psycopg2://postgres@/hosts?{hosts}&target_session_attrs=read-write"
        by_proxy = primary.url("proxied", proxy.port).replace("psycopg2", "psycopg")
        plain = primary.url("plain", proxy.port)
        ledgers = Ledgers(
            {
                "sql, several hosts": (
                    Site(place / "hosts", several, order=SQL_ORDER),
                    lambda: rows_in(cluster.wait_for_primary(), "hosts"),
                ),
                "sql": (
                    Site(place / "sql", by_proxy, order=SQL_ORDER),
                    lambda: rows_in(cluster.wait_for_primary(), "proxied"),
                ),
                "RelStorage": (Site(place / "zodb", uri), lambda: stored_in(uri)[0]),
                PLAIN: (
                    Plain(place / "plain", python, plain),
                    lambda: rows_in(cluster.wait_for_primary(), "plain"),
                ),
            }
        )

        def kill() -> None:
            victim = cluster.wait_for_primary()
            victim.kill()
            cluster.wait_for_primary(victim)
            ledgers.all_write()
            victim.launch()

        def hang() -> None:
            victim = cluster.wait_for_primary()
            victim.signal(signal.SIGSTOP)
            time.sleep(STOPPED)
            victim.signal(signal.SIGCONT)

        def switch() -> None:
            cluster.switch_over()

        def cut() -> None:
            nodes[0].cut_off()
            cluster.wait_for_primary(nodes[0])
            ledgers.all_write()
            nodes[0].heal()

        kinds = {"killed": kill, "cut off": cut, "switched over": switch, "stopped for 10 s": hang}
        try:
            with ledgers.writing():
                for kind in spread({**TIMES, "switched over": 10}):
                    while kind == "cut off" and cluster.primary() is not nodes[0]:
                        ledgers.happens("switched over", switch, cluster.wait_until_whole)
                    ledgers.happens(kind, kinds[kind], cluster.wait_until_whole)
        finally:
            ledgers.judge("Patroni", figures)


def test_galera(figures: Figures, place: Path, servers_dir: Path, python: Path, missing: Skip) -> None:
    with ExitStack() as stack:
        places = [servers_dir / f"node{number}" for number in range(3)]
        disk_of = {place: stack.enter_context(mounted(place, DISK, missing)) for place in places}
        nodes = stack.enter_context(galera.cluster(servers_dir, missing))
        for name in ("objects", "hosts", "proxied", "plain"):
            nodes[0].create(name)
            if name != "objects":
                nodes[0].ask(f"USE `{name}`; {TABLES[:-1]}, n int AUTO_INCREMENT PRIMARY KEY INVISIBLE)")
        checks = stack.enter_context(galera.answering(nodes))
        upstreams = [
            Upstream(node.port, check, is_backup=bool(number))
            for number, (node, check) in enumerate(zip(nodes, checks, strict=True))
        ]
        proxy = HAProxy(place / "haproxy", {"node": ("/", upstreams)})
        proxy.start()
        stack.callback(proxy.stop)
        uri = nodes[0].uri("objects", proxy.port)
        hosts = "&".join(f"host=127.0.0.1:{node.port}" for node in nodes)
        several = f"mysql+pymysql://site:secret@/hosts?{hosts}"
        plain = nodes[0].url("plain", proxy.port).replace("mysqlconnector", "pymysql")
        ledgers = Ledgers(
            {
                "sql, several hosts": (
                    Site(place / "hosts", several, order=SQL_ORDER),
                    lambda: rows_in(nodes[0], "hosts"),
                ),
                "sql": (
                    Site(place / "sql", nodes[0].url("proxied", proxy.port), order=SQL_ORDER),
                    lambda: rows_in(nodes[0], "proxied"),
                ),
                "RelStorage": (Site(place / "zodb", uri), lambda: stored_in(uri)[0]),
                PLAIN: (Plain(place / "plain", python, plain), lambda: rows_in(nodes[0], "plain")),
            }
        )

        def busiest() -> galera.Node:
            """Return the node that has the most clients."""
            clients = "SELECT count(*) FROM information_schema.processlist WHERE user = 'site'"
            return max(nodes, key=lambda node: int(node.ask(clients)))

        def kill() -> None:
            victim = busiest()
            victim.kill()
            ledgers.all_write()
            victim.launch()

        def hang() -> None:
            victim = busiest()
            os.kill(victim.pid, signal.SIGSTOP)
            time.sleep(STOPPED)
            os.kill(victim.pid, signal.SIGCONT)

        def cut() -> None:
            victim = busiest()
            victim.isolate(True)
            wait_until(lambda: not victim.is_up(), 30, "the node has lost its group")
            ledgers.all_write()
            victim.isolate(False)

        def fill() -> None:
            victim = busiest()
            disk_of[victim.directory].fill()
            time.sleep(STOPPED)
            disk_of[victim.directory].empty()
            if not victim.is_up():
                victim.kill()
                victim.launch()

        def restart() -> None:
            for node in nodes:
                node.stop()
                node.start()
                galera.whole(nodes)

        kinds = {"killed": kill, "cut off": cut, "restarted in turn": restart, "stopped for 10 s": hang}
        kinds["disk full for 10 s"] = fill
        try:
            with ledgers.writing():
                for kind in spread({**TIMES, "restarted in turn": 10, "disk full for 10 s": 10}):
                    ledgers.happens(kind, kinds[kind], lambda: galera.whole(nodes))
        finally:
            ledgers.judge("Galera", figures)
