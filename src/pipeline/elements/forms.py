"""``forms``: what a form or a JSON client sends becomes ``request.form``, within limits (S15).

The fields of the query and of the body, by name; where both have a name, the body's counts. Text is ``str``,
a file is a ``pipeline.forms.upload.Upload``, what was sent repeatedly is a list; words in the names of fields
convert, as in Zope (``pipeline.forms.converters``). Out of JSON come the members of an object, as they are.
"""

from __future__ import annotations

import codecs
import io
import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from decimal import Decimal
from types import MappingProxyType
from typing import Any, NoReturn, TypeAlias
from unicodedata import category
from urllib.parse import unquote

from multipart import parse_options_header
from webob.exc import HTTPBadRequest, HTTPRequestEntityTooLarge, HTTPUnsupportedMediaType
from webob.multidict import MultiDict

from pipeline.composition import Offers, element
from pipeline.cookies import TOKEN
from pipeline.forms.charsets import decoded, known_charset
from pipeline.forms.converters import CONVERTERS, WORDS, Converter, IFieldConverter, collect, values_of
from pipeline.forms.fields import fields_of
from pipeline.forms.multipart_body import Limits, Part, read_multipart
from pipeline.forms.upload import Upload
from pipeline.interfaces import Facts, Handler
from pipeline.names import check_name
from pipeline.ranges import at_least, words_of
from pipeline.request import Request, on_first_use
from pipeline.response import Response

NOTHING: Mapping[str, Any] = MappingProxyType({})
Parameters: TypeAlias = Mapping[str, str]
Fields: TypeAlias = list[tuple[str, Any]]
MIB = 1024 * 1024
_BLOCK = 64 * 1024
MAX_DEPTH = 100
"""Levels of arrays and objects in a JSON body: code that follows them by recursion must not run out of stack."""


_ACCEPTED = "application/x-www-form-urlencoded, multipart/form-data, application/json"
_ACCEPTS = {"POST": "Accept-Post", "PATCH": "Accept-Patch"}


class FormsRequest(Request):
    """The attributes that ``forms`` adds to a request."""

    __unkept__: Any = (("form", lambda form: ""),)  # that of a GET is its query
    form: Mapping[str, Any] = on_first_use()
    """The fields of the form that was sent, by name."""
    _sent_fields: Any = ()
    """The fields of the body alone, unconverted, once ``form`` is read: pairs, or the members of a JSON object."""
    _exact_json: Any = NOTHING
    """The value of a JSON body with a ``Decimal`` for each number that a float rounds, once ``json`` is read."""


def _facts(*, max_body: int, **options: Any) -> Facts:
    sizes = ("max_body", "max_memory", "max_disk", "max_parts", "max_fields", "max_header")
    return Facts(max_body=max_body, limits={413: sizes, 400: ("max_fields",)})


