"""Holds stored batches that all subscriptions of a partition share, within one budget of bytes."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from edge.message_id import ID_CHARS
from store_nodes import record_batch
from store_nodes.client import Entry
from store_nodes.record_batch import ORIGIN_STAGE_ID, Message
from subscribe_forwarder import metrics
from subscribe_forwarder.delivery.reading.judgement import ORIGIN_ONLY, Judgement, Turn
from subscribe_forwarder.delivery.reading.render import PartitionRenderer, time_json
from subscribe_forwarder.delivery.state.order import hash_of

if TYPE_CHECKING:
    from subscribe_forwarder.delivery.reading.tail import Tail
    from subscribe_forwarder.delivery.selection.selection import Selection

CHUNKS = 16
_MESSAGE_OVERHEAD_BYTES = 600
_MAX_JUDGEMENTS = 64


class Batch:
    """One stored batch: raw until a message of it is needed."""

    __slots__ = (
        "_fragments",
        "_generation",
        "_ids",
        "_indices",
        "_judgements",
        "_key_hashes",
        "_messages",
        "_publish_time",
        "_raw",
        "_shown",
        "_sizes",
        "_stage",
        "attribute_index",
        "base",
        "chunk_end",
        "cost_bytes",
        "end",
        "evaluated",
        "expires",
        "has_plain_ids",
        "log_time_us",
        "partition",
        "targeted",
    )

    def __init__(self, entry: Entry, generation: int = 0, partition: int = 0) -> None:
        """Hold the raw bytes of a batch; its messages are decoded when one is needed."""
        self._raw: bytes | memoryview = entry.batch
        self._indices = entry.indices
        self._stage = entry.stage
        self._generation = generation
        count = record_batch.peek(entry.batch)[0] if entry.indices is None else len(entry.indices)
        self.base = entry.base_offset
        self.end = entry.base_offset + count
        self.chunk_end = self.end
        self.log_time_us = entry.log_time_us
        self.cost_bytes = 2 * len(entry.batch) + _MESSAGE_OVERHEAD_BYTES * count
        self.expires = False
        """Whether a message of it has a time to live; known once decoded."""
        self.targeted = False
        """Whether a message of it is for one subscription only; known once decoded."""
        self.has_plain_ids = entry.stage is None
        """Whether all its ids are those of their offsets; known once decoded."""
        self._messages: list[Message] | None = None
        self._key_hashes: list[int | None] | None = None
        self._shown: list[Message] | None = None
        self._sizes: list[int] | None = None
        self._judgements: dict[tuple[Selection | None, bytes], Judgement] = {}
        self._fragments: list[bytes | None] = []
        self._publish_time = b""
        self._ids = b""
        self.partition = partition
        self.evaluated: dict[tuple[str, int], tuple[bool, str | None]] = {}
        """Whether an expression is true for the message of an index, and why it could not be
        evaluated: of those that were evaluated in a worker process."""
        self.attribute_index: dict[str, dict[str, list[int]]] = {}
        """The messages that have an attribute, by its name and value; filters make it."""

    @property
    def mean_bytes(self) -> float:
        """The mean size of its messages, estimated."""
        return (self.cost_bytes / max(1, self.end - self.base) - _MESSAGE_OVERHEAD_BYTES) / 2

    def messages(self) -> list[Message]:
        """Return the messages, decoded once; index 0 is the message at `base`. Raises BadBatch."""
        if self._messages is None:
            messages = record_batch.decode(self._raw)
            if self._indices is not None:
                messages = [messages[index] for index in self._indices]
            self._messages = messages
            self.expires = any([message.ttl_ms for message in messages])
            origins = [message.origin for message in messages if message.origin is not None]
            self.targeted = any(ORIGIN_ONLY in origin for origin in origins)
            if any(ORIGIN_STAGE_ID in origin for origin in origins):
                self.has_plain_ids = False
            self._fragments = [None] * len(messages)
            self._raw = b""
        return self._messages

    def shown(self) -> list[Message]:
        """Return the messages as consumers may see them; made once.

        The idempotency key is between the publisher and the store, and the origin is in attributes.
        """
        if self._shown is None:
            messages = self.messages()
            if any([one.idempotency_key or one.origin for one in messages]):
                messages = [replace(one, idempotency_key=None, origin=None) for one in messages]
            self._shown = messages
        return self._shown

    def sizes(self) -> Sequence[int]:
        """Return the bytes of data before each message, and at last those of all; summed once."""
        if self._sizes is None:
            lengths = [len(message.data) for message in self.messages()]
            self._sizes = list(accumulate(lengths, initial=0))
        return self._sizes

    def expires_us(self, index: int) -> int:
        """Return the end of the message's time to live; 0 without one."""
        message = self.messages()[index]
        if not message.ttl_ms:
            return 0
        return max(self.log_time_us, message.deliver_at_us) + message.ttl_ms * 1000

    def expired(self, index: int, now_us: int) -> bool:
        return 0 < self.expires_us(index) <= now_us

    def key_hashes(self) -> list[int | None]:
        """Return the hash of each message's key; computed once."""
        if self._key_hashes is None:
            keys = [message.key for message in self.messages()]
            self._key_hashes = [None if key is None else hash_of(key) for key in keys]
        return self._key_hashes

    def judge(
        self,
        selection: Selection | None,
        subscription_uid: bytes,
        index: int,
        turn: Turn,
        upto: int | None = None,
    ) -> Judgement | None:
        """Return the part of it from `index` on that the subscription is given, as far as the turn
        goes.

        The part ends at `upto` at the latest, if given, and is kept for each selection. None means
        everything.
        """
        if selection is None and not self.targeted:
            return None
        key = selection, subscription_uid if self.targeted else b""
        known = self._judgements.get(key)
        if known is None or not known.first <= index <= known.upto:
            if known is None and len(self._judgements) >= _MAX_JUDGEMENTS:
                self._judgements.clear()
            only = subscription_uid.hex() if self.targeted else None
            known = self._judgements[key] = Judgement(self, selection, only, index)
        known.go_on(turn, upto)
        return known

    def fragment(self, index: int, renderer: PartitionRenderer) -> bytes:
        """Return the JSON that all deliveries of a message share, rendered once."""
        return self.fragments(index, index + 1, renderer)[0]

    def fragments(self, low: int, high: int, renderer: PartitionRenderer) -> list[bytes]:
        """Return the JSON that all deliveries of the messages [low, high) share, rendered once."""
        messages, rendered = self.messages(), self._fragments
        if None in rendered[low:high]:
            if not self._publish_time:
                self._publish_time = time_json(self.log_time_us)
            ids = self.message_ids(renderer, low, high)
            for at, index in enumerate(range(low, high)):
                if rendered[index] is None:
                    rendered[index] = renderer.fragment(
                        messages[index],
                        self.base + index,
                        self._publish_time,
                        ids[at * ID_CHARS : (at + 1) * ID_CHARS],
                    )
        return rendered[low:high]  # type: ignore[return-value]

    def message_id(self, index: int, renderer: PartitionRenderer) -> bytes:
        """Return the id that the fragment has."""
        return self.message_ids(renderer, index, index + 1)

    def message_ids(self, renderer: PartitionRenderer, low: int, high: int) -> bytes:
        """Return the ids of the messages [low, high), one after the other; made once for all."""
        if not self._ids:
            self.messages()
            if self.has_plain_ids:
                self._ids = renderer.plain_ids(array("q", range(self.base, self.end)))
            else:
                self._ids = b"".join(
                    self._staged_id(index, renderer) or renderer.plain_id(self.base + index)
                    for index in range(self.end - self.base)
                )
        return self._ids[low * ID_CHARS : high * ID_CHARS]

    def _staged_id(self, index: int, renderer: PartitionRenderer) -> bytes | None:
        """Return the id of a message that was staged; None if the id is that of the offset."""
        offset = self.base + index
        if self._stage is not None:
            number = self._stage + (index if self._indices is None else self._indices[index])
            return renderer.staged(self._generation, number, offset)
        origin = self.messages()[index].origin
        return None if origin is None else renderer.forwarded(origin, offset)


