"""Messages that a handler publishes together with its ack: both happen, or neither."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from packetboat.codec import encode_data
from packetboat.models import Data

MAX_OUTPUTS = 100
MAX_OUTPUT_BYTES = 10 * 1024 * 1024


class Emit(msgspec.Struct, frozen=True):
    """A message to publish to `topic` when the handler's own message is acked."""

    topic: str
    data: Data
    key: str | None = None
    attributes: Mapping[str, str] | None = None
    content_type: str | None = None
    priority: int = 0
    ttl_seconds: float | None = None
    traceparent: str | None = None
    tracestate: str | None = None


def check_outputs(outputs: Sequence[Any]) -> tuple[Emit, ...]:
    """Raises TypeError, or ValueError where it is more than one ack may publish."""
    for output in outputs:
        if not isinstance(output, Emit):
            raise TypeError(f"a stream task emits Emit(topic, data), not {type(output).__name__}")
    if len(outputs) > MAX_OUTPUTS:
        raise ValueError(f"{len(outputs)} outputs: an ack publishes {MAX_OUTPUTS} at most")
    size_bytes = sum(len(encode_data(each.data, each.content_type)[0]) for each in outputs)
    if size_bytes > MAX_OUTPUT_BYTES:
        raise ValueError(f"{size_bytes} bytes of output: an ack publishes {MAX_OUTPUT_BYTES}")
    return tuple(outputs)
