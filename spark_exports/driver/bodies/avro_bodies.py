"""Avro bodies as values, by the schema of their topic in the version that they were written with.

A message may name its version; its binary form does not. If no version is named, versions are tried
in an order that stays the same whatever is added later: from the latest one at the time of publish
back to the first, then those that came after. So a body that could be read once is always read in
that way.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
from fastavro import json_reader, parse_schema, schemaless_reader

from spark_exports.driver.bodies.media import is_json
from spark_exports.driver.bodies.values import Undecodable

VERSION_ATTRIBUTE = "packetboat-schema-version"
TYPES = frozenset({"avro/binary", "application/avro", "application/vnd.apache.avro+binary"})


class AvroVersion(msgspec.Struct, frozen=True):
    """A version of a schema; `definition` is JSON."""

    number: int
    created_at: datetime
    definition: str


class AvroBodies:
    """A reader of the Avro bodies of one topic."""

    def __init__(self, versions: Sequence[AvroVersion]) -> None:
        """Make a reader of versions, at least one, in the order of their numbers."""
        self._versions = {version.number: version for version in versions}
        self._parsed: dict[int, Any] = {}

    def value(
        self, body: bytes, content_type: str, attributes: Mapping[str, str], published: datetime
    ) -> Any:
        """Return a body as a value of `values`, with Python's types for logical types.

        Raises Undecodable.
        """
        for number in self._candidates(attributes.get(VERSION_ATTRIBUTE), published):
            try:
                read = _from_json if is_json(content_type) and content_type else _from_binary
                return _plain(read(body, self._schema(number)))
            except Exception:
                # fastavro has no error of its own; a malformed body makes it raise any exception.
                continue
        raise Undecodable("not-avro")

    def _candidates(self, named: str | None, published: datetime) -> Iterator[int]:
        if named is not None:
            if named.isdecimal() and int(named) in self._versions:
                yield int(named)
            return
        later = []
        for number, version in sorted(self._versions.items(), reverse=True):
            if version.created_at <= published:
                yield number
            else:
                later.append(number)
        yield from reversed(later)

    def _schema(self, number: int) -> Any:
        if number not in self._parsed:
            definition = msgspec.json.decode(self._versions[number].definition)
            self._parsed[number] = parse_schema(definition, named_schemas={})
        return self._parsed[number]


def _from_binary(body: bytes, schema: Any) -> Any:
    stream = io.BytesIO(body)
    value = schemaless_reader(stream, schema, None)
    if stream.tell() < len(body):
        raise Undecodable("not-avro")
    return value


def _from_json(body: bytes, schema: Any) -> Any:
    (value,) = json_reader(io.StringIO(body.decode()), schema)
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, UUID | time):
        return str(value)
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, str | int | float | bytes | date | Decimal) or value is None:
        return value
    return str(value)


def as_text(value: Any) -> str:
    """Return a value as JSON for people; bytes are base64."""
    return msgspec.json.encode(value).decode()
