"""The objects of Zope and ours: the answer of a response of Zope, and the environ that its requests copy."""

from __future__ import annotations

from typing import Any

from pipeline.http.redirects import of_foreign
from pipeline.response import HeaderList, Response


def put(response: Response, status: str, headers: HeaderList, body: Any) -> None:
    """Have our response answer as Zope does. The site itself judges its redirects, as behind any server."""
    response.adopt(status, of_foreign(headers) if status[:1] == "3" else headers, body)


def hide_pipeline(copy: dict[str, Any], environ: dict[str, Any]) -> None:
    """Take our objects out of the copy of an environ that a request of Zope has made: they refer to it."""
    if copy is not environ:
        copy.pop("pipeline.request", None)
        copy.pop("pipeline.response", None)
