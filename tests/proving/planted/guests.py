"""A guest house, a Pyramid application whose forms have tokens: a book of guests, rooms, and a leaflet."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import Any

from BTrees.IOBTree import IOBTree
from persistent import Persistent
from persistent.mapping import PersistentMapping
from pyramid.config import Configurator
from pyramid.csrf import CookieCSRFStoragePolicy, get_csrf_token
from pyramid.httpexceptions import HTTPBadRequest, HTTPConflict, HTTPNotFound, HTTPSeeOther
from pyramid.response import FileResponse, Response
from pyramid.view import view_config

from pipeline.mounting import request_of

HERE = Path(__file__).parent


class House(Persistent):  # type: ignore[misc]
    def __init__(self) -> None:
        self.rooms = PersistentMapping({"blue": 5, "green": 3})
        self.book, self.stays, self.last = IOBTree(), IOBTree(), 0
        self.book[self.next()] = Entry("Bob", "A good place")
        self.stays[self.next()] = Stay("blue", 1, "Bob")

    def next(self) -> int:
        self.last += 1
        return int(self.last)


class Entry(Persistent):  # type: ignore[misc]
    def __init__(self, name: str, text: str) -> None:
        self.name, self.text = name, text


class Stay(Persistent):  # type: ignore[misc]
    def __init__(self, room: str, nights: int, name: str) -> None:
        self.room, self.nights, self.name = room, nights, name


def house(request: Any) -> Any:
    database = request_of(request.environ).root
    if "house" not in database:
        database["house"] = House()
    return database["house"]


def page(request: Any, title: str, body: str) -> Response:
    return Response(f"""<!DOCTYPE html><html lang="en"><title>{escape(title)}</title><h1>{escape(title)}</h1>{body}
    <a href="/">House</a> <a href="/book">Book</a> <a href="/stays">Stays</a></html>""")


def token(request: Any) -> str:
    return f'<input type="hidden" name="csrf_token" value="{get_csrf_token(request)}">'


@view_config(route_name="home")
def home(request: Any) -> Any:
    rooms = "".join(
        f"""<li>{escape(name)}: {free} free<form method="post" action="/stay">{token(request)}
        <input type="hidden" name="room" value="{escape(name)}"><input name="nights" value="1">
        <input name="name" value="Guest"><button>Ask</button></form></li>"""
        for name, free in house(request).rooms.items()
    )
    links = '<a href="/leaflet?name=map.txt&amp;as=map">Map</a> <a href="/go?to=/book">To the book</a>'
    return page(request, "Guest house", f"<ul>{rooms}</ul>{links}")


@view_config(route_name="go")
def go(request: Any) -> Any:
    to = request.GET.get("to", "/")
    if not re.fullmatch(r"/[a-z]*", to):
        raise HTTPBadRequest("Only within the house.")
    return HTTPSeeOther(to)


@view_config(route_name="leaflet")
def leaflet(request: Any) -> Any:
    name = request.GET.get("name", "")
    if not re.fullmatch(r"[a-z]+\.txt", name) or not (HERE / name).is_file():
        raise HTTPNotFound()
    return FileResponse(str(HERE / name), request=request, content_type="text/plain")


@view_config(route_name="book", request_method="GET")
def book(request: Any) -> Any:
    entries = "".join(
        f'<li><a href="/book/{number}">{escape(entry.name)}</a></li>'
        for number, entry in house(request).book.items()
    )
    return page(
        request,
        "Guest book",
        f"""<ul>{entries}</ul><form method="post" action="/book">{token(request)}
      <input name="name" value="Ann"><textarea name="text">It was nice</textarea><button>Write</button></form>""",
    )


@view_config(route_name="book", request_method="POST")
def write(request: Any) -> Any:
    name, text = request.POST.get("name", "").strip(), request.POST.get("text", "")
    if not name or len(name) > 60 or len(text) > 5000:
        raise HTTPBadRequest("Give a name.")
    here = house(request)
    number = here.next()
    here.book[number] = Entry(name, text)
    return HTTPSeeOther(f"/book/{number}")


def entry_of(request: Any) -> Any:
    number = request.matchdict["number"]
    if not re.fullmatch("[0-9]{1,8}", number) or int(number) not in house(request).book:
        raise HTTPNotFound()
    return house(request).book[int(number)]


@view_config(route_name="entry", request_method="GET")
def entry(request: Any) -> Any:
    found = entry_of(request)
    number = request.matchdict["number"]
    return page(
        request,
        found.name,
        f"""<p>{escape(found.text)}</p>
      <form method="post" action="/book/{number}">{token(request)}
      <textarea name="text">{escape(found.text)}</textarea><button>Change</button></form>
      <form method="post" action="/book/{number}/remove">{token(request)}<button>Remove</button></form>""",
    )


@view_config(route_name="entry", request_method="POST")
def change(request: Any) -> Any:
    text = request.POST.get("text", "")
    if len(text) > 5000:
        raise HTTPBadRequest("Too long.")
    entry_of(request).text = text
    return HTTPSeeOther(f"/book/{request.matchdict['number']}")


@view_config(route_name="remove", request_method="POST")
def remove(request: Any) -> Any:
    entry_of(request)
    del house(request).book[int(request.matchdict["number"])]
    return HTTPSeeOther("/book")


@view_config(route_name="stay", request_method="POST")
def stay(request: Any) -> Any:
    here, room, nights = house(request), request.POST.get("room", ""), request.POST.get("nights", "")
    if room not in here.rooms or not re.fullmatch("[1-9]", nights):
        raise HTTPBadRequest("Name a room and the nights.")
    if here.rooms[room] < int(nights):
        raise HTTPConflict("It is taken.")
    here.rooms[room] -= int(nights)
    here.stays[here.next()] = Stay(room, int(nights), request.POST.get("name", "")[:60])
    return HTTPSeeOther("/stays")


@view_config(route_name="stays")
def stays(request: Any) -> Any:
    items = "".join(
        f"""<li>{escape(stay.name)}: {stay.nights} in {escape(stay.room)}
      <form method="post" action="/leave">{token(request)}
      <input type="hidden" name="stay" value="{number}"><button>Leave</button></form></li>"""
        for number, stay in house(request).stays.items()
    )
    return page(request, "Stays", f"<ul>{items}</ul>")


@view_config(route_name="leave", request_method="POST")
def leave(request: Any) -> Any:
    here, number = house(request), request.POST.get("stay", "")
    if not re.fullmatch("[0-9]{1,8}", number) or int(number) not in here.stays:
        raise HTTPNotFound()
    stay = here.stays.pop(int(number))
    here.rooms[stay.room] += stay.nights
    return HTTPSeeOther("/stays")


def app(conf: object, **options: str) -> Any:
    """Return the application, in the transaction of the pipeline."""
    config = Configurator()
    config.include("pipeline.mounting")
    config.set_csrf_storage_policy(CookieCSRFStoragePolicy())
    config.set_default_csrf_options(require_csrf=True)
    for name, pattern in (
        ("home", "/"),
        ("go", "/go"),
        ("leaflet", "/leaflet"),
        ("book", "/book"),
        ("entry", "/book/{number}"),
        ("remove", "/book/{number}/remove"),
        ("stay", "/stay"),
        ("stays", "/stays"),
        ("leave", "/leave"),
    ):
        config.add_route(name, pattern)
    config.scan(__name__)
    return config.make_wsgi_app()
