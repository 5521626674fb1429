"""Makes the runs of schedules, each once.

A run's message is in the log, under the name of the run (schedule, scheduled time), before its
schedule moves past it in Postgres. A round is one append for each topic (chunks of it if it is
large) and one statement for all. The log remembers names for a day: a scheduler that died in
between, or does not know whether its append or its commit took effect, does both again and learns
that the message is stored.

Nothing is asked of Postgres while no run is near, because the next one is known. The change feed
tells of schedules that are made or changed. It also tells of tenants that are suspended, whose
schedules wait, or active again: their missed runs are then made as each schedule says.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import NamedTuple

import structlog

from cron.plan import BadSchedule, plan
from metadata.errors import LeaseLost, MetadataError, NotFound, StatementRefused
from metadata.locks.locks import Lock
from metadata.topics.schedules import DueSchedule, Progress, ScheduleRepository
from metadata.topics.topics import TopicRepository
from metadata.types import Change, ChangeKind, Topic, TopicState
from outbox import Outbox, TopicFull
from scheduler import metrics
from scheduler.cron_round import Piece, Round
from store_nodes.errors import StoreError

READ_AT_ONCE = 200
MAKE_AT_ONCE = 16
"""Appends that run side by side."""
MAX_WAIT_S = 30.0
AFTER_FAILURE_S = 1.0
MAX_BACKOFF_S = 30.0
MAX_FAILING = 10_000
"""Schedules whose next try waits; beyond this, those that failed first are tried at once."""
_log = structlog.get_logger("packetboat.scheduler")
_TopicKey = tuple[bytes, bytes]


class Cron:
    """Makes runs; one per process. Call `run` in one term of leadership at a time."""

    def __init__(
        self,
        schedules: ScheduleRepository,
        topics: TopicRepository,
        outbox: Outbox,
        *,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._schedules = schedules
        self._topics = topics
        self._outbox = outbox
        self._wall = wall
        self._monotonic_s = monotonic_s
        self._changed = asyncio.Event()
        self._failing: dict[bytes, tuple[int, float]] = {}

    async def on_feed(self, changes: Sequence[Change]) -> None:
        """Learn of changes from the change feed."""
        kinds = (ChangeKind.SCHEDULE, ChangeKind.TENANT, ChangeKind.RESET)
        if any(change.kind in kinds for change in changes):
            self._changed.set()

    async def run(self, lock: Callable[[], Lock]) -> None:
        """Make runs until this is cancelled. Raises LeaseLost."""
        self._failing.clear()
        while True:
            self._changed.clear()
            try:
                wait_s = await self.round(lock)
            except LeaseLost:
                raise
            except MetadataError as error:
                metrics.failures.labels("schedules").inc()
                _log.info("schedules put off", error=f"{error.code}: {error}")
                wait_s = AFTER_FAILURE_S
            try:
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()
            except TimeoutError:
                pass

    async def round(self, lock: Callable[[], Lock]) -> float:
        """Make the runs that are due; return the seconds until the next. Raises MetadataError."""
        now_s = self._monotonic_s()
        waiting = [uid for uid, (_, at_s) in self._failing.items() if at_s > now_s]
        coming = await self._schedules.due(READ_AT_ONCE, waiting)
        now = self._wall()
        due = [one for one in coming if one.next_at <= now]
        if due:
            await self._make_all(due, lock)
            return 0.0
        retries = [self._failing[uid][1] - now_s for uid in waiting if uid in self._failing]
        next_s = (coming[0].next_at - now).total_seconds() if coming else MAX_WAIT_S
        return max(0.0, min(MAX_WAIT_S, next_s, *retries))

    async def _make_all(self, due: Sequence[DueSchedule], lock: Callable[[], Lock]) -> None:
        work, failed = Round(), _Failed()
        for one in due:
            with failed.noted(one):
                what = plan(one.cron, one.time_zone, one.missed_runs, one.next_at, self._wall())
                work.add(one, what)
            if work.full:
                break
            await asyncio.sleep(0)
        done = [_Done(one, one.progress(None)) for one in work.pieces if not one.items]
        by_topic: dict[_TopicKey, list[Piece]] = {}
        for piece in work.pieces:
            if piece.items:
                by_topic.setdefault((piece.due.tenant_id, piece.due.topic_uid), []).append(piece)
        at_once = asyncio.Semaphore(MAKE_AT_ONCE)
        ways = [self._publish(key, some, lock, at_once, failed) for key, some in by_topic.items()]
        for result in await asyncio.gather(*ways, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result
            done += result
        await self._note(done, lock, failed)
        await self._note_failed(failed, lock)

    async def _publish(
        self,
        key: _TopicKey,
        pieces: Sequence[Piece],
        lock: Callable[[], Lock],
        at_once: asyncio.Semaphore,
        failed: _Failed,
    ) -> list[_Done]:
        """Publish the runs of a topic together, except for schedules that failed before.

        If that fails, each schedule is tried alone, so that one (or the partition of one) does not
        keep the others from running.
        """
        together = [piece for piece in pieces if piece.due.uid not in self._failing]
        alone = [piece for piece in pieces if piece.due.uid in self._failing]
        done: list[_Done] = []
        try:
            async with at_once:
                topic = await self._topic(key)
        except LeaseLost:
            raise
        except MetadataError as error:
            for piece in pieces:
                failed.note(piece.due, error)
            return []
        try:
            async with at_once:
                done += await self._append(topic, together, lock)
        except LeaseLost:
            raise
        except TopicFull as error:
            for piece in pieces:
                failed.note(piece.due, error)
            return []
        except Exception as error:
            _log.info("runs are tried one by one", topic=topic.name, error=repr(error))
            alone = list(pieces)

        async def by_itself(piece: Piece) -> None:
            async with at_once:
                with failed.noted(piece.due):
                    done.extend(await self._append(topic, [piece], lock))

        for result in await asyncio.gather(*map(by_itself, alone), return_exceptions=True):
            if result is not None:
                raise result
        return done

    async def _append(
        self, topic: Topic, pieces: Sequence[Piece], lock: Callable[[], Lock]
    ) -> list[_Done]:
        if not pieces:
            return []
        lock()
        placed = iter(
            await self._outbox.append(topic, [item for piece in pieces for item in piece.items])
        )
        now, done = self._wall(), []
        for piece in pieces:
            where = [next(placed) for _ in piece.items]
            done.append(_Done(piece, piece.progress(where[-1].message_id)))
            for at in piece.runs:
                metrics.schedule_late_seconds.observe(max(0.0, (now - at).total_seconds()))
        return done

    async def _topic(self, key: _TopicKey) -> Topic:
        topic = await self._topics.get_by_uid(*key)
        if topic.state is not TopicState.ACTIVE:
            raise NotFound("topic", key[1].hex())
        return topic

    async def _note(self, done: Sequence[_Done], lock: Callable[[], Lock], failed: _Failed) -> None:
        """Note progress in one statement; if Postgres refuses it, note each schedule by itself."""
        if not done:
            return
        try:
            await self._schedules.ran(lock(), [(one.piece.due, one.progress) for one in done])
        except StatementRefused as error:
            if len(done) == 1:
                failed.note(done[0].piece.due, error)
                return
            for one in done:
                await self._note([one], lock, failed)
            return
        for one in done:
            self._failing.pop(one.piece.due.uid, None)
            metrics.schedule_runs.inc(one.progress.runs)
            metrics.schedule_missed.inc(one.progress.missed)

    async def _note_failed(self, failed: _Failed, lock: Callable[[], Lock]) -> None:
        metrics.schedule_failures.inc(len(failed.why))
        for due, _ in failed.why:
            tries, _ = self._failing.pop(due.uid, (0, 0.0))
            wait_s = min(MAX_BACKOFF_S, AFTER_FAILURE_S * 2**tries)
            self._failing[due.uid] = (min(tries + 1, 10), self._monotonic_s() + wait_s)
        while len(self._failing) > MAX_FAILING:
            del self._failing[next(iter(self._failing))]
        if not failed.why:
            return
        try:
            await self._schedules.failed(lock(), failed.why)
        except LeaseLost:
            raise
        except MetadataError as error:
            _log.info("failures of schedules not noted", count=len(failed.why), error=str(error))


class _Done(NamedTuple):
    piece: Piece
    progress: Progress


class _Failed:
    """Schedules whose runs cannot be made now, with the reasons."""

    def __init__(self) -> None:
        self.why: list[tuple[DueSchedule, str]] = []

    @contextmanager
    def noted(self, due: DueSchedule) -> Iterator[None]:
        """Note any failure of this schedule within, except for a lost lease."""
        try:
            yield
        except LeaseLost:
            raise
        except Exception as error:
            self.note(due, error)

    def note(self, due: DueSchedule, error: Exception) -> None:
        if isinstance(error, MetadataError | StoreError):
            self.why.append((due, f"{error.code}: {error}"))
        elif isinstance(error, TopicFull | BadSchedule):
            self.why.append((due, str(error)))
        else:
            # A fault of one schedule must not keep the others from running.
            _log.error("a schedule failed", schedule=due.name, exc_info=error)
            self.why.append((due, f"internal error: {type(error).__name__}"))
