"""An API from a model: what programs ask and get, judged by the description and by the database, read afresh."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from enum import Enum
from hashlib import sha256
from pathlib import Path
from threading import Barrier, Thread
from types import ModuleType
from typing import Annotated, Any, NotRequired
from urllib.parse import unquote

import pytest
from typing_extensions import TypedDict

import recipes
import stored_things
from asking import ask
from docs.test_pasted import forget, paste
from pipeline import Pipeline, element
from pipeline.elements.cors import cors
from pipeline.elements.errors import errors
from pipeline.elements.forms import forms
from pipeline.elements.retry import retry
from pipeline.elements.transaction import transaction
from pipeline.elements.traverse import traverse
from pipeline.elements.zodb import close_all
from pipeline.forms.arguments import arguments_of
from pipeline.interfaces import ViewError
from pipeline.proving.proof import Proof
from pipeline.publisher import publisher
from pipeline.publishing.api import Api
from pipeline.publishing.items import SIZE
from pipeline.publishing.openapi import describe
from pipeline.testing import site
from pipeline.testing.plugin import prove as prove
from pipeline.tools.new import make
from pipeline.views import Views
from stored_things import Folder, Thing, ann_of, database_of, inner_of, stored

pydantic = pytest.importorskip("pydantic")
msgspec = pytest.importorskip("msgspec")
validator = pytest.importorskip("openapi_spec_validator")
jsonschema = pytest.importorskip("jsonschema")

LIBRARIES = ("pipeline.publishing.pydantic", "pipeline.publishing.msgspec", "pipeline.publishing.json")
JSON = {"Accept": "application/json"}
ANY = {"If-Match": "*"}
Color = Enum("Color", {"red": "r", "blue": "b"})
Color.__module__ = __name__


class Task(pydantic.BaseModel):  # type: ignore[name-defined, misc]
    title: str = pydantic.Field(min_length=1, max_length=200)
    done: bool = False
    count: Annotated[int, pydantic.Field(ge=0)] = 0
    first: date | None = None
    last: date | None = None

    @pydantic.model_validator(mode="after")
    def in_order(self) -> Any:
        if self.first and self.last and self.first > self.last:
            raise ValueError("first is later than last")
        return self


@pytest.fixture
def uri(tmp_path: Path) -> Iterator[str]:
    yield f"file://{tmp_path}/Data.fs"
    close_all()


def module_with(model: Any, monkeypatch: pytest.MonkeyPatch, container: Any = Folder, **options: Any) -> str:
    """Return the name of a new module with an Api for a model."""
    return stored_things.module_with(Api, model, monkeypatch, container, **options)


def app_of(module: str, uri: str, *further: Any, root: Any = Folder) -> Pipeline:
    outer = cors(origins=("https://app.example",)), retry(), database_of(uri, root), errors(), transaction()
    return Pipeline(*outer, *further, *inner_of(module, LIBRARIES))


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> str:
    return module_with(Task, monkeypatch, permission="edit", read="public")


@pytest.fixture
def app(tasks: str, uri: str) -> Pipeline:
    return app_of(tasks, uri)


@pytest.fixture
def ann(app: Pipeline) -> Any:
    """A program that may change the tasks."""
    return ann_of(app)


def seen(answer: Any) -> dict[str, str]:
    return {"If-Match": answer.headers["ETag"]}


TEA = {"title": "Tea", "done": False, "count": 0, "first": None, "last": None}


def test_add_show_change_and_delete(ann: Any, uri: str) -> None:
    added = ann.post_json("/", {"title": "Tea", "url": "http://other.example/"}, status=201)
    assert added.json == {**TEA, "url": added.location} and list(added.json) == [*TEA, "url"]
    shown = ann.get(added.location)
    assert shown.json == added.json and shown.headers["ETag"] == added.headers["ETag"]
    ann.get(added.location, headers={"If-None-Match": shown.headers["ETag"]}, status=304)
    sent = {"done": True, "first": "2026-11-26", "url": "http://other.example/"}
    changed = ann.patch_json(added.location, sent, headers=seen(shown))
    assert changed.json == {**added.json, "done": True, "first": "2026-11-26"}
    assert changed.headers["ETag"] == ann.get(added.location).headers["ETag"] != shown.headers["ETag"]
    assert stored(uri) == [{**TEA, "done": True, "first": date(2026, 11, 26)}]
    deleted = ann.delete(added.location, headers=seen(changed), status=204)
    assert deleted.body == b"" and stored(uri) == []
    for method in ("get", "patch_json", "delete"):
        getattr(ann, method)(added.location, headers=ANY, status=404)


def test_a_long_list_has_pages_with_links(ann: Any) -> None:
    assert ann.get("/").json == {"items": [], "next": None, "prev": None}
    for number in range(2 * SIZE + 1):
        ann.post_json("/", {"title": f"{number:03}"})
    address, pages = "/", []
    while address:
        pages.append(ann.get(address).json)
        address = pages[-1]["next"]
    assert [len(page["items"]) for page in pages] == [SIZE, SIZE, 1]
    titles = [one["title"] for page in pages for one in page["items"]]
    assert titles == [f"{number:03}" for number in range(2 * SIZE + 1)]
    assert ann.get(pages[2]["prev"]).json == pages[1] and ann.get(pages[1]["prev"]).json == pages[0]
    assert pages[0]["prev"] is None
    assert ann.get(pages[1]["items"][3]["url"]).json == pages[1]["items"][3]
    for page in ("0", "-1", "9" * 30):
        ann.get(f"/?page={page}", status=404)
    ann.get("/?page=two", status=400)


def test_all_mistakes_have_pointers(ann: Any, uri: str) -> None:
    added = ann.post_json("/", {"title": "Tea"})
    wrong = {"title": "", "done": "perhaps", "count": -1}
    for answer in (
        ann.post_json("/", wrong, headers=JSON, status=400),
        ann.patch_json(added.location, wrong, headers=JSON | ANY, status=400),
    ):
        assert answer.content_type == "application/problem+json"
        assert {one["pointer"] for one in answer.json["errors"]} == {"#/title", "#/done", "#/count"}
        assert "ETag" not in answer.headers
    assert stored(uri) == [TEA]


def test_a_change_is_judged_as_a_whole(ann: Any, uri: str) -> None:
    added = ann.post_json("/", {"title": "Tea", "first": "2026-11-26"})
    answer = ann.patch_json(added.location, {"last": "2026-11-25"}, headers=JSON | ANY, status=400)
    assert "first is later than last" in answer.json["errors"][0]["detail"]
    ann.patch_json(added.location, {"last": "2026-11-27"}, headers=ANY)
    ann.patch_json(added.location, {}, headers=ANY)
    ann.patch_json(added.location, {"first": None}, headers=ANY)
    assert stored(uri) == [{**TEA, "last": date(2026, 11, 27)}]


@pytest.mark.parametrize("body", [b"[1]", b'"a"', b"7", b"null", b"{", b"\xff"])
def test_a_body_that_is_no_object_is_refused(ann: Any, uri: str, body: bytes) -> None:
    added = ann.post_json("/", {"title": "Tea"})
    kind = {"Content-Type": "application/json"}
    ann.post("/", body, headers=kind, status=400)
    ann.patch(added.location, body, headers=kind | ANY, status=400)
    assert stored(uri) == [TEA]


def test_a_merge_patch_and_a_form_will_do(ann: Any, uri: str) -> None:
    added = ann.post("/", {"title": "Tea & cake", "count": "2"}, status=201)
    merge = {"Content-Type": "application/merge-patch+json"}
    ann.patch(added.location, b'{"count": 3}', headers=merge | ANY)
    ann.patch(added.location, {"done": "yes"}, headers=ANY)
    assert stored(uri) == [{**TEA, "title": "Tea & cake", "count": 3, "done": True}]


def test_nobody_overwrites_what_he_has_not_seen(ann: Any, uri: str) -> None:
    added = ann.post_json("/", {"title": "Tea"})
    ann.patch_json(added.location, {"title": "Cake"}, headers=seen(added))
    for method, fields in (("patch_json", ({"done": True},)), ("delete", ())):
        call = getattr(ann, method)
        late = call(added.location, *fields, headers=seen(added) | JSON, status=412)
        assert late.content_type == "application/problem+json"
        call(added.location, *fields, headers={"If-Match": '"other"'}, status=412)
        call(added.location, *fields, status=428)
    assert stored(uri) == [{**TEA, "title": "Cake"}]


def test_a_field_that_does_not_exist_is_refused(ann: Any, tasks: str, uri: str) -> None:
    """Both libraries leave it out: the answer was a 200 or 201, and what was sent was lost."""
    added = ann.post_json("/", {"title": "Tea"})
    sent = {"titel": "Cake", "done": True, "__parent__": None}
    for refused in (
        ann.patch_json(added.location, sent, headers=ANY | JSON, status=400),
        ann.post_json("/", {**sent, "title": "Cake"}, headers=JSON, status=400),
    ):
        assert [error["pointer"] for error in refused.json["errors"]] == ["#/__parent__", "#/titel"]
    assert stored(uri) == [TEA]


class Overlap:
    """Lets two requests that change something run to the end of their views before either is stored."""

    def __init__(self) -> None:
        self.barrier: Barrier | None = None
        self.attempts = 0

    def element(self) -> Any:
        @element(inside={"transaction": "what the view has changed is not stored yet"})
        def overlapping(next: Any) -> Any:
            def overlapping(request: Any, response: Any) -> None:
                next(request, response)
                barrier = self.barrier
                if barrier is not None and request.environ["REQUEST_METHOD"] in ("PATCH", "DELETE"):
                    self.attempts += 1
                    barrier.wait(20)
                    self.barrier = None

            return overlapping

        return overlapping()


@pytest.mark.parametrize(("method", "status"), [("PATCH", 412), ("DELETE", 404)])
def test_of_two_writers_at_once_one_is_told__R2(method: str, status: int, tasks: str, uri: str) -> None:
    """Both have seen the same version, and both views have run before either is stored."""
    overlap = Overlap()
    app = app_of(tasks, uri, overlap.element())
    added = ann_of(app).post_json("/", {"title": "Tea"})
    overlap.barrier = Barrier(2)
    answers: list[Any] = []

    def write(method: str, fields: dict[str, Any]) -> None:
        headers = seen(added) | {"Content-Type": "application/json"}
        sent = {"headers": headers, "body": json.dumps(fields).encode(), "status": "*"}
        answers.append(ann_of(app).request(added.location, method=method, **sent))

    both = ("PATCH", {"count": 5}), (method, {"done": True})
    threads = [Thread(target=write, args=one) for one in both]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    statuses = sorted(answer.status_int for answer in answers)
    assert len(statuses) == 2 and overlap.attempts == 2
    if method == "PATCH":
        assert statuses == [200, status]
        assert stored(uri) in ([{**TEA, "count": 5}], [{**TEA, "done": True}])
    else:
        assert statuses in ([204, status], [200, 412])
        assert stored(uri) == ([] if statuses[0] == 204 else [{**TEA, "count": 5}])


def test_no_update_of_many_threads_is_lost(app: Pipeline, ann: Any, uri: str) -> None:
    added = ann.post_json("/", {"title": "Tea"})
    times, many, refused = 6, 5, []

    def count() -> None:
        program = ann_of(app)
        for _ in range(times):
            while True:
                shown = program.get(added.location)
                fields = {"count": shown.json["count"] + 1}
                answer = program.patch_json(added.location, fields, headers=seen(shown), status="*")
                if answer.status_int == 200:
                    break
                refused.append(answer.status_int)

    threads = [Thread(target=count) for _ in range(many)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    assert set(refused) <= {412, 503}
    assert stored(uri) == [{**TEA, "count": times * many}]


@pytest.mark.parametrize("method", ["POST", "PATCH", "DELETE"])
def test_an_error_after_a_change_stores_nothing__R3(method: str, tasks: str, uri: str) -> None:
    fail: list[bool] = []

    @element(inside={"transaction": "what the view has changed is not stored yet"})
    def failing(next: Any) -> Any:
        def failing(request: Any, response: Any) -> None:
            next(request, response)
            if fail:
                raise RuntimeError("after the change")

        return failing

    ann = ann_of(app_of(tasks, uri, failing()))
    added = ann.post_json("/", {"title": "Tea"})
    fail.append(True)
    place = "/" if method == "POST" else added.location
    headers = {**seen(added), "Content-Type": "application/json"}
    ann.request(place, method=method, body=b'{"title": "Cake"}', headers=headers, status=500)
    assert stored(uri) == [TEA]


def test_anonymous_may_read_and_nothing_else(app: Pipeline, ann: Any, uri: str) -> None:
    added = ann.post_json("/", {"title": "Tea"})
    anonymous = site(app)
    assert len(anonymous.get("/").json["items"]) == 1
    anonymous.get(added.location)
    anonymous.post_json("/", {"title": "Mine"}, status=401)
    for headers in (ANY, {}, {"If-Match": '"other"'}):
        anonymous.patch_json(added.location, {"title": "Mine"}, headers=headers, status=401)
        anonymous.delete(added.location, headers=headers, status=401)
    assert stored(uri) == [TEA]


def test_reading_may_need_a_permission(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    app = app_of(module_with(Task, monkeypatch, permission="edit", read="see"), uri)
    added = ann_of(app).post_json("/", {"title": "Tea"})
    for place in ("/", added.location):
        site(app).get(place, status=401)
        ann_of(app).get(place)


@pytest.mark.parametrize("headers", [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://evil.example"}], ids=str)
def test_a_request_of_another_site_is_refused__S23(ann: Any, uri: str, headers: dict[str, str]) -> None:
    added = ann.post_json("/", {"title": "Tea"})
    ann.post_json("/", {"title": "Forged"}, headers=headers, status=403)
    ann.patch_json(added.location, {"title": "Forged"}, headers=headers | ANY, status=403)
    ann.delete(added.location, headers=headers | ANY, status=403)
    assert stored(uri) == [TEA]


def test_the_script_of_an_origin_that_cors_names_may_write(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = site(app_of(module_with(Task, monkeypatch), uri))
    origin = {"Origin": "https://app.example", "Sec-Fetch-Site": "cross-site"}
    asked = {"Access-Control-Request-Method": "PATCH", "Access-Control-Request-Headers": "content-type,if-match"}
    added = program.post_json("/", {"title": "Tea"}, headers=origin, status=201)
    told = program.options(added.location, headers=origin | asked)
    assert "PATCH" in told.headers["Access-Control-Allow-Methods"]
    assert {"ETag", "Location"} <= set(added.headers["Access-Control-Expose-Headers"].split(", "))
    program.patch_json(added.location, {"done": True}, headers=origin | seen(added))
    assert stored(uri) == [{**TEA, "done": True}]


def test_head_and_options(ann: Any, app: Pipeline) -> None:
    """Under the validator of WSGI."""
    added = ann.post_json("/", {"title": "Tea"})
    path = added.location.removeprefix("http://localhost")
    head, get = ask(app, path, "HEAD"), ask(app, path)
    assert (head.status, head.headers["ETag"], get.status) == (200, get.headers["ETag"], 200)
    assert ask(app, "/", "HEAD").status == 200
    shared = {"GET", "HEAD", "OPTIONS"}
    for place, allowed in (("/", shared | {"POST"}), (path, shared | {"DELETE", "PATCH"})):
        assert {one.strip() for one in ask(app, place, "OPTIONS").headers["Allow"].split(",")} == allowed
    assert ask(app, "/", "DELETE").status == ask(app, path, "POST").status == 405


class Named(Folder):
    """A container that names its items by their titles."""

    def add(self, item: Any) -> None:
        item.__parent__, item.__name__ = self, item.title
        self[item.title] = item


ODD = ["a b", "ä€😀", "50% & more", "?page=2", "#x", "+", "'\"<>", "a;b=c", "http:", "~", "-"]


@pytest.mark.parametrize("name", ODD)
def test_a_container_may_name_its_items_by_odd_characters(
    name: str, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = site(app_of(module_with(Task, monkeypatch, container=Named), uri, root=Named))
    added = program.post_json("/", {"title": name})
    assert added.location.isascii() and unquote(added.location).endswith(f"/{name}")
    assert program.get("/").json["items"] == [added.json]
    assert program.get(added.json["url"]).json["title"] == name
    program.delete(added.location, headers=seen(added), status=204)
    assert stored(uri) == []


@dataclass
class Plain:
    name: str
    color: Color = Color.red
    tags: list[str] = field(default_factory=list)
    price: Decimal = Decimal("1.5")


class Typed(TypedDict):
    name: str
    color: NotRequired[Color]
    tags: list[str]
    price: Decimal


class Inner(pydantic.BaseModel):  # type: ignore[name-defined, misc]
    color: Color = Color.red


class Outer(pydantic.BaseModel):  # type: ignore[name-defined, misc]
    name: str
    color: Color = Color.red
    tags: set[str] = pydantic.Field(default=set())
    price: Decimal = Decimal("1.5")
    inner: list[Inner] = pydantic.Field(default=[])


class Struct(msgspec.Struct):  # type: ignore[name-defined, misc]
    name: Annotated[str, msgspec.Meta(min_length=1)]
    color: Color = Color.red
    tags: set[str] = msgspec.field(default_factory=set)
    price: Decimal = Decimal("1.5")


class Deep(pydantic.BaseModel):  # type: ignore[name-defined, misc]
    name: str
    one: Inner = Inner()
    maybe: Inner | None = None
    either: Inner | list[Inner] | str = ""
    by_name: dict[str, Inner] = pydantic.Field(default={})
    free: dict[str, Any] = pydantic.Field(default={})
    pair: tuple[int, Inner] = (1, Inner())


class Part(msgspec.Struct):  # type: ignore[name-defined, misc]
    color: Color = Color.red


class DeepStruct(msgspec.Struct):  # type: ignore[name-defined, misc]
    name: str
    one: Part | None = None
    by_name: dict[str, list[Part]] = msgspec.field(default_factory=dict)
    free: Any = None


FITS, STRAYS = {"color": "b"}, {"color": "b", "colour": "b"}


@pytest.mark.parametrize(
    ("model", "sent", "place"),
    [
        (Deep, {"one": STRAYS}, "#/one/colour"),
        (Deep, {"maybe": STRAYS}, "#/maybe/colour"),
        (Deep, {"either": STRAYS}, "#/either/colour"),
        (Deep, {"either": [FITS, STRAYS]}, "#/either/1/colour"),
        (Deep, {"by_name": {"colour": FITS, "b": STRAYS}}, "#/by_name/b/colour"),
        (Deep, {"pair": [2, STRAYS]}, "#/pair/1/colour"),
        (Deep, {"one": FITS, "maybe": None, "either": "colour", "free": STRAYS, "pair": [2, FITS]}, None),
        (DeepStruct, {"one": STRAYS}, "#/one/colour"),
        (DeepStruct, {"by_name": {"a": [FITS, STRAYS]}}, "#/by_name/a/1/colour"),
        (DeepStruct, {"one": FITS, "by_name": {"colour": [FITS]}, "free": [STRAYS]}, None),
    ],
)
def test_a_field_that_a_model_in_a_model_does_not_have_is_refused(
    model: Any, sent: Any, place: str | None, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = site(app_of(module_with(model, monkeypatch), uri))
    answer = program.post_json("/", {"name": "Ann", **sent}, headers=JSON, status="*")
    if place is None:
        assert answer.status_int == 201
    else:
        assert (answer.status_int, [one["pointer"] for one in answer.json["errors"]]) == (400, [place])


def document_of(module: str, root: type = Folder) -> Any:
    described = describe(Views((module, *LIBRARIES), arguments_of), root)
    validator.validate(described.document)
    assert described.left_out == []
    return described.document


def fits(value: Any, name: str, document: Any) -> None:
    """Fail unless a value fits a schema of the description."""
    schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
    jsonschema.Draft202012Validator(schema).validate(value)


@pytest.mark.parametrize("model", [Plain, Typed, Outer, Struct], ids=lambda model: model.__name__)
def test_models_of_each_library(model: Any, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each answer fits the description, and a change leaves what is not sent as it is, types included."""
    module = module_with(model, monkeypatch)
    document = document_of(module)
    program = site(app_of(module, uri))
    sent = {"name": "Ann", "color": "b", "tags": ["b", "a"], "price": "2.50"}
    fits(sent, "ThingNew", document)
    added = program.post_json("/", sent, status=201)
    fits(added.json, "ThingAt", document)
    [before] = stored(uri)
    assert before == {**before, "name": "Ann", "color": Color.blue, "price": Decimal("2.50")}
    assert sorted(before["tags"]) == ["a", "b"]
    fits({"name": "Bob"}, "ThingChanges", document)
    program.patch_json(added.location, {"name": "Bob"}, headers=seen(added))
    [after] = stored(uri)
    assert after == {**before, "name": "Bob"}
    assert [type(one) for one in after.values()] == [type(one) for one in before.values()]
    fits(program.get("/").json, "ThingPage", document)
    wrong = program.post_json("/", {**sent, "color": "green"}, headers=JSON, status=400)
    assert [one["pointer"] for one in wrong.json["errors"]] == ["#/color"]
    if model is Outer:
        program.patch_json(added.location, {"inner": [{"color": "b"}]}, headers=ANY)
        program.patch_json(added.location, {"name": "Eve"}, headers=ANY)
        [again] = stored(uri)
        assert again["inner"] == [Inner(color=Color.blue)]
        wrong = program.patch_json(added.location, {"inner": [{"color": 7}]}, headers=ANY | JSON, status=400)
        assert [one["pointer"] for one in wrong.json["errors"]] == ["#/inner/0/color"]


