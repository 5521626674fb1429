"""Writes dead letters: messages whose attempts are used up, or that a consumer rejected.

Order of durability:
1. that the delivery is exhausted or rejected (its row in `deliveries`): before it is added here,
2. the dead letter in its topic, under a name made of where the message was: before its flush,
3. in one flush: the row of `dead_letters`, the row of `deliveries` gone, the counter up.
A crash between them repeats the step before, and 2 finds what it stored the last time. While 2
can't be done the delivery stays open and its detail says why; nothing is given up.

Bounded: `MAX_PENDING` deliveries wait here; of readers with more, the rest is looked for in their
ledgers once there is room; so is what a reader had whose ownership was in doubt meanwhile. Each
subscription is tried alone, `MAX_AT_ONCE` side by side.
"""

from __future__ import annotations

import asyncio
import struct
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import structlog

from metadata.catalog import Catalog
from metadata.delivery.deliveries import DeadLetter, OpenDelivery, Reason
from metadata.errors import MetadataError, NotFound
from metadata.ids import new_uid
from metadata.types import CursorKey, Subscription, Topic
from outbox import Item, Outbox, StoredPosition, TopicFull
from outbox.dead_letter import (
    consumers_detail,
    dead_letter,
    not_written,
    original_id,
    own_attributes,
)
from outbox.reading import Stored, read
from store_nodes.client import StoreClient
from store_nodes.errors import QueueNotFound, QueueSealed, StoreError, TooLarge
from store_nodes.record_batch import BadBatch
from subscribe_forwarder import metrics
from subscribe_forwarder.delivery.reader import Reader
from subscribe_forwarder.delivery.state.cursor import Settled
from subscribe_forwarder.delivery.state.ledger import Ledger

MAX_PENDING = 100_000
MAX_AT_ONCE = 8
BATCH = 200
MIN_BACKOFF_S = 0.1
MAX_BACKOFF_S = 5.0
LOOK_EVERY_S = 0.5
_NAME = struct.Struct(">16sIIBQ")
_log = structlog.get_logger("packetboat.subscribe")


class _Postponed(Exception):
    """None of a subscription's dead letters can be written now; the text says why."""


class _Place(NamedTuple):
    """One delivery of one generation of a cursor."""

    key: CursorKey
    generation: int
    offset: int


@dataclass(slots=True)
class _Pending:
    """A delivery that waits for its dead letter. `ledger` is the one that told of it: a reader that
    goes on from its row has a new one, which tells again."""

    reader: Reader
    ledger: Ledger
    dead: OpenDelivery
    alone: bool = False
    """Whether it spoiled an append, and is tried by itself."""
    not_before_s: float = 0.0
    told: asyncio.Future[str | None] | None = None
    """Somebody waits for what becomes of it: None, or why it is not written; then that is all."""

    @property
    def stale(self) -> bool:
        return self.reader.frozen or self.reader.ledger is not self.ledger


class _Subscription:
    """The waiting messages of one subscription, and the task that works on them."""

    __slots__ = ("failures", "pending", "task", "wake")

    def __init__(self) -> None:
        self.pending: dict[_Place, _Pending] = {}
        self.wake = asyncio.Event()
        self.failures = 0
        self.task: asyncio.Task[None] | None = None


