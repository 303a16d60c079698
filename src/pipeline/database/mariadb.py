"""``mariadb://``: a ZODB in MariaDB, through RelStorage, whose own ``mysql://`` speaks to MySQL alone.

RelStorage takes MariaDB 10 for a MySQL newer than 8 and sends it what only MySQL understands. Told
that it speaks to something like MySQL 5.7, it works: this adapter tells it, and leaves out foreign
keys that MySQL ignores and MariaDB refuses. Everything else, and the options in the URI, are those of
``mysql://``::

    mariadb://user:password@host:3306/database?keep_history=false

Found by zodburi through its entry points.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import SplitResult, unquote

from relstorage.adapters.mysql import MySQLAdapter
from relstorage.adapters.mysql.schema import MySQLSchemaInstaller, MySQLVersionDetector
from relstorage.zodburi_resolver import MySQLAdapterHelper, RelStorageURIResolver


class VersionDetector(MySQLVersionDetector):  # type: ignore[misc]
    """What MariaDB can do, from 10.6 on, in the words of MySQL's versions."""

    def supports_nowait(self, cursor: Any) -> bool:
        return False  # it has NOWAIT, but not FOR SHARE

    def supports_transaction_isolation(self, cursor: Any) -> bool:
        return False  # its name is tx_isolation up to MariaDB 11.0

    def supports_good_stored_procs(self, cursor: Any) -> bool:
        return True

    def requires_values_upsert_alias(self, cursor: Any) -> bool:
        return False


class SchemaInstaller(MySQLSchemaInstaller):  # type: ignore[misc]
    """The tables of MySQL without the references that it only parses; their types do not match."""

    CREATE_OBJECT_STATE_TMPLS = tuple(
        template.replace('REFERENCES "transaction"', "")
        for template in MySQLSchemaInstaller.CREATE_OBJECT_STATE_TMPLS
    )


class MariaDBAdapter(MySQLAdapter):  # type: ignore[misc]
    """RelStorage's adapter, told what it speaks to."""

    def __init__(self, options: Any = None, version_detector: Any = None, **arguments: Any) -> None:
        super().__init__(options, version_detector=version_detector or VersionDetector(), **arguments)

    def _create(self) -> None:
        super()._create()
        self.schema = SchemaInstaller(
            driver=self.driver,
            connmanager=self.connmanager,
            runner=self.runner,
            keep_history=self.keep_history,
            version_detector=self.version_detector,
        )


class _Helper(MySQLAdapterHelper):  # type: ignore[misc]
    """Makes the adapter of a parsed URI; as its base class, which has the class of the adapter built in."""

    def __call__(
        self, parsed: SplitResult, options: dict[str, str]
    ) -> tuple[Callable[[Any], MariaDBAdapter], dict[str, str]]:
        settings: dict[str, Any] = {
            "db": parsed.path[1:],
            "user": unquote(parsed.username or ""),
            "passwd": unquote(parsed.password or ""),
            "host": parsed.hostname,
            "port": parsed.port or 3306,
        }
        known, unused = self.interpret_kwargs(options)
        settings.update(known)
        return (lambda options: MariaDBAdapter(options, **settings)), unused


resolver = RelStorageURIResolver(_Helper())
