"""Runs the subscribe role: holds a lease, owns units, delivers messages, makes acks durable.

Invariants:
- Nothing is delivered without the forwarder's lease, by its own monotonic clock: checked before
  messages are chosen, and again before the response leaves.
- A cursor is touched only under the epoch of our claim; when that is in doubt its owner is frozen
  until it is claimed again.
- An ack is answered only after its commit (flush.py).

Life: register the lease, claim unowned units that are wanted here, renew each second (fleet/). A
lease that is lost is registered anew under a new incarnation, as soon as Postgres allows; memory is
kept where nobody else can have owned the unit meanwhile. At the end everything is handed over.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence

from edge.load import MachineLoad
from edge.message_id import MessageId
from edge.problem import not_found, unavailable
from edge.process_pool import ProcessPool
from edge.quota import NO_LIMITS, Quotas, Usage
from metadata.catalog import Catalog
from metadata.delivery.assignments import AssignmentRepository
from metadata.delivery.cursors import CursorRepository
from metadata.delivery.forwarded import ForwardedRepository
from metadata.delivery.hints import HintRepository
from metadata.delivery.leases import LeaseRepository
from metadata.feed import ChangeFeed
from metadata.types import Subscription, Unit
from outbox import Outbox
from peering.shared_secret import SharedSecret
from store_nodes.client import StoreClient
from subscribe_forwarder.delivery.dead_letter_writer import DeadLetterWriter
from subscribe_forwarder.delivery.flush import AckFlusher
from subscribe_forwarder.delivery.following import Following
from subscribe_forwarder.delivery.handover import Handover
from subscribe_forwarder.delivery.hub import Hub
from subscribe_forwarder.delivery.hubs import Hubs
from subscribe_forwarder.delivery.listeners import Listeners
from subscribe_forwarder.delivery.moves import Moves
from subscribe_forwarder.delivery.ownership import Ownership
from subscribe_forwarder.delivery.partitions import OwnedPartitions
from subscribe_forwarder.delivery.reader import Reader
from subscribe_forwarder.delivery.reading.staged import Nowhere, StagedIds, StagedLocator, Where
from subscribe_forwarder.delivery.reading.tail import wall_us
from subscribe_forwarder.delivery.reading.tails import Tails
from subscribe_forwarder.delivery.reconciler import Reconciler
from subscribe_forwarder.delivery.selection.worker_evaluator import WorkerEvaluator
from subscribe_forwarder.delivery.state.lanes import Lane
from subscribe_forwarder.delivery.state.ledger import Now
from subscribe_forwarder.delivery.throttling.in_flight import InFlight
from subscribe_forwarder.delivery.throttling.throttling import Throttling
from subscribe_forwarder.fleet.activity import Activity
from subscribe_forwarder.fleet.backlogs.part import Wanted
from subscribe_forwarder.fleet.directory import OwnerDirectory
from subscribe_forwarder.fleet.fleet import Fleet
from subscribe_forwarder.fleet.links.network import LinkNetwork
from subscribe_forwarder.fleet.proxy.routing import Order, Routing, in_any_order
from subscribe_forwarder.settings import SubscribeSettings

LOCATE_AT_ONCE = 32


class SubscribeForwarder:
    """Runs the subscribe role of one process, on one event loop."""

    def __init__(
        self,
        *,
        store: StoreClient,
        catalog: Catalog,
        feed: ChangeFeed,
        cursors: CursorRepository,
        assignments: AssignmentRepository,
        leases: LeaseRepository,
        forwarded: ForwardedRepository,
        ack_key: SharedSecret,
        history: StoreClient | None = None,
        settings: SubscribeSettings | None = None,
        address: str = "",
        weight: float = 1.0,
        links: LinkNetwork | None = None,
        hints: HintRepository | None = None,
        throttling: Throttling | None = None,
        levels: Quotas = NO_LIMITS,
        usage: Usage = NO_LIMITS,
        process_pool: ProcessPool | None = None,
        outbox: Outbox | None = None,
        load: MachineLoad | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make a forwarder, which owns nothing yet.

        `history` is the store client for repeated reads, if they have connections of their own.
        Links are accepted at `address`; `links` is None for a forwarder without others. `levels`
        are the limits of tenants' messages in flight, and `usage` counts what they get. Slow
        filters run in `process_pool`, or without one in this process. `outbox` writes dead letters;
        without one, exhausted deliveries stay open. `load`, which its owner starts and stops, tells
        how late timers are.
        """
        self.settings = settings or SubscribeSettings()
        self.ack_key = ack_key
        self.cursors = cursors
        self.catalog = catalog
        self.history = history or store
        self.links, self.address = links, address
        self._clock = clock
        self._throttling = throttling
        self.usage, self._in_flight = usage, InFlight(levels, clock)
        self.evaluator = None if process_pool is None else WorkerEvaluator(process_pool)
        self.process_pool = process_pool
        self.listeners = Listeners()
        self.activity = Activity()
        self._stopping = False
        self._handing_over: asyncio.Task[None] | None = None
        self.load = load or MachineLoad(machine=lambda: (0.0, 0.0))
        self.staged = StagedLocator(store, forwarded, StagedIds())
        self._tails = self._make_tails(store)
        self.flusher = self._make_flusher()
        self.dead_letter_writer = self._make_dead_letter_writer(outbox, store)
        self.reconciler = self._make_reconciler()
        moves = Moves()
        self._hubs = self._make_hubs(moves)
        self._partitions = self._make_partitions(moves)
        self._fleet = self._make_fleet(assignments, leases, hints, weight)
        self._following = self._make_following()
        feed.add_listener(self._following.on_changes)

    @property
    def owners(self) -> Ownership:
        """The units that this forwarder owns."""
        return self._fleet.owners

    @property
    def directory(self) -> OwnerDirectory:
        """Return the owners of units, here and elsewhere: the `fleet.directory`."""
        return self._fleet.directory

    @property
    def incarnation(self) -> bytes:
        """Return the incarnation of the present lease, or the last one; empty before the first."""
        return self._fleet.members.me

    # Life.

    async def start(self) -> None:
        """Returns at once; `not_ready_reason` tells when it may be used."""
        self.flusher.start()
        self._hubs.start()
        self._fleet.start()
        self.reconciler.start()

    def drain(self) -> None:
        """Long-polls answer now, empty; nothing more is delivered. Where there are others, they
        get what is owned here at once; acks are passed on to them."""
        if not self._stopping:
            self._stopping = True
            self._fleet.lease.drain()
            stopping = unavailable("subscription", "This forwarder is stopping; ask again.")
            for hub in self._hubs:
                hub.finish(stopping)
            if self._fleet.leaves_others():
                handing_over = self._fleet.hand_over(self.settings.flush_timeout_s)
                self._handing_over = asyncio.get_running_loop().create_task(handing_over)

    async def close(self) -> None:
        """Writes what is left, releases every unit and the lease. Idempotent."""
        if self.dead_letter_writer is not None:
            await self.dead_letter_writer.close()
        if self.evaluator is not None:
            self.evaluator.close()
        self.drain()
        if self._handing_over is not None:
            await asyncio.wait({self._handing_over}, timeout=self.settings.drain_s)
            self._handing_over.cancel()
            await asyncio.gather(self._handing_over, return_exceptions=True)
        await self.reconciler.close()
        await self.flusher.close(self.settings.drain_s)
        await self._fleet.close(self.settings.flush_timeout_s)
        await self._hubs.close()
        await self._tails.close_all()

    def not_ready_reason(self) -> str | None:
        """Return why this process is not ready; None when it holds its lease and delivers
        messages.
        """
        return self._fleet.not_ready_reason()

    def holds_lease(self) -> bool:
        """Return whether the lease is held by our own clock, which stops before Postgres' does."""
        return self._fleet.lease.held

    # Functions for the routes.

    def make_routing(self, order: Order = in_any_order) -> Routing:
        """Make the routing of calls for the routes; `order`: of the peers that are asked."""
        return Routing(
            self.catalog, self.directory, self.links, self.holds_lease, self.look_for, order
        )

    async def hub(
        self, tenant_id: bytes, name: str, topic_name: str | None = None, *, part: bool = False
    ) -> Hub:
        """Return the hub of a subscription as far as it is served here.

        Raises the Problems 404, 503, and 421 (misdirected) where the rest, or everything, is
        elsewhere; also NotFound and MetadataUnavailable of the catalog.
        """
        subscription = await self.catalog.subscription(tenant_id, name)
        if topic_name is not None and subscription.topic_name != topic_name:
            raise not_found("subscription", name)
        return await self._hubs.hub(subscription, part=part)

    async def look_for(
        self, subscription: Subscription | Wanted, partitions: Iterable[int]
    ) -> None:
        """Look for owners of partitions that nobody is known to serve.

        Claims the partitions that are wanted here, and tells the forwarders that are to have the
        rest. Raises MetadataError.
        """
        base = Unit(subscription.tenant_id, subscription.topic_uid, 0)
        await self._fleet.look_for([base._replace(partition=number) for number in partitions])

    async def follow(self, subscription: Subscription) -> None:
        """Takes in a change of it at once, before the change feed tells of it."""
        hub = self._hubs.get(subscription.uid)
        if hub is not None:
            await self._hubs.take_in(hub, subscription)

    async def reload(self, subscription: Subscription) -> None:
        """Forgets what is in memory of it and goes on from its committed rows: it was moved.

        When this returns, nothing is delivered any more from where it was. Raises a 503 Problem,
        MetadataError; then the next use loads them.
        """
        await self._hubs.reload(subscription)
        self.listeners.worked(subscription.uid)

    def require_lease(self) -> None:
        """Raise a 503 Problem unless this forwarder holds its lease."""
        if not self.holds_lease():
            raise unavailable(
                "subscription", "This forwarder does not hold its lease right now; ask again."
            )

    def now_ms(self) -> int:
        """Return the monotonic time in ms, in which lease deadlines are counted."""
        return int(self._clock() * 1000)

    def now(self) -> Now:
        """Return the time by this forwarder's clocks."""
        return Now(self.now_ms(), wall_us())

    def wake(self, subscription_uid: bytes) -> None:
        """Wake the readers of a subscription, of which more may be delivered than before."""
        self._hubs.wake([subscription_uid])

    def open_hub(self, subscription_uid: bytes) -> Hub | None:
        """Return the subscription's hub, if it is in use here."""
        return self._hubs.get(subscription_uid)

    def reader(self, subscription_uid: bytes, place: Lane) -> Reader | None:
        """Return the subscription's reader here, if there is one already."""
        hub = self._hubs.get(subscription_uid)
        return None if hub is None else hub.readers.get(place)

    async def locate(
        self, subscription: Subscription, wanted: Sequence[MessageId]
    ) -> list[Where | Nowhere]:
        """Return where messages with ids of the stage form are; raises StoreError,
        MetadataError.
        """
        topic = await self.catalog.topic_by_uid(subscription.tenant_id, subscription.topic_uid)
        found: list[Where | Nowhere] = []
        for at in range(0, len(wanted), LOCATE_AT_ONCE):
            part = wanted[at : at + LOCATE_AT_ONCE]
            found += await asyncio.gather(*(self.staged.locate(topic, one) for one in part))
        return found

    # Within.

    def _make_flusher(self) -> AckFlusher:
        return AckFlusher(
            self.cursors,
            self._freeze,
            timeout_s=self.settings.flush_timeout_s,
            lazy_s=self.settings.lazy_flush_s,
            on_ready=lambda readers: self._hubs.on_ready(readers),
            listeners=self.listeners,
        )

    def _make_dead_letter_writer(
        self, outbox: Outbox | None, store: StoreClient
    ) -> DeadLetterWriter | None:
        if outbox is None:
            return None
        return DeadLetterWriter(outbox, self.catalog, store, self.flusher.note)

    def _make_reconciler(self) -> Reconciler:
        return Reconciler(
            self.cursors, self.flusher, lambda: self.owners, self._may_touch, self.now
        )

    def _make_tails(self, store: StoreClient) -> Tails:
        return Tails(
            store,
            self.settings,
            self.staged.ids,
            on_change=lambda base, lane: self._partitions.on_tail(base, lane),
            reload=lambda topic: self._following.reload(topic),
        )

    def _make_partitions(self, moves: Moves) -> OwnedPartitions:
        return OwnedPartitions(
            catalog=self.catalog,
            tails=self._tails,
            hubs=self._hubs,
            flusher=self.flusher,
            moves=moves,
            listeners=self.listeners,
            ack_key=self.ack_key,
            on_dead_letter=None if self.dead_letter_writer is None else self.dead_letter_writer.add,
            on_outstanding=self.reconciler.on_outstanding,
            handover=Handover(self.links, self.now_ms),
        )

    def _make_hubs(self, moves: Moves) -> Hubs:
        return Hubs(
            catalog=self.catalog,
            cursors=self.cursors,
            tails=self._tails,
            flusher=self.flusher,
            moves=moves,
            settings=self.settings,
            make=self._make_hub,
            require_lease=self.require_lease,
            alone=self.links is None,
            owners=lambda: self.owners,
            look_for=lambda units: self._fleet.look_for(units),
            evaluator=self.evaluator,
        )

    def _make_hub(self, subscription: Subscription) -> Hub:
        return Hub(
            subscription,
            self._may_deliver,
            self.flusher.note,
            self.settings,
            self._clock,
            on_delivered=self.activity.delivered,
            listeners=self.listeners,
            throttling=self._throttling,
            in_flight=self._in_flight.of(subscription.tenant_id),
            usage=self.usage,
        )

    def _make_fleet(
        self,
        assignments: AssignmentRepository,
        leases: LeaseRepository,
        hints: HintRepository | None,
        weight: float,
    ) -> Fleet:
        return Fleet(
            assignments=assignments,
            leases=leases,
            partitions=self._partitions,
            flush=self.flusher.commit,
            require_lease=self.require_lease,
            renewed_late=self._on_renewed_late,
            links=self.links,
            hints=hints,
            address=lambda: self.address,
            weight=weight,
            activity=self.activity,
            waiting_of=self._waiting_of,
            longest_lag_s=self.load.take_longest_lag_s,
            clock=self._clock,
        )

    def _make_following(self) -> Following:
        return Following(
            catalog=self.catalog,
            tails=self._tails,
            hubs=self._hubs,
            owners=self.owners,
            look_for=self._fleet.look_for,
            may_claim=lambda: self._fleet.lease.lease is not None,
            wake=self._partitions.wake,
            forget_topic=self.directory.forget_topic,
        )

    def _may_deliver(self, reader: Reader) -> bool:
        """Return whether a reader may deliver now: its unit stays here, under our lease."""
        going = reader.frozen or reader.leaving or self._stopping
        return not going and self.holds_lease()

    def _may_touch(self) -> bool:
        """Return whether the ledgers here, but for the frozen, are ours to change now."""
        return not self._stopping and self.holds_lease()

    def _waiting_of(self, subscription_uid: bytes) -> int:
        hub = self._hubs.get(subscription_uid)
        return 0 if hub is None else hub.waiting

    def _freeze(self, units: Iterable[Unit]) -> None:
        self.owners.freeze(units)
        self._fleet.claims.kick()

    def _on_renewed_late(self) -> None:
        for owner in self.owners:
            self._partitions.wake(owner)
