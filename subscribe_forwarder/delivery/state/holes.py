"""Chooses the unsettled offsets over which the cursor steps, so that they do not hold it up.

The cursor steps over an old hole, and with too many ranges over the lowest holes, over young ones
only in need: acking 10,000 messages in any order settles most of them within seconds, and rows are
dearer than ranges.
"""

from __future__ import annotations

from collections.abc import Callable

from metadata.delivery.deliveries import OpenDelivery, Reason
from subscribe_forwarder.delivery.state.ages import Ages
from subscribe_forwarder.delivery.state.cursor import Cursor
from subscribe_forwarder.delivery.state.exceptions import Exceptions
from subscribe_forwarder.delivery.state.leases import LeaseTable

OLD_MS = 60_000
YOUNG_MS = 5_000
MANY_RANGES = 256
ENOUGH_RANGES = 192
TOO_MANY_RANGES = 2_000
MAX_HOLES = 2_000
"""That one flush steps over."""


def step_over_holes(
    cursor: Cursor,
    leases: LeaseTable,
    exceptions: Exceptions,
    ages: Ages,
    key_hash_of: Callable[[int], int | None],
) -> int:
    """Step over the holes that have to go, as open deliveries; return how many."""
    if not cursor.range_count:
        return 0
    old = ages.older(OLD_MS)
    budget = MAX_HOLES
    if old > cursor.floor:
        budget -= _step(cursor, leases, exceptions, key_hash_of, old, 0, budget)
    count = cursor.range_count
    if count > MANY_RANGES and budget:
        bound = ages.all if count > TOO_MANY_RANGES else ages.older(YOUNG_MS)
        enough = TOO_MANY_RANGES if count > TOO_MANY_RANGES else ENOUGH_RANGES
        if bound > cursor.floor:
            budget -= _step(cursor, leases, exceptions, key_hash_of, bound, enough, budget)
    return MAX_HOLES - budget


def _step(
    cursor: Cursor,
    leases: LeaseTable,
    exceptions: Exceptions,
    key_hash_of: Callable[[int], int | None],
    bound: int,
    enough: int,
    budget: int,
) -> int:
    """Steps over the lowest holes below `bound`, down to `enough` ranges, at most `budget`."""
    stepped = 0
    while stepped < budget and cursor.range_count > enough:
        offset, end = cursor.gap_at(cursor.floor, min(bound, cursor.passed_end))
        if offset >= end:
            break
        for hole in range(offset, min(end, offset + budget - stepped)):
            if hole not in exceptions:
                grant = leases.grant_of(hole)
                if grant is None and not leases.is_waiting(hole):
                    return stepped  # not read yet: acked by message id, before its time
                since = None if grant is None else grant.leased_us
                exceptions.put(
                    OpenDelivery(
                        hole,
                        0,
                        Reason.HOLE,
                        key_hash=key_hash_of(hole),
                        first_us=since,
                        last_us=since,
                    )
                )
            cursor.step_over(hole)
            exceptions.step(hole)
            stepped += 1
    return stepped
