"""The answer of a response of Zope, put on ours."""

from __future__ import annotations

from typing import Any

from pipeline.http.redirects import of_foreign
from pipeline.response import HeaderList, Response


def put(response: Response, status: str, headers: HeaderList, body: Any) -> None:
    """Have our response answer as Zope does. The site itself judges its redirects, as behind any server."""
    response.adopt(status, of_foreign(headers) if status[:1] == "3" else headers, body)
