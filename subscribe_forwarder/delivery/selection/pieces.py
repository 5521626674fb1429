"""The number of messages that are judged in one go, by the cost of their expressions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from store_nodes.record_batch import Message
from subscribe_forwarder.delivery.reading.batch import Batch
from subscribe_forwarder.delivery.selection.rule import Rule

PIECE_BYTES = 64 * 1024
PIECE_NS = 10e6
DEAR_NS = 25e6
"""The event loop does not evaluate a message that costs more (worker_evaluator.py)."""


MAX_TOGETHER = 50
"""Pieces that a worker process judges in one call: half a second of its time at most."""
TOGETHER_BYTES = 1024 * 1024


class Piece(NamedTuple):
    """The messages of a batch with the indices `low` … `high` − 1."""

    batch: Batch
    low: int
    high: int


class Pieces:
    """A piece has at most `PIECE_BYTES` and may cost at most `PIECE_NS`; a message at least.

    The cost of a message grows faster than its size, so a straight line between none and
    `PIECE_BYTES` is above it for all sizes between."""

    __slots__ = ("_base_ns", "_slope_ns", "looks_at_data", "rules")

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = rules
        self.looks_at_data = any(rule.looks_at_data for rule in rules)
        self._base_ns = sum(rule.ns(0) for rule in rules)
        self._slope_ns = sum(rule.ns(PIECE_BYTES) - rule.ns(0) for rule in rules) / PIECE_BYTES

    def end(self, messages: Sequence[Message], low: int, most: int) -> int:
        """Return the end of the piece that begins at `low`; at most `most`."""
        left_bytes, left_ns = PIECE_BYTES, PIECE_NS
        for index in range(low, most):
            size = self._size_bytes(messages[index])
            left_bytes -= size
            left_ns -= self._base_ns + size * self._slope_ns
            if left_bytes < 0 or left_ns < 0:
                return max(low + 1, index)
        return most

    def dear(self, message: Message) -> bool:
        """Return whether judging this one message may take longer than the event loop has
        for it.
        """
        size = self._size_bytes(message)
        if self._base_ns + size * self._slope_ns <= DEAR_NS and size <= PIECE_BYTES:
            return False
        return sum(rule.ns(size) for rule in self.rules) > DEAR_NS

    def _size_bytes(self, message: Message) -> int:
        """Return the number of bytes that the expressions may look at."""
        size = len(message.key or "") + (len(message.data) if self.looks_at_data else 0)
        if message.attributes:
            size += sum(map(len, message.attributes)) + sum(map(len, message.attributes.values()))
        return size

    def of(self, batch: Batch, low: int, high: int) -> Iterator[tuple[int, int]]:
        """Yield all pieces of the messages with the indices `low` … `high` − 1."""
        messages = batch.messages()
        while low < high:
            end = self.end(messages, low, high)
            yield low, end
            low = end

    def groups(self, runs: Iterable[tuple[Batch, int, int]]) -> Iterator[list[Piece]]:
        """Yield all pieces of the runs, as many together as a worker judges in one call.

        A message that costs more is alone.
        """
        group: list[Piece] = []
        left_bytes = TOGETHER_BYTES
        for batch, low, high in runs:
            for piece in self.of(batch, low, high):
                one = Piece(batch, *piece)
                size = sum(map(self._size_bytes, batch.messages()[one.low : one.high]))
                left_bytes -= size
                dear = self.dear(batch.messages()[one.low])
                if group and (dear or left_bytes < 0 or len(group) == MAX_TOGETHER):
                    yield group
                    group, left_bytes = [], TOGETHER_BYTES - size
                group.append(one)
                if dear:
                    left_bytes = -1
        if group:
            yield group
