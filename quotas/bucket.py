"""A tenant's rate in this process. Pure; times are seconds of a monotonic clock.

A request passes whole while anything is left, and what it takes beyond that is owed: nothing passes
until it is made up for. So a request larger than the bucket passes too, and the mean is the rate.
Small requests and large ones have the same chance: both wait for the same moment.

How much is *asked for*, refused or not, is what the other processes are told (shares.py).
"""

from __future__ import annotations

import math

BURST_S = 0.25
"""A bucket holds so many seconds' worth."""
FADES = 0.5
"""Demand rises at once, and falls by this factor in a second."""
JUMP = 0.1
"""Of the limit: who asks for so much more than the others know tells them soon."""


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
        """`limit`, of the tenant, and `share`, of this process, are per second; above 0."""
        self.quota = quota
        self.limit = limit
        self.share = share
        self.tokens = share * BURST_S
        self.at_s = now_s
        self.asked = 0.0
        """Since the last look."""
        self.demand = 0.0
        """Per second, as of the last look."""
        self.told = 0.0
        self.alarm = JUMP * limit
        """When so much was asked for since the last look, the others had better know."""
        self.policy = policy_of(quota, limit)

    def fill(self, now_s: float) -> float:
        """What there is now; below 0, what is owed."""
        tokens = self.tokens + (now_s - self.at_s) * self.share
        most = self.share * BURST_S
        self.at_s = now_s
        self.tokens = tokens = min(tokens, most)
        return tokens

    def follow(self, limit: float, share: float, now_s: float) -> None:
        """From now on; what is owed stays."""
        self.fill(now_s)
        if limit != self.limit:
            self.limit = limit
            self.policy = policy_of(self.quota, limit)
        self.share = share

    def wait_s(self) -> float:
        """How long until something passes."""
        return max(0.0, -self.tokens) / self.share

    def look(self, took_s: float, now_s: float) -> None:
        """So long after the last."""
        self.fill(now_s)
        asked = self.asked / took_s
        self.asked = 0.0
        # What is owed will be used too, whether or not anybody asks meanwhile.
        kept = FADES ** min(took_s, 1.0)
        self.demand = max(asked, kept * self.demand + (1 - kept) * asked, -self.tokens)
        if self.demand < 1e-6 * self.limit:
            self.demand = 0.0
        self.alarm = JUMP * self.limit + 1.5 * self.demand

    def remaining(self) -> str:
        """The member of RateLimit."""
        if self.tokens > 0:
            return f'"{self.quota}";r={int(self.tokens)};t=1'
        return f'"{self.quota}";r=0;t={max(1, math.ceil(self.wait_s()))}'


def policy_of(quota: str, limit: float) -> str:
    """The member of RateLimit-Policy: whole units in a window of whole seconds."""
    window_s = 1 if limit >= 1 else math.ceil(1 / limit)
    unit = ';qu="content-bytes"' if "bytes" in quota else ""
    return f'"{quota}";q={math.floor(limit * window_s + 1e-9)};w={window_s}{unit}'
