"""Bodies by the Avro schema of their topic, in any of its versions."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any

AVRO_TYPES = frozenset({"avro/binary", "application/avro", "application/vnd.apache.avro+binary"})
VERSION_ATTRIBUTE = "packetboat-schema-version"
Fetch = Callable[[int], Any]


class AvroSchemas:
    """The versions of one schema. A message says which one it is written with; where it does not,
    it is taken for the latest."""

    def __init__(self, latest: int, definition: Any, fetch: Fetch) -> None:
        """`fetch` gives the definition of another version."""
        from fastavro import parse_schema

        self._latest = latest
        self._parsed: dict[int, Any] = {latest: parse_schema(definition)}
        self._fetch = fetch

    def decoded(self, data: bytes, content_type: str, attributes: Mapping[str, str]) -> object:
        """Return the decoded value; None if the data is no value of the schema."""
        text = attributes.get(VERSION_ATTRIBUTE, "")
        schema = self._schema(int(text) if text.isdecimal() else self._latest)
        try:
            if content_type in AVRO_TYPES:
                return _binary(schema, data)
            return _json(schema, data)
        except Exception:  # fastavro has no error of its own: what a body makes it raise is many
            return None

    def _schema(self, number: int) -> Any:
        if number not in self._parsed:
            from fastavro import parse_schema

            self._parsed[number] = parse_schema(self._fetch(number))
        return self._parsed[number]


def _binary(schema: Any, data: bytes) -> object:
    from fastavro import schemaless_reader

    body = io.BytesIO(data)
    value: object = schemaless_reader(body, schema, None)
    return value if body.tell() == len(data) else None


def _json(schema: Any, data: bytes) -> object:
    from fastavro import json_reader

    return next(iter(json_reader(io.StringIO(data.decode("utf-8")), schema)), None)
