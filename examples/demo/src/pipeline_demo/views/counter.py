"""The counter, which gives each request another number.

``next`` needs neither a login nor a form token. A token keeps other sites from using the permissions of a
visitor, but this view needs no permission.
"""

from __future__ import annotations

from pipeline import Response, view
from pipeline.interfaces import PUBLIC
from pipeline_demo.models import Counter
from pipeline_demo.request import CounterRequest, PageRequest
from pipeline_demo.views.page import answer, describe, wants_json

ATTEMPTS = 40
"""Upper limit of the attempts at a number. All requests write this one object, so under load every second attempt
has a conflict, and the number of attempts that suits other views would not always be enough."""


@view(context=Counter)
def counter(context: Counter, request: PageRequest, response: Response) -> object:
    return answer(request, response, "counter.html", describe(request, context), context, number=None)


@view(context=Counter, name="next", methods=("POST",), permission=PUBLIC)
def next_number(context: Counter, request: CounterRequest, response: Response) -> object:
    """Answer with the next number: in plain text, as JSON, or on a page for a browser."""
    if request.attempts_left:  # `retry` is there
        request.attempts_left = max(request.attempts_left, ATTEMPTS - request.attempt)
    number = context.next()
    if wants_json(request) or "text/html" in request.headers.get("Accept", ""):
        return answer(request, response, "counter.html", {"value": number}, context, number=number)
    response.content_type = "text/plain"
    response.headers["Cache-Control"] = "no-store"
    return str(number)
