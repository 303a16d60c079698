"""The site that ``pipeline serve`` shows in place of one that does not load: a page with the mistake."""

from __future__ import annotations

import logging
import sys
import traceback
from typing import NoReturn

from pipeline.composition import Pipeline, element
from pipeline.elements.errors import errors
from pipeline.interfaces import Handler
from pipeline.request import Request
from pipeline.response import Response

log = logging.getLogger("pipeline")


@element
def again(next: Handler, *, seconds: int) -> Handler:
    """Have a browser ask again, until the site loads.

    seconds  seconds that the browser waits
    """

    def again(request: Request, response: Response) -> None:
        next(request, response)
        response.headers["Refresh"] = str(seconds)

    return again


@element
def mistake(*, error: Exception) -> Handler:
    """Raise the error of the load.

    error  the error with which the site did not load
    """
    traceback = error.__traceback__

    def mistake(request: Request, response: Response) -> NoReturn:
        raise error.with_traceback(traceback)

    return mistake


def site_of(error: Exception) -> Pipeline:
    """Return an app that answers each request with the page of that error, in full to those with the debug key.

    The command has said it in one line, so that the log does not have it each time that a browser asks again.
    """
    log.addFilter(lambda record: record.levelno < logging.ERROR)
    return Pipeline(again(seconds=1), errors(debug=True), mistake(error=error))


def files_of(error: Exception) -> list[str]:
    """Return the files in which a load has failed, and those that would be the module that is missing."""
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    if named := getattr(error, "filename", None):  # by a SyntaxError
        files.append(named)
    if isinstance(error, ModuleNotFoundError) and error.name:
        path = error.name.replace(".", "/")
        files += [f"{place}/{path}{end}" for place in sys.path for end in (".py", "/__init__.py")]
    return files
