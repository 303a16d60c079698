"""The peers: a page three segments deep, as each of them would serve it. One function for each, which
imports what it needs, so that what is not installed is not measured.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from bench.measure import Contender, environ

PATH = "/a/b/c"


class Count:
    """Counts how often the application's own code ran."""

    def __init__(self) -> None:
        self.ran = 0

    def __call__(self) -> int:
        return self.ran


def contender(name: str, make: Callable[[Count], Any], path: str = PATH) -> Contender:
    count = Count()
    return Contender(name, make(count), environ(path), ran=count)


def bare(count: Count) -> Any:
    def app(environ: Any, start_response: Any) -> list[bytes]:
        count.ran += 1
        start_response("200 OK", [("Content-Type", "text/html; charset=utf-8"), ("Content-Length", "5")])
        return [b"hello"]

    return app


def webob(count: Count) -> Any:
    from webob import Request, Response

    def app(environ: Any, start_response: Any) -> Any:
        count.ran += 1
        return Response("hello")(Request(environ).environ, start_response)

    return app


def wheezy(count: Count) -> Any:
    from wheezy.http import HTTPResponse, WSGIApplication
    from wheezy.routing import url
    from wheezy.web.middleware import bootstrap_defaults, path_routing_middleware_factory

    def page(request: Any) -> Any:
        count.ran += 1
        response = HTTPResponse()
        response.write("hello")
        return response

    routes = [url("{a:word}/{b:word}/{c:word}", page)]
    return WSGIApplication([bootstrap_defaults(url_mapping=routes), path_routing_middleware_factory], {})


def falcon(count: Count) -> Any:
    import falcon as framework

    class Page:
        def on_get(self, request: Any, response: Any, a: str, b: str, c: str) -> None:
            count.ran += 1
            response.content_type = "text/html; charset=utf-8"
            response.text = "hello"

    app = framework.App()
    app.add_route("/{a}/{b}/{c}", Page())
    return app


def bottle(count: Count) -> Any:
    from bottle import Bottle

    app = Bottle()

    @app.route("/<a>/<b>/<c>")
    def page(a: str, b: str, c: str) -> str:
        count.ran += 1
        return "hello"

    return app


def flask(count: Count) -> Any:
    from flask import Flask

    app = Flask(__name__)

    @app.route("/<a>/<b>/<c>")
    def page(a: str, b: str, c: str) -> str:
        count.ran += 1
        return "hello"

    return app


def tree() -> Any:
    """Containers two deep, and a page in them, for publishers that traverse."""
    return Node(a=Node(b=Node(c=Page())))


class Node(dict):  # type: ignore[type-arg]
    """A container."""


class Page:
    """The published object."""


def pyramid(count: Count) -> Any:
    from pyramid.config import Configurator
    from pyramid.response import Response

    root = tree()

    def page(context: Any, request: Any) -> Any:
        count.ran += 1
        return Response("hello")

    config = Configurator(root_factory=lambda request: root)
    config.add_view(page, context=Page)
    return config.make_wsgi_app()


def morepath(count: Count) -> Any:
    import morepath as framework

    class App(framework.App):  # type: ignore[misc]
        pass

    class Model:
        pass

    @App.path(path="/{a}/{b}/{c}", model=Model)
    def get_model(a: str, b: str, c: str) -> Model:
        return Model()

    @App.view(model=Model)
    def page(self: Model, request: Any) -> str:
        count.ran += 1
        return "hello"

    framework.autoscan = lambda: None
    App.commit()
    return App()


def cherrypy(count: Count) -> Any:
    import cherrypy as framework

    class Leaf:
        @framework.expose
        def index(self) -> str:
            count.ran += 1
            return "hello"

        @framework.expose
        def c(self) -> str:
            count.ran += 1
            return "hello"

    root = SimpleNamespace(a=SimpleNamespace(b=Leaf()))
    framework.config.update({"log.screen": False, "environment": "embedded"})
    return framework.Application(root, "", {"/": {"tools.trailing_slash.on": False}})


