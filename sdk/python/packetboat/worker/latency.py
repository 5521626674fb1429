"""The measured run times of handlers."""

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
