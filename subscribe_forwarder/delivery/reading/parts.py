"""Messages that are sent together: small batches joined, large ones cut."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from store_nodes.record_batch import Message
from subscribe_forwarder.delivery.reading.batch import Batch

PART_MESSAGES = 2048
PART_BYTES = 1024 * 1024
"""The size of the bodies of a part, about.

Either limit is a millisecond or two of work, so the fixed cost of a part is small beside it.
"""


class Picked(NamedTuple):
    """Messages of one batch, at least one: those with these indices, which ascend."""

    batch: Batch
    indices: Sequence[int]

    def messages(self) -> list[Message]:
        all_ = self.batch.messages()
        if isinstance(self.indices, range):
            return all_[self.indices.start : self.indices.stop]
        return [all_[index] for index in self.indices]


class Parts:
    """Gathers what was picked; a part has at most `PART_MESSAGES`, and one message at least."""

    def __init__(self, most: int | None = None, most_bytes: float = PART_BYTES) -> None:
        self._most = most or PART_MESSAGES
        self._most_bytes = most_bytes
        self._gathered: list[Picked] = []
        self._count = 0
        self._bytes = 0.0

    def add(self, picked: Picked) -> Iterator[list[Picked]]:
        """Yield the parts that this message fills."""
        batch, indices = picked
        mean_bytes = max(1.0, batch.mean_bytes)
        while indices:
            room = min(self._most - self._count, int((self._most_bytes - self._bytes) / mean_bytes))
            taken = indices[: max(room, 0 if self._gathered else 1)]
            if taken:
                self._gathered.append(Picked(batch, taken))
                self._count += len(taken)
                self._bytes += mean_bytes * len(taken)
                indices = indices[len(taken) :]
            if indices or self._count >= self._most:
                yield self.rest()

    def rest(self) -> list[Picked]:
        """Return the messages since the last part, in the order in which they were added."""
        gathered, self._gathered = self._gathered, []
        self._count, self._bytes = 0, 0.0
        return gathered
