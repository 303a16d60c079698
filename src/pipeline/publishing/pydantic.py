"""Models of pydantic: ``scan = pipeline.publishing.pydantic``. Needs the extra ``pydantic``.

A parameter of a view may be a ``BaseModel``, a dataclass, a ``TypedDict``, an ``Enum``, ``UUID``, ``Decimal``, a
time or a set, or have constraints (``Annotated[int, Field(gt=0)]``). A view may return a model, and a list or a
dict with models in it.
"""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import Any

from pydantic import BaseModel, PydanticSchemaGenerationError, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python
from typing_extensions import is_typeddict

from pipeline.forms.models import IModels, Model, ModelError, ignores_rules
from pipeline.interfaces import IResult
from pipeline.publishing.json import encoders, sent
from pipeline.views import adapter, utility

encoders["pydantic"] = to_jsonable_python


@utility(IModels, name="pydantic")
class Pydantic:
    """The models of pydantic."""

    def model_of(self, annotation: Any) -> Model | None:
        """Return the model of an annotation, or None if pydantic has no schema for it."""
        try:
            adapted = TypeAdapter(annotation)
        except PydanticSchemaGenerationError:
            return None
        if ignores_rules(annotation, FieldInfo, lambda one: TypeAdapter(one).core_schema):
            return None

        def read(value: Any) -> Any:
            try:
                return adapted.validate_python(value)
            except ValidationError as error:
                found = error.errors(include_url=False, include_context=False, include_input=False)
                raise ModelError([(one["loc"], one["msg"]) for one in found]) from None

        def schema() -> dict[str, Any]:
            return adapted.json_schema(ref_template="#/components/schemas/{model}")

        is_model = isinstance(annotation, type) and issubclass(annotation, BaseModel)
        is_object = is_model or is_dataclass(annotation) or is_typeddict(annotation)
        return Model(read, is_object, schema, "'decimal'" in str(adapted.core_schema))


@adapter(BaseModel, IResult)
def model_result(value: BaseModel) -> Any:
    """Return the result that sends a model as a JSON object."""
    return sent(value)
