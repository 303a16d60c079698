"""``vhost``: every form from every kind of peer for every kind of host, and nothing from anybody else."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple
from urllib.parse import quote, unquote_to_bytes, urlsplit
from wsgiref.validate import validator

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from paste.deploy import loadapp
from webob import Request as Asked
from webob import Response as Answer

from pipeline import Pipeline, Request, Response, redirect, view
from pipeline.elements.errors import errors
from pipeline.elements.log import log
from pipeline.elements.retry import retry
from pipeline.elements.traverse import traverse
from pipeline.elements.vhost import MOST_TOLD, vhost
from pipeline.http.forwarding import HEADERS, READERS
from pipeline.interfaces import OptionError, OrderError
from pipeline.publisher import publisher

ALL = tuple(READERS)
PROXIES = ("10.0.0.0/8", "2001:db8:0:1::/64", "unix")
VISITOR = "198.51.100.7"


class Folder(dict[str, Any]):
    """A place with a name; equal to itself alone."""

    __parent__: Folder | None = None
    __name__: str | None = None
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    def at(self, *names: str) -> Folder:
        """The folder there, made if need be."""
        place = self
        for name in names:
            if name not in place:
                place[name] = new = Folder()
                new.__parent__, new.__name__ = place, name
            place = place[name]
        return place


ROOT = Folder()
TOP = ROOT.at("sites", "example")
PAGE = TOP.at("a page")
OTHER = ROOT.at("sites", "other")


@view(context=Folder)
def tell(context: Folder, request: Request, response: Response) -> str:
    """What a view sees."""
    environ = request.environ
    response.content_type = "application/json"
    seen = {key: value for key, value in environ.items() if isinstance(value, str)}
    path = []
    while context.__parent__ is not None:
        path.insert(0, context.__name__)
        context = context.__parent__
    return json.dumps(
        {
            "environ": seen,
            "path": path,
            "url": request.absolute_url(request.context),
            "asked": request.url,
            "top": None if request.virtual_root is None else request.virtual_root.__name__,
        }
    )


@view(context=Folder, name="away")
def away(context: Folder, request: Request) -> Any:
    return redirect(request.absolute_url(context))


@view(context=Folder, name="outside")
def outside(context: Folder, request: Request) -> str:
    with pytest.raises(ValueError, match="outside the virtual root"):
        request.absolute_url(OTHER)
    with pytest.raises(ValueError, match="outside the virtual root"):
        request.absolute_url(request.root)
    return request.absolute_url(request.virtual_root, "@@edit")


module = ModuleType("site_of_the_vhost_tests")
for target in (tell, away, outside):
    target.__module__ = module.__name__
    setattr(module, target.__name__, target)


@pytest.fixture(autouse=True, scope="module")
def importable() -> Iterator[None]:
    sys.modules[module.__name__] = module
    yield
    del sys.modules[module.__name__]


def site(*outer: Any, **options: Any) -> Pipeline:
    sys.modules.setdefault(module.__name__, module)
    return Pipeline(
        vhost(**options), *outer, errors(), traverse(root=lambda: ROOT), publisher(scan=(module.__name__,))
    )


def visit(app: Any, path: str = "/", method: str = "GET", **environ: Any) -> Answer:
    """Ask under wsgiref's validator. `path` is percent-encoded, with a query or without."""
    asked = Asked.blank(path, environ, method=method)
    for key, value in environ.items():
        if value is None:
            del asked.environ[key]
    status, headers, body = asked.call_application(validator(app))
    try:
        return Answer(status=status, headerlist=headers, app_iter=list(body))
    finally:
        body.close()


class Address(NamedTuple):
    """What a visitor asked for, and where it is in the database."""

    scheme: str = "https"
    host: str = "www.example.com"
    prefix: tuple[str, ...] = ()
    top: tuple[str, ...] = ("sites", "example")
    path: str = "/a%20page/"


def as_base(a: Address) -> tuple[str, dict[str, str]]:
    shown = "".join(f"/_vh_{quote(name, safe='')}" for name in a.prefix)
    top = "".join(f"/{quote(name, safe='')}" for name in a.top)
    return f"/VirtualHostBase/{a.scheme}/{a.host}{top}/VirtualHostRoot{shown}{a.path}", {}


def as_namespace(a: Address) -> tuple[str, dict[str, str]]:
    shown = "".join(f"/{quote(name, safe='')}" for name in a.prefix)
    top = "".join(f"/{quote(name, safe='')}" for name in a.top)
    return f"{top}/++vh++{a.scheme}:{a.host}{shown}/++{a.path}", {}


def as_vhm(a: Address) -> tuple[str, dict[str, str]]:
    shown = "".join(f"/{quote(name, safe='')}" for name in a.prefix)
    top = "/" + "/".join(a.top)
    return a.path, {
        "HTTP_X_VHM_HOST": f"{a.scheme}://{a.host}{shown}",
        "HTTP_X_VHM_ROOT": top.encode().decode("latin-1"),
    }


def as_forwarded(a: Address) -> tuple[str, dict[str, str]]:
    return a.path, {"HTTP_FORWARDED": f'for={VISITOR};host="{a.host}";proto={a.scheme}'}


def as_x_forwarded(a: Address) -> tuple[str, dict[str, str]]:
    headers = {
        "HTTP_X_FORWARDED_FOR": VISITOR,
        "HTTP_X_FORWARDED_HOST": a.host,
        "HTTP_X_FORWARDED_PROTO": a.scheme,
    }
    if a.prefix:
        headers["HTTP_X_FORWARDED_PREFIX"] = "/" + "/".join(a.prefix).encode().decode("latin-1")
    return a.path, headers


class Form(NamedTuple):
    name: str
    write: Callable[[Address], tuple[str, dict[str, str]]]
    says_top: bool
    says_prefix: bool
    in_path: bool


