"""A lock has one holder at a time, and each holder's fencing token is above all before it (P10).

A holding is certain from its answer on until its time to live has passed since it was asked for, or
a release was sent: Postgres, whose clock is the world's, counts from a moment in between. A holding
that was taken in what Postgres forgot is over when that is lost; its token still counts.

Amid faults nobody need get a lock: a Postgres that went back in time gives none until it is
repaired. Once all faults are healed, each lock can be taken.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from tests.chaos.delivery.caller import PAUSE_S, Caller, Reply
from tests.simulation.delivery.forgetting import Forgetting

TAKEN_OVER = "a lock was taken whose holder had let its lease end"
AGAIN = "a lock was acquired again with its request id, and was held"
RENEWED = "a lock was renewed"
SITUATIONS = (TAKEN_OVER, AGAIN, RENEWED)
CONTENDERS = 3
FREE_AGAIN_S = 60.0
"""A lock can be taken within this time once all faults are healed. A repair takes some seconds."""
LOCKS = ("front", "back")
TTL_S = 1.5


@dataclass(slots=True)
class _Holding:
    lock: str
    token: int
    sent_s: float
    """The holder asked for it then, the last time if more than once."""
    answered_s: float
    until_s: float
    """The holding is certain until then, if Postgres forgot nothing."""
    released: bool = False


class Locked(Forgetting):
    name: ClassVar[str] = "locked"

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._holdings: dict[str, _Holding] = {}
        """The holdings have their lock ids as keys."""
        self._requests = 0

    def extras(self) -> list[Callable[[asyncio.Event], Awaitable[None]]]:
        return [partial(self._contend, number) for number in range(CONTENDERS)]

    async def _contend(self, number: int, published: asyncio.Event) -> None:
        caller = self.caller()
        while not published.is_set():
            await self._hold(caller, self.dice.choice(LOCKS), f"contender {number}")
            await asyncio.sleep(self.dice.uniform(0, 0.3))
        caller.close()

    async def _hold(self, caller: Caller, lock: str, holder: str) -> None:
        got = await self._acquire(caller, lock, holder)
        if got is None:
            return
        lock_id, holding = got
        for _ in range(self.dice.randint(0, 3)):
            await asyncio.sleep(self.dice.uniform(0.05, 0.6))
            reply = await caller.call("POST", f"/locks/{lock}:renew", {"lock_id": lock_id})
            if reply.status == 200:
                holding.until_s = max(holding.until_s, reply.sent_s + TTL_S)
                self.sometimes.hit(RENEWED)
            elif reply.status == 409:
                return
        if self.dice.random() < 0.3:
            return  # died with it
        holding.until_s = min(holding.until_s, time.monotonic())
        holding.released = True
        await caller.call("POST", f"/locks/{lock}:release", {"lock_id": lock_id})

    async def _acquire(self, caller: Caller, lock: str, holder: str) -> tuple[str, _Holding] | None:
        self._requests += 1
        body = {
            "ttl_seconds": TTL_S,
            "wait_seconds": self.dice.choice((0, 0.5, 3)),
            "holder": holder,
            "request_id": f"request {self._requests}",
        }
        reply = Reply(0, {}, 0.0)
        for attempt in range(3):
            reply = await caller.call("POST", f"/locks/{lock}:acquire", body)
            if reply.status == 200:
                self.sometimes.hit(AGAIN, attempt > 0)
                break
        if reply.status != 200:
            return None
        lock_id, token = reply.body["lock_id"], reply.body["fencing_token"]
        holding = _Holding(lock, token, reply.sent_s, reply.answered_s, reply.sent_s + TTL_S)
        self._judge(holding)
        if lock_id in self._holdings:
            self.broke(f"{lock}: a holding was given out twice, token {token}")
        self._holdings[lock_id] = holding
        return lock_id, holding

    def _judge(self, holding: _Holding) -> None:
        """The token must be above all that were answered before it was asked for."""
        before = [
            each
            for each in self._holdings.values()
            if each.lock == holding.lock and each.answered_s < holding.sent_s
        ]
        highest = max(before, key=lambda each: each.token, default=None)
        if highest is None:
            return
        if highest.token >= holding.token:
            self.broke(f"{holding.lock}: token {holding.token} after {highest.token}")
        self.sometimes.hit(TAKEN_OVER, not highest.released)

    async def check(self, caller: Caller) -> None:
        """Each lock can be taken, and no two holdings were certain at once."""
        for lock in LOCKS:
            await self._take_at_last(caller, lock)
        for lock in LOCKS:
            last = None
            for each in sorted(self._holdings.values(), key=lambda one: one.answered_s):
                if each.lock != lock or each.answered_s >= self._certain_until_s(each):
                    continue
                if last is not None and each.answered_s < self._certain_until_s(last):
                    self.broke(f"{last} and {each} at once")
                last = each

    async def _take_at_last(self, caller: Caller, lock: str) -> None:
        until_s = time.monotonic() + FREE_AGAIN_S
        while await self._acquire(caller, lock, "the last") is None:
            if time.monotonic() >= until_s:
                self.broke(f"{lock} could not be taken in {FREE_AGAIN_S:g} s without faults")
                return
            await asyncio.sleep(PAUSE_S)

    def _certain_until_s(self, holding: _Holding) -> float:
        lost_s = [
            each.lost_s
            for each in self.forgotten
            if holding.answered_s >= each.since_s and holding.sent_s <= each.lost_s
        ]
        return min([holding.until_s, *lost_s])

    def done(self) -> bool:
        return True
