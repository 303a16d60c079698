"""A list of what a library makes gets one value as well as several, as every other list does."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest

from asking import ask
from pipeline import Pipeline, Request, view
from pipeline.elements.errors import errors
from pipeline.elements.forms import forms
from pipeline.elements.traverse import traverse
from pipeline.publisher import publisher

pytest.importorskip("pydantic")
pytest.importorskip("msgspec")

ONE, TWO = "1" * 32, "2" * 32


class Root(dict[str, Any]):
    """The root of the site."""


@pytest.mark.parametrize("library", ["pydantic", "msgspec"])
@pytest.mark.parametrize(
    ("annotation", "texts", "value"),
    [
        (list[UUID], [ONE], [UUID(ONE)]),
        (list[UUID], [ONE, TWO], [UUID(ONE), UUID(TWO)]),
        (list[UUID], [], []),
        (list[UUID], ["x"], 400),
        (list[UUID] | None, [ONE], [UUID(ONE)]),
        (list[UUID] | None, [], None),
        (set[UUID] | None, [ONE], {UUID(ONE)}),
        (Annotated[list[int], "with what a library reads"], ["1"], [1]),
        (tuple[int, str], ["1", "a"], (1, "a")),
        (str | None, [""], ""),
    ],
)
def test_one_value_is_a_list(
    annotation: Any, texts: list[str], value: Any, library: str, module: Callable[..., str]
) -> None:
    """One box of several that is ticked was a 400."""
    got: list[Any] = []

    def shows(context: Any, request: Request, value: Any) -> str:
        got.append(value)
        return "read"

    shows.__annotations__["value"] = annotation
    scan = (module(view(context=Root)(shows)), f"pipeline.publishing.{library}")
    app = Pipeline(errors(), forms(), traverse(root=Root), publisher(scan=scan))
    answer = ask(app, "/", QUERY_STRING="&".join(f"value={text}" for text in texts))
    assert (got[0] if answer.status_int == 200 else answer.status_int) == value


@pytest.mark.parametrize("library", ["pydantic", "msgspec"])
@pytest.mark.parametrize(
    ("annotation", "sent", "value"),
    [
        (list[UUID] | None, None, None),
        (set[UUID] | None, None, None),
        (dict[str, Any] | list[UUID], {"a": 1}, {"a": 1}),
        (list[UUID] | dict[str, Any], {"a": 1}, {"a": 1}),
        (list[UUID] | dict[str, Any], [ONE], [UUID(ONE)]),
        (list[UUID] | Literal["all", "none"], "all", "all"),
        (UUID | list[UUID], ONE, UUID(ONE)),
        (list[UUID], None, 400),
    ],
)
def test_the_first_that_fits_is_what_json_has_sent(
    annotation: Any, sent: Any, value: Any, library: str, module: Callable[..., str]
) -> None:
    """A value that is not a list was made one, whatever else the annotation allows. So null, a member of the
    description, was a 400."""
    got: list[Any] = []

    def takes(context: Any, request: Request, value: Any) -> str:
        got.append(value)
        return "read"

    takes.__annotations__["value"] = annotation
    scan = (module(view(context=Root, methods=("POST",))(takes)), f"pipeline.publishing.{library}")
    app = Pipeline(errors(), forms(), traverse(root=Root), publisher(scan=scan))
    answer = ask(app, "/", "POST", json.dumps({"value": sent}).encode(), CONTENT_TYPE="application/json")
    assert (got[0] if answer.status_int == 200 else answer.status_int) == value
