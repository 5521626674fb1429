"""What became of accepted messages, and the receipts that say so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from edge.problem import FieldError, Problem
from publish_forwarder.receipts import ReceiptWriter
from store_nodes.errors import Known
from store_nodes.queue_id import QueueId


class Placed(NamedTuple):
    """Stored in a row from `base_offset` on; `duplicate`: by an earlier request, with these ids."""

    receipts: ReceiptWriter
    partition: int
    base_offset: int
    log_time_us: int
    duplicate: bool = False

    def receipts_json(self, count: int) -> list[str]:
        return self.receipts.write(self.base_offset, count, self.log_time_us, self.duplicate)

    def at(self, index: int) -> Placed:
        """Of that message alone."""
        return self._replace(base_offset=self.base_offset + index)

    def again(self) -> Placed:
        """As told to a publisher that sent it a second time."""
        return self._replace(duplicate=True)


class Scheduled(NamedTuple):
    """Staged in a row from `base_stage` on, to be released when due. `due_us` has a time for each,
    or is None: it is an earlier request's, and its time may have been changed since."""

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


Stored = Placed | Scheduled
Single = Stored | Problem


class Mixed(NamedTuple):
    """Messages that were accepted together and went different ways: one outcome each."""

    outcomes: tuple[Single, ...]


Outcome = Stored | Problem | Mixed


def each(outcome: Outcome, count: int) -> Sequence[Single]:
    """One outcome per message of a parcel of `count`."""
    if isinstance(outcome, Mixed):
        assert len(outcome.outcomes) == count
        return outcome.outcomes
    if isinstance(outcome, Problem):
        return [outcome] * count
    return [outcome.at(index) for index in range(count)]


def together(singles: Sequence[Single]) -> Outcome:
    """The outcome of a parcel of these messages."""
    return singles[0] if len(singles) == 1 else Mixed(tuple(singles))


def again(outcome: Single) -> Single:
    """What is told to one who sent the same message while the first was on its way."""
    return outcome if isinstance(outcome, Problem) else outcome.again()


def known_as(known: Known, receipts: ReceiptWriter) -> Single:
    """The answer to a message whose id the log has; `receipts` may be of another partition."""
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
    return Placed(writer, queue.partition, known.position, known.log_time_us, duplicate=True)


def key_reused() -> Problem:
    """422: the id came before with other content. The first message stays as it is."""
    detail = "it was used for another message within the topic's dedup window."
    return Problem(
        422,
        "idempotency-key-reused",
        "Idempotency key reused",
        f"idempotency_key: {detail} This one is not stored.",
        errors=[FieldError("idempotency_key", detail)],
        extra={"outcome": "not_done"},
    )


def preceding_item_failed() -> Problem:
    """424: of an item of a batch."""
    return Problem(
        424,
        "preceding-item-failed",
        "A preceding item failed",
        "An earlier item of this key was not accepted; this one is not stored, to keep order.",
    )
