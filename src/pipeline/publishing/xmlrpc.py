"""XML-RPC: ``scan = pipeline.publishing.xmlrpc`` lets requests of the type ``IXMLRPCRequest`` call views (S20).

A call is a POST of ``text/xml`` to the URL of an object. The name of the method is the name of a view that is
registered for the object and for the request type. The parameters of the call fill the parameters of the view
behind ``(context, request)``, like the fields of a form, and must fit their annotations::

    @view(context=Folder, name="titles", methods=("POST",), request_type=IXMLRPCRequest)
    def titles(folder, request, limit: int = 10): ...

A view of another request type is not a method. A call that another site has a browser send is refused, unless the
view says ``cross_site=True`` (S23). Dots in the name of the method are steps to further objects, as in Zope. These
steps follow the rules for the steps of a path. The return value of the view is the result. An HTTP exception
becomes a fault with its status. Any other exception goes to ``errors``.

An integer has 32 bits, as in the specification of XML-RPC. Arrays and structs are nested at most MAX_DEPTH deep.
"""

from __future__ import annotations

import re
import xmlrpc.client
from binascii import a2b_base64
from collections.abc import Callable
from datetime import datetime
from typing import Any, cast
from xml.parsers.expat import ExpatError, ParserCreate

from webob.exc import HTTPBadRequest, HTTPException, HTTPNotFound, HTTPRequestEntityTooLarge
from zope.interface import Interface, providedBy

from pipeline.forms.converters import to_float, to_int
from pipeline.http.origins import refuse_cross_site
from pipeline.interfaces import PUBLIC, IRequest, IView, IXMLRPCRequest
from pipeline.names import checked
from pipeline.publishing.steps import walk
from pipeline.request import Request
from pipeline.response import Response
from pipeline.views import View, view

