"""``explain`` and the inspector say what a page is made of: objects, headers, cookies and attributes."""

from __future__ import annotations

import json
import operator
import re
from typing import Any

import pytest
from webtest import TestApp

from pipeline.elements.zodb import close_all
from pipeline.explaining.made_of import MadeOf
from pipeline.http import debug_key
from pipeline.http.noting import ALL, Noting
from pipeline.paste import load
from tools.conftest import Site

INI = """\
[pipeline:main]
pipeline = {inspector} zodb errors transaction {keep} traverse publisher

[filter:inspector]
use = egg:wsgi-pipeline#inspector

[filter:zodb]
use = egg:wsgi-pipeline#zodb
uri = file://HERE/Data.fs
root = MODULE:root

[filter:errors]
use = egg:wsgi-pipeline#errors

[filter:transaction]
use = egg:wsgi-pipeline#transaction

[filter:keep]
use = egg:wsgi-pipeline#keep

[filter:traverse]
use = egg:wsgi-pipeline#traverse

[app:publisher]
use = egg:wsgi-pipeline#publisher
scan = MODULE
"""

CODE = """\
from BTrees.OOBTree import OOBTree
from persistent import Persistent

from pipeline import view


class Folder(Persistent):
    __parent__ = __name__ = None

    def __init__(self):
        self.docs = OOBTree()

    def __getitem__(self, name):
        return self.docs[name]


class Doc(Persistent):
    text = "a text"

    def __init__(self, parent, name):
        self.__parent__ = parent
        self.__name__ = name


def root(root):
    if "site" not in root:
        site = root["site"] = Folder()
        for number in range(50):
            site.docs[f"doc{number}"] = Doc(site, f"doc{number}")
    return root["site"]


@view(context=Folder)
def index(context, request):
    return "index"


@view(context=Doc)
def doc(context, request):
    request.keep = 60
    request.cookies.get("all")
    return f"{context.text} {request.headers.get('X-A')} {request.context.__parent__['doc7'].text}"


@view(context=Doc, name="vary")
def varied(context, request, response):
    response.vary = ("X-A",)
    return f"{context.text} {request.headers.get('X-A')}"
"""


@pytest.fixture
def stored(site: Site) -> Site:
    """A site with a few objects in a file."""
    site.write(INI.format(inspector="", keep=""), CODE)
    assert site.run("explain", "GET", "/", "--commit")[0] == 0
    close_all()
    return site


def explained(site: Site, *arguments: str) -> dict[str, Any]:
    status, text = site.run("explain", "GET", *arguments, "--json")
    close_all()
    assert status == 0, text
    found: dict[str, Any] = json.loads(text)
    return found


def test_explain_lists_the_objects_and_the_values(stored: Site) -> None:
    made_of = explained(stored, "/doc3", "-H", "Cookie: a=1")["made_of"]
    places = {one["place"]: one["kind"].rpartition(".")[2] for one in made_of["objects"]}
    assert places["/doc3"] == places["/doc7"] == "Doc"
    assert sorted(places.values()) == ["Doc"] * 2 + ["Folder", "OOBTree"] + ["OOBucket"] * 2 + [
        "PersistentMapping"
    ]
    assert all(one["was_loaded"] and one["size"] > 0 for one in made_of["objects"])
    assert made_of["is_complete"]
    assert made_of["headers"] == ["X-A", "Cookie"]
    assert made_of["variables"] == []
    assert made_of["vary_lacks"] == ["X-A", "Cookie"]
    assert explained(stored, "/doc3/@@vary")["made_of"]["vary_lacks"] == []


def test_explain_says_it_in_words(stored: Site) -> None:
    _, text = stored.run("explain", "--long", "GET", "/doc3")
    assert "Made of 7 objects, 7 of them from the database and 0 from memory" in text
    assert "Doc, 64 bytes, from database" in re.sub(r"\d+ bytes", "64 bytes", text)
    assert "Vary does not name X-A, Cookie: a cache may send this page to other requests" in text


@pytest.mark.parametrize(
    ("headers", "lacking"),
    [
        ({}, ["Accept", "Accept-Encoding", "Cookie"]),
        ({"Vary": "accept, cookie"}, ["Accept-Encoding"]),
        ({"Vary": "*"}, []),
        ({"Cache-Control": "private"}, ["Accept"]),
    ],
)
def test_vary_names_what_another_request_may_have(headers: dict[str, str], lacking: list[str]) -> None:
    """The cache of one browser meets one cookie and one Accept-Encoding."""
    made = MadeOf((), 0, True, ["Accept", "Accept-Encoding"], ["basket"], (), ())
    assert made.lacking_in(headers.items()) == lacking


def test_with_keep_they_say_whether_a_page_was_kept(stored: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debug_key, "_key", "k" * 40)
    stored.write(INI.format(inspector="inspector", keep="keep"), CODE)
    assert explained(stored, "/doc3")["kept"] == "not kept: it is the first of its address"
    client = TestApp(load(f"config:{stored.ini}"))
    for said in ("not kept: it is the first of its address", "keep: kept", "keep: sent again"):
        client.get("/doc3")
        headers = {"Cookie": f"{debug_key.COOKIE}={'k' * 40}"}
        number = re.search(r'<a href="(\d+)">', client.get("/++inspect++/", headers=headers).text)
        assert number is not None
        page = client.get(f"/++inspect++/{number[1]}", headers=headers)
        assert said in page.text, re.findall("keep: [^<]*", page.text)
        assert ("from memory" in page.text) is (said != "keep: sent again")
    close_all()


READS: list[tuple[Any, set[Any]]] = [
    (lambda environ: environ["A"], {"A"}),
    (lambda environ: environ.get("B"), {"B"}),
    (lambda environ: "C" in environ, {"C"}),
    (lambda environ: environ.keys().isdisjoint(["C", "D"]), {"C", "D"}),
    (lambda environ: environ.setdefault("A", 1), {"A"}),
    (lambda environ: environ.pop("A"), {"A"}),
    (lambda environ: environ.pop("B", None), {"B"}),
    (lambda environ: environ.update(A=2) or environ["A"], set()),
    (lambda environ: operator.mod("%(A)s", environ), {"A"}),
    (lambda environ: "{A}".format_map(environ), {"A"}),
    (lambda environ: environ.cookie_header("one"), {("cookie", "one")}),
    (lambda environ: environ.get("webob.adhoc"), set()),
    (dict, {ALL}),
    (lambda environ: {**environ}, {ALL}),
    (lambda environ: environ | {}, {ALL}),
    (lambda environ: {} | environ, {ALL}),
    (lambda environ: environ.copy(), {ALL}),
    (list, {ALL}),
    (lambda environ: list(environ.items()), {ALL}),
    (lambda environ: list(environ.values()), {ALL}),
    (lambda environ: environ.popitem(), {ALL}),
    (lambda environ: environ == {}, {ALL}),
    (lambda environ: environ != {}, {ALL}),
    (repr, set()),
    (len, {ALL}),
    (lambda environ: list(environ.keys()), {ALL}),
]


@pytest.mark.parametrize("number", range(len(READS)))
def test_what_an_environ_notes(number: int) -> None:
    read, noted = READS[number]
    environ = Noting({"A": "1", "HTTP_COOKIE": "one=1"})
    read(environ)
    assert environ.noted == noted or (ALL in noted and ALL in environ.noted)


def test_what_is_set_is_put_into_the_other_environ() -> None:
    outer = {"A": "1", "B": "2"}
    environ = Noting(outer)
    environ["C"] = "3"
    del environ["A"]
    assert environ.put_back() is outer
    assert outer == {"B": "2", "C": "3"}


