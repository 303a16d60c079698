"""Values of a request in words, without its secrets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType
from typing import Any
from urllib.parse import unquote

from pipeline.telling.words import written

NAMED = (FunctionType, MethodType, BuiltinFunctionType)
LONGEST = 300
"""Characters of one value that are kept."""
MASK = "(masked)"
is_secret = re.compile(
    r"pass|pwd|secret|token|credential|csrf|session|apikey|accesskey|authorization|signature"
    r"|(?<![a-z])(?:auth|code|key|otp|pin|sig|totp)(?![a-z])",
    re.IGNORECASE,
).search
"""Function that tells by the name of a header, a field or a variable that its value is a secret. Short words count
if no letter is beside them: those of ``X-Auth`` and ``private_key``, not those of ``author`` and ``keyboard``."""
HEADERS = ("HTTP_COOKIE", "HTTP_AUTHORIZATION", "HTTP_PROXY_AUTHORIZATION")
WITH_A_QUERY = ("QUERY_STRING", "REQUEST_URI", "RAW_URI", "HTTP_REFERER")
NOT_PLAIN = (*HEADERS, *WITH_A_QUERY, "SET-COOKIE", "LOCATION", "CONTENT-LOCATION", "LINK")
_NAME = re.compile(r"""([\w.%-]++)((?:\\*+["']\s*+(?:[=:]|,(?:\s*+value)?+)|\]?+\s*+[=:])\s*+)?""")
"""A word, and what makes it a name: ``a=``, ``a: ``, ``f[a]=``, ``'a': `` of a dict, ``('a', `` of a pair, and
``'a', value `` of a FieldError."""
_VALUE = re.compile(
    r"(?:(?:basic|bearer|digest|negotiate|token)\s++)?+"
    r"""(?:[bru]{0,2}\\*+(?:"(?:[^"\\]|\\.)*+"?+|'(?:[^'\\]|\\.)*+'?+)|\[[^]]*+]?+|\([^)]*+\)?+|\{[^}]*+}?+"""
    r"|[^\s&;,]*+)",
    re.IGNORECASE | re.DOTALL,
)
"""The value of a name in a text: quoted, in brackets, or up to the next blank. A text may end within a value."""
_VALUE_IN_A_QUERY = re.compile("[^&;#]*+")


def told(value: Any) -> str:
    """Return a value in a few words. Its own code does not run, and no object is loaded for it."""
    kind = type(value)
    if kind is str:
        text: str = value
    elif value is None or kind in (bool, int, float):
        return repr(value)
    elif kind in (tuple, list):
        text = f"({', '.join(map(told, value[:8]))}{', ...' if len(value) > 8 else ''})"
    elif kind is bytes:
        text = f"{len(value)} bytes"
    elif kind in (dict, MappingProxyType):
        text = told_fields(value)
    elif kind in NAMED or issubclass(kind, type):
        text = str(value.__qualname__)
    else:
        text = f"{'an' if kind.__name__[0] in 'AEIOUaeio' else 'a'} {kind.__name__}"
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def told_fields(fields: Mapping[Any, Any]) -> str:
    """Return the fields of a form in words."""
    pairs = [f"{told(name)}={value_of(str(name), value)}" for name, value in list(fields.items())[:20]]
    return ", ".join(pairs) or "(empty)"


def value_of(name: str, value: Any) -> str:
    """Return a value in words; a mask if its name says that it is a secret, and for the password in a URL."""
    if not is_plain(name) and is_secret(name):
        return MASK
    return masked_text(told(value))


@lru_cache(maxsize=5_000)
def is_plain(name: str) -> bool:
    """Return whether a text with that name may be kept as it is."""
    return not is_secret(name) and name.upper() not in NOT_PLAIN


def told_variable(name: str, value: Any) -> str:
    """Return a value of the environ in words."""
    if name in TELLERS:
        return TELLERS[name](value) if value else ""
    if type(value) is str and is_plain(name) and len(value) <= LONGEST and "@" not in value:
        return value
    return value_of(name, value)


def told_header(name: str, value: str) -> str:
    """Return a header of an answer in words."""
    if is_plain(name) and len(value) <= LONGEST:
        return value
    if name.lower() == "set-cookie":
        cookie, _, attributes = value.partition(";")
        return f"{cookie.partition('=')[0]}={MASK}{';' if attributes else ''}{attributes}"
    if name.upper() in NOT_PLAIN:
        return masked_query(value)
    return value_of(name, value)


def masked_cookies(header: Any) -> str:
    """Return a header ``Cookie`` with the names of the cookies alone."""
    names = (pair.partition("=")[0].strip() for pair in str(header).split(";"))
    return told("; ".join([f"{name}={MASK}" for name in names]))


def masked_credentials(header: Any) -> str:
    """Return a header ``Authorization`` with its scheme alone."""
    scheme, blank, _ = str(header).partition(" ")
    return f"{told(scheme)} {MASK}" if blank else MASK


def masked_query(text: Any) -> str:
    """Return a query, or a URL with one, without the values of fields that are secrets."""
    return told(_masked(str(text), _VALUE_IN_A_QUERY))


TELLERS: dict[str, Callable[[Any], str]] = {
    "HTTP_COOKIE": masked_cookies,
    "HTTP_AUTHORIZATION": masked_credentials,
    "HTTP_PROXY_AUTHORIZATION": masked_credentials,
    **dict.fromkeys(WITH_A_QUERY, masked_query),
}
"""Functions that tell the values of some variables of the environ."""


def told_option(name: str, value: Any, is_hidden: Callable[[str], object]) -> str:
    """Return an option as an ini has it, or a mask for one that is a secret (S25).

    is_hidden  tells the names of secrets: those in the facts of an element; ``is_secret`` for a foreign section,
               which has no facts
    """
    return MASK if is_hidden(name) else masked_urls(written(value))


def masked_text(text: str) -> str:
    """Return the text of a log record or an error without what looks like a secret: ``password=...``."""
    return _masked(masked_urls(text), _VALUE)


def masked_urls(text: str) -> str:
    """Return a text without the passwords of its URLs, also those in a query. One before the host reaches to the
    last "@" of its word, whatever stands in it."""
    return re.sub(r"\S++", _masked_url, text) if "://" in text else text


def _masked_url(found: re.Match[str]) -> str:
    word = found[0]
    end, begin = word.rfind("@"), word.find("://") + 3
    user, colon, _ = word[begin:end].partition(":")
    if end >= 0 and begin >= 3 and colon and "/" not in user:
        word = f"{word[:begin]}{user}:{MASK}{word[end:]}"
    place, mark, query = word.partition("?")
    return f"{place}{mark}{_masked(query, _VALUE)}"


def _masked(text: str, value: re.Pattern[str]) -> str:
    """Return a text without the values that follow names of secrets. A name may be percent-encoded, and so may a
    query that is the value of a field."""
    if "%" not in text and not is_secret(text):
        return text
    kept: list[str] = []
    place = 0
    for found in _NAME.finditer(text):
        name = unquote(found[1])
        inner = found[2] is None and "=" in name
        if found.end() > place and (found[2] or inner) and is_secret(name):
            if found.start() >= place:  # or it began in a value, and its own value lies beyond
                kept += text[place : found.start() if inner else found.end()], MASK
            place = value.match(text, found.end()).end()  # type: ignore[union-attr]
    return "".join((*kept, text[place:]))
