"""How large messages are, and how many go together. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from store_nodes.record_batch import MAX_BATCH_MESSAGES, Message

MESSAGE_OVERHEAD_BYTES = 160
"""More than the encoding of a message adds to its texts, and about what it costs in memory."""
CHUNK_BYTES = 1024 * 1024
E = TypeVar("E")


def message_bytes(message: Message) -> int:
    """An upper bound of the encoded size, without encoding."""
    size = MESSAGE_OVERHEAD_BYTES + len(message.data)
    texts = (message.key, message.content_type, message.publisher_id, message.idempotency_key)
    for text in (*texts, message.traceparent, message.tracestate):
        if text is not None:
            size += _utf8_bytes(text)
    if message.attributes is not None:
        for name, value in message.attributes.items():
            size += _utf8_bytes(name) + _utf8_bytes(value) + 8
    return size


def chunks(entries: Iterable[E], message_of: Callable[[E], Message]) -> Iterator[list[E]]:
    """Of at most `CHUNK_BYTES` and `MAX_BATCH_MESSAGES`, in order; what is larger alone goes
    alone."""
    chunk: list[E] = []
    total_bytes = 0
    for entry in entries:
        size_bytes = message_bytes(message_of(entry))
        if chunk and (len(chunk) >= MAX_BATCH_MESSAGES or total_bytes + size_bytes > CHUNK_BYTES):
            yield chunk
            chunk, total_bytes = [], 0
        chunk.append(entry)
        total_bytes += size_bytes
    if chunk:
        yield chunk


def _utf8_bytes(text: str) -> int:
    """Exact for ASCII, else an upper bound."""
    return len(text) if text.isascii() else 4 * len(text)
