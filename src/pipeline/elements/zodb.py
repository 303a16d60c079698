"""``zodb``: an object database, opened by the first request that uses it.

Its connections stay open between requests (``pipeline.database.zodb_pools``).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ZODB.Connection import Connection

from pipeline.composition import Offers, element
from pipeline.database.places import OF_ZODB, facts_of_uris, scheme_of
from pipeline.database.pools import close_all as close_all
from pipeline.database.transactions import OFFERED, Manager
from pipeline.database.zodb_pools import PooledConnection, PooledRequest, pool_of, pool_of_given
from pipeline.declared import takes
from pipeline.interfaces import ConfigurationError, Handler
from pipeline.jobs import JobRequest
from pipeline.options import on_demand, resolve
from pipeline.ranges import at_least
from pipeline.request import on_first_use

if TYPE_CHECKING:
    from pipeline.database.zodb_jobs import InZodb
else:  # for cost alone: few sites have jobs
    InZodb = on_demand("pipeline.database.zodb_jobs:InZodb")


class ZodbRequest(PooledRequest, JobRequest):
    """The attributes that ``zodb`` adds to a request."""

    zodb: Connection = on_first_use(dropped=True)
    """The ZODB connection of this request. ``zodb.get_connection(name)`` returns one to another named database."""


@element(
    adds=ZodbRequest,
    provides=("root", "database", "zodb_connection"),
    facts=lambda *, uri, databases, **options: facts_of_uris((uri, *(databases or {}).values()), ask_server),
    inside={"retry": "every attempt needs a fresh connection state"},
    outside={"errors": "error views may read the database"},
)
def zodb(
    next: Handler,
    *,
    uri: str = "",
    db: Any = None,
    zope_conf: str | None = None,
    root: str | Callable[[Any], Any] = "",
    databases: dict[str, str] | None = None,
    manager: type[Manager] = Manager,
    cache_size: int | None = None,
    cache_size_bytes: int | None = None,
    pool_size: int | None = None,
    pool_timeout: float | None = None,
    max_connections: int | None = None,
    connection_wait: float = 5.0,
    server_sync: bool = False,
    lock_timeout: int | None = None,
    statement_timeout: float | None = None,
) -> Offers:
    """Provide the root of a ZODB, and other databases beside it.

    uri                URI of the storage for zodburi: file://, memory://, zeo://, and through RelStorage sqlite://,
                       postgres://, mysql://
    db                 a database that the application has opened, in the place of ``uri``; or a function that
                       returns it. The application closes it. Of the options below it takes ``root``, ``manager``,
                       ``max_connections`` and ``connection_wait``
    zope_conf          the zope.conf that ``db`` loads, which is pipeline.zope:database or pipeline.ztk:database. It
                       is needed where views stand in a pipeline without the publisher of that site
    root               place of the application's root in the database: keys separated by slashes, or a callable
                       (in an ini its dotted name, package.module:callable) that takes the root of the database
    databases          more databases, one line "name = uri" for each
    manager            class of the transaction managers, in an ini its dotted name; default
                       pipeline.database.transactions:Manager
    cache_size         objects that each connection keeps in memory; default 10000
    cache_size_bytes   estimated bytes of the objects that each connection keeps in memory; default no limit
    pool_size          upper limit of the connections that are kept open between requests. More are opened if they
                       are needed at the same time, and closed afterwards; default 16
    pool_timeout       seconds after which an unused connection is closed; default never
    max_connections    upper limit of the connections that are open at the same time; default no limit
    connection_wait    seconds that a request waits for one of ``max_connections``, before it is a 503; default 5
    server_sync        ZEO: whether each transaction first asks the server for the commits of other processes, which
                       takes a round trip. Without it a request may not see a change that another process has just
                       acknowledged; default false
    lock_timeout       RelStorage: whole seconds that a commit waits for locks, before the request is tried again;
                       default 30
    statement_timeout  RelStorage on PostgreSQL, MySQL and MariaDB: seconds after which the server ends a statement,
                       and the request is tried again; default the server's own

    ``cache_size`` to ``pool_timeout`` may also stand in the URI (connection_cache_size=...). Provides
    ``request.root``, ``request.zodb`` (the connection; ``.get_connection(name)`` returns one to another database)
    and ``request.tm``, all opened on first use. The database can only be changed inside ``transaction``.

    Refuses, at load, an invalid URI, and a database that would be opened twice. A database that cannot be reached
    is a 503 with ``Retry-After``. A database whose file is damaged is a 500.
    """
    settings = {
        "cache_size": cache_size,
        "cache_size_bytes": cache_size_bytes,
        "pool_size": pool_size,
        "pool_timeout": pool_timeout,
        "max_connections": max_connections,
        "connection_wait": None if max_connections is None else connection_wait,
        "server_sync": server_sync or None,
        "lock_timeout": lock_timeout,
        "statement_timeout": statement_timeout,
    }
    at_least(1, max_connections=max_connections)
    at_least(0, **settings | {"connection_wait": connection_wait})
    given = {name: value for name, value in settings.items() if value is not None}
    with suppress(FileNotFoundError):  # for new blobs: it is found by opening files, so not when there are too many
        tempfile.gettempdir()
    if (db is None) == (not uri):
        raise ConfigurationError("zodb: give one of the options uri and db")
    if zope_conf is not None and not callable(db):
        raise ConfigurationError("zodb: zope_conf needs db = pipeline.zope:database, or db = pipeline.ztk:database")
    if db is None:
        pool = pool_of(uri, databases or {}, given, manager)
    else:
        conf = () if zope_conf is None else (zope_conf,)
        pool = pool_of_given(db(*conf) if callable(db) else db, databases, given, manager)
    changes = pool.changes if db is not None or scheme_of(uri) in OF_ZODB else None
    return Offers(next, **_openers(pool.use, _finder(root)), **OFFERED, zodb_changes=changes)


def _openers(
    use: Callable[[ZodbRequest], PooledConnection], find_root: Callable[[Any], Any] | None
) -> dict[str, Callable[[ZodbRequest], Any]]:
    """Return the functions that make ``request.tm``, ``zodb``, ``job_queue`` and ``root``."""

    def open_root(request: ZodbRequest) -> Any:
        pooled = use(request)
        if find_root is None:
            return pooled.root
        found = find_root(pooled.root)
        if getattr(found, "_p_jar", pooled) is None:  # it is new, and an abort makes it invalid
            pooled.tm.get().addAfterAbortHook(request.__dict__.pop, ("root", None))
        return found

    return {
        "tm": lambda request: use(request).tm,
        "zodb": lambda request: use(request).connection,
        "job_queue": lambda request: InZodb(request.zodb),
        "root": open_root,
    }


def ask_server(request: ZodbRequest) -> None:
    """Ask the server of the database. The client of ZEO would answer from its cache."""
    getattr(request.zodb.db().storage, "server_status", bool)()


def _finder(root: str | Callable[[Any], Any]) -> Callable[[Any], Any] | None:
    """Return the function that finds the root of the application, given that of the database; None if they are the
    same."""
    if callable(root):
        return root
    if ":" in root:
        try:
            found: Callable[[Any], Any] = resolve(root)
        except ValueError as error:
            raise ConfigurationError(f"zodb: option 'root': {error}") from error
        if not takes(1, found):
            raise ConfigurationError(f"zodb: option 'root': {root} cannot be called with the root of the database")
        return found
    keys = [key for key in root.split("/") if key]
    if not keys:
        return None

    def walk(mapping: Any) -> Any:
        for key in keys:
            try:
                mapping = mapping[key]
            except KeyError:
                raise RuntimeError(f"zodb: root = {root}, but there is no {key!r} in the database") from None
        return mapping

    return walk
