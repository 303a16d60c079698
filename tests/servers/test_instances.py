"""Two instances of a site behind nginx, on one PostgreSQL: one site, for whoever looks at it from outside.

The counter is unique and without a gap, what one instance has acknowledged the other one shows, and
either can be killed without a lost write.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from faults.judge import Writers, stored_in
from faults.length import length
from faults.load import Client
from faults.serving import Site
from servers.fixtures import running
from servers.nginx import Nginx
from servers.postgres import Postgres

pytestmark = [pytest.mark.servers, pytest.mark.timeout(300)]

SECONDS = length(short=3.0, full=30.0)
KILLS = length(short=2, full=20)


class Pair:
    """Two instances, and nginx in front of them."""

    def __init__(self, first: Site, second: Site, nginx: Nginx) -> None:
        self.instances = (first, second)
        self.nginx = nginx

    @property
    def uri(self) -> str:
        return self.instances[0].uri


@pytest.fixture
def pair(
    servers_dir: Path,
    postgres: Postgres,
    new_name: Callable[[], str],
    missing: Callable[[str, str], NoReturn],
) -> Iterator[Pair]:
    postgres.create(name := new_name())
    first, second = (Site(servers_dir / name / side, postgres.uri(name)) for side in ("a", "b"))
    try:
        first.start()
        first.prepare()
        second.start()
        ports = [first.port, second.port]
        with running(Nginx, servers_dir, missing, upstreams=ports) as nginx:
            yield Pair(first, second, nginx)
    finally:
        first.stop()
        second.stop()


def test_the_counter_is_unique_and_without_a_gap(pair: Pair) -> None:
    writers = Writers("/@@add")
    with writers.on(pair.nginx.port, 8):
        time.sleep(SECONDS)
    stored, value = stored_in(pair.uri)
    assert writers.ledger.judge(stored) == []
    values = sorted(int(answer.body) for answer in writers.answers if answer.status == 200)
    assert values == list(range(1, value + 1))
    assert len(values) > SECONDS
    served = [instance.said().count("attempt") for instance in pair.instances]
    print(f"two instances: {len(values)} increments in {SECONDS:.0f} s, each value once; retried: {served}")


def test_what_one_acknowledges_the_other_shows(pair: Pair) -> None:
    ends = [Client(instance.port) for instance in pair.instances]
    for number in range(length(short=100, full=1000)):
        writer, reader = ends[number % 2], ends[1 - number % 2]
        assert writer.ask("POST", f"/@@write?id={number}", b"").status == 200
        assert reader.ask("GET", f"/@@has?id={number}").body == b"1"
    for end in ends:
        end.close()


def test_either_can_be_killed(pair: Pair) -> None:
    """Under load; nginx gives the requests to the other one meanwhile."""
    writers = Writers("/@@add", gateway=True)
    waits = []
    with writers.on(pair.nginx.port, 6) as load:
        load.wait_for_success(time.monotonic())
        for number in range(KILLS):
            instance = pair.instances[number % 2]
            time.sleep(0.5)
            instance.kill()
            killed = time.monotonic()
            waits.append(load.wait_for_success(killed) - killed)
            time.sleep(0.5)
            instance.start()
    stored, value = stored_in(pair.uri)
    counts = writers.ledger.counts()
    print(f"two instances: {KILLS} kills, {counts}, the next success within {max(waits):.2f} s")
    assert writers.ledger.judge(stored) == []
    assert value == sum(stored.values())
    values = [int(answer.body) for answer in writers.answers if answer.status == 200]
    assert len(values) == len(set(values))
    assert max(waits) < 3
    assert counts["acknowledged"] > KILLS
