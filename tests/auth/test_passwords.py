"""Passwords by argon2: right, wrong, of nobody, remembered, and strange ones."""

from __future__ import annotations

import pytest
from argon2 import PasswordHasher, extract_parameters
from argon2.exceptions import VerifyMismatchError
from hypothesis import given
from hypothesis import strategies as st

from pipeline.auth import passwords
from pipeline.auth.passwords import Passwords, hash_password


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every password that argon2 was asked about; argon2 is quick."""
    asked: list[str] = []
    real = passwords._matches

    def matches(stored: str, password: str) -> bool:
        asked.append(password)
        return real(stored, password)

    monkeypatch.setattr(passwords, "_hasher", PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
    monkeypatch.setattr(passwords, "_matches", matches)
    return asked


def test_the_right_one_is_asked_for_once(asked: list[str]) -> None:
    stored, known = hash_password("one"), Passwords()
    assert known.verify(stored, "ann", "one") and known.verify(stored, "ann", "one")
    assert asked == ["one"]
    assert not known.verify(stored, "ann", "two") and not known.verify(stored, "ann", "two")
    assert asked == ["one", "two", "two"]
    assert "'one'" not in repr(vars(known))


def test_nobody_takes_as_long_as_anybody_and_is_never_let_in(asked: list[str]) -> None:
    assert not Passwords().verify(None, "ben", "one") and not Passwords().verify("", "ben", "one")
    assert asked == ["one", "one"]


def test_what_is_verified_for_nobody_has_the_price_of_a_hash() -> None:
    assert extract_parameters(passwords._NOBODY) == extract_parameters(hash_password("one"))
    with pytest.raises(VerifyMismatchError):  # found after the work, and not an InvalidHashError before it
        PasswordHasher().verify(passwords._NOBODY, "one")


def test_a_new_password_ends_the_old_one_at_once(asked: list[str]) -> None:
    known = Passwords()
    assert known.verify(hash_password("one"), "ann", "one")
    assert not known.verify(hash_password("two"), "ann", "one")


@pytest.mark.parametrize("password", ["\ud800", "\0", ""])
def test_what_is_no_text_is_wrong(asked: list[str], password: str) -> None:
    assert not Passwords().verify(hash_password("one"), "ann\ud800", password)


def test_what_is_too_long_costs_nothing(asked: list[str]) -> None:
    assert not Passwords().verify(None, "ann", "x" * 10_000) and asked == []


@pytest.mark.parametrize("length", [0, 1, 1023, 1024, 1025, 100_000])
def test_no_password_is_stored_that_lets_nobody_in(asked: list[str], length: int) -> None:
    try:
        stored = hash_password("x" * length)
    except ValueError as refused:
        assert length > 1024 and str(refused).startswith("a password has 1024 characters at most")
    else:
        assert Passwords().verify(stored, "ann", "x" * length)


def test_a_broken_hash_lets_nobody_in(asked: list[str]) -> None:
    assert not Passwords().verify("$argon2id$rubbish", "ann", "one")


def test_what_is_remembered_is_bounded(asked: list[str]) -> None:
    known, stored = Passwords(limit=2), hash_password("one")
    for login in "abc":
        assert known.verify(stored, login, "one")
    assert len(known._right) == 2


@given(st.lists(st.text(max_size=5), max_size=4), st.lists(st.text(max_size=5), max_size=4))
def test_no_two_logins_have_one_proof(one: list[str], other: list[str]) -> None:
    known = Passwords()
    assert (known._proof(*one) == known._proof(*other)) == (one == other)


def test_a_hash_with_old_parameters_is_replaced_when_the_password_was_right(asked: list[str]) -> None:
    old = PasswordHasher(time_cost=2, memory_cost=8, parallelism=1).hash("one")
    known, saved = Passwords(), list[str]()
    assert not known.verify(old, "ann", "two", save=saved.append) and saved == []
    assert known.verify(old, "ann", "one", save=saved.append)
    (new,) = saved
    assert extract_parameters(new).time_cost == 1
    assert known.verify(new, "ann", "one", save=saved.append) and saved == [new]
    assert asked == ["two", "one"], "the new hash is remembered as right"


def test_a_hash_that_could_not_be_saved_is_made_again(asked: list[str]) -> None:
    """The transaction that was to store it may have been aborted."""
    old = PasswordHasher(time_cost=2, memory_cost=8, parallelism=1).hash("one")
    known, saved = Passwords(), list[str]()
    assert known.verify(old, "ann", "one", save=saved.append) and known.verify(old, "ann", "one", save=saved.append)
    assert len(saved) == 2
    assert known.verify(old, "ann", "one") and known.verify(old, "ann", "one"), "without `save` it stays"
    assert asked == ["one"] * 3
