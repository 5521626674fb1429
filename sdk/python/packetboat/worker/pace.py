"""The run times of handlers, as measured, and the rate at which they may begin."""

from __future__ import annotations

from collections import deque

WEIGHT = 0.1
SAMPLES = 256


class Latency:
    """A moving average, and the 99th percentile of the last 256."""

    def __init__(self) -> None:
        self.mean_s: float | None = None
        self._samples: deque[float] = deque(maxlen=SAMPLES)

    def add(self, seconds: float) -> None:
        self._samples.append(seconds)
        mean_s = self.mean_s
        self.mean_s = seconds if mean_s is None else mean_s + WEIGHT * (seconds - mean_s)

    def p99_s(self) -> float:
        """Return the 99th percentile of the run times; 0 before the first."""
        if not self._samples:
            return 0.0
        return sorted(self._samples)[len(self._samples) * 99 // 100]


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
