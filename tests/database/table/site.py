"""The site of the table: a pipeline in which every place asks the play what to do there."""

from __future__ import annotations

import json
from typing import Any

from database.table.kits import Kit
from pipeline import Pipeline, Request, Response, element, view
from pipeline.composition import Offers
from pipeline.elements.errors import errors
from pipeline.elements.retry import retry
from pipeline.elements.transaction import transaction
from pipeline.views import Views


class Asked(Exception):
    """The error for which the site has an error view."""


@view(context=Asked)
def say_error(error: Asked, request: Request) -> str:
    play_of(request).at("error view", request)
    return "an error"


def play_of(request: Any) -> Any:
    return request.environ["table.play"]


@element
def outside(next: Any) -> Any:
    """Stand outside ``transaction``."""

    def outside(request: Request, response: Response) -> None:
        play = play_of(request)
        play.at("on the way in", request)
        try:
            next(request, response)
        finally:
            play.at("on the way out", request)

    return outside


@element
def inside(next: Any) -> Any:
    """Stand inside ``transaction``."""

    def inside(request: Request, response: Response) -> None:
        next(request, response)
        play_of(request).at("inside", request)

    return inside


@element
def end(*, kit: Kit) -> Any:
    """Call the view that the path names."""

    def end(request: Request, response: Response) -> None:
        body = VIEWS[request.path_info](kit, request)
        response.app_iter = [body] if isinstance(body, bytes) else body

    return Offers(end, views=Views((__name__,)))


def play(kit: Kit, request: Request) -> Any:
    """Play the row. The body is a stream if the play makes one."""
    play = play_of(request)
    play.at("view", request)
    return play.body(request)


def come_later(kit: Kit, request: Request) -> bytes:
    """Play the part of a request that comes later."""
    play_of(request).at("view", request)
    return b"done"


def visit(kit: Kit, request: Request) -> bytes:
    """Show what this visitor sees, and write what does not concern any row."""
    seen = kit.state(request)
    kit.write(kit.take(request), "visitor", request.query_string)
    return json.dumps(seen).encode()


def create(kit: Kit, request: Request) -> bytes:
    """Write the first state of everything."""
    kit.create(request)
    return b"created"


def put_back(kit: Kit, request: Request) -> bytes:
    """Write the first state of everything that is not in its first state."""
    kit.put_back(request)
    return b"put back"


VIEWS = {
    "/create": create,
    "/play": play,
    "/later": come_later,
    "/visit": visit,
    "/put-back": put_back,
}


def site_of(kit: Kit) -> Pipeline:
    return Pipeline(
        retry(delay=0, attempts=2), kit.element(), errors(), outside(), transaction(), inside(), end(kit=kit)
    )
