"""Read the forms of this site, from a browser or from a client that speaks JSON, and check their tokens.

The element ``forms`` has parsed the form, within limits. Here each field is text. If a field was sent repeatedly,
the first one counts.
"""

from __future__ import annotations

from collections.abc import Callable

from webob.exc import HTTPBadRequest, HTTPUnsupportedMediaType

from pipeline.forms.upload import Upload
from pipeline_demo.names import BadText
from pipeline_demo.request import FormRequest
from pipeline_demo.tokens import FIELD, Expired, check_token

MAX_UPLOAD = 100 * 1024 * 1024
"""Upper limit of the bytes of a file, and of a whole form unless ``forms`` has another limit."""
KINDS = ("multipart/form-data", "application/x-www-form-urlencoded", "application/json")


class Problems(dict[str, str]):
    """The problems of a form: a sentence by the name of the field; "" stands for the form as a whole."""

    status = 422

    def check(self, field: str, clean: Callable[[str], str], value: str) -> str:
        """Return the cleaned value, or the value as it was typed, and note its problem."""
        try:
            return clean(value)
        except BadText as error:
            self[field] = str(error)
            return value

    def conflict(self, field: str, sentence: str) -> None:
        self[field] = sentence
        self.status = 409


class Form:
    """The fields of a form that is known to come from this site, and its ``problems`` so far."""

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
        """Add a value under a name. Raise a 400 for JSON that is not the value of a field."""
        if isinstance(value, list):
            for one in value:
                self.take(name, one)
        elif isinstance(value, Upload):
            self.uploads.append(value)
        elif isinstance(value, (str, int)) and not isinstance(value, bool):
            self.fields.setdefault(name, str(value))
        else:
            raise HTTPBadRequest(f"The field {name!r} is neither text nor a whole number.")


def read_form(request: FormRequest) -> Form:
    """Return the form of this request. Raise a 415 for another type of body, and a 403 without a valid token."""
    is_other = request.content_length and request.content_type.lower() not in KINDS
    if is_other or not hasattr(request, "form"):  # such as XML, in the pipeline for calls
        raise HTTPUnsupportedMediaType("Send a form as multipart/form-data, urlencoded, or JSON.")
    form = Form()
    for name, value in request.form.items():
        form.take(name, value)
    try:
        check_token(request, form.fields.pop(FIELD, None))
    except Expired:
        form.problems[""] = "This form was open for too long. Nothing is lost: please send it once more."
    return form
