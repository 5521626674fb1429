"""Keeps a hub for each subscription in use here, with a reader for each lane served here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial

from edge.lifetime import keep_running
from edge.problem import Problem, not_found, unavailable
from metadata.catalog import Catalog
from metadata.delivery.cursors import CursorRepository
from metadata.errors import MetadataError
from metadata.types import WHOLE, Subscription, Topic, Unit
from subscribe_forwarder.delivery import selection
from subscribe_forwarder.delivery.flush import AckFlusher
from subscribe_forwarder.delivery.hub import Hub
from subscribe_forwarder.delivery.moves import Moves
from subscribe_forwarder.delivery.owner import Owner
from subscribe_forwarder.delivery.ownership import Ownership
from subscribe_forwarder.delivery.reader import Reader
from subscribe_forwarder.delivery.reading.tails import Tails
from subscribe_forwarder.delivery.selection.worker_evaluator import WorkerEvaluator
from subscribe_forwarder.delivery.state.lanes import Lane, Lanes
from subscribe_forwarder.delivery.state.ledger import Policy
from subscribe_forwarder.delivery.terms import Terms
from subscribe_forwarder.peers import is_misdirected, misdirected
from subscribe_forwarder.settings import SubscribeSettings

MAX_LOADS = 4
"""The limit of loads of a cursor that is moved while it is loaded."""
GROWTH_EVERY_S = 1.0
"""Seconds between looks at the cursors of other forwarders for which a barrier waits."""


class Hubs:
    """Opens, finds and wakes the hubs of one process."""

    def __init__(
        self,
        *,
        catalog: Catalog,
        cursors: CursorRepository,
        tails: Tails,
        flusher: AckFlusher,
        moves: Moves,
        settings: SubscribeSettings,
        make: Callable[[Subscription], Hub],
        require_lease: Callable[[], None],
        alone: bool,
        owners: Callable[[], Ownership],
        look_for: Callable[[Sequence[Unit]], Awaitable[None]],
        evaluator: WorkerEvaluator | None = None,
    ) -> None:
        """Create the hubs of a process.

        `make` returns a hub without readers; `alone`: there are no links to others; `owners`: the
        units that are ours; `look_for` has units claimed that nobody is known to own, here or
        elsewhere. Neither of the last two is called before the forwarder starts.
        """
        self._catalog = catalog
        self._cursors = cursors
        self._tails = tails
        self._flusher = flusher
        self._moves = moves
        self._settings = settings
        self._make = make
        self._require_lease = require_lease
        self._alone = alone
        self._owners = owners
        self._look_for = look_for
        self._evaluator = evaluator
        self._hubs: dict[bytes, Hub] = {}
        self._of_topic: dict[bytes, dict[bytes, Hub]] = {}
        self._growing: set[bytes] = set()
        self._loading: dict[tuple[Owner, Unit], asyncio.Task[bool]] = {}
        self._task: asyncio.Task[None] | None = None

    @property
    def owners(self) -> Ownership:
        """Return the units that this forwarder owns."""
        return self._owners()

    def __iter__(self) -> Iterator[Hub]:
        return iter(list(self._hubs.values()))

    def get(self, subscription_uid: bytes) -> Hub | None:
        return self._hubs.get(subscription_uid)

    def of_topic(self, topic_uid: bytes) -> list[Hub]:
        return list(self._of_topic.get(topic_uid, {}).values())

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(
            keep_running(self._watch_growth, "watch of growths")
        )

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for loading in self._loading.values():
            loading.cancel()
        await asyncio.gather(*self._loading.values(), return_exceptions=True)
        self._hubs.clear()
        self._of_topic.clear()

    def forget(self, subscription_uid: bytes) -> Hub | None:
        """Forget a subscription that is gone, or not used any more."""
        hub = self._hubs.pop(subscription_uid, None)
        if hub is not None:
            beside = self._of_topic[hub.subscription.topic_uid]
            del beside[subscription_uid]
            if not beside:
                del self._of_topic[hub.subscription.topic_uid]
        return hub

    async def hub(self, subscription: Subscription, *, part: bool) -> Hub:
        """Return the hub of a subscription that is served here; open it if needed.

        Raises a Problem: 503, or 421 if others serve it, or with `part` false, some of it.
        """
        hub = self._hubs.get(subscription.uid)
        if hub is None or hub.incomplete or (hub.share < 1.0 and not part):
            hub = await self.open(subscription, part=part)
        elif hub.subscription is not subscription:
            hub = await self.take_in(hub, subscription)
        return hub

    async def take_in(self, hub: Hub, subscription: Subscription) -> Hub:
        """Follow the subscription; an older view than the known one changes nothing."""
        known = hub.subscription
        if subscription.version < known.version:
            return hub
        if subscription.generation != known.generation:
            await self.reload(subscription)
            return self._hubs.get(subscription.uid, hub)
        hub.follow(subscription, self.terms(hub, subscription, hub.terms.policy.history))
        return hub

    async def reload(self, subscription: Subscription) -> None:
        """Forget the memory of a moved subscription, and continue from its committed rows.

        Readers of its new generation stay, with all their deliveries: several notes tell of one
        move.
        """
        hub = self._hubs.get(subscription.uid)
        self._moves.moved(subscription.uid, subscription.generation)
        for owner in self.owners.of_topic(subscription.topic_uid):
            for reader in owner.drop_readers(subscription.uid, keep=subscription.generation):
                self.dropped(reader)
        if hub is not None:
            await self._open_if_here(subscription)
            hub.dispatch()

    def terms(self, hub: Hub | None, subscription: Subscription, history: bool) -> Terms:
        """Return the terms of a subscription; its filter is compiled again only if it changed."""
        policy = Policy.of(
            subscription, history=history, max_exceptions=self._settings.max_exceptions
        )
        known = None if hub is None else hub.subscription
        if (
            hub is not None
            and known is not None
            and (known.filter, known.skip_rules) == (subscription.filter, subscription.skip_rules)
        ):
            chosen = hub.terms.selection
        else:
            chosen = selection.of(subscription, self._evaluator)
        return Terms(policy, chosen, subscription.state == "draining")

    def dropped(self, reader: Reader) -> None:
        """Drop a reader whose unit or cursor is not ours any more; the next use looks again."""
        reader.frozen = True
        self._flusher.forget(reader)
        hub = self._hubs.get(reader.cursor.key.subscription_uid)
        if hub is not None:
            hub.incomplete = True
            if hub.readers.get(reader.place) is reader:
                del hub.readers[reader.place]

    def lost(self, readers: Iterable[Reader]) -> None:
        """Note readers that were dropped, and that another forwarder serves now, or soon."""
        if not self._alone:
            for uid in {reader.cursor.key.subscription_uid for reader in readers}:
                hub = self._hubs.get(uid)
                if hub is not None:
                    hub.lose()

    def expect(self, unit: Unit) -> None:
        """Note that more of all subscriptions of a partition, or of one, is served here from now
        on.

        The next use looks for it, also if nobody calls `gained`.
        """
        for hub in self._of_unit(unit):
            hub.incomplete = True

    async def gained(self, unit: Unit) -> None:
        """Do the same, and serve waiting callers at once."""
        self.expect(unit)
        for hub in self._of_unit(unit):
            if hub.waiting:
                with suppress(MetadataError, Problem):
                    await self._open_if_here(hub.subscription)
                hub.dispatch()

    def _of_unit(self, unit: Unit) -> list[Hub]:
        hubs, uid = self.of_topic(unit.topic_uid), unit.subscription_uid
        return [hub for hub in hubs if uid in (WHOLE, hub.subscription.uid)]

    def wake(self, subscription_uids: Iterable[bytes]) -> None:
        """Wake subscriptions that may have messages to deliver."""
        for uid in subscription_uids:
            hub = self._hubs.get(uid)
            if hub is not None and hub.waiting:
                hub.dispatch()

    def on_ready(self, readers: Sequence[Reader]) -> None:
        """Wake the hubs of messages that waited for a flush."""
        self.wake({reader.cursor.key.subscription_uid for reader in readers})

    def follow_growth(self, hub: Hub, topic: Topic) -> None:
        """Follow the topic of a hub."""
        hub.growth.follow(topic, hub.readers)
        if hub.growth.waits_for(hub.readers):
            self._growing.add(hub.subscription.uid)

    # Opening.

    async def open(self, subscription: Subscription, *, part: bool = True) -> Hub:
        """Open readers of all lanes that are served here, whatever the hub had before."""
        topic = await self._catalog.topic_by_uid(subscription.tenant_id, subscription.topic_uid)
        await selection.read_ahead(subscription)
        self._require_lease()
        terms = self.terms(self._hubs.get(subscription.uid), subscription, topic.ack_history)
        topic, readers = await self._readers(topic, subscription, terms)
        here = {place.partition for place in readers}
        if len(here) < topic.partition_count and (self._alone or not part or not here):
            raise self._elsewhere()
        hub = self._hubs.get(subscription.uid)
        if hub is not None and hub.subscription.version > subscription.version:
            subscription = hub.subscription  # it was followed meanwhile
            terms = self.terms(hub, subscription, topic.ack_history)
        if hub is None:
            hub = self._hubs[subscription.uid] = self._make(subscription)
            self._of_topic.setdefault(subscription.topic_uid, {})[subscription.uid] = hub
        hub.readers = readers
        hub.share = len(here) / topic.partition_count
        if hub.collector.lanes is None and topic.priorities > 1:
            hub.collector.lanes = Lanes()
        hub.follow(subscription, terms)
        self.follow_growth(hub, topic)
        hub.incomplete = False
        return hub

    async def _open_if_here(self, subscription: Subscription) -> None:
        """Open a subscription that is in use; maybe none of it is served here any more."""
        try:
            await self.open(subscription)
        except Problem as problem:
            if not is_misdirected(problem):
                raise

    async def _readers(
        self, topic: Topic, subscription: Subscription, terms: Terms
    ) -> tuple[Topic, dict[Lane, Reader]]:
        readers: dict[Lane, Reader] = {}
        looked_for: set[int] = set()
        while True:
            topic = self._tails.latest(topic)  # it may have grown meanwhile
            unserved = [
                number
                for number in range(topic.partition_count)
                if number not in looked_for and not self._served(topic, number, subscription.uid)
            ]
            if unserved:
                looked_for.update(unserved)
                await self._look_for([Unit(topic.tenant_id, topic.uid, n) for n in unserved])
                continue
            missing = [
                Lane(one.number, one.lane)
                for one in topic.partitions
                if not self._is_current(readers.get(Lane(one.number, one.lane)))
                and self._served(topic, one.number, subscription.uid)
            ]
            if not missing:
                return topic, {p: one for p, one in readers.items() if self._is_current(one)}
            for place in missing:
                key = Unit(topic.tenant_id, topic.uid, place.partition)
                reader = await self._reader(key, place.lane, subscription, terms)
                if reader is not None:
                    readers[place] = reader

    async def _reader(
        self, base: Unit, lane: int, subscription: Subscription, terms: Terms
    ) -> Reader | None:
        """Return the reader; None if the subscription is not served here any more."""
        wanted = base._replace(subscription_uid=subscription.uid)
        for _ in range(MAX_LOADS):
            owner = self.owners.serving(base, subscription.uid)
            if owner is None:
                return None
            reader = owner.reader(subscription.uid, lane, terms)
            if reader is not None:
                return reader
            if not await self._loaded(owner, wanted):
                raise not_found("subscription", subscription.name)
        raise unavailable("subscription", "It is being moved; ask again.")

    async def _loaded(self, owner: Owner, wanted: Unit) -> bool:
        """Add the cursors of a subscription to their owner; return whether there are any.

        Callers that come while they are read wait for the same reading.
        """
        key = owner, wanted
        loading = self._loading.get(key)
        if loading is None:
            loading = asyncio.get_running_loop().create_task(self._load(owner, wanted))
            self._loading[key] = loading
            loading.add_done_callback(partial(self._load_ended, key))
        return await asyncio.shield(loading)

    async def _load(self, owner: Owner, wanted: Unit) -> bool:
        rows = await self._cursors.load([wanted])
        owner.add_rows(rows)
        return any(row.key.subscription_uid == wanted.subscription_uid for row in rows)

    def _load_ended(self, key: tuple[Owner, Unit], loading: asyncio.Task[bool]) -> None:
        del self._loading[key]
        if not loading.cancelled():
            loading.exception()  # its callers may have gone; then nobody else asks

    def _served(self, topic: Topic, number: int, subscription_uid: bytes) -> bool:
        base = Unit(topic.tenant_id, topic.uid, number)
        return self.owners.serving(base, subscription_uid) is not None

    def _is_current(self, reader: Reader | None) -> bool:
        """Return whether neither the reader nor its unit was dropped since it was requested."""
        owner = None if reader is None else self.owners.get(reader.partition)
        return reader is not None and owner is not None and owner.has(reader)

    def _elsewhere(self) -> Problem:
        if self._alone:
            return unavailable(
                "subscription", "Another forwarder owns a partition of this topic; ask again."
            )
        return misdirected()

    # Growth.

    async def _watch_growth(self) -> None:
        """Watch growths for the life of the process; only cancellation ends it."""
        while True:
            await asyncio.sleep(GROWTH_EVERY_S)
            with suppress(MetadataError):
                await self._look_at_growth()

    async def _look_at_growth(self) -> None:
        wanted: dict[bytes, list[Unit]] = {}
        for uid in list(self._growing):
            hub = self._hubs.get(uid)
            numbers = set() if hub is None else hub.growth.waits_for(hub.readers)
            if hub is None or not numbers:
                self._growing.discard(uid)
                continue
            known = hub.subscription
            unit = Unit(known.tenant_id, known.topic_uid, 0, uid)
            wanted[uid] = [unit._replace(partition=number) for number in numbers]
        if not wanted:
            return
        rows = await self._cursors.load([unit for units in wanted.values() for unit in units])
        for uid in wanted:
            hub = self._hubs.get(uid)
            if hub is not None:
                hub.growth.hear(row for row in rows if row.key.subscription_uid == uid)
                hub.dispatch()
