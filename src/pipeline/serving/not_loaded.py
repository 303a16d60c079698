"""The site that ``pipeline serve`` shows in place of one that does not load: a page with the mistake.

A developer's browser gets the page at once. The answer ends when the server stops because a file has changed. Then
the browser asks again, and waits for the site. Browsers of other visitors ask again each second.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from difflib import SequenceMatcher

from pipeline.composition import Pipeline, element
from pipeline.http import debug_key
from pipeline.http.error_pages import DebugRequest, Problem, put_problem
from pipeline.http.tracebacks import LONGEST_TRACEBACK, shortened, traceback_of
from pipeline.interfaces import Handler, OrderError
from pipeline.response import Response
from pipeline.telling.errors import is_ours, place_and_words
from pipeline.telling.words import is_of_the_site

AGAIN = ("Refresh", "1")
"""Has a browser ask again after a second, until the site loads."""
HELD = 8
"""Pages that wait for the end of the server. Each takes a thread."""
PAUSE = 0.5
"""Seconds after which a page that waits looks whether its visitor has gone away."""
AS_WRITTEN, WORKS = "The order as written", "An order that works"
DETAIL = "The site does not load. The terminal of pipeline serve shows the mistake, and where it is."


@element(adds=DebugRequest)
def mistake(*, error: Exception, stopping: threading.Event | None = None) -> Handler:
    """Answer each request with the page of an error, in full to visitors who have the debug key (S17).

    error     the error with which the site did not load
    stopping  set when the server begins to stop
    """
    debug_key.make()
    free = threading.Semaphore(HELD)

    def mistake(request: DebugRequest, response: Response) -> None:
        if debug_key.hand_over(request, response):
            return
        request.debug = debug_key.may_see(request)
        problem = Problem("500 The site does not load", DETAIL, headers=[AGAIN])
        if request.debug:
            problem = problem._replace(detail=place_and_words(error), traceback=part_of_the_site(error))
            if drawn := drawn_order(error):
                detail = problem.detail.partition(f" {AS_WRITTEN}")[0]
                problem = problem._replace(detail=detail, traceback=drawn)
        environ = request.environ
        put_problem(response, problem, environ.get("HTTP_ACCEPT"))
        is_shown = request.debug and environ["REQUEST_METHOD"] == "GET" and response.content_type == "text/html"
        if stopping is not None and is_shown and free.acquire(blocking=False):
            request.on_close(free.release)
            response.headers["Refresh"] = "0"
            page = b"".join(response.app_iter)
            response.app_iter = held(page, stopping, environ.get("waitress.client_disconnected", bool))

    return mistake


def drawn_order(error: Exception) -> str:
    """Return a wrong order beside an order that works, with a star at each element that moves. Else ""."""
    before, works, after = str(error).partition(f". {WORKS}: ")
    if not isinstance(error, OrderError) or not works:
        return ""
    written, working = before.partition(f"{AS_WRITTEN}, outermost first: ")[2].split(), after.split()
    blocks = SequenceMatcher(None, written, working, autojunk=False).get_matching_blocks()
    stays = {name for block in blocks for name in written[block.a : block.a + block.size]}
    width = max(len(name) for name in [AS_WRITTEN, *written]) + 4
    lines = [f"  {AS_WRITTEN:{width}}  {WORKS}", ""]
    for pair in zip(written, working, strict=False):
        old, new = (f"{' ' if name in stays else '*'} {name}" for name in pair)
        lines.append(f"{old:{width + 2}}{new}")
    return "\n".join(lines)


def part_of_the_site(error: Exception) -> str:
    """Return the traceback of an error from the first line of the site on. It is whole if the mistake is ours."""
    if is_ours(error):
        return traceback_of(error)
    told = traceback.TracebackException.from_exception(error)
    one: traceback.TracebackException | None = told
    while one is not None:
        while one.stack and not is_of_the_site(one.stack[0].filename):
            del one.stack[0]
        one.stack = one.stack or None  # type: ignore[assignment]  # no headline either
        one = one.__cause__ or one.__context__
    return shortened("".join(told.format()).rstrip("\n"), LONGEST_TRACEBACK)


def held(page: bytes, stopping: threading.Event, is_gone: Callable[[], bool]) -> Iterator[bytes]:
    """Yield a page, and end when the server stops or the visitor is gone."""
    yield page
    while not stopping.wait(PAUSE) and not is_gone():
        pass


def site_of(error: Exception, stopping: threading.Event | None = None) -> Pipeline:
    """Return an app that answers each request with the page of that error.

    stopping  set when the server begins to stop
    """
    return Pipeline(mistake(error=error, stopping=stopping))


def files_of(error: Exception) -> list[str]:
    """Return the files in which a load has failed, and those that would be the module that is missing."""
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    if named := getattr(error, "filename", None):  # by a SyntaxError
        files.append(named)
    if isinstance(error, ModuleNotFoundError) and error.name:
        path = error.name.replace(".", "/")
        files += [f"{place}/{path}{end}" for place in sys.path for end in (".py", "/__init__.py")]
    return files
