"""Estimates sizes of messages, and cuts messages into batches. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from store_nodes.record_batch import MAX_BATCH_MESSAGES, Message

MESSAGE_OVERHEAD_BYTES = 160
"""Bytes added to a message's texts: more than its encoding adds, and about its cost in memory."""
CHUNK_BYTES = 1024 * 1024
E = TypeVar("E")


def message_bytes(message: Message) -> int:
    """Return an upper bound of the encoded size of a message, without encoding it."""
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
    """Yield the entries in order, in batches of at most `CHUNK_BYTES` and `MAX_BATCH_MESSAGES`.

    An entry that is larger than `CHUNK_BYTES` is a batch of its own.
    """
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
    """Return the size in UTF-8: exact for ASCII, else an upper bound."""
    return len(text) if text.isascii() else 4 * len(text)
