"""Releases messages that are due.

The log decides: a release too early, twice or by two schedulers changes nothing.

One release per queue is under way at a time, and the next begins no sooner than `LEAST_APART_S`
after it; messages that are due meanwhile go in the next one. So an idle queue does not wait and a
busy one batches, and the cost of a message does not depend on how many others are pending.
"""

from __future__ import annotations

import asyncio

import structlog

from metadata.errors import MetadataError
from scheduler import metrics
from scheduler.forwarding import NOT_DUE, Forwarding
from scheduler.pending import StagedQueue
from scheduler.term import Term
from scheduler.window import Window
from store_nodes.client import StoreClient
from store_nodes.errors import QueueNotFound, QueueSealed, StoreError

RELEASE_AT_ONCE = 1000
LEAST_APART_S = 0.01
RETRY_FIRST_S = 0.02
RETRY_MAX_S = 0.5
NOT_YET_US = 5_000
NOT_YET_MAX_US = 500_000
"""Bounds of the wait before a message that the log calls not due is tried again.

It is tried once it is twice as late by our clock, within these bounds. So a log whose time stands
still is not asked without pause.
"""
STALE_US = 1_000_000
"""Lateness by our clock after which a message that the log calls not due was rescheduled."""
MAX_SLEEP_S = 0.25
"""Seconds after which the log's time is read again: it may go faster than our clock, or jump."""
_log = structlog.get_logger("packetboat.scheduler")


class Releasing:
    """Waits for due messages: a task for each group, and one for each queue with some that are
    due.
    """

    def __init__(
        self,
        store: StoreClient,
        window: Window,
        forwarding: Forwarding,
        term: Term,
        timeout_s: float,
    ) -> None:
        self._store = store
        self._window = window
        self._forwarding = forwarding
        self._term = term
        self._timeout_s = timeout_s
        self._wakes: dict[int, asyncio.Event] = {}

    def follow(self, group: int) -> None:
        """Release the messages of a group that become due, from now on."""
        if group not in self._wakes:
            wake = self._wakes[group] = asyncio.Event()
            self._term.spawn(self._run(group, wake))

    def wake(self, group: int) -> None:
        """Check a group again, because its first message is another one."""
        wake = self._wakes.get(group)
        if wake is not None:
            wake.set()

    async def _run(self, group: int, wake: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        clock, heap = self._store.clock(group), self._window.heap(group)
        while True:
            wake.clear()
            for queue in heap.pop_due(clock.now_us()):
                if not queue.busy:
                    queue.busy = True
                    self._term.spawn(self._release(queue))
            next_us = heap.next_us()
            wait_s = MAX_SLEEP_S if next_us is None else (next_us - clock.now_us()) / 1e6
            if wait_s > 0:
                timer = loop.call_later(min(wait_s, MAX_SLEEP_S), wake.set)
                try:
                    await wake.wait()
                finally:
                    timer.cancel()

    async def _release(self, queue: StagedQueue) -> None:
        delay_s = RETRY_FIRST_S
        loop = asyncio.get_running_loop()
        try:
            while queue.ready and not queue.gone:
                wait_s = queue.released_s + LEAST_APART_S - loop.time()
                if wait_s > 0:
                    await asyncio.sleep(wait_s)
                queue.released_s = loop.time()
                numbers = _take_ready(queue)
                try:
                    left = await self._release_some(queue, numbers)
                except QueueNotFound:
                    self._window.forget(queue)
                    return
                except (StoreError, MetadataError) as error:
                    metrics.release_failed.labels(type(error).__name__).inc()
                    _log.info("release put off", queue=str(queue.id), error=str(error))
                    left = numbers
                if not left:
                    delay_s = RETRY_FIRST_S
                    continue
                queue.ready.extendleft(reversed(left))
                await asyncio.sleep(delay_s)
                delay_s = min(2 * delay_s, RETRY_MAX_S)
        finally:
            queue.busy = False

    async def _release_some(self, queue: StagedQueue, numbers: list[int]) -> list[int]:
        """Release messages; return those that are still to be released."""
        try:
            offsets = await self._store.release(
                queue.group, queue.id, numbers, timeout_s=self._timeout_s
            )
        except QueueSealed as sealed:
            done, not_due = await self._forwarding.forward(queue, numbers, sealed.successors)
            now_us = self._store.clock(queue.group).now_us()
            for number in done:
                self._window.removed(queue, number)
            for number in not_due:
                await self._not_due(queue, number, now_us)
            return [n for n in numbers if n not in done and n not in not_due]
        metrics.releases.inc()
        now_us = self._store.clock(queue.group).now_us()
        for number, offset in zip(numbers, offsets, strict=True):
            if offset == NOT_DUE:
                await self._not_due(queue, number, now_us)
                continue
            known = queue.due.get(number)
            if offset is not None and known is not None:
                metrics.released.inc()
                metrics.late_seconds.observe(max(0, now_us - known[0]) / 1e6)
            self._window.removed(queue, number)
        return []

    async def _not_due(self, queue: StagedQueue, number: int, now_us: int) -> None:
        known = queue.due.get(number)
        if known is None:
            return
        due_us = known[0]
        if now_us - due_us > STALE_US:
            page = await self._store.staged(
                queue.group, queue.id, number - 1, 1, timeout_s=self._timeout_s
            )
            times = {info.stage_number: info.due_us for info in page.staged}
            now_due_us = times.get(number)
            if now_due_us is None:
                # it was discarded, or is held without a time now
                self._window.removed(queue, number)
                return
            if now_due_us != due_us:
                self._window.learned(queue, number, now_due_us, fresh=False)
                return
        heap = self._window.heap(queue.group)
        wait_us = min(max(now_us - due_us, NOT_YET_US), NOT_YET_MAX_US)
        heap.add(queue, number, due_us, not_before_us=now_us + wait_us)
        self.wake(queue.group)


def _take_ready(queue: StagedQueue) -> list[int]:
    count = min(len(queue.ready), RELEASE_AT_ONCE)
    return [queue.ready.popleft() for _ in range(count)]
