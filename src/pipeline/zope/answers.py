"""The answer of Zope's response, or of its exception, put on ours."""

from __future__ import annotations

from io import IOBase
from typing import Any

from zExceptions import HTTPException
from ZPublisher.Iterators import IUnboundStreamIterator

from pipeline.http.files import FileBody
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
        blocks = blocks_of(body, request)
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


def blocks_of(body: Any, request: Any) -> Any:
    """Return a file, or blocks, as a body. Blocks may be a part of a file that ``read`` does not end at."""
    if request.call is not None:  # a test that looks at the wrapper
        wrapper = request.environ.get("wsgi.file_wrapper")
        return wrapper(body) if wrapper is not None and hasattr(body, "read") else body
    return body if IUnboundStreamIterator.providedBy(body) else FileBody(body)
