"""A request that another site has a browser send is refused, for every visitor, unless its view says otherwise."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xmlrpc.client import dumps, loads

import pytest
from paste.urlmap import URLMap
from webtest import TestApp

from pipeline import Pipeline, Request, Response, element, view
from pipeline.elements.authenticate import authenticate
from pipeline.elements.errors import errors
from pipeline.elements.session import SessionRequest, session
from pipeline.elements.traverse import traverse
from pipeline.elements.vhost import vhost
from pipeline.interfaces import PUBLIC, INullResource, IXMLRPCRequest, OptionError
from pipeline.mounting import request_of
from pipeline.publisher import publisher
from pipeline.views import adapter

OTHER = [
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Sec-Fetch-Site": "cross-site", "Origin": "http://localhost"},
]
"""Headers of a browser that another site has made send a request."""
OURS = [{}, {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}, {"Origin": "http://localhost"}]
SAID = "This request came from another site."


class Root(dict[str, Any]):
    """The object of all views here."""


@view(context=Root, methods=("GET", "POST", "PUT", "PATCH"), permission=PUBLIC)
def plant(context: Root, request: SessionRequest) -> str:
    request.session["planted"] = "yes"
    return f"{request.principal} planted"


@view(context=Root, name="read", permission=PUBLIC)
def read(context: Root, request: SessionRequest) -> str:
    return str(dict(request.session))


@view(context=Root, name="open", methods=("post",), permission=PUBLIC, cross_site=True)
def opened(context: Root, request: Request) -> str:
    return f"{request.principal} came"


@view(context=Root, name="edit", methods=("POST",), permission="edit")
def edit(context: Root, request: Request) -> str:
    return "edited"


@adapter(Root, INullResource)
class New:
    """The object of a PUT to a name that is free."""

    __name__ = ""

    def __init__(self, root: Root) -> None:
        self.root = root


@view(context=New, methods=("PUT",), permission=PUBLIC)
def make_new(context: New, request: Request) -> str:
    return "made"


class Service:
    """The object of calls by XML-RPC."""


@view(context=Service, name="ask", methods=("POST",), request_type=IXMLRPCRequest, permission=PUBLIC)
def asked(context: Service, request: Request) -> str:
    return "asked"


@view(
    context=Service,
    name="tell",
    methods=("POST",),
    request_type=IXMLRPCRequest,
    permission=PUBLIC,
    cross_site=True,
)
def told(context: Service, request: Request) -> str:
    return "told"


@pytest.fixture
def keys(tmp_path: Path) -> str:
    return str(tmp_path / "keys")


@pytest.fixture
def make(keys: str) -> Callable[..., TestApp]:
    """``make(*elements, end=)``: a client of a site with sessions and these elements."""

    def make(*elements: Any, end: Any = None) -> TestApp:
        inner = (traverse(root=Root), publisher(scan=(__name__,))) if end is None else (end,)
        return TestApp(Pipeline(errors(), session(keys=keys), *elements, *inner))

    return make


def users(keys: str) -> Any:
    return authenticate(check=lambda request, login, password: login, by=("session", "basic"), keys=keys)


ANN = {"Authorization": "Basic " + b64encode(b"ann:x").decode()}


@pytest.mark.parametrize("headers", OTHER)
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
@pytest.mark.parametrize("known", ["no users", "nobody", "ann"])
def test_another_site_is_refused_for_every_visitor__S23(
    make: Callable[..., TestApp], keys: str, headers: dict[str, str], method: str, known: str
) -> None:
    client = make(*([] if known == "no users" else [users(keys)]))
    who = ANN if known == "ann" else {}
    answer = client.request("/", method=method, headers={**headers, **who}, status=403)
    assert SAID in answer.text and "Set-Cookie" not in answer.headers, "nothing is planted"
    assert client.get("/read", headers=who).text == "{}"
    client.get("/", headers={**headers, **who})
    assert client.get("/read", headers=who).text == "{'planted': 'yes'}", "a link may lead here"


@pytest.mark.parametrize("headers", OURS)
def test_our_own_pages_and_programs_are_not_refused(make: Callable[..., TestApp], headers: dict[str, str]) -> None:
    assert make().post("/", headers=headers).text == "None planted"


@pytest.mark.parametrize("headers", [*OTHER, *OURS])
@pytest.mark.parametrize("who", [{}, ANN])
def test_a_view_may_say_otherwise__S23(
    make: Callable[..., TestApp], keys: str, headers: dict[str, str], who: dict[str, str]
) -> None:
    """It is asked as it would be by this site: it knows what it does."""
    answer = make(users(keys)).post("/open", headers={**headers, **who})
    assert answer.text == ("ann came" if who else "None came")


def test_another_site_is_refused_before_a_login_is_asked_for(make: Callable[..., TestApp], keys: str) -> None:
    client = make(users(keys))
    client.post("/edit", headers={"Origin": "http://evil.example"}, status=403)
    client.post("/edit", status=401)


def test_what_is_not_there_yet_is_guarded_too__S23(make: Callable[..., TestApp]) -> None:
    client = make()
    client.put("/new", headers={"Origin": "http://evil.example"}, status=403)
    assert client.put("/new").text == "made"


@pytest.mark.parametrize("headers", OTHER)
def test_a_method_of_xml_rpc_says_it_itself__S23(headers: dict[str, str], keys: str) -> None:
    way = traverse(root=Service, request_type=IXMLRPCRequest)
    end = publisher(scan=(__name__, "pipeline.publishing.xmlrpc"))
    client = TestApp(Pipeline(errors(), session(keys=keys), way, end))

    def call(method: str, headers: dict[str, str]) -> str:
        return client.post("/", dumps((), method).encode(), headers={**headers, "Content-Type": "text/xml"}).text

    assert SAID in call("ask", headers) and "<int>403</int>" in call("ask", headers)
    assert loads(call("tell", headers))[0] == ("told",)
    assert loads(call("ask", {}))[0] == ("asked",)


def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    """A foreign one, which writes into our session."""
    request = request_of(environ)
    request.session["planted"] = "yes"
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"{request.principal} planted".encode()]


@element
def own() -> Any:
    """An end of another kind, which knows no views."""

    def own(request: Any, response: Response) -> None:
        response.text = f"{request.principal} came"

    return own


@pytest.mark.parametrize("headers", OTHER)
@pytest.mark.parametrize(
    ("end", "known"),
    [(application, "no users"), (application, "nobody"), (application, "ann"), (own(), "nobody"), (own(), "ann")],
)
def test_an_end_without_views_is_guarded_as_a_whole__S23(
    make: Callable[..., TestApp], keys: str, headers: dict[str, str], end: Any, known: str
) -> None:
    elements = [] if known == "no users" else [users(keys)]
    who = ANN if known == "ann" else {}
    client = make(*elements, end=end)
    answer = client.post("/", headers={**headers, **who}, status=403)
    assert SAID in answer.text and "Set-Cookie" not in answer.headers
    client.get("/", headers={**headers, **who})
    client.post("/", headers=who)
    opened = make(vhost(cross_site=True), *elements, end=end)
    assert opened.post("/", headers={**headers, **who}).text.startswith("ann" if who else "None")


def test_the_option_for_foreign_applications_opens_no_view__S23(keys: str) -> None:
    """A middleware, or a composite of several applications, seems to be a foreign application."""
    inner = Pipeline(session(keys=keys), traverse(root=Root), publisher(scan=(__name__,)))
    headers = {"Origin": "http://evil.example"}
    closed = TestApp(Pipeline(errors(), lambda app: lambda *wsgi: app(*wsgi), inner))
    closed.post("/open", headers=headers, status=403)
    client = TestApp(Pipeline(vhost(cross_site=True), errors(), lambda app: lambda *wsgi: app(*wsgi), inner))
    assert client.post("/open", headers=headers).text == "None came"
    client.post("/", headers=headers, status=403)


def answering(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"answered"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api", 200),
        ("/api/", 200),
        ("/api/x", 200),
        ("/apis", 403),
        ("/", 403),
        ("//api", 403),
        ("/x/api", 403),
        ("/api/..%2Fadmin", 403),  # as a browser sends it, and "/admin" for the traversal of Pyramid
        ("/api/x/..%2F..%2F", 403),
        ("/api/..", 403),
        ("/api/..x", 200),  # a name (RFC 3986 section 5.2.4)
        ("/caf%C3%A9/x", 200),
    ],
)
@pytest.mark.parametrize("headers", OTHER)
def test_one_mounted_application_checks_by_itself__S23(
    headers: dict[str, str], path: str, status: int, keys: str
) -> None:
    client = TestApp(Pipeline(vhost(cross_site_at=("/café", "/api")), errors(), answering))
    client.put(path, headers=headers, status=status)
    client.put(path)
    inner = Pipeline(session(keys=keys), traverse(root=Root), publisher(scan=(__name__,)))
    mounted = URLMap()
    mounted["/api"] = inner
    client = TestApp(Pipeline(vhost(cross_site_at=("/api",)), errors(), mounted))
    assert client.post("/api/open", headers=headers).text == "None came"
    client.post("/api/", headers=headers, status=403)


@pytest.mark.parametrize("path", ["api", "/", "/api/", "", "//api"])
def test_what_is_no_path_of_an_application_is_refused(path: str) -> None:
    with pytest.raises(OptionError, match=f"'cross_site_at': {path!r} is not the path of an application"):
        Pipeline(vhost(cross_site_at=(path,)), errors(), answering)
