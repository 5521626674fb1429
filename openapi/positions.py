"""Seeking a subscription, and snapshots of its position."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from openapi.common import CONFLICT, LOCATION, Labels, Name, Total
from openapi.contract import Answer, Body, Operation, Success, no_content, ok, table
from openapi.subscriptions import StartAt


class SeekAt(StartAt):
    """A place other than the two named ones to which a subscription is moved."""

    EXACTLY_ONE = ("time", "offset", "offsets", "snapshot")
    offsets: (
        Annotated[
            dict[Annotated[str, Meta(pattern=r"^(0|[1-9][0-9]{0,3})(/[0-9])?\Z")], Total],
            Meta(min_length=1, max_length=2560),
        ]
        | UnsetType
    ) = UNSET
    """Offsets by partition, or by partition and lane, such as `3/1`; partitions without one stay
    where they are."""


class Seek(Body):
    to: Literal["earliest", "latest"] | SeekAt
    dry_run: bool = False
    """Whether only the result is shown, and nothing changes."""


class SoughtPartition(Answer):
    partition: int
    lane: int
    offset: int


class Sought(Answer):
    generation: int
    """Counts the seeks; ack ids belong to one."""
    partitions: list[SoughtPartition]
    backlog: int
    """The number of messages to deliver from there on."""
    dry_run: bool
    """Whether nothing was changed."""


class StateReason(Body):
    reason: Annotated[str, Meta(max_length=1024)] | None = None
    """A reason that people see as `state_reason`."""


class SubscriptionState(Answer):
    name: str
    state: Literal["active", "paused", "draining"]
    state_reason: str | None


class SnapshotCreate(Body):
    name: Name
    expires_in_seconds: Annotated[float, Meta(ge=1, le=31_536_000)] = 604800.0
    """Seconds after which the snapshot goes."""
    labels: Labels = {}


class Snapshot(Answer):
    name: str
    topic: str
    subscription: str
    """The subscription that it was taken of; every subscription of the topic can go back to it.
    """
    labels: dict[str, str]
    created_at: datetime
    expires_at: datetime | None


class SnapshotPage(Answer):
    snapshots: list[Snapshot]
    next_page_token: str | None


OPERATIONS = table(
    "subscriptions",
    Operation(
        id="seek",
        route="POST /subscriptions/{name}/seek",
        needs="manage subscription:name",
        summary="Move a subscription",
        body=Seek,
        answers=(
            ok(
                Sought,
                (
                    "Where it is now. Nothing is delivered any more from where it was; "
                    "ack ids of before are stale."
                ),
            ),
        ),
        problems=(CONFLICT,),
    ),
    Operation(
        id="pause",
        route="POST /subscriptions/{name}/pause",
        needs="manage subscription:name",
        summary="Pause a subscription",
        body=StateReason,
        body_required=False,
        answers=(
            ok(SubscriptionState, "Nothing is handed out; acks go on, and waiting pulls wait on."),
        ),
    ),
    Operation(
        id="resume",
        route="POST /subscriptions/{name}/resume",
        needs="manage subscription:name",
        summary="Resume a subscription",
        body=StateReason,
        body_required=False,
        answers=(ok(SubscriptionState, "Messages are handed out again."),),
    ),
    Operation(
        id="drain",
        route="POST /subscriptions/{name}/drain",
        needs="manage subscription:name",
        summary="Drain a subscription",
        body=StateReason,
        body_required=False,
        answers=(ok(SubscriptionState, "Only what was handed out before is handed out again."),),
    ),
    Operation(
        id="createSnapshot",
        route="POST /subscriptions/{name}/snapshots",
        needs="manage subscription:name",
        summary="Take a snapshot",
        body=SnapshotCreate,
        answers=(
            Success(
                201,
                "The snapshot; every ack answered before the call is in it.",
                Snapshot,
                (LOCATION,),
            ),
        ),
        problems=(CONFLICT,),
    ),
    Operation(
        id="listSnapshots",
        route="GET /snapshots",
        needs="read snapshot:?",
        summary="List snapshots",
        paged=True,
        answers=(ok(SnapshotPage, "One page, by name."),),
    ),
    Operation(
        id="getSnapshot",
        route="GET /snapshots/{name}",
        needs="read snapshot:name",
        summary="Get a snapshot",
        answers=(ok(Snapshot, "The snapshot."),),
    ),
    Operation(
        id="deleteSnapshot",
        route="DELETE /snapshots/{name}",
        needs="manage snapshot:name",
        summary="Delete a snapshot",
        answers=(no_content("Gone, and what it held may be trimmed."),),
    ),
)