FORMS = [
    Form("VirtualHostBase", as_base, True, True, True),
    Form("++vh++", as_namespace, True, True, True),
    Form("X-Vhm", as_vhm, True, True, False),
    Form("Forwarded", as_forwarded, False, False, False),
    Form("X-Forwarded", as_x_forwarded, False, True, False),
]
forms = pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
PEERS = {
    "10.1.2.3": True,
    "2001:db8:0:1::9": True,
    "::ffff:10.1.2.3": True,
    "": True,
    "192.0.2.1": False,
    "2001:db8:0:2::9": False,
}
HOSTS = {
    "www.example.com": True,
    "www.example.com:8443": True,
    "sub.example.org": True,
    "192.0.2.80": True,
    "[2001:db8::80]": True,
    "[2001:db8::80]:8443": True,
    "www.example.net": False,
    "192.0.2.81": False,
    "[2001:db8::81]": False,
    "example.com": False,
}
ALLOWED = ("www.example.com", ".example.org", "192.0.2.80", "[2001:db8:0::80]", "backend")


@forms
@pytest.mark.parametrize(("peer", "is_trusted"), PEERS.items())
@pytest.mark.parametrize(("host", "is_allowed"), HOSTS.items())
@pytest.mark.parametrize("prefix", [(), ("docs", "ü")], ids=["bare", "prefix"])
def test_honoured_from_trusted_peers_for_allowed_hosts(
    form: Form, peer: str, is_trusted: bool, host: str, is_allowed: bool, prefix: tuple[str, ...]
) -> None:
    """S9, S13: of other peers the segments are literal and the headers are dropped. Another host is refused."""
    address = Address(host=host, prefix=prefix if form.says_prefix else ())
    if not form.says_top:
        address = address._replace(top=(), path="/sites/example/a%20page/")
    path, headers = form.write(address)
    app = site(trusted=PROXIES, accept=(form.name,), allowed_hosts=ALLOWED)
    answer = visit(app, path, REMOTE_ADDR=peer, HTTP_HOST="backend", **headers)
    if is_trusted and not is_allowed:
        assert (answer.status_int, answer.text) == (400, "This host is not served here.\n")
        return
    if not is_trusted:
        if form.in_path:
            assert answer.status_int == 404
            return
        assert answer.status_int == (404 if form.says_top else 200)
        answer = visit(app, "/sites/", REMOTE_ADDR=peer, HTTP_HOST="backend", **headers)
        seen = answer.json["environ"]
        assert answer.json["url"] == "http://backend/sites"
        assert (seen["HTTP_HOST"], seen["REMOTE_ADDR"], seen["SCRIPT_NAME"]) == ("backend", peer, "")
        assert not set(HEADERS) & set(seen)
        return
    seen = answer.json["environ"]
    shown = "".join(f"/{quote(name)}" for name in address.prefix)
    name, _, port = host.rpartition(":") if host[-1] != "]" and ":" in host else (host, "", "443")
    below = "/a%20page" if form.says_top else "/sites/example/a%20page"
    assert answer.json["url"] == f"https://{host}{shown}{below}"
    assert answer.json["asked"] == answer.json["url"] + "/"
    assert answer.json["path"] == ["sites", "example", "a page"]
    assert answer.json["top"] == ("example" if form.says_top else None)
    assert (seen["wsgi.url_scheme"], seen["HTTP_HOST"]) == ("https", host)
    assert (seen["SERVER_NAME"], seen["SERVER_PORT"]) == (name, port)
    assert seen["SCRIPT_NAME"].encode("latin-1").decode() == "".join(f"/{name}" for name in address.prefix)
    assert seen["REMOTE_ADDR"] == (VISITOR if "Forwarded" in form.name else peer)
    assert not set(HEADERS) & set(seen)


@forms
def test_honoured_only_if_accepted(form: Form) -> None:
    """S9: what the proxy does not speak, a visitor may have sent through it."""
    others = tuple(name for name in ALL if name != form.name)
    path, headers = form.write(Address(path="/"))
    app = site(trusted=PROXIES, accept=others, allowed_hosts=("*",))
    answer = visit(app, path, REMOTE_ADDR="10.0.0.1", HTTP_HOST="backend", **headers)
    if form.in_path:
        assert answer.status_int == 404
    else:
        assert answer.json["url"] == "http://backend/"
        assert not set(HEADERS) & set(answer.json["environ"])


@pytest.mark.parametrize("option", [{}, {"allowed_hosts": ("backend",)}, {"hosts": {"backend": "/"}}])
@pytest.mark.parametrize("header", HEADERS)
def test_nobody_is_trusted_unless_named(option: dict[str, Any], header: str) -> None:
    """S13."""
    for peer in PEERS:
        answer = visit(site(**option), REMOTE_ADDR=peer, HTTP_HOST="backend", **{header: "/sites"})
        assert answer.json["url"] == "http://backend/"
        assert not set(HEADERS) & set(answer.json["environ"])


