"""``errors``: exceptions become answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from webob.exc import HTTPException

from pipeline.composition import Offers, element
from pipeline.http import debug_key
from pipeline.http.encodings import make_private_for_user
from pipeline.http.error_pages import (
    DebugRequest,
    Problem,
    accept_of,
    lets_out,
    problem_of,
    put_answer,
    put_problem,
)
from pipeline.interfaces import Handler
from pipeline.options import on_demand
from pipeline.publisher import call_view
from pipeline.request import Request
from pipeline.response import HTML, Response
from pipeline.views import View

if TYPE_CHECKING:
    from pipeline.explaining.debug_page import tell
    from pipeline.explaining.notices import begin_to_notice, tell_notices
else:  # it is for developers alone: a site without ``debug`` never imports it
    tell = on_demand("pipeline.explaining.debug_page:tell")
    begin_to_notice = on_demand("pipeline.explaining.notices:begin_to_notice")
    tell_notices = on_demand("pipeline.explaining.notices:tell_notices")

Reporter = Callable[[Request, Exception, str], object]


class ErrorsRequest(DebugRequest):
    """The attributes that ``errors`` adds to a request."""

    error_id: str | None = None
    """The id of the error in the log, for an error view and for the access log in JSON; None if the error is not
    logged."""


@element(
    adds=ErrorsRequest,
    provides=("error_pages",),
    inside={"retry": "it lets a transient error pass while attempts remain"},
    outside={"transaction": "a failed commit must reach an error view, which sees a clean transaction"},
)
def errors(next: Handler, *, debug: bool = False, reporter: Reporter | None = None) -> Offers:
    """Answer exceptions: by the error view of the exception's class, or by the built-in error page.

    debug     show why the answer is an error, with the frames of an exception, to visitors who have the key that is
              logged at start, and to no others (S17); and warn of answers that have lost something without an error
    reporter  dotted name of ``(request, error, id) -> None``, called for each error that is logged here

    An HTTP exception is an answer and is not logged. A temporary error (a conflict in the last attempt, a database
    that is down) is a 503 with ``Retry-After`` and a warning. Any other error is a 500. It is logged with its
    traceback, under the id that the page shows.

    An error view is a view whose context is a class of exceptions. When it is called, the response has the status
    and the headers of the error, and the transaction was aborted. The view runs in a new transaction that only
    reads. To write, it needs a transaction of its own (``request.tm.abort()``, then ``with request.tm:``). If the
    view fails, the answer is the built-in page. Changes of outer elements stay on the response.

    Errors that are raised while the edge makes the body are answered here too, if nothing was sent: an error in an
    output filter, or before the first block of a stream.
    """

    if debug:
        debug_key.make(tell)

    def errors(request: ErrorsRequest, response: Response) -> None:
        if debug:
            if debug_key.hand_over(request, response):
                return
            request.debug = debug_key.may_see(request)
            begin_to_notice(request)
        request.response_before = response.snapshot()
        try:
            next(request, response)
        except Exception as error:
            if debug:
                tell_notices(request, response, error)
            if (request.attempts_left and request.judge(error).transient) or lets_out(request.environ):
                raise
            answer_error(request, response, error)
        else:
            if debug:
                tell_notices(request, response)

    return Offers(errors, reporter=reporter, answer_error=answer_error, short_tracebacks=debug)


def answer_error(request: ErrorsRequest, response: Response, error: Exception) -> None:
    """Answer an error: with the answer that it carries, with its error view, or with the built-in page."""
    _answer_error(request, response, error)
    make_private_for_user(request, response)  # authenticate does not see this answer


def _answer_error(request: ErrorsRequest, response: Response, error: Exception) -> None:
    before = request.response_before
    response.restore(before)
    if request.answer_for is not None:
        error = request.answer_for(request, error) or error
    if put_answer(request, response, error):
        return
    problem = problem_of(request, error)
    view = request.views.find_error(error, request) if request.views is not None else None
    if view is not None:
        frames = error.__traceback__
        try:
            call_error_view(view, error, problem, request, response)
            return
        except Exception as failure:
            if failure is error:  # it has declined: its own frames say nothing
                error.__traceback__ = frames
            response.restore(before)
            if put_answer(request, response, failure):
                return
            if failure is not error:
                second = problem_of(request, failure, "in an error view", problem.id)
                is_http = isinstance(error, HTTPException) or isinstance(failure, HTTPException)
                problem = second if is_http else problem._replace(id=second.id)
            error = failure
    if request.debug:
        problem = tell(request, error, problem)
    put_problem(response, problem, accept_of(request.environ))


def call_error_view(
    view: View, error: Exception, problem: Problem, request: ErrorsRequest, response: Response
) -> None:
    """Call an error view, with the status and the headers of the error on the response."""
    response.adopt(problem.status, problem.all_headers(HTML[1]), [])
    request.error_id = problem.id or None
    if request.read_afresh is not None:
        request.read_afresh(request)
    call_view(view, error, request, response)
