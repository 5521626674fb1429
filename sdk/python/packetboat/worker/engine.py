"""One subscription's worker, from the first pull to the last ack.

A message is leased, waits (`Ready`), is handled by one of `concurrency` tasks, and is settled. All
of that is on one event loop; handlers that are plain functions run in threads.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from packetboat.errors import PacketboatError
from packetboat.models import Message
from packetboat.worker.attempts import Attempts
from packetboat.worker.calls import Lease, WorkerCalls
from packetboat.worker.events import WorkerEvents
from packetboat.worker.handlers import Handling
from packetboat.worker.held import Held, Hold, State
from packetboat.worker.leases import LeaseKeeper
from packetboat.worker.outage import Backoff, Outage, is_passing
from packetboat.worker.outcomes import RELEASE, Settlement, Verb
from packetboat.worker.pace import Latency, TokenBucket
from packetboat.worker.ready import Ready
from packetboat.worker.running import Stopping
from packetboat.worker.settings import WorkerSettings
from packetboat.worker.settler import Settler
from packetboat.worker.sources import PullSource, Source
from packetboat.worker.stream_source import StreamSource

LAST_ANSWER_S = 0.2
"""Seconds for which a pull in progress may still be answered after the worker was told to stop."""
FLUSH_S = 10.0
FLUSH_AT_ONCE_S = 1.0
_log = logging.getLogger("packetboat.worker")


class Engine:
    """`run` once. It ends when `stopping` says so, or raises what will not pass."""

    def __init__(
        self,
        calls: WorkerCalls,
        subscription: str,
        settings: WorkerSettings,
        handling: Handling,
        events: WorkerEvents,
        stopping: Stopping,
    ) -> None:
        self._calls = calls
        self._subscription = subscription
        self._settings = settings
        self._handling = handling
        self._events = events
        self._stopping = stopping
        self._latency = Latency()
        self._hold = Hold(settings, self._latency)
        self._ready = Ready(by_key=settings.order_by_key)
        self._outage = Outage(subscription, events, self._now)
        self._attempts = Attempts(
            handling, settings, subscription, stopping, events, self._latency, self._end
        )
        rate = settings.messages_per_second
        self._bucket = None if rate is None else TokenBucket(rate, self._now())
        self._lease_s = 0.0
        self._finish_all = False
        """True if the subscription is at most once: its messages were acked before they
        were delivered.
        """
        self._receiving = True
        self._going_back: list[Held] = []
        self._settler: Settler

    async def run(self) -> None:
        lease = await self._describe()
        if lease is None:
            return
        self._finish_all = lease.delivery == "at_most_once"
        if self._finish_all and self._handling.stream_task is not None:
            raise ValueError(f"{self._subscription} is at_most_once: it has no acks that publish")
        self._lease_s = lease.ack_deadline_seconds
        error = None
        try:
            async with asyncio.TaskGroup() as tasks:
                self._settler = self._settler_of(tasks, lease)
                keeper = tasks.create_task(self._keeper().run())
                workers = {
                    tasks.create_task(self._work()) for _ in range(self._settings.concurrency)
                }
                error = await self._receive()
                self._stopping.ask_once()
                await self._drain(workers)
                keeper.cancel()
        finally:
            self._handling.close()
        if error is not None:
            raise error

    async def _describe(self) -> Lease | None:
        """Return the subscription's settings; None if the worker was told to stop before
        the server answered.
        """
        backoff = Backoff()
        while not self._stopping.asked:
            try:
                lease = await self._calls.describe()
            except PacketboatError as error:
                if not (is_passing(error) or self._settings.wait_if_refused):
                    raise
                self._outage.failed(error)
                await self._pause(backoff.pause_s(error))
            else:
                self._outage.answered()
                return lease
        return None

    def _settler_of(self, tasks: asyncio.TaskGroup, lease: Lease) -> Settler:
        return Settler(
            self._calls,
            tasks,
            late_acks=lease.delivery == "at_least_once",
            on_settled=self._settled,
            on_lost=self._lost,
        )

    def _keeper(self) -> LeaseKeeper:
        return LeaseKeeper(
            self._calls,
            self._hold,
            self._latency,
            self._lease_s,
            self._settings.max_lease_s,
            on_lost=self._lost,
            on_extended=lambda count: self._events.extended(self._subscription, count),
        )

    def _source(self) -> Source:
        kind = StreamSource if self._settings.source == "stream" else PullSource
        return kind(
            self._calls,
            self._hold,
            self._take,
            self._outage,
            self._stopping,
            wait_if_refused=self._settings.wait_if_refused,
        )

    async def _receive(self) -> PacketboatError | None:
        """Receive messages until the worker is told to stop; return the error that ended it
        before, if any.
        """
        source = self._source()
        running = asyncio.ensure_future(source.run())
        told = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({running, told}, return_when=asyncio.FIRST_COMPLETED)
            if not self._finish_all:
                self._ready.close()
            if not running.done() and source.on_its_way and not self._stopping.at_once:
                await asyncio.wait({running}, timeout=LAST_ANSWER_S)
        finally:
            running.cancel()
            told.cancel()
            (ended, _) = await asyncio.gather(running, told, return_exceptions=True)
        if isinstance(ended, PacketboatError):
            return ended
        if isinstance(ended, Exception):
            raise ended
        return None

    def _take(self, messages: Sequence[Message]) -> None:
        now_s = self._now()
        for message in messages:
            before = self._hold.find(message.message_id)
            if before is not None and before.let_go:
                # It came again before the answer to its nack or release, which has taken effect,
                # or whose lease had ended: nothing more is said of that lease.
                before.lost = True
            elif before is not None and self._goes_on(before, now_s):
                before.renew(message, self._lease_s, now_s)
                continue
            held = Held(message, self._lease_s, now_s)
            self._hold.add(held)
            self._ready.put(held)
        if messages:
            self._events.received(self._subscription, len(messages))

    def _goes_on(self, before: Held, now_s: float) -> bool:
        """Return whether the new lease of a message that is delivered again, while we hold
        it, continues the old one; not if the message was given up.
        """
        given_up = now_s - before.taken_s >= self._settings.max_lease_s
        if given_up and not before.lost and before.state is not State.SETTLING:
            self._lost(before)
        return not before.lost

    async def _work(self) -> None:
        settings = self._settings
        while True:
            await self._handling.free()
            batch = await self._ready.take(settings.batch_size, settings.batch_wait_s)
            if not batch:
                return
            if await self._may_begin(len(batch)):
                await self._attempts.make(batch)
                continue
            for held in batch:
                self._end(held, RELEASE)

    async def _may_begin(self, count: int) -> bool:
        """Wait until the rate allows `count` messages; return False if the worker stops
        meanwhile.
        """
        if self._bucket is None:
            return True
        wait_s = self._bucket.take(count, self._now())
        return not wait_s or not await self._pause(wait_s)

    async def _pause(self, seconds: float) -> bool:
        """Wait; return whether the worker was told to stop meanwhile."""
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return False
        return True

    def _end(self, held: Held, settlement: Settlement) -> None:
        """A handler is done with it, or none that took it will begin."""
        self._ready.done(held)
        self._settle(held, settlement)

    def _settle(self, held: Held, settlement: Settlement) -> None:
        if settlement is RELEASE and self._stopping.asked and self._receiving:
            self._going_back.append(held)  # Not now, or our own last pull would get it.
        elif held.lost or not held.ack_id:
            self._hold.discard(held)
        else:
            self._settler.put(held, settlement)

    def _settled(self, settled: Sequence[Held], verb: Verb) -> None:
        for held in settled:
            self._hold.discard(held)
        self._events.settled(self._subscription, verb, len(settled))

    def _lost(self, held: Held) -> None:
        held.lost = True
        self._events.lease_lost(self._subscription, held.message.message_id)
        if held.state is not State.RUNNING:
            self._hold.discard(held)
        elif self._settings.cancel_lost and held.scope is not None:
            held.scope.reschedule(self._now())

    async def _drain(self, workers: set[asyncio.Task[None]]) -> None:
        """Wait for handlers to end, then report all settlements to the server.

        Messages that no handler began with are released at once; but messages that are at most once
        were acked when they came, and are handled, too.
        """
        self._receiving = False
        self._ready.close(keep=self._finish_all)
        self._going_back += [] if self._finish_all else self._ready.clear()
        for held in self._going_back:
            self._settle(held, RELEASE)
        at_once = asyncio.ensure_future(self._stopping.wait_at_once())
        deadline_s = self._now() + self._settings.drain_s
        while workers and not at_once.done() and (left_s := deadline_s - self._now()) > 0:
            await asyncio.wait(
                {*workers, at_once}, timeout=left_s, return_when=asyncio.FIRST_COMPLETED
            )
            workers = {worker for worker in workers if not worker.done()}
        if workers:
            _log.warning("%s: %d handlers did not end in time", self._subscription, len(workers))
            for worker in workers:
                worker.cancel()
            await asyncio.wait(workers)
        timeout_s = FLUSH_AT_ONCE_S if at_once.done() else FLUSH_S
        at_once.cancel()
        if not await self._settler.flush(timeout_s):
            _log.warning(
                "%s: %d messages are not settled; they will be delivered again",
                self._subscription,
                len(self._hold),
            )

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