def test_a_field_that_may_lack_may_lack(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = module_with(Typed, monkeypatch)
    program = site(app_of(module, uri))
    added = program.post_json("/", {"name": "Ann", "tags": [], "price": "1"})
    assert "color" not in added.json
    fits(added.json, "ThingAt", document_of(module))
    program.patch_json(added.location, {"name": "Bob"}, headers=seen(added))
    assert stored(uri) == [{"name": "Bob", "tags": [], "price": Decimal("1")}]


def test_an_item_that_is_older_than_a_field_has_its_default(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    old = pydantic.create_model("Old", title=(str, ...))
    added = site(app_of(module_with(old, monkeypatch), uri)).post_json("/", {"title": "Tea"})
    close_all()
    program = site(app_of(module_with(Task, monkeypatch), uri))
    shown = program.get(added.location)
    assert shown.json == {**TEA, "url": added.location}
    program.patch_json(added.location, {"done": True}, headers=seen(shown))
    assert stored(uri) == [{**TEA, "done": True}]


def test_a_number_that_json_does_not_have_is_refused(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = pydantic.create_model("Model", value=(float, ...))
    program = site(app_of(module_with(model, monkeypatch), uri))
    added = program.post_json("/", {"value": 1.5})
    for text in ("nan", "inf", "-inf"):
        program.post_json("/", {"value": text}, status=400)
        program.patch_json(added.location, {"value": text}, headers=ANY, status=400)
    assert stored(uri) == [{"value": 1.5}]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"url": (str, ...)}, "a field 'url'"),
        ({"value": (pydantic.SecretStr, ...)}, "a secret"),
        ({"value": (list[pydantic.SecretStr] | None, None)}, "a secret"),
        ({"value": (int, pydantic.Field(alias="other"))}, "other names for the fields ['other']"),
    ],
    ids=str,
)
def test_a_model_that_does_not_fit_is_refused_at_load(
    fields: Any, said: str, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ViewError) as caught:
        app_of(module_with(pydantic.create_model("Model", **fields), monkeypatch), uri)
    assert said in str(caught.value) and "Things: Model" in str(caught.value)


