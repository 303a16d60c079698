"""``authenticate``: who asks, by HTTP basic authentication (RFC 7617)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable

from webob.exc import HTTPException

from pipeline.composition import element
from pipeline.interfaces import Handler
from pipeline.request import Request
from pipeline.response import OK, Response, check_header

Check = Callable[[Request, str, str], "str | None"]


@element(
    provides=("principal",),
    inside={"errors": "a refused login is answered as any other error is"},
    outside={"traverse": "placeful authentication works by traversal hook"},
)
def authenticate(next: Handler, *, check: Callable[..., str | None], realm: str = "site") -> Handler:
    """Put on the request who asks, and challenge who must log in.

    check  dotted name of ``(request, login, password) -> principal or None``
    realm  what a browser names in its login dialogue

    Sets ``request.principal`` and ``REMOTE_USER``; a ``REMOTE_USER`` that came from outside is dropped, since
    some servers copy it unverified. A wrong password is no error by itself: the request goes on as nobody's.
    """
    challenge = f'Basic realm="{realm}", charset="UTF-8"'
    check_header("WWW-Authenticate", challenge)

    def authenticate(request: Request, response: Response) -> None:
        environ = request.environ
        if "REMOTE_USER" in environ:
            del environ["REMOTE_USER"]
        header = environ.get("HTTP_AUTHORIZATION")
        if header is not None and (credentials := _credentials(header)) is not None:
            request.principal = check(request, *credentials)
            if request.principal is not None:
                environ["REMOTE_USER"] = request.principal
        try:
            next(request, response)
        except HTTPException as error:
            answer = error.wsgi_response
            if answer.status_int == 401 and "WWW-Authenticate" not in answer.headers:
                answer.headers["WWW-Authenticate"] = challenge
            raise
        if response._status is not OK and response._status[:3] == "401":
            response.headers.setdefault("WWW-Authenticate", challenge)

    return authenticate


def _credentials(header: str) -> tuple[str, str] | None:
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        text = base64.b64decode(encoded.strip(), validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        return None
    login, colon, password = text.partition(":")
    return (login, password) if colon else None
