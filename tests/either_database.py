"""A small site that stands on a ZODB or on SQL, in a module ``working`` beside its ini: what its tests share."""

from __future__ import annotations

from pathlib import Path

from inis import ini_of

ROOTS = """
from persistent.mapping import PersistentMapping
from sqlalchemy import text
from pipeline import view
from pipeline.jobs import job

class Site(PersistentMapping):
    __parent__ = __name__ = None

def root(database):
    return database.setdefault("site", Site())

def no_database():
    return Site()
"""
"""The beginning of the module."""


def write_site(directory: Path, kind: str, place: str, views: str, **options: str) -> None:
    """Write the module, and the ini of the site.

    kind   the element of the database: zodb or sql
    place  the URI or URL of the database
    views  the rest of the module
    """
    order = ("retry", kind, "errors", "transaction", "forms", "traverse")
    of_kind = {
        "zodb": {"zodb": f"uri = {place}\nroot = working:root"},
        "sql": {"sql": f"url = {place}", "traverse": "root = working:no_database"},
    }
    (directory / "working.py").write_text(ROOTS + views)
    (directory / "site.ini").write_text(ini_of(order, "working", **options, **of_kind[kind]))
