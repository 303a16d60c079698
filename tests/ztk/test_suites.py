"""The tests of grok, grokcore.* and zope.app.*, with one name replaced."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from suites import against_plain

RUNNER = Path(__file__).with_name("run_suites.py")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_all_that_pass_on_plain_zope_pass_here(record_property: Callable[[str, object], None]) -> None:
    # One after the other, since a test of grokcore.view writes to its own template.
    found = against_plain(RUNNER, plain={"PIPELINE_ZTK": "0"}, here={"PIPELINE_ZTK": "1"})
    record_property("summary", f"{found.counted} tests of grok, grokcore.* and zope.app.*: {found}")
    assert found.counted == found.count > 250
    assert found.ours <= found.theirs
