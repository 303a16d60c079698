"""``errors``: exceptions become answers."""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import ip_address

from webob.exc import HTTPException

from pipeline.composition import Offers, element
from pipeline.http.error_pages import DebugRequest, Problem, problem_of, put_answer, put_problem, traceback_of
from pipeline.interfaces import Handler
from pipeline.publisher import call_view
from pipeline.request import Request
from pipeline.response import HTML, Response
from pipeline.views import View

Reporter = Callable[[Request, Exception, str], object]


class ErrorsRequest(DebugRequest):
    """What ``errors`` adds to a request."""

    error_id: str | None = None
    """The id under which the error is in the log, for an error view; None if it is not logged."""


@element(
    adds=ErrorsRequest,
    inside={"retry": "it lets a transient error pass while attempts remain"},
    outside={"transaction": "a failed commit must reach an error view, which sees a clean transaction"},
)
def errors(next: Handler, *, debug: bool = False, reporter: Reporter | None = None) -> Offers:
    """Answer exceptions: by the error view of the exception's class, or by a page of ours.

    debug     whether a visitor on this very machine, and nobody else, sees tracebacks (S17)
    reporter  dotted name of ``(request, error, id) -> None``, called for each error that is logged here

    An HTTP exception is an answer and is not logged. An error that will pass (a conflict after the last
    attempt, a database that is down) is a 503 with ``Retry-After`` and a warning. Any other is a 500 and
    logged with its traceback, under the id that the page shows.

    An error view is a view whose context is a class of exceptions. It is called with the status and the
    headers of the error on the response, after the transaction was aborted, and in a new one that only reads:
    what it writes needs a transaction of its own (``request.tm.abort()``, then ``with request.tm:``). If it
    fails, the answer is a page of ours. What outer elements had put on the response stays on it.

    An error that only comes up while the edge makes the body is answered here too, as long as nothing was
    sent: one in an output filter, or ahead of the first block of a stream.
    """

    def errors(request: ErrorsRequest, response: Response) -> None:
        if debug:
            request.debug = is_local(request)
        request.response_before = response.snapshot()
        try:
            next(request, response)
        except Exception as error:
            if request.attempts_left and request.judge(error).transient:
                raise
            answer(request, response, error)

    def answer(request: ErrorsRequest, response: Response, error: Exception) -> None:
        before = request.response_before
        response.restore(before)
        if put_answer(request, response, error):
            return
        problem = problem_of(request, error)
        view = request.views.find_error(error, request) if request.views is not None else None
        if view is not None:
            try:
                call_error_view(view, error, problem, request, response)
                return
            except Exception as failure:
                response.restore(before)
                if put_answer(request, response, failure):
                    return
                if failure is not error:  # else the view has declined
                    second = problem_of(request, failure, "in an error view", problem.id)
                    if isinstance(error, HTTPException) or isinstance(failure, HTTPException):
                        problem = second
                    else:
                        problem = problem._replace(id=second.id)
                error = failure
        if debug and problem.id and is_local(request):
            problem = problem._replace(traceback=traceback_of(error))
        put_problem(response, problem, request.environ.get("HTTP_ACCEPT"))

    return Offers(errors, reporter=reporter, answer_error=answer)


def call_error_view(
    view: View, error: Exception, problem: Problem, request: ErrorsRequest, response: Response
) -> None:
    """Call an error view, with what the error says on the response."""
    response.adopt(problem.status, problem.all_headers(HTML[1]), [])
    request.error_id = problem.id or None
    if request.read_afresh is not None:
        request.read_afresh(request)
    call_view(view, error, request, response)


_PROXIES = ("HTTP_FORWARDED", "HTTP_X_FORWARDED", "HTTP_X_REAL_IP", "HTTP_VIA")
"""How the headers begin that a proxy adds."""


def is_local(request: Request) -> bool:
    """Whether the visitor is on this machine, and no proxy in between (S17).

    ``request.forwarded`` says that ``vhost`` took such headers away, whether it believed them or not.
    The host asked for must be this machine too: a proxy that adds no header at all most likely passes on the
    name it was asked for, and so does a browser that another site has sent here (DNS rebinding).
    """
    environ = request.environ
    if getattr(request, "forwarded", False) or any(name.startswith(_PROXIES) for name in environ):
        return False
    host = re.sub(r":[0-9]*$", "", environ.get("HTTP_HOST", "")).strip("[]")
    return is_loopback(environ.get("REMOTE_ADDR", "")) and (host == "localhost" or is_loopback(host))


def is_loopback(address: str) -> bool:
    try:
        ip = ip_address(address)
    except ValueError:
        return False
    return (getattr(ip, "ipv4_mapped", None) or ip).is_loopback
