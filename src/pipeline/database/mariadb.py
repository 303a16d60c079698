"""``mariadb://``: a ZODB in MariaDB, through RelStorage, whose own ``mysql://`` speaks to MySQL alone.

RelStorage treats MariaDB 10 as a MySQL newer than 8, and sends it statements that only MySQL understands. It works
if it is told that the server is like MySQL 5.7. This adapter does that. It also leaves out foreign keys that MySQL
ignores and MariaDB refuses. Everything else, with the options in the URI, is as for ``mysql://``::

    mariadb://user:password@host:3306/database?keep_history=false

zodburi finds it by its entry point.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any
from urllib.parse import SplitResult, unquote

from relstorage.adapters.connmanager import connection_callback
from relstorage.adapters.mysql import MySQLAdapter
from relstorage.adapters.mysql.connmanager import MySQLdbConnectionManager
from relstorage.adapters.mysql.schema import MySQLSchemaInstaller, MySQLVersionDetector
from relstorage.zodburi_resolver import MySQLAdapterHelper, RelStorageURIResolver
from ZODB.POSException import StorageError

log = logging.getLogger("pipeline.database")

LONGEST_CREATION = 60
"""Seconds that a process waits for another process that makes the tables."""
ON_GALERA = (
    "it is a Galera cluster of several nodes, and the locks of RelStorage hold on one node only",
    "Let all processes of all sites write by the same node, for example by a proxy that has the others as backup",
)


def nodes_of(cursor: Any) -> int:
    """Return the number of nodes of the cluster of Galera that a server is in; 0 without one."""
    cursor.execute("SHOW STATUS LIKE 'wsrep_cluster_size'")
    return max((int(size) for _, size in cursor.fetchall()), default=0)


class ConnectionManager(MySQLdbConnectionManager):  # type: ignore[misc]
    """Has each transaction on Galera see what other nodes have acknowledged. A node that was stopped is behind for
    a moment when it goes on. What is read then stays in the cache of the process."""

    def open(self, *arguments: Any, **options: Any) -> tuple[Any, Any]:
        connection, cursor = super().open(*arguments, **options)
        cursor.execute("SHOW VARIABLES LIKE 'wsrep_sync_wait'")
        for _, waits in cursor.fetchall():  # none where MariaDB was built without Galera
            cursor.execute(f"SET SESSION wsrep_sync_wait = {int(waits) | 1}")
        return connection, cursor


class VersionDetector(MySQLVersionDetector):  # type: ignore[misc]
    """The features of MariaDB, from 10.6 on, in terms of the versions of MySQL: its procedures are good, and the
    isolation is tx_isolation up to MariaDB 11.0. Its own version begins with 1, so that FOR SHARE is not used."""

    def get_version_info(self, cursor: Any) -> tuple[int, int, int]:
        return 5, 7, 19


class SchemaInstaller(MySQLSchemaInstaller):  # type: ignore[misc]
    """The tables of MySQL without the references. MySQL ignores them, and their types do not match."""

    CREATE_OBJECT_STATE_TMPLS = tuple(
        template.replace('REFERENCES "transaction"', "")
        for template in MySQLSchemaInstaller.CREATE_OBJECT_STATE_TMPLS
    )

    @connection_callback(inherit=MySQLSchemaInstaller._prepare_with_connection)  # type: ignore[untyped-decorator]
    def _prepare_with_connection(self, conn: Any, cursor: Any) -> None:
        """Make the tables. One process does it while the others wait.

        MariaDB commits each CREATE TABLE by itself, so a process that is killed leaves some of the tables. The rest
        is made, and the row that a commit locks, without which two would commit at once.
        """
        cursor.execute("SELECT GET_LOCK(CONCAT('relstorage schema ', DATABASE()), %s)", (LONGEST_CREATION,))
        if list(cursor.fetchall()) != [(1,)]:  # PyMySQL returns a tuple
            raise StorageError(f"another process has been making the tables for over {LONGEST_CREATION} seconds")
        try:
            if nodes_of(cursor) > 1:
                log.warning("the database of RelStorage: %s. %s", *ON_GALERA)
            super()._prepare_with_connection(conn, cursor)
            cursor.execute("SELECT 1 FROM commit_row_lock")
            if not cursor.fetchall():
                self._init_after_create(cursor)
            conn.commit()
        finally:
            cursor.execute("SELECT RELEASE_LOCK(CONCAT('relstorage schema ', DATABASE()))")
            cursor.fetchall()


class MariaDBAdapter(MySQLAdapter):  # type: ignore[misc]
    """RelStorage's adapter for MySQL, with the version detector and the tables of MariaDB."""

    def _create(self) -> None:
        self.version_detector: Any = self.version_detector or VersionDetector()
        self.connmanager: Any = self.connmanager or ConnectionManager(self.driver, self._params, self.options)
        super()._create()
        self.schema = SchemaInstaller(
            driver=self.driver,
            connmanager=self.connmanager,
            runner=self.runner,
            keep_history=self.keep_history,
            version_detector=self.version_detector,
        )


class _Helper(MySQLAdapterHelper):  # type: ignore[misc]
    """Makes the adapter of a parsed URI, as its base class does for MySQL."""

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
        # The driver of the extra "mysql". RelStorage would take others first, such as PyMySQL.
        unused = {"driver": "Py MySQL Connector/Python"} | unused
        return (lambda options: MariaDBAdapter(options, **settings)), unused


resolver = RelStorageURIResolver(_Helper())