@pytest.mark.parametrize("model", [int, Folder])
def test_a_class_that_is_not_a_model_is_refused_at_load(
    model: Any, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ViewError, match="is not a model of a scanned library"):
        app_of(module_with(model, monkeypatch), uri)


def test_the_description(tasks: str) -> None:
    """The container leads to the items, though its __getitem__ has no annotation."""
    document = document_of(tasks)
    paths, schemas = document["paths"], document["components"]["schemas"]
    methods = {path: sorted(set(item) - {"parameters"}) for path, item in paths.items()}
    assert methods == {"/": ["get", "post"], "/{thing}": ["delete", "get", "patch"]}
    assert set(schemas) == {"ThingNew", "ThingAt", "ThingChanges", "ThingPage", "Problem"}
    ids = {one["operationId"] for item in paths.values() for method, one in item.items() if method != "parameters"}
    assert ids == {"Things_index", "Things_add", "Things_show", "Things_change", "Things_delete"}

    def result(operation: Any) -> Any:
        return operation["responses"]["2XX"].get("content", {}).get("application/json", {}).get("schema")

    of_item = paths["/{thing}"]
    at = {"$ref": "#/components/schemas/ThingAt"}
    assert result(paths["/"]["get"]) == {"$ref": "#/components/schemas/ThingPage"}
    assert result(paths["/"]["post"]) == result(of_item["get"]) == result(of_item["patch"]) == at
    assert result(of_item["delete"]) is None
    body = of_item["patch"]["requestBody"]["content"]["application/json"]["schema"]
    assert body == {"$ref": "#/components/schemas/ThingChanges"}
    changes = schemas["ThingChanges"]
    assert changes["required"] == [] and changes["properties"]["title"]["maxLength"] == 200
    assert not any("default" in one for one in changes["properties"].values())
    assert schemas["ThingAt"]["required"] == ["title", "url"]
    for method in ("patch", "delete"):
        assert {"401", "403", "404", "412", "428"} <= set(of_item[method]["responses"])
        [header] = of_item[method]["parameters"]
        assert (header["name"], header["required"]) == ("If-Match", True)
    assert "security" in paths["/"]["post"] and "security" not in paths["/"]["get"]


