# Generated from openapi/: `make generate`. Do not edit.
"""Schemas that message bodies must fit."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec

SchemaType = Literal["json_schema", "avro"]
Compatibility = Literal["none", "backward", "forward", "full"]


class SchemaError(msgspec.Struct, frozen=True):
    """A place where a body or a definition does not fit."""

    field: str
    """A JSON pointer to the value."""
    detail: str


class Schema(msgspec.Struct, frozen=True):
    """A schema, with its latest version."""

    name: str
    type: str
    compatibility: str
    number: int
    """The number of the latest version."""
    definition: Any
    """The definition of the latest version as JSON."""
    created_at: datetime
    updated_at: datetime
    etag: str | None = None
    """For `if_match`; None in a listing."""


class SchemaVersion(msgspec.Struct, frozen=True):
    """A version of a schema."""

    number: int
    created_at: datetime
    definition: Any = None
    """The definition as JSON."""


class SchemaChecked(msgspec.Struct, frozen=True):
    """The answer whether a definition could be the next version."""

    compatible: bool
    compatibility: str
    number: int
    """The number of the version that the definition was compared with."""
    errors: tuple[SchemaError, ...] = ()


class SchemaValidated(msgspec.Struct, frozen=True):
    """The answer whether a body fits a schema."""

    valid: bool
    number: int
    errors: tuple[SchemaError, ...] = ()


class SchemaSample(msgspec.Struct, frozen=True):
    """A message that does not fit a schema."""

    message_id: str
    partition: int
    offset: int
    errors: tuple[SchemaError, ...] = ()


class SchemaPreviewed(msgspec.Struct, frozen=True):
    """The answer how many of the newest messages fit a schema."""

    messages: int
    valid: int
    samples: tuple[SchemaSample, ...] = ()