MAX_BODY = 1024 * 1024
"""Upper limit of the length of a call, in bytes."""
MAX_DEPTH = 100
"""Upper limit of arrays and structs in one another."""
MAX_STEPS = 128
"""Upper limit of the steps in the name of a method (S16)."""
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 does not allow, also not as references. A client could not read the answer."""


@view(context=Interface, methods=("POST",), request_type=IXMLRPCRequest, permission=PUBLIC, cross_site=True)
def call(context: Any, request: Request, response: Response) -> bytes:
    """Find the view that the call names, check whether it may be called, and call it."""
    parameters, method = _parse(request)
    response.headers["Content-Type"] = "text/xml; charset=UTF-8"
    try:
        result = _call(context, request, response, method, parameters)
    except HTTPException as error:
        answer = error.wsgi_response
        fault = xmlrpc.client.Fault(answer.status_int, str(error) or answer.status)
        cast(Any, request)._stands_for_error = True  # a fault, whose status is 200 (R3)
        return _written(_Answer("utf-8").dumps(fault))
    try:
        return _written(_Answer("utf-8", allow_none=True).dumps((result,)))
    except (TypeError, OverflowError) as error:
        raise TypeError(f"XML-RPC method {method!r} returned a value that XML-RPC lacks: {error}") from error


class _Answer(xmlrpc.client.Marshaller):
    """Writes an answer. It refuses objects, of which ``xmlrpc.client`` writes all attributes (S4), and times with a
    zone, which it would drop."""

    def dump_datetime(self, value: Any, write: Any) -> None:
        if value.tzinfo is not None:
            raise TypeError(f"{value} has a time zone: return it as text, or in the zone that the method names")
        super().dump_datetime(value, write)

    def dump_instance(self, value: Any, write: Any) -> None:
        if type(value) not in xmlrpc.client.WRAPPERS:
            raise TypeError(f"cannot marshal {type(value)} objects")
        super().dump_instance(value, write)


_Answer.dispatch = _Answer.dispatch | {  # type: ignore[assignment]
    "_arbitrary_instance": _Answer.dump_instance,
    datetime: _Answer.dump_datetime,
}


def _written(text: str) -> bytes:
    """Return an answer whose characters a parser reads as they are: of a CR it would make a line feed."""
    text = f"<?xml version='1.0'?>\n<methodResponse>\n{text}</methodResponse>\n"
    return _NOT_IN_XML.sub("\ufffd", text).replace("\r", "&#13;").encode()


def _call(context: Any, request: Request, response: Response, method: str, parameters: tuple[Any, ...]) -> Any:
    if method.count(".") > MAX_STEPS:
        raise HTTPBadRequest(f"The name of the method has more than {MAX_STEPS} steps.")
    *steps, name = method.split(".")
    context, _ = walk(request, context, checked((*steps, f"@@{name}")))
    if request.subpath:  # the walk has ended at a step that is not there
        raise HTTPNotFound(f"There is no method {method!r}.")
    request.context = context
    found = _method(context, request, name)
    if found is None:
        raise HTTPNotFound(f"There is no method {method!r}.")
    if found.same_site:
        refuse_cross_site(request)
    request.authorize(request, found)
    names = found.fill.names if found.fill is not None else []
    if len(parameters) > len(names):
        raise HTTPBadRequest(f"The method {method!r} takes {len(names)} parameters at most.")
    cast(Any, request).form = dict(zip(names, parameters, strict=False))
    return found.call(context, request, response) if found.takes_response else found.call(context, request)


def _method(context: Any, request: Request, name: str) -> View | None:
    """Return the view of that name, if it is for XML-RPC. A view for any request was not written for such a
    call."""
    if request.views is None or not name:
        return None
    found = request.views.find(context, request, "POST", name)
    plain = request.views.lookup((providedBy(context), IRequest), IView, f"POST {name}")
    return None if found is plain else found


class _Call(xmlrpc.client.Unmarshaller):
    """Reads a call. It refuses what a result could not have either, so that a view need not expect it, and text and
    values where a call has none: ``xmlrpc.client`` leaves them out, or takes them for a further parameter (R11)."""

    def start(self, tag: str, attrs: Any) -> None:
        call = cast(Any, self)
        if "".join(call._data).strip() or (tag.rpartition(":")[2] in _TYPES and not call._value):
            raise ValueError(f"<{tag}> stands behind a text, or is not the only one in a <value>")
        super().start(tag, attrs)
        if len(call._marks) > MAX_DEPTH:
            raise ValueError(f"it is nested more than {MAX_DEPTH} deep")

    def end(self, tag: str, *further: Any) -> None:
        call, name, text = cast(Any, self), tag.rpartition(":")[2], "".join(cast(Any, self)._data)
        if text.strip() and not (call._value or name in _TEXTS):
            raise ValueError(f"<{tag}> has text beside its elements")
        names = call._stack[call._marks[-1] :: 2] if name == "struct" else []
        if (read := _READERS.get(name)) is not None:
            call.append(read(text))
            call._value = False
        else:
            super().end(name, *further)
        call._data = []
        if len(set(names)) < len(names) or not all(isinstance(name, str) for name in names):
            raise ValueError("a name in a struct stands twice, or is not a string")


def _int(text: str) -> int:
    if not xmlrpc.client.MININT <= (number := to_int(text)) <= xmlrpc.client.MAXINT:
        raise ValueError("an integer has more than 32 bits")
    return number


def _date(text: str) -> datetime:
    """Return a date with a time. It may have any form of ISO 8601, with and without a time zone."""
    if "T" not in text:
        raise ValueError(f"{text!r:.40} is not a date with a time")
    return datetime.fromisoformat(text.strip())


def _bytes(text: str) -> bytes:
    """Return bytes as a whole: ``xmlrpc.client`` leaves out what is not base64, and what is behind a padding."""
    return a2b_base64("".join(text.split()), strict_mode=True)


_READERS: dict[str, Callable[[str], Any]] = dict.fromkeys(("int", "i1", "i2", "i4", "i8", "biginteger"), _int)
_READERS |= {"double": to_float, "float": to_float, "base64": _bytes, "dateTime.iso8601": _date}
_TYPES = {*_READERS, "string", "boolean", "bigdecimal", "nil", "array", "struct"}
_TEXTS = {*_READERS, "string", "boolean", "bigdecimal", "name", "methodName"}


def _parse(request: Request) -> tuple[tuple[Any, ...], str]:
    body = request.body_file.read(MAX_BODY + 1)
    if len(body) > MAX_BODY:
        raise HTTPRequestEntityTooLarge(f"A call may have {MAX_BODY} bytes at most.")
    call = _Call(use_builtin_types=True)
    call.xml("", None)  # its input is decoded already
    parser = ParserCreate()  # the parser of xmlrpc.client accepts document types, and with them entities
    parser.StartDoctypeDeclHandler = _refuse_document_type
    parser.StartElementHandler = call.start
    parser.EndElementHandler = call.end
    parser.CharacterDataHandler = call.data
    try:
        parser.Parse(body, True)
        parameters, method = call.close(), call.getmethodname()
    except (ExpatError, xmlrpc.client.Error, ValueError, TypeError, LookupError, ArithmeticError) as error:
        raise HTTPBadRequest(f"This is not an XML-RPC call: {error}") from None
    if not method:
        raise HTTPBadRequest("This is not an XML-RPC call: it names no method.")
    return tuple(parameters), method


def _refuse_document_type(*arguments: object) -> None:
    raise HTTPBadRequest("A call must not have a document type.")
