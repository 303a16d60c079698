"""The site that ``pipeline serve`` shows in place of one that does not load: a page with the mistake."""

from __future__ import annotations

import sys
import traceback

from pipeline.composition import Pipeline, element
from pipeline.http import debug_key
from pipeline.http.error_pages import DebugRequest, Problem, put_problem, traceback_of
from pipeline.interfaces import Handler
from pipeline.response import Response
from pipeline.tools.command import place_and_words

AGAIN = ("Refresh", "1")
"""Has a browser ask again after a second, until the site loads."""
DETAIL = "The site does not load. The terminal of pipeline serve shows the mistake, and where it is."


@element(adds=DebugRequest)
def mistake(*, error: Exception) -> Handler:
    """Answer each request with the page of an error, in full to visitors who have the debug key (S17).

    error  the error with which the site did not load
    """
    debug_key.make()

    def mistake(request: DebugRequest, response: Response) -> None:
        if debug_key.hand_over(request, response):
            return
        request.debug = debug_key.may_see(request)
        problem = Problem("500 Internal Server Error", DETAIL, headers=[AGAIN])
        if request.debug:
            problem = problem._replace(detail=place_and_words(error), traceback=traceback_of(error))
        put_problem(response, problem, request.environ.get("HTTP_ACCEPT"))

    return mistake


def site_of(error: Exception) -> Pipeline:
    """Return an app that answers each request with the page of that error."""
    return Pipeline(mistake(error=error))


def files_of(error: Exception) -> list[str]:
    """Return the files in which a load has failed, and those that would be the module that is missing."""
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    if named := getattr(error, "filename", None):  # by a SyntaxError
        files.append(named)
    if isinstance(error, ModuleNotFoundError) and error.name:
        path = error.name.replace(".", "/")
        files += [f"{place}/{path}{end}" for place in sys.path for end in (".py", "/__init__.py")]
    return files
