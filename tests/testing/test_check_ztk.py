"""The elements of Zope's publication keep the element protocol as well: ``make test-ztk``."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("zope.app.publication", reason="it needs the extra ztk, which make test-ztk installs")

from transaction.interfaces import TransientError
from zope.publisher.base import DefaultPublication
from zope.publisher.http import DirectResult, HTTPRequest
from zope.publisher.interfaces import Retry

from pipeline import element
from pipeline.composition import Element
from pipeline.testing import check_element
from pipeline.ztk.authenticate import ztk_authenticate
from pipeline.ztk.errors import ztk_errors
from pipeline.ztk.request import ZopeRequest, ztk_request
from pipeline.ztk.traverse import ztk_traverse

pytestmark = pytest.mark.ztk


class Root:
    """The only object of the site."""

    def __call__(self) -> str:
        return "the root"


class Publication(DefaultPublication):
    """The publication of a small site. It asks for another attempt as Zope's does."""

    def handleException(self, ob: Any, request: Any, exc_info: Any, retry_allowed: bool = True) -> None:
        if retry_allowed and isinstance(exc_info[1], TransientError):
            raise Retry(exc_info)
        super().handleException(ob, request, exc_info, retry_allowed)


def factory(body: Any, environ: dict[str, Any]) -> HTTPRequest:
    """Make a request as the publication of a small site does."""
    request = HTTPRequest(body, environ)
    request.setPublication(Publication(Root()))
    return request


@element(requires=("zope",))
def on_zope(next: Any) -> Any:
    """Put the answer of the inner parts on the response of Zope, as ``ztk_publisher`` does."""

    def on_zope(request: Any, response: Any) -> None:
        next(request, response)
        answer = request.zope.response
        status, _, reason = response.status.partition(" ")
        answer.setStatus(int(status), reason)
        for name, value in response.headerlist:
            answer.setHeader(name, value)
        answer.setResult(DirectResult(response.app_iter))

    return on_zope


@element(adds=ZopeRequest, provides=("zope",), inside={"retry": "every attempt has a request of its own"})
def ztk_request_and_errors(next: Any) -> Any:
    """Answer errors, as the two elements do together: the one on the response of Zope, the other on ours."""
    inner = ztk_errors.factory(next)
    made = ztk_request.factory(inner, factory=factory)
    return made


OUTSIDE: dict[Element, tuple[Element, ...]] = {
    ztk_request(factory=factory): (),
    ztk_request_and_errors(): (),
    ztk_authenticate(): (ztk_request(factory=factory),),
    ztk_traverse(): (ztk_request(factory=factory), ztk_authenticate()),
}


@pytest.mark.parametrize("checked", OUTSIDE, ids=lambda checked: checked.name)
def test_an_element_of_zope_keeps_the_protocol(checked: Element) -> None:
    check_element(checked, outside=OUTSIDE[checked], inside=(on_zope(),))
