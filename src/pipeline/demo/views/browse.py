"""Views that show folders, documents and files."""

from __future__ import annotations

from webob.exc import HTTPBadRequest

from pipeline import Response, view
from pipeline.demo.models import Document, File, Folder
from pipeline.demo.request import DemoRequest
from pipeline.demo.text import document_html
from pipeline.demo.views.page import answer, describe, url_of

PAGE = 100
"""Items on one page of a folder."""


@view(context=Folder)
def folder(context: Folder, request: DemoRequest, response: Response, page: int = 1) -> object:
    if not 0 < page < 10**9:
        raise HTTPBadRequest("The page of a folder is a number from 1 on.")
    start = (page - 1) * PAGE
    items = context.items(start, start + PAGE)
    here = url_of(request, context)
    more = start + PAGE < context.count()
    introduction = context.introduction() if start == 0 else None
    data = describe(request, context) | {
        "items": [
            {"type": item.kind, "name": item.__name__, "title": item.title, "url": url_of(request, item)}
            for item in items
        ],
        "count": context.count(),
        "next": f"{here}?page={page + 1}" if more else None,
    }
    return answer(
        request,
        response,
        "folder.html",
        data,
        context,
        introduction=introduction,
        text=document_html(introduction) if introduction is not None else "",
        items=items,
        number=page,
        pages=max(-(-context.count() // PAGE), 1),
    )


@view(context=Document)
def document(context: Document, request: DemoRequest, response: Response) -> object:
    return answer(
        request, response, "document.html", describe(request, context), context, html=document_html(context)
    )


@view(context=File, name="info")
def file_info(context: File, request: DemoRequest, response: Response) -> object:
    return answer(request, response, "file.html", describe(request, context), context)
