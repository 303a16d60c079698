"""The suite ``requests``: what clients really send, answered by this pipeline and by its peers.

Every one answers with the same bytes, but for error pages, which each has its own; a row leaves out a peer that
has nothing of the kind. All run with the log of errors off.
"""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from bench import request_site
from bench.contenders import OURS, Node, Page, load_ini
from bench.measure import HEADERS, Contender, Figure, Result, Table, compare, environ, get

QUERY = "utm_source=news&utm_medium=mail&utm_campaign=spring"
FIELDS = {"title": "A day out", "name": "Ann Other", "mail": "ann@example.org", "text": "x" * 60, "send": "Send it"}
COOKIES = "a=1; theme=dark; seen=2026-11-20"
JSON = json.dumps(request_site.ITEMS, separators=(",", ":")).encode()


class Kind(NamedTuple):
    """A kind of request, and what it is answered with."""

    path: str
    body: bytes | None = b"hello"
    status: str = "200"
    query: str = ""
    cookie: str = ""
    form: Mapping[str, str] | None = None
    headers: Mapping[str, str] = HEADERS
    without: tuple[str, ...] = ()
    """Peers that have nothing of the kind."""

    def environ(self, address: str = "", more: Mapping[str, str] = {}) -> dict[str, Any]:
        sent = urlencode(self.form).encode() if self.form else b""
        made = environ(address or self.path, "POST" if sent else "GET", sent)
        for name in HEADERS.keys() - self.headers.keys():
            del made[name]
        made["QUERY_STRING"] = self.query
        if self.query:
            made["REQUEST_URI"] += f"?{self.query}"
        if self.cookie:
            made["HTTP_COOKIE"] = self.cookie
        return made | more


PLACE = "/a/b/c"
KINDS = {
    "page": Kind(PLACE),
    "query that is not read": Kind(PLACE, query=QUERY),
    "query of 3 fields": Kind(f"{PLACE}/form", b"1 two 3+4", query="a=1&b=two&c=3%2B4"),
    "the same by request.GET": Kind(f"{PLACE}/get", b"1 two 3+4", query="a=1&b=two&c=3%2B4"),
    "arguments (a: int, b: str)": Kind(f"{PLACE}/arguments", b"1 two", query="a=1&b=two"),
    "3 cookies": Kind(f"{PLACE}/cookies", b"1 dark 2026-11-20", cookie=COOKIES),
    "POST of 5 fields": Kind(f"{PLACE}/post", " ".join(FIELDS.values()).encode(), form=FIELDS),
    "JSON": Kind(f"{PLACE}/json", JSON),
    "redirect": Kind(f"{PLACE}/moved", None, "303"),
    "404 without headers": Kind(f"{PLACE}/missing", None, "404", headers={"HTTP_HOST": HEADERS["HTTP_HOST"]}),
    "404 of a browser": Kind(f"{PLACE}/missing", None, "404"),
    "500": Kind(f"{PLACE}/fail", None, "500"),
    "signed session": Kind(f"{PLACE}/user", b"hello ann", without=("Falcon", "wheezy.web")),
    "static file of 2 kB": Kind("/static/style.css", request_site.STYLE),
    "its 304": Kind("/static/style.css", b"", "304", without=("wheezy.web",)),
    "page, with log to a file": Kind(PLACE, without=("Falcon", "wheezy.web", "Flask", "Pyramid")),
}
"""By the name of the row."""


class Site(NamedTuple):
    """A site that answers all kinds of requests."""

    app: Any
    logged: Any = None
    """The same with an access log."""
    static: str = "/static/style.css"
    cookie: str = ""
    """The session of ann."""


def pipeline() -> Site:
    directory = Path(tempfile.mkdtemp(prefix="bench-requests-"))
    session = f"by = basic session\nkeys = {directory / 'keys'}\ncheck = bench.request_site:user"
    text = OURS.replace("check = bench.site:check", session).replace("scan = bench.site", SCAN)
    log = f"\n[filter:log]\nuse = egg:wsgi-pipeline#log\nfile = {directory / 'access.log'}\n"
    app = load_ini(text)
    cookie = app.offered["login_session"].serializer.dumps(("ann", "a token of the session", 0))
    logged = load_ini(text.replace("pipeline = ", "pipeline = log ") + log)
    return Site(app, logged, request_site.static.url(_Root(), "style.css"), f"pipeline_login={cookie}")


SCAN = "scan = bench.site\n    bench.request_site\n    pipeline.publishing.json"


class _Root:
    application_url = ""


