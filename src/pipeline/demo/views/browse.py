"""Looking at folders, documents and files, and what every page needs: style and icon."""

from __future__ import annotations

from webob.exc import HTTPBadRequest

from pipeline import Request, Response, view
from pipeline.demo.models import Document, File, Folder
from pipeline.demo.text import document_html
from pipeline.demo.views.forms import query_of
from pipeline.demo.views.page import STATIC, VERSIONS, answer, describe, url_of

PAGE = 100
"""Items on one page of a folder."""


@view(context=Folder)
def folder(context: Folder, request: Request, response: Response) -> str:
    number = query_of(request).get("page", "1")
    if not (number.isascii() and number.isdigit() and len(number) < 9 and int(number) > 0):
        raise HTTPBadRequest("The page of a folder is a number from 1 on.")
    start = (int(number) - 1) * PAGE
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
        "next": f"{here}?page={int(number) + 1}" if more else None,
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
        number=int(number),
        pages=max(-(-context.count() // PAGE), 1),
    )


@view(context=Document)
def document(context: Document, request: Request, response: Response) -> str:
    return answer(
        request, response, "document.html", describe(request, context), context, html=document_html(context)
    )


@view(context=File, name="info")
def file_info(context: File, request: Request, response: Response) -> str:
    return answer(request, response, "file.html", describe(request, context), context)


@view(context=Folder, name="site.css")
def style(context: Folder, request: Request, response: Response) -> bytes:
    return _static("site.css", "text/css", request, response)


@view(context=Folder, name="icon.svg")
def icon(context: Folder, request: Request, response: Response) -> bytes:
    return _static("icon.svg", "image/svg+xml", request, response)


def _static(name: str, content_type: str, request: Request, response: Response) -> bytes:
    response.content_type = content_type
    response.charset = "UTF-8"
    response.headers["X-Content-Type-Options"] = "nosniff"
    # Under the address that names this very content it may be kept for ever.
    current = request.environ.get("QUERY_STRING", "") == f"v={VERSIONS[name]}"
    response.headers["Cache-Control"] = "public, max-age=31536000, immutable" if current else "no-cache"
    response.etag = VERSIONS[name]
    response.conditional_response = True
    return STATIC[name]
