"""Publishes dead letters again, as redrives ask: the scheduler's third job.

A redrive goes over its subscription's dead letters, oldest first. The steps for a batch, in this
order:

    append                           under names made of the letters' uids, so each is stored once,
                                     also when a scheduler dies after it
    letters redriven, counters up    one transaction that checks the lock, which also tells whether
                                     the redrive was cancelled meanwhile

A crash between them repeats the append. A dead letter that can't be redriven (its message is stored
no more) stays open and is counted. One that can't be redriven now (no room, no leader) is tried
until it can, and the redrive says why it waits.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import NamedTuple

import structlog

from edge.expressions import BadExpression
from edge.slices import Slices
from metadata.errors import LeaseLost, MetadataError, NotFound
from metadata.idle_poll import IdlePoll
from metadata.locks.locks import Lock
from metadata.subscriptions.dead_letters import START, DeadLetterRepository, StoredDeadLetter
from metadata.subscriptions.redrives import Redrive, RedriveRepository, Unfinished
from metadata.topics.topics import TopicRepository
from metadata.types import Topic, TopicState
from openapi.dead_letters import RedriveState
from outbox import Item, Outbox, TopicFull
from outbox.dead_letter import revived
from outbox.dead_letter_filter import compile_filter
from outbox.reading import Stored, read
from scheduler import metrics
from scheduler.term import Term, put_off
from store_nodes.client import StoreClient
from store_nodes.errors import StoreError
from store_nodes.record_batch import BadBatch

LOOK_EVERY_S = 0.5
PRUNE_EVERY_S = 60.0
MAX_AT_ONCE = 500
READ_AT_ONCE = 500
BATCH = 100
BATCH_S = 0.5
"""Seconds of the steps in which a limited rate is kept."""
MIN_BACKOFF_S = 0.1
MAX_BACKOFF_S = 5.0
_NAME = b"redriven"
_log = structlog.get_logger("packetboat.scheduler")


class _Failed(Exception):
    """The redrive cannot continue; the text says why."""


class _Ended(Exception):
    """The redrive was cancelled, or its subscription is gone."""


class _Suspended(Exception):
    """The redrive's tenant is suspended; it continues when the tenant is active again."""


class _Step(NamedTuple):
    """The result of a batch."""

    redriven: list[bytes]
    lost: int


class Redriving:
    """Carries out redrives in one term of leadership."""

    def __init__(
        self,
        store: StoreClient,
        outbox: Outbox,
        redrives: RedriveRepository,
        letters: DeadLetterRepository,
        topics: TopicRepository,
        lock: Callable[[], Lock],
        *,
        version: Callable[[], int | None] = lambda: None,
        look_every_s: float = LOOK_EVERY_S,
    ) -> None:
        """Prepare; `version` is that of the change feed, without which each look asks Postgres."""
        self._store = store
        self._outbox = outbox
        self._redrives = redrives
        self._letters = letters
        self._topics = topics
        self._lock = lock
        self._poll = IdlePoll(version)
        self._look_every_s = look_every_s
        self._running: set[bytes] = set()

    async def run(self, term: Term) -> None:
        """Carry out redrives until this is cancelled; each is a task of the term."""
        pruned_s = -PRUNE_EVERY_S
        while True:
            await put_off("redrive", self._poll.look(lambda: self._begin(term)))
            if time.monotonic() - pruned_s >= PRUNE_EVERY_S:
                pruned_s = time.monotonic()
                await put_off("redrive", self._prune())
            await asyncio.sleep(self._look_every_s)

    async def _begin(self, term: Term) -> bool:
        """Begin redrives; return whether there are any that have not ended."""
        found = await self._redrives.unfinished(MAX_AT_ONCE)
        for unfinished in found:
            uid = unfinished.redrive.uid
            if uid not in self._running and len(self._running) < MAX_AT_ONCE:
                self._running.add(uid)
                term.spawn(self._one(unfinished))
        return bool(found)

    async def _prune(self) -> None:
        await self._letters.prune()
        await self._redrives.prune()

    async def _one(self, unfinished: Unfinished) -> None:
        redrive = unfinished.redrive
        try:
            try:
                course = _RunningRedrive(unfinished, self._store, self._outbox, self._topics)
                await self._follow(course)
            except _Failed as error:
                await self._finish(redrive, str(error))
            except _Ended:
                await self._finish(redrive, None)
            except _Suspended:
                _log.info("redrive waits for its tenant", redrive=redrive.uid.hex())
        finally:
            self._running.discard(redrive.uid)

    async def _follow(self, course: _RunningRedrive) -> None:
        """Carry out a redrive to its end; raises _Failed, _Ended, LeaseLost."""
        redrive, place, waits = course.redrive, START, 0
        if redrive.state == "cancelling":
            raise _Ended
        while True:
            try:
                letters = await self._redrives.letters(redrive, place, READ_AT_ONCE)
                async for batch in course.batches(letters):
                    await self._pace(course)
                    step = await course.publish(batch)
                    await self._note(course, step)
                    place = batch[-1].place
                    waits = 0
                if len(letters) < READ_AT_ONCE:
                    await self._finish(redrive, None)
                    return
                place = letters[-1].place
                await self._note(course, _Step([], 0))
            except LeaseLost:
                raise
            except (StoreError, MetadataError, TopicFull, BadBatch) as error:
                metrics.failures.labels("redrive").inc()
                waits += 1
                course.waits_for = str(error)
                await self._wait(course, min(MAX_BACKOFF_S, MIN_BACKOFF_S * 2 ** min(waits, 10)))

    async def _note(self, course: _RunningRedrive, step: _Step) -> None:
        """Commit the progress; raises _Ended if no more is wanted."""
        course.lost += step.lost
        course.waits_for = None
        state = await self._redrives.progress(
            self._lock(), course.redrive, step.redriven, failed=course.lost, detail=course.detail
        )
        metrics.redriven.inc(len(step.redriven))
        _go_on(state)

    async def _pace(self, course: _RunningRedrive) -> None:
        """Wait until the rate allows more."""
        while (wait_s := course.next_s - time.monotonic()) > 0:
            await self._wait(course, min(wait_s, self._look_every_s))

    async def _wait(self, course: _RunningRedrive, seconds: float) -> None:
        """Wait, record why, and check whether the redrive was cancelled."""
        await asyncio.sleep(seconds)
        if course.waits_for is None and seconds < self._look_every_s:
            return
        redrive = course.redrive
        try:
            state = await self._redrives.progress(
                self._lock(), redrive, [], failed=course.lost, detail=course.detail
            )
        except LeaseLost:
            raise
        except MetadataError:
            return
        _go_on(state)

    async def _finish(self, redrive: Redrive, failure: str | None) -> None:
        state: RedriveState = "done" if failure is None else "failed"
        _log.info("redrive ended", redrive=redrive.uid.hex(), state=state, detail=failure)
        while True:
            try:
                await self._redrives.finish(self._lock(), redrive, state, failure)
                return
            except LeaseLost:
                raise
            except MetadataError:
                await asyncio.sleep(MAX_BACKOFF_S)


