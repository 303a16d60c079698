"""PUT and XML-RPC on the demo where something goes wrong on the way: what is answered is what is stored."""

from __future__ import annotations

import io
import xmlrpc.client
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transaction.interfaces import TransientError
from webob.exc import HTTPConflict
from webtest import TestApp

from pipeline import Pipeline
from pipeline.elements.authenticate import authenticate
from pipeline.elements.errors import errors
from pipeline.elements.forms import forms
from pipeline.elements.retry import retry
from pipeline.elements.session import session
from pipeline.elements.transaction import transaction
from pipeline.elements.traverse import traverse
from pipeline.elements.zodb import zodb
from pipeline.interfaces import IXMLRPCRequest
from pipeline.publisher import publisher
from pipeline_demo import check
from pipeline_demo.views import remote
from pipeline_demo.views.remote import IAuthoringRequest

from .conftest import PASSWORD


@pytest.fixture
def client(known_password: str, no_documentation: None, tmp_path: Path) -> Callable[[Any], TestApp]:
    """``client(request_type)`` asks one site as the administrator."""

    keys = tmp_path / "keys"
    keys.touch(0o600)
    keys.write_text("k" * 32)

    def client(request_type: Any) -> TestApp:
        app = TestApp(
            Pipeline(
                retry(delay=0),
                zodb(uri="memory://demo-remote", root="pipeline_demo:root"),
                errors(),
                transaction(),
                session(keys=str(keys)),
                forms(),
                authenticate(check=check),
                traverse(request_type=request_type),
                publisher(scan=("pipeline_demo", "pipeline.publishing.xmlrpc")),
            )
        )
        app.authorization = ("Basic", ("admin", PASSWORD))
        return app

    return client


class Once(io.BytesIO):
    """A body that can be read once, as that of a server."""

    def seekable(self) -> bool:
        return False

    def seek(self, *arguments: int) -> int:
        raise io.UnsupportedOperation


@pytest.mark.parametrize("size", [10, 500_000])
def test_a_put_that_is_tried_again_stores_all_of_it(
    client: Callable[[Any], TestApp], monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """R2"""
    attempts = []
    real = remote.store

    def store(*arguments: Any) -> Any:
        content = real(*arguments)
        attempts.append(content.size)
        if len(attempts) < 3:
            raise TransientError
        return content

    monkeypatch.setattr(remote, "store", store)
    app, name = client(IAuthoringRequest), f"/file-{size}.bin"
    environ = {"wsgi.input": Once(b"x" * size), "CONTENT_LENGTH": str(size)}
    app.request(name, method="PUT", environ=environ, status=201)
    assert attempts == [size] * 3
    assert app.get(name).body == b"x" * size


@pytest.mark.parametrize("commits", [False, True])
def test_a_call_that_fails_has_stored_nothing(
    client: Callable[[Any], TestApp], monkeypatch: pytest.MonkeyPatch, commits: bool
) -> None:
    """R3: a fault is an error, though its status is 200. The view may say that its changes are stored."""

    def fail(request: Any, *arguments: Any) -> str:
        request.commit_on_error = commits
        raise HTTPConflict("too late")

    app = client(IXMLRPCRequest)
    body = xmlrpc.client.dumps(("Title", "text"), "add_document").encode()
    with monkeypatch.context() as failing:
        failing.setattr(remote, "url_of", fail)
        for _ in range(2 - commits):
            answer = app.post("/", body, content_type="text/xml", status=200)
            with pytest.raises(xmlrpc.client.Fault, match="too late"):
                xmlrpc.client.loads(answer.body)
    call = xmlrpc.client.dumps((), "list").encode()
    listed = xmlrpc.client.loads(app.post("/", call, content_type="text/xml").body)[0][0]
    assert ("title" in [item["name"] for item in listed]) is commits  # type: ignore[call-overload, index, union-attr]
