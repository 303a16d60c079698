"""A Zope site out of its zope.conf: ZCML, products and databases, loaded by Zope's own packages, once a process."""

from __future__ import annotations

from typing import Any

import zope.app.wsgi
from zope.event import notify
from zope.processlifetime import ProcessStarting

from pipeline.toolkit.site import load_once, loaded, need


def load(zope_conf: str) -> Any:
    """Load a zope.conf and return its main database, as ``load_once`` does."""
    return load_once(zope_conf, _load)


def _load(path: str) -> Any:
    db = zope.app.wsgi.config(path)
    notify(ProcessStarting())
    return db


def database(zope_conf: str | None = None) -> Any:
    """Return the main database of the site: ``[filter:zodb] db = pipeline.ztk:database``.

    zope_conf  the zope.conf of the site, which is loaded; default is the site that was loaded already
    """
    return need(loaded(), "ztk_publisher") if zope_conf is None else load(zope_conf)
