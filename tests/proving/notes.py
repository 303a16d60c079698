"""A small site that is proved: notes in a ZODB, with a counter beside them, and forms that write."""

from __future__ import annotations

import logging
import re
import smtplib
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from threading import Thread
from typing import Any
from uuid import uuid4

from BTrees.Length import Length
from BTrees.OOBTree import OOBTree
from persistent import Persistent
from persistent.mapping import PersistentMapping

from pipeline import Request, Response, redirect, view
from pipeline.interfaces import PUBLIC


class Note(Persistent):  # type: ignore[misc]
    def __init__(self, text: str) -> None:
        self.text = text


class Notes(Persistent):  # type: ignore[misc]
    """The root of the site."""

    __parent__ = None
    __name__ = None

    def __init__(self) -> None:
        self.all = OOBTree()
        self.count = Length()
        self.plain = Plain()
        self.titles = PersistentMapping()

    def __getitem__(self, name: str) -> Any:
        return self.all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.all)


class Plain(Persistent):  # type: ignore[misc]
    """A counter that resolves no conflict."""

    value = 0


class Loose(Persistent):  # type: ignore[misc]
    """A counter that resolves a conflict as if only one of the two had counted."""

    value = 0

    def _p_resolveConflict(self, old: Any, saved: Any, new: Any) -> Any:
        return new


def root(mapping: Any) -> Notes:
    if "notes" not in mapping:
        mapping["notes"] = Notes()
        mapping["notes"].loose = Loose()
    found: Notes = mapping["notes"]
    return found


@view(context=Notes)
def index(notes: Notes, request: Request) -> str:
    return f"<p>{notes.count()} notes</p><form action='/@@add' method='post'><input name='text'></form>"


@view(context=Notes, name="stream")
def stream(notes: Notes, request: Request) -> Iterator[bytes]:
    for number in range(3):
        yield b"%d of %d\n" % (number, notes.count())


@view(context=Notes, name="add", methods=("POST",), permission=PUBLIC)
def add(notes: Notes, request: Request, text: str = "") -> Any:
    notes.all[f"{notes.count():05}"] = Note(text)
    notes.count.change(1)
    return redirect("/")


@view(context=Notes, name="plain", methods=("POST",), permission=PUBLIC)
def plain(notes: Notes, request: Request) -> str:
    notes.plain.value += 1
    return "counted"


@view(context=Notes, name="keyed", methods=("GET", "POST"), permission=PUBLIC)
def keyed(notes: Notes, request: Any) -> Any:
    """The new note has a name of chance, as those of many sites have."""
    if request.method == "GET":
        return notes.all[request.subpath[0]].text if request.subpath else "no note"
    name = uuid4().hex
    notes.all[name] = Note("keyed")
    return f'<a href="/@@keyed/{name}">a note</a>'


@view(context=Notes, name="title", methods=("POST",), permission=PUBLIC)
def title(notes: Notes, request: Request) -> str:
    notes.titles["first"] = "a title"  # a mapping is changed before the connection is told so
    return "written"


@view(context=Notes, name="loose", methods=("POST",), permission=PUBLIC)
def loose(notes: Any, request: Request) -> str:
    notes.loose.value += 1
    return "counted"


@view(context=Notes, name="mail", methods=("POST",), permission=PUBLIC)
def mail(notes: Notes, request: Request) -> str:
    notes.plain.value += 1
    with smtplib.SMTP("127.0.0.1", 9):
        pass
    return "sent"


def count_later(db: Any, wait: float) -> None:
    time.sleep(wait)
    with suppress(Exception), db.transaction() as connection:  # it may be closed meanwhile
        root(connection.root()).plain.value += 1


TURNS = count()


@view(context=Notes, name="later", methods=("POST",), permission=PUBLIC)
def later(notes: Any, request: Any) -> str:
    """A thread stores something in a transaction of its own, some time after the answer."""
    notes.count.change(1)
    wait = (0, 0.02)[next(TURNS) % 2]
    request.after_commit(Thread(target=count_later, args=(request.zodb.db(), wait), daemon=True).start)
    if not wait:
        request.after_commit(time.sleep, 0.01)
    return "counted, and once more"


@view(context=Notes, name="beside", methods=("POST",), permission=PUBLIC)
def beside(notes: Any, request: Any) -> str:
    """A thread stores something before the request is stored, whatever becomes of it."""
    thread = Thread(target=count_later, args=(request.zodb.db(), 0))
    thread.start()
    thread.join()
    notes.count.change(1)
    return "counted"


@view(context=Notes, name="afresh", methods=("POST",), permission=PUBLIC)
def afresh(notes: Any, request: Any) -> str:
    """Read, let go of the transaction, and write what was computed of the old value."""
    value = notes.plain.value
    request.tm.abort()
    request.tm.begin()
    notes.plain.value = value + 1
    return "counted"


@view(context=Notes, name="undeclared", methods=("POST",))
def undeclared(notes: Notes, request: Request) -> str:
    notes.plain.value += 1
    return "counted"


@view(context=Notes, name="hello")
def hello(notes: Notes, request: Request, name: str = "") -> str:
    return f"<p>Hello {name}</p>"


@view(context=Notes, name="leave")
def leave(notes: Notes, request: Request, to: str = "/") -> Any:
    return redirect(to, trusted=True)


@view(context=Notes, name="visit")
def visit(notes: Notes, request: Request, response: Response) -> str:
    notes.plain.value += 1
    return "counted"


@view(context=Notes, name="enter", methods=("POST",), permission=PUBLIC)
def enter(notes: Notes, request: Request, password: str = "") -> str:
    logging.getLogger("notes").warning("%r cannot enter", password)
    return "nobody enters"


@view(context=Notes, name="knock", methods=("POST",), permission=PUBLIC)
def knock(notes: Notes, request: Request, password: str = "") -> str:
    logging.getLogger("notes").info("%r is at the door", password)
    return "no one opens"


@view(context=Notes, name="search", methods=("POST",), permission=PUBLIC)
def search(notes: Notes, request: Request, text: str = "") -> str:
    """Go to the end of the text from each bracket in it."""
    return "found" if re.search(r"\(+!", text) else "not found"


def outside() -> object:
    """Do something outside of the database; a test replaces it."""


@view(context=Notes, name="outside", methods=("POST",), permission=PUBLIC)
def go_outside(notes: Notes, request: Request) -> str:
    outside()
    return "done"
