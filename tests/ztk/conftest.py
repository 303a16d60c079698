"""Sites of the Zope Toolkit run in an environment of their own: ``make test-ztk``."""

from __future__ import annotations

import importlib.util

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "ztk" in item.path.parts:
            item.add_marker("ztk")


collect_ignore_glob = [] if importlib.util.find_spec("grok") else ["test_*.py"]
