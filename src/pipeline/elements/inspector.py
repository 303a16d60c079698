"""``inspector``: the last requests and the way that each took, on pages for the developer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline.composition import element
from pipeline.http import debug_key
from pipeline.interfaces import Facts, Handler
from pipeline.options import on_demand
from pipeline.ranges import at_least
from pipeline.request import Request
from pipeline.response import Response

if TYPE_CHECKING:
    from pipeline.inspector.blocked import ask_for_reports
    from pipeline.inspector.inspecting import Inspector, between
else:  # they are for developers alone: a site without ``inspector`` never imports them
    ask_for_reports = on_demand("pipeline.inspector.blocked:ask_for_reports")
    Inspector = on_demand("pipeline.inspector.inspecting:Inspector")
    between = on_demand("pipeline.inspector.inspecting:between")

PATH = "/++inspect++"
ADVICE = (
    "inspector notes every request and shows it to the holder of a key: it is for development",
    "Leave it out of the pipeline for production.",
)


class _InspectorRequest(Request):
    """The attribute that ``inspector`` adds to a request."""

    __unkept__: Any = (("inspected", lambda record: ""),)
    inspected: Any = None
    """The record of this request."""


@element(
    adds=_InspectorRequest,
    between=between,
    facts=lambda **options: Facts(advice=(ADVICE,)),
    outside=dict.fromkeys(
        ("log", "vhost", "retry", "database", "errors"), "it shows all that happens to a request, from the outside"
    ),
)
def inspector(next: Handler, *, keep: int = 1_000, slow: float = 0.5) -> Handler:
    """Show the last requests at ``/++inspect++/`` to visitors who have the key that is logged at start, and to no
    others (S17). For development.

    keep  number of requests that are kept in memory, by each process
    slow  seconds from which on a request is marked as slow

    What the browser of that visitor blocks by the Content-Security-Policy of a page is logged, and noted there.
    For each request the pages show the elements with the time of each, what they changed, traversal, the candidates
    for the view, the databases, the log and the error. Secrets are masked: cookies, credentials, and fields whose
    names say so. Stands outside of all other elements of this package.
    """
    at_least(1, keep=keep)
    at_least(0, slow=slow)
    debug_key.make()
    debug_key.announce("the inspector", f"{PATH}/")
    inspecting = Inspector(next, keep, slow)

    def inspector(request: _InspectorRequest, response: Response) -> None:
        if debug_key.hand_over(request, response):
            return
        if request.environ.get("PATH_INFO", "").startswith(PATH) and debug_key.may_see(request):
            inspecting.show(request, response)
        else:
            inspecting.record(request, response)
            if debug_key.may_see(request):
                ask_for_reports(request, response)

    return inspector