class DeadLetterWriter:
    """Writes the dead letters of a forwarder, on its loop.

    It calls `note` with a reader whose cursor is to be flushed soon.
    """

    def __init__(
        self,
        outbox: Outbox,
        catalog: Catalog,
        store: StoreClient,
        note: Callable[[Any], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._outbox = outbox
        self._catalog = catalog
        self._store = store
        self._note = note
        self._clock = clock
        self._subscriptions: dict[tuple[bytes, bytes], _Subscription] = {}
        self._count = 0
        self._later: weakref.WeakSet[Reader] = weakref.WeakSet()
        """Readers with more than was taken in."""
        self._looking: asyncio.Task[None] | None = None
        self._at_once = asyncio.Semaphore(MAX_AT_ONCE)
        self._closed = False

    @property
    def pending(self) -> int:
        return self._count

    def add(self, reader: Reader, dead: OpenDelivery) -> None:
        """Queue a delivery for its dead letter; one that is queued already is not queued again."""
        if self._closed:
            return
        if self._count >= MAX_PENDING:
            self._look_later(reader)
            return
        key = reader.cursor.key
        subscription = (key.tenant_id, key.subscription_uid)
        own = self._subscriptions.get(subscription)
        if own is None:
            own = self._subscriptions[subscription] = _Subscription()
        place = _Place(key, reader.cursor.generation, dead.offset)
        known = own.pending.get(place)
        if known is None:
            self._count += 1
        elif known.ledger is reader.ledger and known.reader is reader:
            return
        own.pending[place] = _Pending(reader, reader.ledger, dead)
        own.wake.set()
        if own.task is None:
            work = self._work(subscription, own)
            own.task = asyncio.get_running_loop().create_task(work)

    async def write_now(self, reader: Reader, dead: OpenDelivery) -> str | None:
        """Try once to write a dead letter; return None if it is written, which is still to be
        committed, or the reason why not.
        """
        self.add(reader, dead)
        key = reader.cursor.key
        own = self._subscriptions.get((key.tenant_id, key.subscription_uid))
        place = _Place(key, reader.cursor.generation, dead.offset)
        pending = None if own is None else own.pending.get(place)
        if pending is None:
            return "too many dead letters wait"
        if pending.told is None:
            pending.told = asyncio.get_running_loop().create_future()
        return await asyncio.shield(pending.told)

    def _look_later(self, reader: Reader) -> None:
        self._later.add(reader)
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        """Collect exhausted and rejected messages of these readers, once there is room and
        the readers continue.
        """
        while self._later and not self._closed:
            await asyncio.sleep(LOOK_EVERY_S)
            for reader in list(self._later):
                if not reader.frozen and self._count <= MAX_PENDING // 2:
                    self._later.discard(reader)
                    self.look(reader)
        self._looking = None

    def look(self, reader: Reader) -> None:
        """Queue all exhausted and rejected messages of a reader."""
        for dead in list(reader.ledger.exceptions.values()):
            if dead.reason in (Reason.EXHAUSTED, Reason.REJECTED):
                self.add(reader, dead)

    async def close(self) -> None:
        """Stop; the next owner does the rest."""
        self._closed = True
        tasks = [own.task for own in self._subscriptions.values() if own.task is not None]
        if self._looking is not None:
            tasks.append(self._looking)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for own in self._subscriptions.values():
            for pending in own.pending.values():
                _tell(pending, "this forwarder is stopping")
        self._subscriptions.clear()
        self._later.clear()
        self._count = 0

    async def _work(self, key: tuple[bytes, bytes], own: _Subscription) -> None:
        """Work until no message of the subscription waits."""
        try:
            while own.pending:
                wait_s = await self._round(key, own)
                if own.failures:
                    await asyncio.sleep(wait_s)
                elif wait_s > 0:
                    await _woken(own.wake, wait_s)
        finally:
            own.task = None
            if not own.pending and self._subscriptions.get(key) is own:
                del self._subscriptions[key]

    async def _round(self, key: tuple[bytes, bytes], own: _Subscription) -> float:
        """Write the dead letters of one batch; return the seconds to wait before the next."""
        now_s = self._clock()
        batch, stale = _batch(own.pending, now_s)
        self._drop(own, stale)
        if not batch:
            later = [each.not_before_s for each in own.pending.values()]
            return min(later) - now_s if later and not stale else 0
        metrics.undelivered.set(self._count)
        try:
            async with self._at_once:
                done = await self._write_all(*key, batch)
        except (TooLarge, BadBatch) as error:
            for pending in batch.values():
                pending.alone = True
            if len(batch) == 1:
                self._put_off(own, batch, str(error))
                for pending in batch.values():
                    pending.not_before_s = now_s + MAX_BACKOFF_S
            return 0
        except (_Postponed, StoreError, TopicFull, MetadataError) as error:
            self._put_off(own, own.pending, str(error))
            own.failures += 1
            return float(min(MAX_BACKOFF_S, MIN_BACKOFF_S * 2 ** min(own.failures, 10)))
        except Exception as error:
            _log.exception("dead letters failed")
            self._put_off(own, batch, repr(error))
            return MAX_BACKOFF_S
        own.failures = 0
        self._drop(own, done)
        return 0

    async def _write_all(
        self, tenant_id: bytes, subscription_uid: bytes, batch: dict[_Place, _Pending]
    ) -> list[_Place]:
        """Return the messages that are done: written, or gone from the store."""
        first = next(iter(batch.values()))
        topic_uid = first.reader.partition.topic_uid
        subscription = await self._subscription(tenant_id, topic_uid, subscription_uid)
        if subscription is None:
            return list(batch)
        letters = await self._dead_letter_topic(subscription)
        source = await self._catalog.topic_by_uid(tenant_id, topic_uid)
        stored = await self._read(source, batch)
        here: list[tuple[_Place, _Pending, Stored, str]] = []
        for place, pending in batch.items():
            found = stored.get(place)
            if found is None:
                self._expire(place, pending)
                continue
            key = place.key
            original = original_id(topic_uid, key.partition, key.lane, place.offset, found)
            here.append((place, pending, found, original))
        items = [
            Item(dead_letter(found, pending.dead, subscription, original, place.key.partition),
                 _name(place))
            for place, pending, found, original in here
        ]  # fmt: skip
        placed = await self._append(letters, items)
        uids = sorted(new_uid() for _ in here)
        for (place, pending, found, original), uid, where in zip(here, uids, placed, strict=True):
            if pending.stale:
                continue  # its next ledger tells again, and finds the letter written
            written = pending.ledger.add_dead_letter(
                _row(uid, pending.dead, found, original, letters, where)
            )
            if not written and place.offset in pending.ledger.exceptions:
                _tell(pending, "its key was resumed meanwhile")
            self._note(pending.reader)
        for reason, count in Counter(each.dead.reason.value for _, each, *_ in here).items():
            metrics.dead_lettered.labels(reason).inc(count)
        return list(batch)

    async def _subscription(
        self, tenant_id: bytes, topic_uid: bytes, uid: bytes
    ) -> Subscription | None:
        for subscription in await self._catalog.subscriptions_of(tenant_id, topic_uid):
            if subscription.uid == uid:
                return subscription
        return None

    async def _dead_letter_topic(self, subscription: Subscription) -> Topic:
        name = subscription.dead_letter_topic
        if name is None:
            raise _Postponed("the subscription has no dead-letter topic")
        try:
            return await self._catalog.topic(subscription.tenant_id, name)
        except NotFound:
            raise _Postponed(f"there is no topic {name!r}") from None

    async def _append(self, topic: Topic, items: Sequence[Item]) -> list[StoredPosition]:
        if not items:
            return []
        try:
            return await self._outbox.append(topic, items)
        except (QueueNotFound, QueueSealed):
            fresh = await self._catalog.topic(topic.tenant_id, topic.name, refresh=True)
            return await self._outbox.append(fresh, items)

    async def _read(self, source: Topic, batch: dict[_Place, _Pending]) -> dict[_Place, Stored]:
        by_lane: dict[tuple[int, int], list[_Place]] = {}
        for place in batch:
            by_lane.setdefault((place.key.partition, place.key.lane), []).append(place)
        found: dict[_Place, Stored] = {}
        for lane, places in by_lane.items():
            stored = await read(self._store, source, *lane, (place.offset for place in places))
            found |= {place: stored[place.offset] for place in places if place.offset in stored}
        return found

    def _expire(self, place: _Place, pending: _Pending) -> None:
        """Settle a message that the store no longer has: nothing is left to add."""
        if not pending.stale:
            metrics.expired.inc(pending.ledger.settle((place.offset,), Settled.EXPIRED))
            self._note(pending.reader)

    def _put_off(self, own: _Subscription, waiting: Mapping[_Place, _Pending], why: str) -> None:
        """Note the reason in deliveries that do not say it already."""
        metrics.dead_letter_failed.inc()
        for place, pending in list(waiting.items()):
            if pending.told is not None:
                _tell(pending, why)
                self._drop(own, [place])
                continue
            current = pending.ledger.exceptions.get(place.offset, pending.dead)
            detail = not_written(why, current.detail)
            if pending.stale or current.detail == detail:
                continue
            pending.ledger.dead_letter_failed(place.offset, detail)
            self._note(pending.reader)

    def _drop(self, own: _Subscription, places: Iterable[_Place]) -> None:
        for place in places:
            pending = own.pending.pop(place, None)
            if pending is not None:
                self._count -= 1
                _tell(pending, "its partition changed hands" if pending.stale else None)
                if pending.reader.frozen:
                    self._look_later(pending.reader)
        metrics.undelivered.set(self._count)


def _batch(
    pending: Mapping[_Place, _Pending], now_s: float
) -> tuple[dict[_Place, _Pending], list[_Place]]:
    """Return the first messages that are due, or one alone that spoiled a batch before.

    The second result has the stale ones of those that were looked at.
    """
    batch: dict[_Place, _Pending] = {}
    stale: list[_Place] = []
    for place, each in pending.items():
        if each.stale:
            stale.append(place)
        elif each.not_before_s <= now_s and not (each.alone and batch):
            batch[place] = each
            if each.alone or len(batch) >= BATCH:
                break
    return batch, stale


def _tell(pending: _Pending, why: str | None) -> None:
    if pending.told is not None and not pending.told.done():
        pending.told.set_result(why)


async def _woken(wake: asyncio.Event, timeout_s: float) -> None:
    """Wait until a new message comes, or for `timeout_s`."""
    wake.clear()
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await wake.wait()


def _name(place: _Place) -> bytes:
    key = place.key
    return b"dead letter" + _NAME.pack(
        key.subscription_uid, place.generation, key.partition, key.lane, place.offset
    )


def _row(
    uid: bytes,
    dead: OpenDelivery,
    found: Stored,
    original: str,
    letters: Topic,
    where: StoredPosition,
) -> DeadLetter:
    message = found.message
    return DeadLetter(
        uid=uid,
        offset=dead.offset,
        message_id=original,
        key=message.key,
        attributes=own_attributes(message),
        content_type=message.content_type,
        size_bytes=len(message.data),
        reason=dead.reason.value,
        detail=consumers_detail(dead.detail),
        attempts=dead.attempts,
        first_us=dead.first_us,
        last_us=dead.last_us,
        publish_us=found.log_time_us,
        letter_topic_uid=letters.uid,
        letter_partition=where.partition,
        letter_lane=where.lane,
        letter_offset=where.offset,
    )
