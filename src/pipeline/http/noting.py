"""An environ that notes what is read of it, so that what an answer was made of is known."""

from __future__ import annotations

import sys
from collections.abc import Iterator, MutableMapping
from functools import lru_cache
from typing import Any, TypeAlias

from pipeline.http import conditional
from pipeline.request import Request

Name: TypeAlias = str | tuple[str, str]
"""A key of the environ, or ``("cookie", name)`` for the cookies of one name."""

OURS = ("pipeline.", "webob.")
"""The beginnings of the names of modules that read single keys of an environ, and of keys that they make."""
ALL = "*"
"""Noted if the environ was read as a whole, so that it is not known what was used of it."""
CONDITIONS = (*conditional.CONDITIONS, "HTTP_IF_RANGE")
"""Headers that ask for a part of an answer or for none. The edge answers them."""
_OF_WSGI = ("url_scheme", "version", "errors", "multithread", "multiprocess", "run_once", "file_wrapper")
_NEVER = ("REQUEST_METHOD", "HTTP_HOST", "SCRIPT_NAME", "PATH_INFO", *(f"wsgi.{name}" for name in _OF_WSGI))
"""Keys that are not noted: they do not differ between two requests for one address."""


_Methods: Any = MutableMapping


class Noting(_Methods, dict[str, Any]):  # type: ignore[misc]
    """A copy of an environ that notes each key that is read before it is set.

    ``noted`` has the names. Keys of this package and of WebOb, which WebOb makes from others, are not noted.
    Methods such as ``pop`` are those of MutableMapping: those of a dict would read past the methods below.
    """

    def __init__(self, environ: dict[str, Any], without: tuple[str, ...] = ()) -> None:
        super().__init__(dict.items(environ))
        for key in without:
            dict.pop(self, key, None)
        self.noted: set[Name] = set()
        self.own: set[str] = set()
        """The keys that were set or removed. What is read of them from then on does not come with the request."""
        self.plain = environ
        """The environ itself, for code of the site."""
        self.known: set[Any] = {*_NEVER, *without}
        """The keys that need not be noted any more. A page reads ``HTTP_HOST`` for each of its links."""

    def note(self, key: Any) -> None:
        """Note a key that is read for the first time."""
        self.known.add(key)
        if not isinstance(key, str) or not key.startswith(OURS):
            self.noted.add(key)

    def cookie_header(self, name: str) -> str:
        """Return the header with all cookies to a reader that looks for those of one name."""
        if "HTTP_COOKIE" not in self.own:
            self.noted.add(("cookie", name))
        return str(dict.get(self, "HTTP_COOKIE", ""))

    def put_back(self) -> dict[str, Any]:
        """Set and remove the same keys in the environ itself, and return that."""
        for key in self.own:
            self.plain.pop(key, None)
            if dict.__contains__(self, key):
                self.plain[key] = dict.__getitem__(self, key)
        self.own.clear()
        return self.plain

    # Plain methods, since a page reads its environ a hundred times. One function for all would take twice as long.
    def __getitem__(self, key: str) -> Any:
        if key not in self.known:
            self.note(key)
        return dict.__getitem__(self, key)

    def __contains__(self, key: object) -> bool:
        if key not in self.known:
            self.note(key)
        return dict.__contains__(self, key)

    def get(self, key: str, default: Any = None) -> Any:
        if key not in self.known:
            self.note(key)
        return dict.get(self, key, default)

    def __setitem__(self, key: str, value: Any) -> None:
        self.own.add(key)
        self.known.add(key)
        dict.__setitem__(self, key, value)

    def __delitem__(self, key: str) -> None:
        if key in self:
            self[key] = None
        dict.__delitem__(self, key)

    def __repr__(self) -> str:
        """Say nothing of the values: code that wants a plain dict quotes another one in its error (S25)."""
        return "<the environ of a page that is kept>"

    def __iter__(self) -> Iterator[str]:
        self.noted.add(ALL)
        return dict.__iter__(self)

    def __len__(self) -> int:
        self.noted.add(ALL)
        return dict.__len__(self)

    __ne__ = object.__ne__  # the other way round of __eq__, which MutableMapping has
    __ior__: Any = None  # that of a dict would write past the methods above


@lru_cache(maxsize=128)
def watched(requests: type[Request]) -> type[Request]:
    """Return the class of requests whose environ is noted. Code of the site that reads ``request.environ`` gets the
    plain dict, as everywhere, and has read it as a whole: it may hand the dict to a library that takes no other."""
    held: Any = Request.environ

    def environ(request: Any) -> dict[str, Any]:
        found: dict[str, Any] = held.__get__(request)
        if type(found) is Noting and not sys._getframe(1).f_globals.get("__name__", "").startswith(OURS):
            found.noted.add(ALL)
            found = found.put_back()
            held.__set__(request, found)
        return found

    attributes = {"__slots__": (), "__module__": requests.__module__, "environ": property(environ, held.__set__)}
    return type(requests.__name__, (requests,), attributes)


def unnoted(environ: dict[str, Any]) -> dict[str, Any]:
    """Return an environ for tools, which look at all of it and use nothing."""
    return dict(dict.items(environ)) if type(environ) is Noting else environ
