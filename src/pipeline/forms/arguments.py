"""Values of the form for the further parameters of a view.

A view ``(context, request, count: int, tags: list[str], note: str = "")`` is called with the fields of these
names, converted as the annotations say. The annotations are read once, when the view is registered:

=================================  ====================================================================
str                                text
int float bool date datetime       text of that form, or such a value from JSON or from a converter
list[X]                            a list of the values, also of a single one; empty without a field
dict, dict[str, Any]               a record, or an object from JSON
dict[str, X]                       the same, with such values
Upload                             a file
Literal["a", "b"]                  one of these texts
X | Y, X | None                    the first that fits; None if the field is missing
a model, Enum, UUID, Annotated...  what a scanned library makes, see ``pipeline.forms.models``; a model of an object
                                   gets the whole body or query
another class                      what the ``IFieldConverter`` of the application makes whose ``__call__``
                                   returns that class
Any, object, none                  the value as it is
=================================  ====================================================================

If a field is missing, its parameter gets its default. An empty field counts as missing, unless an empty text is a
value, as of ``str``: a browser sends it for an input that was left empty. A missing field without a default, and a
value that does not fit, are a 400 (FieldError).
"""

from __future__ import annotations

import inspect
import math
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pipeline.forms.converters import CONVERTERS, Converter, FieldError, IFieldConverter
from pipeline.forms.inputs import Shape, shapes_of
from pipeline.forms.models import BodyError, Model, ModelError, Place, model_of, rules_in
from pipeline.forms.upload import Upload
from pipeline.interfaces import ViewError
from pipeline.views import Views, named

Convert = Callable[[Any], Any]

_EMPTY = inspect.Parameter.empty
_UNCHECKED = (
    "has the rule {!r:.200}, which no scanned library checks. The option scan names pipeline.publishing.pydantic "
    "for those of pydantic and annotated_types, and pipeline.publishing.msgspec for its own"
)
_TAKES = "a view takes context, request, response if it needs it, and then fields of a form"
_READERS: dict[Any, Converter] = {one: CONVERTERS[one.__name__] for one in (int, float, bool, date, datetime)}
_NOUNS = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    Upload: "a file",
    type(None): "empty",
}


class Argument(NamedTuple):
    """A parameter that is filled from the form."""

    name: str
    annotation: Any
    convert: Callable[..., Any]
    """Returns the value for a field, or if ``is_whole``, for the two forms that ``of`` takes."""
    default: Any
    takes_empty: bool = False
    """True if an empty text is a value. False if it counts as missing."""
    takes_nothing: bool = False
    """True if a missing field is an empty list: a browser sends nothing for boxes of which none is ticked."""
    is_whole: bool = False
    """True if it is made of the whole form."""
    has_decimals: bool = False
    """True if a library makes a Decimal of it, which needs all digits of a number of JSON."""

    @property
    def is_required(self) -> bool:
        """True if a request without the field is refused (400)."""
        return self.default is _EMPTY and not self.takes_nothing

    def of(self, form: Mapping[str, Any], exact: Mapping[str, Any] | None) -> Any:
        """Return the value. A form of JSON is also given with a Decimal for each number that a float rounds."""
        if self.is_whole:
            return self.convert(form, exact)
        value = (form if exact is None or not self.has_decimals else exact).get(self.name, _EMPTY)
        if value is _EMPTY or (value == "" and not self.takes_empty):
            if self.default is not _EMPTY:
                return self.default
            if self.takes_nothing:
                return self.convert([])
            raise FieldError(self.name, None, "it is missing")
        try:
            return self.convert(value)
        except ModelError as error:
            raise ModelError([((self.name, *place), rule) for place, rule in error.errors]) from None
        except ValueError as error:
            raise FieldError(self.name, value, str(error)) from None


class FormArguments:
    """Fills parameters with the fields of ``request.form``. See ``pipeline.views.Fill``."""

    reads = "form"

    def __init__(self, arguments: tuple[Argument, ...]) -> None:
        self.arguments = arguments
        self.names = [argument.name for argument in arguments]
        files = [one for one in arguments if one.annotation is Upload or get_args(one.annotation) == (Upload,)]
        self.never_of_query = [one.name for one in files if one.default is _EMPTY]

    def __call__(self, request: Any) -> dict[str, Any]:
        form = request.form
        is_json = isinstance(getattr(request, "_sent_fields", ()), dict)
        exact = {**form, **request._exact_json} if is_json else None
        try:
            return {argument.name: argument.of(form, exact) for argument in self.arguments}
        except ModelError:
            raise BodyError(self.errors_in(form, exact)) from None

    def errors_in(self, *forms: Any) -> Iterator[tuple[Place, str]]:
        """Yield all that is wrong with the fields."""
        for argument in self.arguments:
            try:
                argument.of(*forms)
            except ModelError as error:
                yield from error.errors
            except FieldError as error:
                yield (argument.name,), error.rule


