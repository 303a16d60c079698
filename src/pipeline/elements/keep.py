"""``keep``: pages are kept with all that they were made of, and sent again until some of it has changed."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from threading import Event
from types import FunctionType
from typing import Any

from pipeline.composition import Offers, element
from pipeline.database.changes import Changes, Reads
from pipeline.database.kept import MOST_NAMES, Kept, Key, Pages
from pipeline.database.transactions import begin, end_unchanged, joined
from pipeline.http.conditional import conditional
from pipeline.http.finishing import finish
from pipeline.http.noting import ALL, CONDITIONS, Noting, watched
from pipeline.interfaces import ConfigurationError, Handler
from pipeline.ranges import at_least
from pipeline.request import OnFirstUse, Request
from pipeline.response import CHECKED, OK, Response, check_headers

log = logging.getLogger("pipeline.keep")

PLAIN = frozenset((type(None), bool, int, float, str, bytes))
"""Types of the attributes that may be part of a key."""
LONGEST_QUERY = 1_024
"""Characters of the longest query for which a page is kept. ``traverse`` refuses a query that is too long."""
NEVER_ASKED = 100
"""Pages of one address that are kept before a warning says that none of them was sent again."""


class KeepRequest(Request):
    """The attributes that ``keep`` adds to a request."""

    keep: float = 0
    """Seconds that the answer may be kept, at most. A view sets it to say that its answer depends on objects of the
    database and on the request, and on nothing else that changes in that time."""
    unkept: str = ""
    """Reason why the answer is not kept. A view may set it."""
    kept: str = ""
    """How the answer was made, for tools: "sent again", "kept", or "not kept: ..." with the reason."""
    kept_pages: Pages | None = None
    """The pages that are kept by this process."""

    @staticmethod
    def __complete__(offered: Mapping[str, Any]) -> None:
        """Refuse a finished pipeline with a database that cannot tell what has changed."""
        if offered.get("zodb_changes") is None:
            raise ConfigurationError(
                "keep: pages can only be kept with the storages of ZODB and ZEO (file://, memory://, zeo://), "
                "which tell what has changed. Leave keep out of a pipeline on RelStorage"
            )


@element(
    adds=KeepRequest,
    requires=("zodb_connection",),
    inside={
        "errors": "an answer that cannot be made is an error page too",
        "transaction": "an answer that is sent again needs no transaction",
        "authenticate": "a page is kept for its principal alone",
        "session": "an answer that has used the session must be marked for its visitor",
        "forms": "a form is read before its page is made",
        "site": "no page of a local site is kept, since what its registry reads is not known",
    },
    outside={
        "traverse": "the objects that traversal and the policy read are part of what a page was made of",
        "base": "the finished page is kept",
        "compress": "the finished page is kept",
        "coalesce": "the finished page is kept",
    },
)
def keep(next: Handler, *, megabytes: int = 32, verify: int = 0, wait: float = 5.0) -> Offers:
    """Keep pages, and send them again until an object of the database that they were made of has changed.

    megabytes  upper limit of the memory for the pages of this process. The least recently used leave first
    verify     each so-many-th answer that would be sent again is made anew, and a difference is logged; 0: none
    wait       seconds that a request waits at most for another one that makes the same page

    A view says by ``request.keep = 60`` that its answer depends on objects of the database and on the request, and,
    for 60 seconds, on nothing else. The answer is kept, compressed, with each object that was read to make it, also
    by the policy and by traversal, and with each header, cookie and attribute. It is sent again only if a
    transaction that begins now would find these objects unchanged (R14), and to a request with the same values.

    Answers are not kept that write, set a cookie, are streamed, say ``no-store``, use another database or a session
    with data, or were reached through a folder with its own users. ``request.kept_pages.counts`` counts why.
    ``request.kept_pages.clear()`` drops all pages of this process.

    Requires an object database of ZODB or ZEO; RelStorage is refused. Other databases, files and clocks are not
    watched. Elements that add output filters must stand inside.
    """
    at_least(1, megabytes=megabytes)
    at_least(0, verify=verify, wait=wait)
    pages = Pages(megabytes << 20)
    return Offers(Keeper(next, pages, verify, wait).answer, kept_pages=pages)


@dataclass
class Keeper:
    """Answers the requests of one pipeline."""

    next: Handler
    pages: Pages
    verify: int
    wait: float

    def answer(self, request: Any, response: Response) -> None:
        """Answer a request from the page that is kept, or have the page made."""
        method = request.environ["REQUEST_METHOD"]
        if method not in ("GET", "HEAD") or request.announces_body:
            return self.next(request, response)
        pages, counts = self.pages, self.pages.counts
        request.__dict__.pop("keep", None)  # an earlier attempt may have set it
        address = address_of(request, response)
        if isinstance(address, str):
            return self.pass_on(request, response, address)
        key: Key | None = None
        kept = None
        try:
            if changes := request.zodb_changes(request):  # None before the first use of the database
                key, kept = pages.look_up(address, request.environ, changes)
                if kept is None and key and key[0].may_wait and (making := pages.making.get(key)):
                    counts["waited"] += 1
                    making.wait(self.wait)  # so long at most (R10)
                    key, kept = pages.look_up(address, request.environ, changes)  # it may have read more
        except Exception:  # of a server that cannot be asked: making the page says so
            log.debug("the changes are not known", exc_info=True)
            return self.pass_on(request, response, "the changes are not known")
        if kept is not None:
            counts["sent again"] += 1
            if method == "HEAD" or not self.verify or counts["sent again"] % self.verify:
                request.kept = "sent again"
                return send(kept, request, response)
        if method == "HEAD":
            return self.pass_on(request, response, "HEAD is answered from the page of a GET")
        if key is None:  # views that keep nothing pay no more than this
            self.pass_on(request, response, "it is the first of its address")
            if request.keep and response.status_line[:3] == "200":
                pages.want(address)
            return None
        making = pages.making[key] = Event()
        try:
            return self.make(request, response, key, changes, kept)
        finally:
            pages.making.pop(key, None)
            making.set()

    def pass_on(self, request: Any, response: Response, reason: str) -> None:
        """Have an answer made that is not kept."""
        self.next(request, response)
        if request.keep:
            self.say(request, f"not kept: {reason}")

    def say(self, request: Any, what: str) -> None:
        """Say and count what was done with an answer. Log it for the first that it is done with."""
        request.kept = what
        if not self.pages.counts[what]:
            log.info("keep: %s: %s", request.path_info_safe, what)
        self.pages.counts[what] += 1

    def make(
        self, request: Any, response: Response, key: Key, changes: Changes, old: Kept | None
    ) -> None:
        """Have the page made, and keep it. ``old`` is the page that was to be sent again."""
        environ, tm = request.environ, request.tm_in_use
        if tm is not None and not end_unchanged(tm):  # an outer element has begun it, before the poll
            return self.pass_on(request, response, "an outer element has written")
        before_begin = changes.now()
        if tm is not None:
            begin(request, tm)
        seen = changes.seen_by(request.zodb, before_begin)
        request.__dict__.pop("root", None)  # the way from the root of the database to it is part of what is read
        attributes, headers = request.__dict__.copy(), response.headerlist.copy()
        reads = Reads(request.zodb)
        requests = request.__class__
        request.__class__ = watched(requests)
        request.environ = noting = Noting(environ, CONDITIONS)
        try:
            self.next(request, response)
            reason = next(filter(None, reasons(request, response, noting, reads, attributes)), "")
            if not reason:
                oids = frozenset(reads.oids())
                if wanted := self.pages.want(key[0].address, frozenset(noting.noted)):
                    key = wanted.key_of(environ)  # with the values that the request came with
                else:
                    reason = f"the pages of its address read more than {MOST_NAMES} headers and cookies"
        finally:
            request.environ = noting.put_back()
            if request.__class__ is watched(requests):
                request.__class__ = requests
            reads.end()
        key[0].may_wait = not reason
        if reason:
            return self.say(request, f"not kept: {reason}")
        effects = declared_in(requests, "__kept__")
        for name in effects.keys() & (request.__dict__.keys() - attributes.keys()):
            effects[name](response)
        final = response.headerlist
        other = [pair for pair in (*headers, *final) if pair not in headers or pair not in final]
        names = frozenset(("content-type", "content-length", *(name.lower() for name, _ in other)))
        added = [pair for pair in final if pair[0].lower() in names]  # all of a name: policies add up
        check_headers(added)
        until = time.monotonic() + request.keep
        kept = Kept(b"".join(response.blocks), added, names, CHECKED.union(added), oids, until, seen)
        if old is not None and old.body != kept.body and not changes.touch(old.oids, old.seen):
            self.pages.counts["different"] += 1
            log.error("keep: %s is different when it is made anew: its view uses more than the database and the "
                      "request", request.path_info_safe)
        self.pages.put(key, kept, changes)
        self.say(request, "kept")
        if key[0].kept == NEVER_ASKED and not key[0].sent:
            what = "keep: %s: %d pages are kept, and none was sent again. They differ by %s"
            log.warning(what, request.path_info_safe, key[0].kept, sorted(map(str, key[0].read)))
        send(kept, request, response)


def send(kept: Kept, request: Any, response: Response) -> None:
    """Answer with a page."""
    headers = response.headerlist
    headers[:] = [pair for pair in headers if pair[0].lower() not in kept.names] + kept.headers
    response.checked = kept.checked
    response.status_line, response.conditional_response, response.filters_applied = OK, False, True
    response.blocks = conditional(request.environ, response, [kept.body], ranges=False)


def address_of(request: Any, response: Response) -> Key | str:
    """Return what is part of each key; or the reason why the answer cannot be kept. It is all that outer elements
    have put on the request, whether it is read or not."""
    if response.filters or response.delivery_filters:
        return "an outer element filters the body"
    added = []
    for name, value in request.__dict__.items():
        if type(value) in PLAIN:
            if name[:1] != "_":
                added.append((name, value))
        elif name == "__provides__":
            added.append((name, tuple(value)))
        elif reason := why_unkept(request, name, value):
            return reason
    hooks = request.traversal_hooks
    for hook in hooks:
        if type(hook) is not FunctionType or hook.__closure__:
            return "a traversal hook that is made for each request"
    get = request.environ.get
    if len(get("QUERY_STRING") or "") > LONGEST_QUERY:
        return f"its query is longer than {LONGEST_QUERY} characters"
    address = get("wsgi.url_scheme"), get("HTTP_HOST"), get("SCRIPT_NAME"), get("PATH_INFO")
    return (*address, request.virtual_root_path, request.view_name, hooks, *added)


def why_unkept(request: Any, name: str, value: Any) -> str:
    """Return the reason why an answer cannot be kept, given an attribute of the request; "" if it can."""
    judge = declared_in(request.__class__, "__unkept__").get(name)
    return f"it used request.{name}" if judge is None else str(judge(value))


@lru_cache(maxsize=128)
def declared_in(requests: type[Request], what: str) -> Mapping[str, Callable[[Any], Any]]:
    """Return functions by the names of attributes, as the elements say that add these. The class of an element's
    attributes has pairs of both.

    ``__unkept__``  functions of the value: the reason why an answer with it is not kept, or ""
    ``__kept__``    functions of the response, which do to an answer that is kept what the element does to an answer
                    that has used the attribute. It is not used again when the answer is sent again
    """
    return dict(pair for cls in reversed(requests.__mro__) for pair in vars(cls).get(what, ()))


def finish_in_memory(request: Any, response: Response) -> None:
    """Have the filters change the body, and make an ETag if there is none."""
    response.conditional_response = False
    if response.filters or response.delivery_filters:
        response.blocks = finish(request, response, response.blocks)
    if "etag" not in [name.lower() for name, _ in response.headerlist]:
        digest = hashlib.blake2b(b"".join(response.blocks), digest_size=12).hexdigest()
        response.headerlist.append(("ETag", f'W/"{digest}"'))


def reasons(request: Any, response: Response, noting: Noting, reads: Reads, old: dict[str, Any]) -> Iterator[str]:
    """Yield the reasons why an answer is not kept, and "". One that might be kept is finished on the way. ``old``
    has the attributes of the request before the answer was made."""
    if not request.keep:
        yield "its view does not say so"
    if response.status_line[:3] != "200":
        yield "its status is not 200"
    if not response.in_memory:
        yield "a stream"
    finish_in_memory(request, response)  # it is judged with all that filters have done
    yield str(request.unkept)
    if request.principal != old.get("principal"):
        yield "a folder's own users"
    if ALL in noting.noted:
        yield "the whole environ was read"
    for name in noting.noted:
        if type(name) is str and type(dict.get(noting, name)) not in PLAIN:
            yield f"it read {name}"
    tm = request.tm_in_use
    if tm is None or tm.outcome or (tm._txn is not None and joined(tm)):
        yield "it has written"
    if len(request.zodb.connections) > 1:
        yield "another database is open"
    for name, value in response.headerlist:
        if name.lower() == "set-cookie":
            yield "a cookie"
        if name.lower() == "cache-control" and "no-store" in value.lower():
            yield "no-store"
    judges = declared_in(request.__class__, "__unkept__")
    made = {name for name in request.__dict__ if isinstance(getattr(request.__class__, name, None), OnFirstUse)}
    for name in (made - old.keys()) | (judges.keys() & request.__dict__.keys()):  # an outer part may have made it
        yield why_unkept(request, name, request.__dict__[name])
    if not reads.are_complete:
        yield "an object may have been read and deactivated"