def _go_on(state: str | None) -> None:
    """Return if the redrive should continue; raises _Ended, _Suspended."""
    if state == "suspended":
        raise _Suspended
    if state != "running":
        raise _Ended


class _RunningRedrive:
    """One redrive under way: its choice of dead letters, its rate, and its work on a batch."""

    def __init__(
        self, unfinished: Unfinished, store: StoreClient, outbox: Outbox, topics: TopicRepository
    ) -> None:
        self.redrive = unfinished.redrive
        self.lost = 0
        """Dead letters whose message is stored no more."""
        self.waits_for: str | None = None
        self.next_s = time.monotonic()
        """Time at which the rate allows the next message."""
        self._topic_name = unfinished.redrive.destination or unfinished.topic_name
        self._store = store
        self._outbox = outbox
        self._topics = topics
        text = unfinished.redrive.filter
        try:
            self._filter = None if text is None else compile_filter(text)
        except BadExpression as error:  # an earlier version accepted it
            raise _Failed(f"the filter is not taken any more: {error}") from error

    @property
    def detail(self) -> str | None:
        if self.waits_for is not None:
            return f"waits: {self.waits_for}"
        if self.lost:
            return f"{self.lost} of the messages are stored no more"
        return None

    async def batches(
        self, letters: Sequence[StoredDeadLetter]
    ) -> AsyncIterator[list[StoredDeadLetter]]:
        """Yield batches of the dead letters for which the filter is true."""
        wanted: list[StoredDeadLetter] = []
        slices = Slices()
        for one in letters:
            if slices.over:
                await slices.rest()
            if self._filter is None or self._filter(one):
                wanted.append(one)
        rate = self.redrive.rate
        size = BATCH if rate is None else max(1, min(BATCH, int(rate * BATCH_S)))
        for at in range(0, len(wanted), size):
            yield wanted[at : at + size]

    async def publish(self, batch: Sequence[StoredDeadLetter]) -> _Step:
        """Publish a batch.

        Raises StoreError, MetadataError, TopicFull, BadBatch: then repeat it.
        """
        stored = await self._read(batch)
        here = [letter for letter in batch if letter.uid in stored]
        redrive = self.redrive
        only = redrive.subscription_uid if redrive.destination is None else None
        items = [
            Item(
                revived(stored[letter.uid].message, redrive.edit, letter.uid, only),
                _NAME + letter.uid,
            )
            for letter in here
        ]
        if items:
            await self._outbox.append(await self._destination(), items)
        if redrive.rate is not None:
            now_s = time.monotonic()
            self.next_s = max(now_s, self.next_s) + len(here) / redrive.rate
        return _Step([letter.uid for letter in here], len(batch) - len(here))

    async def _destination(self) -> Topic:
        try:
            topic = await self._topics.get(self.redrive.tenant_id, self._topic_name)
        except NotFound:
            raise _Failed(f"there is no topic {self._topic_name!r}") from None
        if topic.state is not TopicState.ACTIVE:
            raise _Failed(f"there is no topic {self._topic_name!r}")
        return topic

    async def _read(self, batch: Sequence[StoredDeadLetter]) -> Mapping[bytes, Stored]:
        lanes: dict[tuple[bytes, int, int], list[StoredDeadLetter]] = {}
        for one in batch:
            key = (one.letter_topic_uid, one.letter_partition, one.letter_lane)
            lanes.setdefault(key, []).append(one)
        found: dict[bytes, Stored] = {}
        for (topic_uid, partition, lane), letters in lanes.items():
            try:
                topic = await self._topics.get_by_uid(self.redrive.tenant_id, topic_uid)
            except NotFound:
                continue
            offsets = (one.letter_offset for one in letters)
            stored = await read(self._store, topic, partition, lane, offsets)
            for one in letters:
                if one.letter_offset in stored:
                    found[one.uid] = stored[one.letter_offset]
        return found
