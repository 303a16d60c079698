"""What a view has changed before it asks for a login is not stored, however the login is asked for (R3)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from webob.exc import HTTPUnauthorized

from asking import ask
from pipeline import Pipeline, Request, Response, view
from pipeline.elements.authenticate import authenticate
from pipeline.elements.errors import errors
from pipeline.elements.transaction import transaction
from pipeline.elements.traverse import traverse
from pipeline.publisher import publisher

stored: list[str] = []


class Root(dict[str, Any]):
    """The root of the site."""


def changed(request: Any) -> None:
    request.after_commit(stored.append, "changed")
    request.commit_on_error = "keep" in request.environ["QUERY_STRING"]


@view(context=Root, name="raises")
def raises(context: Root, request: Request) -> None:
    changed(request)
    raise HTTPUnauthorized("Log in.")


@view(context=Root, name="returns")
def returns(context: Root, request: Request, response: Response) -> None:
    changed(request)
    response.status = 401


@view(context=Root, name="returns-exception")
def returns_exception(context: Root, request: Request) -> Any:
    changed(request)
    return HTTPUnauthorized("Log in.")


@pytest.mark.parametrize("accept", ["text/html", "application/json"])
@pytest.mark.parametrize("name", ["raises", "returns", "returns-exception"])
@pytest.mark.parametrize("by", ["basic", "session"])
def test_a_401_stores_nothing(by: str, name: str, accept: str, tmp_path: Path) -> None:
    """A redirect to the page of the login stands for the 401. It was taken for the answer of the view."""
    inner = traverse(root=Root), publisher(scan=(__name__,))
    asking = authenticate(by=(by,), keys=str(tmp_path / "keys"), check=lambda *login: None)
    app = Pipeline(errors(), transaction(), asking, *inner)
    stored.clear()
    answer = ask(app, f"/{name}", HTTP_ACCEPT=accept)
    assert answer.status_int == (303 if (by, accept) == ("session", "text/html") else 401)
    assert stored == []
    ask(app, f"/{name}?keep", HTTP_ACCEPT=accept)
    assert stored == ["changed"]
