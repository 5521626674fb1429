"""One JSON line per request that is worth one: failures always, the others as sampled."""

from __future__ import annotations

import itertools
from typing import Any

import structlog

READINESS = "/readyz"
_log = structlog.get_logger("packetboat.access")


class AccessLog:
    """`every` = 0 logs server errors only, 1 every request, n each n-th."""

    def __init__(self, every: int = 0) -> None:
        self._every = every
        self._numbers = itertools.count(1)

    def note(
        self, method: str, path: str, status: int, seconds: float, request_id: bytes, **more: Any
    ) -> None:
        if path == READINESS:
            return  # Asked for each second by whoever waits, and it says why by itself.
        if status < 500 and (not self._every or next(self._numbers) % self._every):
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
