"""A model of a server that stores batches, and of a network that loses, delays and cuts."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any
from zlib import crc32

import msgspec
from packetboat.errors import (
    BufferFull,
    ConnectionFailed,
    PacketboatError,
    Problem,
    UnknownOutcome,
    error_of,
)
from packetboat.models import Receipt
from packetboat.publisher.batch import Batch
from packetboat.publisher.core import Core
from packetboat.publisher.pending import Pending, pending
from packetboat.publisher.results import Result
from packetboat.publisher.settings import PublisherSettings
from packetboat.transport.seam import Request

PARTITIONS = 3
WRONG = b"wrong"
"""A message that the server refuses for what it is."""


def message(data: bytes, key: str | None = None, idempotency_key: str | None = None) -> Pending:
    return pending(data, key, None, None, 0, idempotency_key, None, None, None, None, None)


def names() -> Iterator[Mapping[str, str]]:
    """Yield the names of batches."""
    for number in itertools.count(1):
        yield {"Packetboat-Producer": "0" * 32, "Packetboat-Sequence": str(number)}


def core_of(
    settings: PublisherSettings | None = None, random: Random | None = None, line: int = 1
) -> Core:
    made = names()
    return Core(settings or PublisherSettings(), lambda: next(made), random or Random(0), line)


def problem(status: int, slug: str) -> PacketboatError:
    return error_of(Problem(type=f"https://packetboat.dev/problems/{slug}", status=status))


class Store:
    """The state of a server: its messages by partition, and the names that it has seen before."""

    def __init__(self) -> None:
        self.partitions: list[list[dict[str, Any]]] = [[] for _ in range(PARTITIONS)]
        self._known: dict[tuple[object, ...], tuple[object, list[Receipt]]] = {}

    def store(self, request: Request, refuses: Callable[[int], Result | None]) -> list[Result]:
        """As the server does: a partition's part of a batch is stored as a whole, or refused, and
        what is known is not stored again."""
        items = msgspec.msgpack.decode(request.body)["messages"]
        results: list[Result] = [problem(500, "not-answered")] * len(items)
        broken: set[str] = set()
        parts: dict[int, list[int]] = {}
        for index, item in enumerate(items):
            key = item.get("key")
            if key in broken:
                results[index] = problem(424, "preceding-item-failed")
            elif item["data"].startswith(WRONG):
                results[index] = problem(422, "invalid-request")
                broken |= {key} if key is not None else set()
            else:
                route = key or item.get("idempotency_key") or str(self._name(request))
                parts.setdefault(crc32(route.encode()) % PARTITIONS, []).append(index)
        for partition, indices in parts.items():
            refused = refuses(partition)
            stored = isinstance(refused, UnknownOutcome) and refused.args == ("stored",)
            if refused is None or stored:
                receipts = self._part(request, partition, indices, items)
                answer: list[Result] = receipts if refused is None else [refused] * len(receipts)
            else:
                answer = [refused] * len(indices)
            for index, result in zip(indices, answer, strict=True):
                results[index] = result
        return results

    def _part(
        self, request: Request, partition: int, indices: list[int], items: list[dict[str, Any]]
    ) -> list[Receipt]:
        name = self._name(request)
        if name is not None:
            return self._once((name, partition), [items[index] for index in indices], partition)
        receipts = []
        for index in indices:
            item = items[index]
            receipts += self._once((item["idempotency_key"],), [item], partition)
        return receipts

    def _once(
        self, name: tuple[object, ...], items: list[dict[str, Any]], partition: int
    ) -> list[Receipt]:
        known = self._known.get(name)
        if known is not None:
            assert known[0] == items, "sent again with other content"
            return [msgspec.structs.replace(receipt, duplicate=True) for receipt in known[1]]
        queue = self.partitions[partition]
        receipts = []
        for item in items:
            receipts.append(Receipt(str(len(queue)), "t", partition, len(queue), None))
            queue.append(item)
        self._known[name] = (items, receipts)
        return receipts

    @staticmethod
    def _name(request: Request) -> tuple[str, str] | None:
        producer = request.headers.get("Packetboat-Producer")
        return None if producer is None else (producer, request.headers["Packetboat-Sequence"])


class Simulation:
    """A core, a store, and a seeded world between them, until everything is settled."""

    def __init__(self, seed: int, settings: PublisherSettings, harm: float) -> None:
        self.random = Random(seed)
        self.settings = settings
        self.core = core_of(settings, self.random)
        self.store = Store()
        self.harm = harm
        self.now_s = 0.0
        self.outcomes: dict[bytes, Result] = {}
        self.accepted: list[Pending] = []
        self.repeating = False
        """Messages are published again, which is in no order with others."""
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._out: set[Batch] = set()

    def at(self, delay_s: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now_s + delay_s, next(self._order), event))

    def publish(self, new: Pending) -> None:
        self.core.accept("t", new, self.now_s)
        self.accepted.append(new)

    def patiently(self, new: Pending) -> None:
        """Publish when the buffer has room."""
        try:
            self.publish(new)
        except BufferFull:
            self.at(0.01, lambda: self.patiently(new))

    def run(self) -> None:
        while True:
            self._turn()
            wake_s = self.core.wake_s(self.now_s)
            if not self._events and wake_s is None:
                return
            if self._events and (wake_s is None or self._events[0][0] <= wake_s):
                self.now_s, _, event = heapq.heappop(self._events)
                event()
            else:
                assert wake_s is not None
                self.now_s = max(self.now_s + 0.0001, wake_s)

    def _turn(self) -> None:
        self.core.expire(self.now_s)
        for batch in self.core.next_batches(self.now_s):
            self._send(batch)
        for settled in self.core.ledger.take_settled():
            data = self.data(settled.message)
            assert data not in self.outcomes, "settled twice"
            self.outcomes[data] = settled.outcome
        assert self.core.ledger.messages == len(self.accepted) - len(self.outcomes)
        assert self.core.ledger.messages <= self.settings.max_buffered_messages

    def _send(self, batch: Batch) -> None:
        assert batch not in self._out
        self._out.add(batch)
        slots = self.settings.max_batches_in_flight
        assert len(self._out) <= slots
        keys = [{m.key for m in out.messages if m.key is not None} for out in self._out]
        ordered = sum(map(len, keys)) == len(set().union(*keys))
        assert ordered or self.repeating, "two batches have a key"
        request, fate = batch.call.request, self.random.random() / self.harm
        there_s, back_s = (self.random.expovariate(200) for _ in range(2))
        if fate < 0.15:
            self._ends(batch, there_s, ConnectionFailed("refused"))
        elif fate < 0.25:
            self._ends(batch, there_s, problem(503, "stopping"))
        elif fate < 0.35:
            self._ends(batch, there_s, UnknownOutcome("lost on its way"))
        elif fate < 0.5:
            self.at(there_s, lambda: self._store(request))
            self._ends(batch, there_s + back_s, UnknownOutcome("the answer is lost"))
        elif fate < 0.6:
            # It is stored after the caller has given up, and maybe after a later try.
            self.at(there_s + self.random.uniform(0, 3), lambda: self._store(request))
            self._ends(batch, there_s, UnknownOutcome("cut"))
        else:
            self.at(there_s, lambda: self._answer(batch, self._store(request), back_s))

    def _store(self, request: Request) -> list[Result]:
        return self.store.store(request, self._refuses)

    def _refuses(self, partition: int) -> Result | None:
        fate = self.random.random() / self.harm
        if fate < 0.15:
            return problem(503, "partition-unavailable")
        if fate < 0.2:
            return UnknownOutcome("stored")
        return UnknownOutcome("not stored") if fate < 0.25 else None

    def _answer(self, batch: Batch, results: list[Result], back_s: float) -> None:
        def answered() -> None:
            self._out.discard(batch)
            self.core.answered(batch, results, self.now_s)

        self.at(back_s, answered)

    def _ends(self, batch: Batch, delay_s: float, error: PacketboatError) -> None:
        def failed() -> None:
            self._out.discard(batch)
            self.core.failed(batch, error, self.now_s)

        self.at(delay_s, failed)

    @staticmethod
    def data(message: Pending) -> bytes:
        data = msgspec.msgpack.decode(message.encoded)["data"]
        assert isinstance(data, bytes)
        return data
