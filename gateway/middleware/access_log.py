"""Logs failed requests and a sample of the others, one JSON line each.

A tenant can provoke failures as fast as it can send requests, so a second has lines for
FAILURES_PER_S of them, and the next one says how many it left out.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import structlog

READINESS = "/readyz"
FAILURES_PER_S = 50
"""Lines of failures in a second; metrics count all of them."""
_log = structlog.get_logger("packetboat.access")


class AccessLog:
    """Logs server errors only if `every` is 0, every request if it is 1, each n-th if it is n."""

    def __init__(self, every: int = 0, now_s: Callable[[], float] = time.monotonic) -> None:
        self._every = every
        self._numbers = itertools.count(1)
        self._now_s = now_s
        self._second = self._failures = 0

    def note(
        self, method: str, path: str, status: int, seconds: float, request_id: bytes, **more: Any
    ) -> None:
        """Log a request if it failed or is sampled, within the limit of lines per second."""
        if path == READINESS:
            return  # Load balancers ask each second, and the page itself has the reason.
        sampled = self._every and not next(self._numbers) % self._every
        if not sampled and (status < 500 or not self._has_line()):
            return
        _log.info(
            "request",
            method=method,
            path=path,
            status=status,
            ms=round(seconds * 1000, 2),
            request_id=request_id.decode("ascii"),
            **more,
        )

    def _has_line(self) -> bool:
        """Return whether this second has a line left for a failure."""
        second = int(self._now_s())
        if second != self._second:
            left_out = self._failures - FAILURES_PER_S
            self._second, self._failures = second, 0
            if left_out > 0:
                _log.warning("failed requests have no line here", count=left_out)
        self._failures += 1
        return self._failures <= FAILURES_PER_S
