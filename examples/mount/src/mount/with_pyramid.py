"""A Pyramid application, which writes in the transaction of the pipeline. Its pyramid_tm is left alone."""

from typing import Any

from pyramid.config import Configurator
from pyramid.httpexceptions import HTTPConflict
from pyramid.request import Request

from mount.journal import journal
from pipeline.mounting import repeatable, request_of


def home(request: Request) -> dict[str, Any]:
    return {"here": request.route_url("home"), "lines": len(journal(request.environ))}


def write(request: Request) -> dict[str, Any]:
    """Write a line. ``request.tm`` of Pyramid is another transaction manager than that of the pipeline."""
    journal(request.environ).append("pyramid wrote")
    request_of(request.environ).tm.get().note("a line by Pyramid")
    if request.params.get("then") == "conflict":
        raise HTTPConflict
    if request.params.get("then") == "fail":
        raise ZeroDivisionError
    return {"written": True}


def make_app(global_conf: dict[str, str], **settings: str) -> Any:
    """Make the application: ``use = egg:mount#pyramid``. The settings are those of Pyramid."""
    config = Configurator(settings=settings)
    config.include("pyramid_tm")
    for name, path, view in (("home", "/", home), ("write", "/write", write)):
        config.add_route(name, path)
        config.add_view(view, route_name=name, renderer="json")
    return repeatable(config.make_wsgi_app())  # it writes in the transaction of the pipeline alone