def pyramid(*packages: str) -> Site:
    """Pyramid with some of its packages."""
    from pyramid.config import Configurator
    from pyramid.httpexceptions import HTTPSeeOther
    from pyramid.response import Response
    from pyramid.session import SignedCookieSessionFactory

    root = Node(a=Node(b=Node(c=Page())))

    def fail(context: Any, request: Any) -> Any:
        raise ZeroDivisionError

    def failed(context: Any, request: Any) -> Any:
        return Response("An error occurred.", status=500)

    views: dict[str, Callable[[Any, Any], Any]] = {
        "": lambda context, request: Response("hello"),
        "table": lambda context, request: Response(request_site.table_page()),
        "form": lambda context, request: Response("{a} {b} {c}".format_map(request.params)),
        "get": lambda context, request: Response("{a} {b} {c}".format_map(request.GET)),
        "arguments": lambda context, request: Response(f"{int(request.GET['a'])} {request.GET['b']}"),
        "cookies": lambda context, request: Response("{a} {theme} {seen}".format_map(request.cookies)),
        "post": lambda context, request: Response(" ".join(request.POST[name] for name in FIELDS)),
        "moved": lambda context, request: HTTPSeeOther("/a/b/c"),
        "fail": fail,
        "user": lambda context, request: Response(f"hello {request.session['user']}"),
        "login": lambda context, request: Response(request.session.update(user="ann") or "ok"),
    }
    config = Configurator(root_factory=lambda request: root)
    for package in packages:
        config.include(package)
    config.set_session_factory(SignedCookieSessionFactory("x" * 40, reissue_time=1000))
    for name, page in views.items():
        config.add_view(page, context=Page, name=name)
    config.add_view(lambda context, request: request_site.ITEMS, context=Page, name="json", renderer="json")
    config.add_exception_view(failed, context=ZeroDivisionError)
    config.add_static_view("static", request_site.static.top)
    app = config.make_wsgi_app()
    return Site(app, cookie=_cookie(app))


def falcon() -> Site:
    import falcon as framework

    def show(text: str, response: Any) -> None:
        response.content_type = "text/html; charset=utf-8"
        response.text = text

    def fields(request: Any, response: Any) -> None:
        get = request.get_param
        show(f"{get('a')} {get('b')} {get('c')}", response)

    def json(request: Any, response: Any) -> None:
        response.media = request_site.ITEMS

    def post(request: Any, response: Any) -> None:
        sent = request.get_media()
        show(" ".join(sent[name] for name in FIELDS), response)

    def moved(request: Any, response: Any) -> None:
        raise framework.HTTPSeeOther("/a/b/c")

    def missing(request: Any, response: Any) -> None:
        raise framework.HTTPNotFound

    def fail(request: Any, response: Any) -> None:
        raise ZeroDivisionError

    def arguments(request: Any, response: Any) -> None:
        show(f"{request.get_param_as_int('a')} {request.get_param('b')}", response)

    def failed(request: Any, response: Any, error: Any, params: Any) -> None:
        raise framework.HTTPInternalServerError

    def cookies(request: Any, response: Any) -> None:
        show("{a} {theme} {seen}".format_map(request.cookies), response)

    pages: dict[str, Callable[[Any, Any], None]] = {
        "": lambda request, response: show("hello", response),
        "table": lambda request, response: show(request_site.table_page(), response),
        "form": fields,
        "get": fields,
        "arguments": arguments,
        "cookies": cookies,
        "json": json,
        "moved": moved,
        "missing": missing,
        "fail": fail,
    }
    app = framework.App()
    app.add_error_handler(ZeroDivisionError, failed)
    for name, page in pages.items():
        app.add_route(f"/{{a}}/{{b}}/{{c}}/{name}".rstrip("/"), _resource("on_get", page))
    app.add_route("/{a}/{b}/{c}/post", _resource("on_post", post))
    app.add_static_route("/static", request_site.static.top)
    return Site(app)


def _resource(method: str, page: Callable[[Any, Any], None]) -> Any:
    """A resource of Falcon's with one method."""

    def respond(self: Any, request: Any, response: Any, a: str, b: str, c: str) -> None:
        page(request, response)

    return type("Resource", (), {method: respond})()


def wheezy() -> Site:
    from wheezy.http import HTTPResponse, WSGIApplication, internal_error, json_response, not_found, see_other
    from wheezy.routing import url
    from wheezy.web.handlers import file_handler
    from wheezy.web.middleware import bootstrap_defaults, path_routing_middleware_factory

    def shown(make: Callable[[Any], str]) -> Callable[[Any], Any]:
        def page(request: Any) -> Any:
            response = HTTPResponse()
            response.write(make(request))
            return response

        return page

    def fields(request: Any) -> str:
        return "{} {} {}".format(*(request.get_param(name) for name in "abc"))

    def fail(request: Any) -> Any:
        try:
            raise ZeroDivisionError
        except ZeroDivisionError:
            return internal_error()

    pages = {
        "": shown(lambda request: "hello"),
        "table": shown(lambda request: request_site.table_page()),
        "form": shown(fields),
        "get": shown(fields),
        "arguments": shown(lambda request: f"{int(request.get_param('a'))} {request.get_param('b')}"),
        "cookies": shown(lambda request: "{a} {theme} {seen}".format_map(request.cookies)),
        "post": shown(lambda request: " ".join(request.form[name][0] for name in FIELDS)),
        "json": lambda request: json_response(request_site.ITEMS),
        "moved": lambda request: see_other("/a/b/c"),
        "missing": lambda request: not_found(),
        "fail": fail,
    }
    routes = [url(f"{{a:word}}/{{b:word}}/{{c:word}}/{name}".rstrip("/"), page) for name, page in pages.items()]
    routes.append(url("static/{path:any}", file_handler(request_site.static.top)))
    defaults = bootstrap_defaults(url_mapping=routes)
    return Site(WSGIApplication([defaults, path_routing_middleware_factory], {"MAX_CONTENT_LENGTH": 10**6}))


