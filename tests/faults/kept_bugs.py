"""The bugs that ``keep`` must not have, put back one by one: each takes a function that sets an attribute."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ZODB.mvccadapter import MVCCAdapter

from faults import kept as site
from pipeline.database.changes import Changes, Reads
from pipeline.database.kept import Pages
from pipeline.elements import keep
from pipeline.http.noting import Noting

Set = Callable[[Any, str, Any], object]


def tell_slowly(set: Set) -> None:
    """Widen the time in which some instances of a storage know of a commit and others do not. This is not a bug."""

    def invalidate(self: Any, tid: bytes, oids: Any, committing: Any = None) -> None:
        with self._lock:
            for instance in list(self._instances):
                if instance is not committing:
                    instance._invalidate(tid, oids)
                    time.sleep(0.0002)

    set(MVCCAdapter, "invalidate", invalidate)
    set(MVCCAdapter, "_invalidate_finish", invalidate)


def no_check(set: Set) -> None:
    set(Changes, "touch", lambda self, oids, since: False)


def position_after_begin(set: Set) -> None:
    """The place of a page is that of its end, as if no commit could come while it is made."""
    set(site, "PLAN", {**site.PLAN, "pause": 0.001})
    put = Pages.put

    def put_later(self: Any, key: Any, kept: Any, changes: Any) -> None:
        kept.seen = changes.now()
        put(self, key, kept, changes)

    set(Pages, "put", put_later)


def poll_without_start(set: Set) -> None:
    """The start of the snapshot is not compared, and an outer element has begun the transaction before the poll."""
    set(site, "PLAN", {**site.PLAN, "early": 0.001})
    set(Changes, "seen_by", lambda self, connection, before: before)
    set(keep, "end_unchanged", lambda tm: True)
    set(keep, "begin", lambda request, tm: None)


def without_objects(set: Set, forgotten: Callable[[Any], bool]) -> None:
    """Have some objects not be seen."""
    oids = Reads.oids
    set(Reads, "oids", lambda self: [oid for oid in oids(self) if not forgotten(self.connection._cache[oid])])


def key_without_a_cookie(set: Set) -> None:
    set(Noting, "cookie_header", lambda self, name: dict.get(self, "HTTP_COOKIE", ""))


def policy_not_read(set: Set) -> None:
    without_objects(set, lambda obj: isinstance(obj, site.Grant))


def deactivated_object(set: Set) -> None:
    set(site, "PLAN", {**site.PLAN, "deactivate": 1})
    set(Reads, "are_complete", True)


def missing_key_appears(set: Set) -> None:
    without_objects(set, lambda obj: isinstance(obj, site.OOBTree))


def write_in_another_process(set: Set) -> None:
    """The server is not asked for the commits of other processes, and tells them 20 milliseconds late."""
    now = Changes.now
    known: dict[int, tuple[float, bytes]] = {}

    def late(self: Changes) -> bytes:
        set(self.instance, "sync", lambda force: None)
        until, moment = known.get(id(self), (0.0, b""))
        if time.monotonic() >= until:
            moment = now(self)
            known[id(self)] = time.monotonic() + 0.02, moment
        return moment

    set(Changes, "now", late)


BUGS: dict[str, Callable[[Set], None]] = {
    "no check": no_check,
    "position after begin": position_after_begin,
    "poll without _start": poll_without_start,
    "key without a cookie": key_without_a_cookie,
    "policy not read": policy_not_read,
    "deactivated object": deactivated_object,
    "missing key appears": missing_key_appears,
    "write in another process": write_in_another_process,
}
