"""The description of a site by OpenAPI 3.1, judged by openapi-spec-validator and by what the site answers."""

from __future__ import annotations

import json
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar
from uuid import UUID

import pytest

pytest.importorskip("pydantic")
validator = pytest.importorskip("openapi_spec_validator")

import jsonschema  # noqa: E402
from pydantic import BaseModel, create_model  # noqa: E402

import openapi_site  # noqa: E402
from asking import ask  # noqa: E402
from inis import ini_of  # noqa: E402
from pipeline import Pipeline, Request, view  # noqa: E402
from pipeline.elements.shield import shield  # noqa: E402
from pipeline.forms.arguments import arguments_of  # noqa: E402
from pipeline.interfaces import OptionError  # noqa: E402
from pipeline.paste import load  # noqa: E402
from pipeline.publishing.openapi import (  # noqa: E402
    describe,
    openapi,
    page_of,
    root_class,
    written,
)
from pipeline.tools.command import main  # noqa: E402
from pipeline.views import Views  # noqa: E402

SCAN = ("openapi_site", "pipeline.publishing.pydantic", "pipeline.publishing.json")
INI = """
[composite:main]
use = egg:wsgi-pipeline#switch
branches = openapi path=/openapi.json
default = site

[app:openapi]
use = egg:wsgi-pipeline#openapi
scan = openapi_site pipeline.publishing.pydantic
root = openapi_site:root
title = Tasks
"""
SITE = ini_of(
    ("errors", "forms", "traverse"),
    "openapi_site pipeline.publishing.pydantic pipeline.publishing.json",
    "site",
    traverse="root = openapi_site:make",
)


@pytest.fixture
def made() -> Any:
    return describe(Views(SCAN, arguments_of), openapi_site.Todos, "Tasks", "2")


def test_it_is_valid(made: Any) -> None:
    validator.validate(made.document)
    assert made.document["info"] == {"title": "Tasks", "version": "2"}


def test_the_paths_are_those_of_walking(made: Any) -> None:
    methods = {path: sorted(set(item) - {"parameters"}) for path, item in made.document["paths"].items()}
    assert methods == {
        "/": ["get", "post"],
        "/size": ["get"],
        "/{todo}/": ["get", "patch"],
        "/{todo}/picture": ["post", "put"],
        "/{todo}/size": ["get"],
        "/{todo}/{note}": ["get"],
    }
    assert [step["name"] for step in made.document["paths"]["/{todo}/{note}"]["parameters"]] == ["todo", "note"]
    items = made.document["paths"].values()
    ids = [one["operationId"] for item in items for method, one in item.items() if method != "parameters"]
    assert len(ids) == len(set(ids)) == 9


def test_parameters_bodies_and_results(made: Any) -> None:
    paths, parts = made.document["paths"], made.document["components"]["schemas"]
    listed = paths["/"]["get"]
    assert listed["summary"] == "List the tasks."
    assert [(one["name"], one["in"], one["required"]) for one in listed["parameters"]] == [
        ("done", "query", False),
        ("limit", "query", False),
    ]
    assert listed["parameters"][1]["schema"]["exclusiveMinimum"] == 0
    result = listed["responses"]["2XX"]["content"]["application/json"]["schema"]
    assert result == {"type": "array", "items": {"$ref": "#/components/schemas/Task"}}
    body = paths["/"]["post"]["requestBody"]
    assert body["required"] is True
    assert body["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/NewTask"}
    assert parts["NewTask"]["properties"]["text"]["maxLength"] == 80 and parts["NewTask"]["required"] == ["text"]
    change = paths["/{todo}/"]["patch"]
    assert change["security"] == [{"bearer": []}, {"basic": []}] and {"401", "403", "404"} <= set(
        change["responses"]
    )
    assert "required" not in change["requestBody"]["content"]["application/json"]["schema"]
    assert set(paths["/{todo}/picture"]["put"]["requestBody"]["content"]) == {"multipart/form-data"}
    assert "security" not in paths["/{todo}/"]["get"]
    assert "text/html" in paths["/{todo}/{note}"]["get"]["responses"]["2XX"]["content"]
    assert "content" not in paths["/{todo}/size"]["get"]["responses"]["2XX"], "the nearer view has no annotation"


def test_what_lacks_an_annotation_is_told(made: Any) -> None:
    (line,) = made.left_out
    assert "nearer" in line and "its result is left out" in line
    unknown = describe(Views(SCAN, arguments_of), openapi_site.Unknown)
    assert unknown.left_out == [
        "openapi_site.Unknown.__getitem__ has no annotation of what it returns: what is below is left out"
    ]
    assert root_class(openapi_site.root) is openapi_site.Todos
    with pytest.raises(OptionError, match="has no annotation of the class"):
        root_class(openapi_site.grants.__init__)