def zope_publisher(count: Count) -> Any:
    """zope.publisher has no WSGI front of its own; this is the least that makes one."""
    from zope.publisher.base import DefaultPublication
    from zope.publisher.http import HTTPRequest
    from zope.publisher.publish import publish

    class Leaf:
        """Published."""

        def __call__(self, REQUEST: Any) -> str:
            count.ran += 1
            REQUEST.response.setHeader("Content-Type", "text/html;charset=utf-8")
            return "hello"

    leaf = Leaf()
    root = SimpleNamespace(a=SimpleNamespace(b=SimpleNamespace(c=leaf)))
    for node in (root, root.a, root.a.b):
        node.__doc__ = "Published."
    publication = DefaultPublication(root)

    def app(environ: Any, start_response: Any) -> Any:
        request = HTTPRequest(environ["wsgi.input"], environ)
        request.setPublication(publication)
        request = publish(request, handle_errors=False)
        response = request.response
        start_response(response.getStatusString(), response.getHeaders())
        return response.consumeBodyIter()

    return app


def zope(count: Count) -> Any:
    """Zope with its default pipeline less the server: transaction, traversal, security, page."""
    import Zope2
    from OFS.Folder import Folder
    from OFS.SimpleItem import SimpleItem
    from Zope2.Startup.run import make_wsgi_app

    directory = tempfile.mkdtemp(prefix="bench-zope-")
    conf = Path(directory, "zope.conf")
    conf.write_text(
        f"instancehome {directory}\n"
        "<zodb_db main>\n"
        f"  <filestorage>\n    path {directory}/Data.fs\n  </filestorage>\n"
        "  mount-point /\n"
        "</zodb_db>\n"
    )
    app = make_wsgi_app({}, str(conf))

    class Leaf(SimpleItem):
        """Published."""

        meta_type = "Leaf"

        def index_html(self, REQUEST: Any = None) -> str:
            """Published."""
            count.ran += 1
            return "hello"

    globals()["ZopeLeaf"] = Leaf
    Leaf.__name__ = Leaf.__qualname__ = "ZopeLeaf"
    Leaf.__module__ = __name__
    import transaction

    root = Zope2.app()
    root._setObject("a", Folder("a"))
    root.a._setObject("b", Folder("b"))
    leaf = Leaf()
    leaf.id = "c"
    root.a.b._setObject("c", leaf)
    transaction.commit()
    root._p_jar.close()
    return app


OURS = """
[pipeline:main]
pipeline = vhost retry errors forms authenticate traverse publisher

[filter:vhost]
use = egg:wsgi-pipeline#vhost

[filter:retry]
use = egg:wsgi-pipeline#retry

[filter:errors]
use = egg:wsgi-pipeline#errors

[filter:forms]
use = egg:wsgi-pipeline#forms

[filter:authenticate]
use = egg:wsgi-pipeline#authenticate
check = bench.site:check

[filter:traverse]
use = egg:wsgi-pipeline#traverse
root = bench.site:root

[app:publisher]
use = egg:wsgi-pipeline#publisher
scan = bench.site
"""


def ours(count: Count) -> Any:
    """This pipeline without a database, from an ini."""
    from bench import site

    site.ran = count
    return load_ini(OURS)


def load_ini(text: str, name: str = "main", **options: str) -> Any:
    from pipeline.paste import load

    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        ini = Path(directory, "bench.ini")
        ini.write_text(text)
        return load(f"config:{ini}", name, **options)


PEERS = {
    "bare WSGI": bare,
    "WebOb": webob,
    "wheezy.web": wheezy,
    "Falcon": falcon,
    "Bottle": bottle,
    "Flask": flask,
    "Pyramid": pyramid,
    "Morepath": morepath,
    "CherryPy": cherrypy,
    "zope.publisher": zope_publisher,
    "Zope": zope,
    "pipeline": ours,
}
