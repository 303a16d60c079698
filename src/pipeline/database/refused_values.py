"""Values of a visitor that an SQL database does not take: NUL in a text, a text or a number that is too large.

They are a 400 that names the field, or a 404 if the value was a step of the path. The value of a view's own is a
mistake of the site, and stays a 500.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress
from traceback import walk_tb
from typing import Any

from sqlalchemy.engine import default
from sqlalchemy.exc import DataError, DBAPIError
from webob.exc import HTTPBadRequest, HTTPException, HTTPNotFound

from pipeline.database.sql_errors import code_of, values_of

log = logging.getLogger("pipeline.sql")

OF_MARIADB = (1264, 1292, 1366, 1406)
"""Codes that mysqlclient tells by another class: out of range, wrong date, wrong text, too long."""
DEEPEST = 20
"""Levels of a JSON value that are looked at."""


def answer_for(request: Any, error: Exception) -> Exception | None:
    """Return the answer to an error that a value of the visitor has caused, or None for any other error."""
    texts = {str(value) for value in refused_by(error)}
    if not texts:
        return None
    among = [(name, value) for name, value in fields_of(request) if value in texts]
    names = sorted({name for name, value in among if "\0" in value} or {name for name, _ in among})
    if names:
        what = type(getattr(error, "orig", None) or error).__name__, getattr(error, "statement", "a statement")
        asked = request.method, request.path_info_safe
        log.warning("%s %s: the database does not take a value of %s: %s in %.200s", *asked, names, *what)
        if len(names) == 1:
            return HTTPBadRequest(f"The value of the field {names[0]!r:.200} cannot be stored.")
        listed = ", ".join(f"{name!r:.200}" for name in names[:10])
        return HTTPBadRequest(f"The value of one of these fields cannot be stored: {listed}.")
    path = request.environ.get("PATH_INFO", "").encode("latin-1", "replace").decode("utf-8", "replace")
    if any(step in texts for step in path.split("/") if step):
        return HTTPNotFound("There is nothing at this address.")
    return None


def refused_by(error: Exception) -> Iterator[Any]:
    """Yield the values of the parameters of a statement, if the database or its driver refuses one of them."""
    sent: Any = ()
    if isinstance(error, DBAPIError):
        code = code_of(error.orig)
        if isinstance(error, DataError) or code in OF_MARIADB or str(code).startswith("22"):
            sent = error.params
    elif isinstance(error, ValueError | OverflowError):  # some drivers raise it, and SQLAlchemy lets it pass
        for frame, _ in walk_tb(error.__traceback__):
            if frame.f_code.co_filename == default.__file__:
                sent = frame.f_locals.get("parameters")
    yield from values_of(sent)


def fields_of(request: Any) -> Iterator[tuple[str, str]]:
    """Yield name and text of what the visitor has sent, as far as it was read."""
    with suppress(HTTPException):  # a form that cannot be read was not read
        yield from request.GET.items()
        yield from _leaves("", dict(request.__dict__.get("form") or ()), DEEPEST)
    yield from _leaves("", request.__dict__.get("json"), DEEPEST)


def _leaves(name: str, value: Any, levels: int) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict | list) and levels:
        inner: Iterable[tuple[Any, Any]] = value.items() if isinstance(value, dict) else enumerate(value)
        for key, one in inner:
            yield from _leaves(f"{name}/{key}" if name else str(key), one, levels - 1)
    elif name and not isinstance(value, dict | list):
        yield name, str(value)
