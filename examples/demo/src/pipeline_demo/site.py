"""The site in its database. It is made on first use.

etc/deploy.ini names the function ``root``. The first request makes the site within its transaction. So a failure
leaves nothing behind. If two processes start on an empty database at once, one of them has a conflict, tries again,
and finds the site of the other. The password is shown once, on a terminal, when the site is certainly stored. A log
has other readers, so without a terminal the password is in a file beside the database, for its owner alone (S25).
"""

from __future__ import annotations

import argparse
import logging
import os
import secrets
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

from transaction import TransactionManager
from zc.lockfile import LockError  # type: ignore[import-untyped, unused-ignore]

from pipeline.database.places import loggable_uri, without_secrets
from pipeline.database.storages import database_at
from pipeline_demo.filing import NotImported, file_into, find, printable
from pipeline_demo.models import Counter, Document, Site
from pipeline_demo.users import ADMIN, first_password, set_password

log = logging.getLogger("pipeline_demo")

KEY = "site"
"""The key of the site in the root of the database."""
DEFAULT_URI = "file://var/Data.fs?blobstorage_dir=var/blobs"


def root(mapping: Any) -> Site:
    """Return the site in the root mapping of a database. Make a missing site in the current transaction."""
    site: Site | None = mapping.get(KEY)
    if site is None:
        site = _make(mapping)
    return site


def create(uri: str) -> bool:
    """Make the site in the database at ``uri``, and show its password. Return False if it exists already."""
    made = False
    with connected(uri) as connection:
        for attempt in connection.transaction_manager.attempts(5):
            with attempt:
                made = KEY not in connection.root()
                root(connection.root())
    return made


class Unreachable(Exception):
    """A database that cannot be opened, with the reason in words."""


@contextmanager
def connected(uri: str) -> Iterator[Any]:
    """Open a connection to the database at ``uri``, with a transaction manager of its own.

    The directory of a file is made. Raises Unreachable if the database cannot be opened.
    """
    try:
        if uri.startswith("file://"):
            path = Path(uri.removeprefix("file://").partition("?")[0])
            path.parent.mkdir(parents=True, exist_ok=True)
        db = database_at(uri)
    except LockError as error:
        raise Unreachable(f"{loggable_uri(uri)} is in use: please stop the server that serves it") from error
    except Exception as error:  # each kind of storage has errors of its own
        raise Unreachable(f"{loggable_uri(uri)} cannot be opened: {without_secrets(str(error), uri)}") from error
    try:
        connection = db.open(transaction_manager=TransactionManager())
        try:
            yield connection
        finally:
            connection.transaction_manager.abort()
            connection.close()
    finally:
        db.close()


def main(argv: Sequence[str] | None = None) -> int:
    """``python -m pipeline_demo.site [URI]``: make the site."""
    parser = argparse.ArgumentParser(
        prog="pipeline demo-setup", description="Make the site in its database, and show the first password."
    )
    parser.add_argument("uri", nargs="?", default=DEFAULT_URI, help="the database (default: %(default)s)")
    arguments = parser.parse_args(argv)
    try:
        if not create(arguments.uri):
            print(f"{loggable_uri(arguments.uri)}: the site is there already")
    except Unreachable as error:
        print(f"pipeline demo-setup: {error}", file=sys.stderr)
        return 1
    return 0


def _make(mapping: Any) -> Site:
    connection = mapping._p_jar
    site = Site("Documents", secrets.token_bytes(32))
    mapping[KEY] = site
    connection.add(site)  # so that files find out whether this database has blobs
    password = _new_password(site)
    site["index.md"] = Document("Welcome", (files("pipeline_demo") / "static" / "welcome.md").read_text("utf-8"))
    site["counter"] = Counter("Counter")
    if (docs := documentation()) is not None:
        for found in find(docs):
            try:
                file_into(site, found.below("docs"))
            except NotImported as refused:
                log.info("not imported: %s: %s", printable(str(found.path)), refused)
    # The hook is told whether the commit succeeded: a password that is not stored must not be shown.
    connection.transaction_manager.get().addAfterCommitHook(_show, (password, first_password(site)))
    return site


def documentation() -> Path | None:
    """Return the directory of the project's documentation, in the package or in a checkout."""
    package = Path(__file__).resolve().parent
    for place in (package / "docs", package.parents[3] / "docs"):
        if place.is_dir():
            return place
    return None


def _new_password(site: Site) -> str:
    password = secrets.token_urlsafe(12)
    set_password(site, ADMIN, password)
    return password


def _show(stored: bool, password: str, file: Path | None) -> None:
    if not stored:
        return
    text = f"      login:     {ADMIN}\n      password:  {password}\n\n"
    once = "  The password is shown this once only: please keep it. If it is lost,\n"
    if not sys.stderr.isatty():
        text = once = ""
        if file is not None:
            file.unlink(missing_ok=True)
            with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as new:
                new.write(f"{password}\n")
            text = f"      login:     {ADMIN}\n      password:  in {file}, until the first login\n\n"
    line = "-" * 64
    print(
        f"\n{line}\n  The site was made. To change it, log in with\n\n{text}{once}"
        f"  `pipeline demo-user INI {ADMIN}`, with your ini, sets another password.\n{line}\n",
        file=sys.stderr,
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
