"""The attributes of a request with a form."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pipeline.request import Request, on_first_use

NOTHING: Mapping[str, Any] = MappingProxyType({})


class FormsRequest(Request):
    """The attributes that ``forms`` adds to a request."""

    __unkept__: Any = (("form", lambda form: ""),)  # that of a GET is its query
    form: Mapping[str, Any] = on_first_use()
    """The fields of the form that was sent, by name."""