@element(
    adds=FormsRequest,
    facts=_facts,
    provides=("form",),
    inside={
        "errors": "a malformed form is an error page",
        "retry": "every attempt reads the body, and its files, from the start",
    },
    outside={"traverse": "its limits hold before anything is looked up, and a field may name the view"},
)
def forms(
    next: Handler,
    *,
    methods: tuple[str, ...] = ("POST", "PATCH"),
    max_body: int = 100 * MIB,
    max_memory: int = 2 * MIB,
    max_disk: int = 100 * MIB,
    max_parts: int = 1000,
    max_fields: int = 1000,
    max_header: int = 4096,
) -> Offers:
    """Put the fields of a form on the request: ``request.form``.

    methods     methods whose form may name the view; their forms are read before traversal
    max_body    bytes of a body
    max_memory  bytes of it that are held in memory: all text, and files up to 64 KiB
    max_disk    bytes of it in temporary files
    max_parts   fields and files of a multipart body
    max_fields  fields of a query, a urlencoded body or a JSON object
    max_header  bytes of a header of one part

    A view that names fields, or reads ``request.form``, gets the body of every method, out of the types
    application/x-www-form-urlencoded, multipart/form-data, application/json, text/json and all that end in +json. A
    body of another type is then a 415, which names these, and so is one that is compressed (R11). A view that reads
    no field finds its body unread.
    Provides the form. Refuses what is beyond a limit (413; 400 in a query) and a body that is malformed (400),
    before the view is called. A field of the query that is malformed is a 400 if a view reads it.
    """
    limits = Limits(parts=max_parts, memory=max_memory, disk=max_disk, header=max_header)
    at_least(1, max_body=max_body, max_memory=max_memory, max_disk=max_disk, max_parts=max_parts)
    at_least(1, max_fields=max_fields, max_header=max_header)
    with_body = frozenset(method.upper() for method in words_of("methods", methods, TOKEN, "a method"))
    reading = Reading(with_body, max_body, max_fields, limits)
    read = reading.read

    def forms(request: FormsRequest, response: Response) -> None:
        environ = request.environ
        ahead = environ["REQUEST_METHOD"] in with_body and "form-" in environ.get("CONTENT_TYPE", "").lower()
        if not ahead and (query := environ.get("QUERY_STRING")):
            ahead = ":" in query or "%3a" in query.lower() or query.count("&") >= max_fields
        if ahead:
            request.form = read(request)
        next(request, response)

    def post(request: FormsRequest) -> MultiDict[str, Any]:
        """Return the fields of the body in WebOb's container. They are read as those of the form are."""
        if "form" not in request.__dict__:
            request.form = read(request)
        return MultiDict(request._sent_fields)

    return Offers(forms, form=read, json=reading.json, POST=post)


class TakenBody(HTTPBadRequest):
    """A body of which an outer part has read. If a client sent too little, the reader of the pipeline says so."""

    remedy = (
        "A part outside of forms has read wsgi.input. Let it read request.body, which leaves the body for others. "
        "pipeline explain and the element inspector say which part it is."
    )