MALFORMED: dict[str, list[tuple[str, dict[str, str]]]] = {
    "VirtualHostBase": [
        (path, {})
        for path in (
            "/VirtualHostBase/",
            "/VirtualHostBase/https",
            "/VirtualHostBase/VirtualHostRoot/www.example.com/",
            "/VirtualHostBase/ftp/www.example.com/VirtualHostRoot/",
            "/VirtualHostBase//www.example.com/VirtualHostRoot/",
            "/VirtualHostBase/https//VirtualHostRoot/",
            "/VirtualHostBase/https/www.example.com:0/VirtualHostRoot/",
            "/VirtualHostBase/https/www.example.com:x/VirtualHostRoot/",
            "/VirtualHostBase/https/[::1/VirtualHostRoot/",
            "/VirtualHostBase/https/user@www.example.com/VirtualHostRoot/",
            "/VirtualHostBase/https/www.example.com:x/sites",
            "/VirtualHostBase/https/www.example.com/../VirtualHostRoot/",
            "/VirtualHostBase/https/www.example.com/./VirtualHostRoot/",
            "/VirtualHostBase/https/www.example.com/_x/VirtualHostRoot/",
            "/VirtualHostBase/https/www.example.com/%FF/VirtualHostRoot/",
            "/VirtualHostBase/https/www.example.com/%00/VirtualHostRoot/",
            "/VirtualHostBase/https/www.example.com/VirtualHostRoot/_vh_/",
            "/VirtualHostBase/https/www.example.com/VirtualHostRoot/_vh_../",
            "/VirtualHostBase/https/www.example.com/VirtualHostRoot/_vh_%FF/",
            "/VirtualHostBase/https/www.example.com/VirtualHostRoot/_vh_%00/",
        )
    ],
    "++vh++": [
        (path, {})
        for path in (
            "/++vh++https:www.example.com:443/",
            "/++vh++https:www.example.com:443/+/",
            "/++/++vh++https:www.example.com:443/",
            "/++vh++https/++/",
            "/++vh++https:/++/",
            "/++vh++:www.example.com/++/",
            "/++vh++gopher:www.example.com:70/++/",
            "/++vh++https:www.example.com:443:1/++/",
            "/++vh++https:[::1:443/++/",
            "/++vh++https:www.example.com:443//++/",
            "/++vh++https:www.example.com:443/../++/",
            "/_x/++vh++https:www.example.com:443/++/",
            "/%FF/++vh++https:www.example.com:443/++/",
        )
    ],
    "X-Vhm": [
        *(
            ("/", {"HTTP_X_VHM_HOST": value})
            for value in (
                "www.example.com",
                "//www.example.com",
                "ftp://www.example.com",
                "https://",
                "https:///x",
                "https://www.example.com:x/",
                "https://user@www.example.com/",
                "https://www.example.com?x",
                "https://www.example.com/a//b",
                "https://www.example.com/../x",
                "https://www.example.com/%FF",
                "https://www.example.com/%00",
                "https://www.example.com, https://www.example.com",
            )
        ),
        *(
            ("/", {"HTTP_X_VHM_ROOT": value})
            for value in ("sites", "/sites/..", "/_x", "/\xff", "/./sites", "/sites\0")
        ),
    ],
    "Forwarded": [
        ("/", {"HTTP_FORWARDED": value})
        for value in (
            "for",
            "for=;host=www.example.com",
            'host="www.example.com',
            "host=www.example.com;host=www.example.com",
            "host=a_b.-",
            'host="www.example.com, www.example.com"',
            'host="www.example.com:x"',
            "proto=ftp",
            "for=nonsense",
            'for="[::1"',
            "for=192.0.2.1, for=(",
        )
    ],
    "X-Forwarded": [
        ("/", headers)
        for headers in (
            {"HTTP_X_FORWARDED_HOST": "a b"},
            {"HTTP_X_FORWARDED_HOST": "[::1"},
            {"HTTP_X_FORWARDED_PROTO": "javascript"},
            {"HTTP_X_FORWARDED_PORT": "x"},
            {"HTTP_X_FORWARDED_PORT": "0"},
            {"HTTP_X_FORWARDED_FOR": "nonsense"},
            {"HTTP_X_FORWARDED_PREFIX": "docs"},
            {"HTTP_X_FORWARDED_PREFIX": "//evil.example//x"},
            {"HTTP_X_FORWARDED_PREFIX": "/../x"},
            {"HTTP_X_FORWARDED_PREFIX": "/\xff"},
        )
    ],
}


@pytest.mark.parametrize(
    ("name", "path", "headers"), [(name, *case) for name, cases in MALFORMED.items() for case in cases]
)
@pytest.mark.parametrize(("peer", "is_trusted"), PEERS.items())
def test_malformed_is_400(name: str, path: str, headers: dict[str, str], peer: str, is_trusted: bool) -> None:
    """S9; of others than trusted peers it is nothing at all."""
    app = site(trusted=PROXIES, accept=(name,), allowed_hosts=("*",))
    answer = visit(app, path, REMOTE_ADDR=peer, HTTP_HOST="backend", **headers)
    if is_trusted:
        assert answer.status_int == 400
    elif headers:
        assert answer.json["url"] == "http://backend/"
    else:
        assert answer.status_int in (400, 404), "as traversal has it"
        assert "proxy" not in answer.text


def test_redirects_and_the_slash_are_those_of_the_visitor() -> None:
    app = site(trusted=PROXIES, accept=ALL, allowed_hosts=("www.example.com", "backend"))
    for form in FORMS:
        prefix = ("docs",) if form.says_prefix else ()
        shown = "/docs" if prefix else ""
        below = "/a%20page" if form.says_top else "/sites/example/a%20page"
        for path, location in (
            (f"{below}", f"{shown}{below}/"),
            (f"{below}?x=1", f"{shown}{below}/?x=1"),
            (f"{below}/away", f"https://www.example.com{shown}{below}"),
        ):
            address = Address(prefix=prefix, path=path)
            path, headers = form.write(address)
            answer = visit(app, path, REMOTE_ADDR="10.0.0.1", HTTP_HOST="backend", **headers)
            assert (answer.status_int, answer.headers["Location"]) == (302, location)


def test_the_top_without_a_slash_is_redirected_to_the_one_with_it() -> None:
    app = site(trusted=PROXIES, accept=ALL, allowed_hosts=("*",))
    for form in FORMS[:2]:
        path, headers = form.write(Address(prefix=("docs",), path=""))
        answer = visit(app, path, REMOTE_ADDR="10.0.0.1", HTTP_HOST="backend", **headers)
        assert (answer.status_int, answer.headers["Location"]) == (302, "/docs/")
    answer = visit(app, "/VirtualHostBase/http/a/sites/VirtualHostRoot", REMOTE_ADDR="")
    assert answer.json["url"] == "http://a/", "a site on a host of its own has no address without it"


