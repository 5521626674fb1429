"""Load reports: what each forwarder says of itself with every renewal of its lease.

Compact JSON in `forwarders.load`. A reader ignores unknown members, and a report that it
can't read counts as none: the processes of a fleet may have two versions.
"""

from __future__ import annotations

import msgspec

from metadata.types import WHOLE, Unit

MAX_BYTES = 4096
MAX_UNITS = 16
"""The limit for each kind of unit; the costliest are reported."""


class UnitLoad(msgspec.Struct, frozen=True, array_like=True):
    """One unit whose messages were delivered lately. Ids are hex, all else is a smoothed rate
    or a count of now."""

    tenant: str
    topic: str
    partition: int
    subscription: str
    """Empty: the partition, with all its subscriptions but those split off."""
    per_second: float
    """The messages delivered a second, each attempt counted."""
    backlog: int
    """Messages that are not settled."""
    growth_per_s: float
    """The growth of the backlog in messages a second."""
    waiting: int
    """Consumers in line."""

    @classmethod
    def of(
        cls, unit: Unit, *, per_second: float, backlog: int, growth_per_s: float, waiting: int
    ) -> UnitLoad:
        return cls(
            unit.tenant_id.hex(),
            unit.topic_uid.hex(),
            unit.partition,
            "" if unit.subscription_uid == WHOLE else unit.subscription_uid.hex(),
            round(per_second, 1),
            backlog,
            round(growth_per_s, 1),
            waiting,
        )

    @property
    def unit(self) -> Unit:
        subscription = bytes.fromhex(self.subscription) if self.subscription else WHOLE
        return Unit(
            bytes.fromhex(self.tenant), bytes.fromhex(self.topic), self.partition, subscription
        )


class Load(msgspec.Struct, frozen=True):
    """A report of one process, not of a machine: one event loop fills at most one core."""

    cpu: float
    """Share of one core, from 0 on; threads may take it above 1."""
    lag_s: float
    """The longest that the event loop was late since the report before."""
    per_second: float
    """The messages delivered a second."""
    bytes_per_second: float
    waiting: int
    """Connections that wait: long-polls and streams."""
    units: int
    """Owned."""
    partitions: tuple[UnitLoad, ...] = ()
    """The costliest first, as below."""
    subscriptions: tuple[UnitLoad, ...] = ()
    """Parts of subscriptions, one partition each, split off or not."""


def encode(load: Load) -> bytes:
    """Encode a load in at most MAX_BYTES: leave out the least costly units until it fits."""
    body = msgspec.json.encode(load)
    while len(body) > MAX_BYTES and (load.partitions or load.subscriptions):
        partitions, subscriptions = load.partitions, load.subscriptions
        if len(subscriptions) >= len(partitions):
            subscriptions = subscriptions[:-1]
        else:
            partitions = partitions[:-1]
        load = msgspec.structs.replace(load, partitions=partitions, subscriptions=subscriptions)
        body = msgspec.json.encode(load)
    return body


def decode(body: bytes | str | None) -> Load | None:
    """Return the load; None without a report, or for a report of another shape."""
    if body is None:
        return None
    try:
        load = msgspec.json.decode(body, type=Load)
        for each in (*load.partitions, *load.subscriptions):
            _ = each.unit
    except (msgspec.DecodeError, ValueError):
        return None
    return load
