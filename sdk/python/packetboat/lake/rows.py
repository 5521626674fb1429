"""Rows of an export's table as messages.

The columns of the envelope come first; those behind it are the fields of the body, but for
`rescued`, the whole body of a message with a value that does not fit its column, and `reason`,
which the table of rejects has. A field named as one of these has `body_` before its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from packetboat.lake.read_message import ReadMessage

ENVELOPE = (
    *("topic", "message_id", "partition", "lane", "offset", "publish_time", "key", "attributes"),
    *("content_type", "publisher_id", "priority", "traceparent", "data"),
)
_OURS = frozenset({*ENVELOPE, "rescued", "reason"})
_PREFIX = "body_"


def of_row(row: Mapping[str, Any]) -> ReadMessage:
    """The message of a row, whose map is a list of pairs, as Arrow gives it."""
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
        columns=_fields(row) if data is None else None,
    )


def _fields(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        _field_name(name): _without_nulls(value)
        for name, value in row.items()
        if value is not None and name not in _OURS
    }


def _field_name(column: str) -> str:
    name = column.removeprefix(_PREFIX)
    return name if name.lower() in _OURS else column


def _without_nulls(value: Any) -> Any:
    """A table cannot tell a member that is null from one that is not there."""
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value
