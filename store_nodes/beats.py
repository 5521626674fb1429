"""The common moments of a node's regular work, and of its clients' pings.

An idle process mostly pays for its wake-ups: its code and data have left the caches of the
processor. So all that it does regularly begins at multiples of one time of the monotonic clock. A
node then wakes once for its heartbeats, pings and housekeeping, and they leave in the same writes.
Processes of one machine have one monotonic clock, so that they find each other awake, too.
"""

from __future__ import annotations

BEAT_US = 300_000
"""Time between the heartbeats of leaders whose groups have nothing to do."""
ROUND_US = 3 * BEAT_US
"""Time between two rounds of the work that is done about once a second, each with a beat."""
BEAT_S, ROUND_S = BEAT_US / 1e6, ROUND_US / 1e6
EARLY_S = 0.001
"""Time by which the event loop may call a timer too early, because it counts in milliseconds."""


def next_multiple(after: int, every: int) -> int:
    """Return the first multiple of `every` after a time."""
    return after - after % every + every


def until_next_s(now_s: float, every_s: float) -> float:
    """Return the seconds to wait at `now_s`, a loop's time, until its next multiple of
    `every_s`.
    """
    return every_s - now_s % every_s + EARLY_S
