"""Slowing down those who guess: so many failures, then one per interval."""

from __future__ import annotations

import stringprep
import sys
import time
from collections.abc import Callable, Sequence

import pytest
from webob.exc import HTTPTooManyRequests

from pipeline.auth import limiter
from pipeline.auth.limiter import SITE, Limiter
from pipeline.elements.authenticate import authenticate
from pipeline.interfaces import ConfigurationError, OptionError


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


def keys_of(login: str, visitor: str) -> tuple[str, ...]:
    return Limiter().keys_of(login, visitor)


def test_what_is_kept_is_bounded(clock: Clock) -> None:
    limits = Limiter(limit=4)
    for number in range(1000):
        clock.now += 0.1
        limits.failed([str(number)])
        limits.succeeded(str(number), "192.0.2.1")
        limits.succeeded("ann", f"192.0.2.{number % 256}")
    assert len(limits._full_at) <= 4 and "999" in limits._full_at
    assert len(limits._addresses) <= 4
    assert max(map(len, limits._addresses.values())) == 10


def test_a_flood_of_names_does_not_make_an_attack_forgotten(clock: Clock) -> None:
    limits = Limiter(failures=3, limit=100)
    for _ in range(3):
        limits.failed(["ann"])
    for number in range(1000):
        limits.failed([str(number)])
    with pytest.raises(HTTPTooManyRequests):
        limits.admit(["ann"])


@pytest.mark.parametrize("options", [{"failures": 0}, {"interval": 0}, {"interval": -1}])
def test_limits_that_are_none_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(OptionError):
        Limiter(**options)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("ann", "ANN", True),
        ("ann", " Ann ", True),
        ("josé", "JOSE", True),
        ("jose\u0301", "josé", True),
        ("straße", "STRASSE", True),
        ("ann", "anna", False),
        ("ann", "", False),
        ("\ud800", "\ud801", False),
        ("a" * 300 + "b", "a" * 300 + "c", True),
        ("ann  smith", "ann smith", True),
        ("ann\u2009smith", "ann\tsmith", True),
    ],
)
def test_spellings_of_one_account_are_counted_together(one: str, other: str, same: bool) -> None:
    assert (keys_of(one, "")[0] == keys_of(other, "")[0]) is same


def test_characters_that_a_directory_ignores_make_no_spelling__S22() -> None:
    """SASLprep, which directories and XMPP prepare names with, maps those of table B.1 to nothing (RFC 4013). One
    of them is a hyphen of Mongolian, which is seen."""
    ignored = [one for one in map(chr, range(0x10FFFF)) if stringprep.in_table_b1(one) and one != "\u1806"]
    assert len(ignored) > 20 and "\xad" in ignored and "\u200b" in ignored
    assert {keys_of(f"a{one}nn", "")[0] for one in ignored} == {keys_of("ann", "")[0]}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff", True),
        ("2001:db8::1", "2001:DB8:0:0:1::1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("192.0.2.1", "192.0.2.2", False),
        ("", "unix:", True),
    ],
)
def test_an_address_of_IPv6_is_counted_by_its_64(one: str, other: str, same: bool) -> None:
    assert (keys_of("ann", one)[1] == keys_of("ann", other)[1]) is same


def test_the_64s_of_one_48_share_a_count__S22() -> None:
    limits, refused = Limiter(), 0
    for number in range(400):
        keys = limits.keys_of(f"user{number}", f"2001:db8:1:{number:x}::1")
        try:
            limits.admit(keys)
        except HTTPTooManyRequests:
            refused += 1
        limits.failed(keys)
    assert refused > 250
    limits.admit(limits.keys_of("ann", "2001:db8:2::1"))
    assert len(limits.keys_of("ann", "192.0.2.1")) == len(limits.keys_of("ann", "")) == 2


@pytest.mark.parametrize("nothing", ["", "unknown", "unix:", "localhost", "\ud800", "1.2.3", "a b"])
def test_what_is_no_address_is_counted_by_the_site(nothing: str) -> None:
    assert keys_of("ann", nothing)[1] == SITE


def test_a_login_that_has_succeeded_is_known_by_its_address_and_spelling__S22() -> None:
    limits = Limiter(limit=3)
    limits.succeeded("Ann", "2001:db8::1")
    limits.succeeded("ben", "")
    own = limits.keys_of("Ann", "2001:db8::2")
    assert own[0].startswith("from:") and own[0].endswith(":2001:db8::/64") and own[1].startswith("known:")
    for login, visitor in (("ann", "2001:db8::1"), ("Ann", "2001:db9::1"), ("Ann", ""), ("ben", "")):
        assert limits.keys_of(login, visitor)[0].startswith("account:")


def test_a_long_login_takes_no_time__S12() -> None:
    began = time.process_time()
    keys_of("\u0300\u0316" * 1_000_000, "")
    assert time.process_time() - began < 2


class Shared:
    """Stands for a store."""

    def __init__(self) -> None:
        self.waits = 0.0
        self.counted: list[str] = []
        self.remembered: list[str] = []

    def wait(self, keys: Sequence[str]) -> float:
        return self.waits

    def count(self, keys: Sequence[str]) -> None:
        self.counted += keys

    def remember(self, key: str) -> None:
        self.remembered.append(key)

    def remembers(self, key: str) -> bool:
        return key in self.remembered


def test_what_is_shared_refuses_too(clock: Clock) -> None:
    shared = Shared()
    limits = Limiter(failures=2, shared=shared)
    limits.admit(["ann"])
    limits.failed(["ann", "here"])
    assert shared.counted == ["ann", "here"]
    shared.waits = 7.2
    with pytest.raises(HTTPTooManyRequests) as refused:
        limits.admit(["ann"])
    assert refused.value.headers["Retry-After"] == "8"
    shared.waits = 0
    limits.failed(["ann"])
    with pytest.raises(HTTPTooManyRequests):
        limits.admit(["ann"])


def test_a_known_address_is_shared_too() -> None:
    shared = Shared()
    one, other = Limiter(shared=shared), Limiter(shared=shared)
    for _ in range(3):
        one.succeeded("ann", "192.0.2.1")
    assert len(shared.remembered) == 1, "once for each process"
    assert other.keys_of("ann", "192.0.2.1") == one.keys_of("ann", "192.0.2.1")
    assert other.keys_of("ann", "192.0.2.2")[0].startswith("account:")


@pytest.mark.parametrize("uri", ["nonsense", "unknown://127.0.0.1", "redis://user:secret@127.0.0.1:x/"])
def test_a_store_that_cannot_be_used_is_refused_at_load(uri: str, need_packages: Callable[..., None]) -> None:
    need_packages("limits")
    with pytest.raises(OptionError, match="option 'limits'") as refused:
        authenticate(check=lambda *_: None, limits=uri)(lambda request, response: None)
    assert "secret" not in str(refused.value)


def test_a_store_needs_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "limits"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "pipeline.auth.shared_limits", raising=False)
    monkeypatch.setitem(sys.modules, "limits", None)
    with pytest.raises(ConfigurationError, match=r"wsgi-pipeline\[limits\]"):
        authenticate(check=lambda *_: None, limits="redis://127.0.0.1/")(lambda request, response: None)
