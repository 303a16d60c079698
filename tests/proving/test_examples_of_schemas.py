"""The bodies that ``prove`` makes of the models of views: the library that made the schema takes them."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest

pydantic = pytest.importorskip("pydantic")

from pipeline.proving.values import example_of  # noqa: E402


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Inner(pydantic.BaseModel):  # type: ignore[misc,name-defined]
    name: Annotated[str, pydantic.Field(min_length=8)]


class Tree(pydantic.BaseModel):  # type: ignore[misc,name-defined]
    name: str
    below: Inner | None
    others: Annotated[list[Inner], pydantic.Field(min_length=2)]


KINDS: list[Any] = [
    *(str, int, float, bool, date, datetime, time, timedelta, UUID, Decimal, Colour, Inner, Tree),
    *(list[int], dict[str, int], set[str], Literal["a", "b"], int | None, Inner | None, list[Tree]),
    Annotated[int, pydantic.Field(gt=7)],
    Annotated[int, pydantic.Field(ge=7, le=7)],
    Annotated[int, pydantic.Field(le=-3)],
    Annotated[float, pydantic.Field(lt=-3)],
    Annotated[int, pydantic.Field(multiple_of=5)],
    Annotated[str, pydantic.Field(max_length=2)],
    Annotated[list[str], pydantic.Field(min_length=3)],
    pydantic.AnyUrl,
    tuple[int, str],
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_an_example_is_valid(kind: Any) -> None:
    adapter = pydantic.TypeAdapter(kind)
    example = example_of(adapter.json_schema())
    adapter.validate_python(example)
