"""The live subscribe forwarders."""

from __future__ import annotations

from openapi.common import PartitionNumber
from openapi.contract import Answer, Operation, ok, table


class ForwarderLoad(Answer):
    """Rates are smoothed over five seconds."""

    cpu: float
    """Share of one core, which is all that a process can use."""
    lag_seconds: float
    """The longest that its event loop was late, in the last second."""
    messages_per_second: float
    """Deliveries a second; each attempt counts."""
    bytes_per_second: float
    """Bytes of message bodies that are delivered in a second."""
    waiting: int
    """Long-polls that wait and streams that are open."""
    units: int
    """Partitions, and split off parts of them, that it owns."""


class ForwarderUnit(Answer):
    """A part of a subscription that a forwarder delivers."""

    topic: str
    """The name of the topic."""
    partition: PartitionNumber
    subscription: str | None
    """Null for all of the partition except the parts that are split off it."""
    messages_per_second: float
    """Deliveries a second; each attempt counts."""
    backlog: int
    """Messages that are not settled."""
    backlog_growth_per_second: float
    """Messages a second by which its backlog grows; less than 0 where it shrinks."""
    waiting: int
    """The number of consumers that wait for messages."""


class Forwarder(Answer):
    """A process that delivers messages."""

    id: str
    """The id of the process until it ends; it takes another one after a lost lease."""
    role: str
    """`subscribe`, or `subscribe-leaving` for one that has handed over what it owned."""
    address: str
    """The address at which other forwarders reach it."""
    weight: float
    """The share of the topics that it should own, in proportion to other forwarders."""
    age_seconds: float
    """Seconds since the process began."""
    lease_seconds: float
    """Seconds until others take over, unless it renews its lease."""
    load: ForwarderLoad | None
    """Null before its first report."""
    busiest: list[ForwarderUnit]
    """The parts of subscriptions with the most deliveries lately: those of the tenant, among the
    first 16."""


class ForwarderHint(Answer):
    """A wish of the scheduler that a forwarder owns something which another would own."""

    topic: str
    """The name of the topic."""
    partition: PartitionNumber
    subscription: str | None
    """Null for all of the partition except the parts that are split off it."""
    forwarder: str
    """The id of the forwarder that is to own it."""
    reason: str
    """The reason of the wish, for people."""
    age_seconds: float
    """Seconds since the scheduler said it."""


class Fleet(Answer):
    """The processes that deliver messages."""

    forwarders: list[Forwarder]
    """The processes that are alive, the oldest first."""
    hints: list[ForwarderHint]
    """The wishes that hold now."""


OPERATIONS = table(
    "operations",
    Operation(
        id="listForwarders",
        route="GET /forwarders",
        needs="operate *",
        summary="List live subscribe forwarders",
        description=(
            "The processes that deliver messages, their loads, and the wishes of the scheduler "
            "about what they own. Loads are those of whole processes; topics are those of the "
            "tenant."
        ),
        answers=(ok(Fleet, "All of them, the oldest first."),),
    ),
)
