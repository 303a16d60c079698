"""Slowing down those who guess: so many failures, then one per interval."""

from __future__ import annotations

import pytest
from webob.exc import HTTPTooManyRequests

from pipeline.auth import limiter
from pipeline.auth.limiter import Limiter
from pipeline.interfaces import OptionError


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(limiter, "time", clock)
    return clock


def test_so_many_failures_and_then_one_per_interval(clock: Clock) -> None:
    limits = Limiter(failures=3, interval=10)
    for _ in range(3):
        limits.admit(["ann"])
        limits.failed(["ann"])
    with pytest.raises(HTTPTooManyRequests) as refused:
        limits.admit(["ann"])
    assert refused.value.headers["Retry-After"] == "10"
    limits.admit(["ben"])
    clock.now += 9.5
    with pytest.raises(HTTPTooManyRequests) as refused:
        limits.admit(["ann"])
    assert refused.value.headers["Retry-After"] == "1"
    clock.now += 0.5
    limits.admit(["ann"])
    limits.failed(["ann"])
    with pytest.raises(HTTPTooManyRequests):
        limits.admit(["ann"])
    clock.now += 30
    for _ in range(3):
        limits.admit(["ann"])
        limits.failed(["ann"])


def test_any_of_the_keys_refuses(clock: Clock) -> None:
    limits = Limiter(failures=1)
    limits.failed(["here"])
    with pytest.raises(HTTPTooManyRequests):
        limits.admit(["ann", "here"])


def test_a_burst_is_waited_for_after_it(clock: Clock) -> None:
    limits = Limiter(failures=1, interval=10)
    for _ in range(5):
        limits.admit(["ann"])
    for _ in range(5):
        limits.failed(["ann"])
    clock.now += 49
    with pytest.raises(HTTPTooManyRequests):
        limits.admit(["ann"])
    clock.now += 1
    limits.admit(["ann"])


def test_what_was_forgiven_never_was(clock: Clock) -> None:
    limits = Limiter(failures=1)
    limits.failed(["ann"])
    limits.forgive(["ann", "nobody"])
    limits.admit(["ann"])
    assert not limits._full_at


def test_what_is_kept_is_bounded() -> None:
    limits = Limiter(failures=1, limit=3)
    for number in range(5):
        limits.failed([number])
    assert list(limits._full_at) == [2, 3, 4]


@pytest.mark.parametrize("options", [{"failures": 0}, {"interval": 0}, {"interval": -1}])
def test_limits_that_are_none_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(OptionError):
        Limiter(**options)
