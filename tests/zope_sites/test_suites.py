"""Zope's own tests, with one name replaced."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from suites import against_plain

RUNNER = Path(__file__).with_name("run_suites.py")
PACKAGES = (
    *("App", "OFS", "Products.Five", "Products.PageTemplates", "Shared", "Testing", "ZPublisher", "ZTUtils"),
    *("Zope2", "webdav", "zmi"),
)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_all_that_pass_on_plain_zope_pass_here(record_property: Callable[[str, object], None]) -> None:
    found = against_plain(RUNNER, *PACKAGES, plain={"PIPELINE_ZOPE": "0"}, here={"PIPELINE_ZOPE": "1"})
    record_property("summary", f"{found.counted} tests of Zope: {found}")
    assert found.counted == found.count > 1600
    assert found.ours <= found.theirs
