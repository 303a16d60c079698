"""RelStorage on PostgreSQL with the options of libpq, such as several hosts. ``storages`` finds it."""

from __future__ import annotations

from typing import Any
from urllib.parse import SplitResult

from relstorage.zodburi_resolver import PostgreSQLAdapterHelper, RelStorageURIResolver

from pipeline.database.sql_drivers import LIBPQ


class _Helper(PostgreSQLAdapterHelper):  # type: ignore[misc]
    """Makes the adapter of a parsed URI, as its base class does. Of two values libpq takes the later one."""

    _string_args = (
        *("ssl_mode", "sslmode", "sslrootcert", "sslcert", "sslkey", "host", "port", "target_session_attrs"),
        *("application_name", "options", "keepalives", *(name for name, _ in LIBPQ if name != "connect_timeout")),
    )

    def __call__(self, parsed: SplitResult, options: dict[str, str]) -> Any:
        return super().__call__(parsed, {**{name: str(value) for name, value in LIBPQ}, **options})


resolver = RelStorageURIResolver(_Helper())