@pytest.fixture
def ini(tmp_path: Path) -> Path:
    file = tmp_path / "site.ini"
    file.write_text(f"{INI}\n{SITE}")
    openapi_site.TODOS.clear()
    return file


def test_the_site_answers_as_described(ini: Path) -> None:
    """Each described operation is asked with values of its schemas, and answers as it says."""
    app = load(f"config:{ini}")
    answer = ask(app, "/openapi.json")
    assert answer.content_type == "application/json" and answer.json["info"]["title"] == "Tasks"
    validator.validate(answer.json)
    task = ask(app, "/", "POST", b'{"text": "tea"}', CONTENT_TYPE="application/json").json
    schema = answer.json["components"]["schemas"]["Task"]
    assert set(task) == set(schema["properties"]) and set(schema["required"]) <= set(task)
    assert ask(app, "/?limit=1").json == [task] and ask(app, f"/{task['id']}/").json == task
    for wrong in ("/?limit=0", "/?limit=x", "/?done=perhaps"):
        refused = ask(app, wrong, HTTP_ACCEPT="application/json")
        assert (refused.status, refused.content_type) == (400, "application/problem+json")
    assert ask(app, f"/{task['id']}/", "PATCH", b"{}", CONTENT_TYPE="application/json").status == 403
    assert ask(app, "/none/size").status == 404


def test_check_tells_what_lacks_an_annotation(ini: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", str(ini)])
    told = [line for line in capsys.readouterr().out.splitlines() if "openapi:" in line]
    assert len(told) == 1 and "nearer" in told[0] and "its result is left out" in told[0]


def test_the_command(ini: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["openapi", f"{ini}#site", "--title", "Tasks"]) == 0
    said = capsys.readouterr()
    document = json.loads(said.out)
    validator.validate(document)
    assert "/{todo}/{note}" in document["paths"] and "nearer" in said.err
    assert main(["openapi", f"{ini}#site", "--root", "openapi_site:Unknown"]) == 0
    assert list(json.loads(capsys.readouterr().out)["paths"]) == ["/"]
    assert main(["openapi", f"{ini}#openapi"]) == 1
    assert "0 publishers" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["root", "scan"])
def test_options(ini: Path, option: str) -> None:
    head, section, rest = ini.read_text().partition("[app:openapi]")
    lines = list(rest.splitlines(keepends=True))
    lines.remove(next(line for line in lines if line.startswith(f"{option} =")))
    ini.write_text("".join([head, section, *lines]))
    with pytest.raises(OptionError, match=f"openapi needs the option {option!r}"):
        load(f"config:{ini}")


@pytest.fixture
def site(tmp_path: Path) -> Any:
    (tmp_path / "site.ini").write_text(INI + SITE)
    return load(f"config:{tmp_path}/site.ini")


@pytest.mark.parametrize(
    ("accept", "query", "kind"),
    [
        ("text/html,application/xhtml+xml,*/*;q=0.8", "", "text/html"),
        ("text/html,application/xhtml+xml,*/*;q=0.8", "?format=json", "application/json"),
        ("*/*", "", "application/json"),
        ("application/json", "", "application/json"),
        ("image/png", "", "application/json"),
        (None, "", "application/json"),
    ],
)
def test_a_browser_gets_a_page_and_a_program_the_description(site: Any, accept: Any, query: str, kind: str) -> None:
    sent = {} if accept is None else {"HTTP_ACCEPT": accept}
    answer = ask(site, f"/openapi.json{query}", **sent)
    assert (answer.content_type, answer.headers["Vary"]) == (kind, "Accept")
    if kind == "application/json":
        validator.validate(answer.json)
    assert ("Content-Security-Policy" in answer.headers) == (kind == "text/html")


def test_the_page_has_all_that_the_description_has(site: Any, made: Any) -> None:
    page = ask(site, "/openapi.json", HTTP_ACCEPT="text/html").text
    for path, item in made.document["paths"].items():
        for method, operation in item.items():
            if method != "parameters":
                assert f'<h2 id="{operation["operationId"]}">{method.upper()} {path}</h2>' in page
                assert operation.get("summary", "") in page
    for name, schema in made.document["components"]["schemas"].items():
        assert f'<h3 id="model-{name}">{name}</h3>' in page
        assert all(f"<code>{field}</code>" in page for field in schema.get("properties", ()))
    assert "integer, more than 0, at most 100, else 10" in page and "list of Task" in page


