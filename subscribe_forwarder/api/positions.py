"""Where a subscription goes on, and whether it does: seek, pause, resume, drain.

What must hold: a seek is answered when it is committed and every owner that can be reached has
forgotten what it had in memory of the positions before. So nothing they hand out after the answer
is from there; ack ids of the generation before are stale from the commit on. An owner that cannot
be reached follows by the change feed, and is fenced by the generation (fronts/following.py).
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any, Literal

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
from edge.problem import FieldError, Problem, invalid
from metadata.errors import MetadataError
from metadata.subscriptions.seeks import LaneOf, SeekRepository, Sought
from metadata.subscriptions.snapshots import SnapshotRepository
from metadata.subscriptions.states import SubscriptionStateRepository
from metadata.types import Subscription, SubscriptionState
from openapi.positions import OPERATIONS
from subscribe_forwarder.api import requests
from subscribe_forwarder.forwarder import SubscribeForwarder
from subscribe_forwarder.fronts.following import Following
from subscribe_forwarder.reading.places import Bounds
from subscribe_forwarder.reading.targets import (
    MAX_OFFSET,
    Offsets,
    SnapshotOf,
    Targets,
    Time,
    To,
)

MAX_REASON_CHARS = 1024
MAX_PLACES = 2560
_MAX_BODY_BYTES = 256 * 1024
_NO_STORE = [(b"cache-control", b"no-store")]


class SeekAt(msgspec.Struct, forbid_unknown_fields=True):
    """A position other than the two named ones: exactly one of its fields."""

    time: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    offset: int | float | None = None
    offsets: dict[str, int | float] | None = None
    snapshot: Annotated[str, msgspec.Meta(max_length=128)] | None = None

    def to(self) -> To:
        """Raises a 422 Problem."""
        given = [
            each
            for each in (self.time, self.offset, self.offsets, self.snapshot)
            if each is not None
        ]
        if len(given) != 1:
            raise _unfit("to", "one of time, offset, offsets and snapshot, and only one")
        if self.time is not None:
            return Time(max(0, int(self.time.timestamp() * 1_000_000)))
        if self.snapshot is not None:
            return SnapshotOf(self.snapshot)
        if self.offsets is None:
            return _offset("to.offset", self.offset)
        if not 0 < len(self.offsets) <= MAX_PLACES:
            raise _unfit("to.offsets", f"1 to {MAX_PLACES} partitions")
        return Offsets(
            {name: _offset(f"to.offsets.{name}", at) for name, at in self.offsets.items()}
        )


class SeekBody(msgspec.Struct, forbid_unknown_fields=True):
    to: Literal["earliest", "latest"] | SeekAt
    dry_run: bool = False


class StateBody(msgspec.Struct, forbid_unknown_fields=True):
    reason: Annotated[str, msgspec.Meta(max_length=MAX_REASON_CHARS)] | None = None


_SEEK = msgspec.json.Decoder(SeekBody)
_STATE = msgspec.json.Decoder(StateBody)


class PositionRoutes:
    """Raises Problems, and StoreError and MetadataError, which the dispatcher answers."""

    def __init__(
        self,
        forwarder: SubscribeForwarder,
        seeks: SeekRepository,
        snapshots: SnapshotRepository,
        states: SubscriptionStateRepository,
    ) -> None:
        self._forwarder = forwarder
        self._following = Following(forwarder, forwarder.links)
        self._seeks = seeks
        self._snapshots = snapshots
        self._states = states

    def routes(self) -> list[Route]:
        return [
            Route(OPERATIONS["seek"], self.seek),
            Route(OPERATIONS["pause"], self.pause),
            Route(OPERATIONS["resume"], self.resume),
            Route(OPERATIONS["drain"], self.drain),
        ]

    async def seek(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = requests.decode(await read_body(scope, receive, _MAX_BODY_BYTES), _SEEK)
        to = body.to if isinstance(body.to, str) else body.to.to()
        if isinstance(to, SnapshotOf):
            caller_of(scope).require("read", "snapshot", to.name)
        forwarder, tenant_id = self._forwarder, tenant_of(scope)
        name = path_param(scope, "name")
        subscription = await forwarder.catalog.subscription(tenant_id, name, refresh=True)
        topic = await forwarder.catalog.topic(tenant_id, subscription.topic_name, refresh=True)
        bounds, targets = await Targets(forwarder.history, self._snapshots).find(topic, to)
        sought = await self._seeks.seek(tenant_id, subscription.uid, targets, dry_run=body.dry_run)
        if not body.dry_run:
            await self._take_in(subscription, sought.generation)
        await respond(
            send, 200, msgspec.json.encode(_view(sought, bounds, body.dry_run)), headers=_NO_STORE
        )

    async def pause(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Nothing is handed out; acks go on, and waiting pulls wait on."""
        await self._turn(scope, receive, send, SubscriptionState.PAUSED)

    async def resume(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._turn(scope, receive, send, SubscriptionState.ACTIVE)

    async def drain(self, scope: Scope, receive: Receive, send: Send) -> None:
        """What was handed out before may be handed out again, and nothing else."""
        await self._turn(scope, receive, send, SubscriptionState.DRAINING)

    async def _turn(
        self, scope: Scope, receive: Receive, send: Send, state: SubscriptionState
    ) -> None:
        raw = await read_body(scope, receive, _MAX_BODY_BYTES)
        body = requests.decode(raw, _STATE) if raw.strip() else StateBody()
        tenant_id, name = tenant_of(scope), path_param(scope, "name")
        await self._states.set(tenant_id, name, state, body.reason)
        # Owners follow here and now; where Postgres fails after the commit, by the feed.
        with suppress(MetadataError):
            subscription = await self._forwarder.catalog.subscription(tenant_id, name, refresh=True)
            await self._following.tell(subscription, moved=False)
        answer = {"name": name, "state": state.value, "state_reason": body.reason}
        await respond(send, 200, msgspec.json.encode(answer), headers=_NO_STORE)

    async def _take_in(self, subscription: Subscription, generation: int) -> None:
        """The seek is committed, so nothing is refused any more: what cannot be read again now is
        forgotten all the same, and read when it is needed."""
        subscription = replace(subscription, generation=generation)
        with suppress(MetadataError):
            subscription = await self._forwarder.catalog.subscription(
                subscription.tenant_id, subscription.name, refresh=True
            )
        await self._following.tell(subscription, moved=True)


def _view(sought: Sought, bounds: dict[LaneOf, Bounds], dry_run: bool) -> dict[str, Any]:
    positions = sorted(sought.positions.items())
    return {
        "generation": sought.generation,
        "partitions": [
            {"partition": partition, "lane": lane, "offset": position.floor}
            for (partition, lane), position in positions
        ],
        "backlog": sum(
            max(0, bounds[place].end - position.floor - position.settled)
            for place, position in positions
            if place in bounds
        ),
        "dry_run": dry_run,
    }


def _offset(field: str, value: int | float | None) -> int:
    if value is None or value != int(value) or not 0 <= value <= MAX_OFFSET:
        raise _unfit(field, f"an integer from 0 to {MAX_OFFSET}")
    return int(value)


def _unfit(field: str, detail: str) -> Problem:
    return invalid("The body does not fit.", [FieldError(field, detail)])
