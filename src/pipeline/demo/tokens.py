"""Form tokens: proof that a form which changes something came from a page of this site.

A browser sends the credentials of HTTP basic along with any request, also with one that a page of
another site made it send. So every form carries a token, signed with the site's secret and bound
to who is logged in. A client that is not a browser's form (curl, a script) sends the header
``X-Requested-With`` with any value instead: a page of another site cannot have a browser send that
without being allowed to by this one, which never does.
"""

from __future__ import annotations

import hashlib

from itsdangerous import BadSignature, SignatureExpired, URLSafeTimedSerializer
from webob.exc import HTTPForbidden

from pipeline import Request

FIELD = "token"
HEADER = "X-Requested-With"
MAX_AGE = 12 * 60 * 60
"""Seconds during which a form may be sent."""


class Expired(Exception):
    """A token that was good once. What came with it was typed into a form of this site."""


def make_token(request: Request) -> str:
    """The token for a form that is shown to this principal now."""
    return _serializer(request).dumps(request.principal)  # type: ignore[no-any-return, unused-ignore]


def check_token(request: Request, token: str | None) -> None:
    """Refuse a request that changes something and is not known to come from this site.

    Raises Expired for a token that is too old, and HTTPForbidden for any other that is not good.
    """
    if request.headers.get(HEADER):
        return
    try:
        principal = _serializer(request).loads(token or "", max_age=MAX_AGE)
    except SignatureExpired as expired:
        # Without `max_age` it would have passed; whose it was still matters.
        if _serializer(request).load_payload(expired.payload or b"") == request.principal:
            raise Expired from None
        principal = None
    except (BadSignature, UnicodeError):
        principal = None
    if principal is None or principal != request.principal:
        raise HTTPForbidden(
            "This form did not come from this site, or from another login. "
            f"A client that is no browser sends the header {HEADER}."
        )


def principal_of(request: Request, token: str | None) -> str | None:
    """Return the login that a token of this site was made for, however old it is; None if it is not a token."""
    try:
        principal = _serializer(request).loads(token or "")
    except (BadSignature, UnicodeError):
        return None
    return principal if isinstance(principal, str) else None


def _serializer(request: Request) -> URLSafeTimedSerializer:
    return URLSafeTimedSerializer(
        request.root.secret, salt="pipeline.demo.form", signer_kwargs={"digest_method": hashlib.sha256}
    )
