"""A counter in the store of examples/element."""

from __future__ import annotations

from typing import Any

from filestore import StoreRequest
from pipeline import view
from pipeline.interfaces import PUBLIC


class Numbers:
    """The root of the site."""

    def __getitem__(self, name: str) -> Any:
        raise KeyError(name)


@view(context=Numbers)
def index(numbers: Numbers, request: StoreRequest) -> str:
    return str(request.store.get("number", 0))


@view(context=Numbers, name="next", methods=("POST",), permission=PUBLIC)
def next_number(numbers: Numbers, request: StoreRequest) -> str:
    request.store["number"] = number = request.store.get("number", 0) + 1
    return str(number)
