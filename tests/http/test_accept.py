"""What an Accept header accepts, and that a long one takes no time (S12)."""

from __future__ import annotations

import time

import pytest

from pipeline.http.encodings import LONGEST_ACCEPT, accepted

OFFERS = ("text/html", "application/json")


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (None, ["text/html", "application/json"]),
        ("", ["text/html", "application/json"]),
        ("*/*", ["text/html", "application/json"]),
        ("application/json", ["application/json"]),
        ("text/html;q=0.5, application/json", ["application/json", "text/html"]),
        ("image/png", []),
        ("text/html;;;", ["text/html", "application/json"]),
    ],
)
def test_what_is_accepted(accept: str | None, expected: list[str]) -> None:
    assert [offer for offer, _ in accepted(accept, OFFERS)] == expected


def test_of_a_long_header_the_whole_elements_at_the_beginning_count() -> None:
    header = "application/json," + "image/png," * LONGEST_ACCEPT + "text/html"
    assert accepted(header, OFFERS) == [("application/json", 1.0)]
    assert len(accepted("x" * 10_000, OFFERS)) == 2


@pytest.mark.parametrize(
    "header", ["text/html," * 200_000, "a/b;x=y" * 300_000, 'a/b;x="' + "\\" * 2_000_000, " ," * 1_000_000]
)
def test_a_long_header_takes_no_time__S12(header: str) -> None:
    began = time.process_time()
    accepted(header, OFFERS)
    assert time.process_time() - began < 1
