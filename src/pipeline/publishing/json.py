"""JSON for programs: ``scan = pipeline.publishing.json`` lets views return dicts and lists."""

from __future__ import annotations

import json
from typing import Any

from pipeline.interfaces import IResult
from pipeline.request import Request
from pipeline.response import Response
from pipeline.views import adapter

_TYPE = ("Content-Type", "application/json")
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class _JSON:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self, request: Request, response: Response) -> None:
        response.adopt(response.status, [_TYPE], [_encode(self.value).encode()])


@adapter(dict, IResult)
def dict_result(value: dict[str, Any]) -> _JSON:
    """Return the result that sends a dict as a JSON object."""
    return _JSON(value)


@adapter(list, IResult)
def list_result(value: list[Any]) -> Any:
    """Return the result that sends a list as a JSON array. A list of bytes is a body, as everywhere."""
    if value and all(isinstance(block, bytes) for block in value):
        return lambda request, response: iter(value)
    return _JSON(value)
