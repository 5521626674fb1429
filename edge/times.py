"""Writes times as the API does."""

from __future__ import annotations

import time
from functools import lru_cache


@lru_cache(maxsize=64)
def _second_text(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))


def rfc3339(time_us: int) -> str:
    """Return a time as RFC 3339 text, such as `2026-01-31T23:59:59.123456Z`."""
    second, rest = divmod(time_us, 1_000_000)
    return f"{_second_text(second)}.{rest:06d}Z"
