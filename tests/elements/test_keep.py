"""``keep``: a page is sent again while all that it was made of is unchanged, and never longer."""

from __future__ import annotations

import threading
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator
from contextvars import ContextVar, copy_context
from typing import Any, ClassVar

import pytest
import webob
from BTrees.OOBTree import OOBTree
from persistent import Persistent
from persistent.mapping import PersistentMapping
from ZODB.DB import DB
from ZODB.DemoStorage import DemoStorage
from zope.interface import implementer

from asking import ask
from pipeline import Pipeline, Response, element, view
from pipeline.auth.policy import Group, LocalGrants
from pipeline.database.changes import Reads
from pipeline.database.kept import Names, Pages
from pipeline.elements.authenticate import authenticate
from pipeline.elements.base import base
from pipeline.elements.compress import compress
from pipeline.elements.errors import errors
from pipeline.elements.forms import forms
from pipeline.elements.keep import KeepRequest, keep
from pipeline.elements.request_id import request_id
from pipeline.elements.session import session
from pipeline.elements.shield import shield
from pipeline.elements.transaction import transaction
from pipeline.elements.traverse import traverse
from pipeline.elements.zodb import close_all, zodb
from pipeline.http.noting import Noting
from pipeline.interfaces import ConfigurationError, ISecurityPolicy, OrderError
from pipeline.publisher import publisher
from processes import TOP


class Doc(Persistent):  # type: ignore[misc]
    """An object with a text."""

    def __init__(self, text: str = "") -> None:
        self.text = text


class Folder(PersistentMapping):  # type: ignore[misc]
    """The root of the site."""


class Made:
    """How often each view was called, by name, and what it must do."""

    def __init__(self) -> None:
        self.count = 0
        self.hooks: dict[str, Callable[..., Any]] = {}


MADE = Made()
LOGIN = {"HTTP_AUTHORIZATION": "Basic " + b64encode(b"ada:right").decode()}


@view(context=Folder)
def front(context: Folder, request: KeepRequest) -> str:
    MADE.count += 1
    request.keep = 60
    return f"front {context['doc'].text} {len(context['tree'])} " + "x" * 2_000


@view(context=Folder, name="plain")
def plain(context: Folder, request: KeepRequest) -> str:
    MADE.count += 1
    return "plain"


@view(context=Folder, name="secret", permission="see")
def secret(context: Folder, request: KeepRequest) -> str:
    MADE.count += 1
    request.keep = 60
    return "secret"


@view(context=Folder, name="told")
def told(context: Folder, request: KeepRequest, response: Response) -> Any:
    """A page that does what a test says."""
    MADE.count += 1
    request.keep = 60
    return MADE.hooks["told"](context, request, response)


def check(request: Any, login: str, password: str) -> str | None:
    return login if password == "right" else None


class Site:
    """A site on a database in memory, and a connection that changes it."""

    def __init__(self, **options: Any) -> None:
        self.db = DB(DemoStorage())
        with self.db.transaction() as connection:
            connection.root()["site"] = Folder(doc=Doc("one"), other=Doc("other"), tree=OOBTree({"a": Doc("leaf")}))
        self.elements = {
            "zodb": zodb(db=self.db, root="site"),
            "errors": errors(),
            "transaction": transaction(),
            "session": None,
            "authenticate": authenticate(check=check, undeclared="allow"),
            "keep": keep(**options),
            "traverse": traverse(),
        }

    def pipeline(self, *inner: Any, **others: Any) -> Pipeline:
        parts = [part for part in {**self.elements, **others}.values() if part is not None]
        self.app = Pipeline(*parts, *inner, publisher(scan=(__name__,)))
        return self.app

    def pipeline_of(self, parts: dict[str, Any], order: str) -> None:
        """Make the pipeline of these elements, in this order."""
        self.elements = {name: parts[name] for name in order.split()}
        self.pipeline()

    def ask(self, path: str = "/", method: str = "GET", **environ: Any) -> Any:
        return ask(self.app, path, method, **environ)

    def change(self, change: Callable[[Any], object]) -> None:
        with self.db.transaction() as connection:
            change(connection.root()["site"])

    @property
    def pages(self) -> Pages:
        pages: Pages = self.app.offered["kept_pages"]
        return pages

    def warm(self, path: str = "/", times: int = 2, **environ: Any) -> Any:
        """Ask until the page is kept, if it can be."""
        return [self.ask(path, **environ) for _ in range(times)][-1]

    def makes(self, path: str = "/", method: str = "GET", **environ: Any) -> int:
        """How often the view is called for a request."""
        before = MADE.count
        self.ask(path, method, **environ)
        return MADE.count - before


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    made.pipeline()
    yield made
    close_all()
    made.db.close()


