"""Plone's own tests, on plain Zope and with ``publish_module`` replaced by ours."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from suites import counted, failed, started

RUNNER = Path(__file__).parents[1] / "zope_sites" / "run_suites.py"
SUITES = {
    "plone.app.theming": 82,
    "plone.app.caching": 176,
    "plone.protect": 62,
    "plone.rest": 131,
    "plone.subrequest": 76,
    "plone.restapi": 1406,
    "Products.CMFPlone": 1478,
}
"""The packages, and how many tests each has at least."""
DIFFERENT = {
    "test_500_traceback_only_for_manager_users": "it wants a function of ZPublisher.WSGIPublisher in the traceback",
}
"""The tests that fail on the pipeline alone, and why."""


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("package", SUITES)
def test_all_that_pass_on_plain_plone_pass_here(
    package: str, record_property: Callable[[str, object], None]
) -> None:
    with started(RUNNER, package, PIPELINE_ZOPE="0") as run:
        plain, _ = run.communicate()
    with started(RUNNER, package, PIPELINE_ZOPE="1") as run:
        here, _ = run.communicate()
    answered = sum(map(int, re.findall(r"^The pipeline has answered (\d+) requests", here, re.MULTILINE)))
    ours, theirs = failed(here), failed(plain)
    of_both = f"{len(ours)} fail, {len(theirs)} on plain Zope: {', '.join(sorted(ours | theirs))}"
    record_property("summary", f"{counted(here)} tests of {package}, {answered} requests: {of_both}")
    assert counted(here) == counted(plain) >= SUITES[package]
    assert {name.partition(" ")[0] for name in ours - theirs} <= DIFFERENT.keys()
    assert answered, "the one name is replaced"