def test_objects_outside_of_the_virtual_root_have_no_url() -> None:
    app = site(trusted=PROXIES, accept=ALL, hosts={"www.example.com": "/sites/example"})
    answer = visit(app, "/outside", HTTP_HOST="www.example.com")
    assert answer.text == "http://www.example.com/@@edit"


def test_before_traversal_urls_are_made_by_the_names() -> None:
    """Error views may need them, too."""
    request = Request(Asked.blank("/").environ)
    request.virtual_root_path = ("sites", "example")
    assert request.absolute_url(PAGE) == "http://localhost/a%20page"
    assert request.absolute_url(TOP) == "http://localhost/"
    for place in (OTHER, ROOT, TOP.__parent__):
        with pytest.raises(ValueError, match="outside the virtual root"):
            request.absolute_url(place)


@pytest.mark.parametrize("name", ["_x", "..", ".", "a/b", "a\0b", "@@edit", "++item++x", "", "\ud800"])
def test_what_traversal_would_not_find_has_no_url(name: str) -> None:
    place = Folder()
    place.__parent__, place.__name__ = ROOT, name
    with pytest.raises(ValueError):
        Request(Asked.blank("/").environ).absolute_url(place)


def test_only_the_first_form_in_a_path_counts() -> None:
    """S16: the rest came from the visitor, and is literal."""
    app = site(trusted=PROXIES, accept=ALL, allowed_hosts=("*",))
    for form in FORMS[:2]:
        for path in (
            "/VirtualHostBase/http/evil/sites/VirtualHostRoot/",
            "/VirtualHostRoot/",
            "/++vh++http:evil:80/++/",
            "/x/_vh_evil/",
        ):
            path, headers = form.write(Address(path=path))
            assert visit(app, path, REMOTE_ADDR="10.0.0.1", **headers).status_int == 404


def test_path_forms_count_more_than_headers() -> None:
    """A proxy that rewrites the path may pass on headers as well."""
    app = site(trusted=PROXIES, accept=ALL, allowed_hosts=("*",))
    path, _ = as_base(Address())
    said = as_x_forwarded(Address(host="inner", scheme="http", prefix=("inner",)))[1]
    answer = visit(app, path, REMOTE_ADDR="10.0.0.1", **said).json
    assert answer["url"] == "https://www.example.com/a%20page"
    assert answer["environ"]["REMOTE_ADDR"] == VISITOR
    said["HTTP_FORWARDED"] = "for=192.0.2.99;host=middle"
    answer = visit(app, "/sites/", REMOTE_ADDR="10.0.0.1", **said).json
    assert answer["url"] == "http://middle/inner/sites"
    assert answer["environ"]["REMOTE_ADDR"] == "192.0.2.99"


@pytest.mark.parametrize(
    ("headers", "url", "client"),
    [
        # what the nearest proxy wrote stands last; what the visitor may have written, first
        ({"FOR": "6.6.6.6, 192.0.2.1", "HOST": "evil.example, www.example.com"},
         "http://www.example.com", "192.0.2.1"),
        # two proxies: that of the farther one, which is the outer
        ({"FOR": "192.0.2.1, 10.0.0.2", "HOST": "www.example.com, inner"},
         "http://www.example.com", "192.0.2.1"),
        ({"FOR": "6.6.6.6, 192.0.2.1, 10.0.0.2", "HOST": "evil.example, www.example.com, inner"},
         "http://www.example.com", "192.0.2.1"),
        # two proxies, of which one replaces the header
        ({"FOR": "192.0.2.1, 10.0.0.2", "HOST": "www.example.com"}, "http://www.example.com", "192.0.2.1"),
        ({"PROTO": "https"}, "https://backend", "10.0.0.1"),
        ({"PROTO": "http,https", "FOR": "6.6.6.6,192.0.2.1"}, "https://backend", "192.0.2.1"),
        ({"PORT": "8080"}, "http://backend:8080", "10.0.0.1"),
        ({"PORT": "443", "PROTO": "https", "HOST": "www.example.com"}, "https://www.example.com", "10.0.0.1"),
        ({"PORT": "443", "PROTO": "https", "HOST": "a:8443"}, "https://a:8443", "10.0.0.1"),
        ({"HOST": "[::1]", "PORT": "8080"}, "http://[::1]:8080", "10.0.0.1"),
        ({"PREFIX": "/docs/"}, "http://backend/docs", "10.0.0.1"),
        ({"PREFIX": "/"}, "http://backend", "10.0.0.1"),
        ({"FOR": "[2001:db8::7]:4711"}, "http://backend", "2001:db8::7"),
        ({"FOR": "unknown"}, "http://backend", "unknown"),
        # empty members of a list
        ({"FOR": "192.0.2.1,", "HOST": "www.example.com,"}, "http://www.example.com", "192.0.2.1"),
        ({"FOR": "6.6.6.6,, 192.0.2.1", "HOST": "evil.example, ,www.example.com"},
         "http://www.example.com", "192.0.2.1"),
        ({"FOR": " , ", "HOST": ","}, "http://backend", "10.0.0.1"),
        # an ingress behind the balancer that ends TLS
        ({"PORT": "80", "PROTO": "HTTPS", "HOST": "www.example.com"}, "https://www.example.com", "10.0.0.1"),
    ],
)  # fmt: skip
def test_x_forwarded(headers: dict[str, str], url: str, client: str) -> None:
    app = site(trusted=PROXIES, accept=("X-Forwarded",), allowed_hosts=("*",))
    said = {f"HTTP_X_FORWARDED_{name}": value for name, value in headers.items()}
    answer = visit(app, HTTP_HOST="backend", REMOTE_ADDR="10.0.0.1", REMOTE_PORT="1", REMOTE_HOST="x", **said)
    assert answer.json["url"] == url + "/"
    assert answer.json["environ"]["REMOTE_ADDR"] == client
    assert ("REMOTE_PORT" in answer.json["environ"]) is (client == "10.0.0.1"), "none of another address"


