"""Views that show folders, documents and files."""

from __future__ import annotations

from typing import Literal

from webob.exc import HTTPBadRequest

from pipeline import Response, view
from pipeline_demo.models import Document, File, Folder, Item
from pipeline_demo.request import PageRequest
from pipeline_demo.text import document_html
from pipeline_demo.views.page import answer, describe, url_of

PAGE = 100
"""Items on one page of a folder."""
MAX_SORTED = 1000
"""Items of the largest folder that can be sorted otherwise than by title. All of them are loaded for it."""
Order = Literal["title", "newest", "kind"]
ORDERS: dict[Order, str] = {"title": "By title", "newest": "Newest first", "kind": "By kind"}


@view(context=Folder)
def folder(
    context: Folder, request: PageRequest, response: Response, page: int = 1, sort: Order = "title"
) -> object:
    if not 0 < page < 10**9:
        raise HTTPBadRequest("The page of a folder is a number from 1 on.")
    start = (page - 1) * PAGE
    items = _sorted(context, sort, start, start + PAGE)
    here = f"{url_of(request, context)}?{'' if sort == 'title' else f'sort={sort}&'}page="
    more = start + PAGE < context.count()
    introduction = context.introduction() if start == 0 else None
    data = describe(request, context) | {
        "items": [
            {"type": item.kind, "name": item.__name__, "title": item.title, "url": url_of(request, item)}
            for item in items
        ],
        "count": context.count(),
        "next": f"{here}{page + 1}" if more else None,
    }
    return answer(
        request,
        response,
        "folder.html",
        data,
        context,
        introduction=introduction,
        here=here,
        text=document_html(introduction).html if introduction is not None else "",
        items=items,
        number=page,
        orders=ORDERS if 1 < context.count() <= MAX_SORTED else {},
        sort=sort,
        pages=max(-(-context.count() // PAGE), 1),
    )


def _sorted(folder: Folder, order: Order, start: int, stop: int) -> list[Item]:
    """Return the items from place ``start`` to ``stop``. A large folder is always in the order of the titles."""
    if order == "title" or folder.count() > MAX_SORTED:
        return folder.items(start, stop)
    items = folder.items()
    if order == "newest":
        items.sort(key=lambda item: item.modified, reverse=True)
    else:
        items.sort(key=lambda item: (item.kind != "folder", item.kind))
    return items[start:stop]


@view(context=Document)
def document(context: Document, request: PageRequest, response: Response) -> object:
    html, outline = document_html(context)
    data = describe(request, context)
    return answer(request, response, "document.html", data, context, html=html, outline=outline)


@view(context=File, name="info")
def file_info(context: File, request: PageRequest, response: Response) -> object:
    return answer(request, response, "file.html", describe(request, context), context)
