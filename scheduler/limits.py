"""The rules for truncating a partition, and for calling a topic full.

Pure.

    mode      nothing at a limit              at an age or byte limit
    consume   up to the lowest hold           refuse: no further; expire_oldest: past the holds
    retain    nothing                         refuse: up to the lowest hold; expire_oldest: past it

A hold (`pinned`) is a cursor's floor, a snapshot or an export's hold. Without any (in a topic
without subscriptions, say), the limits alone decide, whatever the policy. If a hold keeps messages
that a limit wants gone, a topic with `refuse` is full.
"""

from __future__ import annotations

from typing import NamedTuple

from metadata.types import Retention

DEFAULT_AGE_S = 7 * 86_400
ROOM_AGAIN = 0.9
"""Part of its limit below which a full topic takes messages again."""
OUTRUN = 2
"""Times its limit at which a topic without holds is full, because publishing outruns truncation."""
TOPIC_FULL = "topic-full"
TENANT_FULL = "tenant-full"


class Wanted(NamedTuple):
    """The offsets below which the limits want a partition's messages gone."""

    by_age: int = 0
    by_bytes: int = 0


class Plan(NamedTuple):
    """A partition's truncation.

    `target` is the offset where the partition should begin. With `past_pins`, cursors below it
    count messages as `expired`. The last two say for which limit a hold is in the way.
    """

    target: int
    past_pins: bool
    age_blocked: bool
    bytes_blocked: bool


def plan(retention: Retention, pinned: int | None, wanted: Wanted) -> Plan:
    """Return a partition's truncation; `pinned` is the lowest hold, None without any."""
    limit = max(wanted)
    if pinned is None:
        return Plan(limit, past_pins=False, age_blocked=False, bytes_blocked=False)
    base = pinned if retention.mode == "consume" else 0
    if retention.on_limit == "expire_oldest":
        target = max(base, limit)
        return Plan(target, past_pins=target > pinned, age_blocked=False, bytes_blocked=False)
    return Plan(
        max(base, min(pinned, limit)),
        past_pins=False,
        age_blocked=wanted.by_age > pinned,
        bytes_blocked=wanted.by_bytes > pinned,
    )


class Full(NamedTuple):
    """The reason why a topic takes no messages; `limit` tells one limit from another."""

    reason: str
    limit: str
    detail: str


def topic_full(
    retention: Retention,
    stored_bytes: int,
    *,
    age_blocked: bool,
    bytes_blocked: bool,
    before: Full | None,
) -> Full | None:
    """Return whether a topic is full.

    `stored_bytes` is the size after truncation; `before` is the last result.
    """
    limit = retention.bytes
    if limit is not None:
        full = stored_bytes >= limit and (bytes_blocked or stored_bytes >= OUTRUN * limit)
        was = before is not None and before.limit == "bytes"
        if full or (was and stored_bytes >= ROOM_AGAIN * limit):
            return Full(
                TOPIC_FULL,
                "bytes",
                f"The topic stores all that its retention allows, {limit:,} bytes. Room comes"
                " back as messages are acked or subscriptions that hold them are deleted.",
            )
    if age_blocked:
        seconds = retention.seconds if retention.seconds is not None else DEFAULT_AGE_S
        return Full(
            TOPIC_FULL,
            "age",
            f"The oldest message that is not acked is older than the {seconds:,} seconds its"
            " retention allows. Ack it, or delete the subscription that holds it.",
        )
    return None


def tenant_full(limit_bytes: float, stored_bytes: int, *, before: bool) -> Full | None:
    """Return whether a tenant is full, over all of its topics; a limit of 0 is none."""
    if not limit_bytes or stored_bytes < limit_bytes * (ROOM_AGAIN if before else 1):
        return None
    return Full(
        TENANT_FULL,
        "tenant",
        f"The tenant stores all that it may, {limit_bytes:,.0f} bytes over all of its topics. Room"
        " comes back as messages are acked, or topics and subscriptions deleted.",
    )