@pytest.mark.parametrize(
    ("header", "url", "client"),
    [
        ("for=6.6.6.6;host=evil.example, for=192.0.2.1;host=www.example.com",
         "http://www.example.com", "192.0.2.1"),
        ("for=192.0.2.1;host=www.example.com;proto=https, for=10.0.0.2;host=inner",
         "https://www.example.com", "192.0.2.1"),
        ("host=www.example.com", "http://www.example.com", "10.0.0.1"),
        ("host=evil.example;for=6.6.6.6, proto=https", "https://backend", "10.0.0.1"),
        ('for="[2001:db8::7]:4711";host="[2001:db8::80]:8080"', "http://[2001:db8::80]:8080", "2001:db8::7"),
        ("for=_secret", "http://backend", "unknown"),
    ],
)  # fmt: skip
def test_forwarded(header: str, url: str, client: str) -> None:
    app = site(trusted=PROXIES, accept=("Forwarded",), allowed_hosts=("*",))
    answer = visit(app, HTTP_HOST="backend", REMOTE_ADDR="10.0.0.1", HTTP_FORWARDED=header)
    assert answer.json["url"] == url + "/"
    assert answer.json["environ"]["REMOTE_ADDR"] == client


def test_vh_namespace_without_a_host_says_where_the_top_is() -> None:
    app = site(trusted=PROXIES, accept=("++vh++",), allowed_hosts=("*",))
    answer = visit(app, "/sites/++vh++/docs/++/example/", REMOTE_ADDR="", HTTP_HOST="www.example.com")
    assert answer.json["url"] == "http://www.example.com/docs/example"


def test_without_a_root_only_scheme_and_host_are_said() -> None:
    """As Zope's VirtualHostMonster has it: the rest of the path is walked from where the table of hosts says."""
    options = {"trusted": PROXIES, "accept": ("VirtualHostBase",)}
    app = site(allowed_hosts=("*",), **options)
    for path, url in {
        "/VirtualHostBase/https/www.example.com:443/sites/example/": "https://www.example.com/sites/example",
        "/VirtualHostBase/https/www.example.com:8443/": "https://www.example.com:8443/",
        "/VirtualHostBase/http/www.example.com": "http://www.example.com/",
    }.items():
        answer = visit(app, path, REMOTE_ADDR="10.0.0.1", HTTP_HOST="backend")
        assert (answer.status_int, answer.json["url"]) == (200, url)
        assert answer.json["top"] is None
    app = site(hosts={"www.example.com": "/sites/example"}, **options)
    answer = visit(app, "/VirtualHostBase/http/www.example.com/a%20page/", REMOTE_ADDR="")
    assert (answer.json["url"], answer.json["top"]) == ("http://www.example.com/a%20page", "example")


@pytest.mark.parametrize("shown", ["", "_vh_docs/", "_vh_docs/_vh_more/"])
def test_an_empty_segment_ends_what_the_proxy_wrote(shown: str) -> None:
    """S9: a ``_vh_`` segment behind it came from the visitor, and is a name like any other (S3)."""
    app = site(trusted=PROXIES, accept=("VirtualHostBase",), allowed_hosts=("*",))
    line = f"/VirtualHostBase/https/www.example.com:443/sites/example/VirtualHostRoot/{shown}/"
    prefix = shown.replace("_vh_", "")
    answer = visit(app, f"{line}a%20page/", REMOTE_ADDR="10.0.0.1")
    assert answer.json["asked"] == f"https://www.example.com/{prefix}a%20page/"
    assert visit(app, line, REMOTE_ADDR="10.0.0.1").json["asked"] == f"https://www.example.com/{prefix}"
    for path in ("_vh_x/a%20page/", "_vh_x", "/_vh_x/a%20page/"):
        assert visit(app, line + path, REMOTE_ADDR="10.0.0.1").status_int == 404


