"""Fixtures for pytest. A ``conftest.py`` turns them on: ``pytest_plugins = ["pipeline.testing.plugin"]``.

They are not an entry point of pytest, which would give them to every project in the environment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pipeline.database import forks
from pipeline.proving.proof import Proof
from pipeline.testing import clients, conformance, declarations


def fixture_of(function: Callable[..., Any]) -> Any:
    """Return a fixture that is a function of ``pipeline.testing``, with its name and its text."""

    def fixture() -> Callable[..., Any]:
        return function

    fixture.__doc__ = function.__doc__
    return pytest.fixture(name=function.__name__)(fixture)


site, make_request = fixture_of(clients.site), fixture_of(clients.make_request)
make_response, log_in = fixture_of(clients.make_response), fixture_of(clients.log_in)
check_element, assert_order = fixture_of(conformance.check_element), fixture_of(declarations.assert_order)


@pytest.fixture
def prove() -> Iterator[Callable[..., Proof]]:
    """``prove(app, ...)`` returns the ``Proof`` of a site, whose methods fail the test if they find something::

        def test_site(prove):
            prove("site.ini", user="admin").faults(depth=1).attack()
    """
    with ExitStack() as stack:
        yield lambda *app, **options: stack.enter_context(Proof(*app, strict=True, **options).loaded())


@pytest.fixture
def zodb_uri(tmp_path: Path) -> Iterator[str]:
    """The URI of a new ZODB in a file, for the option ``uri`` of ``zodb``. It is closed after the test."""
    yield f"file://{tmp_path}/Data.fs?blobstorage_dir={tmp_path}/blobs"
    forks.close_all()


@pytest.fixture
def sql_url(tmp_path: Path) -> Iterator[str]:
    """The URL of a new SQLite database, for the option ``url`` of ``sql``. It is closed after the test."""
    yield f"sqlite:///{tmp_path}/site.sqlite"
    forks.close_all()
