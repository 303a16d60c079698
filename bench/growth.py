"""The suite ``growth``: what a request to this pipeline costs, against the size of all that can grow."""

from __future__ import annotations

import itertools
import random
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any
from urllib.parse import urlencode

import transaction
from BTrees.OOBTree import OOBTree
from ZODB.DB import DB
from ZODB.FileStorage import FileStorage

from bench.contenders import Count, load_ini
from bench.database import OURS
from bench.measure import App, Contender, Environ, Figure, Result, Table, compare, environ, flat
from bench.site import Document, Node, Page, check
from bench.suites import noop_elements
from pipeline import Pipeline, view
from pipeline.elements.authenticate import authenticate
from pipeline.elements.errors import errors
from pipeline.elements.forms import forms
from pipeline.elements.retry import retry
from pipeline.elements.traverse import traverse
from pipeline.elements.vhost import vhost
from pipeline.interfaces import PUBLIC
from pipeline.publisher import publisher

DEPTHS = (1, 2, 4, 8, 16, 32, 64)
VIEWS = (10, 100, 1_000, 10_000, 100_000)
ELEMENTS = (0, 1, 5, 20, 50, 100)
PATHS = (1, 100, 10_000)
LENGTHS = (1, 10, 100, 1_000, 8_000)
FIELDS = (1, 10, 100, 1_000)
OBJECTS = (10, 1_000, 100_000, 1_000_000)
MANY_PAGES = 20_000
"""More than a connection keeps in memory."""

Made = tuple[App, Environ]


def growth(rounds: int = 300, seconds: float = 0.003) -> Result:
    """Cost against size; of the steps from one size to the next, none may cost more than the ones before."""

    def row(make: Callable[[Count, int], Made], sizes: tuple[int, ...]) -> dict[str, Figure]:
        made = []
        for size in sizes:
            count = Count()
            made.append(Contender(str(size), *make(count, size), ran=count))
        return compare(made, rounds, seconds)

    def table(title: str, make: Callable[[Count, int], Made], sizes: tuple[int, ...]) -> Table:
        return Table(title, "µs", {"page": row(make, sizes)})

    deep = table("A page so many segments deep", _deep, DEPTHS)
    pages = {"the same page": _one_page_of, "another page each time": _pages_of}
    return {
        "depth": deep,
        "segments": flat("Cost of segments", _segments(deep.rows["page"])),
        "views": table("A page that has one view among so many", _views, VIEWS),
        "elements": table("A page in so many elements that do nothing", _in_elements, ELEMENTS),
        "paths": table("A page, where so many are asked for in turn", _in_turn, PATHS),
        "path": table("A page whose name has so many characters", _long, LENGTHS),
        "fields": table("A form of so many fields, by POST", _form, FIELDS),
        "objects": Table(
            "A page out of a ZODB of so many pages",
            "µs",
            {name: row(make, OBJECTS) for name, make in pages.items()},
        ),
    }


def _segments(deep: Mapping[str, Figure]) -> dict[str, Figure]:
    return {
        "one more segment, up to 64": Figure.one_more(deep["64"], deep["1"], 63),
        "one more segment, up to 16": Figure.one_more(deep["16"], deep["1"], 15),
    }


def _deep(count: Count, depth: int) -> Made:
    """Through the same container again and again: 64 of them would measure the caches of the processor too."""
    root = Node(page=Page())
    root["s"] = root
    return _site(count, root), environ("/s" * (depth - 1) + "/page")


def _long(count: Count, length: int) -> Made:
    name = "x" * length
    return _site(count, Node({name: Page()})), environ(f"/{name}")


def _views(count: Count, number: int) -> Made:
    """A tenth of them at most are for the same class."""
    kinds = [type(f"Page{kind}", (Page,), {}) for kind in range(min(100, number // 10))]
    made = [
        view(context=kinds[index % len(kinds)], name=f"view{index // len(kinds)}")(_page(count))
        for index in range(number)
    ]
    app = _pipeline(Node(c=kinds[0]()), made)
    return app, environ("/c/view5")


def _form(count: Count, number: int) -> Made:
    fields = {f"field{index}": f"value {index}" for index in range(number)}

    @view(context=Page, methods=("POST",), permission=PUBLIC)
    def page(context: Any, request: Any) -> str:
        count.ran += 1
        return "hello" if len(request.form) == number else "fields are missing"

    return _pipeline(Node(c=Page()), [page]), environ("/c", "POST", urlencode(fields).encode())


def _in_elements(count: Count, number: int) -> Made:
    return noop_elements(number, count), environ("/a/b/c")


def _one_page_of(count: Count, number: int) -> Made:
    app, paths = _database(count, number)
    return app, environ(next(iter(paths)))


def _pages_of(count: Count, number: int) -> Made:
    app, paths = _database(count, number)
    return _asking(app, paths), environ("/")


def _in_turn(count: Count, number: int) -> Made:
    """Pages of three segments; whatever is kept of paths that were asked for is of use for few of them only."""
    root = Node(a=Node(b=Node({f"page{index}": Page() for index in range(number)})))
    return _asking(_site(count, root), [f"/a/b/page{index}" for index in range(number)]), environ("/")


def _asking(app: App, paths: list[str]) -> App:
    """The app, asked for another path each time."""
    another = itertools.cycle(paths)

    def asked_in_turn(environ: Environ, start_response: Any) -> Iterable[bytes]:
        environ["PATH_INFO"] = next(another)
        return app(environ, start_response)

    return asked_in_turn


def _database(count: Count, number: int) -> tuple[App, list[str]]:
    """The site with so many pages, in folders of folders; and the paths of some, in no order."""
    directory = tempfile.mkdtemp(prefix="bench-objects-")
    side = round(number ** (1 / 3)) or 1
    db = DB(FileStorage(f"{directory}/Data.fs"))
    connection = db.open()
    connection.root()["app"] = root = OOBTree()
    for first in range(0, number, side):
        outer, inner = str(first // side**2), str(first // side % side)
        if outer not in root:
            transaction.commit()
            connection.cacheMinimize()
            root[outer] = OOBTree()
        pages = range(first, min(first + side, number))
        root[outer][inner] = OOBTree({f"page{index}": Document() for index in pages})
    transaction.commit()
    chosen = random.Random(1).sample(range(number), min(number, MANY_PAGES))
    connection.close()
    db.close()
    module = _module([view(context=Document)(_page(count))])
    app = load_ini(OURS.replace("scan = bench.site", f"scan = {module}"), zodb_uri=f"file://{directory}/Data.fs")
    return app, [f"/{index // side**2}/{index // side % side}/page{index}" for index in chosen]


def _page(count: Count) -> Callable[[Any, Any], str]:
    def page(context: Any, request: Any) -> str:
        count.ran += 1
        return "hello"

    return page


def _site(count: Count, root: Any) -> Pipeline:
    return _pipeline(root, [view(context=Page)(_page(count))])


def _pipeline(root: Any, views: Iterable[Any]) -> Pipeline:
    return Pipeline(
        *(vhost(), retry(), errors(), forms(), authenticate(check=check)),
        *(traverse(root=lambda: root), publisher(scan=(_module(views),))),
    )


def _module(views: Iterable[Any]) -> str:
    """The name of a new module that has these views."""
    name = f"bench_views_{len(sys.modules)}"
    sys.modules[name] = module = ModuleType(name)
    for index, function in enumerate(views):
        function.__module__ = name
        setattr(module, f"view{index}", function)
    return name
