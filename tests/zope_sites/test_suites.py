"""Zope's own tests, with one name replaced."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from suites import failures, started

RUNNER = Path(__file__).with_name("run_suites.py")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_all_that_pass_on_plain_zope_pass_here(record_property: Callable[[str, object], None]) -> None:
    with started(RUNNER, PIPELINE_ZOPE="1") as here, started(RUNNER, PIPELINE_ZOPE="0") as plain:
        ours, counted = failures(here)
        theirs, count = failures(plain)
    of_both = f"{len(ours)} fail, {len(theirs)} on plain Zope: {', '.join(sorted(ours | theirs))}"
    record_property("summary", f"{counted} tests of Zope: {of_both}")
    assert counted == count > 1600
    assert ours <= theirs
