"""The replicas of an SQL database. A request that only asks reads from one that has what the visitor wrote.

A replica is behind its primary by the time that changes take to arrive. The element ``causal`` keeps the position
of the visitor's last commit (of PostgreSQL, its place in the write-ahead log; of MariaDB, the number of its GTID),
and the replica is asked for its own before the transaction begins: afterwards it may be ahead of what the
transaction sees.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from itertools import count
from math import inf
from threading import Event, Lock, Thread, Timer
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from pipeline.database import forks
from pipeline.database.sql_databases import Database
from pipeline.database.sql_dialects import LINE
from pipeline.database.sql_drivers import ask, hang_up
from pipeline.database.sql_sessions import Bound
from pipeline.interfaces import ConfigurationError, Unavailable
from pipeline.request import SAFE_METHODS

PAUSE = 0.5
"""Seconds between two looks at a replica."""
SILENT = 3.0
"""Seconds after which a replica that does not answer is left out. The requests that wait for it are tried again."""
MOST_DOUBTED = 1_000
"""Positions that visitors told and the primary was not at."""
REPLAYED = "pipeline.sql.replayed"
"""The key in the ``info`` of a connection for the position that its server is known to have."""


def has(replayed: int, needed: int) -> bool:
    """Return whether a replica at one position has another one. One that has what a promoted replica lacks is at
    the places that this one comes to with other commits."""
    return not needed or (replayed >> LINE == needed >> LINE and replayed >= needed)


class Replica:
    """One replica. A thread looks every half second whether it answers, so that no request waits for it."""

    def __init__(self, database: Database) -> None:
        self.database = database
        database.replica = self
        database.outage.meanwhile = database.refusals.meanwhile = "requests read elsewhere"
        self.query = database.dialect.replayed
        self.engine = watching_engine(database)
        """For the thread alone: it must not wait until a request gives back a connection."""
        self.watching: Any = None
        """The driver's connection of the thread."""
        self.primary: Any = None
        """An engine for what asks the primary."""
        self.max_lag = inf
        self.noted: deque[tuple[float, int]] = deque()
        """The positions of the primary of late, each with its time. One at most is older than ``max_lag``."""
        self.asked = Event()
        """Set when the primary has told its position, or cannot be reached, since its thread was started."""
        self.answered = -inf
        """When the replica answered last, in the time of ``time.monotonic``."""
        self.watch: object = None
        """Stands for the threads that look at the servers now, or None."""
        self.lock = Lock()

    def is_up(self) -> bool:
        """Return whether the replica has answered of late."""
        if time.monotonic() - self.answered < SILENT:
            return True
        with self.lock:
            if self.watch is None:
                self.asked, self.watch = Event(), object()
                # Two threads: a primary that hangs must not make the replica seem silent.
                try:
                    for name, look in (("replica", self.look), ("primary", self.look_at_primary)):
                        arguments = self.watch, look
                        Thread(None, self.run, f"pipeline.sql.{name}", arguments, daemon=True).start()
                except RuntimeError as error:  # the system gives no thread now; a later request tries again
                    self.leave_out(error)
                    self.watch = None
        return False

    def run(self, watch: object, look: Callable[[Connection | None], Connection | None]) -> None:
        """Look at a server until ``stop`` is called."""
        connection = None
        while self.watch is watch:
            connection = look(connection)
            time.sleep(PAUSE)
        if connection is not None:
            connection.close()

    def look_at_primary(self, connection: Connection | None) -> Connection | None:
        """Note the position of the primary. Without an answer nothing is noted."""
        try:
            connection = connection or self.primary.connect()
            now = time.monotonic()
            position = self.ask(connection.connection.driver_connection, self.database.dialect.position)
            self.noted.append((now, position))
        except Exception:  # the requests that write say so
            if connection is not None:
                connection.invalidate()
            connection = None
        self.asked.set()
        return connection

    def look(self, connection: Connection | None) -> Connection | None:
        """Ask the replica for its position. Return the connection for the next time, or None if it is lost."""
        self.asked.wait(SILENT)
        needed = self.needed(time.monotonic() - self.max_lag)
        alarm = Timer(SILENT, self.cut)
        alarm.daemon = True
        try:
            alarm.start()
            if connection is None:
                connection = self.engine.connect()
                self.watching = connection.connection.driver_connection
            position = self.ask(self.watching, self.query)
            if not has(position + self.database.dialect.slack, needed):
                raise RuntimeError(f"it may be more than {self.max_lag:g} seconds behind its primary (max_lag)")
        except Exception as error:
            self.leave_out(error)
            if connection is not None:
                connection.invalidate()
            return None
        finally:
            alarm.cancel()
        self.answered = time.monotonic()
        self.database.outage.end()
        return connection

    def ask(self, connection: Any, query: str) -> int:
        """Return a position. Raise an error if the server does not tell any."""
        if (position := ask(self.database.driver, connection, query)) is None:
            raise RuntimeError("not a replica, not read_only, or several GTID domains (MariaDB)")
        return int(position)

    def needed(self, since: float) -> int:
        """Return the position that the replica must have, to show all that was stored before a time."""
        while len(self.noted) > 1 and self.noted[1][0] <= since:
            self.noted.popleft()
        return self.noted[0][1] if self.noted else 0

    def cut(self) -> None:
        """Cut the connections to a silent replica: requests that wait for it are tried again."""
        self.leave_out(TimeoutError(f"no answer for {SILENT:g} seconds"))
        for connection in (self.watching, *self.database.connections_in_use()):
            hang_up(self.database.driver, connection)

    def leave_out(self, error: BaseException) -> None:
        self.answered = -inf
        if self.watch is not None:
            self.database.outage.begin(error, "cannot be read as a replica")

    def stop(self) -> None:
        """Stop looking, until a request needs the replica."""
        self.watch, self.answered = None, -inf

    def connect(self, position: int) -> Connection | None:
        """Return a connection to the replica, or None if it cannot be reached or does not have the position yet."""
        if not self.is_up():
            return None
        try:
            connection = self.database.engine.connect()
        except Unavailable as error:
            if isinstance(error.__cause__, PoolTimeout):  # all its connections are in use
                raise
            self.answered = -inf
            return None
        try:
            if not has(connection.info.get(REPLAYED, 0), position):
                connection.info[REPLAYED] = self.ask(connection.connection.driver_connection, self.query)
            if has(connection.info.get(REPLAYED, 0), position):
                return connection
        except Exception:  # it was lost this very moment
            connection.invalidate()
        connection.close()
        return None

    def forget(self) -> None:
        """Leave the thread and its connection to the parent process (R12)."""
        forks.keep(self.watching, self.engine.pool, self.primary and self.primary.pool)
        self.lock, self.watching = Lock(), None
        self.stop()


