"""A process's share of a limit, which is its part of the demand of all processes.

Pure.

Each process knows the total demand of a moment ago, not its parts, so the sum of the shares follows
the demand by a second or two. While less than the limit is asked for, a share is more than its
process asks for. When more is, all shares are used up and add up to the limit.

A process that has asked for nothing yet has an even part: it starts at once, and the others give
way at the next look. And no process has less than a fraction of an even part.
"""

from __future__ import annotations

FLOOR = 0.05
"""Smallest share, as a part of an even one."""
NEGLIGIBLE = 0.01
"""Part of a limit below which a process's demand is not told."""


def share_of(limit: float, own: float, total: float, processes: int) -> float:
    """Return a process's share; `own` is its demand, which is in `total`, 0 if it told none.

    `processes` is at least 1.
    """
    even = limit / processes
    if own <= 0:
        return even
    return max(FLOOR * even, limit * min(1.0, own / total))
