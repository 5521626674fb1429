"""Pulls of one subscription over all its partitions: first come, first served.

A pull that finds messages in the cache is answered without a task, a timer or a wait. Others wait
in line; whatever may have changed what is ready (new messages, a fetch, a nack, a deadline) calls
`dispatch`, which serves the line from its head. A waiter that goes away leaves nothing leased.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence

from edge.problem import Problem, unavailable
from metadata.types import Subscription
from subscribe_forwarder import metrics
from subscribe_forwarder.delivery.growth import Growth
from subscribe_forwarder.delivery.reader import (
    PAUSED_OUTSTANDING,
    PAUSED_RANGES,
    Reader,
    Room,
    Taken,
)
from subscribe_forwarder.reading.tail import wall_us
from subscribe_forwarder.settings import SubscribeSettings
from subscribe_forwarder.state.lanes import Lane, Lanes

_RETRY_AFTER_S = 1.0


class Delivery:
    """What one pull got. Every one ends in `rendered` being sent, or in `release`."""

    __slots__ = ("count", "taken")

    def __init__(self, taken: list[Taken]) -> None:
        self.taken = taken
        self.count = sum(len(part.places) for part in taken)

    def render(self) -> list[bytes]:
        messages: list[bytes] = []
        for part in self.taken:
            messages += part.render()
        return messages

    def release(self) -> None:
        """The response did not leave: its messages are ready again, and no attempt counts."""
        released = sum(part.reader.ledger.release(part.grant) for part in self.taken)
        metrics.lease_ended.labels("released").inc(released)


class Waiter:
    """One pull in line."""

    __slots__ = ("future", "max_bytes", "max_messages", "only_now")

    def __init__(self, max_messages: int, max_bytes: int, only_now: bool) -> None:
        self.max_messages = max_messages
        self.max_bytes = max_bytes
        self.only_now = only_now
        """Answered empty as soon as nothing is ready and no fetch could change that."""
        self.future: asyncio.Future[Delivery] = asyncio.get_running_loop().create_future()


class Hub:
    """The readers of one subscription that this process owns, and the pulls that wait for them."""

    def __init__(
        self,
        subscription: Subscription,
        may_hand_out: Callable[[Reader], bool],
        progressed: Callable[[Reader], None],
        settings: SubscribeSettings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.subscription = subscription
        self.readers: dict[Lane, Reader] = {}
        self.lanes: Lanes | None = None
        """None where there is one priority."""
        self.growth = Growth()
        self.incomplete = True
        """A partition is missing: look for its reader before the next use."""
        self.closed: Problem | None = None
        self._may_hand_out = may_hand_out
        self._progressed = progressed
        self._settings = settings
        self._clock = clock
        self._waiting: deque[Waiter] = deque()
        self._turn = 0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def outstanding(self) -> int:
        return sum(reader.ledger.outstanding for reader in self.readers.values())

    def paused_reason(self) -> str | None:
        """Why nothing new is handed out, if so."""
        if self.outstanding >= self._settings.max_outstanding:
            return PAUSED_OUTSTANDING
        if any(reader.cursor.paused for reader in self.readers.values()):
            return PAUSED_RANGES
        return None

    def pull_now(self, max_messages: int, max_bytes: int) -> Delivery | None:
        """What is ready and in the cache, unless others wait in line."""
        if self._waiting or self.closed is not None:
            return None
        return self._collect(max_messages, max_bytes)

    def join(self, max_messages: int, max_bytes: int, *, only_now: bool) -> Waiter:
        """Goes to the end of the line; every waiter ends in `leave`."""
        if self.closed is not None:
            raise self.closed
        if len(self._waiting) >= self._settings.max_waiting_pulls:
            raise Problem(
                503,
                "too-many-waiting-pulls",
                "Too many waiting pulls",
                f"{len(self._waiting)} pulls of this subscription are waiting already.",
                retry_after_s=_RETRY_AFTER_S,
            )
        waiter = Waiter(max_messages, max_bytes, only_now)
        self._waiting.append(waiter)
        metrics.waiting.inc()
        return waiter

    def leave(self, waiter: Waiter) -> Delivery | None:
        """Out of the line; what it had got by then is the caller's, to send or to release.

        Raises the Problem with which the line ended.
        """
        metrics.waiting.dec()
        future = waiter.future
        if not future.done():
            self._waiting.remove(waiter)
            return None
        return future.result()

    async def refresh(self) -> None:
        """Asks the store where the partitions end, so that an empty answer is a true one."""
        tails = [reader.tail for reader in self.readers.values()]
        try:
            async with asyncio.timeout(self._settings.empty_pull_refresh_s):
                await asyncio.gather(*(tail.refresh() for tail in tails))
        except TimeoutError:
            return

    def dispatch(self) -> None:
        """Serves the line as far as what is ready goes."""
        while self._waiting:
            waiter = self._waiting[0]
            if not waiter.future.done():
                delivery = self._collect(waiter.max_messages, waiter.max_bytes)
                if delivery is None:
                    break
                waiter.future.set_result(delivery)
            self._waiting.popleft()
        if self._waiting:
            self._idle()

    def finish(self, problem: Problem, *, gone: bool = False) -> None:
        """Refuses new waits; ends the present ones empty, or with the problem when `gone`."""
        self.closed = problem
        self._stop_timer()
        waiting, self._waiting = self._waiting, deque()
        for waiter in waiting:
            if waiter.future.done():
                continue
            if gone:
                waiter.future.set_exception(problem)
            else:
                waiter.future.set_result(Delivery([]))

    def check_served(self) -> None:
        """Raises the 503 that an empty answer would hide: messages may be there, unreachable."""
        for reader in self.readers.values():
            if not self._may_hand_out(reader):
                raise unavailable(
                    "subscription",
                    "This forwarder does not hold its lease right now; nothing was handed out.",
                    _RETRY_AFTER_S,
                )
            if reader.tail.failure is not None and reader.starved():
                raise unavailable(
                    "store",
                    "Messages are waiting and the store nodes that hold them do not answer.",
                    _RETRY_AFTER_S,
                )

    def _collect(self, max_messages: int, max_bytes: int) -> Delivery | None:
        self.growth.lift(self.readers)
        delivery = self._collect_once(max_messages, max_bytes)
        while delivery is None and self.growth.lift(self.readers):
            delivery = self._collect_once(max_messages, max_bytes)
        return delivery

    def _collect_once(self, max_messages: int, max_bytes: int) -> Delivery | None:
        new = self._settings.max_outstanding - self.outstanding
        room = Room(max_messages, max_bytes, max(0, new))
        now_s = self._clock()
        now_ms = int(now_s * 1000)
        deadline_ms = int((now_s + self.subscription.ack_deadline_s) * 1000)
        now_us = wall_us()
        self._turn += 1
        taken: list[Taken] = []

        def take_of(readers: Sequence[Reader]) -> None:
            for index in range(len(readers)):
                reader = readers[(self._turn + index) % len(readers)]
                if reader.idle or not self._may_hand_out(reader):
                    continue
                part = reader.take(room, now_ms, now_us, deadline_ms)
                if part is not None:
                    taken.append(part)
                if reader.cursor.dirty:
                    self._progressed(reader)
                if room.full:
                    break

        if self.lanes is None:
            take_of(list(self.readers.values()))
        else:
            self._collect_lanes(self.lanes, room, take_of)
            taken.sort(key=lambda part: -part.reader.place.lane)
        return Delivery(taken) if taken else None

    def _collect_lanes(
        self, lanes: Lanes, room: Room, take_of: Callable[[Sequence[Reader]], None]
    ) -> None:
        """Goes over the priorities in the order that their turns give."""
        by_lane: dict[int, list[Reader]] = {}
        for place, reader in self.readers.items():
            by_lane.setdefault(place.lane, []).append(reader)
        ready = [
            lane for lane, readers in by_lane.items() if any(reader.has_ready for reader in readers)
        ]
        counts = dict.fromkeys(by_lane, 0)
        for lane, most in lanes.plan(ready, room.max_messages):
            left = room.max_messages
            room.max_messages = min(most, left)
            rest = left - room.max_messages
            take_of(by_lane[lane])
            counts[lane] += left - rest - room.max_messages
            room.max_messages += rest
            if room.full:
                break
        lanes.delivered(counts, ready)

    def _idle(self) -> None:
        """Nothing is ready: asks for what may be, answers who won't wait, and sets the clock."""
        starved = False
        due_ms: int | None = None
        for reader in self.readers.values():
            if reader.idle or not self._may_hand_out(reader):
                continue
            starved |= reader.starved() and reader.tail.failure is None
            reader_due = reader.ledger.next_due_ms()
            if reader_due is not None and (due_ms is None or reader_due < due_ms):
                due_ms = reader_due
        if not starved:
            for waiter in self._waiting:
                if waiter.only_now and not waiter.future.done():
                    waiter.future.set_result(Delivery([]))
            self._waiting = deque(w for w in self._waiting if not w.future.done())
        self._stop_timer()
        if due_ms is not None and self._waiting:
            delay_s = max(0.0, due_ms / 1000 - self._clock())
            self._timer = asyncio.get_running_loop().call_later(delay_s + 0.001, self.dispatch)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
