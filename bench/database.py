"""The peers with an object database: a page out of a persistent tree, read, and written."""

from __future__ import annotations

import tempfile
from typing import Any

from bench.contenders import Count, load_ini
from bench.measure import Contender, environ

OURS = """
[pipeline:main]
pipeline = vhost retry zodb errors transaction forms authenticate traverse publisher

[filter:vhost]
use = egg:wsgi-pipeline#vhost

[filter:retry]
use = egg:wsgi-pipeline#retry

[filter:zodb]
use = egg:wsgi-pipeline#zodb
get uri = zodb_uri
root = bench.site:make_tree

[filter:errors]
use = egg:wsgi-pipeline#errors

[filter:transaction]
use = egg:wsgi-pipeline#transaction

[filter:forms]
use = egg:wsgi-pipeline#forms

[filter:authenticate]
use = egg:wsgi-pipeline#authenticate
check = bench.site:check

[filter:traverse]
use = egg:wsgi-pipeline#traverse

[app:publisher]
use = egg:wsgi-pipeline#publisher
scan = bench.site
"""


def uri() -> str:
    return f"file://{tempfile.mkdtemp(prefix='bench-')}/Data.fs"


def ours(count: Count) -> Any:
    from bench import site

    site.ran = count
    return load_ini(OURS, zodb_uri=uri())


def pyramid(count: Count) -> Any:
    """Pyramid with pyramid_tm, pyramid_retry and pyramid_zodbconn."""
    from pyramid.config import Configurator
    from pyramid.response import Response
    from pyramid_zodbconn import get_connection

    from bench.site import Document, make_tree

    def root(request: Any) -> Any:
        return make_tree(get_connection(request).root())

    def page(context: Any, request: Any) -> Any:
        count.ran += 1
        return Response(context.text)

    def write(context: Any, request: Any) -> Any:
        count.ran += 1
        context.hits += 1
        return Response("hello")

    config = Configurator(
        root_factory=root, settings={"zodbconn.uri": uri(), "tm.manager_hook": "pyramid_tm.explicit_manager"}
    )
    for package in ("pyramid_tm", "pyramid_retry", "pyramid_zodbconn"):
        config.include(package)
    config.add_view(page, context=Document)
    config.add_view(write, context=Document, name="write", request_method="POST")
    return config.make_wsgi_app()


def read(name: str, make: Any, path: str = "/a/b/c") -> Contender:
    count = Count()
    return Contender(name, make(count), environ(path), ran=count)


def write(name: str, make: Any, path: str = "/a/b/c/write") -> Contender:
    count = Count()
    return Contender(name, make(count), environ(path, "POST"), ran=count)