class Reading:
    """Reads the forms of requests, within limits."""

    def __init__(self, with_body: Set[str], max_body: int, max_fields: int, limits: Limits) -> None:
        self.with_body = with_body
        self.max_body = max_body
        self.max_text = min(max_body, limits.memory)
        self.max_fields = max_fields
        self.limits = limits
        self.readers: dict[str, Callable[[FormsRequest, str | None, Parameters], Any]] = {
            "application/x-www-form-urlencoded": self._urlencoded,
            "multipart/form-data": self._multipart,
            "application/json": self._json,
            "text/json": self._json,
        }

    def read(self, request: FormsRequest) -> Mapping[str, Any]:
        """Return the form, and have the view called that it names."""
        request.form = NOTHING  # what an error view finds if the form cannot be read
        environ = request.environ
        form: dict[str, Any] = {}
        broken: list[str] = []
        view = None
        if query := environ.get("QUERY_STRING"):
            request.__dict__["QUERY_STRING"] = query  # keep, inside, does not see that it was read
            if query.count("&") >= self.max_fields:
                raise HTTPBadRequest(f"The query has more than {self.max_fields} fields.")
            form, view = _collected(request, fields_of(query, broken=broken))
        if environ["REQUEST_METHOD"] in self.with_body or request.announces_body:
            values, view_of_body = self._sent(request)
            form.update(values)
            view = view if view_of_body is None else view_of_body
            if broken:
                broken = [name for name in broken if name not in values]
        if view:
            check_name(view)
            request.view_name = view
        return BrokenForm(form, broken) if broken else MappingProxyType(form)

    def _sent(self, request: FormsRequest) -> tuple[dict[str, Any], str | None]:
        """Return the values of the body, and the view that it names."""
        environ = request.environ
        method = environ["REQUEST_METHOD"]
        kind, parameters = environ.get("CONTENT_TYPE") or "", NOTHING
        reader = self.readers.get(kind)
        if reader is None:
            kind, parameters = parse_options_header(kind)
            reader = self.readers.get(kind) or (self._json if kind.endswith("+json") else None)
        if reader is None:
            if next(self._blocks(request, self.max_body), b""):
                problem = f"A form is not sent as {kind or 'a body without a type'}, but as {_ACCEPTED}."
                raise HTTPUnsupportedMediaType(problem, headers=[(_ACCEPTS.get(method, "Accept"), _ACCEPTED)])
            return {}, None
        if method not in self.with_body and environ.get("CONTENT_LENGTH") in ("", "0"):
            return {}, None
        sent = reader(request, known_charset(parameters.get("charset")) if parameters else None, parameters)
        request._sent_fields = sent
        if isinstance(sent, dict):
            return sent, None
        values, view = _collected(request, sent)
        if view is not None and method not in self.with_body:
            raise HTTPBadRequest(f"A field may not name the view if the method is {method}.")
        return values, view

    def _urlencoded(self, request: FormsRequest, charset: str | None, parameters: Parameters) -> Fields:
        body = self._body(request).removeprefix(codecs.BOM_UTF8)
        if body.count(b"&") >= self.max_fields:
            raise HTTPRequestEntityTooLarge(f"The form has more than {self.max_fields} fields.")
        return fields_of(body.decode("latin-1"), charset)

    def _json(self, request: FormsRequest, charset: str | None, parameters: Parameters) -> dict[str, Any]:
        found = request.json
        if not isinstance(found, dict):
            raise HTTPBadRequest("The JSON is not an object.")
        if len(found) > self.max_fields:
            raise HTTPRequestEntityTooLarge(f"The JSON has more than {self.max_fields} members.")
        return found

    def json(self, request: FormsRequest) -> Any:
        """Return the value of a JSON body; an empty object for an empty body."""
        kind = request.environ.get("CONTENT_TYPE") or ""
        charset = (";" in kind and known_charset(parse_options_header(kind)[1].get("charset"))) or "utf-8"
        body = self._body(request)
        if not body:
            return {}
        try:
            text = decoded(body.removeprefix(codecs.BOM_UTF8), charset)
            found = _JSON.decode(text)
            request._exact_json = _EXACT_JSON.decode(text) if _LONG_NUMBER.search(text) else found
            if b"\\u" in body and b"\\ud" in body.lower():  # perhaps half a character, which nothing can encode
                json.dumps(found, ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            raise HTTPBadRequest("The body is not valid JSON.") from None
        if body.count(b"[") + body.count(b"{") > MAX_DEPTH and _is_deep(found):
            raise HTTPBadRequest(f"The JSON is nested more than {MAX_DEPTH} deep.")
        return found

    def _multipart(self, request: FormsRequest, charset: str | None, parameters: Parameters) -> Fields:
        boundary = parameters.get("boundary", "")
        if not boundary.isascii() or not boundary.isprintable() or len(boundary) > 200:
            raise HTTPBadRequest("The form cannot be read: its multipart boundary is not valid.")
        stream = request.environ["wsgi.input"]
        start = stream.tell() if hasattr(stream, "seekable") and stream.seekable() else None
        parts = read_multipart(self._blocks(request, self.max_body), boundary, self.limits, request.on_close)
        if start is None:
            request.environ["wsgi.input"] = SpentBody()
        else:  # so that inner elements and views can read it again
            stream.seek(start)
            request.environ.pop("webob._body_file", None)
        named = [part.text for part in parts if part.name == b"_charset_"]
        if charset is None and named:
            charset = known_charset(named[0].decode("latin-1"))
        used = charset or "utf-8"
        return [(decoded(part.name, used), _value(part, used)) for part in parts]

    def _body(self, request: FormsRequest) -> bytes:
        """Return the body, and have inner elements and views read it again from the start."""
        environ = request.environ
        body = b"".join(self._blocks(request, self.max_text))
        environ["wsgi.input"] = io.BytesIO(body)
        environ["CONTENT_LENGTH"] = str(len(body))
        environ["webob.is_body_seekable"] = True
        return body

    def _blocks(self, request: FormsRequest, limit: int) -> Iterator[bytes]:
        """Yield the body in blocks: at most ``limit`` bytes (413)."""
        environ = request.environ
        length = environ.get("CONTENT_LENGTH")
        left = int(length) if length else sys.maxsize if environ.get("wsgi.input_terminated") else 0
        if length and left > limit:
            raise _too_large(limit)
        coding = environ.get("HTTP_CONTENT_ENCODING")
        if coding and left and coding.strip(" \t").lower() not in ("", "identity"):
            problem = f"A form is not sent with the Content-Encoding {coding}, but as it is."
            raise HTTPUnsupportedMediaType(problem, headers=[("Accept-Encoding", "identity")])
        stream = environ["wsgi.input"]
        taken = 0
        while left and (block := stream.read(min(left, _BLOCK))):
            left -= len(block)
            taken += len(block)
            if taken > limit:
                raise _too_large(limit)
            yield block
        if length and left:  # R11
            raise TakenBody("The body of the request broke off.")


def _too_large(limit: int) -> HTTPRequestEntityTooLarge:
    return HTTPRequestEntityTooLarge(f"The body of a form has {limit} bytes at most.")


class BrokenForm(Mapping[str, Any]):
    """A form whose query has fields that are not UTF-8: a 400 for the view that reads one of them, or all."""

    def __init__(self, form: Mapping[str, Any], broken: Sequence[str]) -> None:
        self.form = form
        self.broken = frozenset(map(unquote, broken))

    def __getitem__(self, name: str) -> Any:
        return self._read(name in self.broken)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read(bool(self.broken)))

    def __len__(self) -> int:
        return len(self._read(bool(self.broken)))

    def _read(self, is_broken: bool) -> Mapping[str, Any]:
        if is_broken:
            self.form, self.broken = NOTHING, frozenset()  # what an error view finds
            raise HTTPBadRequest("The query or form is not utf-8.")
        return self.form


