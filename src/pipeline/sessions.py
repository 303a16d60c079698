"""Sessions in a signed cookie, and the file of the keys that sign them. Needs the extra ``auth``."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from itsdangerous import BadData, URLSafeTimedSerializer
from webob.exc import HTTPException, HTTPForbidden, HTTPSeeOther, WSGIHTTPException
from zope.interface import implementer

from pipeline.authentication import SAFE_METHODS, is_cross_site
from pipeline.interfaces import ConfigurationError, IAuthentication
from pipeline.request import Request
from pipeline.response import Response


@implementer(IAuthentication)
class Session:
    """A session in a signed cookie: the principal and a token, and nothing that the server must keep.

    The cookie is signed by the last of the ``keys``; the signature of each of them is good, so that a key is
    replaced by adding one, and dropped when ``age`` seconds later no session of it is left.
    """

    COOKIE = "session"

    def __init__(self, keys: Sequence[str], age: int, login: str) -> None:
        self.serializer = URLSafeTimedSerializer(list(keys), salt="wsgi-pipeline session")
        self.age = age
        self.login = login

    def identify(self, request: Request) -> str | None:
        if "HTTP_COOKIE" not in request.environ:
            return None
        cookie = request.cookies.get(self.COOKIE)
        if not cookie:
            return None
        try:
            principal, token = self.serializer.loads(cookie, max_age=self.age)
        except (BadData, ValueError, TypeError):
            return None
        if not isinstance(principal, str) or not isinstance(token, str):
            return None
        request.csrf_token = token
        if request.method not in SAFE_METHODS:
            self.refuse_forgery(request, token)
        return principal

    def challenge(self, request: Request, error: WSGIHTTPException) -> HTTPException:
        """Lead a browser to the login page, with the way back; anything else gets the error."""
        if request.method not in ("GET", "HEAD") or "text/html" not in request.environ.get("HTTP_ACCEPT", ""):
            return error
        query = request.environ.get("QUERY_STRING", "")
        back = quote(request.path + (f"?{query}" if query else ""), safe="/")
        return HTTPSeeOther(location=f"{quote(request.script_name)}/{self.login}?came_from={back}")

    def remember(self, request: Request, response: Response, principal: str) -> None:
        """Begin a session for the principal: set its cookie."""
        token = secrets.token_urlsafe(18)
        self._set(request, response, self.serializer.dumps((principal, token)), self.age)

    def forget(self, request: Request, response: Response) -> None:
        """End the session: delete its cookie."""
        self._set(request, response, "", 0)

    def refuse_forgery(self, request: Request, token: str | None) -> None:
        """Raise HTTPForbidden for an unsafe request that another site may have made a browser send.

        A browser says where a request comes from. Of one that does not say it, and of no browser, the
        session's token is asked, in the header ``X-CSRF-Token`` or the form field ``csrf_token``.
        """
        self.refuse_cross_site(request)
        if "HTTP_ORIGIN" in request.environ or "HTTP_SEC_FETCH_SITE" in request.environ:
            return
        sent = request.headers.get("X-CSRF-Token") or getattr(request, "form", {}).get("csrf_token", "")
        if token is None or not secrets.compare_digest(str(sent).encode(), token.encode()):
            raise HTTPForbidden("This form was not made by this site, or has lost its token.")

    def refuse_cross_site(self, request: Request) -> None:
        """Raise HTTPForbidden if a browser says that another site made it send this request."""
        if is_cross_site(request):
            raise HTTPForbidden("This request came from another site.")

    def _set(self, request: Request, response: Response, value: str, age: int) -> None:
        response.set_cookie(
            self.COOKIE,
            value,
            max_age=age,
            path=request.script_name or "/",
            secure=request.scheme == "https",
            httponly=True,
            samesite="Lax",
        )


def read_keys(path: str) -> list[str]:
    """The keys in a file, one a line, the newest last; a file that is not there is made with one key.

    ConfigurationError if it cannot be read, has no key, or others may read it.
    """
    file = Path(path)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        pass
    except OSError as error:
        raise ConfigurationError(f"keys: {path} cannot be made: {error.strerror}") from error
    else:
        with os.fdopen(descriptor, "w") as new:
            new.write(secrets.token_urlsafe(32) + "\n")
    try:
        if file.stat().st_mode & 0o077:
            raise ConfigurationError(f"keys: {path} can be read by others; chmod 600 {path}")
        keys = file.read_text(encoding="ascii").split()
    except (OSError, UnicodeError) as error:
        raise ConfigurationError(f"keys: {path} cannot be read: {error}") from error
    if not keys or any(len(key) < 32 for key in keys):
        raise ConfigurationError(f"keys: {path} must have a key on each line, of 32 characters or more")
    return keys
