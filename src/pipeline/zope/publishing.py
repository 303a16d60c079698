"""``publish_module``: the pipeline behind the one name that the test layers of Zope and Plone call.

    ZPublisher.WSGIPublisher.publish_module = pipeline.zope.publish_module

The application, the connection and the transaction manager are those of the thread, as tests set them up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import transaction as transactions
from ZPublisher import WSGIPublisher
from ZPublisher.HTTPRequest import WSGIRequest
from ZPublisher.HTTPResponse import WSGIResponse
from ZPublisher.WSGIPublisher import publish

from pipeline.composition import Offers, Pipeline, element
from pipeline.elements.retry import retry
from pipeline.elements.transaction import TransactionRequest, transaction
from pipeline.interfaces import Handler
from pipeline.response import Response
from pipeline.zope.errors import zope_errors
from pipeline.zope.path import put_path
from pipeline.zope.publisher import zope_publisher
from pipeline.zope.request import ZopeRequest, set_server, zope_request
from pipeline.zope.traverse import put_user, zope_traverse

CALL = "pipeline.zope.call"
OF_ZOPE_ITSELF = publish


@dataclass(eq=False)
class Call:
    """The arguments of one call of ``publish_module``."""

    publish: Any
    response: Any
    response_factory: Any
    request: Any
    request_factory: Any
    info: Any
    next_request: Any = None
    """The request of the next attempt, which the one before has made."""
    answer: Any = None
    """Status, headers and body of a stub."""

    @property
    def is_stub(self) -> bool:
        """True if a test answers itself, and that may be anything."""
        return self.publish is not OF_ZOPE_ITSELF

    def new_request(self, environ: dict[str, Any]) -> tuple[Any, Any]:
        """Return the request and the response of the next attempt."""
        if self.next_request is not None:
            return self.next_request, self.next_request.response
        answer = self.response
        if answer is None:
            answer = self.response_factory(stdout=WSGIPublisher.BytesIO(), stderr=WSGIPublisher.BytesIO())
        set_server(answer, environ)
        request = self.request
        if request is None:
            request = self.request_factory(environ["wsgi.input"], environ, answer)
        return request, answer


def in_two(body: Any) -> Any:
    """Return a body in memory as Zope does: what was written to the response, and its body."""
    if type(body) is not list:
        return body
    return tuple(body) if len(body) > 1 else (b"", *(body or [b""]))


@element(adds=ZopeRequest, provides=("database", "root"))
def zope_of_thread(next: Handler) -> Offers:
    """Provide the application and the transaction manager of this thread."""

    def zope_of_thread(request: Any, response: Response) -> None:
        call = request.call = request.environ[CALL]
        with WSGIPublisher.load_app(call.info) as (request.root, _, _):
            tm = request.tm_in_use = request.tm
            tm.begin()
            next(request, response)

    return Offers(zope_of_thread, tm=lambda request: transactions.manager.manager)


@element(adds=TransactionRequest, requires=("zope", "root"))
def published_by_caller() -> Handler:
    """Call the function that ``publish_module`` was given."""

    def published_by_caller(request: Any, response: Response) -> None:
        call = request.call
        try:
            request.zope_response = call.publish(request.zope, (request.root, *call.info[1:]))
        finally:
            put_user(request)

    return published_by_caller


def pipeline(*inner: Any) -> Pipeline:
    """Return the pipeline with other elements at its end."""
    return Pipeline(retry(), zope_of_thread(), zope_request(), transaction(), zope_errors(), *inner)


OF_ZOPE = pipeline(zope_traverse(), zope_publisher())
OF_CALLER = pipeline(published_by_caller())


def publish_module(
    environ: dict[str, Any],
    start_response: Any,
    _publish: Any = publish,
    _response: Any = None,
    _response_factory: Any = WSGIResponse,
    _request: Any = None,
    _request_factory: Any = WSGIRequest,
    _module_name: str = "Zope2",
) -> Iterable[bytes]:
    """Publish one request in the place of ``ZPublisher.WSGIPublisher.publish_module``, with its arguments.

    Exceptions without an exception view are raised, as it does.
    """
    info = WSGIPublisher.get_module_info(_module_name)
    call = Call(_publish, _response, _response_factory, _request, _request_factory, info)
    added = {"wsgi.handleErrors": False, "REQUEST_METHOD": "GET", CALL: call}
    added = {key: value for key, value in added.items() if key not in environ}
    environ.update(added)
    put_path(environ, environ.get("PATH_INFO", ""))
    try:
        if not call.is_stub:
            found: Iterable[bytes] = in_two(OF_ZOPE(environ, start_response))
            return found
        OF_CALLER(environ, lambda status, headers: None)
        status, headers, body = call.answer
        start_response(status, headers)
        found = in_two(body)
        return found
    finally:
        for key in added:
            environ.pop(key, None)