@pytest.mark.parametrize("form", [form for form in FORMS if "Forwarded" in form.name], ids=lambda form: form.name)
@pytest.mark.parametrize(
    ("forwarded", "host", "said"),
    [
        ("evil.example", "backend", "This host is not served here."),
        ("www.example.com:x", "backend", "The address that a proxy passed on is malformed: not a port number."),
        ("www.example.com", "a, b", "The request needs one valid Host."),
    ],
)
def test_a_refused_host_hides_no_visitor(
    form: Form, forwarded: str, host: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """S9: the visitor chooses the host, and the proxy says the address. It counts, whatever host was chosen."""
    caplog.set_level(logging.INFO, logger="pipeline.access")
    app = log()(site(trusted=PROXIES, accept=(form.name,), allowed_hosts=("www.example.com", "backend")))
    _, headers = form.write(Address(host=forwarded))
    answer = visit(app, "/sites/", REMOTE_ADDR="10.0.0.1", REMOTE_PORT="1", HTTP_HOST=host, **headers)
    assert (answer.status_int, answer.text) == (400, f"{said}\n")
    [line] = [record.getMessage() for record in caplog.records if record.name == "pipeline.access"]
    assert line.startswith(f"{VISITOR} - - ")


def test_why_headers_are_dropped_is_said_once_for_each_peer(caplog: pytest.LogCaptureFixture) -> None:
    """S13: what is dropped without a word, nobody finds."""
    _, headers = as_x_forwarded(Address())
    app = site()
    for peer in ("127.0.0.1", "127.0.0.1", "192.0.2.1", ""):
        visit(app, "/sites/", REMOTE_ADDR=peer, HTTP_HOST="backend", **headers)
    said = [record.getMessage() for record in caplog.records if record.name == "pipeline.vhost"]
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 3
    assert said[0] == (
        "vhost: the X-Forwarded headers that 127.0.0.1 sends are dropped, since the option 'trusted' does not "
        "name that peer. If it is your proxy, which writes these headers itself, put 127.0.0.1 into trusted, "
        "X-Forwarded into accept. If not, a visitor sent them, and nothing needs to be done."
    )
    assert "put unix into trusted" in said[2]

    caplog.clear()
    app = site(trusted=PROXIES, accept=("X-Forwarded",), allowed_hosts=("*",))
    visit(app, REMOTE_ADDR="10.0.0.1", **headers)
    assert caplog.records == []
    visit(app, REMOTE_ADDR="10.0.0.1", HTTP_FORWARDED="for=192.0.2.1")
    assert "since the option 'accept' does not name that form" in caplog.text
    assert "put Forwarded into accept" in caplog.text

    caplog.clear()
    for number in range(200):
        visit(app, REMOTE_ADDR=f"192.0.2.{number}", **headers)
    assert len(caplog.records) <= MOST_TOLD, "a scan of the site does not fill the log"


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("www.example.com", "http://www.example.com/"),
        ("WWW.example.com:80", "http://WWW.example.com/"),
        ("www.example.com:8080", "http://www.example.com:8080/"),
        ("[2001:db8::80]:81", "http://[2001:db8::80]:81/"),
        ("deep.sub.example.org", "http://deep.sub.example.org/"),
        ("plain", "http://plain/sites/example"),
        ("www.example.net", None),
    ],
)
def test_the_table_of_hosts(host: str, url: str | None) -> None:
    app = site(
        hosts={
            "www.example.com": "/sites/example",
            "[2001:db8::80]:81": "/sites/example",
            ".example.org": "sites/example".join(("/", "/")),
        },
        allowed_hosts=("plain",),
    )
    for _ in range(2):  # what is found out once is remembered
        answer = visit(app, "/" if host != "plain" else "/sites/example/", HTTP_HOST=host)
        if url is None:
            assert answer.status_int == 400
        else:
            assert answer.json["url"] == url
            assert answer.json["path"] == ["sites", "example"]


def test_a_form_may_name_a_host_of_the_table() -> None:
    app = site(trusted=PROXIES, accept=ALL, hosts={"www.example.com": "/sites/example"}, allowed_hosts=("backend",))
    for form in FORMS[3:]:
        path, headers = form.write(Address())
        answer = visit(app, path, HTTP_HOST="backend", REMOTE_ADDR="10.0.0.1", **headers).json
        assert (answer["url"], answer["top"]) == ("https://www.example.com/a%20page", "example")
    path, headers = as_vhm(Address(top=("sites", "other"), path="/"))
    answer = visit(app, path, HTTP_HOST="backend", REMOTE_ADDR="10.0.0.1", **headers).json
    assert answer["top"] == "other", "what is said counts more"


def test_a_top_that_is_not_there_is_404() -> None:
    app = site(hosts={"www.example.com": "/sites/missing"})
    for path in ("/", "/a/b", "/@@tell"):
        assert visit(app, path, HTTP_HOST="www.example.com").status_int == 404


HOST_PORTS = ["www.example.com", "www.example.com:8080", "127.0.0.1", "[::1]", "[::1]:8080"]


@pytest.mark.parametrize("host", HOST_PORTS)
def test_any_valid_host_is_served_unless_some_are_named(host: str) -> None:
    """S10."""
    assert visit(site(), HTTP_HOST=host).json["url"] == f"http://{host}/"
    assert visit(site(allowed_hosts=("*",)), HTTP_HOST=host).json["url"] == f"http://{host}/"
    assert visit(site(allowed_hosts=("other",)), HTTP_HOST=host).status_int == 400


@pytest.mark.parametrize(
    "host",
    ["", None, "a,a", "a, b", "a b", "a/b", "u@a", "a:b", "a:0", "[::1", "a\\b", "a?b", "a#b", "a..", "\xe4"],
)
def test_one_valid_host_or_400(host: str | None) -> None:
    """S10: waitress joins two Host headers with a comma."""
    for options in ({}, {"allowed_hosts": ("*",)}, {"hosts": {"a": "/sites"}}):
        app = site(**options)
        for _ in range(2):
            answer = visit(app, HTTP_HOST=host)
            assert answer.status_int == 400
            assert answer.text == "The request needs one valid Host.\n"


def test_a_host_of_a_given_port() -> None:
    app = site(allowed_hosts=("www.example.com:8080",))
    assert visit(app, HTTP_HOST="www.example.com:8080").status_int == 200
    assert visit(app, HTTP_HOST="www.example.com").status_int == 400
    assert visit(app, HTTP_HOST="www.example.com:80").status_int == 400


def test_the_host_is_checked_also_when_forms_are_used() -> None:
    """S10: of a proxy that says nothing of the host, or of one that sends two."""
    app = site(trusted=PROXIES, accept=ALL, allowed_hosts=("www.example.com",))
    said = {"REMOTE_ADDR": "10.0.0.1", "HTTP_X_FORWARDED_PROTO": "https"}
    assert visit(app, HTTP_HOST="www.example.com", **said).status_int == 200
    assert visit(app, HTTP_HOST="evil.example", **said).status_int == 400
    assert visit(app, HTTP_HOST="www.example.com,www.example.com", **said).status_int == 400


