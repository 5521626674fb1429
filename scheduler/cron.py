"""Makes the runs of schedules, each once.

What must be durable before what is said: a run's message is in the log, under the name of the run
(schedule, scheduled time), before its schedule moves past it in Postgres. The log remembers names
for a day: a scheduler that died in between, or does not know whether its append or its commit was
heard, does both again, and the message is found where it is.

Nothing is asked of Postgres while no run is near: the next one is known, and the change feed tells
of schedules that are made or changed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Protocol

import msgspec
import structlog

from metadata.errors import LeaseLost, MetadataError, NotFound
from metadata.locks import Lock
from metadata.schedules import DueSchedule, Progress
from metadata.types import Change, ChangeKind, Topic, TopicState
from outbox import Item, Placed, TopicFull
from scheduler import metrics
from scheduler.cron_plan import BadSchedule, Plan, plan
from store_nodes.errors import StoreError
from store_nodes.record_batch import Message

ATTRIBUTE_SCHEDULE = "packetboat-schedule"
ATTRIBUTE_TIME = "packetboat-scheduled-time"
READ_AT_ONCE = 200
MAKE_AT_ONCE = 16
APPEND_RUNS = 100
"""Of one schedule, before Postgres is told."""
MAX_WAIT_S = 30.0
AFTER_FAILURE_S = 1.0
MAX_BACKOFF_S = 30.0
MAX_FAILING = 10_000
"""Schedules whose next try waits; of more, those that failed first are tried at once."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_log = structlog.get_logger("packetboat.scheduler")
_message = msgspec.msgpack.Decoder(Message)


class Schedules(Protocol):
    """The part of `metadata.schedules.ScheduleRepository` that it uses; raises MetadataError."""

    async def due(self, limit: int, besides: Sequence[bytes] = ()) -> list[DueSchedule]: ...
    async def ran(self, lock: Lock, due: DueSchedule, progress: Progress) -> None: ...
    async def failed(self, lock: Lock, due: DueSchedule, failure: str) -> None: ...


class Topics(Protocol):
    """The part of `metadata.topics.TopicRepository` that it uses; raises MetadataError."""

    async def get_by_uid(self, tenant_id: bytes, uid: bytes) -> Topic: ...


class Publisher(Protocol):
    """The part of `outbox.Outbox` that it uses; raises TopicFull, StoreError."""

    async def append(self, topic: Topic, items: Sequence[Item]) -> list[Placed]: ...


class Cron:
    """One per process; `run` in one term of leadership at a time."""

    def __init__(
        self,
        schedules: Schedules,
        topics: Topics,
        outbox: Publisher,
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
        """A listener of the change feed."""
        if any(change.kind in (ChangeKind.SCHEDULE, ChangeKind.RESET) for change in changes):
            self._changed.set()

    async def run(self, lock: Callable[[], Lock]) -> None:
        """For ever. Raises LeaseLost."""
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
        """Makes what is due; how long nothing will be. Raises MetadataError."""
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
        gate = asyncio.Semaphore(MAKE_AT_ONCE)
        topics: dict[tuple[bytes, bytes], Topic] = {}

        async def make(one: DueSchedule) -> None:
            async with gate:
                await self._make(one, lock, topics)

        for result in await asyncio.gather(*map(make, due), return_exceptions=True):
            if result is not None:
                raise result

    async def _make(
        self,
        due: DueSchedule,
        lock: Callable[[], Lock],
        topics: dict[tuple[bytes, bytes], Topic],
    ) -> None:
        try:
            what = plan(due.cron, due.time_zone, due.missed_runs, due.next_at, self._wall())
            await self._carry_out(due, what, lock, topics)
        except LeaseLost:
            raise
        except (MetadataError, StoreError) as error:
            await self._failed(due, lock, f"{error.code}: {error}")
        except (TopicFull, BadSchedule) as error:
            await self._failed(due, lock, str(error))
        except Exception as error:
            # A fault of one schedule must not keep the others from running.
            _log.exception("a schedule failed", schedule=due.name)
            await self._failed(due, lock, f"internal error: {type(error).__name__}")
        else:
            self._failing.pop(due.uid, None)

    async def _carry_out(
        self,
        due: DueSchedule,
        what: Plan,
        lock: Callable[[], Lock],
        topics: dict[tuple[bytes, bytes], Topic],
    ) -> None:
        if not what.make:
            await self._note(due, Progress(what.then, 0, what.missed, None, None), lock)
            return
        topic = await self._topic(due, topics)
        missed = what.missed
        for low in range(0, len(what.make), APPEND_RUNS):
            runs = what.make[low : low + APPEND_RUNS]
            rest = what.make[low + APPEND_RUNS :]
            lock()
            placed = await self._outbox.append(topic, [run_of(due, at) for at in runs])
            then = rest[0] if rest else what.then
            progress = Progress(then, len(runs), missed, runs[-1], placed[-1].message_id)
            await self._note(due, progress, lock)
            now = self._wall()
            for at in runs:
                metrics.schedule_late_seconds.observe(max(0.0, (now - at).total_seconds()))
            if then is not None:
                due = due._replace(next_at=then)
            missed = 0

    async def _topic(self, due: DueSchedule, topics: dict[tuple[bytes, bytes], Topic]) -> Topic:
        key = (due.tenant_id, due.topic_uid)
        if key not in topics:
            topics[key] = await self._topics.get_by_uid(*key)
        if topics[key].state is not TopicState.ACTIVE:
            raise NotFound("topic", due.topic_uid.hex())
        return topics[key]

    async def _note(self, due: DueSchedule, progress: Progress, lock: Callable[[], Lock]) -> None:
        await self._schedules.ran(lock(), due, progress)
        metrics.schedule_runs.inc(progress.runs)
        metrics.schedule_missed.inc(progress.missed)

    async def _failed(self, due: DueSchedule, lock: Callable[[], Lock], failure: str) -> None:
        metrics.schedule_failures.inc()
        tries, _ = self._failing.pop(due.uid, (0, 0.0))
        wait_s = min(MAX_BACKOFF_S, AFTER_FAILURE_S * 2**tries)
        self._failing[due.uid] = (min(tries + 1, 10), self._monotonic_s() + wait_s)
        while len(self._failing) > MAX_FAILING:
            del self._failing[next(iter(self._failing))]
        try:
            await self._schedules.failed(lock(), due, failure)
        except LeaseLost:
            raise
        except MetadataError as error:
            _log.info("failure of a schedule not noted", schedule=due.name, error=str(error))


def run_of(due: DueSchedule, at: datetime) -> Item:
    """The message of a run, and its name: the same whenever the run is made."""
    message = _message.decode(due.message)
    shown = at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    attributes = {**(message.attributes or {}), ATTRIBUTE_SCHEDULE: due.name, ATTRIBUTE_TIME: shown}
    seconds = (at - EPOCH) // timedelta(seconds=1)
    name = b"schedule" + due.uid + seconds.to_bytes(8, "big")
    return Item(msgspec.structs.replace(message, attributes=attributes), name)
