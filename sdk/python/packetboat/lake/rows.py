"""Rows of an export's table as messages.

The columns of the envelope come first; those behind it are the members of the body, but for
`rescued`, the whole body of a message with a value that does not fit its column, and `reason`,
which the table of rejects has. A column whose name is not the member's has the member's in its doc.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, NestedField, StructType

from packetboat.lake.read_message import ReadMessage

ENVELOPE = (
    *("topic", "message_id", "partition", "lane", "offset", "publish_time", "key", "attributes"),
    *("content_type", "publisher_id", "priority", "traceparent", "data"),
)
_NOT_OF_BODIES = frozenset({*ENVELOPE, "rescued", "reason"})


class Rows:
    """The rows of tables with one schema."""

    def __init__(self, schema: Schema) -> None:
        self._members = tuple(
            _Member(field) for field in schema.fields if field.name not in _NOT_OF_BODIES
        )

    def message(self, row: Mapping[str, Any]) -> ReadMessage:
        """Return the message of a row as Arrow gives it: its map is a list of pairs."""
        data = row["data"]
        if data is None and row.get("rescued") is not None:
            data = row["rescued"].encode("utf-8")
        return ReadMessage(
            topic=row["topic"],
            partition=row["partition"],
            lane=row["lane"],
            offset=row["offset"],
            message_id=row["message_id"],
            publish_time=row["publish_time"],
            key=row["key"],
            attributes=dict(row["attributes"] or ()),
            content_type=row["content_type"],
            publisher_id=row["publisher_id"],
            priority=row["priority"],
            source="lake",
            data=data,
            columns=_object(self._members, row) if data is None else None,
        )


class _Member:
    """A member of an object: its column, and the conversion of its value."""

    def __init__(self, field: NestedField) -> None:
        self.name = field.doc or field.name
        self.column = field.name
        self._value = _Value(field.field_type)

    def value(self, value: Any) -> Any:
        return self._value.of(value)


class _Value:
    def __init__(self, kind: IcebergType) -> None:
        self._members: tuple[_Member, ...] | None = None
        self._element: _Value | None = None
        if isinstance(kind, StructType):
            self._members = tuple(map(_Member, kind.fields))
        elif isinstance(kind, ListType):
            self._element = _Value(kind.element_type)

    def of(self, value: Any) -> Any:
        if value is None:
            return None
        if self._members is not None:
            return _object(self._members, value)
        return value if self._element is None else [self._element.of(each) for each in value]


def _object(members: tuple[_Member, ...], row: Mapping[str, Any]) -> dict[str, Any]:
    """A table does not tell a member that is null from one that is not there."""
    found = ((member.name, member.value(row[member.column])) for member in members)
    return {name: value for name, value in found if value is not None}
