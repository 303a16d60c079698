"""Notices of debug mode about a session of ``sql``: what it does not store, and statements that grow with the data.

Listeners on SQLAlchemy's classes note them in the ``info`` of the session, since a session is empty after COMMIT.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter, deque
from collections.abc import Iterator
from datetime import date, datetime
from difflib import get_close_matches
from operator import eq
from traceback import walk_stack
from types import CodeType
from typing import Any

from sqlalchemy import JSON, DateTime, Engine, Integer, Numeric, PickleType, event, inspect, select
from sqlalchemy.ext.mutable import Mutable
from sqlalchemy.orm import Session

from pipeline.database.sql_sessions import RequestConnection, RequestSession
from pipeline.explaining.notices_of_processes import plain_passwords
from pipeline.explaining.remedies import NOTICES as TEXTS
from pipeline.telling.words import is_of_the_site

NOTICES = "pipeline.notices"
"""The key in the ``info`` of a session for its notices: the keys of a dict, so that each stands there once."""
STATEMENTS = "pipeline.statements"
"""The key for the statements that it has executed, each with its number of times."""
OBJECTS = "pipeline.objects"
"""The key for the objects that it has loaded or stored."""
CHANGED, DROPPED = "pipeline.changed", "pipeline.dropped"
"""The keys for the line that has changed a row first, and for the notice of an error that has led to a rollback."""
RACED = "pipeline.raced"
"""The key for the names of the columns of rows that another request may change at the same time."""
MANY = 50
"""Times that one statement may be executed for one page."""
MOST_OBJECTS = 500
"""Objects that are kept."""
_broken: dict[Any, set[Any]] = {}
"""Rows of SQLite that named a row that was not there when they were last looked for, by the URL of a database."""


class Here(threading.local):
    """The state of this thread."""

    wanted = False
    """True while it is at work for a request whose notices are wanted."""
    left: tuple[tuple[Any, Any, str, bool], ...] = ()
    """The objects that left a session by a line of the site, each with its key, that line, and whether what a flush
    has sent of it was not committed."""


here = Here()


def listen() -> Here:
    """Listen from now on. Return the state that the listeners look at."""
    event.listen(Session, "loaded_as_persistent", keep)
    event.listen(Session, "pending_to_persistent", keep)
    event.listen(Session, "before_commit", note_objects)
    event.listen(Session, "pending_to_transient", note_left)
    event.listen(Session, "persistent_to_detached", note_left)
    event.listen(Session, "after_rollback", note_rollback)
    event.listen(Engine, "after_cursor_execute", note_statement)
    return here


def note_statement(connection: Any, cursor: Any, statement: str, parameters: Any, context: Any, *rest: Any) -> None:
    """Count a statement. Note it when it is executed too often, or reads a page of rows that have no order."""
    if isinstance(connection, RequestConnection) and here.wanted:
        info = connection.bound.session.info
        counts = info.setdefault(STATEMENTS, Counter())
        counts[statement] += 1
        if context.isinsert or context.isupdate or context.isdelete:
            info[CHANGED] = info.get(CHANGED) or place() or " of the session"
        if counts[statement] == MANY + 1:
            note(info, "a statement again and again", times=MANY, words=" ".join(statement.split())[:200])
        read: Any = getattr(context.compiled, "statement", None)
        if getattr(read, "_offset_clause", None) is not None and not read._order_by_clauses:
            note(info, "OFFSET without an order")
        if (context.isupdate or context.isdelete) and read is not None:
            verb, count = statement.split()[0], cursor.rowcount
            asks = any("rowcount" in code.co_names for code, _ in site_frames())
            if not read._where_criteria and count > 1:
                note(info, "a statement for all rows", verb=verb, count=count)
            elif count == 0 and names_a_row(read) and not asks:
                info[DROPPED] = TEXTS["no row"].format(verb=verb, place=place())


def note(info: Any, name: str, **words: Any) -> None:
    """Note a notice about the line that is being executed."""
    info.setdefault(NOTICES, {})[TEXTS[name].format(place=place(), **words)] = 1


def note_rollback(session: Any) -> None:
    """Note that a rollback because of an error takes back what was changed before that error."""
    is_whole = isinstance(session, RequestSession) and not session.in_nested_transaction()
    if is_whole and session.info.pop(CHANGED, False) and session.bound.failure:
        session.info[DROPPED] = TEXTS["dropped by a rollback"].format(place=place())


def names_a_row(statement: Any) -> bool:
    """Return whether the criteria of a statement name one row by its primary key."""
    named = {one.left for one in statement._where_criteria if getattr(one, "operator", None) is eq}
    return named.issuperset(statement.table.primary_key)


def site_frames() -> Iterator[tuple[CodeType, int]]:
    """Yield the code of the site that is being executed, each with its line; the innermost first."""
    frames = ((frame.f_code, line) for frame, line in walk_stack(sys._getframe(1)))
    return (one for one in frames if is_of_the_site(one[0].co_filename))


def place() -> str:
    """Return " in FILE, line N" of the line of the site that is being executed, or ""."""
    return next((f" in {code.co_filename}, line {line}" for code, line in site_frames()), "")


def keep(session: Any, obj: Any) -> None:
    """Keep an object until COMMIT. The session itself only keeps those of which it knows a change."""
    if here.wanted:
        session.info.setdefault(OBJECTS, deque(maxlen=MOST_OBJECTS)).append(obj)


def note_left(session: Any, obj: Any) -> None:
    """Note an object that leaves its session by a line of the site, and by no rollback."""
    frame, names = sys._getframe(1), set[str]()
    while here.wanted and frame.f_back and frame.f_globals.get("__name__", "").startswith("sqlalchemy."):
        names.add(frame.f_code.co_name)
        frame = frame.f_back
    if here.wanted and "rollback" not in names and is_of_the_site(frame.f_code.co_filename):
        state, begun = inspect(obj), None if isinstance(session, RequestSession) else session.get_transaction()
        is_flushed = begun is not None and (state in begun._new or state in begun._dirty)
        here.left = (*here.left[-MOST_OBJECTS:], (obj, state.key, place(), is_flushed))


def of_left() -> Iterator[str]:
    """Yield the objects of this thread that have left their session with changes, or were changed behind it."""
    for state, key, line, is_flushed in ((inspect(obj), *rest) for obj, *rest in here.left):
        if state.session is None and state.key is key and (key is None or state.modified or is_flushed):
            yield TEXTS["left before it was stored"].format(kind=state.class_.__qualname__, place=line)


def note_objects(session: Any) -> None:
    """Note what the objects of a session have, and it does not store."""
    if isinstance(session, RequestSession) and here.wanted:
        notices = session.info.setdefault(NOTICES, {})
        changed = session.info.get(CHANGED, "")
        if changed and session.get_bind().dialect.name == "sqlite" and not session.new:
            rows = set(session.connection().exec_driver_sql("PRAGMA foreign_key_check").all())
            url = session.get_bind().engine.url
            new = min(rows - _broken.get(url, set()), default=None, key=str)  # the first time, perhaps an old one
            notices |= {TEXTS["a row that is not there"].format(place=changed, row=new): 1} if new else {}
            _broken[url] = rows
        by_mapper: dict[Any, list[Any]] = {}
        weak = bool(changed or session.dirty) and not session.bound.failure and is_weak(session)
        for obj in [*session.new, *session.info.pop(OBJECTS, ())]:
            notices.update(dict.fromkeys(strange(obj), 1))
            by_mapper.setdefault(inspect(obj).mapper, []).append(obj)
        for mapper, objects in by_mapper.items():
            if weak and mapper.version_id_col is None:
                session.info.setdefault(RACED, set()).update(mapper.column_attrs.keys())
            notices.update(dict.fromkeys(changed_in_place(session, mapper, objects), 1))
            for column in mapper.columns:
                if isinstance(getattr(column.default, "arg", None), date):
                    notices[f"the default of {column} is the time of the start. Give a function: lambda: ..."] = 1


def is_weak(session: Any) -> bool:
    """Return whether two requests may read and change one row at the same time, and one of both changes is lost."""
    dialect = session.get_bind().dialect.name
    level = "SERIALIZABLE" if dialect == "sqlite" else session.connection().get_isolation_level()
    return level != "SERIALIZABLE" and (dialect, level) != ("postgresql", "REPEATABLE READ")


def strange(obj: Any) -> Iterator[str]:
    """Yield the attributes of an object that were set and have no column."""
    mapper = inspect(obj).mapper
    known = mapper.attrs.keys()
    yield from plain_passwords(type(obj).__qualname__, vars(obj))
    for name, value in vars(obj).items():
        shown = f"{type(obj).__qualname__}.{name}"
        kind = mapper.columns[name].type if name in mapper.columns else None
        if isinstance(value, datetime) and value.utcoffset() and isinstance(kind, DateTime) and not kind.timezone:
            yield TEXTS["an offset of a time"].format(name=shown, offset=f"{value:%z}")
        longest = 0 if isinstance(kind, (Integer, Numeric)) else getattr(kind, "length", None) or sys.maxsize
        if isinstance(value, str) and len(value) > longest:
            yield TEXTS["a text that does not fit"].format(name=shown, kind=kind)
        if not name.startswith("_") and name not in known and not hasattr(type(obj), name):
            guess = "".join(f" Did you mean {near}?" for near in get_close_matches(name, known, 1, 0.7))
            yield f"{shown} was set, and has no column: it is not stored.{guess}"


def changed_in_place(session: Any, mapper: Any, objects: list[Any]) -> Iterator[str]:
    """Yield the columns of a class whose list or dict was changed in place, so that the session was not told."""
    key = mapper.primary_key
    for attribute in mapper.column_attrs if len(key) == 1 else ():
        column, name = attribute.columns[0], attribute.key
        if isinstance(column.type, (JSON, PickleType)):
            values = {one.identity[0]: one.dict[name] for one in map(inspect, objects) if is_untold(one, name)}
            stored = select(key[0], column).where(key[0].in_(values)) if values else None
            for row in () if stored is None else session.connection().execute(stored):
                if values[row[0]] != row[1]:
                    yield TEXTS["a column changed in place"].format(name=f"{mapper.class_.__qualname__}.{name}")


def is_untold(state: Any, name: str) -> bool:
    """Return whether an attribute of a stored object has a value that can change without its session being told."""
    value = state.dict.get(name)
    is_plain = isinstance(value, (dict, list, set)) and not isinstance(value, Mutable)
    return is_plain and state.persistent and name not in state.committed_state
