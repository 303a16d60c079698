"""A Zope site out of its zope.conf: products, ZCML and databases, loaded by Zope's own start, once a process."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import Zope2
from zc.lockfile import LockError
from Zope2.Startup.run import make_wsgi_app

from pipeline.interfaces import ConfigurationError
from pipeline.toolkit.site import facts_of, load_once, loaded, need


def load(zope_conf: str, global_conf: Mapping[str, str] | None = None) -> Any:
    """Load a zope.conf and return its main database, as ``load_once`` does.

    global_conf  may have ``debug_mode`` and ``debug_exceptions``, as for ``egg:Zope#main``
    """

    def start(path: str) -> Any:
        try:
            make_wsgi_app(dict(global_conf or {}), path)
        except LockError as error:
            raise ConfigurationError(
                f"{path}: {error}: another process has the database open, such as the instance itself. Stop it "
                "first, or ask a copy of the site; several processes share a ZEO server (<zeoclient>)"
            ) from error
        return Zope2.DB

    return load_once(zope_conf, start)


def database(zope_conf: str | None = None) -> Any:
    """Return the main database of the site: ``[filter:zodb] db = pipeline.zope:database``.

    zope_conf  the zope.conf of the site, which is loaded; default is the site that was loaded already
    """
    if zope_conf is not None:
        return load(zope_conf)
    return need(loaded() or getattr(Zope2, "DB", None), "zope_publisher")


site_facts = partial(facts_of, longest_form="1GB")
"""Returns what an operator must know of a site, with the limit of forms that Zope has if its zope.conf has none."""
