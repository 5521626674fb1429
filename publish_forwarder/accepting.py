"""Append requests for publishes with ids, with delays, or of many messages.

The keyed messages of one publish for one lane of a partition are one append request, so that no
message of a key is stored when an earlier one is not. Messages with a delay are staged, in append
requests of their own. An idempotency key is claimed before its append request is sent, so that a
repetition in the meantime waits for the first one's outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from appending.chunks import message_bytes
from appending.sender import Name
from edge.partition import partition_of
from edge.problem import Problem, refuse
from publish_forwarder.append_request import AppendRequest, Ids, InFlight, Sink, claim
from publish_forwarder.batches import Batch, BatchPart
from publish_forwarder.budget import Share
from publish_forwarder.delays import Delay, now_us
from publish_forwarder.failures import topic_changed
from publish_forwarder.idempotency import Producer, fingerprint, key_id
from publish_forwarder.outcomes import Outcome, each
from publish_forwarder.partitioner import routing_key
from publish_forwarder.router import TopicRoutes
from store_nodes.record_batch import Message
from store_nodes.wire import Durability

EARLY = frozenset({Durability.LEADER, Durability.NONE})
"""Durabilities that are answered 202: a message that was answered may still be lost."""
MAX_RUN_BYTES = 1024 * 1024
"""Bytes at which the unkeyed messages of one publish are cut; each part goes to its own
partition.
"""


class Request:
    """The common facts of all messages of one publish."""

    __slots__ = ("delays", "durability", "now_us", "producer", "routes", "share")

    def __init__(
        self,
        routes: TopicRoutes,
        share: Share,
        durability: Durability,
        delays: Mapping[int, Delay] | None = None,
        producer: Producer | None = None,
    ) -> None:
        self.routes = routes
        self.share = share
        self.durability = durability
        self.delays = delays or {}
        """Delays, by the index of the message."""
        self.producer = producer if routes.topic.dedup_window_s else None
        self.now_us = now_us()

    def due_us(self, index: int) -> int | None:
        """Return when to release the message at `index`; None publishes it at once.

        A producer's batch alone decides which of its messages are staged, so that all its retries
        are cut in the same way.
        """
        delay = self.delays.get(index)
        if delay is None:
            return None
        due_us = delay.due_us(self.now_us)
        if due_us <= self.now_us:
            return self.now_us if self.producer is not None else None
        return due_us


class Acceptor:
    """Makes append requests and gives them to queue senders.

    It accepts all messages of a publish, or raises a Problem.
    """

    def __init__(
        self,
        timeout_s: float,
        next_publish_id: Callable[[], str],
        routes_now: Callable[[bytes], TopicRoutes | None],
        take: Callable[[TopicRoutes, Share, int, int], None],
    ) -> None:
        """Prepare an acceptor.

        `take` is asked whether bytes and messages that are reserved may be accepted. If not, it
        gives them back and raises a Problem.
        """
        self._timeout_s = timeout_s
        self._routes_now = routes_now
        self._take = take
        self._next_publish_id = next_publish_id
        self._in_flight: InFlight = {}
        self._loop = asyncio.get_running_loop()

    def once(self, routes: TopicRoutes, append_request: AppendRequest, key: str) -> None:
        """Send one message that has an idempotency key and no delay."""
        topic = routes.topic
        if topic.dedup_window_s:
            entry = Name(
                0, key_id(topic.uid, key), fingerprint([(append_request.messages[0], None)])
            )
            if not claim(self._in_flight, append_request, entry):
                return
        self._send(routes, append_request)

    def one(self, request: Request, message: Message, size_bytes: int) -> AppendRequest:
        """Send a message with a delay, whose memory is reserved."""
        due_us = request.due_us(0)
        append_request = self._append_request(request, [message], size_bytes, [due_us])
        entry = self._id_of(request, message, 0)
        append_request.pinned = routing_key(message) is not None
        if entry is None or claim(self._in_flight, append_request, entry):
            self._send(request.routes, append_request)
        return append_request

    def many(
        self, request: Request, messages: Sequence[Message]
    ) -> list[tuple[AppendRequest, Sequence[int]]]:
        """Send many messages; return each append request with the indices of its messages."""
        if request.producer is not None and any(m.idempotency_key is not None for m in messages):
            refuse(
                "idempotency_key",
                "not in a batch with Packetboat-Producer, which is known as a whole.",
            )
        sizes = [message_bytes(message) for message in messages]
        request.share.reserve(sum(sizes), len(messages))
        self._take(request.routes, request.share, sum(sizes), len(messages))
        due_us = [request.due_us(index) for index in range(len(messages))]
        ids: dict[int, Name] = {}
        repeats = self._ids_of(request, messages, ids)
        groups = _grouped(request, messages, sizes, due_us, repeats)
        batch = self._batch(request, messages)
        append_requests: list[tuple[AppendRequest, Sequence[int]]] = []
        parts: list[AppendRequest] = []
        for partition, indices in groups:
            append_request = self._append_request(
                request,
                [messages[index] for index in indices],
                sum(sizes[index] for index in indices),
                [due_us[index] for index in indices],
            )
            append_requests.append((append_request, indices))
            append_request.pinned = partition is not None
            if batch is not None:
                assert partition is not None
                spread = request.routes.first_partitions()
                lane = request.routes.lane_of(messages[indices[0]])
                staged = append_request.due_us is not None
                part = BatchPart(batch, indices, staged, spread, partition, lane)
                batch.open += 1
                if not claim(
                    self._in_flight, append_request, part.entry(request.routes.topic.uid), part
                ):
                    continue
            else:
                self._name(append_request, indices, ids)
            parts.append(append_request)
        for append_request in parts:
            self._send(request.routes, append_request)
        for index in repeats:
            append_request = self._append_request(
                request, [messages[index]], sizes[index], [due_us[index]]
            )
            append_request.pinned = True
            append_requests.append((append_request, [index]))
            if claim(self._in_flight, append_request, ids[index]):
                self._send(request.routes, append_request)
        return append_requests

    def _ids_of(
        self, request: Request, messages: Sequence[Message], ids: dict[int, Name]
    ) -> list[int]:
        """Fill in the ids of messages with an idempotency key; return the indices of repetitions.

        A repetition has the id of a message that is on its way, or that comes earlier in the
        publish.
        """
        repeats: list[int] = []
        seen: set[bytes] = set()
        for index, message in enumerate(messages):
            entry = self._id_of(request, message, index)
            if entry is None:
                continue
            ids[index] = entry
            if entry.name in seen or entry.name in self._in_flight:
                repeats.append(index)
            seen.add(entry.name)
        return repeats

    def _id_of(self, request: Request, message: Message, index: int) -> Name | None:
        key = message.idempotency_key
        topic = request.routes.topic
        if key is None or not topic.dedup_window_s:
            return None
        contents = fingerprint([(message, request.delays.get(index))])
        return Name(0, key_id(topic.uid, key), contents)

    def _name(
        self, append_request: AppendRequest, indices: Sequence[int], ids: dict[int, Name]
    ) -> None:
        """Give an append request the ids of its messages."""
        entries = [
            ids[index]._replace(at=position)
            for position, index in enumerate(indices)
            if index in ids
        ]
        if entries:
            append_request.ids = Ids(entries, self._in_flight)
            append_request.ids.register(append_request)

    def _batch(self, request: Request, messages: Sequence[Message]) -> Batch | None:
        """Return the batch of a producer's publish, whose parts have one id each; None without a
        producer.
        """
        if request.producer is None:
            return None
        put_anew = partial(self._put_anew, request.routes.topic.uid)
        return Batch(request.producer, messages, request.delays, put_anew)

    def _put_anew(self, topic_uid: bytes, batch: Batch) -> None:
        """Spread the waiting parts of a batch over the partitions that the topic has now."""
        waiting = batch.take_waiting()
        routes = self._routes_now(topic_uid)
        if routes is None or batch.failed is not None:
            for old in waiting:
                old.resolve(_like(batch.failed))
            return
        spread = routes.next_partitions(_part_of(waiting[0]).partitions)
        found: dict[tuple[int, bool, int], list[tuple[int, AppendRequest, int]]] = {}
        for old in waiting:
            part = _part_of(old)
            for position, index in enumerate(part.indices):
                key = routing_key(batch.messages[index]) or batch.producer.route
                place = (partition_of(key, spread), part.staged, part.lane)
                found.setdefault(place, []).append((index, old, position))
        sinks = {id(old): old.dissolve() for old in waiting}
        batch.open = len(found)
        sent = []
        for (partition, staged, lane), rows in found.items():
            rows.sort(key=lambda row: row[0])
            append_request = _gathered(rows, sinks)
            indices = [row[0] for row in rows]
            part = BatchPart(batch, indices, staged, spread, partition, lane)
            if claim(self._in_flight, append_request, part.entry(topic_uid), part):
                sent.append(append_request)
        for append_request in sent:
            self._send(routes, append_request)

    def _send(self, routes: TopicRoutes, append_request: AppendRequest) -> None:
        if append_request.ids is not None and append_request.durability is Durability.LEADER:
            # A batch with a known id is refused whole, and the rest of it is sent again. So the log
            # has to decide before any message of it is answered.
            append_request.durability = Durability.QUORUM
        if not append_request.pinned:
            held = append_request.share.held_messages
            partitioner = routes.partitioner_of(append_request)
            sender = partitioner.unkeyed(
                len(append_request.messages), append_request.size_bytes, held
            )
            partitioner.of_kind(sender, append_request).add(append_request)
            return
        for sender, part in routes.place(append_request):
            sender.add(part)

    def _append_request(
        self,
        request: Request,
        messages: list[Message],
        size_bytes: int,
        due_us: Sequence[int | None],
    ) -> AppendRequest:
        durability = request.durability
        future: asyncio.Future[Outcome] | None = None
        if durability is not Durability.NONE:
            future = self._loop.create_future()
        publish_id = self._next_publish_id() if durability in EARLY else ""
        due = [each for each in due_us if each is not None]
        for message, at_us in zip(messages, due, strict=False):
            message.deliver_at_us = at_us
        return AppendRequest(
            messages,
            size_bytes,
            False,
            Durability.QUORUM if durability is Durability.NONE else durability,
            self._loop.time() + self._timeout_s,
            request.share,
            future,
            publish_id,
            due_us=due or None,
        )


class _Scatter:
    """Receives the outcome of an append request whose messages come from several others."""

    __slots__ = ("_targets",)

    def __init__(self, targets: Sequence[tuple[Sink, int]]) -> None:
        self._targets = targets

    def fill(self, places: Sequence[int], outcome: Outcome) -> None:
        for place, single in zip(places, each(outcome, len(places)), strict=True):
            sink, at = self._targets[place]
            sink.fill([at], single)


def _gathered(
    rows: Sequence[tuple[int, AppendRequest, int]], sinks: Mapping[int, tuple[Sink, Sequence[int]]]
) -> AppendRequest:
    """Return an append request of messages from others, given as (order, request, position in
    it).
    """
    first = rows[0][1]
    targets = []
    for _, old, position in rows:
        sink, places = sinks[id(old)]
        targets.append((sink, places[position]))
    append_request = first.part([], _Scatter(targets), range(len(rows)))
    for _, old, position in rows:
        message = old.messages[position]
        append_request.messages.append(message)
        append_request.size_bytes += message_bytes(message)
    if first.due_us is not None:
        append_request.due_us = [(old.due_us or [])[position] for _, old, position in rows]
    return append_request


def _part_of(append_request: AppendRequest) -> BatchPart:
    assert append_request.ids is not None
    assert append_request.ids.part is not None
    return append_request.ids.part


def _like(failed: Problem | None) -> Problem:
    """Return the problem for messages that waited for a part that failed: they are not stored."""
    if failed is not None and failed.status == 422:
        return failed
    return topic_changed()


def _grouped(
    request: Request,
    messages: Sequence[Message],
    sizes: Sequence[int],
    due_us: Sequence[int | None],
    repeats: Sequence[int],
) -> list[tuple[int | None, list[int]]]:
    """Return the messages that go together, with their partition (None for any); unkeyed ones
    first.

    The messages of a group are all staged or all not, and have the same lane.
    """
    runs: list[tuple[int | None, list[int]]] = []
    run: dict[int, list[int]] = {}
    keyed: dict[tuple[int, int], list[int]] = {}
    producer, routes = request.producer, request.routes
    run_bytes = [0] * (2 * len(routes.partitioners))
    partitions = routes.first_partitions() if producer else routes.topic.partition_count
    several = routes.several
    home = partition_of(producer.route, partitions) if producer is not None else None
    left_out = frozenset(repeats)
    for index, message in enumerate(messages):
        if index in left_out:
            continue
        kind = 0 if due_us[index] is None else 1
        if several:
            kind += 2 * routes.lane_of(message)
        key = routing_key(message)
        partition = partition_of(key, partitions) if key is not None else home
        if partition is not None:
            keyed.setdefault((partition, kind), []).append(index)
            continue
        if run_bytes[kind] + sizes[index] > MAX_RUN_BYTES and kind in run:
            runs.append((None, run.pop(kind)))
            run_bytes[kind] = 0
        run.setdefault(kind, []).append(index)
        run_bytes[kind] += sizes[index]
    runs += [(None, indices) for indices in run.values()]
    return runs + [(partition, indices) for (partition, _), indices in keyed.items()]
