"""A lease of this process in a row of Postgres, by the clock of its holder.

Postgres' clock decides when others may take over. The holder goes by its own monotonic clock,
counted from before it asked and less a margin, so it always stops first. A lease that has run out
is never renewed, because another may own its things by then.
"""

from __future__ import annotations

LEASE_S = 4.0
"""Seconds for which a process, or a lock of the platform, is held without a renewal."""
RENEW_EVERY_S = 1.0
MARGIN_S = 0.5
RENEW_DEADLINE_S = 1.5
"""A renewal that takes longer is given up, so that the next can be tried while there is time."""


class Holding:
    """A lease as its holder knows it."""

    __slots__ = ()
    valid_until_s: float

    def held(self, now_s: float) -> bool:
        """Return whether the lease is good; `now_s` is time.monotonic()."""
        return now_s < self.valid_until_s


def valid_until_s(sent_s: float, lease_s: float = LEASE_S) -> float:
    """Return when the holder stops, by its clock, if it asked for the lease at `sent_s`."""
    return sent_s + lease_s - min(MARGIN_S, lease_s / 4)
