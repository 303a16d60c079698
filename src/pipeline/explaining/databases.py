"""Notes on the record of a request: what it does in databases, and the lines that it writes to the log."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

from pipeline.options import resolve
from pipeline.telling.secrets import masked_text

current: Callable[[], Any] = lambda: None  # noqa: E731
"""Function that returns the record of the request that this thread is at work for, or None."""


def watch_connection(request: Any) -> None:
    """Have the objects noted that the ZODB connection of a request loads and registers as changed."""
    pooled = getattr(request, "zodb_pooled", None)
    if pooled is None or "setstate" in pooled.connection.__dict__:
        return
    connection = pooled.connection
    load, register = connection.setstate, connection.register

    def setstate(obj: Any) -> None:
        noted = current()
        began = perf_counter()
        load(obj)
        if noted is not None:
            noted.note("load", type(obj).__qualname__, perf_counter() - began)

    def note_change(obj: Any) -> None:
        register(obj)
        noted = current()
        if noted is not None:
            noted.note("change", type(obj).__qualname__)

    connection.setstate, connection.register = setstate, note_change


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
"""The names of the listeners that this process has installed. Each is installed once."""


def listen(of_this_thread: Callable[[], Any]) -> None:
    """Note statements of SQLAlchemy and lines of the log from now on, if they are of a request with a record."""
    global current
    current = of_this_thread
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
                record.note("statement", statement, perf_counter() - connection.info["began"])

        listen(engine, "before_cursor_execute", before)
        listen(engine, "after_cursor_execute", after)