class BatchRange(NamedTuple):
    """Messages of one batch that follow one another: from the index `low` on, `high` excluded."""

    batch: Batch
    low: int
    high: int

    @property
    def offsets(self) -> range:
        """The offsets of the messages."""
        return range(self.batch.base + self.low, self.batch.base + self.high)

    @property
    def size_bytes(self) -> int:
        """The size of the messages' data."""
        sizes = self.batch.sizes()
        return sizes[self.high] - sizes[self.low]


def add_range(ranges: list[BatchRange], batch: Batch, low: int, high: int) -> None:
    """Add messages to ranges, as part of the last range if they follow it."""
    if ranges and ranges[-1].batch is batch and ranges[-1].high == low:
        ranges[-1] = BatchRange(batch, ranges[-1].low, high)
    else:
        ranges.append(BatchRange(batch, low, high))


class CacheBudget:
    """Bounds the batches of all tails together; the least recently used leaves first."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self.chunk_bytes = limit_bytes // CHUNKS
        """The bytes that one fetch may take: small messages cost far more here than on the wire."""
        self._batches: OrderedDict[tuple[int, int], tuple[Tail, Batch]] = OrderedDict()
        self.used_bytes = 0

    def add(self, tail: Tail, batch: Batch) -> None:
        """Count a cached batch, and drop the least recently used ones above the limit."""
        self._batches[id(tail), batch.base] = tail, batch
        self.used_bytes += batch.cost_bytes
        while self.used_bytes > self._limit_bytes and len(self._batches) > 1:
            _, (of, oldest) = self._batches.popitem(last=False)
            self.used_bytes -= oldest.cost_bytes
            of.forget(oldest)
        metrics.cache_bytes.set(self.used_bytes)

    def touch(self, tail: Tail, batch: Batch) -> None:
        """Note a use of a batch."""
        self._batches.move_to_end((id(tail), batch.base))

    def remove(self, tail: Tail, batch: Batch) -> None:
        del self._batches[id(tail), batch.base]
        self.used_bytes -= batch.cost_bytes
