"""The tests of grok, grokcore.* and zope.app.*, with one name replaced."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from suites import failures, started

RUNNER = Path(__file__).with_name("run_suites.py")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_all_that_pass_on_plain_zope_pass_here(record_property: Callable[[str, object], None]) -> None:
    with started(RUNNER, PIPELINE_ZTK="1") as here:
        ours, counted = failures(here)
    # Not beside the other: a test of grokcore.view writes to its own template.
    with started(RUNNER, PIPELINE_ZTK="0") as plain:
        theirs, count = failures(plain)
    of_both = f"{len(ours)} fail, {len(theirs)} on plain Zope: {', '.join(sorted(ours | theirs))}"
    record_property("summary", f"{counted} tests of grok, grokcore.* and zope.app.*: {of_both}")
    assert counted == count > 250
    assert ours <= theirs
