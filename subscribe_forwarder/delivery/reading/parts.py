"""The parts of a stream: messages sent together, small batches joined, large ones cut."""

from __future__ import annotations

from collections.abc import Sequence
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


class Part:
    """Gathers messages that are sent together: at most `PART_MESSAGES`, about `PART_BYTES`, and
    one message at least.
    """

    __slots__ = ("_left", "_left_bytes", "picked")

    def __init__(self, most: int | None = None, most_bytes: float = PART_BYTES) -> None:
        self._left = most or PART_MESSAGES
        self._left_bytes = most_bytes
        self.picked: list[Picked] = []

    def room(self, batch: Batch) -> int:
        """Return how many messages of the batch fit."""
        fit = max(0, min(self._left, int(self._left_bytes / max(1.0, batch.mean_bytes))))
        return fit if self.picked else max(1, fit)

    def add(self, picked: Picked) -> None:
        """Add messages for which there is room, in the order in which they are to be sent."""
        batch, indices = picked
        if indices:
            self.picked.append(picked)
            self._left -= len(indices)
            self._left_bytes -= max(1.0, batch.mean_bytes) * len(indices)
