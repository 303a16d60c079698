"""One request to a site, as a corpus has it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BytesIO
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

from webob import Request
from webob.multidict import MultiDict

from pipeline.telling.secrets import masked_query

OWN_ORIGIN = "own"
"""Stands for the address of the site, in a header that says where a form comes from."""
FORM = "application/x-www-form-urlencoded"
JSON = "application/json"
BOUNDARY = "----------prove"
MULTIPART = f"multipart/form-data; boundary={BOUNDARY}"



class Asked(NamedTuple):
    """One request."""

    method: str
    url: str
    """Path and query, percent-encoded."""
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    user: str | None = None
    """The user that asks, without a password; None is the user of the site, and "" is an anonymous visitor."""
    source: str = ""
    """The place that it was found at, such as a form of the page /."""

    def __str__(self) -> str:
        return f"{self.method} {masked_query(self.url)}"

    def environ(self, origin: str) -> dict[str, Any]:
        """Return the environ of the request, as a server makes it.

        origin  address of the site, such as http://localhost
        """
        headers = {name: origin if value == OWN_ORIGIN else value for name, value in self.headers}
        made = Request.blank(self.url, base_url=origin, method=self.method, headers=headers)
        environ: dict[str, Any] = made.environ
        environ["REMOTE_ADDR"] = "127.0.0.1"
        environ["wsgi.input"] = BytesIO(self.body)
        if self.body or self.method in ("POST", "PUT", "PATCH"):
            environ["CONTENT_LENGTH"] = str(len(self.body))
        return environ

    @property
    def is_safe(self) -> bool:
        """True if it may change nothing."""
        return self.method in ("GET", "HEAD")

    @property
    def kind(self) -> str:
        """The type of its body."""
        return dict(self.headers).get("Content-Type", "")

    @property
    def fields(self) -> list[tuple[str, Any]]:
        """The fields of its form, the values in its JSON, or the fields of its query if it has no body. A file is
        a pair of its name and its content."""
        if self.kind == JSON:
            return list(leaves(json.loads(self.body or b"null")))
        if self.kind == MULTIPART:
            return list(parts(self.body))
        text = self.body.decode("latin-1") if self.kind == FORM else self.url.partition("?")[2]
        return parse_qsl(text, keep_blank_values=True)

    def with_fields(self, fields: Sequence[tuple[str, Any]]) -> Asked:
        """Return the request with these values, in the order of ``fields``."""
        if self.kind == JSON:
            values = iter([value for _, value in fields])
            return self._replace(body=json.dumps(refilled(json.loads(self.body or b"null"), values)).encode())
        if self.kind == MULTIPART:
            return self._replace(body=multipart(fields))
        if self.kind == FORM:
            return self._replace(body=urlencode(fields).encode())
        if self.is_safe and fields:
            return self._replace(url=f"{self.url.partition('?')[0]}?{urlencode(fields)}")
        return self

    def with_headers(self, changed: Mapping[str, str]) -> Asked:
        """Return the request with other values of headers."""
        kept = [pair for pair in self.headers if pair[0] not in changed]
        return self._replace(headers=(*kept, *changed.items()))


OWN = (("Origin", OWN_ORIGIN), ("Sec-Fetch-Site", "same-origin"))
"""The headers that a browser sends with a form of the site."""


def asked(
    method: str, url: str, fields: Sequence[tuple[str, Any]] = (), *, user: str | None = None, source: str = ""
) -> Asked:
    """Return the request that a browser makes for a link, or for a form with these fields."""
    if method in ("GET", "HEAD"):
        return Asked(method, url, user=user, source=source)
    body = urlencode([(name, str(value)) for name, value in fields]).encode()
    kind = (("Content-Type", FORM),) if method != "DELETE" else ()
    return Asked(method, url, body if method != "DELETE" else b"", (*OWN, *kind), user, source)


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values in a value of JSON, each with its path, such as ``lines/0/count``."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if not items:
        yield name, value
    for key, inner in items:
        yield from leaves(inner, f"{name}/{key}".lstrip("/"))


def refilled(shape: Any, values: Iterator[Any]) -> Any:
    """Return a value of JSON with others in the place of its ``leaves``."""
    if shape and isinstance(shape, dict):
        return {key: refilled(inner, values) for key, inner in shape.items()}
    if shape and isinstance(shape, list):
        return [refilled(inner, values) for inner in shape]
    return next(values)


def parts(body: bytes) -> Iterator[tuple[str, Any]]:
    """Yield the fields in the body of a form with files."""
    for part in body.decode("utf-8", "replace").split(f"--{BOUNDARY}")[1:-1]:
        head, _, value = part.removesuffix("\r\n").partition("\r\n\r\n")
        _, name, more, *others = head.split('"')
        yield name, (others[0], value) if more.startswith("; filename") else value


def multipart(fields: Sequence[tuple[str, Any]]) -> bytes:
    """Return the body of a form with files, with quotes in their names as browsers write them."""
    quoted = str.maketrans({'"': "%22", "\r": "%0D", "\n": "%0A"})
    sent = [(name, (one[0].translate(quoted), one[1]) if isinstance(one, tuple) else one) for name, one in fields]
    body: bytes = Request.blank("/", POST=MultiDict(sent), content_type=MULTIPART).body
    return body


def with_values(request: Asked, change: Callable[[Any], Any]) -> Asked:
    """Return a request with other values in the fields of its form, its JSON or its query."""
    return request.with_fields([(name, change(old)) for name, old in request.fields])


def unlike(old: Any, number: int) -> Any:
    """Return a value of a field that no other object has, if it is a word."""
    return f"{old}{number}" if isinstance(old, str) and old.isalpha() else old
