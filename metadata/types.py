"""The values that leave the metadata store: frozen, cached, shared between tasks.

Tenant ids, uids and incarnations are 16 bytes in Python and `uuid` in Postgres. Offsets are ints,
ranges are half-open (low, high) pairs in ascending order that neither touch nor overlap.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, NamedTuple, TypeVar

from metadata.delivery.deliveries import (
    DeadLetter,
    DeliveryLease,
    OpenDelivery,
    Publication,
    Range,
    SettledRange,
)
from metadata.subscriptions.push_config import PushConfig
from openapi import subscriptions, tenants, topics
from openapi.subscriptions import PlainSettings

T = TypeVar("T")


class Epoch(NamedTuple):
    """Fences an owner's writes. `era` is 0 until the store keeps one; `n` grows with each claim."""

    era: int
    n: int


NO_EPOCH = Epoch(0, 0)
"""The epoch of a unit that was never claimed."""

WHOLE = bytes(16)


class Unit(NamedTuple):
    """The unit of ownership of forwarders: a partition of a topic with all its subscriptions but
    those split off, or that partition for one subscription that is split off."""

    tenant_id: bytes
    topic_uid: bytes
    partition: int
    subscription_uid: bytes = WHOLE
    """WHOLE: the partition; else the one that is split off it."""

    @property
    def base(self) -> Unit:
        """The whole partition that it is, or is split off."""
        if self.subscription_uid == WHOLE:
            return self
        return Unit(self.tenant_id, self.topic_uid, self.partition)


class CursorKey(NamedTuple):
    """One cursor row; the order of these tuples is the order in which rows are locked."""

    tenant_id: bytes
    subscription_uid: bytes
    partition: int
    lane: int = 0


class TopicState(enum.Enum):
    """creating → active → deleting → (row gone); creating → deleting when creation is given up."""

    CREATING = "creating"
    ACTIVE = "active"
    DELETING = "deleting"


TOKEN_AUDIENCE_PREFIX = "packetboat:tenant:"
"""An audience of another tenant's can't be registered, so nobody but the platform gives these."""


@dataclass(frozen=True, slots=True)
class TenantSpec:
    """The choices of an operator. `egress_allowed`: networks (CIDR) and hosts that its webhooks may
    reach although they are private. `issuers_allowed`: `ISSUER#AUDIENCE` of tokens that are its
    own, as the operator has made sure."""

    name: str
    display_name: str = ""
    state: tenants.State = "active"
    labels: Mapping[str, str] = field(default_factory=dict)
    egress_allowed: tuple[str, ...] = ()
    issuers_allowed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tenant:
    """The unit of isolation; owns everything below. `version` is its ETag."""

    tenant_id: bytes
    name: str
    display_name: str
    state: tenants.State
    labels: Mapping[str, str]
    egress_allowed: tuple[str, ...]
    version: int
    created_at: datetime
    updated_at: datetime
    issuers_allowed: tuple[str, ...] = ()

    @property
    def token_audience(self) -> str:
        """Return the audience of a tenant's tokens, made of its id: a tenant with the name of a
        deleted one has another.
        """
        return token_audience(self.tenant_id)


def token_audience(tenant_id: bytes) -> str:
    """Return the audience of a tenant's tokens, made of its id: a tenant with the name of a deleted
    one has another.
    """
    return TOKEN_AUDIENCE_PREFIX + tenant_id.hex()


@dataclass(frozen=True, slots=True)
class Retention:
    """The time and space that messages are kept for; None means the platform's default."""

    mode: topics.Mode = "consume"
    seconds: int | None = None
    bytes: int | None = None
    on_limit: topics.OnLimit = "refuse"


@dataclass(frozen=True, slots=True)
class Partition:
    """The open generation of one partition and lane: its queue, and the group that holds it."""

    number: int
    group: int
    lane: int = 0
    generation: int = 0
    base: int = 0


