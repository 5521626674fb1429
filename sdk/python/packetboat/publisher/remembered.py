"""Batches whose messages may be stored: who publishes one of those again, under the key that its
error names, sends the very same batch again.

The key is of this client alone. The server knows the batch by its name, and no message in it; a
message that is to be known from elsewhere needs an idempotency key of its own.
"""

from __future__ import annotations

from packetboat.publisher.batch import PRODUCER, SEQUENCE, Batch
from packetboat.publisher.pending import OF_A_BATCH, Pending


class Remembered:
    """Up to `max_bytes` of batches; the oldest are forgotten."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._batches: dict[str, Batch] = {}
        self._size_bytes = 0

    def keep(self, batch: Batch) -> None:
        """Keep a batch of which some messages may be stored, and whose publishers were told so."""
        name = f"{batch.name[PRODUCER]}:{batch.name[SEQUENCE]}"
        if name in self._batches:
            return
        self._batches[name] = batch
        self._size_bytes += batch.size_bytes
        while self._size_bytes > self._max_bytes and len(self._batches) > 1:
            oldest = self._batches.pop(next(iter(self._batches)))
            self._size_bytes -= oldest.size_bytes

    def place_of(self, topic: str, message: Pending) -> tuple[Batch, int]:
        """Return the batch and index of the message that this one repeats. Raises ValueError."""
        found = OF_A_BATCH.fullmatch(message.repeats or "")
        assert found is not None
        batch, index = self._batches.get(found[1]), int(found[2])
        if batch is None or index >= len(batch.messages):
            raise ValueError(
                f"idempotency_key {message.repeats!r} is good at the client whose error named it,"
                " and for a while; messages with keys of their own may be published again anywhere"
            )
        known = batch.messages[index]
        if (batch.topic, known.encoded) != (topic, message.encoded):
            raise ValueError(f"idempotency_key {message.repeats!r} is of another message")
        if not known.settled:
            raise ValueError(f"idempotency_key {message.repeats!r} is being published")
        return batch, index
