"""The zope.conf of a site: loaded by Zope's own packages, once a process, and what an operator must know of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ZConfig.datatypes import stock_datatypes

from pipeline.ini import Source
from pipeline.interfaces import ConfigurationError, Facts
from pipeline.options import Signature
from pipeline.strings import from_strings

_site: dict[str, Any] = {}
"""The path of the zope.conf that was loaded, and the main database."""


def load_once(zope_conf: str, load: Callable[[str], Any]) -> Any:
    """Load a zope.conf and return its main database. A second call with the same file returns the same one.

    Raises ConfigurationError if it cannot be loaded, or if another one was: ZCML is for the whole process.
    """
    path = str(Path(zope_conf).resolve())
    if path in _site:
        return _site[path]
    if _site:
        other = next(iter(_site))
        raise ConfigurationError(f"{path}: {other} is loaded already, and a process can have one Zope site")
    if not Path(path).is_file():
        raise ConfigurationError(f"zope_conf: there is no file {path}")
    try:
        db = load(path)
    except SystemExit:  # it has said on stderr what is wrong
        raise ConfigurationError(f"{path} is not a valid zope.conf; the error stands above") from None
    _site[path] = db
    return db


def need(db: Any, publisher: str) -> Any:
    """Return the main database of a site. Raise ConfigurationError if there is none, since no site is loaded.

    publisher  the element that loads a site
    """
    if db is None:
        raise ConfigurationError(
            f"no Zope site is loaded: give {publisher} the option zope_conf, and zodb as well if its pipeline "
            f"has no {publisher}"
        )
    return db


def loaded() -> Any:
    """Return the main database of the site that was loaded, or None."""
    return next(iter(_site.values()), None)


def _application(*, zope_conf: str, attempts: int | None = None) -> None:
    """Check the options of ``zope`` and ``ztk``."""


def options_of(application: Any, global_conf: Mapping[str, str], strings: Mapping[str, str]) -> dict[str, Any]:
    """Return the options of ``zope`` or ``ztk``, converted."""
    source = Source(global_conf, application)
    return from_strings(Signature.of(_application), application.__name__, strings, source)


def facts_of(zope_conf: str | None, longest_form: str = "") -> Facts:
    """Return what an operator must know of a zope.conf, without opening its databases; nothing if it is not valid.

    The names that have a path in its sections of storages are read, as ZConfig finds them.

    longest_form  the limit of forms, as ZConfig reads it, if the zope.conf has no ``form-disk-limit``
    """
    try:
        text = Path(zope_conf or "").read_text("utf-8", "replace")
    except OSError:
        return Facts()
    defined = {"here": str(Path(zope_conf or "").parent)}
    writes, servers, alone = [], [], ""
    section = ""
    for line in map(str.strip, text.splitlines()):
        if found := re.match(r"%define\s+(\w+)\s+(.*)", line, re.IGNORECASE):
            defined[found[1].lower()] = expanded(found[2], defined)
        elif found := re.match(r"<(\w+)", line):
            section = found[1].lower()
        elif found := re.match(r"([\w-]+)\s+(.*)", line):
            name, value = found[1].lower(), expanded(found[2], defined)
            if name == "path" and section in ("filestorage", "logfile") and value not in ("STDERR", "STDOUT"):
                writes.append(value)
                if section == "filestorage":
                    alone = f"one process has {value} for itself. Several share a ZEO server (<zeoclient>)"
            elif name == "blob-dir":
                writes.append(f"{value}/")
            elif name == "form-disk-limit":
                longest_form = value
            elif name == "server" and section == "zeoclient":
                servers.append(value if ":" in value else f"localhost:{value}")
    max_body = None
    with suppress(ValueError):  # there is no limit, or it is not valid
        max_body = stock_datatypes["byte-size"](longest_form)
    return Facts(writes=writes, servers=servers, one_process=alone, max_body=max_body)


def expanded(text: str, defined: dict[str, str]) -> str:
    """Return a value with the definitions of its ``$name``."""
    return re.sub(r"\$\{?(\w+)\}?", lambda found: defined.get(found[1].lower(), found[0]), text.strip())
