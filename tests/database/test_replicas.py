"""What a process remembers of the positions of a primary and of its visitors. No server answers here."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from pipeline.database.replicas import Replicas
from pipeline.database.sql_databases import _databases, close_all, database_of

LIMITS: dict[str, float | None] = {"statement_timeout": None, "lock_timeout": None}


@pytest.fixture
def make(need_packages: Callable[..., None]) -> Iterator[Callable[[float], Replicas]]:
    """A primary and its replica, for each site of the process."""
    need_packages("psycopg2")

    def make(max_lag: float) -> Replicas:
        primary, replica = (
            database_of(f"postgresql+psycopg2://127.0.0.1:1/{name}", False, {}, LIMITS)
            for name in ("primary", "replica")
        )
        return Replicas(primary, [replica], max_lag)

    yield make
    close_all()
    for url in [key for key in _databases if "127.0.0.1:1/" in str(key)]:
        del _databases[url]


def test_what_visitors_tell_is_not_kept_for_ever(
    make: Callable[[float], Replicas], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has a position of the last half second, which the primary has not been asked for, and is gone then."""
    replicas = make(30)
    (replica,) = replicas.replicas
    replica.noted.append((time.monotonic(), 100))
    for told in range(101, 10_101):
        assert replicas.needed(told) == told
    assert len(replicas.doubted) < 2_000
    assert replicas.needed(20_000) == 20_000
    replica.noted.append((time.monotonic(), 150))
    assert replicas.needed(20_000) == 20_000, "the primary cannot be reached now"
    monkeypatch.setattr(replicas, "ask_primary", lambda: 160)
    assert replicas.needed(20_000) == 160, "the doubt is remembered until the primary has been asked"
    assert replicas.needed(140) == 140


def test_what_the_primary_tells_is_not_kept_while_a_replica_is_gone(make: Callable[[float], Replicas]) -> None:
    (replica,) = make(30).replicas
    now = time.monotonic()
    replica.noted.extend((now - 1_000 + number / 2, number) for number in range(2_000))
    replica.asked.set()
    assert replica.look(None) is None
    assert 60 <= len(replica.noted) <= 63


def test_of_two_sites_with_one_replica_the_stricter_one_counts(make: Callable[[float], Replicas]) -> None:
    (replica,) = make(5).replicas
    assert make(30).replicas == [replica]
    assert replica.max_lag == 5


def test_a_system_that_gives_no_thread_for_a_moment_does_not_leave_out_a_replica_for_ever(
    make: Callable[[float], Replicas], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    (replica,) = make(30).replicas
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        assert [replica.is_up(), replica.is_up()] == [False, False]
        assert "can't start new thread" in str(replica.database.outage.unavailable().__notes__)
        assert replica.look(None) is None, "its thread goes on without an alarm"
    assert not replica.is_up()
    assert {"pipeline.sql.replica", "pipeline.sql.primary"} <= {one.name for one in threading.enumerate()}
