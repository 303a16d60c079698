"""Views for programs, by protocol: PUT and DELETE, XML-RPC, JSON.

Each view is for requests of one type. So it is only available if an ini turns that type on (S20). The views need no
form token, since no page of another site can make a browser send such requests.
"""

from __future__ import annotations

from typing import IO, Any, cast

from webob.exc import (
    HTTPBadRequest,
    HTTPConflict,
    HTTPPreconditionFailed,
    HTTPRequestEntityTooLarge,
)

from pipeline import Request, Response, view
from pipeline.interfaces import PUBLIC, IJSONRequest, INullResource, IRequest, IXMLRPCRequest
from pipeline.views import adapter
from pipeline_demo.content import TooLarge, read_full, store
from pipeline_demo.filing import content_type_of, format_of, title_in
from pipeline_demo.models import FORMATS, Document, File, Folder, Format, Item
from pipeline_demo.names import MAX_TEXT, BadText, clean_name, name_from_title
from pipeline_demo.views.edit import STALE, TAKEN, folder_of
from pipeline_demo.views.forms import MAX_UPLOAD
from pipeline_demo.views.page import HEADERS, describe, url_of

TYPES: dict[str, Format] = {
    "text/markdown": "markdown",
    "text/x-rst": "rst",
    "text/html": "html",
    "text/plain": "text",
}
"""Formats by content type, for a name without a suffix."""


class IAuthoringRequest(IRequest):
    """A request from a program that writes by PUT and DELETE."""


# PUT and DELETE


@adapter(Folder, INullResource)
class NewItem:
    """The null resource: an item that does not exist yet, and that a PUT makes."""

    __name__ = ""

    def __init__(self, folder: Folder) -> None:
        self.__parent__ = folder


@view(context=NewItem, methods=("PUT",), request_type=IAuthoringRequest, permission="edit")
def put_new(context: NewItem, request: Request, response: Response) -> None:
    """Make a document, if the name or the content type is that of a text; else a file."""
    folder = context.__parent__
    try:
        name = clean_name(context.__name__)
        format = format_of(name) or ("." not in name and TYPES.get(request.content_type)) or None
        item: Item
        if format is None:
            item = File(name, _content(request, folder), content_type_of(name))
        else:
            text = _text(request)
            item = Document(title_in(text, format, name), text, format, request.principal)
        folder[name] = item
    except BadText as error:
        raise HTTPBadRequest(str(error)) from None
    response.status_int = 201
    response.headers["Location"] = url_of(request, item)
    response.etag = _tag(item)


@view(context=Document, methods=("PUT",), request_type=IAuthoringRequest, permission="edit")
def put_text(context: Document, request: Request, response: Response) -> None:
    _refuse_stale(context, request)
    try:
        context.edit(context.title, _text(request), context.format, request.principal)
    except BadText as error:
        raise HTTPBadRequest(str(error)) from None
    _changed(context, response)


@view(context=File, methods=("PUT",), request_type=IAuthoringRequest, permission="edit")
def put_file(context: File, request: Request, response: Response) -> None:
    _refuse_stale(context, request)
    context.replace(_content(request, context), context.content_type)
    _changed(context, response)


@view(context=Item, methods=("DELETE",), request_type=IAuthoringRequest, permission="edit")
def delete(context: Item, request: Request, response: Response) -> None:
    folder, name = folder_of(context)
    _refuse_stale(context, request)
    del folder[name]
    response.status_int = 204


def _tag(item: Item) -> str:
    """Return the ETag. That of a file is the same as in its download. Other items have their revision."""
    return item.content.sha256 if isinstance(item, File) else str(item.revision)


def _refuse_stale(item: Item, request: Request) -> None:
    """Raise a 412 if the preconditions of the client are not met (RFC 9110 section 13.1)."""
    tag = _tag(item)
    if tag not in request.if_match or tag in request.if_none_match:
        raise HTTPPreconditionFailed(STALE)


def _changed(item: Item, response: Response) -> None:
    response.status_int = 204
    response.etag = _tag(item)


def _body(request: Request) -> IO[bytes]:
    """Return the body. Raise a 400 for a part (RFC 9110 section 14.5), which would be stored as the whole."""
    if "Content-Range" in request.headers:
        raise HTTPBadRequest("A PUT must send the whole content, without a Content-Range.")
    return cast("IO[bytes]", request.body_file)


def _text(request: Request) -> str:
    data = read_full(_body(request), MAX_TEXT + 1)
    if len(data) > MAX_TEXT:
        raise HTTPRequestEntityTooLarge(f"A text may have {MAX_TEXT // 1024} KiB at most.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise HTTPBadRequest("The text is not UTF-8.") from None


def _content(request: Request, item: Item) -> Any:
    try:
        return store(_body(request), item._p_jar, MAX_UPLOAD)
    except TooLarge as error:
        raise HTTPRequestEntityTooLarge(f"This is too large: {error}.") from None


# XML-RPC


@view(context=Folder, name="list", methods=("POST",), request_type=IXMLRPCRequest, permission=PUBLIC)
def list_items(context: Folder, request: Request, start: int = 0, count: int = 100) -> list[dict[str, Any]]:
    """Return type, name and title of the items from place ``start`` on, in the order of their titles."""
    if not 0 <= start <= start + count <= start + 1000:
        raise HTTPBadRequest("start must be 0 or more, and count from 0 to 1000.")
    items = context.items(start, start + count)
    return [{"type": item.kind, "name": item.__name__, "title": item.title} for item in items]


@view(context=Item, name="get", methods=("POST",), request_type=IXMLRPCRequest, permission=PUBLIC)
def get(context: Item, request: Request) -> dict[str, Any]:
    """Return the data of an item, with the text of a document."""
    return describe(request, context)


@view(context=Folder, name="add_document", methods=("POST",), request_type=IXMLRPCRequest, permission="edit")
def add_document(
    context: Folder, request: Request, title: str, text: str, format: str = "markdown", name: str = ""
) -> str:
    """Make a document, and return its address."""
    try:
        name = clean_name(name or name_from_title(title))
        if name in context:
            raise HTTPConflict(TAKEN)
        context[name] = document = Document(title, text, _format(format), request.principal)
    except BadText as error:
        raise HTTPBadRequest(str(error)) from None
    return url_of(request, document)


@view(context=Document, name="edit", methods=("POST",), request_type=IXMLRPCRequest, permission="edit")
def edit(context: Document, request: Request, text: str, revision: int) -> int:
    """Store a text that was made from a revision, and return the new revision."""
    if revision != context.revision:
        raise HTTPConflict(STALE)
    try:
        context.edit(context.title, text, context.format, request.principal)
    except BadText as error:
        raise HTTPBadRequest(str(error)) from None
    return context.revision


def _format(name: str) -> Format:
    for format in FORMATS:
        if format == name:
            return format
    raise BadText(f"The format is one of {', '.join(FORMATS)}.")


# JSON


@view(context=Folder, name="tree", request_type=IJSONRequest)
def tree(context: Folder, request: Request, response: Response, depth: int = 3) -> dict[str, Any]:
    """Return the items of a folder, and those of the folders in it down to ``depth``."""
    if not 0 <= depth <= 10:
        raise HTTPBadRequest("depth must be a number from 0 to 10.")
    response.headers.update(HEADERS)
    return _branch(context, request, depth)


def _branch(item: Item, request: Request, depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {"type": item.kind, "title": item.title, "url": url_of(request, item)}
    if isinstance(item, Folder) and depth:
        found["items"] = {inner.__name__: _branch(inner, request, depth - 1) for inner in item.items()}
    return found
