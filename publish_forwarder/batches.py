"""A producer's batch on its way: one part per partition, lane and kind, each with one id.

The id of a part is made from the place where it is stored, and stands for all messages that the
batch has for that place. So when the topic grows meanwhile and keys are spread over more
partitions, parts cannot be cut one by one: an id could then stand for other messages each time the
batch is sent. Instead the parts that the old partitions did not take wait for each other, and their
messages are put together again. If one part of the batch fails, those that wait fail too, and a
retry of the batch finds the same ids as the first try.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from appending.sender import Name
from edge.problem import Problem
from publish_forwarder.append_request import AppendRequest
from publish_forwarder.delays import Delay
from publish_forwarder.idempotency import Producer, batch_id, fingerprint
from publish_forwarder.outcomes import Mixed, Outcome
from store_nodes.record_batch import Message


class Batch:
    """The common state of a batch's parts.

    `put_anew` is called when every part is answered or waits, and some wait: `take_waiting` returns
    those.
    """

    __slots__ = ("_put_anew", "_waiting", "delays", "failed", "messages", "open", "producer")

    def __init__(
        self,
        producer: Producer,
        messages: Sequence[Message],
        delays: Mapping[int, Delay],
        put_anew: Callable[[Batch], None],
    ) -> None:
        self.producer = producer
        self.messages = messages
        self.delays = delays
        self.open = 0
        """Number of parts that are neither answered nor wait."""
        self.failed: Problem | None = None
        self._put_anew = put_anew
        self._waiting: list[AppendRequest] = []

    def wait(self, part: AppendRequest) -> None:
        """Let a part wait, because it belongs to no partition any more."""
        self._waiting.append(part)
        self._closed()

    def answered(self, outcome: Outcome) -> None:
        """Count a part as answered."""
        outcomes = outcome.outcomes if isinstance(outcome, Mixed) else (outcome,)
        for each in outcomes:
            if isinstance(each, Problem):
                self.failed = each
        self._closed()

    def take_waiting(self) -> list[AppendRequest]:
        """Return the waiting parts, which count as open again."""
        waiting, self._waiting = self._waiting, []
        self.open = len(waiting)
        return waiting

    def _closed(self) -> None:
        self.open -= 1
        assert self.open >= 0
        if not self.open and self._waiting:
            self._put_anew(self)


class BatchPart(NamedTuple):
    """A part of a batch in one append request: the messages at `indices`, for one lane of a
    partition.
    """

    batch: Batch
    indices: Sequence[int]
    staged: bool
    partitions: int
    partition: int
    lane: int = 0

    def entry(self, topic_uid: bytes) -> Name:
        """Return the id that stands for all messages of the part."""
        batch = self.batch
        kind = self.staged | self.lane << 1
        name = batch_id(topic_uid, batch.producer, self.partitions, self.partition, kind)
        contents = fingerprint(
            (batch.messages[index], batch.delays.get(index)) for index in self.indices
        )
        return Name(0, name, contents, len(self.indices))
