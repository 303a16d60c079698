"""Keep the fields of a form whose session had ended, until the visitor has logged in again.

The login page carries the fields along, and the page after it offers to send them. The server keeps nothing, and
nothing is stored before the visitor sends the form once more.

Another site can make a browser send a form of its own without a session. So the fields are kept only with a token
that this site made for the same login. When they are sent again, they are checked like any form.
"""

from __future__ import annotations

import json

from pipeline.auth.authentication import AuthRequest
from pipeline_demo.tokens import FIELD, principal_of

KEPT = "kept"
"""Name of the field of the login page that carries the fields along."""
MAX_KEPT = 2 * 1024 * 1024
"""Upper limit of the bytes that are carried along: twice the longest text of a document."""

Fields = list[tuple[str, str]]


def keep(request: AuthRequest) -> str | None:
    """Return the fields of the form, as text to be carried along; None if the form is not one of this site.

    Files are left out. The visitor must choose them again.
    """
    if request.method != "POST" or request.login_session is None or request.local_authentication is not None:
        return None
    fields: Fields = []
    for name, value in getattr(request, "form", {}).items():
        values = value if isinstance(value, list) else [value]
        fields += [(name, text) for text in values if isinstance(text, str)]
    if _made_for(request, fields) is None:
        return None
    text = json.dumps(fields, ensure_ascii=False)
    return text if len(text.encode(errors="replace")) <= MAX_KEPT else None


def kept_for(request: AuthRequest, principal: str, text: str) -> Fields:
    """Return the fields that were carried along. The list is empty if they belong to another login."""
    try:
        fields = [(name, value) for name, value in json.loads(text)]
    except (ValueError, TypeError, RecursionError):
        return []
    if not all(isinstance(part, str) for field in fields for part in field):
        return []
    return fields if _made_for(request, fields) == principal else []


def _made_for(request: AuthRequest, fields: Fields) -> str | None:
    """Return the login that the form was made for, by its token."""
    return principal_of(request, dict(fields).get(FIELD))