@dataclass(frozen=True, slots=True)
class SealedPartition:
    """An older generation of a partition: its queue holds the offsets from `base` to `sealed_at`,
    where the next generation begins. It is here for as long as anything of it may be wanted."""

    number: int
    group: int
    lane: int
    generation: int
    base: int
    sealed_at: int
    sealed_time_us: int
    """The time of the seal, by Postgres' clock."""
    of_partitions: int
    """The number of partitions that the topic had then, by which keys were spread."""


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """The choices of a caller that creates a topic."""

    name: str
    retention: Retention = Retention()
    dedup_window_s: int = 600
    labels: Mapping[str, str] = field(default_factory=dict)
    priorities: int = 1
    ack_history: bool = False
    schema: str | None = None


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as one transaction saw it. `version` is its ETag; `uid` is never reused."""

    tenant_id: bytes
    uid: bytes
    name: str
    state: TopicState
    partitions: tuple[Partition, ...]
    retention: Retention
    dedup_window_s: int
    labels: Mapping[str, str]
    version: int
    created_at: datetime
    updated_at: datetime
    full: str | None = None
    """The reason that it takes no messages now, as a problem type: `topic-full` or `tenant-full`.
    It changes without a new version, because no caller chose it."""
    full_detail: str = ""
    """A sentence for people, which names the limit and a way to make room."""
    sealed: tuple[SealedPartition, ...] = ()
    """Older generations, by partition, lane and generation."""
    priorities: int = 1
    """Each partition has one lane per priority, 0 … priorities − 1."""
    ack_history: bool = False
    """Whether it is kept when each message was settled."""
    schema: str | None = None
    """The name of the schema that bodies are held to."""

    @property
    def partition_count(self) -> int:
        """`partitions` has an item for each lane of each."""
        return len(self.partitions) // self.priorities

    def generations(self, number: int, lane: int = 0) -> tuple[SealedPartition | Partition, ...]:
        """Return the generations of one lane of a partition, from the oldest to the open one; none
        where there is no such lane."""
        return (
            *(one for one in self.sealed if one.number == number and one.lane == lane),
            *(one for one in self.partitions if one.number == number and one.lane == lane),
        )


@dataclass(frozen=True, slots=True)
class Placement:
    """A move or growth that is not finished. `sealing` are the generations to be ended, `opening`
    those that follow; where one continues a partition its `base` is not known before the seal, and
    0 here."""

    uid: bytes
    kind: topics.PlacementKind
    topic: Topic
    sealing: tuple[Partition, ...]
    opening: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Back-off between attempts: exponential with full jitter; no limit of attempts when None."""

    min_backoff_s: float = 1.0
    max_backoff_s: float = 600.0
    max_attempts: int | None = None


class SubscriptionSpec(PlainSettings, frozen=True):  # type: ignore[misc] # bodies are not frozen
    """The choices of a caller that creates a subscription: the plain settings are the contract's,
    and the others are kept in another shape. `start` is kept as it was given."""

    name: str
    type: subscriptions.StoredType = "pull"
    delivery: subscriptions.DeliveryValue = "at_least_once"
    ordered: bool = False
    ack_deadline_s: float = 30.0
    retry: RetryPolicy = RetryPolicy()
    start: str | Mapping[str, object] = "latest"
    on_exhausted: subscriptions.OnExhausted = "dead_letter"
    rate_limit: float | None = None
    """Messages per second, in all; None is no limit."""
    consumer_rate_limit: float | None = None
    """Messages per second of each consumer; None is no limit."""
    push: PushConfig | None = None
    """The endpoint of a subscription of type push; None for the others."""


class Subscription(SubscriptionSpec, frozen=True, kw_only=True):  # type: ignore[misc] # see above
    """A subscription as one transaction saw it. `generation` is bumped by seek and restore."""

    tenant_id: bytes
    uid: bytes
    topic_uid: bytes
    topic_name: str
    generation: int
    version: int
    created_at: datetime
    updated_at: datetime
    skip_rules: tuple[SkipRule, ...] = ()
    state: subscriptions.State = "active"
    state_reason: str | None = None


