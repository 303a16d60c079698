"""A ZODB on a server that takes no writes, because it was demoted or is set to read only."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
from persistent.mapping import PersistentMapping

from around_a_view import ask, end
from pipeline import Pipeline, Request, Response
from pipeline.elements.errors import errors
from pipeline.elements.retry import retry
from pipeline.elements.transaction import transaction
from pipeline.elements.zodb import close_all, zodb
from servers.fixtures import running
from servers.mariadb import MariaDB
from servers.postgres import Postgres

pytestmark = [pytest.mark.servers, pytest.mark.timeout(120)]


def view(request: Request, response: Response) -> Any:
    root = request.root
    if request.path == "/count":
        root["count"] = root.get("count", 0) + 1
    elif request.path == "/add":
        for number in range(2_000):  # more than the ids that a process has in advance
            root[str(number)] = PersistentMapping()
    return [b"%d" % root.get("count", 0)]


def restart(server: Postgres, standby: bool) -> None:
    """Make a server a replica, or a primary again."""
    server.stop()
    mark = server.data / "standby.signal"
    if standby:
        mark.touch()
        mark.chmod(0o666)
    else:
        mark.unlink()
    server.start()


@pytest.mark.parametrize("kind", [Postgres, MariaDB])
def test_a_server_that_takes_no_writes_is_a_503_until_it_does(
    kind: type[Any],
    servers_dir: Path,
    missing: Callable[[str, str], NoReturn],
    need_packages: Callable[..., None],
    caplog: Any,
) -> None:
    """Pages are shown all the while, and no request is tried again in vain."""
    need_packages("relstorage", *(["psycopg2"] if kind is Postgres else ["mysql.connector"]))
    with running(kind, servers_dir, missing) as server:
        server.create("site")
        app = Pipeline(retry(), zodb(uri=server.uri("site")), errors(), transaction(), end(view=view))

        def demote(replica: bool) -> None:
            if kind is Postgres:
                restart(server, replica)
            else:
                server.ask(f"SET GLOBAL read_only = {int(replica)}")

        try:
            assert ask(app, "/count").status == 200
            demote(True)
            begun = time.monotonic()
            for path in ("/count", "/add", "/count"):
                answer = ask(app, path)
                assert (answer.status, answer.headers["Retry-After"]) == (503, "1"), path
                assert (ask(app).status, ask(app).text) == (200, "1")
            assert time.monotonic() - begun < 15
            demote(False)
            assert [ask(app, path).status for path in ("/count", "/add")] == [200, 200]
            assert ask(app).text == "2"
        finally:
            close_all()
    assert "Traceback" not in "".join(
        record.exc_text or "" for record in caplog.records if record.name.startswith("pipeline")
    )
    assert "the database takes no writes" in caplog.text
