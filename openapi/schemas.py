"""Schemas of message bodies."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta

from openapi.common import (
    CONFLICT,
    ETAG,
    FORBIDDEN_OR_FULL,
    IF_MATCH,
    STORAGE_FULL,
    TOO_MANY_CHANGES_OR_WORK,
    WORK_LIMITED,
    CreatedAt,
    MessageId,
    Name,
    NextPageToken,
    Offset,
    PartitionNumber,
    Positive,
    UpdatedAt,
    created,
)
from openapi.contract import Answer, Body, Operation, Success, no_content, ok, table

Type = Literal["json_schema", "avro"]
Compatibility = Literal["none", "backward", "forward", "full"]
Definition = dict[str, Any] | list[Any] | str | bool


class SchemaCreate(Body):
    """A request to create a schema."""

    name: Name
    """The name of the schema, unique in the tenant."""
    type: Type
    """The language of the definition."""
    definition: Definition
    """The definition as JSON, or its JSON text."""
    compatibility: Compatibility = "backward"
    """The rule for a new version. backward: it reads messages that were written with the last
    version. forward: the last version reads messages that are written with the new one."""


class Schema(Answer):
    """A schema, with its latest version."""

    DESCRIBED_BY = SchemaCreate

    name: str
    """The name of the schema."""
    type: Type
    compatibility: Compatibility
    number: Positive
    """The number of the latest version."""
    definition: Any
    """The definition of the latest version as JSON."""
    created_at: CreatedAt
    updated_at: UpdatedAt


class SchemaPage(Answer):
    """One page of schemas."""

    schemas: list[Schema]
    """The schemas of this page, by name."""
    next_page_token: NextPageToken


class SchemaPatch(Body):
    """A request to change a schema."""

    compatibility: Compatibility
    """The rule for later versions."""


class SchemaVersionListed(Answer):
    """A version in a listing."""

    number: Positive
    """The number of the version."""
    created_at: CreatedAt


class SchemaVersions(Answer):
    """The versions of a schema."""

    versions: list[SchemaVersionListed]
    """The versions of the schema, the latest first."""


class SchemaDefinition(Body):
    """A definition that becomes a version, or is compared with the latest one."""

    definition: Definition
    """The definition as JSON, or its JSON text."""


class SchemaNumber(Answer):
    """The number of a version."""

    number: Positive
    """The number of the version."""


class SchemaVersion(Answer):
    """A version of a schema."""

    number: Positive
    """The number of the version."""
    definition: Any
    """The definition as JSON."""
    created_at: CreatedAt


class SchemaError(Answer):
    """A place where a body or a definition does not fit."""

    field: str
    """A JSON pointer to the value."""
    detail: str
    """The rule that the value breaks, for people."""


class SchemaChecked(Answer):
    """The answer whether a definition could be the next version."""

    compatible: bool
    """Whether the definition could be the next version."""
    compatibility: Compatibility
    """The rule of the schema that the check follows."""
    number: Positive
    """The number of the version that the definition was compared with."""
    errors: list[SchemaError]
    """The places that do not fit; empty where it is compatible."""


class SchemaValidate(Body):
    """A body to check, given as either data or data_base64."""

    data: Any = UNSET
    """The body, as JSON."""
    data_base64: bytes | None = None
    """The body in base64, instead of `data`."""
    content_type: str | None = None
    """The media type of the body; null is JSON."""
    number: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None
    """The number of a version; without it, the body is checked against the latest."""


class SchemaValidated(Answer):
    """The answer whether a body fits a schema."""

    valid: bool
    """Whether the body fits."""
    number: Positive
    """The number of the version that the body was checked against."""
    errors: list[SchemaError]
    """The places that do not fit; empty where the body is valid."""


class SchemaPreview(Body):
    """A schema to preview: either the name of one, or a type and a definition."""

    schema: str | None = None
    """The name of a schema, whose latest version is tried; null where a definition is given."""
    type: Type | None = None
    """The language of the definition, which has to come with it."""
    definition: Definition | None = None
    """The definition as JSON, or its JSON text."""
    messages: Annotated[int, Meta(ge=1, le=1000)] = 100
    """The number of newest messages to look at, over all partitions."""


class SchemaSample(Answer):
    """A message that does not fit a schema."""

    message_id: MessageId
    partition: PartitionNumber
    offset: Offset
    errors: list[SchemaError]
    """The places where the body does not fit."""


class SchemaPreviewed(Answer):
    """The answer how many of the newest messages fit a schema."""

    messages: int
    """The number of messages that were looked at."""
    valid: int
    """The number of messages that fit."""
    samples: Annotated[list[SchemaSample], Meta(max_length=20)]
    """Examples of messages that do not fit."""


OPERATIONS = table(
    "schemas",
    Operation(
        id="listSchemas",
        route="GET /schemas",
        needs="read schema:?",
        summary="List schemas",
        paged=True,
        answers=(ok(SchemaPage, "One page, by name."),),
    ),
    Operation(
        id="createSchema",
        route="POST /schemas",
        needs="manage schema:?",
        summary="Create a schema",
        description="A definition may not refer to other documents, and may not contain itself.",
        body=SchemaCreate,
        answers=(created(Schema, "The schema, at version 1."),),
        problems=(
            FORBIDDEN_OR_FULL,
            CONFLICT,
            TOO_MANY_CHANGES_OR_WORK,
        ),
    ),
    Operation(
        id="getSchema",
        route="GET /schemas/{name}",
        needs="read schema:name",
        summary="Get a schema",
        answers=(ok(Schema, "The schema with its latest version.", ETAG),),
    ),
    Operation(
        id="changeSchema",
        route="PATCH /schemas/{name}",
        needs="manage schema:name",
        summary="Change the compatibility of a schema",
        parameters=(IF_MATCH,),
        body=SchemaPatch,
        answers=(ok(Schema, "The schema.", ETAG),),
    ),
    Operation(
        id="deleteSchema",
        route="DELETE /schemas/{name}",
        needs="manage schema:name",
        summary="Delete a schema",
        description="With all its versions; not while a topic uses it.",
        parameters=(IF_MATCH,),
        answers=(no_content("It is gone."),),
        problems=(CONFLICT,),
    ),
    Operation(
        id="listSchemaVersions",
        route="GET /schemas/{name}/versions",
        needs="read schema:name",
        summary="List its versions",
        answers=(ok(SchemaVersions, "The newest first."),),
    ),
    Operation(
        id="addSchemaVersion",
        route="POST /schemas/{name}/versions",
        needs="manage schema:name",
        summary="Add a version",
        description=(
            "Compared with the latest version as the schema's compatibility asks for; 422 "
            "names what would break."
        ),
        body=SchemaDefinition,
        answers=(
            ok(SchemaNumber, "The latest version has this definition already."),
            Success(201, "The number of the new version.", SchemaNumber),
        ),
        problems=(
            CONFLICT,
            TOO_MANY_CHANGES_OR_WORK,
        ),
    ),
    Operation(
        id="getSchemaVersion",
        route="GET /schemas/{name}/versions/{number}",
        needs="read schema:name",
        summary="Get a version",
        answers=(ok(SchemaVersion, "The version."),),
    ),
    Operation(
        id="checkSchema",
        route="POST /schemas/{name}:check",
        needs="read schema:name",
        summary="Try a definition",
        body=SchemaDefinition,
        answers=(ok(SchemaChecked, "Whether it could be the next version; nothing is kept."),),
        problems=(WORK_LIMITED,),
    ),
    Operation(
        id="validateBody",
        route="POST /schemas/{name}:validate",
        needs="read schema:name",
        summary="Try a body",
        body=SchemaValidate,
        answers=(ok(SchemaValidated, "Whether it fits; nothing is published."),),
        problems=(WORK_LIMITED,),
    ),
    Operation(
        id="previewSchema",
        route="POST /topics/{topic}:preview_schema",
        needs="read topic:topic",
        summary="Try a schema on a topic's newest messages",
        body=SchemaPreview,
        answers=(ok(SchemaPreviewed, "How many fit, and samples of those that do not."),),
        problems=(
            WORK_LIMITED,
            STORAGE_FULL,
        ),
    ),
)
