"""Keeps the leases of what this worker has, for as long as it has it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from packetboat.errors import PacketboatError
from packetboat.models import ItemFailure, Message
from packetboat.worker.calls import WorkerCalls
from packetboat.worker.held import Held, Hold, State
from packetboat.worker.pace import Latency

MAX_EXTENSION_S = 60.0
"""The limit of an extension in seconds, unless the subscription's own deadline is longer.

The messages of a worker that dies wait up to this limit for another worker.
"""
MAX_IDS = 1000
MIN_TICK_S = 0.02
MAX_TICK_S = 1.0
_log = logging.getLogger("packetboat.worker")


class LeaseKeeper:
    """Extends messages at half of their lease, and reports ended leases as lost.

    A lease is over when the server says so, when it could not be extended in time, or when the
    message was here for `max_lease_s`. Once the handler of a message has ended, the settler reports
    its lease.
    """

    def __init__(
        self,
        calls: WorkerCalls,
        hold: Hold,
        latency: Latency,
        lease_s: float,
        max_lease_s: float,
        *,
        on_lost: Callable[[Held], None],
        on_extended: Callable[[int], None],
    ) -> None:
        self._calls = calls
        self._hold = hold
        self._latency = latency
        self._lease_s = lease_s
        self._max_lease_s = max_lease_s
        self._on_lost = on_lost
        self._on_extended = on_extended

    async def run(self) -> None:
        tick_s = min(MAX_TICK_S, max(MIN_TICK_S, self._lease_s / 10))
        while True:
            await asyncio.sleep(tick_s)
            self._give_up()
            if due := self._due(tick_s):
                await self._extend(due)

    def extension_s(self) -> float:
        """Twice what nearly all handlers take: a slow handler's lease is extended seldom."""
        longest_s = max(self._lease_s, MAX_EXTENSION_S)
        return min(longest_s, max(self._lease_s, 2 * self._latency.p99_s()))

    def _due(self, tick_s: float) -> list[Held]:
        """Return the messages at half of their lease, and those that reach it by the next
        tick, for one request.
        """
        now_s = self._now()
        horizon_s = now_s + self._lease_s / 2 + tick_s
        oldest_s = now_s - self._max_lease_s
        return [
            held
            for held in self._hold
            if not held.lost and held.lease_end_s <= horizon_s and held.taken_s > oldest_s
        ]

    def _give_up(self) -> None:
        now_s = self._now()
        for held in [held for held in self._hold if held.lease_end_s <= now_s]:
            self._lose(held)

    def _lose(self, held: Held) -> None:
        if not held.lost and held.state is not State.SETTLING:
            self._on_lost(held)

    async def _extend(self, due: Sequence[Held]) -> None:
        seconds = self.extension_s()
        for at in range(0, len(due), MAX_IDS):
            part = due[at : at + MAX_IDS]
            messages = [held.message for held in part]
            sent_s = self._now()
            try:
                async with asyncio.timeout(self._lease_s / 4):
                    settled = await self._calls.extend(messages, seconds)
            except (PacketboatError, TimeoutError) as error:
                _log.debug("leases are not extended yet: %s", error)
                return  # The next tick tries again; a lease that stays so is lost when it ends.
            self._extended(part, messages, settled.failures, sent_s + seconds)

    def _extended(
        self,
        part: Sequence[Held],
        messages: Sequence[Message],
        failures: Sequence[ItemFailure],
        lease_end_s: float,
    ) -> None:
        failed = {failure.index: failure for failure in failures}
        for index, held in enumerate(part):
            if held.message is not messages[index]:
                continue  # Delivered to us anew meanwhile.
            if index not in failed:
                held.lease_end_s = lease_end_s
            elif failed[index].status == 409:
                self._lose(held)
        self._on_extended(len(part) - len(failed))

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