CHANGES: dict[str, tuple[Callable[[Any], object], int]] = {
    "an object that was read": (lambda root: setattr(root["doc"], "text", "two"), 1),
    "a new key in a tree that was counted": (lambda root: root["tree"].update({"b": Doc()}), 1),
    "a key of the folder itself": (lambda root: root.update(more=Doc()), 1),
    "an object that was not read": (lambda root: setattr(root["other"], "text", "two"), 0),
    "an object in the tree, which was counted only": (lambda root: setattr(root["tree"]["a"], "text", "two"), 0),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_page_is_made_anew_when_an_object_of_it_has_changed__R14(site: Site, name: str) -> None:
    change, made = CHANGES[name]
    first = site.warm()
    assert site.makes() == 0
    site.change(change)
    assert site.makes() == made
    again = site.ask()
    assert (again.text != first.text) is (name in list(CHANGES)[:2])


def test_undo_and_pack(site: Site) -> None:
    site.warm()
    site.change(CHANGES["an object that was read"][0])
    assert " two " in site.warm().text
    site.db.pack(time.time())
    assert site.makes() == 0
    assert " two " in site.ask().text


def test_a_view_that_does_not_say_so_is_not_kept(site: Site) -> None:
    site.warm("/plain")
    assert site.makes("/plain") == 1
    assert site.pages.bytes == 0


READS: dict[str, tuple[Callable[..., object], dict[str, Any], dict[str, Any], int]] = {
    "a header": (lambda c, r, a: r.headers.get("Accept-Language"), {"HTTP_ACCEPT_LANGUAGE": "de"}, {}, 1),
    "a header that it lacks": (lambda c, r, a: r.headers.get("X-A"), {}, {"HTTP_X_A": "1"}, 1),
    "another header": (lambda c, r, a: r.headers.get("X-A"), {"HTTP_X_B": "1"}, {"HTTP_X_B": "2"}, 0),
    "the query": (lambda c, r, a: r.GET.get("q"), {"QUERY_STRING": "q=1"}, {"QUERY_STRING": "q=2"}, 1),
    "a cookie": (lambda c, r, a: r.cookies.get("a"), {"HTTP_COOKIE": "a=1"}, {"HTTP_COOKIE": "a=2"}, 1),
    "the principal": (
        lambda c, r, a: r.principal,
        {"HTTP_AUTHORIZATION": "Basic YTpyaWdodA=="},
        {"HTTP_AUTHORIZATION": "Basic YjpyaWdodA=="},
        1,
    ),
    "the host": (lambda c, r, a: r.application_url, {"HTTP_HOST": "a.example"}, {"HTTP_HOST": "b.example"}, 1),
    "the address": (lambda c, r, a: r.remote_addr, {"REMOTE_ADDR": "10.0.0.1"}, {"REMOTE_ADDR": "10.0.0.2"}, 1),
}


@pytest.mark.parametrize("name", READS)
def test_a_page_is_sent_for_the_same_values_alone(site: Site, name: str) -> None:
    read, one, other, made = READS[name]
    MADE.hooks["told"] = lambda context, request, response: f"told {read(context, request, response)}"
    kept = site.warm("/told", **one).text
    assert site.makes("/told", **one) == 0, site.pages.counts
    assert site.makes("/told", **other) == made
    assert (site.ask("/told", **other).text != kept) is bool(made)
    assert site.ask("/told", **one).text == kept


AHEAD = {"a field with a converter": "q:int=", "a plain field, by an outer element": "q="}


@pytest.mark.parametrize("name", AHEAD)
def test_a_page_is_sent_for_its_query_alone_also_if_the_form_was_read_before__R14(site: Site, name: str) -> None:
    """The page for one query was sent for all others: a visitor chose what the next ones saw."""
    parts = {"forms": forms(), "reader": reads(name="form") if "outer" in name else None}
    site.pipeline_of({**site.elements, **parts}, "zodb errors transaction forms reader authenticate keep traverse")
    MADE.hooks["told"] = lambda context, request, response: f"told {dict(request.form)}"
    for number in (1, 2):
        kept = site.warm("/told", 3, QUERY_STRING=f"{AHEAD[name]}{number}")
        assert str(number) in kept.text and "told {'q'" in kept.text
        assert site.makes("/told", QUERY_STRING=f"{AHEAD[name]}{number}") == 0, site.pages.counts
    assert site.ask("/told").text == "told {}"


@element
def reads(next: Any, *, name: str) -> Any:
    """An element of a site, which reads an attribute of the request before the page is made."""

    def reads(request: Any, response: Any) -> None:
        getattr(request, name)
        next(request, response)

    return reads


def test_what_an_outer_element_has_made_is_judged_as_it_was_used(site: Site, tmp_path: Any) -> None:
    """The session of the visitor who is not logged in yet has no data; that of the principal has."""
    site.pipeline(session=session(keys=str(tmp_path / "keys")))
    MADE.hooks["told"] = lambda context, request, response: request.session.update(a="1") or "x"
    written = site.ask("/told", method="GET", **LOGIN)
    cookie = written.headers["Set-Cookie"].partition(";")[0]
    parts = {**site.elements, "session": session(keys=str(tmp_path / "keys")), "reader": reads(name="session")}
    site.pipeline_of(parts, "zodb errors transaction session reader authenticate keep traverse")
    MADE.hooks["told"] = lambda context, request, response: f"a is {request.session.get('a')}"
    for _ in range(4):
        assert site.ask("/told", HTTP_COOKIE=cookie, **LOGIN).text == "a is 1"
    assert site.ask("/told", **LOGIN).text == "a is None"
    assert site.pages.counts["not kept: a session with data"] == 3, site.pages.counts


def test_a_page_with_the_id_of_its_request_is_not_kept_if_an_outer_element_has_read_the_id(site: Site) -> None:
    site.elements = {"request_id": request_id(), "reader": reads(name="request_id"), **site.elements}
    site.pipeline()
    MADE.hooks["told"] = lambda context, request, response: request.request_id
    assert len({site.ask("/told").text for _ in range(4)}) == 4


def test_pages_are_kept_in_debug_mode_too(site: Site) -> None:
    """What notices compare with later is no part of a page."""
    site.pipeline(errors=errors(debug=True))
    site.warm()
    assert site.makes() == 0, site.pages.counts


def test_a_value_counts_as_the_request_came_with_it(site: Site) -> None:
    """The view sets a header that it has read, as a filter of others does."""

    def told(context: Any, request: Any, response: Any) -> str:
        value = request.headers.get("X-A")
        request.headers["X-A"] = "2"
        return f"told {value}"

    MADE.hooks["told"] = told
    for value in ("1", "2"):
        assert site.warm("/told", 3, HTTP_X_A=value).text == f"told {value}"
        assert site.makes("/told", HTTP_X_A=value) == 0


def test_the_objects_that_were_read_are_found(site: Site) -> None:
    with site.db.transaction() as connection:
        reads = Reads(connection)
        root = connection.root()["site"]
        assert (root["doc"].text, len(root["tree"])) == ("one", 1)
        assert set(reads.oids()) >= {one._p_oid for one in (root, root["doc"], root["tree"])}
        reads.end()


def sets(**attributes: Any) -> Callable[..., str]:
    def answer(context: Any, request: Any, response: Any) -> str:
        for name, value in attributes.items():
            setattr(request, name, value)
        return "an answer"

    return answer


def writes(context: Any, request: Any, response: Any) -> str:
    context["doc"].text = "written"
    return "written"


def streams(context: Any, request: Any, response: Any) -> Iterator[bytes]:
    yield b"streamed"


def deactivates(context: Any, request: Any, response: Any) -> str:
    text = str(context["doc"].text)
    context["doc"]._p_deactivate()
    return text


def minimizes(context: Any, request: Any, response: Any) -> str:
    text = str(context["doc"].text)
    request.zodb.cacheMinimize()
    return text


def of_status(status: int) -> Callable[..., str]:
    def answer(context: Any, request: Any, response: Any) -> str:
        response.status_int = status
        return "an answer"

    return answer


def sets_a_header(name: str, value: str) -> Callable[..., str]:
    def answer(context: Any, request: Any, response: Any) -> str:
        response.headers[name] = value
        return "an answer"

    return answer


def stored_by_caches(request: Any, response: Any) -> str:
    response.headers["Cache-Control"] = "private"
    return f"<script nonce={request.csp_nonce}>"


class PutsANonce:
    """An output filter that writes the nonce of the answer into the page."""

    def __init__(self, request: Any) -> None:
        self.request = request

    def __call__(self, blocks: Any) -> Any:
        yield from blocks
        yield self.request.csp_nonce.encode()


class PutsAHeader:
    """An output filter that sends a header."""

    def __init__(self, response: Any, name: str, value: str) -> None:
        self.response, self.header = response, (name, value)

    def __call__(self, blocks: Any) -> Any:
        self.response.headerlist.append(self.header)
        return blocks


EDITS: dict[str, Callable[[Any], object]] = {
    "another value": lambda headers: headers.update({"Referrer-Policy": "no-referrer"}),
    "a further value": lambda headers: headers.add("Content-Security-Policy", "img-src 'none'"),
    "another spelling": lambda headers: headers.update({"referrer-policy": "no-referrer"}),
    "a new header": lambda headers: headers.update({"X-New": "1"}),
    "without one": lambda headers: headers.pop("Cross-Origin-Opener-Policy"),
    "without any but the type": lambda headers: [headers.pop(name) for name in {*headers} - {"Content-Type"}],
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_page_is_sent_again_with_the_headers_that_it_was_made_with(site: Site, edit: str) -> None:
    """Those of outer elements too: a page that another window logs in from goes without the opener policy."""
    site.app = Pipeline(shield(), *[one for one in site.elements.values() if one], publisher(scan=(__name__,)))

    def page(context: Any, request: Any, response: Any) -> bytes:
        EDITS[edit](response.headers)
        return b"a page"

    MADE.hooks["told"] = page
    first, kept = site.ask("/told"), site.ask("/told")
    made = MADE.count
    again = site.ask("/told")
    assert MADE.count == made, "it was sent again"
    for answer in (kept, again):
        assert sorted(pair for pair in answer.headerlist if pair[0] != "ETag") == sorted(first.headerlist)


NONCE = "it has a nonce, which is new for each answer (S24)"
REFUSED: dict[str, Callable[..., Any]] = {
    "it has written": writes,
    "a stream": streams,
    "an object may have been read and deactivated": deactivates,
    "an object may have been read and deactivated ": minimizes,
    "a cookie": sets_a_header("Set-Cookie", "a=1"),
    "no-store": sets_a_header("Cache-Control", "private, No-Store"),
    "its status is not 200": of_status(203 - 2),
    "the whole environ was read": lambda context, request, response: str(len(dict(request.environ))),
    "the pages of its address read more than 30 headers and cookies": lambda context, request, response: str(
        [request.headers.get(f"X-{number}") for number in range(31)]
    ),
    "the whole environ was read ": lambda context, request, response: str(request.environ.get("HTTP_X_A")),
    "my reason": sets(unkept="my reason"),
    "its view does not say so": sets(keep=0),
    "a folder's own users": sets(principal="a member of the folder"),
    "no-store  ": lambda context, request, response: f"<script nonce={request.csp_nonce}>",
    NONCE: lambda context, request, response: stored_by_caches(request, response),
    "no-store   ": lambda context, request, response: response.add_filter(PutsANonce(request)) or "<p>",
    "a cookie ": lambda context, request, response: response.add_filter(
        PutsAHeader(response, "Set-Cookie", "a=1")
    ),
    "no-store ": lambda context, request, response: response.add_filter(
        PutsAHeader(response, "Cache-Control", "no-store")
    ),
    "another database is open": lambda context, request, response: str(request.zodb.get_connection("other").root()),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_why_an_answer_is_not_kept(site: Site, reason: str) -> None:
    DB(DemoStorage(), databases=site.db.databases, database_name="other")
    site.app = Pipeline(shield(), *[one for one in site.elements.values() if one], publisher(scan=(__name__,)))
    MADE.hooks["told"] = lambda *arguments: "at first"
    site.warm("/told", 1)
    MADE.hooks["told"] = REFUSED[reason]
    site.ask("/told")
    assert site.pages.counts[f"not kept: {reason.strip()}"] == 1, site.pages.counts
    assert site.makes("/told") == 1


def test_code_of_the_site_gets_the_plain_environ_and_nothing_of_it_is_logged__S25(site: Site, caplog: Any) -> None:
    """A library that takes nothing but a dict quoted the environ in its error, and the page was a 500 for ever."""
    kinds = set()

    def told(context: Any, request: Any, response: Any) -> str:
        kinds.add(type(request.environ))
        other = webob.Request(request.environ)
        other.environ["of.the.site"] = "set"
        return f"told {other.path} {request.environ['of.the.site']} {request.headers['If-None-Match']}"

    MADE.hooks["told"] = told
    caplog.set_level("DEBUG")
    for _ in range(4):
        answer = site.ask("/told", HTTP_COOKIE="a=secret-1", HTTP_IF_NONE_MATCH='"x"', **LOGIN)
        assert (answer.status, answer.text) == (200, 'told /told set "x"')
    assert kinds == {dict}
    assert site.pages.counts["not kept: the whole environ was read"] == 3
    told_why = [one for one in caplog.messages if "the whole environ was read" in one]
    assert len(told_why) == 1, "once"
    assert "secret" not in caplog.text and "Basic" not in caplog.text
    assert "secret" not in repr(Noting({"HTTP_COOKIE": "secret"}))


def test_head_and_conditional_requests_are_answered_from_the_page_of_a_get(site: Site) -> None:
    whole = site.warm()
    etag = whole.headers["ETag"]
    head = site.ask(method="HEAD")
    assert site.makes(method="HEAD") == 0
    assert (head.status, head.body) == (200, b"")
    assert head.headers["Content-Length"] == whole.headers["Content-Length"]
    assert site.ask(HTTP_IF_NONE_MATCH=etag).status == 304
    assert site.ask(HTTP_IF_NONE_MATCH='"other"').status == 200
    site.change(CHANGES["an object that was read"][0])
    assert site.ask(HTTP_IF_NONE_MATCH=etag).status == 200


def test_conditions_that_a_filter_looks_at_are_not_part_of_a_page(site: Site) -> None:
    site.pipeline(base(), compress(encodings=("gzip",)))
    etag = site.warm().headers["ETag"]
    before = MADE.count
    assert [site.ask(HTTP_IF_NONE_MATCH=one).status for one in (etag, '"other"', etag)] == [304, 200, 304]
    assert MADE.count == before


def test_the_finished_page_is_kept(site: Site) -> None:
    site.pipeline(base(), compress(encodings=("gzip",)))
    packed = site.warm(HTTP_ACCEPT_ENCODING="gzip")
    assert packed.headers["Content-Encoding"] == "gzip"
    assert site.makes(HTTP_ACCEPT_ENCODING="gzip") == 0
    assert site.ask(HTTP_ACCEPT_ENCODING="gzip").body == packed.body
    assert "Content-Encoding" not in site.ask().headers
    assert site.ask().headers["Vary"] == "Accept-Encoding"


def test_the_limit_of_bytes_holds_under_attack(site: Site) -> None:
    site.pipeline(keep=keep(megabytes=1))
    pages = site.pages
    MADE.hooks["told"] = lambda context, request, response: f"told {request.headers.get('X-A')}"
    site.warm(), site.warm("/told", HTTP_X_A="first")
    answers: Counter[int] = Counter()
    for number in range(600):
        answers[site.ask("/told", HTTP_X_A=f"{number}{'a' * 2_000}").status] += 1
        if number % 50 == 0:
            answers.update(site.ask(path, HTTP_X_A="first").status for path in ("/", "/told"))
        assert pages.bytes <= 1 << 20
    assert sum(entry.size for entry in pages.entries.values()) == pages.bytes > 1 << 19
    assert answers == {200: 624}
    assert (site.makes(), site.makes("/told", HTTP_X_A="first")) == (0, 0)  # they were used in the meantime


def test_pages_that_read_no_query_share_one(site: Site) -> None:
    site.warm(QUERY_STRING="fbclid=0")
    assert [site.makes(QUERY_STRING=f"fbclid={number}") for number in range(1, 9)] == [0] * 8
    assert site.ask(QUERY_STRING="a" * 70_000).status == 414, "traverse judges a long one"


def test_the_names_of_an_address_have_a_limit(site: Site) -> None:
    """Each page reads a name of its own. A hit would look at all of them."""
    MADE.hooks["told"] = lambda context, request, response: str(request.headers.get(f"X-{request.headers['X-N']}"))
    for number in range(60):
        assert site.warm("/told", HTTP_X_N=str(number)).status == 200
    [names] = [entry for entry in site.pages.entries.values() if isinstance(entry, Names) and len(entry.read) > 1]
    assert len(names.read) <= 30
    site.warm("/told", HTTP_X_N="3")
    assert site.makes("/told", HTTP_X_N="3") == 0 < site.makes("/told", HTTP_X_N="59")


def test_pages_that_nobody_asks_for_again_are_told(site: Site, caplog: Any) -> None:
    MADE.hooks["told"] = lambda context, request, response: f"{request.headers.get('X-A')}"
    for address, times in (("/told", 2), ("/told/", 3)):  # a page of the other one is sent again
        site.warm(address, times, HTTP_X_A="a")
        for number in range(120):
            site.ask(address, HTTP_X_A=str(number))
    [told] = [record.getMessage() for record in caplog.records if "none was sent again" in record.getMessage()]
    assert told == "keep: /told: 100 pages are kept, and none was sent again. They differ by ['HTTP_X_A']"


class Directory:
    """A policy that asks a dict, which stands for LDAP and files as well."""

    allowed: ClassVar = {"ada"}

    def permits(self, request: Any, permission: str, context: Any) -> bool:
        return request.principal in self.allowed


def test_a_page_behind_a_policy_that_asks_others_is_not_kept__R14(site: Site) -> None:
    policy = implementer(ISecurityPolicy)(Directory)
    site.pipeline(authenticate=authenticate(check=check, policy=policy))
    assert site.warm("/secret", 3, **LOGIN).status == 200
    policy.allowed.clear()
    assert site.ask("/secret", **LOGIN).status == 403
    why = "the policy Directory does not say that it asks the database alone"
    assert site.pages.counts[f"not kept: {why}"] == 2
    site.pipeline(authenticate=authenticate(check=check, policy=LocalGrants))
    site.change(lambda root: setattr(root, "__grants__", {"ada": {"see"}}))
    assert site.warm("/secret", 3, **LOGIN).status == 200
    assert site.makes("/secret", **LOGIN) == 0
    site.change(lambda root: setattr(root, "__grants__", {}))
    assert site.ask("/secret", **LOGIN).status == 403


def test_a_page_that_a_group_may_see_is_not_kept__R14(site: Site) -> None:
    groups = ["staff"]
    site.pipeline(authenticate=authenticate(check=check, policy=LocalGrants, groups=lambda request: groups))
    site.change(lambda root: setattr(root, "__grants__", {Group("staff"): {"see"}}))
    assert site.warm("/secret", 3, **LOGIN).status == 200
    groups.clear()
    assert site.ask("/secret", **LOGIN).status == 403
    assert site.pages.counts["not kept: it asked for the groups of its visitor"] == 2


def test_a_header_that_must_not_be_sent_is_refused_each_time__S6(site: Site) -> None:
    MADE.hooks["told"] = lambda context, request, response: response.headerlist.append(("X-A", "1\r\nX: 2")) or "x"
    assert [site.ask("/told").status for _ in range(4)] == [500] * 4
    assert site.pages.counts["kept"] == 0


def test_a_header_of_an_outer_element_is_checked_for_a_kept_page_too__S6(site: Site) -> None:
    value = ["1"]

    @element
    def adds(next: Any) -> Any:
        def adds(request: Any, response: Any) -> None:
            next(request, response)
            response.headerlist.append(("X-A", value[0]))

        return adds

    site.app = Pipeline(adds(), *[one for one in site.elements.values() if one], publisher(scan=(__name__,)))
    site.warm()
    value[0] = "1\r\nX-B: 2"
    assert site.makes() == 0
    assert site.ask().status == 500


def test_a_page_that_is_larger_than_the_limit_drops_no_other(site: Site) -> None:
    site.pipeline(keep=keep(megabytes=1))
    site.warm()
    MADE.hooks["told"] = lambda *arguments: "a" * (1 << 20)
    site.warm("/told")
    assert (site.makes("/told"), site.makes()) == (1, 0)


def test_one_request_makes_a_page_and_others_wait(site: Site) -> None:
    site.pipeline(keep=keep(wait=60))
    go = threading.Event()
    MADE.hooks["told"] = lambda *arguments: "at first"
    site.warm("/told", 2)
    site.pages.clear()
    MADE.hooks["told"] = lambda *arguments: go.wait(60) and "made"
    before = MADE.count
    answers: list[str] = []
    threads = [threading.Thread(target=lambda: answers.append(site.ask("/told").text)) for _ in range(6)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 60
    while site.pages.counts["waited"] < 5 and time.monotonic() < deadline:
        time.sleep(0.01)
    go.set()
    for thread in threads:
        thread.join(10)
    assert answers == ["made"] * 6
    assert MADE.count == before + 1


def test_a_page_that_takes_long_is_not_waited_for__R10(site: Site) -> None:
    site.pipeline(keep=keep(wait=0.05))
    go = threading.Event()
    MADE.hooks["told"] = lambda *arguments: "at first"
    site.warm("/told", 1)
    MADE.hooks["told"] = lambda *arguments: (go.wait(5) if threading.current_thread() is slow else None, "x")[1]
    slow = threading.Thread(target=lambda: site.ask("/told"))
    slow.start()
    while not site.pages.making and slow.is_alive():
        time.sleep(0.001)
    assert site.ask("/told").text == "x"
    go.set()
    slow.join(10)


def test_verify_finds_a_view_that_uses_something_else(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    site.pipeline(keep=keep(verify=3))
    numbers = iter(range(100))
    MADE.hooks["told"] = lambda *arguments: f"number {next(numbers)}"
    for _ in range(8):
        site.ask("/told")
    assert site.pages.counts["different"] == 2
    assert "/told is different" in caplog.text
    caplog.clear()
    for _ in range(8):
        site.ask()
    assert caplog.text == ""


LOCALE: ContextVar[str] = ContextVar("locale", default="en")


def reads_by_itself(context: Any, request: Any, response: Any) -> str:
    with request.zodb.db().transaction() as connection:
        return str(connection.root()["site"]["doc"].text)


NOT_SEEN: dict[str, Callable[..., Any]] = {
    "``db.open()``": reads_by_itself,
    "``_p_serial``": lambda context, *more: context["doc"]._p_activate() or repr(context["doc"]._p_serial),
    "``ContextVar``": lambda *arguments: LOCALE.get(),
}


@pytest.mark.parametrize("name", NOT_SEEN)
def test_what_is_not_seen_is_told_by_the_docs_and_by_verify(site: Site, name: str, caplog: Any) -> None:
    """A view that promises too much gets an old page."""
    site.pipeline(keep=keep(verify=2))
    MADE.hooks["told"] = NOT_SEEN[name]
    old = site.warm("/told").text
    site.change(CHANGES["an object that was read"][0])
    context = copy_context()
    context.run(LOCALE.set, "de")
    assert context.run(site.ask, "/told").text == old
    assert context.run(site.ask, "/told").text != old and "/told is different" in caplog.text
    text = (TOP / "docs" / "howto" / "keep.rst").read_text()
    assert name in text.partition("does not see")[2].partition("\n\n")[0]


def test_a_page_is_made_anew_after_its_seconds(site: Site) -> None:
    MADE.hooks["told"] = sets(keep=0.05)
    site.warm("/told")
    time.sleep(0.06)
    assert site.makes("/told") == 1
    assert site.pages.counts["too old"]


def test_pages_are_dropped_by_hand_and_with_the_database(site: Site) -> None:
    site.warm()
    assert site.makes() == 0
    site.pages.clear()
    assert site.makes() == 1
    site.warm()
    assert site.makes() == 0
    close_all()
    assert site.makes() == 1


def test_what_an_outer_element_does_with_an_attribute_that_was_used_counts_again(site: Site, tmp_path: Any) -> None:
    site.pipeline(session=session(keys=str(tmp_path / "keys")))
    MADE.hooks["told"] = lambda context, request, response: f"visits {request.session.get('visits', 0)}"
    site.warm("/told")
    assert site.makes("/told") == 0
    again = site.ask("/told")
    assert (again.headers["Vary"], again.headers["Cache-Control"]) == ("Cookie", "private")
    MADE.hooks["told"] = lambda context, request, response: request.flash("Saved.") or "x"
    site.pages.clear()
    site.warm("/told")
    assert site.pages.counts["not kept: a session with data"]


def test_an_app_of_others_gets_a_dict_and_is_not_kept(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KeepRequest, "keep", 60)
    kinds: list[type] = []

    def app(environ: dict[str, Any], start_response: Any) -> Any:
        kinds.append(type(environ))
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"of others"]

    site.app = Pipeline(site.elements["zodb"], uses_database(), keep(), app)
    site.warm(times=4)
    assert site.pages.counts["not kept: the whole environ was read"] == 3, site.pages.counts
    assert set(kinds) == {dict}


@element
def uses_database(next: Any) -> Any:
    def uses_database(request: Any, response: Any) -> None:
        len(request.root)
        next(request, response)

    return uses_database


def test_an_outer_element_that_filters_the_body_is_refused(site: Site) -> None:
    @element
    def shouts(next: Any) -> Any:
        def shouts(request: Any, response: Any) -> None:
            response.add_filter(lambda chunks: (chunk.upper() for chunk in chunks))
            next(request, response)

        return shouts

    parts = {**site.elements, "keep": None, "traverse": None}
    site.app = Pipeline(
        *[part for part in parts.values() if part is not None],
        shouts(),
        keep(),
        traverse(),
        publisher(scan=(__name__,)),
    )
    assert site.warm().text.startswith("FRONT")
    assert site.makes() == 1


def test_the_order_and_the_database_are_checked_at_load() -> None:
    with pytest.raises(OrderError, match="zodb_connection"):
        Pipeline(errors(), keep(), traverse(root=dict), publisher())
    with pytest.raises(OrderError, match="keep"):
        Pipeline(zodb(uri="memory://order"), traverse(), keep(), publisher())
    with pytest.raises(ConfigurationError, match="RelStorage"):
        Pipeline(zodb(uri="sqlite://?data_dir=/nonexistent"), keep(), traverse(), publisher())


def test_a_commit_between_the_snapshot_and_the_page(site: Site) -> None:
    """The page is made of the snapshot, so it must not be sent again."""
    def changed_meanwhile(context: Any, request: Any, response: Any) -> str:
        text = context["doc"].text
        thread = threading.Thread(target=site.change, args=(lambda root: setattr(root["doc"], "text", text + "+"),))
        thread.start()
        thread.join()
        return str(text)

    MADE.hooks["told"] = changed_meanwhile
    assert [site.ask("/told").text for _ in range(4)] == ["one", "one+", "one++", "one+++"]