def flask() -> Site:
    import flask as framework
    from flask import request

    app = framework.Flask(__name__, static_folder=request_site.static.top, static_url_path="/static")
    app.secret_key = "x" * 40

    def login() -> str:
        framework.session["user"] = "ann"
        return "ok"

    def fail() -> str:
        raise ZeroDivisionError

    pages: dict[str, Callable[[], Any]] = {
        "": lambda: "hello",
        "table": request_site.table_page,
        "form": lambda: "{a} {b} {c}".format_map(request.values),
        "get": lambda: "{a} {b} {c}".format_map(request.args),
        "arguments": lambda: f"{int(request.args['a'])} {request.args['b']}",
        "cookies": lambda: "{a} {theme} {seen}".format_map(request.cookies),
        "post": lambda: " ".join(request.form[name] for name in FIELDS),
        "json": lambda: framework.Response(framework.json.dumps(request_site.ITEMS), mimetype="application/json"),
        "moved": lambda: framework.redirect("/a/b/c", 303),
        "fail": fail,
        "user": lambda: f"hello {framework.session['user']}",
        "login": login,
    }
    for name, page in pages.items():
        rule = f"/<a>/<b>/<c>/{name}".rstrip("/")
        methods = ["POST" if name == "post" else "GET"]
        app.add_url_rule(rule, name or "page", lambda a, b, c, page=page: page(), methods=methods)
    return Site(app, cookie=_cookie(app))


def _cookie(app: Any) -> str:
    """Log ann in; return the cookie of the session."""
    _, headers, _ = get(app, environ(f"{PLACE}/login"))
    return next(value for name, value in headers if name.lower() == "set-cookie").partition(";")[0]


SITES = {"pipeline": pipeline, "Pyramid": pyramid, "Falcon": falcon, "wheezy.web": wheezy, "Flask": flask}
PACKAGES = {"wheezy.web": "wheezy", "pipeline": "pipeline"}
"""The module that must be importable, where it is not the name in small letters."""


def contenders(name: str, site: Site, kinds: Mapping[str, Kind] = KINDS) -> dict[str, Contender]:
    """The application that answers each kind of request, by the name of the row."""
    made = {}
    for row, kind in kinds.items():
        if name in kind.without or (kind.path.endswith("/user") and not site.cookie):
            continue
        app = site.logged if "log" in row else site.app
        more = {"HTTP_COOKIE": site.cookie} if kind.path.endswith("/user") else {}
        address = site.static if kind.path.startswith("/static") else ""
        if kind.status == "304":
            _, headers, _ = get(app, kind.environ(address))
            names = {name.lower(): value for name, value in headers}
            more = {"HTTP_IF_MODIFIED_SINCE": names["last-modified"]}
            if "etag" in names:
                more = {"HTTP_IF_NONE_MATCH": names["etag"]}
        if kind.status == "206":
            more = {"HTTP_RANGE": f"bytes=0-{len(kind.body or b'') - 1}"}
        body = kind.body
        if row == "JSON":  # each writes its blanks as it likes
            body = get(app, kind.environ())[2]
            if json.loads(body) != request_site.ITEMS:
                raise SystemExit(f"{name} answered {body!r}, not {JSON!r}")
        made[row] = Contender(name, app, kind.environ(address, more), body, status=kind.status)
    return made


PASSES = 5
"""Each row is measured so often, one after the other, so that rows can be compared on a busy machine too."""


def requests(rounds: int = 100, seconds: float = 0.005, names: tuple[str, ...] = ()) -> Result:
    logging.disable(logging.CRITICAL)
    found = [name for name in SITES if (not names or name in names) and find_spec(PACKAGES.get(name, name.lower()))]
    sites = {name: contenders(name, SITES[name]()) for name in found}
    taken: dict[str, dict[str, list[float]]] = {row: {} for row in KINDS}
    for _ in range(PASSES):
        for row, times in taken.items():
            figures = compare([made[row] for made in sites.values() if row in made], -(-rounds // PASSES), seconds)
            for name, figure in figures.items():
                times.setdefault(name, []).extend(figure.rounds)
    rows = {row: {name: Figure.of(found) for name, found in times.items()} for row, times in taken.items()}
    return {"requests": Table("What clients really send, in process", "µs", rows)}
