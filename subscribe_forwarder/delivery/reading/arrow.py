"""Messages as an Arrow stream. The library is loaded by the first who asks for one.

A stream is its schema, then record batches, then an end, each an encapsulated message of Arrow's
IPC format. A column costs some nanoseconds a message: it is made by one call over a list, or of a
buffer; where no message has a value, of a column of nothing that was made before.
"""

from __future__ import annotations

import asyncio
import importlib
from array import array
from collections.abc import Sequence
from itertools import repeat
from typing import Any

from edge.message_id import ID_CHARS
from subscribe_forwarder.delivery.reading.parts import Picked
from subscribe_forwarder.delivery.reading.render import PartitionRenderer

_MAX_TIME_US = 2**63 - 1


async def load() -> Any:
    """Import Arrow outside of the event loop: that takes a good part of a second."""
    return await asyncio.to_thread(_load)


def _load() -> Any:
    pyarrow = importlib.import_module("pyarrow")
    # The first array looks for pandas, and imports it where it is installed.
    pyarrow.array([None])
    return pyarrow


class ArrowEncoder:
    """The parts of one stream: `head`, `part(…)` as often as wanted, `end`."""

    end = b"\xff\xff\xff\xff\x00\x00\x00\x00"

    def __init__(self, pyarrow: Any, renderer: PartitionRenderer, partition: int) -> None:
        self._pyarrow = pyarrow
        self._renderer = renderer
        self._partition = partition
        self._schema = _schema(pyarrow)
        self.head: bytes = self._schema.serialize().to_pybytes()
        self._constant: dict[str, Any] = {}
        """Columns with one value in all rows, the longest so far."""

    def part(self, picked: Sequence[Picked]) -> memoryview:
        """Return one record batch of at least one message."""
        messages = [message for each in picked for message in each.messages()]
        offsets = _offsets(picked)
        columns = {
            "message_id": self._ids(picked, offsets),
            "partition": self._same("partition", len(messages), self._partition),
            "offset": self._numbers("offset", offsets),
            "publish_time": self._numbers("publish_time", _times(picked)),
            "key": self._texts("key", [message.key for message in messages]),
            "attributes": self._attributes([message.attributes for message in messages]),
            "content_type": self._texts("content_type", [each.content_type for each in messages]),
            "data": self._array("data", [message.data for message in messages]),
            "publisher_id": self._texts("publisher_id", [each.publisher_id for each in messages]),
            "priority": self._priorities([message.priority for message in messages]),
            "traceparent": self._texts("traceparent", [each.traceparent for each in messages]),
        }
        arrays = [columns[name] for name in self._schema.names]
        batch = self._pyarrow.RecordBatch.from_arrays(arrays, schema=self._schema)
        return memoryview(batch.serialize())

    def _ids(self, picked: Sequence[Picked], offsets: array[int]) -> Any:
        if not all(batch.has_plain_ids for batch, _ in picked):
            ids = [
                batch.message_id(i, self._renderer) for batch, indices in picked for i in indices
            ]
            return self._array("message_id", ids)
        text, count = self._renderer.plain_ids(offsets), len(offsets)
        starts = array("i", range(0, len(text) + 1, ID_CHARS))
        buffers = [None, self._pyarrow.py_buffer(starts), self._pyarrow.py_buffer(text)]
        return self._pyarrow.Array.from_buffers(self._pyarrow.string(), count, buffers)

    def _texts(self, name: str, values: list[str | None]) -> Any:
        if values.count(None) == len(values):
            return self._same(name, len(values), None)
        return self._array(name, values)

    def _attributes(self, values: list[dict[str, str] | None]) -> Any:
        if any(values):
            return self._array("attributes", [each or {} for each in values])
        return self._same("attributes", len(values), {})

    def _priorities(self, values: list[int]) -> Any:
        if any(values):
            return self._array("priority", values)
        return self._same("priority", len(values), 0)

    def _same(self, name: str, count: int, value: object) -> Any:
        made = self._constant.get(name)
        if made is None or len(made) < count:
            made = self._constant[name] = self._array(name, [value] * count)
        return made.slice(0, count)

    def _numbers(self, name: str, values: array[int]) -> Any:
        buffers = [None, self._pyarrow.py_buffer(values)]
        kind = self._schema.field(name).type
        return self._pyarrow.Array.from_buffers(kind, len(values), buffers)

    def _array(self, name: str, values: list[Any]) -> Any:
        return self._pyarrow.array(values, self._schema.field(name).type)


def _offsets(picked: Sequence[Picked]) -> array[int]:
    offsets = array("q")
    for batch, indices in picked:
        base = batch.base
        if isinstance(indices, range):
            offsets.extend(range(base + indices.start, base + indices.stop))
        else:
            offsets.extend([base + index for index in indices])
    return offsets


def _times(picked: Sequence[Picked]) -> array[int]:
    times = array("q")
    for batch, indices in picked:
        times.extend(repeat(min(batch.log_time_us, _MAX_TIME_US), len(indices)))
    return times


def _schema(pyarrow: Any) -> Any:
    text = pyarrow.string()
    return pyarrow.schema(
        [
            pyarrow.field("message_id", text, nullable=False),
            pyarrow.field("partition", pyarrow.int32(), nullable=False),
            pyarrow.field("offset", pyarrow.int64(), nullable=False),
            pyarrow.field("publish_time", pyarrow.timestamp("us", "UTC"), nullable=False),
            pyarrow.field("key", text),
            pyarrow.field("attributes", pyarrow.map_(text, text), nullable=False),
            pyarrow.field("content_type", text),
            pyarrow.field("data", pyarrow.binary(), nullable=False),
            pyarrow.field("publisher_id", text),
            pyarrow.field("priority", pyarrow.int32(), nullable=False),
            pyarrow.field("traceparent", text),
        ]
    )