def arguments_of(function: Callable[..., Any], leading: int, views: Views) -> FormArguments:
    """Return the function that fills the parameters of ``function`` behind the ``leading`` ones.

    Raises ViewError if a parameter cannot be passed by name, or if no field of a form fits its annotation.
    """
    parameters = list(inspect.signature(function).parameters.values())[leading:]
    code = inspect.unwrap(function)
    names = getattr(code if hasattr(code, "__globals__") else code.__call__, "__globals__", {})
    return FormArguments(
        tuple(
            _argument(parameter, names, function, views)
            for parameter in parameters
            if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        )
    )


def _argument(parameter: inspect.Parameter, names: dict[str, Any], function: Any, views: Views) -> Argument:
    where = f"{named(function)}: parameter {parameter.name!r}"
    if parameter.name in ("context", "request", "response"):
        raise ViewError(f"{where} stands too late; {_TAKES}")
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise ViewError(f"{where} comes from the form and is passed by name, which '/' forbids")
    annotation = _annotation_of(parameter, names, where)
    default = parameter.default
    if hasattr(default, "default") and not isinstance(default, type):  # the field of a library
        raise ViewError(f"{where} would be {default!r:.200}. Write Annotated[..., it], and the value behind '='")
    choices = choices_in(annotation)
    takes_empty = any(choice in (str, Any, object, _EMPTY) or "" in get_args(choice) for choice in choices)
    plain = annotation.__origin__ if get_origin(annotation) is Annotated else annotation
    model: Model | None = None
    try:
        convert = _converter(annotation, views.utilities(IFieldConverter))
    except TypeError as error:
        model = model_of(annotation, views)
        if model is None:
            rules = [rule for _, rule in rules_in(annotation)]
            why = _UNCHECKED.format(rules[0]) if rules else f"comes from the form, and {error}. ({_TAKES}.)"
            raise ViewError(f"{where} {why}") from None
        if model.is_object:
            return Argument(parameter.name, annotation, _reading_whole(model), default, is_whole=True)
        several = [get_origin(one) in (list, Sequence, set, frozenset, tuple) for one in choices_in(plain)]
        shape, read = shapes_of(model)[0].get("", Shape(False, {})), model.read
        as_it_is = lambda value: read(shape.of(value))  # noqa: E731
        convert = _first([_list_of(as_it_is) if one else as_it_is for one in dict.fromkeys(several)])
        takes_empty = not any(several) and _takes(read, "")
    if default is _EMPTY and type(None) in choices:
        default = None
    takes_nothing = _is_list(plain) and _takes(convert, [])
    exact = model is not None and model.has_decimals
    return Argument(parameter.name, annotation, convert, default, takes_empty, takes_nothing, has_decimals=exact)


def _annotation_of(parameter: inspect.Parameter, names: dict[str, Any], where: str) -> Any:
    """Return the annotation of a parameter, without text beside it."""
    annotation = parameter.annotation
    if isinstance(annotation, str):
        holder = types.SimpleNamespace(__annotations__={"it": annotation})
        try:
            annotation = typing.get_type_hints(holder, names, include_extras=True)["it"]
        except Exception as error:
            raise ViewError(f"{where}: its annotation {annotation!r} cannot be read: {error}") from error
    has_text_alone = get_origin(annotation) is Annotated and not any(rules_in(annotation))
    return annotation.__origin__ if has_text_alone else annotation


def _reading_whole(model: Model) -> Callable[..., Any]:
    """Return a function that reads a model of a form. Texts are read as those of other parameters: a list may have
    one value, and an empty text that the model refuses counts as missing. JSON is judged as it is."""
    shapes, lists = shapes_of(model)

    def read_texts(texts: dict[str, Any]) -> Any:
        try:
            return model.read({**{name: [] for name in lists}, **texts})
        except ModelError as error:
            told = {str(place[0]) for place, _ in error.errors if place}
            if not (empty := {name for name in told & shapes.keys() if texts.get(name) == ""}):
                raise
        return read_texts({name: text for name, text in texts.items() if name not in empty})

    def read(form: Mapping[str, Any], exact: Mapping[str, Any] | None) -> Any:
        if exact is not None:
            return model.read(exact if model.has_decimals else dict(form))
        return read_texts({name: shapes[name].of(sent) if name in shapes else sent for name, sent in form.items()})

    return read