def watching_engine(database: Database) -> Engine:
    engine = create_engine(database.engine.url, poolclass=NullPool, connect_args=database.connect_args)
    event.listen(engine, "do_connect", database.connect)
    return engine


class Replicas:
    """A primary with its replicas. It opens the session of each request, on one or the other."""

    def __init__(self, primary: Database, replicas: list[Database], max_lag: float) -> None:
        for database in (primary, *replicas):
            if not database.dialect.replayed or database.driver.fileno is None:
                who = f"{database.engine.dialect.name}+{database.engine.dialect.driver}"
                raise ConfigurationError(
                    f"sql: option 'read_urls': {who} does not tell how far a replica is, or waits for ever for one "
                    f"that hangs. Use a driver of PostgreSQL, or pymysql"
                )
        primary.tells = True
        self.primary = primary
        self.replicas = [database.replica or Replica(database) for database in replicas]
        for replica in self.replicas:
            replica.primary = watching_engine(primary)
            replica.max_lag = min(replica.max_lag, max_lag)
        self.turns = count()
        self.doubted: dict[int, float] = {}
        """When a visitor first told each position that the primary was not at when it was asked last."""

    def open_session(self, request: Any) -> Session:
        """Open a session. The first attempt at a request with a safe method reads from a replica if one has all."""
        forks.check()
        tm = request.tm
        asks = request.environ["REQUEST_METHOD"] in SAFE_METHODS
        if asks and request.attempt == 1 and self.primary not in tm.kept:
            first = next(self.turns)
            told = request.written.get(self.primary.short_name, 0)
            if (position := self.needed(told)) != told:
                request.written = {**request.written, self.primary.short_name: position}
            for number in range(len(self.replicas)):
                replica = self.replicas[(first + number) % len(self.replicas)]
                connection = replica.connect(position)
                if connection is not None:
                    tm.kept[self.primary] = Bound(replica.database, tm, self.primary, connection)
                    break
        return self.primary.open_session(request)

    def needed(self, told: int) -> int:
        """Return the position that a replica must have. If the primary was not where a visitor told when it was
        asked afterwards, as it was restored or replaced, or the place is not known, it is asked where it is now:
        another commit may have come to the same place since (R15)."""
        noted, reached = max((one.noted[-1] for one in self.replicas if one.noted), default=(0.0, told))
        if told > reached:
            if len(self.doubted) >= MOST_DOUBTED:  # most do not tell theirs again. The others read the primary
                self.doubted.clear()
            if self.doubted.setdefault(told, time.monotonic()) >= noted:
                return told
            try:
                return min(told, self.ask_primary())
            except Exception:  # the request that reads the primary says so
                return told
        self.doubted.pop(told, None)
        return told

    def ask_primary(self) -> int:
        """Return where the primary is now."""
        with self.replicas[0].primary.connect() as connection:
            position = self.primary.dialect.position
            return self.replicas[0].ask(connection.connection.driver_connection, position)

    def open_primary(self, request: Any) -> Session:
        """Open a session on the primary. If the request has begun on a replica, it is tried again."""
        bound = request.tm.kept.get(self.primary)
        if bound is not None and bound.on_replica is not None:
            raise bound.need_primary("request.sql_primary")
        return self.primary.open_session(request)
