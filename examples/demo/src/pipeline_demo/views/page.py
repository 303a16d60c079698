"""Make the answer from the data of a view: a page by a template, or JSON for a client that asks for it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from urllib.parse import quote

from pipeline import Request, Response, redirect, render
from pipeline.auth.authentication import AuthRequest
from pipeline.elements.session import SessionRequest
from pipeline.http.encodings import accepted
from pipeline.publishing.jinja import environment
from pipeline.publishing.resources import Resources
from pipeline_demo.models import Counter, Document, File, Folder, Item
from pipeline_demo.tokens import make_token

JSON = "application/json"
STATIC = Resources("demo", __name__, "../static")

HEADERS = {
    "Cache-Control": "private, no-cache",
    "Vary": "Accept, Authorization, Cookie",
}


def size(count: int) -> str:
    """Return a number of bytes in a readable unit: ``1536`` is "1.5 KiB"."""
    number, unit = float(count), "bytes"
    for larger in ("KiB", "MiB", "GiB"):
        if number < 1024:
            break
        number, unit = number / 1024, larger
    return f"{number:.0f} {unit}" if unit == "bytes" else f"{number:.1f} {unit}"


environment(__name__).filters["size"] = size


def wants_json(request: Request) -> bool:
    """Return whether the client prefers JSON to HTML. A client without a preference gets HTML."""
    named = request.headers.get("Accept", "")
    offers = ["text/html", JSON]
    if JSON in named and "text/html" not in named:  # `application/json, */*` means the former
        offers.reverse()
    acceptable = accepted(named, offers)
    return bool(acceptable) and acceptable[0][0] == JSON


def answer(
    request: AuthRequest,
    response: Response,
    template: str,
    data: Mapping[str, object],
    context: Item | None = None,
    **values: object,
) -> object:
    """Return the result of a view: ``data`` as JSON, or the template with ``values``. Put the headers on the
    response.

    ``context`` is the object that the page shows. An error page has none, and does not read the database.
    """
    response.headers.update(HEADERS)
    if wants_json(request):
        response.headers["Content-Type"] = JSON  # which is UTF-8 always, and has no charset (RFC 8259)
        return json.dumps(data, ensure_ascii=False, indent=2) + "\n"
    response.content_type = "text/html"
    response.charset = "UTF-8"
    home = request.application_url
    members = request.local_authentication
    back = page_of(request, context) if context is not None else f"{home}/"
    return render(
        template,
        context=context,
        crumbs=crumbs(request, context),
        home=f"{home}/",
        login=f"{url_of(request, members.folder) if members is not None else f'{home}/'}login?came_from="
        f"{quote(back)}",
        logout=f"{home}/logout" if request.csrf_token is not None else None,
        logout_everywhere=request.login_session is not None and request.login_session.ended is not None,
        messages=partial(messages_of, request),
        page=lambda item: page_of(request, item),
        principal=request.principal,
        search=f"{home}/search",
        static=partial(STATIC.url, request),
        token=lambda: make_token(request),
        url=lambda item, *names: url_of(request, item, *names),
        **values,
    )


def done(request: AuthRequest, response: Response, item: Item, message: str, status: int = 200) -> object:
    """Answer after a change: redirect a browser to the item, which shows the message, and describe the item to
    another client."""
    if not wants_json(request):
        say(request, message)
        return redirect(page_of(request, item), 303)
    response.status_int = status
    if status == 201:
        response.headers["Location"] = url_of(request, item)
    return answer(request, response, "", describe(request, item))


def say(request: Request, message: str) -> None:
    """Have the next page show a message, if the pipeline has the element ``session``."""
    if isinstance(request, SessionRequest):
        request.flash(message)


def messages_of(request: Request) -> list[str]:
    """Return the messages for this page."""
    return request.take_messages() if isinstance(request, SessionRequest) else []


def url_of(request: Request, item: Item, *names: str) -> str:
    """Return the address of an item, or of a view of it. That of a folder ends in a slash."""
    return request.absolute_url(item, *(names or (("",) if isinstance(item, Folder) else ())))


def page_of(request: Request, item: Item) -> str:
    """Return the address of the page about an item. The address of a file itself leads to its bytes."""
    return url_of(request, item, "info") if isinstance(item, File) else url_of(request, item)


def top_of(request: Request) -> Item:
    """Return the item that the visitor sees as the home page."""
    top: Item = request.virtual_root if request.virtual_root is not None else request.root
    return top


def crumbs(request: Request, context: Item | None) -> list[Item]:
    """Return the items from the home page to an item, both included."""
    way: list[Item] = []
    top = top_of(request) if context is not None else None
    while context is not None:
        way.append(context)
        context = None if context is top else context.__parent__
    return way[::-1]


def describe(request: Request, item: Item) -> dict[str, object]:
    """Return the data of an item, for JSON."""
    data: dict[str, object] = {
        "type": item.kind,
        "name": item.__name__,
        "title": item.title,
        "url": url_of(request, item),
        "modified": item.modified.isoformat(),
        "revision": item.revision,
    }
    if isinstance(item, Document):
        data |= {"format": item.format, "text": item.text}
    elif isinstance(item, File):
        data |= {
            "content_type": item.content_type,
            "size": item.content.size,
            "sha256": item.content.sha256,
        }
    elif isinstance(item, Counter):
        data |= {"value": item.value}
    return data
