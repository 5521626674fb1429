"""Moves subscriptions, and pauses, resumes and drains them.

This must hold: a seek is answered once it is committed, and every owner that can be reached has
forgotten the positions before it. So nothing that owners deliver after the answer is from before;
ack ids of the generation before are stale from the commit on. An owner that cannot be reached
follows by the change feed, and is fenced by the generation (fleet/proxy/following.py).
"""

from __future__ import annotations

from contextlib import suppress

import msgspec
from msgspec.structs import replace

from edge.asgi import (
    Receive,
    Route,
    Scope,
    Send,
    caller_of,
    path_param,
    read_body,
    respond,
    tenant_of,
)
from edge.bodies import decode
from metadata.errors import MetadataError
from metadata.subscriptions.seeks import LaneOf, SeekRepository, SeekResult
from metadata.subscriptions.snapshots import SnapshotRepository
from metadata.subscriptions.states import SubscriptionStateRepository
from metadata.types import Subscription
from openapi import positions as contract
from openapi.subscriptions import StartAt, State
from positions.places import Bounds
from positions.targets import Targets
from subscribe_forwarder.fleet.proxy.following import Following
from subscribe_forwarder.forwarder import SubscribeForwarder

_MAX_BODY_BYTES = 256 * 1024
_NO_STORE = [(b"cache-control", b"no-store")]


_SEEK = msgspec.json.Decoder(contract.Seek)
_STATE = msgspec.json.Decoder(contract.StateReason)


class PositionRoutes:
    """The handlers. They raise Problems, StoreError and MetadataError, which the dispatcher
    answers."""

    def __init__(
        self,
        forwarder: SubscribeForwarder,
        seeks: SeekRepository,
        snapshots: SnapshotRepository,
        states: SubscriptionStateRepository,
    ) -> None:
        self._forwarder = forwarder
        self._following = Following(
            forwarder.catalog, forwarder.links, forwarder.follow, forwarder.reload
        )
        self._seeks = seeks
        self._snapshots = snapshots
        self._states = states

    def routes(self) -> list[Route]:
        return [
            Route(contract.OPERATIONS["seek"], self.seek),
            Route(contract.OPERATIONS["pause"], self.pause),
            Route(contract.OPERATIONS["resume"], self.resume),
            Route(contract.OPERATIONS["drain"], self.drain),
        ]

    async def seek(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = decode(await read_body(scope, receive, _MAX_BODY_BYTES), _SEEK)
        if isinstance(body.to, StartAt) and isinstance(body.to.snapshot, str):
            await caller_of(scope).require("read", "snapshot", body.to.snapshot)
        forwarder, tenant_id = self._forwarder, tenant_of(scope)
        name = path_param(scope, "name")
        subscription = await forwarder.catalog.subscription(tenant_id, name, refresh=True)
        topic = await forwarder.catalog.topic(tenant_id, subscription.topic_name, refresh=True)
        bounds, targets = await Targets(forwarder.history, self._snapshots).find(topic, body.to)
        sought = await self._seeks.seek(tenant_id, subscription.uid, targets, dry_run=body.dry_run)
        if not body.dry_run:
            await self._take_in(subscription, sought.generation)
        shown = _view(sought, bounds, body.dry_run)
        await respond(send, 200, msgspec.json.encode(shown), headers=_NO_STORE)

    async def pause(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pause a subscription: nothing is delivered. Acks go on, and waiting pulls wait on."""
        await self._turn(scope, receive, send, "paused")

    async def resume(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._turn(scope, receive, send, "active")

    async def drain(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Drain a subscription: only messages that were delivered before may be again."""
        await self._turn(scope, receive, send, "draining")

    async def _turn(self, scope: Scope, receive: Receive, send: Send, state: State) -> None:
        raw = await read_body(scope, receive, _MAX_BODY_BYTES)
        body = decode(raw, _STATE) if raw else contract.StateReason()
        tenant_id, name = tenant_of(scope), path_param(scope, "name")
        await self._states.set(tenant_id, name, state, body.reason)
        # Owners follow here and now; where Postgres fails after the commit, by the feed.
        with suppress(MetadataError):
            subscription = await self._forwarder.catalog.subscription(tenant_id, name, refresh=True)
            await self._following.tell(subscription, moved=False)
        shown = contract.SubscriptionState(name, state, body.reason)
        await respond(send, 200, msgspec.json.encode(shown), headers=_NO_STORE)

    async def _take_in(self, subscription: Subscription, generation: int) -> None:
        """Have the owners forget the positions before a seek that is committed. It is not refused
        any more: a position that cannot be read again now is read when it is needed."""
        subscription = replace(subscription, generation=generation)
        with suppress(MetadataError):
            subscription = await self._forwarder.catalog.subscription(
                subscription.tenant_id, subscription.name, refresh=True
            )
        await self._following.tell(subscription, moved=True)


def _view(sought: SeekResult, bounds: dict[LaneOf, Bounds], dry_run: bool) -> contract.Sought:
    positions = sorted(sought.positions.items())
    return contract.Sought(
        sought.generation,
        [contract.SoughtPartition(*place, position.floor) for place, position in positions],
        sum(
            max(0, bounds[place].end - position.floor - position.settled)
            for place, position in positions
            if place in bounds
        ),
        dry_run,
    )