@dataclass(frozen=True, slots=True)
class SkipRule:
    """Messages for which the expression is true are settled as skipped instead of delivered.
    `reason` is for the audit."""

    uid: bytes
    expression: str
    reason: str
    created_by: str
    created_at: datetime
    removed_by: str | None = None
    removed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Counters:
    """The settled offsets of a cursor by their outcome; each offset counts once, in one of them."""

    acked: int = 0
    filtered: int = 0
    skipped: int = 0
    expired: int = 0
    dead_lettered: int = 0

    def total(self) -> int:
        return self.acked + self.filtered + self.skipped + self.expired + self.dead_lettered


@dataclass(frozen=True, slots=True)
class CursorState:
    """A cursor row: below `floor` all is settled, `acked` are the settled ranges from there on."""

    key: CursorKey
    topic_uid: bytes
    epoch: Epoch
    generation: int
    start: int
    floor: int
    read_to: int
    acked: tuple[Range, ...] = ()
    counters: Counters = Counters()
    exceptions: int = 0
    """The number of its rows of `deliveries`: offsets stepped over, settled by no counter yet."""
    stepped_over: tuple[OpenDelivery, ...] = ()
    """The rows themselves, by offset; a claim and `load` read them."""
    leases: tuple[DeliveryLease, ...] = ()
    """Exactly-once leases, by number; read by a claim and by `load`."""

    def pending(self) -> int:
        """Return the number of offsets in [floor, read_to) that nothing has settled. Open
        deliveries are not in it."""
        return self.read_to - self.floor - sum(high - low for low, high in self.acked)


@dataclass(frozen=True, slots=True)
class CursorUpdate:
    """The whole new state of a cursor row, written only where epoch and generation still match."""

    key: CursorKey
    epoch: Epoch
    generation: int
    floor: int
    read_to: int
    acked: tuple[Range, ...]
    counters: Counters
    exceptions: int = 0
    stepped_over: tuple[OpenDelivery, ...] = ()
    """Rows of `deliveries` to put, whole."""
    closed: tuple[int, ...] = ()
    """Offsets whose row of `deliveries` goes."""
    leases: tuple[DeliveryLease, ...] = ()
    """Rows of `delivery_leases` to put, whole."""
    ended_leases: tuple[int, ...] = ()
    """Numbers whose row of `delivery_leases` goes."""
    dead_letters: tuple[DeadLetter, ...] = ()
    """Rows of `dead_letters` to make; one that is there stays as it is."""
    history: tuple[SettledRange, ...] = ()
    publications: tuple[Publication, ...] = ()
    """Committed with it, or nothing of it is written."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A claimed unit: the epoch to write with, and its cursors as they are under it."""

    key: Unit
    epoch: Epoch
    cursors: tuple[CursorState, ...]
    previous: Epoch = NO_EPOCH
    """The epoch of the claim before; if that was the claimer's own, nobody had the unit since."""
    split_off: frozenset[bytes] = frozenset()
    """Subscriptions that are split off the partition, whose cursors are not among these."""


@dataclass(frozen=True, slots=True)
class Forwarder:
    """A live lease row as another process sees it."""

    incarnation: bytes
    role: str
    address: str
    remaining_s: float
    weight: float = 1.0
    age_s: float = 0.0
    """Seconds since it registered."""


class ChangeKind(enum.Enum):
    """The kind of a changed thing. RESET says that too much was missed: forget every cached thing,
    and read again."""

    TENANT = "tenant"
    TOPIC = "topic"
    SUBSCRIPTION = "subscription"
    SCHEMA = "schema"
    SCHEDULE = "schedule"
    CLIENT = "client"
    KEY = "key"
    POLICY = "policy"
    ISSUER = "issuer"
    QUOTA = "quota"
    FLOW = "flow"
    TOKEN = "token"
    RESET = "reset"


@dataclass(frozen=True, slots=True)
class Change:
    """One committed control-plane change; versions follow commit order."""

    version: int
    kind: ChangeKind
    tenant_id: bytes
    uid: bytes
    name: str
    topic_uid: bytes = b""


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a listing; `next_token` is None on the last."""

    items: tuple[T, ...]
    next_token: str | None
