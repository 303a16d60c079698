"""The answer of Zope's response, or of its exception, put on ours."""

from __future__ import annotations

from io import IOBase
from typing import Any

from zExceptions import HTTPException
from ZPublisher.Iterators import IUnboundStreamIterator

from pipeline.response import Response
from pipeline.toolkit.answers import put
from pipeline.zope.short import finalize


def put_answer(request: Any, response: Response) -> None:
    """Put what Zope's response has on ours."""
    answer = request.zope_response
    is_stub = request.call is not None and request.call.is_stub
    status, headers = answer.finalize() if is_stub else finalize(answer)
    body = answer.body
    if isinstance(body, IOBase) or IUnboundStreamIterator.providedBy(body):
        wrapper = request.environ.get("wsgi.file_wrapper")
        blocks = wrapper(body) if wrapper is not None and hasattr(body, "read") else body
    else:
        written = answer.stdout.getvalue()  # by response.write
        blocks = [written, body] if written else [body]
    if is_stub:
        request.call.answer = status, headers, blocks
        status, headers, blocks = "204 No Content", [], []
    put(response, status, headers, blocks)
    for function in answer.after_list:
        function()


def put_exception(request: Any, response: Response, error: Exception) -> None:
    """Answer with an HTTP exception as ``egg:Zope#httpexceptions`` does. Raise any other."""
    if not isinstance(error, HTTPException):
        raise error
    found: list[Any] = []

    def start_response(status: str, headers: Any, exc_info: Any = None) -> None:
        found.extend((status, headers))

    body = list(error(request.environ, start_response))
    status, headers = found
    put(response, status, headers, body)
