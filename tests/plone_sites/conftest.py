"""Plone sites run in an environment of their own: ``make test-plone``."""

from __future__ import annotations

import importlib.util

from ztk.conftest import pytest_terminal_summary as pytest_terminal_summary

collect_ignore_glob = [] if importlib.util.find_spec("plone") else ["test_*.py"]
