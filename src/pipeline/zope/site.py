"""A Zope site out of its zope.conf: products, ZCML and databases, loaded by Zope's own start, once a process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import Zope2
from Zope2.Startup.run import make_wsgi_app

from pipeline.interfaces import ConfigurationError
from pipeline.toolkit.site import load_once, loaded


def load(zope_conf: str, global_conf: Mapping[str, str] | None = None) -> Any:
    """Load a zope.conf and return its main database, as ``load_once`` does.

    global_conf  may have ``debug_mode`` and ``debug_exceptions``, as for ``egg:Zope#main``
    """

    def start(path: str) -> Any:
        make_wsgi_app(dict(global_conf or {}), path)
        return Zope2.DB

    return load_once(zope_conf, start)


def database() -> Any:
    """Return the main database of the site that was loaded: ``[filter:zodb] db = pipeline.zope:database``."""
    db = loaded() or getattr(Zope2, "DB", None)
    if db is None:
        raise ConfigurationError("no Zope site is loaded: give zope_publisher the option zope_conf")
    return db
