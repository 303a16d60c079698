"""The publisher, which is the end of the pipeline. It finds the view for the context, calls it, and puts its result
on the response. It publishes only registered views (S2).
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from io import TextIOBase
from typing import TYPE_CHECKING, Any

import webob
from webob.exc import HTTPException, WSGIHTTPException

from pipeline.composition import Offers, element
from pipeline.interfaces import Facts, IResult, ResultError
from pipeline.options import on_demand
from pipeline.request import Request
from pipeline.response import HTML, OK, Response
from pipeline.views import Arguments, View, Views

if TYPE_CHECKING:
    from pipeline.forms.arguments import arguments_of
    from pipeline.http.exceptions import adopt_exception
    from pipeline.http.files import FileBody
    from pipeline.http.origins import refuse_cross_site
    from pipeline.http.redirects import judge_redirect
    from pipeline.http.versions import refuse_late_etag
    from pipeline.publishing.json import answer_null
    from pipeline.publishing.unviewed import no_view, null_view
else:  # for cost alone: a plain page does not need these functions
    arguments_of = on_demand("pipeline.forms.arguments:arguments_of")
    adopt_exception = on_demand("pipeline.http.exceptions:adopt_exception")
    FileBody = on_demand("pipeline.http.files:FileBody")
    refuse_cross_site = on_demand("pipeline.http.origins:refuse_cross_site")
    judge_redirect = on_demand("pipeline.http.redirects:judge_redirect")
    refuse_late_etag = on_demand("pipeline.http.versions:refuse_late_etag")
    answer_null = on_demand("pipeline.publishing.json:answer_null")
    no_view = on_demand("pipeline.publishing.unviewed:no_view")
    null_view = on_demand("pipeline.publishing.unviewed:null_view")


@element(requires=("context",), facts=lambda *, scan, **options: Facts(packages=scan))
def publisher(*, scan: tuple[str, ...] = (), arguments: Arguments = arguments_of) -> Offers:
    """Call the view of the context.

    scan       dotted names of the packages and modules whose views and adapters are published here
    arguments  dotted name of the function that fills the further parameters of views; default: the fields of a
               form, by pipeline.forms.arguments:arguments_of

    If there is no view of the name, the answer is a 404. If the view does not accept the method, it is a 405 with
    ``Allow``. OPTIONS is answered with ``Allow``, unless a view accepts it. An unsafe request that another site has
    a browser send is a 403, unless the view says ``cross_site=True`` (S23).
    """
    views = Views(scan, arguments)
    find = views.find

    def publisher(request: Request, response: Response) -> None:
        context = request.context
        view = find(context, request, request.environ["REQUEST_METHOD"], request.view_name)
        if view is None:
            view = null_view(views, request)
            if view is None:
                no_view(views, request, response)
                return
            context = request.context
        if view.same_site:
            refuse_cross_site(request)
        authorize = request.authorize  # read, then called: a method call would look it up more slowly
        authorize(request, view)
        call_view(view, context, request, response)

    return Offers(publisher, views=views)


def call_view(view: View, context: Any, request: Request, response: Response) -> None:
    """Call a view and put its result on the response. Also used for error views.

    A redirect may be raised or returned: it is an answer, and commits. A redirect that leaves this site without
    being trusted is an error of the view (S8). An HTTP error is raised, also if it was returned, so that the
    transaction is aborted and an error view is called.
    """
    try:
        call = view.call
        result = call(context, request, response) if view.takes_response else call(context, request)
    except HTTPException as error:
        if error.wsgi_response.status_int >= 400:
            raise
        result = error.wsgi_response
    if type(result) is str and ((own := response._own_headers) is None or (own and own[0] is HTML)):
        response.blocks = [result.encode()]  # a function of the response for this would cost 1 % of a plain page
    else:
        try:
            put_result(result, view, request, response)
        finally:
            del result  # it may have been raised, and then its traceback refers to this frame
    if response.conditional_response:
        refuse_late_etag(request, view)
    if response.status_line is not OK:
        judge_redirect(request, response, view)


_NOT_BLOCKS = (list, tuple, range, bytearray, memoryview, Mapping, Set, TextIOBase, type)
"""Types that can be iterated over, but do not yield blocks of bytes."""


def put_result(result: Any, view: View, request: Request, response: Response) -> None:
    """Put the result of a view on the response. Raise ResultError if it is not a valid result."""
    if result is None or result is response:
        if result is None and not response.blocks and response.status_line is OK:
            answer_null(view, request, response)
        request.close_with(response.blocks)
    elif isinstance(result, str):
        # Without a charset in the content type, UTF-8 is the only sensible choice.
        response.blocks = [result.encode(response.charset or "utf-8")]
    elif isinstance(result, bytes):
        response.blocks = [result]
    elif isinstance(result, webob.Response):
        try:
            _put_response(result, request, response)
        finally:
            del result  # it may have been raised, and then its traceback refers to this frame
    elif request.views is not None and (adapted := request.views.adapt(result, IResult)) is not None:
        put_result(adapted(request, response), view, request, response)
    else:
        _put_blocks(result, view, request, response)


def _put_response(result: webob.Response, request: Request, response: Response) -> None:
    """Take over a response that a view returned. Raise an error that has no body of its own."""
    if not isinstance(result, WSGIHTTPException):
        request.close_with(result.app_iter)
        response.adopt(result.status, list(result.headerlist), result.app_iter)
        response.conditional_response = result.conditional_response
    elif result.status >= "400" and not result.has_body:
        try:
            raise result
        finally:
            del result  # its traceback refers to this frame
    else:
        adopt_exception(response, result)


def _put_blocks(result: Any, view: View, request: Request, response: Response) -> None:
    """Put a file, or an iterable of bytes, on the response. Raise ResultError for any other object."""
    if isinstance(result, (list, tuple)) and all(isinstance(block, bytes) for block in result):
        response.blocks = list(result)
        return
    if isinstance(result, _NOT_BLOCKS) or not (hasattr(result, "read") or hasattr(result, "__iter__")):
        raise ResultError(
            f"view {view} returned {result!r:.200}, of type {type(result).__name__}; a view returns str, bytes, an "
            f"iterable of bytes, a binary file, None, a webob.Response, or a value with an IResult adapter, which "
            f"dicts and lists have if the option scan names pipeline.publishing.json"
        )
    response.blocks = FileBody(result) if hasattr(result, "read") else result
    request.close_with(response.blocks)
