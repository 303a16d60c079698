"""What a request does in databases, and the lines that it writes to the log, noted on its record."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

from pipeline.options import resolve
from pipeline.tools.inspector.secrets import masked_text


def watch_connection(record: Any, request: Any) -> None:
    """Note the objects that the ZODB connection of a request loads and registers as changed, until it is closed."""
    pooled = getattr(request, "zodb_pooled", None)
    if pooled is None:
        return
    connection = pooled.connection
    record.pools[id(pooled.pool)] = pooled.pool
    if "setstate" in connection.__dict__:
        return
    load, register = connection.setstate, connection.register

    def setstate(obj: Any) -> None:
        began = perf_counter()
        load(obj)
        record.note("load", type(obj).__qualname__, perf_counter() - began)

    def note_change(obj: Any) -> None:
        register(obj)
        record.note("change", type(obj).__qualname__)

    connection.setstate, connection.register = setstate, note_change

    def leave() -> None:
        del connection.setstate, connection.register

    request.on_close(leave)


class LogHandler(logging.Handler):
    """Notes each line of the log on the record of the request that wrote it."""

    def __init__(self, current: Callable[[], Any]) -> None:
        super().__init__()
        self.current = current

    def emit(self, record: logging.LogRecord) -> None:
        noted = self.current()
        if noted is not None:
            try:
                text = record.getMessage()
            except Exception as error:
                text = f"{record.msg!r} ({type(error).__name__})"
            noted.note("log", masked_text(f"{record.levelname} {record.name}: {text}"))


_listening: list[str] = []
"""What was installed in this process: it is installed once."""


def listen(current: Callable[[], Any]) -> None:
    """Note statements of SQLAlchemy and lines of the log from now on, if they are of a request with a record."""
    if "log" not in _listening:
        _listening.append("log")
        logging.getLogger().addHandler(LogHandler(current))
    if "sqlalchemy" in sys.modules and "sqlalchemy" not in _listening:
        _listening.append("sqlalchemy")
        engine = resolve("sqlalchemy.engine:Engine")
        listen: Callable[..., None] = resolve("sqlalchemy.event:listen")

        def before(connection: Any, cursor: Any, statement: str, parameters: Any, context: Any, many: bool) -> None:
            connection.info["began"] = perf_counter()

        def after(connection: Any, cursor: Any, statement: str, parameters: Any, context: Any, many: bool) -> None:
            record = current()
            if record is not None:
                record.pools[id(connection.engine)] = connection.engine.pool
                record.note("sql", statement, perf_counter() - connection.info["began"])

        listen(engine, "before_cursor_execute", before)
        listen(engine, "after_cursor_execute", after)