def test_hosts_are_not_remembered_without_bound() -> None:
    element = vhost()
    handler = element.factory(lambda request, response: None)
    cells: Any = handler.__closure__  # type: ignore[attr-defined]
    kept = next(cell.cell_contents for cell in cells if isinstance(cell.cell_contents, set))
    for number in range(3000):
        handler(Request(Asked.blank("/", environ={"HTTP_HOST": f"a{number}"}).environ), Response())
        assert len(kept) < 1100
    assert kept


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"trusted": ("127.0.0.1",)}, "trusted and accept go together"),
        ({"accept": ("Forwarded",)}, "trusted and accept go together"),
        ({"trusted": ("127.0.0.1",), "accept": ("Forwarded",)}, "name the allowed_hosts too"),
        ({"trusted": ("localhost",), "accept": ("Forwarded",), "allowed_hosts": ("*",)},
         "'trusted': 'localhost'"),
        ({"trusted": ("::1",), "accept": ("Forwarted",), "allowed_hosts": ("*",)},
         "forwarted is not one of X-Forwarded, Forwarded"),
        ({"allowed_hosts": ("http://www.example.com",)}, "'http://www.example.com' is not a host"),
        ({"allowed_hosts": ("*.example.com",)}, r"'\*.example.com' is not a host.*; \.a\.example is all below"),
        ({"allowed_hosts": (".example.com:80",)}, "leave the port out"),
        ({"hosts": {"www.example.com": "sites"}}, "it must start with a slash"),
        ({"hosts": {"www.example.com": "/_sites"}}, "not a path to an object"),
        ({"hosts": {"www.example.com": "/../sites"}}, "not a path to an object"),
        ({"hosts": {"www example.com": "/"}}, "is not a host"),
    ],
)  # fmt: skip
def test_wrong_options_are_refused_at_load(options: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        site(**options)


def test_from_an_ini(tmp_path: Path) -> None:
    ini = tmp_path / "site.ini"
    ini.write_text(
        "[pipeline:main]\npipeline = vhost traverse publisher\n"
        "[filter:vhost]\npaste.filter_factory = pipeline.elements.vhost:vhost\n"
        "trusted = 127.0.0.1 ::1\n    unix\naccept = x-forwarded VirtualHostBase\nallowed_hosts = backend\n"
        "hosts = www.example.com = /sites/example\n    [2001:db8::80]:81 = /sites/example\n"
        "[filter:traverse]\npaste.filter_factory = pipeline.elements.traverse:traverse\n"
        f"root = {module.__name__}:root\n"
        "[app:publisher]\npaste.app_factory = pipeline.publisher:publisher\n"
        f"scan = {module.__name__}\n"
    )
    module.root = lambda: ROOT  # type: ignore[attr-defined]
    app = loadapp(f"config:{ini}")
    for host in ("www.example.com", "[2001:db8::80]:81"):
        assert visit(app, "/a%20page/", HTTP_HOST=host).json["url"] == f"http://{host}/a%20page"
    path, headers = as_x_forwarded(Address())
    answer = visit(app, path, HTTP_HOST="backend", REMOTE_ADDR="", **headers)
    assert answer.json["url"] == "https://www.example.com/a%20page"


def test_outside_of_retry_and_traverse() -> None:
    with pytest.raises(OrderError, match="rewritten once"):
        Pipeline(retry(), vhost(), traverse(root=dict), publisher())
    with pytest.raises(OrderError, match="where traversal starts"):
        Pipeline(traverse(root=dict), vhost(), publisher())


def test_around_a_foreign_app() -> None:
    """The path to the top is told to nobody: an app of others has its own root."""

    def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [Asked(environ).url.encode()]

    wrapped = vhost(trusted=PROXIES, accept=ALL, allowed_hosts=("*",))(app)
    path, headers = as_base(Address(prefix=("docs",)))
    answer = visit(wrapped, path, REMOTE_ADDR="10.0.0.1", **headers)
    assert answer.text == "https://www.example.com/docs/a%20page/"


def test_a_foreign_middleware_between_vhost_and_traverse_may_copy_the_environ() -> None:
    def copying(app: Any) -> Any:
        return lambda environ, start_response: app(dict(environ), start_response)

    answer = visit(site(copying, hosts={"a": "/sites/example"}), "/a%20page/", HTTP_HOST="a")
    assert (answer.json["url"], answer.json["top"]) == ("http://a/a%20page", "example")


# Every URL that is made leads back to the same object, by the same rewriting.

_names = st.text(min_size=1, max_size=8).filter(
    lambda name: name[0] not in "_@+" and name not in (".", "..") and not {"/", "\0"} & set(name)
)
_names = _names.filter(lambda name: name.isprintable() or name.isspace()) | st.sampled_from(
    ["ü", "%2F", "a%", "a+b", "a;b", "a?b#c", "...", "VirtualHostRoot", "VirtualHostBase", "x_vh_y", "+", "@"]
)
_hosts = st.sampled_from(["www.example.com", "www.example.com:8443", "192.0.2.80", "[::1]", "[::1]:81"])


@given(
    form=st.sampled_from([*FORMS, None]),
    scheme=st.sampled_from(["http", "https"]),
    host=_hosts,
    prefix=st.lists(_names, max_size=2),
    top=st.lists(_names, max_size=3),
    below=st.lists(_names, max_size=4),
    slash=st.booleans(),
)
def test_every_url_that_is_made_leads_back(
    form: Form | None,
    scheme: str,
    host: str,
    prefix: list[str],
    top: list[str],
    below: list[str],
    slash: bool,
) -> None:
    """For all forms, and for the table (form None)."""
    if form is None:
        scheme = "http"
    if form is None or not form.says_prefix:
        prefix = []
    if form is not None and form.name in ("VirtualHostBase", "++vh++"):
        # a proxy that knows its own words does not use them as names
        assume("VirtualHostRoot" not in top and "++" not in prefix)
    if form is not None and form.name == "X-Forwarded" and prefix:
        assume(prefix[-1] == prefix[-1].strip(" \t"))  # blanks at the end of a header are not part of it
        assume("," not in "".join(prefix))  # the header is a list
    root = Folder()
    context = root.at(*top, *below)
    table = form is None or not form.says_top
    app = Pipeline(
        vhost(
            trusted=PROXIES,
            accept=(form.name,) if form else ("Forwarded", "X-Forwarded", "X-Vhm"),
            allowed_hosts=("*",),
            hosts={host: "/" + "/".join(top)} if table else None,
        ),
        traverse(root=lambda: root, max_segments=20, slash_redirect=False),
        find(found := []),
    )

    def follow(url: str) -> None:
        """Go to the URL as the visitor, through the proxy."""
        parts = urlsplit(url)
        assert (parts.scheme, parts.netloc) == (scheme, host)
        shown = "".join(f"/{quote(name, safe='')}" for name in prefix)
        path = parts.path
        assert unquote_to_bytes(path).startswith(unquote_to_bytes(shown))
        if prefix:  # all of them cut it off, or say so
            path = "/" + "/".join(path.split("/")[len(prefix) + 1 :])
        address = Address(scheme, host, tuple(prefix), tuple(top), path)
        path, headers = form.write(address) if form else (path, {"HTTP_HOST": host})
        environ = {"REMOTE_ADDR": "10.0.0.1", "HTTP_HOST": "backend", **headers}
        answer = Asked.blank(path, environ).get_response(app)
        assert answer.status_int == 200, (path, headers)

    origin = f"{scheme}://{host}"
    shown = "".join(f"/{quote(name, safe='')}" for name in prefix)
    path = "".join(f"/{quote(name, safe='')}" for name in below)
    follow(f"{origin}{shown}{path}{'/' if slash or not below else ''}")
    assert found[-1][0] is context
    url = found[-1][1]
    assert urlsplit(url).netloc == host
    follow(url)
    assert found[-1] == (context, url)


def find(found: list[Any]) -> Any:
    """An end of the pipeline that notes the context and its URL."""

    def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        request: Request = environ["pipeline.request"]
        if request.view_name:
            start_response("404 Not Found", [])
            return []
        found.append((request.context, request.absolute_url(request.context)))
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"found"]

    return app


