"""docs/safety.rst states every rule, and the tests that it names are there and name the rule."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parent.parent
RULES = [f"S{number}" for number in range(1, 28)] + [f"R{number}" for number in range(1, 15)] + ["R2a"]

def stated() -> dict[str, str]:
    """What stands below each rule."""
    text = (TOP / "docs" / "safety.rst").read_text("utf-8")
    found = re.findall(r"^([SR]\d+a?)\n((?:\n| +.*\n)+)", text, re.MULTILINE)
    assert len(found) == len(dict(found)), "a rule is stated twice"
    return dict(found)


def files_of(rule: str) -> list[str]:
    found = re.search(r":Tests:(.*(?:\n {8}.*)*)", stated()[rule])
    assert found is not None, f"docs/safety.rst does not say how {rule} is tested"
    names = re.findall(r"``(tests/\S+\.py)``", found[1])
    assert names
    return names


def test_every_rule_is_stated() -> None:
    assert sorted(stated()) == sorted(RULES)


@pytest.mark.parametrize("rule", RULES)
def test_its_tests_are_there_and_name_it(rule: str) -> None:
    for name in files_of(rule):
        text = (TOP / name).read_text("utf-8")
        mentioned = re.search(rf"(?<![a-z0-9]){rule}(?![a-z0-9])", text, re.IGNORECASE)
        assert mentioned, f"{name} does not mention {rule}"
