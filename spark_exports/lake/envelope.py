"""The columns that every table begins with."""

from __future__ import annotations

import pyarrow as pa

ENVELOPE = pa.schema(
    [
        ("topic", pa.string()),
        ("message_id", pa.string()),
        ("partition", pa.int32()),
        ("lane", pa.int32()),
        ("offset", pa.int64()),
        ("publish_time", pa.timestamp("us", tz="UTC")),
        ("key", pa.string()),
        ("attributes", pa.map_(pa.string(), pa.string())),
        ("content_type", pa.string()),
        ("publisher_id", pa.string()),
        ("priority", pa.int32()),
        ("traceparent", pa.string()),
        ("data", pa.binary()),
    ]
)
RESCUED = "rescued"
"""The whole body (string) of a message with a value that does not fit its column."""

ORDER = ("topic", "partition", "lane", "offset")
"""Columns that identify a row, in the order in which compaction sorts."""
