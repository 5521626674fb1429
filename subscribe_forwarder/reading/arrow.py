"""Messages as an Arrow stream. The library is loaded by the first who asks for one."""

from __future__ import annotations

import asyncio
import importlib
import io
from collections.abc import Sequence
from typing import Any

from subscribe_forwarder.reading.batch import Batch
from subscribe_forwarder.reading.render import PartitionRenderer

_MAX_TIME_US = 2**63 - 1
Picked = tuple[Batch, int]
"""A message: its batch, and its index there."""


async def load() -> Any:
    """Apart from the loop: it takes a good part of a second."""
    return await asyncio.to_thread(importlib.import_module, "pyarrow")


class ArrowStream:
    """The bytes of one stream, as its parts are made: `take` gives what is there so far."""

    def __init__(self, pyarrow: Any, renderer: PartitionRenderer, partition: int) -> None:
        self._pyarrow = pyarrow
        self._renderer = renderer
        self._partition = partition
        self._schema = _schema(pyarrow)
        self._sink = _Sink()
        self._writer = pyarrow.ipc.new_stream(
            pyarrow.PythonFile(self._sink, mode="w"), self._schema
        )

    def add(self, picked: Sequence[Picked]) -> None:
        """One record batch; without messages, none."""
        if picked:
            columns = self._columns(picked)
            arrays = [
                self._pyarrow.array(columns[field.name], field.type) for field in self._schema
            ]
            batch = self._pyarrow.RecordBatch.from_arrays(arrays, schema=self._schema)
            self._writer.write_batch(batch)

    def end(self) -> None:
        self._writer.close()

    def take(self) -> bytes:
        return self._sink.take()

    def _columns(self, picked: Sequence[Picked]) -> dict[str, list[Any]]:
        messages = [batch.messages()[index] for batch, index in picked]
        return {
            "message_id": [
                batch.message_id(index, self._renderer).decode("ascii") for batch, index in picked
            ],
            "partition": [self._partition] * len(picked),
            "offset": [batch.base + index for batch, index in picked],
            "publish_time": [min(batch.log_time_us, _MAX_TIME_US) for batch, _ in picked],
            "key": [message.key for message in messages],
            "attributes": [list((message.attributes or {}).items()) for message in messages],
            "content_type": [message.content_type for message in messages],
            "data": [message.data for message in messages],
            "publisher_id": [message.publisher_id for message in messages],
            "priority": [message.priority for message in messages],
            "traceparent": [message.traceparent for message in messages],
        }


class _Sink(io.RawIOBase):
    """A file that is written to and taken from."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, part: Any) -> int:
        self._parts.append(bytes(part))
        return len(part)

    def take(self) -> bytes:
        taken = b"".join(self._parts)
        self._parts.clear()
        return taken


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
