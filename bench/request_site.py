"""The site of this pipeline in the suite ``requests``: a view for each kind of request."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import jinja2

from bench.site import Page
from pipeline import Request, redirect, render, view
from pipeline.interfaces import PUBLIC
from pipeline.publishing.resources import Resources

ITEMS = {"items": [{"id": number, "name": f"item {number}"} for number in range(3)]}
STYLE = b"p { margin: 0 0 1em } /* a line */\n" * 57

_directory = tempfile.mkdtemp(prefix="bench-static-")
Path(_directory, "style.css").write_bytes(STYLE)
static = Resources("bench", __name__, _directory)


def user(request: Any, login: str, password: str) -> str | None:
    return None


ROWS = [{"id": number, "name": f"item {number} & more"} for number in range(20)]
_environment = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True, auto_reload=False
)


def table_page() -> str:
    """The page as the peers make it."""
    return _environment.get_template("table.html").render(title="Items", rows=ROWS)


@view(context=Page, name="table")
def table(context: Page, request: Request) -> Any:
    return render("table.html", title="Items", rows=ROWS)


@view(context=Page, name="form")
def form(context: Page, request: Any) -> str:
    fields = request.form
    return f"{fields['a']} {fields['b']} {fields['c']}"


@view(context=Page, name="get")
def get(context: Page, request: Request) -> str:
    fields = request.GET
    return f"{fields['a']} {fields['b']} {fields['c']}"


@view(context=Page, name="arguments")
def arguments(context: Page, request: Request, a: int, b: str) -> str:
    return f"{a} {b}"


@view(context=Page, name="cookies")
def cookies(context: Page, request: Request) -> str:
    sent = request.cookies
    return f"{sent['a']} {sent['theme']} {sent['seen']}"


@view(context=Page, name="post", methods=("POST",), permission=PUBLIC)
def post(context: Page, request: Any) -> str:
    return " ".join(request.form[name] for name in ("title", "name", "mail", "text", "send"))


@view(context=Page, name="json")
def json(context: Page, request: Request) -> dict[str, Any]:
    return ITEMS


@view(context=Page, name="moved")
def moved(context: Page, request: Request) -> Any:
    return redirect("/a/b/c", 303)


@view(context=Page, name="fail")
def fail(context: Page, request: Request) -> str:
    raise ZeroDivisionError


@view(context=Page, name="user")
def logged_in(context: Page, request: Request) -> str:
    return f"hello {request.principal}"
