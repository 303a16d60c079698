"""``explain`` and ``shell`` on a Data.fs that the server of the site has open."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from ZODB.FileStorage.FileStorage import FileStorage

from tools.conftest import Site
from tools.test_commands import DATABASE, STORED


@pytest.fixture
def served(site: Site) -> Iterator[Site]:
    """A site whose database another one has open, as a server has."""
    from pipeline.elements.zodb import close_all

    blobs = DATABASE.replace("/Data.fs", "/Data.fs?blobstorage_dir=HERE/blobs")
    site.write(blobs, STORED)
    assert site.run("shell", "-c", "root['count'] = 4; commit()")[0] == 0
    close_all()
    storage = FileStorage(f"{site.directory}/Data.fs")
    yield site
    storage.close()
    close_all()


@pytest.mark.parametrize(
    ("arguments", "status"), [(("explain", "GET", "/"), 0), (("explain", "POST", "/add", "-d", ""), 0)]
)
def test_explain_reads(served: Site, arguments: tuple[str, ...], status: int) -> None:
    found, said = served.run(*arguments)
    assert found == status, said
    assert "-> 200 OK" in said
    assert f"{served.directory}/Data.fs is open read-only, since another process has it" in said


def test_explain_cannot_commit_and_says_why(served: Site) -> None:
    status, said = served.run("explain", "POST", "/add", "--commit")
    assert status == 1
    for expected in ("ReadOnlyError", "or ask without --commit", "is open read-only, since another process has it"):
        assert expected in said


def test_the_shell_reads_and_says_why_it_cannot_commit(served: Site) -> None:
    status, said = served.run("shell", "-c", "print('it is', root['count']); root['count'] = 5; commit()")
    assert status == 1
    assert "it is 4" in said
    assert "RuntimeError: nothing is stored: " in said and "is open read-only" in said
    assert "it is 4" in served.run("shell", "-c", "abort(); print('it is', root['count'])")[1]


def test_what_serves_still_refuses(served: Site) -> None:
    """Only these commands open it read-only."""
    from webtest import TestApp

    from pipeline.paste import load

    sys.path.insert(0, str(served.directory))
    TestApp(load(f"config:{served.ini}")).get("/", status=503)