def _takes(read: Convert, value: Any) -> bool:
    with suppress(Exception):  # a validator of the site may raise anything
        read(value)
        return True
    return False


def _is_list(annotation: Any) -> bool:
    return annotation in (list, Sequence) or get_origin(annotation) in (list, Sequence)


def choices_in(annotation: Any) -> tuple[Any, ...]:
    """Return the annotations of which a value has one: those of ``X | Y``, or else the annotation itself."""
    return get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)


def _converter(annotation: Any, own: Sequence[Converter]) -> Convert:
    """Return a function that converts a value of the form to that type, or raises ValueError. Raise TypeError if
    forms cannot have values of that type.

    own  converters of the application
    """
    origin, inner = get_origin(annotation), get_args(annotation)
    if annotation in (_EMPTY, Any, object):
        return lambda value: value
    if annotation in _READERS:
        return _reading(annotation)
    if annotation in (str, Upload, type(None)):
        return _being(annotation)
    if len(choices := choices_in(annotation)) > 1:
        return _first([_converter(choice, own) for choice in choices])
    if origin is Literal and all(isinstance(choice, str) for choice in inner):
        return _one_of(inner)
    if _is_list(annotation):
        item = _converter(inner[0] if inner else Any, own)
        return _list_of(lambda values: [item(value) for value in values])
    if annotation in (dict, Mapping) or origin in (dict, Mapping):
        key, member = inner or (str, Any)
        if key not in (str, Any):
            raise TypeError("the names in a record are text, so its annotation is dict[str, ...]")
        return _being(dict) if member in (Any, object) else _members(_converter(member, own))
    found = [convert for convert in own if isinstance(annotation, type) and _made_by(convert) is annotation]
    if len(found) == 1:
        return _making(annotation, found[0])
    name = getattr(annotation, "__name__", annotation)
    if found:
        classes = " and ".join(type(convert).__qualname__ for convert in found)
        raise TypeError(f"two converters make a {name}: {classes}. Let one of them return another class")
    raise TypeError(
        f"no converter makes a {name} of a field. Register one, a class whose __call__(text) returns {name}, by "
        f"@utility(IFieldConverter, name=...)"
    )


def _made_by(convert: Any) -> Any:
    """Return the class that a converter of the application makes, by the annotation of its ``__call__``."""
    call = convert if inspect.isroutine(convert) else type(convert).__call__
    try:
        return typing.get_type_hints(call).get("return")
    except Exception:  # such as a name that only type checkers import
        return None


def _being(wanted: type) -> Convert:
    noun = _NOUNS.get(wanted, "a record")

    def being(value: Any) -> Any:
        if not isinstance(value, wanted):
            raise ValueError(f"it is not {noun}")
        return value

    return being


def _reading(wanted: type) -> Convert:
    read = _READERS[wanted]
    noun = _NOUNS.get(wanted, f"a {wanted.__name__}")

    def reading(value: Any) -> Any:
        if isinstance(value, str):
            return read(value)
        if wanted is float and type(value) is int and -(2**53) <= value <= 2**53:
            return float(value)
        if type(value) is not wanted or value in (math.inf, -math.inf):
            raise ValueError(f"it is not {noun}")
        return value

    return reading


def _making(wanted: type, convert: Converter) -> Convert:
    """Return a function for a class that a converter of the application makes."""

    def making(value: Any) -> Any:
        if isinstance(value, wanted):  # the name of the field has the word of the converter
            return value
        if not isinstance(value, (str, int, float)) or isinstance(value, bool):
            raise ValueError("it is neither text nor a number")
        return convert(str(value))

    return making


def _first(converters: list[Convert]) -> Convert:
    first, *others = converters

    def first_that_fits(value: Any) -> Any:
        try:
            return first(value)
        except ValueError:
            for convert in others:
                with suppress(ValueError):
                    return convert(value)
            raise

    return first_that_fits


def _one_of(choices: tuple[Any, ...]) -> Convert:
    def one_of(value: Any) -> Any:
        if value not in choices:
            raise ValueError(f"it is not one of {', '.join(map(str, choices))}")
        return value

    return one_of


def _list_of(convert: Convert) -> Convert:
    """Return a function of all values of a field, which gets a single one as a list, too. A null is not a value."""

    def list_of(value: Any) -> Any:
        if value is None:
            raise ValueError("it is not a list")
        return convert(value if isinstance(value, (list, tuple)) else [value])

    return list_of


def _members(convert: Convert) -> Convert:
    record = _being(dict)
    return lambda value: {name: convert(member) for name, member in record(value).items()}
