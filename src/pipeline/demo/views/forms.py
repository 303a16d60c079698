"""What a form of this site sends, of a browser or of a client that speaks JSON, checked for its token.

The element ``forms`` has read it, within limits, and refused what cannot be read. Here a field is text, and
of one that was sent repeatedly the first counts.
"""

from __future__ import annotations

from collections.abc import Callable

from webob.exc import HTTPBadRequest, HTTPUnsupportedMediaType

from pipeline.demo.names import BadText
from pipeline.demo.request import DemoRequest
from pipeline.demo.tokens import FIELD, Expired, check_token
from pipeline.forms.upload import Upload

MAX_UPLOAD = 100 * 1024 * 1024
"""Bytes of a file. Of all that is sent together it is the limit, too, unless ``forms`` is given another."""
KINDS = ("multipart/form-data", "application/x-www-form-urlencoded", "application/json")


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

    def take(self, name: str, value: object) -> None:
        """Add what was sent under a name; 400 if it is JSON that no field of ours is."""
        if isinstance(value, list):
            for one in value:
                self.take(name, one)
        elif isinstance(value, Upload):
            self.uploads.append(value)
        elif isinstance(value, (str, int)) and not isinstance(value, bool):
            self.fields.setdefault(name, str(value))
        else:
            raise HTTPBadRequest(f"The field {name!r} is neither text nor a whole number.")


def read_form(request: DemoRequest) -> Form:
    """The form that this request sends. 415 if it sends something else, 403 for want of a token."""
    if request.content_length and request.content_type.lower() not in KINDS:
        raise HTTPUnsupportedMediaType("A form is sent as multipart/form-data, urlencoded, or as JSON.")
    form = Form()
    for name, value in request.form.items():
        form.take(name, value)
    try:
        check_token(request, form.fields.pop(FIELD, None))
    except Expired:
        form.problems[""] = "This form was open for too long. Nothing is lost: please send it once more."
    return form
