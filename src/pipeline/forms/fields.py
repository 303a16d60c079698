"""The fields of a query or of a urlencoded body: from what was sent to text."""

from __future__ import annotations

import re
from typing import Any

from webob.exc import HTTPBadRequest
from webob.multidict import GetDict

from pipeline.forms.charsets import decoded, known_charset

_ENCODED = re.compile(rb"%([0-9A-Fa-f]{2})")
_HEX = "0123456789abcdefABCDEF"
_BYTES = {(high + low).encode(): bytes.fromhex(high + low) for high in _HEX for low in _HEX}


def fields_of(sent: str, charset: str | None = "utf-8", broken: list[str] | None = None) -> list[tuple[str, str]]:
    """Return the names and values. Only "&" stands between two fields, and a field without a name is ignored (S19).

    sent     the query or the body, each byte as one character (latin-1), as PEP 3333 has it
    charset  if it is None, the field ``_charset_`` names it, or it is UTF-8
    broken   gets the names of fields that are not in the charset, which are then left out. A name with a colon,
             which may convert or name a view, is a 400 all the same

    HTTPBadRequest if the charset is not one of a form, or the text is not in that charset.
    """
    if charset is None:
        charset = _charset_of(sent) if "_charset_" in sent else "utf-8"
    is_plain = charset == "utf-8" and sent.isascii()
    fields = []
    for pair in sent.replace("+", " ").split("&"):
        name, _, value = pair.partition("=")
        if name:
            if not is_plain or "%" in pair:
                try:
                    name = _text(name, charset)
                    value = _text(value, charset)
                except HTTPBadRequest:
                    if broken is None or ":" in name or "%3a" in name.lower():
                        raise
                    broken.append(name)
                    continue
            fields.append((name, value))
    return fields


def _charset_of(sent: str) -> str:
    """Return the charset that the field ``_charset_`` names."""
    pairs = [pair.partition("=") for pair in sent.split("&")]
    named = {name: value for name, _, value in pairs}.get("_charset_", "")
    return known_charset(unquoted(named.encode("latin-1", "replace")).decode("latin-1")) or "utf-8"


def _text(sent: str, charset: str) -> str:
    """Return the text of a name or value."""
    if "%" not in sent and charset == "utf-8" and sent.isascii():
        return sent
    return decoded(unquoted(sent.encode("latin-1", "replace")), charset)


def unquoted(sent: bytes) -> bytes:
    """Return the bytes without percent-encoding. A percent sign that encodes nothing stays: urllib takes half a
    microsecond for each of those."""
    return _ENCODED.sub(lambda encoded: _BYTES[encoded[1]], sent)


def query_of(environ: dict[str, Any]) -> GetDict:
    """Return the fields of the query in WebOb's container, kept where WebOb itself keeps it."""
    query = environ.get("QUERY_STRING", "")
    made: GetDict | None
    made, of = environ.get(_KEPT) or (None, None)
    if made is None or of != query:
        made = GetDict(fields_of(query) if query else (), environ)
        environ[_KEPT] = (made, query)
    return made


_KEPT = "webob._parsed_query_vars"
"""Key of the environ under which WebOb keeps what it made of the query, and finds it again."""
