"""Defines the outcomes of accepted messages, and the receipts that report them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from edge.problem import FieldError, Problem
from publish_forwarder.receipts import ReceiptWriter
from store_nodes.errors import Known
from store_nodes.queue_id import QueueId


class StoredRange(NamedTuple):
    """Messages stored one after the other from `base_offset` on.

    `duplicate` says that an earlier publish with these ids stored them.
    """

    receipts: ReceiptWriter
    partition: int
    base_offset: int
    log_time_us: int
    duplicate: bool = False

    def receipts_json(self, count: int) -> list[str]:
        """Return the JSON receipts of the messages."""
        return self.receipts.write(self.base_offset, count, self.log_time_us, self.duplicate)

    def at(self, index: int) -> StoredRange:
        """Return the outcome of the message at `index` alone."""
        return self._replace(base_offset=self.base_offset + index)

    def again(self) -> StoredRange:
        """Return the outcome as told to a publisher that sent the message a second time."""
        return self._replace(duplicate=True)


class Scheduled(NamedTuple):
    """Messages staged one after the other from `base_stage` on, each released at its time.

    `due_us` has a time for each. It is None for messages of an earlier publish, whose times may
    have been changed since.
    """

    receipts: ReceiptWriter
    partition: int
    generation: int
    base_stage: int
    due_us: tuple[int, ...] | None
    accepted_us: int
    duplicate: bool = False

    def receipts_json(self, count: int) -> list[str]:
        return [
            self.receipts.write_staged(
                self.generation,
                self.base_stage + index,
                self.due_us[index] if self.due_us is not None else None,
                self.accepted_us,
                self.duplicate,
            )
            for index in range(count)
        ]

    def at(self, index: int) -> Scheduled:
        due_us = self.due_us[index : index + 1] if self.due_us is not None else None
        return self._replace(base_stage=self.base_stage + index, due_us=due_us)

    def again(self) -> Scheduled:
        return self._replace(duplicate=True)


Stored = StoredRange | Scheduled
Single = Stored | Problem


class Mixed(NamedTuple):
    """One outcome for each of several messages that were accepted together and went different
    ways.
    """

    outcomes: tuple[Single, ...]


Outcome = Stored | Problem | Mixed


def each(outcome: Outcome, count: int) -> Sequence[Single]:
    """Return one outcome for each of the `count` messages of an append request."""
    if isinstance(outcome, Mixed):
        assert len(outcome.outcomes) == count
        return outcome.outcomes
    if isinstance(outcome, Problem):
        return [outcome] * count
    return [outcome.at(index) for index in range(count)]


def together(singles: Sequence[Single]) -> Outcome:
    """Return the outcome of an append request from those of its messages."""
    return singles[0] if len(singles) == 1 else Mixed(tuple(singles))


def again(outcome: Single) -> Single:
    """Return the outcome for a publisher that sent a message again while the first was on its
    way.
    """
    return outcome if isinstance(outcome, Problem) else outcome.again()


def known_as(known: Known, receipts: ReceiptWriter) -> Single:
    """Return the answer to a message whose id the log has; `receipts` may be of another
    partition.
    """
    if not known.same_body:
        return key_reused()
    queue = QueueId.unpack(known.queue)
    writer = receipts.of_partition(queue.partition, queue.lane)
    if known.staged:
        return Scheduled(
            writer,
            queue.partition,
            queue.generation,
            known.position,
            None,
            known.log_time_us,
            duplicate=True,
        )
    return StoredRange(writer, queue.partition, known.position, known.log_time_us, duplicate=True)


def key_reused() -> Problem:
    """Return the 422 for an id that came before with other content; the first message stays as it
    is.
    """
    detail = "it was used for another message within the topic's dedup window."
    return Problem.of(
        "idempotency-key-reused",
        f"idempotency_key: {detail} This one is not stored.",
        errors=[FieldError("idempotency_key", detail)],
        extra={"outcome": "not_done"},
    )
