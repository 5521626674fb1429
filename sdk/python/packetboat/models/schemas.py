"""Schemas that bodies must fit."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec

SchemaType = Literal["json_schema", "avro"]
Compatibility = Literal["none", "backward", "forward", "full"]


class SchemaError(msgspec.Struct, frozen=True):
    """`field` is a JSON pointer."""

    field: str
    detail: str


class Schema(msgspec.Struct, frozen=True):
    """A schema with its latest version."""

    name: str
    type: str
    compatibility: str
    number: int
    definition: Any
    created_at: datetime
    updated_at: datetime
    etag: str | None = None
    """For `if_match`; None in a listing."""


class SchemaVersion(msgspec.Struct, frozen=True):
    """`definition` is left out in a listing."""

    number: int
    created_at: datetime
    definition: Any = None


class SchemaChecked(msgspec.Struct, frozen=True):
    """Whether a definition could be the next version."""

    compatible: bool
    compatibility: str
    number: int
    """Of the version it was compared with."""
    errors: tuple[SchemaError, ...] = ()


class SchemaValidated(msgspec.Struct, frozen=True):
    """Whether a body fits."""

    valid: bool
    number: int
    errors: tuple[SchemaError, ...] = ()


class SchemaSample(msgspec.Struct, frozen=True):
    """A stored message that does not fit."""

    message_id: str
    partition: int
    offset: int
    errors: tuple[SchemaError, ...] = ()


class SchemaPreviewed(msgspec.Struct, frozen=True):
    """How many of the newest messages fit."""

    messages: int
    valid: int
    samples: tuple[SchemaSample, ...] = ()
