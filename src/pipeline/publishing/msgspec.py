"""Models of msgspec: ``scan = pipeline.publishing.msgspec``. Needs the extra ``msgspec``.

A parameter of a view may be a ``Struct``, a dataclass, a class of attrs, a ``TypedDict``, an ``Enum``, ``UUID``,
``Decimal``, a time or a set, or have constraints (``Annotated[int, Meta(gt=0)]``). A view may return a ``Struct``,
and a list or a dict with models in it.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec.inspect import CustomType, DataclassType, StructType, TypedDictType, type_info

from pipeline.forms.models import IModels, Model, ModelError, Place, ignores_rules
from pipeline.interfaces import IResult
from pipeline.publishing.json import encoders, sent
from pipeline.views import adapter, utility

_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")

encoders["msgspec"] = msgspec.to_builtins


@utility(IModels, name="msgspec")
class Msgspec:
    """The models of msgspec."""

    def model_of(self, annotation: Any) -> Model | None:
        """Return the model of an annotation, or None if msgspec knows no such type."""
        try:
            info = type_info(annotation)
        except TypeError:
            return None
        if isinstance(info, CustomType) or ignores_rules(annotation, msgspec.Meta, type_info):
            return None

        def read(value: Any) -> Any:
            try:
                return msgspec.convert(value, annotation, strict=False)
            except msgspec.ValidationError as error:
                rule, _, path = str(error).partition(" - at `$")
                raise ModelError([(place_of(path.rstrip("`")), rule)]) from None

        def schema() -> dict[str, Any]:
            template = "#/components/schemas/{name}"
            (found,), parts = msgspec.json.schema_components([annotation], ref_template=template)
            whole = {**found, "$defs": parts}
            return msgspec.to_builtins(whole)  # type: ignore[no-any-return]  # a default may be a set

        is_object = isinstance(info, StructType | DataclassType | TypedDictType)
        return Model(read, is_object, schema, "DecimalType" in repr(info))


def place_of(path: str) -> Place:
    """Return the place that an error names, such as ``.people[0].name``."""
    return tuple(int(number) if number else name for name, number in _STEP.findall(path))


@adapter(msgspec.Struct, IResult)
def struct_result(value: msgspec.Struct) -> Any:
    """Return the result that sends a model as a JSON object."""
    return sent(value)
