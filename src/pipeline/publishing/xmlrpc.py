"""XML-RPC: ``scan = pipeline.publishing.xmlrpc`` lets requests of the type ``IXMLRPCRequest`` call views (S20).

A call is a POST of ``text/xml`` to the URL of an object. The method's name is that of a view which is
registered for the object and for the request type; the call's parameters are those that follow
``(context, request)``, as the fields of a form are, and fit their annotations::

    @view(context=Folder, name="titles", methods=("POST",), request_type=IXMLRPCRequest)
    def titles(folder, request, limit: int = 10): ...

A view of another request type is no method. Dots in the method's name are steps to further objects, as in
Zope. What the view returns is the result. An HTTP exception becomes a fault with its status; any other is for
``errors``, like everywhere.
"""

from __future__ import annotations

import re
import xmlrpc.client
from typing import Any
from xml.parsers.expat import ExpatError, ParserCreate

from webob.exc import HTTPBadRequest, HTTPException, HTTPNotFound, HTTPRequestEntityTooLarge
from zope.interface import Interface, providedBy

from pipeline.forms.request import FormsRequest
from pipeline.interfaces import PUBLIC, IRequest, IView, IXMLRPCRequest
from pipeline.publishing.kinds import DENIED, is_container, kind_of
from pipeline.response import Response
from pipeline.views import View, view

MAX_BODY = 1024 * 1024
"""Bytes of a call."""
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no XML 1.0 has, in whatever way they are written: a client could not read the answer."""


@view(context=Interface, methods=("POST",), request_type=IXMLRPCRequest, permission=PUBLIC)
def call(context: Any, request: FormsRequest, response: Response) -> bytes:
    """Find the view that the call names, ask whether it may be called, and call it."""
    parameters, method = _parse(request)
    response.headers["Content-Type"] = "text/xml; charset=UTF-8"
    try:
        result = _call(context, request, response, method, parameters)
    except HTTPException as error:
        answer = error.wsgi_response
        fault = xmlrpc.client.Fault(answer.status_int, str(error) or answer.status)
        if (tm := request.tm_in_use) is not None:
            tm.doom()  # a fault is an error, though its status is 200
        return _NOT_IN_XML.sub("\ufffd", xmlrpc.client.dumps(fault, encoding="utf-8")).encode()
    try:
        text = xmlrpc.client.dumps((result,), methodresponse=True, encoding="utf-8", allow_none=True)
    except (TypeError, OverflowError) as error:
        raise TypeError(f"XML-RPC method {method!r} returned what XML-RPC cannot say: {error}") from error
    return _NOT_IN_XML.sub("\ufffd", text).encode()


def _call(
    context: Any, request: FormsRequest, response: Response, method: str, parameters: tuple[Any, ...]
) -> Any:
    *steps, name = method.split(".")
    for step in steps:
        if not step or step.startswith("_") or not is_container(context):
            raise HTTPNotFound(f"There is no method {method!r}.")
        try:
            context = context[step]
        except LookupError as error:
            if type(error).__module__.startswith("ZODB."):
                raise  # a lost object is no missing method
            raise HTTPNotFound(f"There is no method {method!r}.") from None
        if kind_of(type(context)) == DENIED:
            raise HTTPNotFound(f"There is no method {method!r}.")
        for hook in request.traversal_hooks:
            hook(request, context)
    request.context = context
    found = _method(context, request, name)
    if found is None:
        raise HTTPNotFound(f"There is no method {method!r}.")
    request.authorize(request, found)
    names = found.fill.names if found.fill is not None else []
    if len(parameters) > len(names):
        raise HTTPBadRequest(f"The method {method!r} takes {len(names)} parameters at most.")
    request.form = dict(zip(names, parameters, strict=False))
    return found.call(context, request, response) if found.takes_response else found.call(context, request)


def _method(context: Any, request: FormsRequest, name: str) -> View | None:
    """The view of that name, if it is for XML-RPC: one for any request was not written to be called like this."""
    if request.views is None or not name:
        return None
    found = request.views.find(context, request, "POST", name)
    plain = request.views.lookup((providedBy(context), IRequest), IView, f"POST {name}")
    return None if found is plain else found


def _parse(request: FormsRequest) -> tuple[tuple[Any, ...], str]:
    body = request.body_file.read(MAX_BODY + 1)
    if len(body) > MAX_BODY:
        raise HTTPRequestEntityTooLarge(f"A call is at most {MAX_BODY} bytes.")
    call = xmlrpc.client.Unmarshaller(use_builtin_types=True)
    call.xml("", None)  # what it gets is decoded
    parser = ParserCreate()  # the one of xmlrpc.client takes document types, and with them entities
    parser.StartDoctypeDeclHandler = _refuse_document_type
    parser.StartElementHandler = call.start
    parser.EndElementHandler = call.end
    parser.CharacterDataHandler = call.data
    try:
        parser.Parse(body, True)
        parameters, method = call.close(), call.getmethodname()
    except (ExpatError, xmlrpc.client.Error, ValueError, TypeError, LookupError, ArithmeticError) as error:
        raise HTTPBadRequest(f"This is no XML-RPC call: {error}") from None
    if not method:
        raise HTTPBadRequest("This is no XML-RPC call: it names no method.")
    return tuple(parameters), method


def _refuse_document_type(*arguments: object) -> None:
    raise HTTPBadRequest("A call has no document type.")