class SpentBody:
    """The input of a request whose multipart body was read, and cannot be read again: not an empty one (R11)."""

    def read(self, *size: int) -> NoReturn:
        raise RuntimeError(
            "forms has read the multipart body of this request, and the server's stream cannot go back. Take "
            "request.form, or put retry outside forms: it keeps the body"
        )

    readline = readlines = __iter__ = read


def _collected(request: FormsRequest, fields: Sequence[tuple[str, Any]]) -> tuple[dict[str, Any], str | None]:
    """Return the values by name, and the name of the view if a field has one. Names without a colon are plain."""
    for name, _ in fields:
        if ":" in name or not name:
            return collect(fields, _converters(request))
    return values_of(fields), None


def _converters(request: FormsRequest) -> Mapping[str, Converter]:
    """Return our converters, and those that the application has registered."""
    views = request.views
    if views is None or IFieldConverter not in views.adapted:
        return CONVERTERS
    named = views.registry.lookupAll((), IFieldConverter)
    return {**{name: convert for name, convert in named if name not in WORDS}, **CONVERTERS}


def _value(part: Part, charset: str) -> str | Upload:
    if part.file is None:
        return decoded(part.text, known_charset(part.charset) or charset)
    filename = part.filename if isinstance(part.filename, str) else decoded(part.filename or b"", charset)
    filename = "".join(char for char in filename if category(char) not in ("Cc", "Zl", "Zp"))
    filename = filename.replace("\\", "/").rpartition("/")[2]
    filename = "" if filename in (".", "..") else filename
    if not filename and not part.length:  # a browser sends this if no file was chosen
        return ""
    return Upload(filename, part.type, part.file, part.length)


def _is_deep(value: Any) -> bool:
    """Return whether a value from JSON is nested more than MAX_DEPTH deep. The time is linear (S12)."""
    level = [value]
    for _ in range(MAX_DEPTH):
        inner: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                inner += value.values()
            elif isinstance(value, list):
                inner += value
        level = inner
    return any(isinstance(value, (dict, list)) for value in level)


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"{number:.20} is not a number of JSON")
    return value


def _exact(number: str) -> float | Decimal:
    value, exact = _finite(number), Decimal(number)
    return value if Decimal(repr(value)) == exact else exact


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):  # readers differ in which value counts (RFC 8259 section 4)
        raise ValueError("a name stands twice in an object")
    return members


_JSON = json.JSONDecoder(parse_constant=_finite, parse_float=_finite, object_pairs_hook=_members)
_EXACT_JSON = json.JSONDecoder(parse_constant=_finite, parse_float=_exact, object_pairs_hook=_members)
_LONG_NUMBER = re.compile(r"[0-9.]{16}|[eE]-[0-9]{3}")
"""Texts with a number that a float may round. It has 15 digits of any number."""