# Nothing but 4xx comes of what is malformed, and in bounded time.

_values = st.text(st.characters(max_codepoint=255, exclude_characters="\0\r\n"), max_size=60) | st.lists(
    st.sampled_from(
        ["for=", "host=", "proto=", ";", ",", '"', "\\", "[", "]", ":", "::1", "10.0.0.1", "a", "https", "://",
         "/", "..", "80", "@", " ", "%", "_", "unknown"]
    ),
    max_size=12,
).map("".join)  # fmt: skip
_segments = _values | st.sampled_from(
    ["VirtualHostBase", "VirtualHostRoot", "_vh_a", "_vh_", "++vh++http:a:80", "++vh++", "++", "http", "a:80",
     "sites", "..", "_x", ""]
)  # fmt: skip
_hostile = dict.fromkeys((*HEADERS, "HTTP_HOST"), _values)


@given(
    path=st.lists(_segments, max_size=8).map("/".join),
    headers=st.fixed_dictionaries({}, optional=_hostile),
    peer=st.sampled_from(list(PEERS)),
    length=st.none() | st.just("1"),
)
def test_nothing_but_4xx_escapes(path: str, headers: dict[str, str], peer: str, length: str | None) -> None:
    environ = Asked.blank("/").environ
    environ.update(headers, PATH_INFO=f"/{path}", REMOTE_ADDR=peer)
    if length:
        environ.update(CONTENT_LENGTH=length, HTTP_TRANSFER_ENCODING="chunked")
    answer = Asked(environ).get_response(FUZZED)
    assert 200 <= answer.status_int < 500


FUZZED = site(trusted=PROXIES, accept=ALL, allowed_hosts=("*",), hosts={"a": "/sites/example"})
LONG = 100_000


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/VirtualHostBase/http/a" + "/x" * LONG, {}),
        ("/VirtualHostBase/http/a/VirtualHostRoot" + "/_vh_x" * LONG, {}),
        ("/++vh++" * LONG, {}),
        ("/++vh++http:a:80" + "/x" * LONG, {}),
        ("/", {"HTTP_X_VHM_HOST": "http://a" + "/x" * LONG}),
        ("/", {"HTTP_X_VHM_ROOT": "/x" * LONG}),
        ("/", {"HTTP_FORWARDED": "for=10.0.0.1," * LONG}),
        ("/", {"HTTP_FORWARDED": 'for="' + "\\a" * LONG}),
        ("/", {"HTTP_X_FORWARDED_FOR": "10.0.0.1," * LONG}),
        ("/", {"HTTP_X_FORWARDED_FOR": "10.0.0.1" + ",10.0.0.1" * LONG}),
        ("/", {"HTTP_X_FORWARDED_PREFIX": "/x" * LONG}),
        ("/", {"HTTP_HOST": "a." * LONG}),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_the_worst_is_read_in_linear_time(path: str, headers: dict[str, str]) -> None:
    """S12: up to a megabyte; what is quadratic takes minutes."""
    environ = Asked.blank("/").environ | {"PATH_INFO": path, "REMOTE_ADDR": "10.0.0.1"} | headers
    start = time.process_time()
    Asked(environ).get_response(FUZZED)
    assert time.process_time() - start < 5


def test_the_table_is_complete() -> None:
    assert {form.name for form in FORMS} == set(READERS) == set(MALFORMED)
    assert len(list(product(FORMS, PEERS, HOSTS))) == 300
