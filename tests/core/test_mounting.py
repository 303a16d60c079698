"""Applications of other frameworks use the request and the transaction of the pipeline (see examples/mount)."""

from __future__ import annotations

from typing import Any

import pytest
import webob
from transaction import TransactionManager

from asking import ask
from pipeline import Pipeline
from pipeline.elements.transaction import transaction
from pipeline.mounting import commits_itself, manager_of, request_of
from pipeline.testing import FakeDataManager


def mounted(stored: list[str], status: int = 200) -> Any:
    """An application of another framework that stores a value in the transaction of its request."""

    def app(environ: dict[str, Any], start_response: Any) -> Any:
        request = webob.Request(environ)
        assert manager_of(request) is request_of(environ).tm
        assert commits_itself(request) is False
        FakeDataManager(manager_of(request), stored, "a value").join()
        return webob.Response(status=status)(environ, start_response)

    return app


def copying(app: Any) -> Any:
    return lambda environ, start_response: app({**environ}, start_response)


@pytest.mark.parametrize("between", [(), (copying,)])
@pytest.mark.parametrize(("status", "expected"), [(200, ["a value"]), (409, [])])
def test_the_pipeline_commits_what_an_app_stores__R3(between: Any, status: int, expected: list[str]) -> None:
    stored: list[str] = []
    assert ask(Pipeline(transaction(), *between, mounted(stored, status)), "/", "POST").status == status
    assert stored == expected


def test_an_application_that_runs_alone_commits_by_itself() -> None:
    request = webob.Request.blank("/")
    assert commits_itself(request) is True
    manager = manager_of(request)
    assert isinstance(manager, TransactionManager) and manager.explicit


def test_a_pipeline_without_transaction_does_not_commit() -> None:
    seen: list[bool] = []

    def app(environ: dict[str, Any], start_response: Any) -> Any:
        seen.append(commits_itself(webob.Request(environ)))
        return webob.Response()(environ, start_response)

    ask(Pipeline(app))
    assert seen == [True]


@pytest.mark.parametrize("environ", [{}, {"pipeline.request": "another"}])
def test_outside_of_a_pipeline_there_is_no_request(environ: dict[str, Any]) -> None:
    with pytest.raises(LookupError, match="the environ has no request of a pipeline"):
        request_of(environ)
