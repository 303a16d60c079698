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
from pipeline.testing import clients, conformance, ordering


@pytest.fixture
def site() -> Callable[..., Any]:
    """``site(app, ...)`` of ``pipeline.testing``: a WebTest application of a pipeline or an ini."""
    return clients.site


@pytest.fixture
def make_request() -> Callable[..., Any]:
    """``make_request(path, ...)`` of ``pipeline.testing``."""
    return clients.make_request


@pytest.fixture
def make_response() -> Callable[..., Any]:
    """``make_response(body, ...)`` of ``pipeline.testing``."""
    return clients.make_response


@pytest.fixture
def log_in() -> Callable[..., Any]:
    """``log_in(client, login, password)`` of ``pipeline.testing``."""
    return clients.log_in


@pytest.fixture
def prove() -> Iterator[Callable[..., Proof]]:
    """``prove(app, ...)`` returns the ``Proof`` of a site, whose methods fail the test if they find something::

        def test_site(prove):
            prove("site.ini", user="admin").faults(depth=1).attack()
    """
    with ExitStack() as stack:
        yield lambda *app, **options: stack.enter_context(Proof(*app, strict=True, **options).loaded())


@pytest.fixture
def check_element() -> Callable[..., None]:
    """``check_element(element, ...)`` of ``pipeline.testing``."""
    return conformance.check_element


@pytest.fixture
def assert_order() -> Callable[..., None]:
    """``assert_order(outer, inner, ...)`` of ``pipeline.testing``."""
    return ordering.assert_order


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
