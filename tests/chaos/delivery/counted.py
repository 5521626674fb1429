"""At least once, and no oftener than faults explain: every delivery is remembered.

The invariant: a message whose ack was answered 200 is in no answer to a pull sent after that. All
other repeats together are no more than the messages that were open when something was killed,
paused or started again: delivered, or on their way to a worker, and their ack not answered. The
leases are far longer than any fault, so none runs out in the hands of a worker that lives.

And the responses that forwarders say they sent were received, or went into an answer that never
came whole: `unexplained` compares their traces with the deliveries to workers.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

from tests.chaos.delivery.actor import Actor, Message
from tests.chaos.delivery.caller import Caller

REPEATED = "a message came again since its forwarder was lost"
SITUATIONS = (REPEATED,)
ON_ITS_WAY_S = 0.5
"""An answer that left before a fault is here by then."""
HOLDS_S = 0.5
"""Seconds a worker may work on a message."""
LOST = (0, 502, 504)
"""No answer, or a balancer's word that a forwarder's was lost."""
CLOCK_S = 0.05
"""The limit by which the clocks of two processes of one machine differ, with the time to
write a line.
"""


class Got(NamedTuple):
    """A message in one answer to a pull."""

    message_id: str
    asked_s: float
    got_s: float


class Cut(NamedTuple):
    """A pull whose answer did not come whole, by wall clock."""

    asked_s: float
    ended_s: float


class Sent(NamedTuple):
    """A response of a forwarder, as its trace tells: its messages as (partition, offset)."""

    at_s: float
    """Wall clock."""
    places: tuple[tuple[int, int], ...]


class Counted(Actor):
    name: ClassVar[str] = "counted"
    workers: ClassVar[int] = 6
    recorded: ClassVar[bool] = True
    topic: ClassVar[dict[str, Any]] = {"partitions": 6}
    subscription: ClassVar[dict[str, Any]] = {"ack_deadline_seconds": 60}

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.cuts: list[Cut] = []
        self._got: list[Got] = []
        self._acked_s: dict[str, float] = {}
        """Message id → when the first ack of it was answered 200."""
        self._payloads: set[str] = set()
        self._received: Counter[tuple[int, int]] = Counter()
        self._faults_s: list[float] = []

    def fault(self) -> None:
        """Something that may hold its leases is being killed, paused or started again now."""
        self._faults_s.append(time.monotonic())

    async def pull(self, caller: Caller, count: int, wait_s: float = 1.0) -> list[Message]:
        asked_wall_s = time.time()
        reply = await caller.call(
            "GET", f"{self.path}/messages?max_messages={count}&wait_seconds={wait_s:g}"
        )
        if reply.status in LOST or (reply.status == 200 and "messages" not in reply.body):
            self.cuts.append(Cut(asked_wall_s, time.time()))
        if reply.status != 200 or "messages" not in reply.body:
            return []
        messages = [self.got(each, reply.sent_s) for each in reply.body["messages"]]
        self._received.update(
            (each["partition"], each["offset"]) for each in reply.body["messages"]
        )
        self._got += [Got(each.message_id, each.pulled_s, each.got_s) for each in messages]
        return messages

    async def handle(self, caller: Caller, messages: Sequence[Message]) -> None:
        await asyncio.sleep(self.dice.uniform(0, HOLDS_S))
        told = await self.ack_surely(caller, messages)
        now_s = time.monotonic()
        for message, ok in zip(messages, told, strict=True):
            if ok:
                self._acked_s.setdefault(message.message_id, now_s)
                self._payloads.add(message.payload)
            else:
                self.broke(f"{message.payload!r}: its ack was refused")

    def done(self) -> bool:
        return self.accepted() <= self._payloads

    def left(self) -> str:
        return str(sorted(self.accepted() - self._payloads)[:5])

    @property
    def repeats(self) -> int:
        """Return the deliveries beyond the first of each message."""
        return len(self._got) - len({got.message_id for got in self._got})

    def open_at_faults(self) -> int:
        """The sum of what was open each time."""
        return sum(self._open_at(fault_s) for fault_s in self._faults_s)

    def __str__(self) -> str:
        return (
            f"{self.name}: {len(self._got)} hand-outs, {self.repeats} of them repeats, of"
            f" {self.open_at_faults()} that were open at {len(self._faults_s)} faults;"
            f" {len(self.cuts)} answers lost"
        )

    async def check(self, caller: Caller) -> None:
        repeats, allowed = self.repeats, self.open_at_faults()
        self.sometimes.hit(REPEATED, repeats > 0)
        for got in self._got:
            if self._acked_s.get(got.message_id, got.asked_s) < got.asked_s:
                self.broke(f"{got.message_id} was given again after its ack was answered")
        if repeats > allowed:
            self.broke(f"{repeats} repeats, and only {allowed} were open when something broke")

    def _open_at(self, fault_s: float) -> int:
        """Distinct messages handed out by then, or on their way, whose acks were not answered."""
        return len(
            {
                got.message_id
                for got in self._got
                if got.asked_s <= fault_s
                and got.got_s <= fault_s + ON_ITS_WAY_S
                and self._acked_s.get(got.message_id, fault_s) >= fault_s
            }
        )

    def unexplained(self, responses: Iterable[Sent]) -> list[Sent]:
        """Return the responses that no worker got and no cut answer explains: one for each
        of those.
        """
        left = self._received.copy()
        cuts = sorted(self.cuts)
        unexplained = []
        for sent in sorted(responses):
            if all(left[place] > 0 for place in sent.places):
                left.subtract(sent.places)
                continue
            taken = next(
                (
                    cut
                    for cut in cuts
                    if cut.asked_s - CLOCK_S <= sent.at_s <= cut.ended_s + CLOCK_S
                ),
                None,
            )
            if taken is None:
                unexplained.append(sent)
            else:
                cuts.remove(taken)
        return unexplained