def test_words_of_views_are_escaped_on_the_page() -> None:
    evil = "<script>alert(1)</script>"
    schema = {"type": "string", "pattern": evil, "enum": [evil]}
    operation = {
        "operationId": evil,
        "summary": evil,
        "parameters": [{"name": evil, "in": evil, "schema": schema, "required": True}],
        "requestBody": {"content": {evil: {"schema": {"pattern": evil}}}},
        "responses": {"200": {"description": evil}},
        "security": [{evil: []}],
    }
    schemas = {evil: {"description": evil, "properties": {evil: {"anyOf": [schema, {"allOf": [schema]}]}}}}
    page = page_of(
        {
            "openapi": evil,
            "info": {"title": evil, "version": evil},
            "paths": {evil: {"get": operation}},
            "components": {"schemas": schemas},
        }
    )
    assert "<script" not in page and page.count("&lt;script&gt;") > 15


def test_without_templates_there_is_the_description_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("pipeline.publishing.openapi.HAS_TEMPLATES", False)
    (tmp_path / "site.ini").write_text(INI + SITE)
    answer = ask(load(f"config:{tmp_path}/site.ini"), "/openapi.json", HTTP_ACCEPT="text/html")
    assert answer.content_type == "application/json"


@pytest.mark.parametrize("accept", ["text/html", "application/json"])
def test_headers_of_outer_elements_stay(accept: str) -> None:
    """Also those that were sent before the app was called; the page has a policy of its own."""
    app = Pipeline(shield(), openapi(scan=SCAN, root=openapi_site.Todos))
    answer = ask(app, "/", HTTP_ACCEPT=accept)
    assert answer.content_type == accept and answer.headers["Referrer-Policy"] == "same-origin"
    assert len(answer.headers.getall("Content-Security-Policy")) == 1
    assert ("style-src 'sha256-" in answer.headers["Content-Security-Policy"]) == (accept == "text/html")
    assert answer.headers.getall("X-Content-Type-Options") == ["nosniff"]


class Searched(dict[str, Any]):
    """An object with a view for a method that OpenAPI has only from 3.2 on."""


def test_a_method_that_openapi_lacks_is_left_out_and_told(module: Any) -> None:
    """The description had a key ``query``, which OpenAPI 3.1 does not allow."""

    def search(context: Any, request: Request, word: str) -> str:
        return word

    name = module(view(context=Searched, methods=("GET", "QUERY", "PROPFIND"))(search))
    made = describe(Views((name,), arguments_of), Searched)
    validator.validate(made.document)
    assert list(made.document["paths"]["/"]) == ["get"]
    assert [line.rpartition(" ")[2] for line in made.left_out if "no method" in line] == ["PROPFIND", "QUERY"]


class Asked:
    """What is published."""


