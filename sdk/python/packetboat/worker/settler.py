"""Tells the server what became of messages: everything that was settled while the last request was
out goes with the next, again and again until it is confirmed or the lease is over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from packetboat.errors import Conflict, NotFound, PacketboatError
from packetboat.models import ItemFailure, Message, Settled
from packetboat.worker.calls import WorkerCalls
from packetboat.worker.held import Held, State
from packetboat.worker.outage import Backoff, is_passing
from packetboat.worker.outcomes import RELEASE, Settlement, Verb, reason_of

MAX_IDS = 1000
MAX_REQUESTS = 16
"""The limit of concurrent requests beside that of plain acks: a nack for each reason, an
ack for each message that publishes.
"""
MAX_PAUSE_S = 2.0
LATE_S = 60.0
"""Seconds after the end of a lease in which a message that was handled in time may still be
acked; at least once allows that.
"""
_log = logging.getLogger("packetboat.worker")


class Settler:
    """`put` never waits: what it holds is leased, and leases are bounded.

    `on_settled` is told of those that are confirmed, `on_lost` of each that was too late.
    """

    def __init__(
        self,
        calls: WorkerCalls,
        tasks: asyncio.TaskGroup,
        *,
        late_acks: bool,
        on_settled: Callable[[Sequence[Held], Verb], None],
        on_lost: Callable[[Held], None],
    ) -> None:
        self._calls = calls
        self._tasks = tasks
        self._late_s = LATE_S if late_acks else 0.0
        self._on_settled = on_settled
        self._on_lost = on_lost
        self._lanes: dict[Settlement, list[Held]] = {}
        self._requests = asyncio.Semaphore(MAX_REQUESTS)
        self._running: set[asyncio.Task[None]] = set()
        self._warned: set[str] = set()

    def put(self, held: Held, settlement: Settlement) -> None:
        """Nothing is said of a message whose lease is lost: it must not come here."""
        held.state = State.SETTLING
        held.let_go = settlement.verb in (Verb.NACK, Verb.RELEASE)
        if settlement.outputs:
            # One commit a message: those of others must not wait for what is wrong with this one.
            self._start(self._send([held], settlement))
            return
        lane = self._lanes.get(settlement)
        if lane is not None:
            lane.append(held)
            return
        self._lanes[settlement] = [held]
        self._start(self._empty(settlement))

    async def flush(self, timeout_s: float) -> bool:
        """Return whether all settlements were confirmed or given up in time; the others are
        dropped.
        """
        deadline_s = self._now() + timeout_s
        while self._running:
            if (left_s := deadline_s - self._now()) <= 0:
                for task in self._running:
                    task.cancel()
                return False
            await asyncio.wait(self._running, timeout=left_s)
        return True

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            task = self._tasks.create_task(work)
        except RuntimeError:  # The worker was cancelled: its leases run out.
            work.close()
            return
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _empty(self, settlement: Settlement) -> None:
        """Send equal settlements, one request at a time."""
        while self._lanes[settlement]:
            lane = self._lanes[settlement]
            batch, self._lanes[settlement] = lane[:MAX_IDS], lane[MAX_IDS:]
            if settlement.verb is Verb.ACK:
                await self._send(batch, settlement)
            else:
                async with self._requests:
                    await self._send(batch, settlement)
        del self._lanes[settlement]

    async def _send(self, batch: list[Held], settlement: Settlement) -> None:
        """Send a batch until each message is confirmed or given up."""
        backoff = Backoff(MAX_PAUSE_S)
        while batch := [held for held in batch if not held.lost and self._in_time(held)]:
            messages = [held.message for held in batch]
            try:
                settled = await self._call(messages, settlement)
            except PacketboatError as error:
                if is_passing(error):
                    await asyncio.sleep(backoff.pause_s(error))
                    continue
                self._refused(batch, settlement, error)
                return
            batch = self._answered(batch, messages, settlement, settled)
            if batch:
                await asyncio.sleep(backoff.pause_s(PacketboatError()))

    async def _call(self, messages: list[Message], settlement: Settlement) -> Settled:
        match settlement.verb:
            case Verb.ACK if settlement.outputs:
                async with self._requests:
                    return await self._calls.ack(messages, settlement.outputs)
            case Verb.ACK:
                return await self._calls.ack(messages)
            case Verb.NACK:
                return await self._calls.nack(messages, settlement.delay_s, settlement.reason)
            case Verb.REJECT:
                return await self._calls.reject(messages, settlement.reason)
            case Verb.RELEASE:
                return await self._calls.release(messages)

    def _answered(
        self,
        batch: list[Held],
        messages: list[Message],
        settlement: Settlement,
        settled: Settled,
    ) -> list[Held]:
        """Return the messages to send again."""
        failed = {failure.index: failure for failure in settled.failures}
        done = [held for index, held in enumerate(batch) if index not in failed]
        if done:
            self._on_settled(done, settlement.verb)
        again = []
        for index, failure in failed.items():
            held = batch[index]
            if failure.status >= 500 or held.message is not messages[index]:
                again.append(held)
            else:
                self._failed(held, settlement, failure)
        return again

    def _failed(self, held: Held, settlement: Settlement, failure: ItemFailure) -> None:
        if failure.slug != "lease-expired":
            self._warn(f"{settlement.verb.value} refused: {failure.slug} {failure.detail}")
        self._on_lost(held)

    def _refused(self, batch: list[Held], settlement: Settlement, error: PacketboatError) -> None:
        """The request as a whole: where outputs or a rejection are what is wrong, the attempt has
        failed; else the leases run out."""
        slug = getattr(error, "slug", "")
        if slug in ("lease-expired", "stale-ack-id", "not-delivered"):
            for held in batch:
                self._on_lost(held)
            return
        self._warn(f"{settlement.verb.value} refused: {error}")
        if settlement.outputs:
            self._instead(batch, Settlement(Verb.NACK, reason_of(error)))
        elif settlement.verb is Verb.REJECT and isinstance(error, Conflict):
            self._instead(batch, Settlement(Verb.NACK, settlement.reason))
        elif settlement.verb is Verb.NACK and not isinstance(error, NotFound):
            self._instead(batch, RELEASE)
        else:
            for held in batch:
                self._on_lost(held)

    def _instead(self, batch: list[Held], settlement: Settlement) -> None:
        for held in batch:
            self.put(held, settlement)

    def _in_time(self, held: Held) -> bool:
        if self._now() <= held.lease_end_s + self._late_s:
            return True
        self._on_lost(held)
        return False

    def _warn(self, text: str) -> None:
        """Each kind once: a thousand messages may say the same."""
        if text not in self._warned and len(self._warned) < MAX_IDS:
            self._warned.add(text)
            _log.warning("%s", text)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
