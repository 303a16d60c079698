"""Error pages in the look of the site.

They do not read the database, which may have failed, and only show the text of the error. Clients that do not ask
for HTML get the answer of the element ``errors``.
"""

from __future__ import annotations

from webob.exc import WSGIHTTPException

from pipeline import Response, view
from pipeline.http.error_pages import SORRY, TRY_AGAIN, Problem, best_type, put_problem, text_of
from pipeline_demo.request import ErrorRequest
from pipeline_demo.views.page import answer

TITLES = {
    400: "This request cannot be understood",
    401: "Please log in",
    403: "You may not do this",
    404: "There is nothing here",
    405: "This cannot be done here",
    413: "This is too large",
    414: "This address is too long",
    415: "This kind of content is not accepted",
    429: "Please wait a moment",
    500: "Something went wrong",
    503: "Please try again in a moment",
}


@view(context=Exception)
def error(context: Exception, request: ErrorRequest, response: Response) -> object:
    """Answer an error. The response already has the status and the headers of the error."""
    status, accept = response.status_int, request.headers.get("Accept")
    if isinstance(context, WSGIHTTPException):
        detail = text_of(context.detail or "") or " ".join(context.explanation.split())
    else:
        detail = TRY_AGAIN if status == 503 else SORRY
    logged = request.error_id
    if best_type(accept) != "text/html":
        put_problem(response, Problem(response.status, detail, logged or ""), accept)
        return None
    title = TITLES.get(status, response.status.partition(" ")[2])
    return answer(request, response, "error.html", {}, title=title, detail=detail, status=status, logged=logged)
