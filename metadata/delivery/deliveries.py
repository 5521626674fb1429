"""Rows beside a cursor row: offsets that it stepped over, exactly-once leases, dead letters.

They are written in the statement that writes the cursor (cursors.py), under its epoch and
generation, so that the books balance at every commit. Times are µs since 1970 UTC by the owner's
wall clock: they survive a takeover, where a monotonic clock does not.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

Range = tuple[int, int]


class Reason(enum.Enum):
    """The reason for which a cursor stepped over an offset.

    hole: the cursor had to go on; failed: attempts ended without an ack; exhausted, rejected: on
    its way to the dead letters; parked: the head of a key that waits for an operator;
    behind_parked: a later message of such a key.
    """

    HOLE = "hole"
    FAILED = "failed"
    EXHAUSTED = "exhausted"
    REJECTED = "rejected"
    PARKED = "parked"
    BEHIND_PARKED = "behind_parked"


@dataclass(frozen=True, slots=True)
class OpenDelivery:
    """A row of `deliveries`: unsettled, and below the floor or among the acked ranges."""

    offset: int
    attempts: int
    """The number of attempts that ended without an ack."""
    reason: Reason
    not_before_us: int | None = None
    """The end of its back-off."""
    key_hash: int | None = None
    """The hash of the message's key, signed 64 bits; None without a key, or if order does not
    matter.
    """
    detail: str | None = None
    """The consumer's reason, or the error that kept the dead letter from being written."""
    first_us: int | None = None
    """The time of its first delivery; the next member has that of the last."""
    last_us: int | None = None


ACKS_KEPT_S = 600
"""Seconds for which an exactly-once ack can be repeated, at least."""


@dataclass(frozen=True, slots=True)
class DeliveryLease:
    """A row of `delivery_leases`: what one pull of an exactly-once subscription leased, all of it
    in the same attempt. `number` is unique in the cursor and grows."""

    number: int
    epoch_era: int
    epoch_n: int
    attempt: int
    offsets: tuple[Range, ...]
    acked: tuple[Range, ...]
    expires_us: int


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A row of `dead_letters` as it is first written, where the message went."""

    uid: bytes
    offset: int
    message_id: str
    key: str | None
    attributes: Mapping[str, str]
    content_type: str | None
    size_bytes: int
    reason: str
    """`exhausted` or `rejected`."""
    detail: str | None
    attempts: int
    first_us: int | None
    last_us: int | None
    publish_us: int
    letter_topic_uid: bytes
    letter_partition: int
    letter_lane: int
    letter_offset: int


Outcome = Literal["acked", "filtered", "skipped", "expired", "dead_lettered"]


@dataclass(frozen=True, slots=True)
class SettledRange:
    """A row of `ack_history`: [low, high) were settled now, alike."""

    low: int
    high: int
    outcome: Outcome


class StagedOutputs(NamedTuple):
    """Messages staged in one queue (its packed id); no numbers while none is known to be."""

    group: int
    queue: bytes
    numbers: tuple[int, ...] = ()


class Publication(NamedTuple):
    """The messages that one ack publishes, by the tag they are staged under: `ack_publications`."""

    tenant_id: bytes
    tag: bytes
    outputs: tuple[StagedOutputs, ...]
