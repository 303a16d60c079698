"""How often a database is tried that cannot be reached."""

from __future__ import annotations

import socket
import threading
import time
from itertools import pairwise
from typing import Any

from around_a_view import ask, end
from pipeline import Pipeline
from pipeline.database import sql_databases
from pipeline.database.outages import Outage
from pipeline.elements.errors import errors
from pipeline.elements.sql import sql

HELD = 1.4
"""Seconds for which the proxy holds a connection, until it gives up its search for a server."""


def test_a_try_that_took_longer_than_the_pause_is_followed_at_once(need_packages: Any) -> None:
    """As behind haproxy. The server may have come back while the try was held."""
    need_packages("psycopg2", "sqlalchemy")
    begun: list[float] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)

        def hold() -> None:
            for _ in range(3):
                connection, _ = listener.accept()
                begun.append(time.monotonic())
                time.sleep(HELD)
                connection.close()

        proxy = threading.Thread(target=hold)
        proxy.start()
        url = f"postgresql+psycopg2://site@127.0.0.1:{listener.getsockname()[1]}/site?sslmode=disable"
        app = Pipeline(sql(url=url), errors(), end(view=lambda request, _: request.sql.connection() and None))
        while proxy.is_alive():
            assert ask(app).status == 503
            time.sleep(0.02)
        proxy.join()
    sql_databases.close_all()
    first, second = (after - before for before, after in pairwise(begun))
    assert first > HELD + Outage.PAUSE - 0.1, "a request that was refused waits"
    assert HELD <= second < HELD + Outage.PAUSE - 0.1
