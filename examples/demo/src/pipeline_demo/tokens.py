"""Form tokens, which prove that a form came from a page of this site.

A browser sends the credentials of HTTP basic with every request, also if a page of another site made it send the
request. So every form carries a token, signed with the secret of the site and bound to the principal. A client that
is not a browser (curl, a script) sends the header ``X-Requested-With`` with any value instead. A page of another
site could make a browser send that header only if this site allowed it, which it never does.

The token of a session (``request.csrf_token``) cannot replace this token. A request with HTTP basic has no session.
And a form whose session has ended still proves by this token which login it was made for
(``pipeline_demo.views.kept``).
"""

from __future__ import annotations

import hashlib
import time

from itsdangerous import BadSignature, URLSafeTimedSerializer
from webob.exc import HTTPForbidden

from pipeline import Request

FIELD = "token"
HEADER = "X-Requested-With"
MAX_AGE = 12 * 60 * 60
"""Seconds during which a form may be sent."""


class Expired(Exception):
    """A token that is too old, but was valid. The fields that came with it were typed into a form of this site."""


def make_token(request: Request) -> str:
    """Return the token for a form that is now shown to the principal."""
    return _serializer(request).dumps(request.principal)  # type: ignore[no-any-return, unused-ignore]


def check_token(request: Request, token: str | None) -> None:
    """Refuse a request with changes that does not prove that it comes from this site.

    Raises Expired for a token that is too old, and HTTPForbidden for any other invalid token.
    """
    if request.headers.get(HEADER):
        return
    try:
        # Without ``max_age``, which would refuse a token of an instance whose clock is a moment ahead.
        principal, signed = _serializer(request).loads(token or "", return_timestamp=True)
    except (BadSignature, UnicodeError):
        principal = None
    if principal is None or principal != request.principal:
        raise HTTPForbidden(
            "This form did not come from this site, or from another login. "
            f"A client that is not a browser sends the header {HEADER}."
        )
    if time.time() - signed.timestamp() > MAX_AGE:
        raise Expired


def principal_of(request: Request, token: str | None) -> str | None:
    """Return the login that a token of this site was made for, however old it is; None if it is not a token."""
    try:
        principal = _serializer(request).loads(token or "")
    except (BadSignature, UnicodeError):
        return None
    return principal if isinstance(principal, str) else None


def _serializer(request: Request) -> URLSafeTimedSerializer:
    return URLSafeTimedSerializer(
        request.root.secret, salt="pipeline_demo.form", signer_kwargs={"digest_method": hashlib.sha256}
    )
