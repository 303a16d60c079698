"""What a browser's form or a client's JSON sends, read within limits and checked for its token.

Both arrive as text fields by name; files come only by ``multipart/form-data``. A body that is too
large is a 413, one of another type a 415, one that cannot be read a 400 (S15).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import parse_qsl

from multipart import MultipartError, MultipartParser, ParserLimitReached, parse_options_header
from webob.exc import HTTPBadRequest, HTTPRequestEntityTooLarge, HTTPUnsupportedMediaType

from pipeline import Request
from pipeline.demo.names import BadText
from pipeline.demo.tokens import FIELD, Expired, check_token

MAX_FIELDS = 200
MAX_TEXT = 4 * 1024 * 1024
"""Bytes of a body without files, and of all text in one with files."""
MAX_UPLOAD = 100 * 1024 * 1024
"""Bytes of a body with files."""
MAX_QUERY = 4096
"""Bytes of a query."""


class Upload(NamedTuple):
    filename: str
    stream: BinaryIO


class Problems(dict[str, str]):
    """What is wrong with a form: a sentence by the name of the field; "" is the form as a whole."""

    status = 422

    def check(self, field: str, clean: Callable[[str], str], value: str) -> str:
        """The value cleaned, or as it was typed with a problem noted."""
        try:
            return clean(value)
        except BadText as error:
            self[field] = str(error)
            return value

    def conflict(self, field: str, sentence: str) -> None:
        self[field] = sentence
        self.status = 409


class Form:
    """The fields of a form that may be trusted to come from this site, and its ``problems`` so far."""

    def __init__(self) -> None:
        self.fields: dict[str, str] = {}
        self.uploads: list[Upload] = []
        self.problems = Problems()

    def get(self, name: str, default: str = "") -> str:
        return self.fields.get(name, default)

    def number(self, name: str) -> int | None:
        text = self.get(name)
        return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def read_form(request: Request) -> Form:
    """The form that this request sends. Raises the HTTP errors above, and 403 for want of a token."""
    form = Form()
    kind = request.content_type
    limit = MAX_UPLOAD if kind == "multipart/form-data" else MAX_TEXT
    if (request.content_length or 0) > limit:
        raise too_large(limit)
    try:
        if kind == "multipart/form-data":
            _read_multipart(form, request)
        elif kind == "application/x-www-form-urlencoded":
            form.fields.update(parse_query(_body(request), MAX_FIELDS))
        elif kind == "application/json":
            _read_json(form, _body(request))
        elif request.content_length:
            raise HTTPUnsupportedMediaType("A form is sent as multipart/form-data, urlencoded, or as JSON.")
    except ParserLimitReached as error:
        raise HTTPRequestEntityTooLarge(f"This is too large: {error}.") from error
    except (MultipartError, UnicodeError) as error:
        raise HTTPBadRequest(f"The form cannot be read: {error}.") from error
    try:
        check_token(request, form.fields.pop(FIELD, None))
    except Expired:
        form.problems[""] = "This form was open for too long. Nothing is lost: please send it once more."
    return form


def too_large(limit: int) -> HTTPRequestEntityTooLarge:
    return HTTPRequestEntityTooLarge(f"This is too large: {limit // 1024 // 1024} MiB are taken at most.")


def parse_query(query: bytes, max_fields: int = 20) -> dict[str, str]:
    """Fields of a query or urlencoded body: the first of each name, separated by ``&`` alone (S19)."""
    try:
        pairs = parse_qsl(query.decode(), keep_blank_values=True, errors="strict", max_num_fields=max_fields)
    except ValueError as error:  # UnicodeDecodeError is one
        raise HTTPBadRequest("The query or form is not UTF-8, or has too many fields.") from error
    return dict(reversed(pairs))


def query_of(request: Request) -> dict[str, str]:
    """The fields of the query of the address."""
    query: str = request.environ.get("QUERY_STRING", "")
    if len(query) > MAX_QUERY:
        raise HTTPBadRequest(f"The query has more than {MAX_QUERY} bytes.")
    return parse_query(query.encode("latin-1"))


def _body(request: Request) -> bytes:
    body: bytes = request.body_file.read(MAX_TEXT + 1)
    if len(body) > MAX_TEXT:
        raise too_large(MAX_TEXT)
    return body


def _read_json(form: Form, body: bytes) -> None:
    try:
        fields: Any = json.loads(body.decode())
    except (ValueError, RecursionError) as error:
        raise HTTPBadRequest("The body is no JSON.") from error
    if not isinstance(fields, dict):
        raise HTTPBadRequest("The JSON is no object.")
    for name, value in fields.items():
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            raise HTTPBadRequest(f"The field {name!r} is neither text nor a whole number.")
        form.fields[name] = str(value)


def _read_multipart(form: Form, request: Request) -> None:
    options = parse_options_header(request.environ.get("CONTENT_TYPE", ""))[1]
    parser = MultipartParser(
        request.body_file,
        options.get("boundary", ""),
        part_limit=MAX_FIELDS,
        spool_limit=MAX_TEXT,
        memory_limit=2 * MAX_TEXT,
        disk_limit=MAX_UPLOAD,
    )
    for part in parser:
        request.on_close(part.close)
        if part.filename is None:
            if not part.is_buffered():
                raise HTTPRequestEntityTooLarge(f"The field {part.name!r} is too large.")
            form.fields.setdefault(part.name, part.raw.decode())
        elif part.filename or part.size:  # a browser sends an empty one where no file was chosen
            form.uploads.append(Upload(part.filename, part.file))
