"""JSON for programs: ``scan = pipeline.publishing.json`` lets views return dicts and lists."""

from __future__ import annotations

import json
from typing import Any

from pipeline.interfaces import IResult
from pipeline.response import CHECKED
from pipeline.views import adapter

_TYPE = ("Content-Type", "application/json")
CHECKED.add(_TYPE)
# A value that contains itself is an error in any case: a RecursionError, or a ValueError with the check.
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode


@adapter(dict, IResult)
def dict_result(value: dict[str, Any]) -> Any:
    """Return the result that sends a dict as a JSON object."""
    return _sent(value)


@adapter(list, IResult)
def list_result(value: list[Any]) -> Any:
    """Return the result that sends a list as a JSON array. A list of bytes is a body, as everywhere."""
    if value and all(isinstance(block, bytes) for block in value):
        return lambda request, response: iter(value)
    return _sent(value)


def _sent(value: Any) -> Any:
    body = [_encode(value).encode()]
    return lambda request, response: response.adopt(response.status_line, [_TYPE], body)
