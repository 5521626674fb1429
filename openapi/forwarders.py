"""The live subscribe forwarders."""

from __future__ import annotations

from openapi.contract import Answer, Operation, ok, table


class ForwarderLoad(Answer):
    """Rates are smoothed over five seconds."""

    cpu: float
    """Share of one core, which is all that a process can use."""
    lag_seconds: float
    """The longest that its event loop was late, in the last second."""
    messages_per_second: float
    """Handed out, each attempt counted."""
    bytes_per_second: float
    waiting: int
    """Long-polls that wait and streams that are open."""
    units: int
    """Partitions, and split off parts of them, that it owns."""


class ForwarderUnit(Answer):
    topic: str
    partition: int
    subscription: str | None
    """Null, all of the partition but what is split off it."""
    messages_per_second: float
    backlog: int
    """Messages that are not settled."""
    backlog_growth_per_second: float
    waiting: int
    """Consumers in line."""


class Forwarder(Answer):
    id: str
    """Of this life of the process; after a lost lease it has another."""
    role: str
    """`subscribe`, or `subscribe-leaving` for one that has handed over what it owned."""
    address: str
    """Where other forwarders reach it."""
    weight: float
    """Its share of the topics, next to those of the others."""
    age_seconds: float
    lease_seconds: float
    """Until others take over, unless it renews its lease."""
    load: ForwarderLoad | None
    """Null before its first report."""
    busiest: list[ForwarderUnit]
    """The parts of subscriptions that most messages were handed out of lately, of at most 16 the
    tenant's."""


class ForwarderHint(Answer):
    """Where the scheduler wants something to be that would be elsewhere without."""

    topic: str
    partition: int
    subscription: str | None
    """Null, all of the partition but what is split off it."""
    forwarder: str
    reason: str
    age_seconds: float


class Fleet(Answer):
    forwarders: list[Forwarder]
    hints: list[ForwarderHint]


OPERATIONS = table(
    "operations",
    Operation(
        id="listForwarders",
        route="GET /forwarders",
        needs="operate *",
        summary="List live subscribe forwarders",
        description=(
            "Who delivers messages, with which load, and where the scheduler wants what they "
            "own to be. Loads are of whole processes; topics are those of the tenant."
        ),
        answers=(ok(Fleet, "All of them, the oldest first."),),
    ),
)
