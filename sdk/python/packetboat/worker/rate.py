"""A token bucket: how often a handler may begin."""

from __future__ import annotations


class TokenBucket:
    """In any t seconds at most rate · t + max(1, rate) are taken, and they are taken in turn."""

    def __init__(self, per_second: float, now_s: float) -> None:
        self._per_second = per_second
        self._burst = max(1.0, per_second)
        self._tokens = self._burst
        self._at_s = now_s

    def take(self, count: int, now_s: float) -> float:
        """Takes them, and says how long to wait before using them."""
        grown = self._tokens + (now_s - self._at_s) * self._per_second
        self._tokens = min(self._burst, grown) - count
        self._at_s = now_s
        return max(0.0, -self._tokens / self._per_second)