DEFAULTS: dict[str, tuple[Any, Any]] = {
    "text": (str, "a"),
    "number": (int, 3),
    "numbers": (set[int], {1}),
    "none": (set[int], set()),
    "price": (Decimal, Decimal("1.50")),
    "day": (date, date(2026, 1, 2)),
    "moment": (datetime, datetime(2026, 1, 2, 3, 4, tzinfo=UTC)),
    "id": (UUID, UUID(int=1)),
    "maybe": (Decimal | None, Decimal(1)),
    "names": (list[str], ["a"]),
}


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("name", DEFAULTS)
def test_a_default_is_one_that_its_schema_allows(name: str, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    annotation, default = DEFAULTS[name]
    module = ModuleType("of_defaults")
    monkeypatch.setitem(sys.modules, "of_defaults", module)

    def show(context: Any, request: Any, value: Any = default) -> str:
        return ""

    show.__module__, show.__annotations__["value"] = "of_defaults", annotation
    module.show = view(context=Asked, name="show", methods=(method,))(show)  # type: ignore[attr-defined]
    views = Views(("of_defaults", "pipeline.publishing.pydantic"), arguments_of)
    document = json.loads(written(describe(views, Asked).document))
    validator.validate(document)
    operation = document["paths"]["/show"][method.lower()]
    if method == "GET":
        [told] = [one["schema"] for one in operation["parameters"]]
    else:
        told = operation["requestBody"]["content"]["application/json"]["schema"]["properties"]["value"]
    jsonschema.validate(told["default"], told, format_checker=jsonschema.FormatChecker())


def test_a_result_that_may_be_none_and_a_model_beside_a_field(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text that may be None was described as JSON, and a field beside a model was left out."""

    @view(context=openapi_site.Todos, name="text")
    def text(context: Any, request: Any) -> str | None: ...

    @view(context=openapi_site.Todos, name="task")
    def task(
        context: Any, request: Any, which: openapi_site.Filter, page: int, size: int = 5
    ) -> openapi_site.Task | None: ...

    @view(context=openapi_site.Todos, name="either")
    def either(context: Any, request: Any) -> str | openapi_site.Task: ...

    @view(context=openapi_site.Todos, name="new", methods=("POST",))
    def new(context: Any, request: Any, task: openapi_site.NewTask, notify: bool, by: str = "") -> None: ...

    module = ModuleType("results_of_one_test")
    for one in (text, task, either, new):
        one.__module__ = module.__name__
        setattr(module, one.__name__, one)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    document = describe(Views((*SCAN, module.__name__), arguments_of), openapi_site.Todos).document
    validator.validate(document)
    contents = [
        document["paths"][path]["get"]["responses"]["2XX"]["content"] for path in ("/text", "/task", "/either")
    ]
    assert contents[0] == {"text/html": {"schema": {"type": "string"}}}
    assert contents[1] == {
        "application/json": {"schema": {"anyOf": [{"$ref": "#/components/schemas/Task"}, {"type": "null"}]}}
    }
    assert contents[2] == {
        "application/json": {"schema": {"anyOf": [{"type": "string"}, {"$ref": "#/components/schemas/Task"}]}}
    }
    asked = {one["name"]: one["required"] for one in document["paths"]["/task"]["get"]["parameters"]}
    assert asked == {"done": False, "limit": False, "page": True, "size": False}
    body = document["paths"]["/new"]["post"]["requestBody"]
    schema = {**body["content"]["application/json"]["schema"], "components": document["components"]}
    jsonschema.validate({"text": "tea", "notify": True}, schema)
    for wrong in ({"text": "tea"}, {"text": "", "notify": True}, {"text": "tea", "notify": 5}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)
    assert body["required"] and list(body["content"])[1] == "application/x-www-form-urlencoded"


def models_named_alike(field: str) -> tuple[Any, Any, Any]:
    """A model with another one in it, and two that have the names of an error page and of a list of models."""
    part = create_model("Part", **{field: (int, ...)})
    again = create_model("New", part=(part, ...), **{field: (str, ...)})
    return again, create_model("Problem", **{field: (int, ...)}), Pages[again]  # type: ignore[valid-type]


T = TypeVar("T")


class Pages(BaseModel, Generic[T]):
    """A page of models."""

    items: list[T]


class Shelf:
    """What is published below one folder."""


class Box:
    """What is published below another folder."""


Box.__name__ = "Shelf"


class Folders(dict[str, Any]):
    """The root."""

    def __getitem__(self, name: str) -> Shelf | Box: ...


@pytest.mark.parametrize("twice", [False, True])
def test_models_and_classes_named_alike_are_told_apart(twice: bool, module: Any) -> None:
    """The description of a view had the fields of the other model, or those of the page of an error."""
    scan, models = [], {}
    for cls, field in ((Shelf, "x"), (Box, "y"), *([(Box, "y")] if twice else ())):
        models[cls] = models.get(cls) or models_named_alike(field)
        for number, model in enumerate(models[cls]):

            def put(context: Any, request: Any, new: Any) -> Any: ...

            put.__annotations__ |= {"new": model, "return": list[model]}
            scan.append(module(view(context=cls, name=f"{number}{twice and len(scan)}", methods=("PUT",))(put)))
    made = describe(Views((*scan, "pipeline.publishing.pydantic"), arguments_of), Folders).document
    validator.validate(made)
    assert [path.split("/")[1] for path in made["paths"]] == ["{shelf}"] * 3 + ["{shelf2}"] * (len(scan) - 3)
    for path, item in made["paths"].items():
        cls, number = (Shelf, Box)[path.startswith("/{shelf2}")], int(path.split("/")[2][0])
        whole = models[cls][0]
        field = next(name for name in whole.model_fields if name != "part")
        value = {"part": {field: 1}, field: "text"}
        sent: Any = (value, {field: 1}, {"items": [value]})[number]
        parts = {"components": made["components"]}
        body = item["put"]["requestBody"]["content"]["application/json"]["schema"]
        answer = item["put"]["responses"]["2XX"]["content"]["application/json"]["schema"]
        jsonschema.validate(sent, body | parts)
        jsonschema.validate([sent], answer | parts)
        other = json.loads(json.dumps(sent).replace(f'"{field}"', '"z"'))
        assert not jsonschema.Draft202012Validator(body | parts).is_valid(other)
    assert len(made["components"]["schemas"]) == 1 + 4 * 2, "none is there twice"
