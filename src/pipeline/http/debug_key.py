"""The key that a visitor needs in debug mode to see more than an error page (S17).

The address of the visitor is not a proof: behind a proxy on the same machine every visitor comes from
127.0.0.1, and nginx's plain ``proxy_pass`` even replaces the host. So ``make`` makes a key at start and logs
it with an address. The developer opens that address once; ``hand_over`` answers it with a cookie that holds
the key. ``may_see`` is true for requests with that cookie, and for no others.

A process has one key for all its pipelines. Processes that are forked after the site is loaded inherit the
key. Workers that each load the site, and reloads, share a key if the environment variable
``PIPELINE_DEBUG_KEY`` holds one.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from pipeline.cookies import cookies_of
from pipeline.interfaces import ConfigurationError
from pipeline.request import Request
from pipeline.response import Response

log = logging.getLogger("pipeline")

VARIABLE = "PIPELINE_DEBUG_KEY"
"""Environment variable with the key, for processes that must share one."""
PARAMETER = COOKIE = "debug-key"
_FORM = re.compile(r"[A-Za-z0-9_-]{32,200}")
"""A key that cannot be guessed, and that needs no quoting in a URL or a cookie."""

Teller = Callable[[Any, Exception, Any], Any]

_key: str | None = None
_chosen: str | None = None
_address = ""
_told = False
_tell: Teller | None = None


def choose(key: str | None, address: str, told: bool = False) -> None:
    """Have ``make`` use a key, so that it stays the same when a server starts the site again.

    key      the key, or None for a new one
    address  the address of the site, such as http://127.0.0.1:8080, or "" if it is not known
    told     whether the address was logged already
    """
    global _chosen, _address, _told
    _chosen, _address, _told = key, address, told


def tell(request: Any, error: Exception, problem: Any) -> Any:
    """Return the problem of an error with what a developer may see, by the function that ``make`` was given."""
    return problem if _tell is None else _tell(request, error, problem)


def make(tell: Teller | None = None) -> None:
    """Make the key of this process, unless it has one, and log the address that hands it over.

    tell  ``(request, error, problem) -> problem``, for errors that no element ``errors`` answers, such as those of
          an element outside of it

    ConfigurationError if the environment variable holds a key that is too weak.
    """
    global _key, _tell
    _tell = tell or _tell
    if _key is not None:
        return
    key = os.environ.get(VARIABLE, _chosen)
    if key is None:
        key = secrets.token_urlsafe(32)
    elif not _FORM.fullmatch(key):
        raise ConfigurationError(
            f"errors: the environment variable {VARIABLE} must hold 32 to 200 letters, digits, '-' or '_'; "
            'make one with: python -c "import secrets; print(secrets.token_urlsafe(32))"'
        )
    _key = key
    if not _told:
        where = f"{_address}/?{PARAMETER}={key}{'' if _address else ' of this site'}"
        log.warning("debug mode is on: to see tracebacks in a browser, open %s once", where)


def announce(page: str, path: str) -> None:
    """Log the address of a page for developers, unless it was logged before the site was started again."""
    if not _told:
        log.warning("%s is at %s%s, once a browser has opened the address with the key", page, _address, path)


def may_see(request: Request) -> bool:
    """Return whether the visitor has the key, and so may see the pages for developers."""
    if _key is None:
        return False
    key = _key.encode()
    sent = cookies_of(request.environ, COOKIE)
    return any(secrets.compare_digest(value.encode(errors="replace"), key) for value in sent)


def hand_over(request: Request, response: Response) -> bool:
    """Answer a GET of the address with the key: set the cookie, and redirect to an address without the key.

    Return False for any other request, and leave it alone. The key is taken out of the query, so that the
    access log does not have it.
    """
    environ = request.environ
    query: str = environ.get("QUERY_STRING", "")
    if _key is None or not query.startswith(PARAMETER) or environ["REQUEST_METHOD"] != "GET":
        return False
    if not secrets.compare_digest(query.encode(errors="replace"), f"{PARAMETER}={_key}".encode()):
        return False
    environ["QUERY_STRING"] = ""
    for name in ("REQUEST_URI", "RAW_URI"):
        if name in environ:
            environ[name] = environ[name].partition("?")[0]
    mounted = quote(environ.get("SCRIPT_NAME", "").strip("/"), encoding="latin-1", errors="replace")
    response.status = 303
    response.headers["Location"] = f"/{mounted}/" if mounted else "/"
    response.headers["Cache-Control"] = "no-store"
    response.headers["Referrer-Policy"] = "no-referrer"
    response.set_cookie(COOKIE, _key, path="/", secure=request.scheme == "https", httponly=True, samesite="Strict")
    return True
