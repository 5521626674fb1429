"""What the schema operations take and show."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from edge.problem import FieldError, Problem, invalid
from gateway.names import name_errors
from metadata.topics.schemas import Schema, SchemaVersion
from publish_forwarder.schemas.definition import is_json
from publish_forwarder.schemas.limits import BadDefinition

Kind = Literal["json_schema", "avro"]
Compatibility = Literal["none", "backward", "forward", "full"]
Given = dict[str, Any] | list[Any] | str | bool
"""A definition as JSON, or its JSON text."""


class SchemaCreate(msgspec.Struct, forbid_unknown_fields=True):
    """What `POST /schemas` takes."""

    name: str
    type: Kind
    definition: Given
    compatibility: Compatibility = "backward"

    def check(self) -> None:
        """Raises a 422 Problem."""
        errors = name_errors(self.name)
        if errors:
            raise invalid("The body does not fit.", errors)


class SchemaPatch(msgspec.Struct, forbid_unknown_fields=True):
    """What `PATCH /schemas/{name}` takes."""

    compatibility: Compatibility


class DefinitionBody(msgspec.Struct, forbid_unknown_fields=True):
    """What adding and checking a version take."""

    definition: Given


class ValidateBody(msgspec.Struct, forbid_unknown_fields=True):
    """What `POST /schemas/{name}:validate` takes: a body as a publisher would send it."""

    data: Any = msgspec.UNSET
    data_base64: bytes | None = None
    content_type: str | None = None
    number: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)] | None = None

    def body(self) -> tuple[bytes, str]:
        """And its content type. Raises a 422 Problem."""
        content_type = self.content_type or "application/json"
        if (self.data is msgspec.UNSET) == (self.data_base64 is None):
            detail = "give either data or data_base64"
            raise invalid("The body does not fit.", [FieldError("data", detail)])
        if self.data_base64 is not None:
            return self.data_base64, content_type
        if is_json(content_type):
            return msgspec.json.encode(self.data), content_type
        if not isinstance(self.data, str):
            detail = "must be a string where content_type is not JSON"
            raise invalid("The body does not fit.", [FieldError("data", detail)])
        return self.data.encode("utf-8", "replace"), content_type


class PreviewBody(msgspec.Struct, forbid_unknown_fields=True):
    """What `POST /topics/{topic}:preview_schema` takes: a schema by name, or a new definition."""

    schema: str | None = None
    type: Kind | None = None
    definition: Given | None = None
    messages: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 100

    def check(self) -> None:
        """Raises a 422 Problem."""
        if (self.schema is None) == (self.definition is None):
            detail = "give either schema or definition"
            raise invalid("The body does not fit.", [FieldError("schema", detail)])
        if (self.type is None) != (self.definition is None):
            detail = "goes with a definition"
            raise invalid("The body does not fit.", [FieldError("type", detail)])


def text_of(definition: Given) -> str:
    """Of a definition given as JSON, its text; what is a string is the text."""
    return definition if isinstance(definition, str) else msgspec.json.encode(definition).decode()


def view(schema: Schema) -> dict[str, Any]:
    """A schema as the API shows it, with its latest version."""
    return {
        "name": schema.name,
        "type": schema.type,
        "compatibility": schema.compatibility,
        "number": schema.number,
        "definition": msgspec.Raw(schema.definition.encode()),
        "created_at": schema.created_at,
        "updated_at": schema.updated_at,
    }


def version_view(version: SchemaVersion) -> dict[str, Any]:
    return {
        "number": version.number,
        "definition": msgspec.Raw(version.definition.encode()),
        "created_at": version.created_at,
    }


def bad_definition(error: BadDefinition) -> Problem:
    return Problem(
        422,
        "invalid-definition",
        "The definition is not valid",
        "The definition is wrong or beyond the limits; errors name the places by JSON pointer.",
        errors=[error._replace(field=f"definition{error.field}") for error in error.errors],
    )
