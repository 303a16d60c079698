"""An album in a ZODB: remarks and orders that a program sends as JSON, and pictures that a form uploads."""

from __future__ import annotations

from html import escape
from typing import Any

from BTrees.IOBTree import IOBTree
from persistent import Persistent
from pydantic import BaseModel
from webob.exc import HTTPBadRequest, HTTPNotFound

from pipeline import Request, Response, redirect, view
from pipeline.forms.upload import Upload
from pipeline.promises import invariant


class Album(Persistent):  # type: ignore[misc]
    """The root, with what was sent by number."""

    __parent__ = None
    __name__ = None

    def __init__(self) -> None:
        self.remarks, self.pictures, self.orders = IOBTree(), IOBTree(), IOBTree()


class Thing(Persistent):  # type: ignore[misc]
    """A remark, a picture or an order."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


class OrderLine(BaseModel):
    size: str
    count: int


class Order(BaseModel):
    street: str
    lines: list[OrderLine]


def root(mapping: Any) -> Album:
    if "album" not in mapping:
        mapping["album"] = Album()
    found: Album = mapping["album"]
    return found


def add(tree: Any, **values: Any) -> Any:
    tree[len(tree) + 1] = Thing(**values)
    return redirect("/")


@invariant
def rates_are_right(root: Any) -> bool:
    return all(1 <= one.rate <= 100 for one in root.remarks.values())


@invariant
def texts_are_short(root: Any) -> bool:
    return all(len(one.text) <= 200 for one in root.remarks.values())


@invariant
def owners_have_written(root: Any) -> bool:
    return all(one.owner == one.writer for one in root.remarks.values())


@invariant
def counts_are_positive(root: Any) -> bool:
    return all(line.count > 0 for one in root.orders.values() for line in one.lines)


@view(context=Album)
def index(album: Album, request: Request) -> str:
    rows = [
        f"{number} {escape(one.text)} {one.rate} {escape(' '.join(one.words))} {'*' * one.rate}"
        for number, one in album.remarks.items()
    ]
    rows += [f"{escape(one.name)}, {one.size} bytes" for one in album.pictures.values()]
    rows += [f"{escape(one.street)} {escape(line.size)}" for one in album.orders.values() for line in one.lines]
    shown = "".join(f"<li>{one}</li>" for one in rows)
    return (
        f"<!doctype html><html lang=en><title>Album</title><body><ul>{shown}</ul>"
        "<form action=/@@picture method=post enctype=multipart/form-data>"
        "<input name=title><input type=file name=file><button>send</button></form>"
    )


@view(context=Album, name="remark", methods=("POST",))
def remark(album: Album, request: Request, response: Response) -> Any:
    sent = request.json
    if not isinstance(sent, dict):
        raise HTTPBadRequest("an object")
    text, rate, words = sent.get("text"), sent.get("rate"), sent.get("words") or []
    if not isinstance(text, str) or not isinstance(rate, int) or not isinstance(words, list):
        raise HTTPBadRequest("a text, a rate and words")
    if rate < 1:
        raise HTTPBadRequest("from 1")
    if rate > 100:
        raise HTTPBadRequest("to 100")
    if len(text) > 200:
        raise HTTPBadRequest("too long")
    if request.principal is None:
        raise HTTPBadRequest("log in first")
    who = request.principal
    return add(album.remarks, owner=who, writer=who, text=text, rate=rate, words=[str(one) for one in words])


@view(context=Album, name="change", methods=("POST",))
def change(album: Album, request: Request) -> Any:
    sent = request.json
    number = sent.get("number") if isinstance(sent, dict) else None
    if not isinstance(number, int) or abs(number) > 10**6 or number not in album.remarks:
        raise HTTPNotFound
    found = album.remarks[number]
    if found.owner != request.principal:
        raise HTTPNotFound
    found.text, found.writer = str(sent.get("text"))[:200], request.principal
    return redirect("/")


@view(context=Album, name="order", methods=("POST",))
def order(album: Album, request: Request, order: Order) -> Any:
    if any(line.count < 1 for line in order.lines):
        raise HTTPBadRequest("from 1")
    return add(album.orders, street=order.street, lines=order.lines)


@view(context=Album, name="picture", methods=("POST",))
def picture(album: Album, request: Request, response: Response, file: Upload, title: str = "") -> Any:
    if not file.filename or not file.length:
        raise HTTPBadRequest("a file with a name")
    return add(album.pictures, name=f"{title[:60]} {file.filename}", size=file.length)
