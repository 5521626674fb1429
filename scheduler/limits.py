"""How far a partition is trimmed, and when a topic is full: the rules, pure.

    mode      nothing at a limit              at an age or byte limit
    consume   up to the lowest pin            refuse: no further; expire_oldest: past the pins
    retain    nothing                         refuse: up to the lowest pin; expire_oldest: past it

A pin is a cursor's floor, a snapshot or an export hold. Where nothing pins (a topic without
subscriptions, say) the limits alone decide, whatever the policy. What a limit wants gone and a pin
holds makes a topic with `refuse` full.
"""

from __future__ import annotations

from typing import NamedTuple

from metadata.types import OnLimit, Retention, RetentionMode

DEFAULT_AGE_S = 7 * 86_400
ROOM_AGAIN = 0.9
"""A full topic takes messages again below this part of its limit."""
OUTRUN = 2
"""A topic that nothing pins is full at this many times its limit: publishing outruns trimming."""
TOPIC_FULL = "topic-full"
TENANT_FULL = "tenant-full"


class Wanted(NamedTuple):
    """What the limits want gone of a partition: all below these offsets."""

    by_age: int = 0
    by_bytes: int = 0


class Plan(NamedTuple):
    """`target`: where the partition should begin; `past_pins`: cursors below it count `expired`.
    The last two say which limit a pin holds up."""

    target: int
    past_pins: bool
    age_blocked: bool
    bytes_blocked: bool


def plan(retention: Retention, pinned: int | None, wanted: Wanted) -> Plan:
    """`pinned`: the lowest pin, None where there is none."""
    limit = max(wanted)
    if pinned is None:
        return Plan(limit, past_pins=False, age_blocked=False, bytes_blocked=False)
    base = pinned if retention.mode is RetentionMode.CONSUME else 0
    if retention.on_limit is OnLimit.EXPIRE_OLDEST:
        target = max(base, limit)
        return Plan(target, past_pins=target > pinned, age_blocked=False, bytes_blocked=False)
    return Plan(
        max(base, min(pinned, limit)),
        past_pins=False,
        age_blocked=wanted.by_age > pinned,
        bytes_blocked=wanted.by_bytes > pinned,
    )


class Full(NamedTuple):
    """Why a topic takes no messages; `limit` tells one limit from another."""

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
    """`stored_bytes` after what could be trimmed was; `before`: what this said the last time."""
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
    """Of all topics of a tenant; a limit of 0 is none."""
    if not limit_bytes or stored_bytes < limit_bytes * (ROOM_AGAIN if before else 1):
        return None
    return Full(
        TENANT_FULL,
        "tenant",
        f"The tenant stores all that it may, {limit_bytes:,.0f} bytes over all of its topics. Room"
        " comes back as messages are acked, or topics and subscriptions deleted.",
    )
