"""Seeking a subscription, and snapshots of its position."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from openapi.common import (
    CONFLICT,
    LOCATION,
    CreatedAt,
    Labels,
    LaneNumber,
    Name,
    NextPageToken,
    PartitionNumber,
    ShownLabels,
    Total,
)
from openapi.contract import Answer, Body, Operation, Success, no_content, ok, table
from openapi.subscriptions import StartAt, State


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
    """A request to move a subscription."""

    to: Literal["earliest", "latest"] | SeekAt
    """The new position: the first message kept, the end, or another place."""
    dry_run: bool = False
    """Whether only the result is shown, and nothing changes."""


class SoughtPartition(Answer):
    """The offset from which a partition is read now."""

    partition: PartitionNumber
    lane: LaneNumber
    offset: int
    """The offset from which messages are delivered."""


class Sought(Answer):
    """The place that a subscription was moved to, or would be."""

    generation: int
    """Counts the seeks; ack ids belong to one."""
    partitions: list[SoughtPartition]
    """The new position in each lane of each partition."""
    backlog: int
    """The number of messages to deliver from there on."""
    dry_run: bool
    """Whether nothing was changed."""


class StateReason(Body):
    """A reason for a change of state."""

    reason: Annotated[str, Meta(max_length=1024)] | None = None
    """A reason that people see as `state_reason`."""


class SubscriptionState(Answer):
    """The state of a subscription after a change of it."""

    name: str
    """The name of the subscription."""
    state: State
    """`paused`: nothing is delivered; `draining`: only what was delivered before."""
    state_reason: str | None
    """The reason that was given; null where none was."""


class SnapshotCreate(Body):
    """A request to keep the position of a subscription."""

    name: Name
    """The name of the snapshot, unique in the tenant."""
    expires_in_seconds: Annotated[float, Meta(ge=1, le=31_536_000)] = 604800.0
    """Seconds after which the snapshot goes."""
    labels: Labels = {}


class Snapshot(Answer):
    """The messages that a subscription had not acked."""

    name: str
    """The name of the snapshot."""
    topic: str
    """The name of the topic whose messages it keeps."""
    subscription: str
    """The subscription that it was taken of; every subscription of the topic can go back to it.
    """
    labels: ShownLabels
    created_at: CreatedAt
    expires_at: datetime | None
    """The time at which it goes, with its hold on messages."""


class SnapshotPage(Answer):
    """One page of snapshots."""

    snapshots: list[Snapshot]
    """The snapshots of this page, by name."""
    next_page_token: NextPageToken


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
            ok(SubscriptionState, "Nothing is delivered; acks go on, and waiting pulls wait on."),
        ),
    ),
    Operation(
        id="resume",
        route="POST /subscriptions/{name}/resume",
        needs="manage subscription:name",
        summary="Resume a subscription",
        body=StateReason,
        body_required=False,
        answers=(ok(SubscriptionState, "Messages are delivered again."),),
    ),
    Operation(
        id="drain",
        route="POST /subscriptions/{name}/drain",
        needs="manage subscription:name",
        summary="Drain a subscription",
        body=StateReason,
        body_required=False,
        answers=(ok(SubscriptionState, "Only earlier messages are delivered again."),),
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