def test_the_pages_and_the_api_of_one_container(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from pipeline.publishing.editing import Editing

    name = module_with(Task, monkeypatch)

    class Pages(Editing, container=Folder, item=Thing, model=Task, permission=None, index="tasks"):
        """The pages."""

    Pages.__module__ = name
    vars(sys.modules[name])["Pages"] = Pages
    program = ann_of(app_of(name, uri))
    added = program.post_json("/", {"title": "Tea"})
    program.get("/tasks").click("Tea").form.submit(status=303)
    assert program.get("/").json["items"] == [added.json]


FILMS = """
from pydantic import BaseModel
from sqlalchemy import select
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, object_session

from pipeline.publishing.api import Api

class Base(DeclarativeBase):
    pass

class Film(Base):
    __tablename__ = "films"
    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str]
    year: Mapped[int]
    __parent__ = property(lambda film: Films(object_session(film)))
    __name__ = property(lambda film: str(film.id))

class Films:
    __parent__ = __name__ = None

    def __init__(self, session):
        self.session = session

    def __getitem__(self, name):
        film = self.session.get(Film, int(name)) if name.isdecimal() else None
        if film is None:
            raise KeyError(name)
        return film

    def values(self):
        return self.session.scalars(select(Film).order_by(Film.id)).all()

    def add(self, film):
        self.session.add(film)
        self.session.flush()

    def __delitem__(self, name):
        self.session.delete(self[name])

class FilmModel(BaseModel):
    title: str
    year: int = 1927

class FilmsApi(Api, container=Films, item=Film, model=FilmModel, permission=None):
    "The API of the films."
"""


def test_rows_of_a_table_are_items(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The container is that of docs/howto/editing.rst, with a flush."""
    sqlalchemy = pytest.importorskip("sqlalchemy")
    from pipeline.elements.sql import sql

    module: Any = ModuleType("films_of_an_api")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(FILMS, vars(module))
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path}/films.sqlite")
    module.Base.metadata.create_all(engine)
    walk = traverse(root=lambda request: module.Films(request.sql))
    outer = retry(), sql(url=f"sqlite:///{tmp_path}/films.sqlite"), errors(), transaction()
    program = site(Pipeline(*outer, forms(), walk, publisher(scan=(module.__name__, *LIBRARIES))))
    added = program.post_json("/", {"title": "Metropolis"}, status=201)
    other = program.post_json("/", {"title": "M", "year": 1931})
    assert (added.location, other.location) == ("http://localhost/1", "http://localhost/2")
    program.patch_json(added.location, {"year": 1926}, headers=seen(added))
    program.patch_json(added.location, {"year": 1900}, headers=seen(added), status=412)
    program.delete(other.location, headers=seen(other), status=204)
    with engine.connect() as connection:
        rows = connection.execute(sqlalchemy.text("SELECT id, title, year FROM films")).all()
    engine.dispose()
    assert [tuple(row) for row in rows] == [(1, "Metropolis", 1926)]
    document_of(module.__name__, module.Films)


# The recipe.

PAGE = "json-api.rst"


def text_of(caption: str) -> str:
    text = (recipes.HOWTO / PAGE).read_text("utf-8").partition(f":caption: {caption}\n\n")[2]
    lines = []
    for line in text.splitlines():
        if line and not line.startswith("    "):
            break
        lines.append(line[4:])
    return "\n".join(lines)


def lines_of(caption: str) -> int:
    return len([line for line in text_of(caption).splitlines() if line.strip()])


def test_the_site_of_the_recipe_is_short() -> None:
    assert lines_of("mysite/api.py") <= 35
    told = (recipes.HOWTO / PAGE).read_text("utf-8")
    assert f"- {lines_of('mysite/api.py')} lines\n     - {lines_of('the API with FastAPI')} lines\n" in told


@pytest.fixture
def recipe(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A new site that the recipe was pasted into, with a token."""
    forget("mysite")
    list(make(tmp_path / "mysite", "mysite"))
    top = tmp_path / "mysite"
    paste((recipes.HOWTO / PAGE).read_text("utf-8"), top)
    monkeypatch.chdir(top)
    monkeypatch.syspath_prepend(top)
    (top / "tokens").write_text(f"{sha256(b'of ann').hexdigest()} ann\n")
    (top / "with_openapi.ini").write_text(text_of("in the place of [app:main]"))
    yield top
    close_all()
    forget("mysite")


def test_the_recipe(recipe: Path) -> None:
    program = site(recipe / "with_openapi.ini")
    assert program.get("/", status=200).json["items"] == []
    for token in ("", "of bob", sha256(b"of ann").hexdigest(), "of ann "):
        headers = {"Authorization": f"Bearer {token}"}
        refused = program.post_json("/", {"title": "Mine"}, headers=headers, status=401)
        assert refused.headers["WWW-Authenticate"] == "Bearer"
    program.post_json("/", {"title": "Mine"}, headers={"Authorization": "Basic YW5uOm9mIGFubg=="}, status=401)
    program.authorization = ("Bearer", "of ann")
    added = program.post_json("/", {"title": "Milk"}, status=201)
    document = program.get("/openapi.json").json
    validator.validate(document)
    assert set(document["paths"]) == {"/", "/{task}"}
    fits(added.json, "TaskAt", document)
    program.get("/openapi.json", headers={"Accept": "text/html"}).mustcontain("TaskPage")
    question = {"Origin": "https://app.example.com", "Access-Control-Request-Method": "DELETE"}
    told = program.options(added.location, headers=question)
    assert told.headers["Access-Control-Allow-Origin"] == "https://app.example.com"
    program.delete(added.location, headers=seen(added), status=204)


def test_the_site_of_the_recipe_is_proved(recipe: Path, prove: Callable[..., Proof]) -> None:
    proof = prove(str(recipe / "development.ini"), user="ann").faults().attack()
    assert proof.report.found == [] and proof.report.tried == 7
