"""The databases of a site: classes of stored objects that are gone, and tables that migrations have not reached."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import Any

from pipeline.options import resolve
from pipeline.telling.findings import Finding, of_error

SECONDS = 60.0
"""Seconds for which the objects of a database are read."""


def of_stored(request: Any, directory: Path) -> Iterator[Finding]:
    """Yield what is wrong with the databases that a request of the site can use.

    directory  that of the ini, where ``alembic.ini`` is looked for
    """
    connection = session = None
    with suppress(AttributeError):  # no element offers an object database
        connection = request.zodb
    with suppress(AttributeError):  # no element offers tables
        session = request.sql
    if connection is not None:
        for name, database in connection.db().databases.items():
            yield from of_classes(name, database)
            yield from of_galera(name, database)
    if session is not None:
        yield from of_cluster(session.connection())
    if session is not None and (directory / "alembic.ini").exists() and find_spec("alembic"):
        yield from of_migrations(session, directory / "alembic.ini")


def of_classes(name: str, database: Any) -> Iterator[Finding]:
    """Yield the classes of the objects of a ZODB that cannot be imported: pages that read such an object fail."""
    broken: Any = resolve("ZODB.broken:Broken")
    where = f"the database {name or database.storage.sortKey()}"
    counts, is_whole = classes_in(database.storage)
    for (module, cls), (count, oid) in sorted(counts.items()):
        found = database.classFactory(None, module, cls)
        if isinstance(found, type) and issubclass(found, broken):
            objects = f"{count} stored object{'s' * (count != 1)}"
            yield Finding.of("class that is gone", where, name=f"{module}.{cls}", objects=objects, first=oid)
    if not is_whole:
        what = f"only {sum(count for count, _ in counts.values())} objects were read, in {SECONDS:.0f} seconds"
        yield Finding("note", where, what, "")


def classes_in(storage: Any) -> tuple[dict[tuple[str, str], tuple[int, str]], bool]:
    """Return the number of the objects of each class, with the id of the first one, and whether all were read."""
    class_of: Any = resolve("ZODB.utils:get_pickle_metadata")
    shown: Any = resolve("ZODB.utils:oid_repr")
    found: dict[tuple[str, str], tuple[int, str]] = {}
    end = monotonic() + SECONDS
    following: Any = None
    read = getattr(storage, "record_iternext", None)
    while read is not None and monotonic() < end:
        oid, _, data, following = read(following)
        cls = class_of(data)
        count, first = found.get(cls, (0, shown(oid)))
        found[cls] = count + 1, first
        if following is None:
            return found, True
    return found, False


def of_galera(name: str, database: Any) -> Iterator[Finding]:
    """Yield that a ZODB is in a cluster of Galera, where the locks of RelStorage are not those of all nodes."""
    adapter: Any = getattr(database.storage, "_adapter", None)
    if type(adapter).__name__ == "MariaDBAdapter":
        connection, cursor = adapter.connmanager.open()
        try:
            if resolve("pipeline.database.mariadb:nodes_of")(cursor) > 1:
                where = f"the database {name or database.storage.sortKey()}"
                yield Finding("warning", where, *resolve("pipeline.database.mariadb:ON_GALERA"))
        finally:
            adapter.connmanager.close(connection, cursor)


def of_cluster(connection: Any) -> Iterator[Finding]:
    """Yield what the servers of an SQL database do not guarantee, though it may seem that they do."""
    dialect, query = connection.dialect.name, connection.engine.url.query
    where = f"the database {connection.engine.url.render_as_string().partition('?')[0]}"
    if dialect == "postgresql":
        if isinstance(query.get("host"), tuple) or "," in str(query.get("host", "")):
            yield Finding.of("several hosts", where)
        waits, replicas = (
            connection.exec_driver_sql(question).scalar()
            for question in ("SHOW synchronous_standby_names", "SELECT count(*) FROM pg_stat_replication")
        )
        if replicas and not waits:
            yield Finding.of("asynchronous replicas", where)
    elif dialect in ("mysql", "mariadb") and connection.get_isolation_level() == "SERIALIZABLE":
        sizes = connection.exec_driver_sql("SHOW STATUS LIKE 'wsrep_cluster_size'").all()
        if any(int(size) > 1 for _, size in sizes):
            yield Finding.of("SERIALIZABLE on Galera", where)


def of_migrations(session: Any, file: Path) -> Iterator[Finding]:
    """Yield that the tables are not at the last step of alembic."""
    config = resolve("alembic.config:Config")(file)
    try:
        heads = set(resolve("alembic.script:ScriptDirectory").from_config(config).get_heads())
    except Exception as error:  # the file, or a module of a step, cannot be read
        yield of_error(error, str(file))
        return
    context = resolve("alembic.migration:MigrationContext").configure(session.connection())
    current = set(context.get_current_heads())
    if current != heads:
        tables, code = (", ".join(sorted(revisions)) or "no revision" for revisions in (current, heads))
        yield Finding.of("migrations", str(file), tables=tables, code=code)
