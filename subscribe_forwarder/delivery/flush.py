"""Makes acks durable: one statement per flush, for every cursor that changed.

Invariant: an ack is answered 200 only after the COMMIT of a flush that began after the ack was
applied to its cursor. A flush takes every cursor changed since the last one began, so a lone ack
waits for nothing and a busy forwarder shares each flush among hundreds; there is no timer between,
but for some milliseconds where a wait costs consumers little (flush_pace.py). Progress that nobody
waits for (deliveries, expiries) goes with the next flush, or within a second.

A row that was not written has lost its epoch or its generation. A flush whose COMMIT never answered
may have happened, or may still happen. Both freeze their partitions: nothing is delivered and no
ack answered there until the owner has claimed them again, which fences statements that are under
way.

A cursor that Postgres refuses to hold, or that contradicts itself in memory, is frozen alone, and
the others go through without it; claimed again, it is read anew where memory is out of order.
Cursors that do not balance are an alert, not an end: they are written, counted and logged
(unbalanced.py).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

import structlog

from edge import failpoints
from edge.problem import Problem
from metadata.delivery.cursors import CursorRepository
from metadata.errors import (
    MetadataError,
    MetadataUnavailable,
    OutcomeUnknown,
    StatementRefused,
)
from metadata.types import CursorKey, CursorUpdate, Unit
from subscribe_forwarder import metrics
from subscribe_forwarder.delivery.flush_pace import AckGathering, FlushPace
from subscribe_forwarder.delivery.listeners import Listeners
from subscribe_forwarder.delivery.reader import Reader
from subscribe_forwarder.delivery.state.cursor import CursorDamaged
from subscribe_forwarder.delivery.state.ledger import Ledger
from subscribe_forwarder.delivery.unbalanced import UnbalancedCursors

RETRY_S = 0.25
MAX_RETRY_S = 2.0
Commit = Callable[[Iterable[Reader]], Awaitable[None]]
"""Returns once the changes of these readers are committed; raises a 503 Problem."""
_log = structlog.get_logger("packetboat.subscribe")


def ack_unavailable(detail: str, what: str = "ack") -> Problem:
    """503: the ack, or whatever was asked for, may take effect later; repeating it is safe."""
    return Problem.of(
        "ack-not-durable",
        f"{detail} The {what} may or may not take effect; send it again.",
        retry_after_s=1.0,
        extra={"outcome": "unknown"},
    )


class _Round:
    """One flush to come, and everyone who waits for it."""

    __slots__ = ("done", "gathers", "messages", "waited_for")

    def __init__(self) -> None:
        """Begin a flush that is still to come."""
        self.done: asyncio.Future[dict[CursorKey, str]] = asyncio.get_running_loop().create_future()
        self.waited_for: dict[CursorKey, Reader] = {}
        self.messages = 0
        """The number of messages whose acks are in it."""
        self.gathers = True
        """Whether it has nothing but acks, so that it may wait for more of them."""


class AckFlusher:
    """Runs one loop for all partitions of the process; flushes never overlap."""

    def __init__(
        self,
        cursors: CursorRepository,
        freeze: Callable[[Iterable[Unit]], None],
        *,
        timeout_s: float,
        lazy_s: float,
        on_ready: Callable[[Sequence[Reader]], None] | None = None,
        listeners: Listeners | None = None,
    ) -> None:
        self.unbalanced = UnbalancedCursors()
        self._cursors = cursors
        self._freeze = freeze
        self._listeners = listeners or Listeners()
        self._timeout_s = timeout_s
        self._lazy_s = lazy_s
        self._on_ready = on_ready
        """Called with the readers that may deliver messages that waited for a flush."""
        self._pace = FlushPace()
        self._gathering = AckGathering()
        self._flushing = False
        self._wanted = False
        self._urgent = False
        """A message waits for the next flush to be delivered again."""
        self._next: _Round | None = None
        self._changed: dict[CursorKey, Reader] = {}
        self._wake = asyncio.Event()
        self._lazy: asyncio.TimerHandle | None = None
        self._soon: asyncio.TimerHandle | None = None
        self._retry_s = 0.0
        self._closing = False
        self._closed = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    def note(self, tracked: Reader) -> None:
        """Have a changed cursor flushed, for which nobody waits.

        It is written soon, or at once if a message waits for that to be delivered again.
        """
        self._changed[tracked.cursor.key] = tracked
        if tracked.ledger.urgent:
            self._urgent = True
            self._want()
        elif self._lazy is None:
            loop = asyncio.get_running_loop()
            self._lazy = loop.call_later(self._lazy_s, self._lazy_is_due)

    def forget(self, tracked: Reader) -> None:
        """Forget a cursor whose partition or subscription is no longer ours."""
        self._changed.pop(tracked.cursor.key, None)
        self.unbalanced.forget(tracked.cursor.key)

    async def commit(
        self, all_tracked: Iterable[Reader], what: str = "ack", *, acked: int | None = None
    ) -> None:
        """Return once all that these ledgers hold now is committed; raise a 503 Problem otherwise.

        The Problem says that the outcome of `what` is unknown. Cancelling the caller cancels
        nothing of the flush. `acked` is the number of messages that were acked; the flush of acks
        may wait for others (flush_pace.py).
        """
        wanted = [
            (tracked, tracked.cursor, tracked.cursor.version)
            for tracked in all_tracked
            if tracked.cursor.dirty
        ]
        while wanted:
            joined = self._join([tracked for tracked, _, _ in wanted], what, acked)
            failed = await asyncio.shield(joined)
            # The holder may have a new cursor by now: only what these very cursors wrote counts.
            wanted = [one for one in wanted if one[1].flushed_version < one[2]]
            for tracked, cursor, _ in wanted:
                if cursor.key in failed or tracked.cursor is not cursor:
                    detail = failed.get(cursor.key, "The partition changed hands.")
                    raise ack_unavailable(detail, what)

    def _join(
        self, dirty: Sequence[Reader], what: str, acked: int | None
    ) -> asyncio.Future[dict[CursorKey, str]]:
        """Return the future of the next flush, with these cursors in it; raise a 503 Problem."""
        if self._closed:
            raise ack_unavailable("This forwarder has stopped.", what)
        if any(tracked.frozen for tracked in dirty):
            raise ack_unavailable("The ownership of the partition is being checked.", what)
        round_ = self._next
        if round_ is None:
            round_ = self._next = _Round()
        for tracked in dirty:
            round_.waited_for[tracked.cursor.key] = tracked
        if acked is None:
            round_.gathers = False
        else:
            round_.messages += acked
        self._want()
        return round_.done

    def _want(self) -> None:
        """Start the next flush as soon as its pace allows."""
        self._wanted = True
        if self._flushing:
            return  # asked again at its end
        round_ = self._next
        wait_s = self._pace.wait_s(1 if round_ is None else len(round_.waited_for))
        if wait_s <= 0 and round_ is not None and round_.gathers and not self._urgent:
            wait_s = self._gathering.wait_s(round_.messages)
        if wait_s <= 0:
            self._wake.set()
        elif self._soon is None:
            self._soon = asyncio.get_running_loop().call_later(wait_s, self._wake.set)

    async def close(self, deadline_s: float) -> None:
        """Writes what is left, for at most that long, and ends the loop."""
        self._closing = True
        self._wake.set()
        if self._task is None:
            self._closed = True
            return
        _, late = await asyncio.wait({self._task}, timeout=deadline_s)
        for task in late:
            task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        for timer in (self._lazy, self._soon):
            if timer is not None:
                timer.cancel()

    def _lazy_is_due(self) -> None:
        self._lazy = None
        self._wake.set()

    async def _run(self) -> None:
        """Flush whenever it is wanted, until the flusher is closed."""
        try:
            while not self._closing or self._next is not None or self._changed:
                if not self._closing:
                    await self._wake.wait()
                self._wake.clear()
                failed = await self._round()
                if failed and self._closing:
                    return
                if self._wanted:
                    self._want()
                if self._retry_s:
                    await asyncio.sleep(self._retry_s)
        finally:
            self._closed = True
            if self._next is not None:
                self._next.done.set_result(
                    dict.fromkeys(self._next.waited_for, "This forwarder has stopped.")
                )

    async def _round(self) -> dict[CursorKey, str]:
        """Flush all changes once, and wake all callers that wait for it."""
        assert not self._flushing, "two flushes at once"
        round_ = self._next or _Round()
        self._next = None
        self._flushing, self._wanted, self._urgent = True, False, False
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        work = (self._changed | round_.waited_for).values()
        self._changed = {}
        failed = {
            tracked.cursor.key: "The ownership of the partition is being checked."
            for tracked in work
            if tracked.frozen
        }
        try:
            failed |= await self._flush(
                [tracked for tracked in work if not tracked.frozen and tracked.cursor.dirty]
            )
        except BaseException:
            failed |= {tracked.cursor.key: "The flush ended." for tracked in work}
            raise
        finally:
            self._flushing = False
            self._pace.ended(round_.waited_for)
            if round_.messages:
                self._gathering.ended(round_.messages)
            round_.done.set_result(failed)
        return failed

    async def _flush(self, work: Sequence[Reader]) -> dict[CursorKey, str]:
        """Write the changes of cursors; return the reason for each cursor that failed."""
        failed: dict[CursorKey, str] = {}
        sound: list[Reader] = []
        updates: list[CursorUpdate] = []
        for tracked in work:
            try:
                updates.append(tracked.ledger.update())
                sound.append(tracked)
            except (CursorDamaged, AssertionError) as error:
                failed |= self.set_aside(tracked, error, "damaged")
        return failed | await self._write(sound, updates) if sound else failed

    async def _write(
        self, work: Sequence[Reader], updates: Sequence[CursorUpdate]
    ) -> dict[CursorKey, str]:
        """Write updates in one statement, and handle its failure or unknown outcome."""
        ledgers = [tracked.ledger for tracked in work]
        started_s = time.perf_counter()
        try:
            async with asyncio.timeout(self._timeout_s):
                written = await self._cursors.flush(failpoints.passing("flush.update", updates))
        except MetadataUnavailable:
            return self._again(work, "unavailable")
        except (OutcomeUnknown, TimeoutError):
            return self._unknown(work)
        except StatementRefused as error:
            return await self._refused(work, error)
        except MetadataError as error:
            _log.error("ack flush failed", error=repr(error))
            return self._again(work, "error")
        except Exception as error:
            # A fault of ours or of the driver's must not end the loop: no ack would be answered
            # any more, by a process that goes on to own its partitions.
            _log.error("ack flush failed", exc_info=error)
            return self._unknown(work)
        self._retry_s = 0.0
        metrics.flush_seconds.observe(time.perf_counter() - started_s)
        metrics.flush_rows.observe(len(work))
        return self._written(work, ledgers, updates, written)

    def _written(
        self,
        work: Sequence[Reader],
        ledgers: Sequence[Ledger],
        updates: Sequence[CursorUpdate],
        written: Mapping[CursorKey, int],
    ) -> dict[CursorKey, str]:
        """Tell ledgers of the commit; freeze units whose row has a later owner's epoch."""
        failed: dict[CursorKey, str] = {}
        ready: list[Reader] = []
        lost: set[Unit] = set()
        for tracked, ledger, update in zip(work, ledgers, updates, strict=True):
            difference = written.get(update.key)
            if difference is not None:
                self.unbalanced.flushed(update.key, difference)
                self._listeners.worked(update.key.subscription_uid)
                if ledger.wrote(update):
                    ready.append(tracked)
                if ledger.urgent and tracked.ledger is ledger:
                    self.note(tracked)  # more than one flush carries
                continue
            failed[update.key] = "The partition changed hands."
            if tracked.frozen or tracked.ledger is not ledger:
                continue
            if ledger.cursor.epoch == update.epoch:
                lost.add(tracked.partition)
            else:
                self.note(tracked)  # claimed again meanwhile: the next flush has the new epoch
        if lost:
            metrics.flush_failed.labels("lost_epoch").inc()
            self._freeze(lost)
        if ready and self._on_ready is not None:
            self._on_ready(ready)
        return failed

    async def _refused(
        self, work: Sequence[Reader], error: StatementRefused
    ) -> dict[CursorKey, str]:
        """Find the row that breaks a rule of the table by flushing each alone, and freeze
        its cursor.
        """
        if len(work) == 1:
            return self.set_aside(work[0], error, "refused")
        failed: dict[CursorKey, str] = {}
        for tracked in work:
            if tracked.cursor.dirty and not tracked.frozen:
                failed |= await self._flush([tracked])
        return failed

    def set_aside(self, tracked: Reader, error: Exception, how: str) -> dict[CursorKey, str]:
        """Freeze this cursor only, until its partition is claimed again: a rule of the table, or a
        contradiction in memory, forbids to write its row.
        """
        metrics.flush_failed.labels(how).inc()
        key = tracked.cursor.key
        _log.error("cursor refused", key=_names(key), how=how, error=repr(error))
        self.unbalanced.refused(key)
        tracked.frozen = True
        if how == "refused":
            return {key: "The metadata store refuses the row."}
        return {key: "The known state of the partition contradicts itself."}

    def _unknown(self, work: Sequence[Reader]) -> dict[CursorKey, str]:
        """Handle cursors that may be written, now or later."""
        metrics.flush_failed.labels("unknown").inc()
        self._freeze({tracked.partition for tracked in work})
        return {tracked.cursor.key: "Its commit was not answered." for tracked in work}

    def _again(self, work: Sequence[Reader], how: str) -> dict[CursorKey, str]:
        """Note that a flush wrote nothing: the next flush tries the same again."""
        metrics.flush_failed.labels(how).inc()
        self._retry_s = min(MAX_RETRY_S, max(RETRY_S, 2 * self._retry_s))
        for tracked in work:
            if not tracked.frozen:
                self._changed.setdefault(tracked.cursor.key, tracked)
        self._wake.set()
        return {t.cursor.key: "The metadata store does not answer." for t in work}


def _names(key: CursorKey) -> str:
    return f"{key.subscription_uid.hex()}/{key.partition}/{key.lane}"
