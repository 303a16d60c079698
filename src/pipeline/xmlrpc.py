"""XML-RPC: ``scan = pipeline.xmlrpc`` lets requests of the type ``IXMLRPCRequest`` call views (S20).

A call is a POST of ``text/xml`` to the URL of an object. The method's name is that of a view which is
registered for the object and for the request type; the parameters follow ``(context, request)``::

    @view(context=Folder, name="titles", methods=("POST",), request_type=IXMLRPCRequest)
    def titles(folder, request, limit): ...

Dots in the method's name are steps to further objects, as in Zope. What the view returns is the result.
An HTTP exception becomes a fault with its status; any other is for ``errors``, like everywhere.
"""

from __future__ import annotations

import xmlrpc.client
from inspect import signature
from typing import Any
from xml.parsers.expat import ExpatError

from webob.exc import HTTPBadRequest, HTTPException, HTTPNotFound, HTTPRequestEntityTooLarge
from zope.interface import Interface

from pipeline.auth.policy import PUBLIC
from pipeline.interfaces import IXMLRPCRequest
from pipeline.kinds import is_container
from pipeline.request import Request
from pipeline.response import Response
from pipeline.views import view

MAX_BODY = 1024 * 1024
"""Bytes of a call."""


@view(context=Interface, methods=("POST",), request_type=IXMLRPCRequest, permission=PUBLIC)
def call(context: Any, request: Request, response: Response) -> bytes:
    """Find the view that the call names, ask whether it may be called, and call it."""
    parameters, method = _parse(request)
    response.headers["Content-Type"] = "text/xml; charset=UTF-8"
    try:
        result = _call(context, request, method, parameters)
    except HTTPException as error:
        answer = error.wsgi_response
        fault = xmlrpc.client.Fault(answer.status_int, str(error) or answer.status)
        if (tm := request.tm_in_use) is not None:
            tm.doom()  # a fault is an error, though its status is 200
        return xmlrpc.client.dumps(fault, encoding="utf-8", allow_none=True).encode()
    try:
        text = xmlrpc.client.dumps((result,), methodresponse=True, encoding="utf-8", allow_none=True)
    except (TypeError, OverflowError) as error:
        raise TypeError(f"XML-RPC method {method!r} returned what XML-RPC cannot say: {error}") from error
    return text.encode()


def _call(context: Any, request: Request, method: str, parameters: tuple[Any, ...]) -> Any:
    *steps, name = method.split(".")
    for step in steps:
        if not step or step.startswith("_") or not is_container(context):
            raise HTTPNotFound(f"There is no method {method!r}.")
        try:
            context = context[step]
        except LookupError:
            raise HTTPNotFound(f"There is no method {method!r}.") from None
    request.context = context
    found = request.views.find(context, request, "POST", name) if request.views is not None and name else None
    if found is None:
        raise HTTPNotFound(f"There is no method {method!r}.")
    request.authorize(request, found)
    try:
        signature(found.function).bind(context, request, *parameters)
    except TypeError as error:
        raise HTTPBadRequest(f"The method {method!r} cannot be called like this: {error}") from None
    return found.function(context, request, *parameters)


def _parse(request: Request) -> tuple[tuple[Any, ...], str]:
    body = request.body_file.read(MAX_BODY + 1)
    if len(body) > MAX_BODY:
        raise HTTPRequestEntityTooLarge(f"A call is at most {MAX_BODY} bytes.")
    if b"<!DOCTYPE" in body or b"<!ENTITY" in body:
        raise HTTPBadRequest("A call has no document type.")
    try:
        parameters, method = xmlrpc.client.loads(body, use_builtin_types=True)
    except (ExpatError, xmlrpc.client.Error, ValueError, TypeError, KeyError, IndexError) as error:
        raise HTTPBadRequest(f"This is no XML-RPC call: {error}") from None
    if not method:
        raise HTTPBadRequest("This is no XML-RPC call: it names no method.")
    return tuple(parameters), method
