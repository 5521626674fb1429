"""Takes in changes of topics and subscriptions, from the change feed, or earlier from the store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress

from edge.problem import Problem, not_found
from metadata.catalog import Catalog
from metadata.errors import MetadataError, NotFound, NotYet
from metadata.types import Change, ChangeKind, Topic, Unit
from subscribe_forwarder.delivery.hubs import Hubs
from subscribe_forwarder.delivery.owner import Owner
from subscribe_forwarder.delivery.ownership import Ownership
from subscribe_forwarder.delivery.reading.tails import Tails


class Following:
    """Follows the changes for one process."""

    def __init__(
        self,
        *,
        catalog: Catalog,
        tails: Tails,
        hubs: Hubs,
        owners: Ownership,
        look_for: Callable[[Sequence[Unit]], Awaitable[None]],
        may_claim: Callable[[], bool],
        wake: Callable[[Owner, int], None],
        forget_topic: Callable[[bytes], None],
    ) -> None:
        """Follow changes of topics.

        `look_for`: units without a known owner. `wake`: more may be readable in this lane of a
        unit. `forget_topic`: the topic is gone.
        """
        self._catalog = catalog
        self._tails = tails
        self._hubs = hubs
        self._owners = owners
        self._look_for = look_for
        self._may_claim = may_claim
        self._wake = wake
        self._forget_topic = forget_topic

    async def on_changes(self, changes: Sequence[Change]) -> None:
        changed: dict[bytes, Topic] = {}
        for change in changes:
            if change.kind is ChangeKind.SUBSCRIPTION:
                await self._check_subscription(change.uid)
                await self._check_parts(change.tenant_id, change.uid, change.name)
            elif change.kind is ChangeKind.TOPIC:
                await self._check_topic(change.tenant_id, change.uid, changed)
            elif change.kind is ChangeKind.RESET:
                for hub in self._hubs:
                    await self._check_subscription(hub.subscription.uid)
                topics = {owner.key.topic_uid: owner.key.tenant_id for owner in self._owners}
                for uid, tenant_id in topics.items():
                    await self._check_topic(tenant_id, uid, changed)
        await self._follow(changed.values())

    async def reload(self, topic: Topic) -> None:
        """Read a topic of which the store has news that the change feed may not have told yet."""
        with suppress(MetadataError):
            now = await self._catalog.topic(topic.tenant_id, topic.name, refresh=True)
            if now.uid == topic.uid:
                await self._follow([now])

    async def _check_subscription(self, uid: bytes) -> None:
        hub = self._hubs.get(uid)
        if hub is None:
            return
        known = hub.subscription
        try:
            subscription = await self._catalog.subscription(known.tenant_id, known.name)
            if subscription.uid == uid:
                if subscription is not known:
                    with suppress(MetadataError, Problem):
                        await self._hubs.take_in(hub, subscription)
                return
        except NotFound:
            pass
        self._hubs.forget(uid)
        hub.finish(not_found("subscription", known.name), gone=True)
        for reader in list(hub.readers.values()):
            self._hubs.dropped(reader)
            owner = self._owners.get(reader.partition)
            if owner is not None:
                owner.drop_readers(uid)

    async def _check_parts(self, tenant_id: bytes, uid: bytes, name: str) -> None:
        """Check the units that are split off for a subscription, which go with it."""
        parts = self._owners.parts_of(uid)
        if not parts:
            return
        try:
            if (await self._catalog.subscription(tenant_id, name)).uid == uid:
                return
        except NotFound:
            pass
        for unit in parts:
            await self._owners.drop(unit)

    async def _check_topic(self, tenant_id: bytes, uid: bytes, changed: dict[bytes, Topic]) -> None:
        """Add the topic to those that changed, or drop what belongs to one that is gone."""
        changed.pop(uid, None)
        try:
            topic = await self._catalog.topic_by_uid(tenant_id, uid)
        except NotYet:
            return
        except NotFound:
            self._tails.forget_topic(uid)
            for owner in self._owners.of_topic(uid):
                await self._owners.drop(owner.key)
            self._forget_topic(uid)
            return
        changed[uid] = topic

    async def _follow(self, topics: Iterable[Topic]) -> None:
        """Apply the changes of placements: queues that follow others, and new partitions, which
        are looked for together."""
        followed = [self._tails.latest(topic) for topic in topics]
        missing = [unit for topic in followed for unit in self._adapt(topic)]
        if missing and self._may_claim():
            with suppress(MetadataError, Problem):
                await self._look_for(missing)
        for topic in followed:
            await self._reopen(topic)

    def _adapt(self, topic: Topic) -> list[Unit]:
        """Have hubs and tails follow a topic; return its partitions that have no owner here."""
        for hub in self._hubs.of_topic(topic.uid):
            self._hubs.follow_growth(hub, topic)
            if hub.terms.policy.history != topic.ack_history:
                terms = self._hubs.terms(hub, hub.subscription, topic.ack_history)
                hub.follow(hub.subscription, terms)
        keys = [Unit(topic.tenant_id, topic.uid, n) for n in range(topic.partition_count)]
        for key in keys:
            self._follow_queues(key, topic)
        return [key for key in keys if key not in self._owners]

    async def _reopen(self, topic: Topic) -> None:
        """Open what hubs that wait lack of a topic."""
        for hub in self._hubs.of_topic(topic.uid):
            if len(hub.readers) < len(topic.partitions):
                hub.incomplete = True
            if hub.incomplete and hub.waiting:
                with suppress(MetadataError, Problem):
                    await self._hubs.open(hub.subscription)
                hub.dispatch()

    def _follow_queues(self, key: Unit, topic: Topic) -> None:
        """Follow the queues of a partition; the parts that are split off it read the same."""
        owners = self._owners.of_partition(key)
        for lane, tail in owners[0].tails.items() if owners else ():
            if self._tails.follow(tail, key, topic, lane):
                for owner in owners:
                    self._wake(owner, lane)
