"""``sql``: a SQLAlchemy session for each request, in the transaction of the request.

The session holds a connection only while a request uses it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from sqlalchemy.orm import Session

from pipeline.composition import Offers, element
from pipeline.database.places import servers_of, sqlite_file
from pipeline.database.refused_values import answer_for
from pipeline.database.replicas import Replicas
from pipeline.database.sql_databases import database_of
from pipeline.database.sql_jobs import InSql
from pipeline.database.transactions import OFFERED, DatabaseRequest, Manager, open_tm
from pipeline.database.written import NOTHING, Positions
from pipeline.interfaces import Facts, Handler
from pipeline.jobs import JobRequest
from pipeline.ranges import at_least
from pipeline.request import on_first_use


class SqlRequest(DatabaseRequest, JobRequest):
    """The attributes that ``sql`` adds to a request."""

    sql: Session = on_first_use(dropped=True)
    """The SQLAlchemy session of this request."""
    sql_primary: Session = on_first_use(dropped=True)
    """The same session, on the primary: for a page that must not be behind, with ``read_urls``."""
    _sql_positions: Positions = NOTHING
    """The position of the primary after the last commit of this request, with ``read_urls``."""

    def __positions__(self) -> Positions:
        return self._sql_positions


def _facts(*, url: str, read_urls: tuple[str, ...] = (), **options: Any) -> Facts:
    file = sqlite_file(url)
    return Facts(
        writes=() if file is None else (file,),
        servers=tuple(server for one in (url, *read_urls) for server in servers_of(one)),
        probe=lambda request: request.sql.connection(),
        may_be_behind=bool(read_urls),
    )


@element(
    adds=SqlRequest,
    provides=("database",),
    facts=_facts,
    inside={
        "retry": "every attempt needs a fresh connection state",
        "zodb": "its session joins the transaction of the ZODB connection",
    },
    outside={"errors": "error views may read the database"},
    with_option={"read_urls": ("written", "attempts")},
)
def sql(
    next: Handler,
    *,
    url: str,
    read_urls: tuple[str, ...] = (),
    max_lag: float = 30.0,
    pool_size: int | None = None,
    max_overflow: int | None = None,
    pool_timeout: float | None = None,
    pool_recycle: int | None = None,
    pool_pre_ping: bool = True,
    isolation_level: str | None = None,
    twophase: bool = False,
    statement_timeout: float | None = None,
    lock_timeout: float | None = None,
    hide_parameters: bool = True,
    driver_connection: bool = False,
) -> Offers:
    """Provide an SQLAlchemy session.

    url                URL of the database for SQLAlchemy: sqlite:///path, postgresql://... It may name several
                       hosts: mysql+pymysql://user@/name?host=db1:3306&host=db2:3306
    read_urls          URLs of replicas, of PostgreSQL or MariaDB: GET and HEAD read from one that has what the
                       visitor has written, as ``causal`` knows. See below; default none
    max_lag            seconds by which a replica may be behind its primary before it is left out: half of
                       ``max_age`` of ``causal``, after which a visitor is not told from others; default 30
    pool_size          upper limit of the connections that are kept open: as many as a server has threads; default 8
    max_overflow       further connections that are opened if they are needed at the same time; default 10
    pool_timeout       seconds that a request waits for a connection, before it is a 503; default 30
    pool_recycle       age in seconds at which a connection is replaced before its next use; default never
    pool_pre_ping      whether a connection to a server is tested before a request gets it, and replaced if it is
                       dead; default true
    isolation_level    isolation level, such as SERIALIZABLE; default the database's own
    twophase           whether to commit in two phases, with another database beside this one. Both commit or
                       neither does, unless one is lost after all have voted. Then the answer says so (R4), and the
                       prepared transaction of the other waits until an operator decides: the log names it when
                       the next process connects; default false
    statement_timeout  seconds that a statement may take, on PostgreSQL and MariaDB. After this time the request is
                       a 503 and is not tried again; default the database's own, usually unlimited
    lock_timeout       seconds that a statement may wait for a lock, on PostgreSQL, MariaDB (whole seconds) and
                       SQLite. After this time the request is tried again; default the database's own: no limit on
                       PostgreSQL, 50 on MariaDB, 5 on SQLite
    hide_parameters    whether the values of the parameters of a failed statement, which visitors have sent, stay
                       out of the log and of error pages (S25); default true
    driver_connection  whether views may take the driver's connection: ``request.sql.connection().connection``. What
                       they do there is not seen. So such a request is not tried again (R2a), and its connection is
                       closed; default false: it is an error

    Provides ``request.sql``, opened on first use and joined to ``request.tm`` by zope.sqlalchemy. The database can
    only be changed inside ``transaction``, which commits all changes of the session. Elsewhere, and in a streamed
    body, the session reads one state of the database (R8). The session and its connection raise if they are used
    outside of their request, its transactions and its process (R13).

    With ``read_urls`` the first attempt at a request with a safe method reads from the replicas in turn, each with
    connections of its own. A replica that does not answer, or is behind what the visitor has written, is left out;
    if all are, the primary is read. A write, and ``request.sql_primary``, have the request tried again on the
    primary. The pages of others may be as old as the replica is behind.

    Refuses, at load, an invalid URL, AUTOCOMMIT, a driver that does not tell whether a transaction is open,
    ``twophase`` for a database without two-phase commit, a time-out that the database does not support, and
    ``read_urls`` without ``causal`` and ``retry``. A
    database that cannot be reached is a 503 with ``Retry-After``.
    """
    settings = {
        "pool_size": pool_size,
        "max_overflow": max_overflow,
        "pool_timeout": pool_timeout,
        "pool_recycle": pool_recycle,
        "pool_pre_ping": pool_pre_ping,
        "isolation_level": isolation_level,
        "hide_parameters": hide_parameters,
        "driver_connection": driver_connection,
    }
    at_least(0, max_lag=max_lag, pool_size=pool_size, pool_timeout=pool_timeout)
    at_least(-1, max_overflow=max_overflow, pool_recycle=pool_recycle)  # -1: no limit, as SQLAlchemy has it
    given = {name: value for name, value in settings.items() if value is not None}
    time_limits = {"statement_timeout": statement_timeout, "lock_timeout": lock_timeout}
    database = database_of(url, twophase, given, time_limits)
    open_session = open_primary = database.open_session
    if read_urls:
        given["pool_pre_ping"] = False  # an attempt that finds a dead connection is followed by one on the primary
        others = [database_of(one, False, given, time_limits) for one in read_urls]
        replicas = Replicas(database, others, max_lag)
        open_session, open_primary = replicas.open_session, replicas.open_primary
    sessions = {"sql": open_session, "sql_primary": open_primary, "job_queue": lambda request: InSql(request.sql)}
    return Offers(next, tm=partial(open_tm, Manager), **sessions, answer_for=answer_for, **OFFERED)
