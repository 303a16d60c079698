"""Answer an exception that no element answered. The edge imports this for the first such exception."""

from __future__ import annotations

from typing import Any

from pipeline.http.error_pages import lets_out, put_error, put_last_resort
from pipeline.http.header_lists import OF_EVERY_ANSWER
from pipeline.http.streaming import stream
from pipeline.request import Request, close
from pipeline.response import Response
from pipeline.sending import prepare

_BARE = Response().snapshot()
"""The snapshot of a new response. A response without another snapshot is restored to it."""


def answer_at_edge(request: Request, response: Response, error: Exception) -> Any:
    """Answer an exception that no element answered, or that was raised while the body was made. Return the body."""
    if lets_out(request.environ):
        close(request)
        raise error
    try:
        try:
            # What is stored is told all the same: its session, its login, and its position.
            names = OF_EVERY_ANSWER | {"Set-Cookie"} if request.outcome == "committed" else OF_EVERY_ANSWER
            late = [pair for pair in response.headerlist if pair[0] in names]
            if request.answer_error is not None and request.response_before is not None:  # it has met ``errors``
                request.answer_error(request, response, error)
            else:
                response.restore(_BARE)
                put_error(request, response, error)
            others = [pair for pair in response.headerlist if pair[0] not in OF_EVERY_ANSWER]
            response.headerlist[:] = [*others, *late]
            body = prepare(request, response)
            return body if type(body) is list else stream(request, response, body)
        except Exception as failure:  # an error view that streams has failed, or an output filter
            response.restore(_BARE)
            put_last_resort(request, response, failure)
            return prepare(request, response)
    except BaseException:
        close(request)
        raise
