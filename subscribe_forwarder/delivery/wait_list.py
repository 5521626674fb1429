"""Keeps the wait list of consumers of a subscription, and what each wants."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from edge.problem import Problem
from subscribe_forwarder import metrics
from subscribe_forwarder.delivery.places import PartitionChoice
from subscribe_forwarder.delivery.reader import Taken
from subscribe_forwarder.delivery.state.rate import NAMELESS
from subscribe_forwarder.peers import is_misdirected


class Want(NamedTuple):
    """The request of a consumer: all limits hold, but one message is always given."""

    max_messages: int
    max_bytes: int
    consumer: str = NAMELESS
    lease_from_s: float = 0.0
    """The time at which the leases begin, by the hub's clock: when a response leaves."""
    places: PartitionChoice | None = None
    """The places to take from; None for all partitions."""


class Delivery:
    """Holds leased messages for one consumer.

    Each delivery ends with its messages sent, or in `release` or `withdraw`.
    """

    __slots__ = ("count", "counted", "taken")

    def __init__(self, taken: Sequence[Taken]) -> None:
        """Begin a delivery of messages that were taken from readers."""
        self.taken = list(taken)
        self.count = sum([part.message_count for part in taken])
        self.counted: list[Callable[[], None]] = []
        """Takes it out of the rates again."""

    def release(self) -> None:
        """Make the messages ready again, because the response did not leave; no attempt counts."""
        released = sum(part.reader.ledger.release(part.grant) for part in self.taken)
        metrics.lease_ended.labels("released").inc(released)

    def withdraw(self) -> None:
        """Release messages of which none was on its way to a consumer; no rate counts them."""
        self.release()
        for give_back in self.counted:
            give_back()
        self.counted.clear()

    def add(self, other: Delivery) -> None:
        """`other` is part of this one from now on."""
        self.taken += other.taken
        self.count += other.count
        self.counted += other.counted

    def start_leases(self, deadline_ms: int) -> None:
        """Begin the leases of a response that left earlier than expected: they end at the
        deadline.
        """
        for part in self.taken:
            ledger, grant = part.reader.ledger, part.grant
            for offset in grant.offsets[:]:
                if ledger.leases.grant_of(offset) is grant:
                    ledger.extend(offset, deadline_ms)

    def size_bytes(self) -> int:
        """Return the size of the messages' data."""
        return sum([part.size_bytes for part in self.taken])


class Waiter(Protocol):
    """A waiting consumer: it is asked for what it wants each time it may be served."""

    only_now: bool
    """Ended as soon as nothing is ready and no fetch could change that."""

    def ask(self) -> Want | None:
        """Return the present request; None if the waiter wants nothing now, and `dispatch`
        asks again.
        """

    def give(self, delivery: Delivery) -> bool:
        """Take a delivery; return False if the waiter wants more and keeps its place."""

    def end(self, problem: Problem | None) -> None:
        """Leave the line with the messages so far; `problem` tells why the line ends."""


class PullWaiter:
    """A waiting pull: answered when it has `min_messages`, or as many as it may have."""

    __slots__ = (
        "_held",
        "_min_messages",
        "_size_bytes",
        "_want",
        "future",
        "only_now",
    )

    def __init__(self, want: Want, min_messages: int, *, only_now: bool) -> None:
        self._want = want
        self._min_messages = min_messages
        self._held: Delivery | None = None
        self._size_bytes = 0
        self.only_now = only_now
        self.future: asyncio.Future[Delivery] = asyncio.get_running_loop().create_future()

    def ask(self) -> Want | None:
        want, held = self._want, self._held
        if self.future.done():
            return None  # nobody waits for it any more
        if held is None:
            return want
        return want._replace(
            max_messages=want.max_messages - held.count,
            max_bytes=want.max_bytes - self._size_bytes,
        )

    def give(self, delivery: Delivery) -> bool:
        if self._held is not None:
            self._held.add(delivery)
            delivery = self._held
        elif delivery.count < self._min_messages:
            self._held = delivery
        if delivery.count < self._min_messages:
            self._size_bytes = delivery.size_bytes()
            if self._size_bytes < self._want.max_bytes:
                return False
        self.future.set_result(delivery)
        return True

    def end(self, problem: Problem | None) -> None:
        if self.future.done():
            return
        if problem is None or (self._held is not None and is_misdirected(problem)):
            self.future.set_result(self.held)
        else:
            self.future.set_exception(problem)

    def abandon(self) -> Delivery:
        """End without an answer; return what it was given, which is to be withdrawn."""
        future = self.future
        if future.done() and not future.cancelled() and not future.exception():
            return future.result()
        future.cancel()
        return self.held

    @property
    def held(self) -> Delivery:
        """Return the messages so far."""
        return self._held or Delivery([])
