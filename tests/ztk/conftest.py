"""Sites of the Zope Toolkit run in an environment of their own: ``make test-ztk``."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "ztk" in item.path.parts:
            item.add_marker("ztk")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Show the property ``summary`` of each test that has one, also of a test in a process of pytest-xdist."""
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name == "summary" and report.when == "call":
                    terminalreporter.write_line(value)


collect_ignore_glob = [] if importlib.util.find_spec("grok") else ["test_*.py"]
