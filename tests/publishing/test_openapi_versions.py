"""The description of views that know the version of what they show or change."""

from __future__ import annotations

from typing import Any

import pytest

from asking import ask
from pipeline import Pipeline, view
from pipeline.elements.errors import errors
from pipeline.elements.forms import forms
from pipeline.elements.traverse import traverse
from pipeline.forms.arguments import arguments_of
from pipeline.publisher import publisher
from pipeline.publishing.openapi import describe
from pipeline.views import Views


class Page:
    text = "first"


def version(page: Page) -> str:
    return page.text


@view(context=Page, version=version)
def read(page: Page, request: Any) -> str:
    return page.text


@view(context=Page, methods=("PUT",), version=version, version_required=True)
def write(page: Page, request: Any, text: str) -> str:
    page.text = text
    return text


@view(context=Page, methods=("PATCH",), version=version)
def change(page: Page, request: Any, text: str) -> str:
    return text


@view(context=Page, methods=("POST",))
def act(page: Page, request: Any) -> str:
    return "done"


@pytest.fixture
def described() -> Any:
    document = describe(Views((__name__,), arguments_of), Page).document
    pytest.importorskip("openapi_spec_validator").validate(document)
    return document["paths"]["/"]


EXPECTED: dict[str, tuple[list[tuple[str, bool]], set[str]]] = {
    "get": ([("If-None-Match", False)], {"304"}),
    "put": ([("If-Match", True)], {"412", "428"}),
    "patch": ([("If-Match", False)], {"412"}),
    "post": ([], set()),
}


@pytest.mark.parametrize("method", EXPECTED)
def test_the_headers_and_the_answers_are_described(method: str, described: Any) -> None:
    asked = [
        (one["name"], one["required"]) for one in described[method].get("parameters", ()) if one["in"] == "header"
    ]
    assert (asked, {"304", "412", "428"} & set(described[method]["responses"])) == EXPECTED[method]
    assert ("headers" in described[method]["responses"]["2XX"]) is (method == "get")


def test_the_site_answers_so() -> None:
    page = Page()
    app = Pipeline(errors(), forms(), traverse(root=lambda: page), publisher(scan=(__name__,)))
    tag = ask(app, "/").headers["ETag"]
    sent = {"body": b"text=b", "CONTENT_TYPE": "application/x-www-form-urlencoded"}
    assert ask(app, "/", HTTP_IF_NONE_MATCH=tag).status == 304
    assert ask(app, "/", "PUT", **sent).status == 428
    assert ask(app, "/", "PATCH", HTTP_IF_MATCH='"other"', **sent).status == 412
    assert ask(app, "/", "PUT", HTTP_IF_MATCH=tag, **sent).status == 200
    assert "ETag" not in ask(app, "/", "POST").headers
