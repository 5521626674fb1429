"""Acts on units as they come to this process, continue, and go."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from metadata.catalog import Catalog
from metadata.delivery.deliveries import OpenDelivery
from metadata.errors import NotFound
from metadata.types import Claim, CursorKey, Topic, Unit
from peering.shared_secret import SharedSecret
from subscribe_forwarder.delivery.flush import AckFlusher
from subscribe_forwarder.delivery.handover import Handover
from subscribe_forwarder.delivery.hubs import Hubs
from subscribe_forwarder.delivery.listeners import Listeners
from subscribe_forwarder.delivery.moves import Moves
from subscribe_forwarder.delivery.owner import Owner
from subscribe_forwarder.delivery.reader import Reader
from subscribe_forwarder.delivery.reading.tails import Tails


class OwnedPartitions:
    """Acts on the units of one process, for its `Ownership`."""

    def __init__(
        self,
        *,
        catalog: Catalog,
        tails: Tails,
        hubs: Hubs,
        flusher: AckFlusher,
        moves: Moves,
        listeners: Listeners,
        ack_key: SharedSecret,
        on_dead_letter: Callable[[Reader, OpenDelivery], None] | None,
        on_outstanding: Callable[[Reader], None],
        handover: Handover,
    ) -> None:
        self._catalog = catalog
        self._tails = tails
        self.hubs = hubs
        self._flusher = flusher
        self._moves = moves
        self._listeners = listeners
        self._ack_key = ack_key
        self._on_dead_letter = on_dead_letter
        self._on_outstanding = on_outstanding
        self._handover = handover

    async def open_partition(self, claim: Claim) -> Owner | None:
        """Open a unit with a tail for each of its lanes; return None if its topic is gone."""
        try:
            topic = await self._topic_with(claim.key)
        except NotFound:
            return None
        tails = {
            lane: tail
            for lane in range(topic.priorities)
            if (tail := self._tails.open(claim.key, topic, lane)) is not None
        }
        if not tails:
            return None
        self._listeners.moved(claim.key)
        self.hubs.expect(claim.key)
        return Owner(
            claim,
            tails,
            self._ack_key,
            self._on_dead_letter,
            self._moves,
            self._handover.take,
            self._on_outstanding,
        )

    async def _topic_with(self, key: Unit) -> Topic:
        """Return the topic of a claimed unit; raises NotFound and MetadataUnavailable.

        Postgres granted the unit, so a cached topic without its partition is older than a growth.
        """
        topic = await self._catalog.topic_by_uid(key.tenant_id, key.topic_uid)
        if key.partition >= topic.partition_count:
            newer = await self._catalog.topic(key.tenant_id, topic.name, refresh=True)
            if newer.uid == topic.uid:
                return newer
        return topic

    async def close_partition(self, owner: Owner) -> None:
        """Close a unit that is not ours any more; its readers are dropped."""
        self._listeners.moved(owner.key)
        for lane in owner.tails:
            await self._tails.close(owner.key, lane)

    def partition_adopted(self, owner: Owner) -> None:
        """Continue a unit under a new epoch, with what it held back."""
        self._listeners.moved(owner.key)
        for reader in owner.readers():
            if reader.cursor.dirty:
                self._flusher.note(reader)
        self.wake(owner)

    async def partition_gained(self, owner: Owner) -> None:
        """Note that a unit serves more subscriptions than before."""
        await self.hubs.gained(owner.key)

    def handing_over(self, readers: Sequence[Reader], unread: Sequence[CursorKey] = ()) -> None:
        """Note readers that are flushed and soon another owner's, and cursors that had no
        reader yet.
        """
        self._handover.give(readers)
        self._handover.pass_on(unread)

    def on_tail(self, base: Unit, lane: int) -> None:
        """Wake the readers of a lane of which more may be readable, or less kept."""
        self._listeners.grew(base)
        for owner in self.hubs.owners.of_partition(base):
            self.wake(owner, lane)

    def wake(self, owner: Owner, lane: int | None = None) -> None:
        """Wake the readers of one lane of an owned unit, or of all its lanes."""
        for reader in list(owner.readers()):
            if lane is not None and reader.cursor.key.lane != lane:
                continue
            if reader.cursor.floor < reader.tail.first and not owner.frozen:
                reader.lift()
                self._flusher.note(reader)
            self.hubs.wake((reader.cursor.key.subscription_uid,))
