"""The subscribe role: holds a lease, owns partitions, hands out their messages, makes acks durable.

What must hold:
- Nothing is handed out without the forwarder's lease, by its own monotonic clock: checked before
  messages are chosen, and again before the response leaves.
- A partition's cursors are touched only under the epoch of our claim; when that is in doubt its
  owner is frozen until it is claimed again.
- An ack is answered only after its commit (flush.py).

Life: register the lease (waiting, not ready, while another subscribe forwarder's lives), claim what
can be claimed, renew each second. A lease that is lost is registered anew under a new incarnation,
as soon as Postgres allows; memory is kept where nobody else can have owned the partition meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from edge.message_id import MessageId
from edge.problem import Problem, not_found, unavailable
from metadata.deliveries import OpenDelivery
from metadata.errors import MetadataError, NotFound
from metadata.types import (
    Change,
    ChangeKind,
    Claim,
    PartitionKey,
    Subscription,
    SubscriptionState,
    Topic,
)
from subscribe_forwarder import selection
from subscribe_forwarder.delivery.flush import AckFlusher, Tracked
from subscribe_forwarder.delivery.hub import Hub
from subscribe_forwarder.delivery.lease_keeper import LeaseKeeper
from subscribe_forwarder.delivery.moves import Moves
from subscribe_forwarder.delivery.owner import Owner
from subscribe_forwarder.delivery.ownership import Ownership
from subscribe_forwarder.delivery.reader import Reader
from subscribe_forwarder.delivery.reconciler import Reconciler
from subscribe_forwarder.delivery.terms import Terms
from subscribe_forwarder.ports import (
    Assignments,
    Catalog,
    Cursors,
    Feed,
    ForwardedMessages,
    Leases,
    Store,
)
from subscribe_forwarder.reading.staged import Nowhere, StagedIds, StagedLocator, Where
from subscribe_forwarder.reading.tail import wall_us
from subscribe_forwarder.reading.tails import Tails
from subscribe_forwarder.settings import SubscribeSettings
from subscribe_forwarder.state.lanes import Lane, Lanes
from subscribe_forwarder.state.ledger import Now, Policy

LOCATE_AT_ONCE = 32
MAX_LOADS = 4
"""Of a cursor that is moved while it is loaded."""


class SubscribeForwarder:
    """One per process; use it on one event loop."""

    def __init__(
        self,
        *,
        store: Store,
        catalog: Catalog,
        feed: Feed,
        cursors: Cursors,
        assignments: Assignments,
        leases: Leases,
        forwarded: ForwardedMessages,
        ack_key: bytes,
        settings: SubscribeSettings | None = None,
        address: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings or SubscribeSettings()
        self.ack_key = ack_key
        self.cursors = cursors
        self.catalog = catalog
        self.store = store
        self._clock = clock
        self._lease = LeaseKeeper(leases, self, address=address, clock=clock)
        self.staged = StagedLocator(store, forwarded, StagedIds())
        self._tails = Tails(
            store,
            self.settings,
            self.staged.ids,
            on_change=self._on_tail,
            reload=self._reload,
        )
        self.flusher = AckFlusher(
            cursors,
            self._freeze,
            timeout_s=self.settings.flush_timeout_s,
            lazy_s=self.settings.lazy_flush_s,
            on_ready=self._on_ready,
        )
        self.reconciler = Reconciler(cursors, self.flusher, self._touchable, self.now)
        self.owners = Ownership(assignments, self, lambda: self._lease.lease, self.require_lease)
        self._hubs: dict[bytes, Hub] = {}
        self._moves = Moves()
        self._stopping = False
        self.undertaker: Callable[[Reader, OpenDelivery], None] | None = None
        """Told of deliveries to be dead-lettered; without one they stay open."""
        feed.add_listener(self._on_changes)

    # Life.

    async def start(self) -> None:
        """Returns at once; `not_ready_reason` tells when the lease is held."""
        self.flusher.start()
        self._lease.start()
        self.reconciler.start()

    def drain(self) -> None:
        """Long-polls answer now, empty; nothing more is handed out."""
        if not self._stopping:
            self._stopping = True
            self._lease.drain()
            stopping = unavailable("subscription", "This forwarder is stopping; ask again.")
            for hub in self._hubs.values():
                hub.finish(stopping)

    async def close(self) -> None:
        """Writes what is left, releases every partition and the lease. Idempotent."""
        self.drain()
        await self.reconciler.close()
        await self.flusher.close(self.settings.drain_s)
        await self._lease.stop()
        await self._lease.release(self.settings.flush_timeout_s)
        await self._tails.close_all(tail for owner in self.owners for tail in owner.tails.values())
        self.owners.clear()
        self._hubs.clear()

    def not_ready_reason(self) -> str | None:
        """For readiness: None when this process holds its lease and hands out messages."""
        return self._lease.missing_reason

    def holds_lease(self) -> bool:
        """By our own clock, which stops before Postgres' does."""
        return self._lease.held

    # What the routes use.

    async def hub(self, tenant_id: bytes, name: str, topic_name: str | None = None) -> Hub:
        """The subscription with all its partitions owned here; 404 or 503 as a Problem.

        Also raises NotFound and MetadataUnavailable of the catalog.
        """
        subscription = await self.catalog.subscription(tenant_id, name)
        if topic_name is not None and subscription.topic_name != topic_name:
            raise not_found("subscription", name)
        hub = self._hubs.get(subscription.uid)
        if hub is None or hub.incomplete:
            hub = await self._open_hub(subscription)
        elif hub.subscription is not subscription:
            hub = await self._take_in(hub, subscription)
        return hub

    async def follow(self, subscription: Subscription) -> None:
        """Takes in a change of it at once, before the change feed tells of it."""
        hub = self._hubs.get(subscription.uid)
        if hub is not None:
            await self._take_in(hub, subscription)

    async def reload(self, subscription: Subscription) -> None:
        """Forgets what is in memory of it and goes on from its committed rows: it was moved.

        When this returns, nothing is handed out any more from where it was. Raises a 503 Problem,
        MetadataError; then the next use loads them.
        """
        hub = self._hubs.get(subscription.uid)
        self._moves.moved(subscription.uid, subscription.generation)
        for owner in self.owners.of_topic(subscription.topic_uid):
            for reader in owner.drop_readers(subscription.uid):
                self.dropped(reader)
        if hub is not None:
            await self._open_hub(subscription)
            hub.dispatch()

    async def _take_in(self, hub: Hub, subscription: Subscription) -> Hub:
        """The subscription as it is now; an older view than the one known changes nothing."""
        known = hub.subscription
        if subscription.version < known.version:
            return hub
        if subscription.generation != known.generation:
            await self.reload(subscription)
            return self._hubs.get(subscription.uid, hub)
        hub.follow(subscription, self._terms(hub, subscription, hub.terms.policy.history))
        return hub

    def _terms(self, hub: Hub | None, subscription: Subscription, history: bool) -> Terms:
        """Its filter is made ready anew only where it changed."""
        policy = Policy.of(
            subscription, history=history, max_exceptions=self.settings.max_exceptions
        )
        known = None if hub is None else hub.subscription
        if (
            hub is not None
            and known is not None
            and (known.filter, known.skip_rules) == (subscription.filter, subscription.skip_rules)
        ):
            chosen = hub.terms.selection
        else:
            chosen = selection.of(subscription)
        return Terms(policy, chosen, subscription.state is SubscriptionState.DRAINING)

    def require_lease(self) -> None:
        if not self.holds_lease():
            raise unavailable(
                "subscription", "This forwarder does not hold its lease right now; ask again."
            )

    def now_ms(self) -> int:
        """What lease deadlines are counted in."""
        return int(self._clock() * 1000)

    def now(self) -> Now:
        """By this forwarder's clocks."""
        return Now(self.now_ms(), wall_us())

    def reader(self, subscription_uid: bytes, place: Lane) -> Reader | None:
        """The subscription's reader here, if there is one already."""
        hub = self._hubs.get(subscription_uid)
        return None if hub is None else hub.readers.get(place)

    async def locate(
        self, subscription: Subscription, wanted: Sequence[MessageId]
    ) -> list[Where | Nowhere]:
        """Where messages with ids of the stage form are; raises StoreError, MetadataError."""
        topic = await self.catalog.topic_by_uid(subscription.tenant_id, subscription.topic_uid)
        found: list[Where | Nowhere] = []
        for at in range(0, len(wanted), LOCATE_AT_ONCE):
            part = wanted[at : at + LOCATE_AT_ONCE]
            found += await asyncio.gather(*(self.staged.locate(topic, one) for one in part))
        return found

    # Ownership.

    def _may_hand_out(self, reader: Reader) -> bool:
        return not reader.frozen and not self._stopping and self.holds_lease()

    def _on_ready(self, readers: Sequence[Tracked]) -> None:
        """A flush let go of messages that waited for it."""
        for uid in {reader.cursor.key.subscription_uid for reader in readers}:
            hub = self._hubs.get(uid)
            if hub is not None and hub.waiting:
                hub.dispatch()

    def _on_doomed(self, reader: Reader, delivery: OpenDelivery) -> None:
        if self.undertaker is not None:
            self.undertaker(reader, delivery)

    def _touchable(self) -> list[Reader]:
        """The readers whose ledgers are ours to change now."""
        if self._stopping or not self.holds_lease():
            return []
        return [reader for reader in self.owners.readers() if not reader.frozen]

    def _progressed(self, reader: Reader) -> None:
        self.flusher.note(reader)

    async def _open_hub(self, subscription: Subscription) -> Hub:
        topic = await self.catalog.topic_by_uid(subscription.tenant_id, subscription.topic_uid)
        self.require_lease()
        terms = self._terms(self._hubs.get(subscription.uid), subscription, topic.ack_history)
        readers: dict[Lane, Reader] = {}
        while missing := [
            Lane(one.number, one.lane)
            for one in topic.partitions
            if not self._is_current(readers.get(Lane(one.number, one.lane)))
        ]:
            for place in missing:
                key = PartitionKey(topic.tenant_id, topic.uid, place.partition)
                readers[place] = await self._reader(key, place.lane, subscription, terms)
            topic = self._tails.latest(topic)  # it may have grown meanwhile
        hub = self._hubs.get(subscription.uid)
        if hub is not None and hub.subscription.version > subscription.version:
            subscription = hub.subscription  # it was followed meanwhile
            terms = self._terms(hub, subscription, topic.ack_history)
        if hub is None:
            hub = self._hubs[subscription.uid] = Hub(
                subscription, self._may_hand_out, self._progressed, self.settings, self._clock
            )
        hub.readers = readers
        if hub.collector.lanes is None and topic.priorities > 1:
            hub.collector.lanes = Lanes()
        hub.follow(subscription, terms)
        hub.growth.follow(topic, readers)
        hub.incomplete = False
        return hub

    async def _reader(
        self, key: PartitionKey, lane: int, subscription: Subscription, terms: Terms
    ) -> Reader:
        owner = await self.owners.owner(key)
        for _ in range(MAX_LOADS):
            reader = owner.reader(subscription.uid, lane, terms)
            if reader is not None:
                return reader
            rows = await self.cursors.load([key])
            owner.add_rows(rows)
            if not any(row.key.subscription_uid == subscription.uid for row in rows):
                raise not_found("subscription", subscription.name)
        raise unavailable("subscription", "It is being moved; ask again.")

    def _is_current(self, reader: Reader | None) -> bool:
        """Whether nothing has dropped it, nor the partition, since it was asked for."""
        owner = None if reader is None else self.owners.get(reader.partition)
        return reader is not None and owner is not None and owner.has(reader)

    async def open_partition(self, claim: Claim) -> Owner | None:
        """With a tail for each of its lanes; None where its topic is gone."""
        try:
            topic = await self.catalog.topic_by_uid(claim.key.tenant_id, claim.key.topic_uid)
        except NotFound:
            return None
        tails = {
            lane: tail
            for lane in range(topic.priorities)
            if (tail := self._tails.open(claim.key, topic, lane)) is not None
        }
        if not tails:
            return None
        return Owner(claim, tails, self.ack_key, self._on_doomed, self._moves)

    async def close_partition(self, owner: Owner) -> None:
        for tail in owner.tails.values():
            await self._tails.close(tail)

    def partition_adopted(self, owner: Owner) -> None:
        """Goes on with what it held back."""
        for reader in owner.readers():
            if reader.cursor.dirty:
                self.flusher.note(reader)
        self._wake(owner)

    def dropped(self, reader: Reader) -> None:
        """Its partition or its cursor is not ours any more; the next pull looks again."""
        reader.frozen = True
        self.flusher.forget(reader)
        hub = self._hubs.get(reader.cursor.key.subscription_uid)
        if hub is not None:
            hub.incomplete = True
            hub.readers.pop(reader.place, None)

    def _freeze(self, keys: Iterable[PartitionKey]) -> None:
        self.owners.freeze(keys)
        self._lease.kick()

    def _on_tail(self, key: PartitionKey, lane: int) -> None:
        owner = self.owners.get(key)
        if owner is not None:
            self._wake(owner, lane)

    def _wake(self, owner: Owner, lane: int | None = None) -> None:
        """Those of one lane, or all."""
        for reader in owner.readers():
            if lane is not None and reader.cursor.key.lane != lane:
                continue
            if reader.cursor.floor < reader.tail.first and not owner.frozen:
                reader.lift()
                self.flusher.note(reader)
            hub = self._hubs.get(reader.cursor.key.subscription_uid)
            if hub is not None and hub.waiting:
                hub.dispatch()

    # The lease.

    async def lease_began(self, incarnation: bytes) -> None:
        self.owners.freeze()
        await self.owners.claim_again()
        await self.owners.claim_new(incarnation)

    async def lease_goes_on(self, incarnation: bytes, *, sweep: bool) -> None:
        await self.owners.claim_again()
        if sweep:
            await self.owners.claim_new(incarnation)

    def lease_renewed_late(self) -> None:
        for owner in self.owners:
            self._wake(owner)

    # The change feed.

    async def _on_changes(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if change.kind is ChangeKind.SUBSCRIPTION:
                await self._check_subscription(change.uid)
            elif change.kind is ChangeKind.TOPIC:
                await self._check_topic(change.tenant_id, change.uid)
            elif change.kind is ChangeKind.RESET:
                for uid in list(self._hubs):
                    await self._check_subscription(uid)
                for owner in self.owners:
                    await self._check_topic(owner.key.tenant_id, owner.key.topic_uid)

    async def _check_subscription(self, uid: bytes) -> None:
        hub = self._hubs.get(uid)
        if hub is None:
            return
        known = hub.subscription
        try:
            subscription = await self.catalog.subscription(known.tenant_id, known.name)
            if subscription.uid == uid:
                if subscription is not known:
                    with suppress(MetadataError, Problem):
                        await self._take_in(hub, subscription)
                return
        except NotFound:
            pass
        self._hubs.pop(uid, None)
        hub.finish(not_found("subscription", known.name), gone=True)
        for reader in list(hub.readers.values()):
            self.dropped(reader)
            owner = self.owners.get(reader.partition)
            if owner is not None:
                owner.drop_readers(uid)

    async def _check_topic(self, tenant_id: bytes, uid: bytes) -> None:
        try:
            topic = await self.catalog.topic_by_uid(tenant_id, uid)
        except NotFound:
            self._tails.forget_topic(uid)
            for owner in self.owners.of_topic(uid):
                await self.owners.drop(owner.key)
            return
        await self._follow(topic)

    async def _reload(self, topic: Topic) -> None:
        """The store has news of a topic that the change feed may not have told yet."""
        with suppress(MetadataError):
            now = await self.catalog.topic(topic.tenant_id, topic.name, refresh=True)
            if now.uid == topic.uid:
                await self._follow(now)

    async def _follow(self, topic: Topic) -> None:
        """Takes in what a placement changed: queues that follow others, partitions that are new."""
        topic = self._tails.latest(topic)
        hubs = [hub for hub in self._hubs.values() if hub.subscription.topic_uid == topic.uid]
        for hub in hubs:
            hub.growth.follow(topic, hub.readers)
            if hub.terms.policy.history != topic.ack_history:
                terms = self._terms(hub, hub.subscription, topic.ack_history)
                hub.follow(hub.subscription, terms)
        numbers = range(topic.partition_count)
        keys = [PartitionKey(topic.tenant_id, topic.uid, number) for number in numbers]
        for key in keys:
            owner = self.owners.get(key)
            for lane, tail in owner.tails.items() if owner is not None else ():
                if owner is not None and self._tails.follow(tail, key, topic, lane):
                    self._wake(owner, lane)
        if self._lease.lease is not None and any(key not in self.owners for key in keys):
            with suppress(MetadataError, Problem):
                await self.owners.claim(keys)
        for hub in hubs:
            if len(hub.readers) < len(topic.partitions):
                hub.incomplete = True
            if hub.incomplete and hub.waiting:
                with suppress(MetadataError, Problem):
                    await self._open_hub(hub.subscription)
                hub.dispatch()
