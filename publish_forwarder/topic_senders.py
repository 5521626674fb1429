"""Keeps the queue senders of a topic, and turns their outcomes into answers to publishers.

A topic has three kinds of queue senders. Most append to an open queue. One beside each stages
messages with a delay in the same queue. And a sealed queue may be *asked*: its group answers an
append to it with the ids that it knows, else that the queue is sealed, and then the requests
continue in order.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from appending.group_window import GroupWindow
from appending.sender import QueueSender, Sweep
from metadata.types import Partition, SealedPartition, Topic
from publish_forwarder.append_request import AppendRequest
from publish_forwarder.failures import is_of_topic, problem_of
from publish_forwarder.metrics import PublishMetrics
from publish_forwarder.moves import Moves
from publish_forwarder.outcomes import Scheduled, Single, StoredRange, known_as
from publish_forwarder.partitioner import TopicSender, queue_of
from publish_forwarder.receipts import ReceiptWriter
from publish_forwarder.router import TopicRoutes
from publish_forwarder.settings import PublishSettings
from store_nodes.client import StoreClient
from store_nodes.client.appender import Receipt
from store_nodes.commands import StageExtras
from store_nodes.errors import Known, NotDone, QueueSealed, StoreError
from store_nodes.queue_id import QueueId


class TopicSenders:
    """Opens the queue senders of topics and learns from their owners; one per process."""

    def __init__(
        self,
        store: StoreClient,
        settings: PublishSettings,
        metrics: PublishMetrics,
        routes: dict[bytes, TopicRoutes],
        moves: Moves,
        *,
        admits: Callable[[int], bool],
        weight_of: Callable[[bytes], float],
        stored: Callable[[bytes, int, int], None],
        changed: Callable[[Topic], None],
    ) -> None:
        """Prepare to open queue senders.

        `stored` is told the tenant, the messages and the bytes of each append that is done.
        `changed` is told of a topic that the store no longer has as it is here.
        """
        self.metrics = metrics
        self.moves = moves
        self.admits = admits
        self.stored = stored
        self.changed = changed
        self.sweep: Sweep[AppendRequest] = Sweep(store.has_leader)
        self._store = store
        self._settings = settings
        self._routes = routes
        self._weight_of = weight_of
        self._windows: dict[int, GroupWindow] = {}

    def append_sender(self, topic: Topic, partition: Partition) -> TopicSender:
        """Return a sender that appends to an open queue."""
        return self._sender(topic, partition.group, queue_of(topic, partition))

    def stage_sender(self, topic: Topic, partition: Partition) -> TopicSender:
        """Return a sender that stages in an open queue; opened when a message has a delay."""
        return self._sender(topic, partition.group, queue_of(topic, partition), staging=True)

    def probe_sender(self, topic: Topic, sealed: SealedPartition) -> TopicSender:
        """Return a sender that asks a sealed queue; opened when that queue may know an id."""
        queue = QueueId(topic.uid, sealed.number, sealed.lane, sealed.generation)
        return self._sender(topic, sealed.group, queue, sealed_time_us=sealed.sealed_time_us)

    def reroute(self, topic: Topic, request: AppendRequest, away_from: TopicSender) -> bool:
        """Give a request to another sender of the topic's present routes; return whether one took
        it.
        """
        routes = self._routes.get(topic.uid)
        return routes is not None and routes.partitioner_of(request).reroute(request, away_from)

    def _sender(
        self,
        topic: Topic,
        group: int,
        queue: QueueId,
        *,
        staging: bool = False,
        sealed_time_us: int | None = None,
    ) -> TopicSender:
        window = self._windows.get(group)
        if window is None:
            made = GroupWindow(self._settings.max_group_bytes, self._weight_of)
            window = self._windows[group] = made
        return QueueSender(
            group,
            queue,
            self._store.appender(group, queue),
            SenderOwner(self, topic, queue, staging=staging, sealed_time_us=sealed_time_us),
            max_append_bytes=self._settings.max_append_bytes,
            stall_s=self._settings.stall_s,
            tenant_id=topic.tenant_id,
            window=window,
            dedup_window_s=topic.dedup_window_s,
        )


class SenderOwner:
    """The owner of one queue sender; `staging` marks one that stages.

    `sealed_time_us` is set for one that asks a sealed queue.
    """

    __slots__ = (
        "_metrics",
        "_queue",
        "_receipts",
        "_sealed_time_us",
        "_senders",
        "_staging",
        "_topic",
        "repeats",
    )

    def __init__(
        self,
        senders: TopicSenders,
        topic: Topic,
        queue: QueueId,
        *,
        staging: bool = False,
        sealed_time_us: int | None = None,
    ) -> None:
        self._senders = senders
        self._metrics = senders.metrics
        self._topic = topic
        self._queue = queue
        self._receipts = ReceiptWriter(topic.uid, topic.name, queue.partition, queue.lane)
        self._staging = staging
        self._sealed_time_us = sealed_time_us
        self.repeats = True

    def admits(self, group: int) -> bool:
        return self._senders.admits(group)

    def waits(self, sender: TopicSender) -> None:
        self._senders.sweep.add(sender)

    def reroute(self, request: AppendRequest, away_from: TopicSender) -> bool:
        if not self._senders.reroute(self._topic, request, away_from):
            return False
        self._metrics.rerouted += len(request.messages)
        return True

    def accepted_us(self, requests: Sequence[AppendRequest]) -> int:
        """Return the time that a batch has as its accepted time."""
        return time.time_ns() // 1000

    def extras(self, requests: Sequence[AppendRequest]) -> StageExtras | None:
        """Return the due times of requests to stage; None for an append."""
        if not self._staging:
            return None
        return StageExtras(tuple(due_us for request in requests for due_us in request.due_us or ()))

    def sent(self, batch_bytes: int) -> None:
        """Count an append."""
        self._metrics.appends += 1
        self._metrics.append_bytes += batch_bytes

    def stored(
        self, requests: Sequence[AppendRequest], receipt: Receipt, size_bytes: int, seconds: float
    ) -> None:
        """Tell requests that the log has stored durably their outcome, and count their messages."""
        resolve = self._resolve_staged if self._staging else self._resolve_placed
        count = resolve(requests, receipt)
        metrics = self._metrics
        metrics.messages += count
        metrics.append_seconds.observe(seconds)
        self._senders.stored(self._topic.tenant_id, count, size_bytes)

    def _resolve_placed(self, requests: Sequence[AppendRequest], receipt: Receipt) -> int:
        """Give each request its first offset; return the number of messages."""
        offset = receipt.base_offset
        receipts, partition, log_time_us = (
            self._receipts,
            self._queue.partition,
            receipt.log_time_us,
        )
        for request in requests:
            # A receipt of an earlier transmission of the same append is no duplicate to the
            # publisher.
            request.resolve(StoredRange(receipts, partition, offset, log_time_us))
            offset += len(request.messages)
        return offset - receipt.base_offset

    def _resolve_staged(self, requests: Sequence[AppendRequest], receipt: Receipt) -> int:
        number, queue = receipt.base_offset, self._queue
        for request in requests:
            request.resolve(
                Scheduled(
                    self._receipts,
                    queue.partition,
                    queue.generation,
                    number,
                    tuple(request.due_us or ()),
                    receipt.log_time_us,
                )
            )
            number += len(request.messages)
        count = number - receipt.base_offset
        self._metrics.scheduled += count
        return count

    def known(self, request: AppendRequest, known: dict[int, Known]) -> AppendRequest | None:
        self._metrics.duplicates += len(known)
        return request.learn(known, self._known_as)

    def _known_as(self, known: Known) -> Single:
        return known_as(known, self._receipts)

    def failed(self, request: AppendRequest, error: StoreError) -> None:
        count = len(request.messages)
        if isinstance(error, NotDone):
            self._metrics.refused += count
            if is_of_topic(error):
                self._senders.changed(self._topic)
        else:
            self._metrics.unknown += count
        problem = problem_of(error, repeatable=request.ids is not None)
        if request.publish_id:
            self._metrics.lost_after_202(request.publish_id, count, problem)
        request.resolve(problem)

    def ended(self, sender: TopicSender, requests: list[AppendRequest], error: StoreError) -> bool:
        """Pass on requests that asked a sealed queue, or keep them until the catalog names a
        successor.
        """
        if self._sealed_time_us is not None:
            self._senders.moves.onward(self._topic, requests, self._sealed_time_us)
        elif isinstance(error, QueueSealed) and error.successors:
            sender.wait_for_successor(requests)
        else:
            return False
        return True

    def quiet(self, sender: TopicSender) -> None:
        self._senders.moves.quiet(self._topic, sender)
