"""Views of the site of notes for a test with a login: an upload, PUT and DELETE."""

from __future__ import annotations

from typing import Any

from ZODB.blob import Blob

from pipeline import Request, redirect, view
from pipeline.forms.upload import Upload
from pipeline.interfaces import PUBLIC
from proving.notes import Notes


def check(request: Any, login: str, password: str) -> str | None:
    """Return the user of a login."""
    return login if password == "secret" else None


@view(context=Notes, name="upload", methods=("POST",), permission=PUBLIC)
def upload(notes: Any, request: Request, file: Upload) -> Any:
    notes.upload = Blob(file.file.read())
    return redirect("/")


@view(context=Notes, name="title", methods=("PUT",), permission=PUBLIC)
def put(notes: Notes, request: Request) -> str:
    notes.titles["first"] = request.body.decode()
    return "put"


@view(context=Notes, name="first", methods=("DELETE",))
def delete(notes: Notes, request: Request) -> str:
    for name in list(notes.all)[:1]:
        del notes.all[name]
        notes.count.change(-1)
    return "deleted"
