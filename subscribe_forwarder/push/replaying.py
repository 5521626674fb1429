"""Delivers settled messages to one endpoint once more.

Each is published again to its subscription alone, as a redriven dead letter is: the copy has an id
and attempts of its own, and what it was a copy of in its origin. Everything that holds for messages
of the subscription (order, retries, filter, limits) holds for it. A message that is not settled
comes anyway.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence

import msgspec

from edge import message_id
from edge.message_id import BadMessageId, MessageId
from metadata.ids import new_uid
from metadata.types import CursorState, Subscription, Topic, Unit
from openapi.push import NotReplayed, PushReplayed
from outbox import Item, Outbox
from outbox.dead_letter import ORIGIN_ONLY, original_id
from outbox.reading import Stored, read
from positions.places import at_time
from store_nodes.record_batch import Message
from subscribe_forwarder.delivery.reading.staged import Where
from subscribe_forwarder.delivery.state.lanes import Lane
from subscribe_forwarder.forwarder import SubscribeForwarder

ORIGIN_REPLAY_OF = "replay_of"
READ_AT_ONCE = 200
_NAME = b"push replay"


class Replaying:
    """Publishes the messages again. It needs no ownership: it goes by the committed cursors."""

    def __init__(self, forwarder: SubscribeForwarder, outbox: Outbox) -> None:
        self._forwarder = forwarder
        self._outbox = outbox

    async def by_ids(self, subscription: Subscription, ids: Sequence[str]) -> PushReplayed:
        """Replay the messages of these ids. Raises StoreError, MetadataError and TopicFull;
        then some of them may be published."""
        topic = await self._topic(subscription)
        rows = await self._rows(subscription, topic)
        skipped: list[NotReplayed] = []
        places: dict[Lane, dict[int, str]] = {}
        for text, where in await self._located(subscription, ids):
            if where is None:
                skipped.append(NotReplayed(text, "not_found"))
            elif not _settled(rows.get(where.place), where.offset):
                skipped.append(NotReplayed(text, "not_settled"))
            else:
                places.setdefault(where.place, {})[where.offset] = text
        run = _Run(self, subscription, topic)
        for place, texts in places.items():
            found = await run.publish(place, sorted(texts))
            skipped += [NotReplayed(texts[at], "not_found") for at in texts if at not in found]
        return PushReplayed(run.published, True, skipped)

    async def by_time(
        self, subscription: Subscription, from_us: int, to_us: int, most: int
    ) -> PushReplayed:
        """Replay the messages that were published from `from_us` on and before `to_us`. Raises as
        `by_ids`."""
        topic = await self._topic(subscription)
        rows = await self._rows(subscription, topic)
        run = _Run(self, subscription, topic)
        complete = True
        for place in sorted(rows):
            async for offsets in self._offsets(topic, place, rows[place], from_us, to_us):
                left = most - run.published
                if left <= 0:
                    complete = False
                    break
                complete &= len(offsets) <= left
                await run.publish(place, offsets[:left])
        return PushReplayed(run.published, complete, [])

    async def _offsets(
        self, topic: Topic, place: Lane, row: CursorState, from_us: int, to_us: int
    ) -> AsyncIterator[list[int]]:
        """Yield the offsets of settled messages, up to READ_AT_ONCE at a time."""
        store = self._forwarder.history
        low = max(row.start, await at_time(store, topic, *place, from_us))
        high = min(row.read_to, await at_time(store, topic, *place, to_us))
        for base in range(low, high, READ_AT_ONCE):
            upto = min(high, base + READ_AT_ONCE)
            settled = [offset for offset in range(base, upto) if _settled(row, offset)]
            if settled:
                yield settled

    async def _located(
        self, subscription: Subscription, ids: Sequence[str]
    ) -> list[tuple[str, Where | None]]:
        """Return the place of each id, and None for one that is not of the subscription's topic."""
        located: list[tuple[str, Where | None]] = []
        staged: list[tuple[str, MessageId]] = []
        for text in dict.fromkeys(ids):
            try:
                one = message_id.parse(text)
            except BadMessageId:
                located.append((text, None))
                continue
            if one.topic_uid != subscription.topic_uid:
                located.append((text, None))
            elif one.form == message_id.FORM_OFFSET:
                located.append((text, Where(one.partition, one.number, one.lane)))
            else:
                staged.append((text, one))
        if staged:
            found = await self._forwarder.locate(subscription, [one for _, one in staged])
            for (text, _), where in zip(staged, found, strict=True):
                located.append((text, where if isinstance(where, Where) else None))
        return located

    async def _topic(self, subscription: Subscription) -> Topic:
        catalog = self._forwarder.catalog
        return await catalog.topic_by_uid(subscription.tenant_id, subscription.topic_uid)

    async def _rows(self, one: Subscription, topic: Topic) -> Mapping[Lane, CursorState]:
        units = [
            Unit(one.tenant_id, one.topic_uid, number, one.uid)
            for number in range(topic.partition_count)
        ]
        rows = await self._forwarder.cursors.load(units)
        return {
            Lane(row.key.partition, row.key.lane): row
            for row in rows
            if row.key.subscription_uid == one.uid
        }


class _Run:
    """One request; its copies have names of their own."""

    def __init__(self, replaying: Replaying, subscription: Subscription, topic: Topic) -> None:
        self._store = replaying._forwarder.history
        self._outbox = replaying._outbox
        self._subscription = subscription
        self._topic = topic
        self._uid = new_uid()
        self.published = 0

    async def publish(self, place: Lane, offsets: Sequence[int]) -> set[int]:
        """Publish the messages that are stored still and are of this subscription. Return their
        offsets."""
        done: set[int] = set()
        mine = self._subscription.uid.hex()
        for at in range(0, len(offsets), READ_AT_ONCE):
            some = offsets[at : at + READ_AT_ONCE]
            stored = await read(self._store, self._topic, *place, some)
            items = []
            for offset in some:
                found = stored.get(offset)
                if found is None or (found.message.origin or {}).get(ORIGIN_ONLY, mine) != mine:
                    continue
                items.append(Item(self._copy(place, offset, found), self._name(place, offset)))
                done.add(offset)
            if items:
                await self._outbox.append(self._topic, items)
                self.published += len(items)
        return done

    def _copy(self, place: Lane, offset: int, stored: Stored) -> Message:
        of = original_id(self._topic.uid, place.partition, place.lane, offset, stored)
        return msgspec.structs.replace(
            stored.message,
            deliver_at_us=0,
            ttl_ms=0,
            idempotency_key=None,
            origin={ORIGIN_ONLY: self._subscription.uid.hex(), ORIGIN_REPLAY_OF: of},
        )

    def _name(self, place: Lane, offset: int) -> bytes:
        return _NAME + self._uid + b"%d/%d/%d" % (place.partition, place.lane, offset)


def _settled(row: CursorState | None, offset: int) -> bool:
    """Return whether a message that the subscription was given is settled."""
    if row is None or not row.start <= offset < row.read_to:
        return False
    if any(one.offset == offset for one in row.stepped_over):
        return False
    return offset < row.floor or any(low <= offset < high for low, high in row.acked)
