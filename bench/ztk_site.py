"""The site of tests/ztk/compared_site.py with a note three containers deep, for the benchmarks of ``ztk``."""

from __future__ import annotations

import sys
from pathlib import Path

import transaction
from ZODB.DB import DB

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from ztk.compared_site import Folder, Note, make_db

PATH = "/one/two/three/note"


def make(policy: bool = True, more: str = "") -> DB:
    """Configure the process, with more ZCML, and return the database of the site."""
    db = make_db(policy=policy, more=more)
    connection = db.open()
    folder = connection.root()["Application"]
    for name in ("one", "two", "three"):
        folder[name] = Folder()
        folder = folder[name]
    folder["note"] = Note()
    folder["note"].text = "A note, which is shown on a page. " * 20
    transaction.commit()
    connection.close()
    return db
