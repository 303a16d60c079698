"""The counter: a number for everybody who asks, and never the same twice.

``@@next`` needs neither a login nor a form token. A token keeps other sites from having a visitor's
browser do what only this visitor may do, and this anybody may do.
"""

from __future__ import annotations

from pipeline import Response, view
from pipeline.demo.models import Counter
from pipeline.demo.request import DemoRequest
from pipeline.demo.views.page import answer, describe, wants_json
from pipeline.interfaces import PUBLIC

ATTEMPTS = 40
"""How often a number is tried for. Everybody writes this one object, so that in a crowd every second
attempt meets another one, and the attempts that other views have run out now and then."""


@view(context=Counter)
def counter(context: Counter, request: DemoRequest, response: Response) -> str:
    return answer(request, response, "counter.html", describe(request, context), context, number=None)


@view(context=Counter, name="next", methods=("POST",), permission=PUBLIC)
def next_number(context: Counter, request: DemoRequest, response: Response) -> str:
    """The next number: in plain text, as JSON, or on a page for a browser."""
    if request.attempts_left:  # `retry` is there
        request.attempts_left = max(request.attempts_left, ATTEMPTS - request.attempt)
    number = context.next()
    if wants_json(request) or "text/html" in request.environ.get("HTTP_ACCEPT", ""):
        return answer(request, response, "counter.html", {"value": number}, context, number=number)
    response.content_type = "text/plain"
    response.headers["Cache-Control"] = "no-store"
    return str(number)
