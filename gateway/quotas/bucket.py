"""A tenant's rate in this process.

Pure; times are seconds of a monotonic clock.

A request passes whole while any tokens are left. The tokens that it takes beyond that are owed, and
nothing passes until they are made up for. So a request larger than the bucket passes, too, and the
mean is the rate. Small requests and large ones have the same chance, because both wait for the same
moment.

The other processes are told how much is *asked for*, refused or not (shares.py).
"""

from __future__ import annotations

import math

BURST_S = 0.25
"""Seconds' worth of tokens that a bucket holds."""
FADES = 0.5
"""Factor by which demand falls in a second; it rises at once."""
JUMP = 0.1
"""Part of the limit by which demand may exceed the known value before the others are told soon."""


class Bucket:
    """One limit of one tenant; full at first."""

    __slots__ = (
        "alarm",
        "asked",
        "at_s",
        "demand",
        "limit",
        "policy",
        "quota",
        "share",
        "tokens",
        "told",
    )

    def __init__(self, quota: str, limit: float, share: float, now_s: float) -> None:
        """Start a full bucket.

        `limit` is that of the tenant and `share` that of this process, per second and above 0.
        """
        self.quota = quota
        self.limit = limit
        self.share = share
        self.tokens = share * BURST_S
        self.at_s = now_s
        self.asked = 0.0
        """Amount asked for since the last look."""
        self.demand = 0.0
        """Amount asked for per second, as of the last look."""
        self.told = 0.0
        self.alarm = JUMP * limit
        """Amount asked for since the last look at which the others should know."""
        self.policy = policy_of(quota, limit)

    def fill(self, now_s: float) -> float:
        """Add the tokens of the time since the last call; return the tokens left, negative if
        owed.
        """
        tokens = self.tokens + (now_s - self.at_s) * self.share
        most = self.share * BURST_S
        self.at_s = now_s
        self.tokens = tokens = min(tokens, most)
        return tokens

    def follow(self, limit: float, share: float, now_s: float) -> None:
        """Use another limit and share from now on; owed tokens stay owed."""
        self.fill(now_s)
        if limit != self.limit:
            self.limit = limit
            self.policy = policy_of(self.quota, limit)
        self.share = share

    def wait_s(self) -> float:
        """Return the seconds until a request passes."""
        return max(0.0, -self.tokens) / self.share

    def look(self, took_s: float, now_s: float) -> None:
        """Measure the demand, `took_s` seconds after the last look."""
        self.fill(now_s)
        asked = self.asked / took_s
        self.asked = 0.0
        # Owed tokens will be used, too, whether or not anybody asks meanwhile.
        kept = FADES ** min(took_s, 1.0)
        self.demand = max(asked, kept * self.demand + (1 - kept) * asked, -self.tokens)
        if self.demand < 1e-6 * self.limit:
            self.demand = 0.0
        self.alarm = JUMP * self.limit + 1.5 * self.demand

    def remaining(self) -> str:
        """Return the member of RateLimit."""
        if self.tokens > 0:
            return f'"{self.quota}";r={int(self.tokens)};t=1'
        return f'"{self.quota}";r=0;t={max(1, math.ceil(self.wait_s()))}'


def policy_of(quota: str, limit: float) -> str:
    """Return the member of RateLimit-Policy: whole units in a window of whole seconds."""
    window_s = 1 if limit >= 1 else math.ceil(1 / limit)
    unit = ';qu="content-bytes"' if "bytes" in quota else ""
    return f'"{quota}";q={math.floor(limit * window_s + 1e-9)};w={window_s}{unit}'
