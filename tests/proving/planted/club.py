"""A club as a Pyramid application, mounted into a pipeline: members in a ZODB, by Pyramid's own traversal."""

from __future__ import annotations

from html import escape
from typing import Any

from persistent.mapping import PersistentMapping
from pyramid.config import Configurator
from pyramid.httpexceptions import HTTPBadRequest, HTTPFound
from pyramid.response import Response
from pyramid_zodbconn import get_connection

SEEN: dict[str, str] = {}
LISTENERS: list[Any] = []


class Club(PersistentMapping):  # type: ignore[misc]
    """The root, with the members by name."""

    __parent__ = None
    __name__ = None


class Member(PersistentMapping):  # type: ignore[misc]
    """A member, with what he pays."""


def root(request: Any) -> Club:
    found = get_connection(request).root()
    if "club" not in found:
        found["club"] = Club()
    club: Club = found["club"]
    return club


def page(title: str, body: str) -> Response:
    return Response(f"<!doctype html><html lang=en><title>{escape(title)}</title><body>{body}</body></html>")


def index(club: Club, request: Any) -> Response:
    items = "".join(f"<li><a href='/{escape(name)}/'>{escape(one['name'])}</a></li>" for name, one in club.items())
    form = "<form action=/join method=post><input name=name><input name=fee value=5><button>join</button></form>"
    return page("Club", f"<ul>{items}</ul>{form}<a href=/rules>rules</a>")


def rules(club: Club, request: Any) -> Response:
    return page("Rules", "<p>Pay.</p><a href=/>club</a>")


def join(club: Club, request: Any) -> Any:
    name, fee = request.POST.get("name", "").strip(), request.POST.get("fee", "")
    if not name or not (fee.isascii() and fee.isdigit()):
        return HTTPBadRequest("a name and a fee")
    key = f"m{len(club)}"
    club[key] = Member(name=name[:60], fee=int(fee[:6]))
    return HTTPFound(f"/{key}/")


def show(member: Member, request: Any) -> Response:
    form = "<form action=pay method=post><input name=fee value=1><button>pay</button></form>"
    return page(member["name"], f"<p>{escape(member['name'])} pays {member['fee']}</p>{form}<a href=/>club</a>")


def pay(member: Member, request: Any) -> Any:
    fee = request.POST.get("fee", "")
    if not (fee.isascii() and fee.isdigit()):
        return HTTPBadRequest("a fee")
    member["fee"] = int(fee[:6])
    return HTTPFound("./")


def app(conf: Any, **options: str) -> Any:
    """Return the application."""
    config = Configurator(root_factory=root)
    config.include("pipeline.mounting")
    config.add_view(index, context=Club)
    config.add_view(rules, context=Club, name="rules")
    config.add_view(join, context=Club, name="join", request_method="POST")
    config.add_view(show, context=Member)
    config.add_view(pay, context=Member, name="pay", request_method="POST")
    return config.make_wsgi_app()
