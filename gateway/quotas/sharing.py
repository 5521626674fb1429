"""Tells the other processes each second the demand of this one, and learns the demand of all."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress

import structlog

from gateway.quotas import metrics
from gateway.quotas.limiter import Limiter
from metadata.errors import MetadataError
from metadata.tenancy.quota_demands import QuotaDemands

LEAST_GAP_S = 0.2
"""Least seconds between two rounds, also in a hurry, and while shares change."""
PRUNE_EVERY_S = 60.0
_log = structlog.get_logger("packetboat.quotas")


class Sharing:
    """Shares limits with the other processes; one per process.

    Call `run` for its life, then `leave`.
    """

    def __init__(
        self,
        limiter: Limiter,
        demands: QuotaDemands,
        every_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limiter = limiter
        self._demands = demands
        self._every_s = every_s
        self._clock = clock
        self._incarnation = os.urandom(16)
        self._looked_s = clock()
        self._pruned_s = clock()
        self._hurry = asyncio.Event()
        self._told = False
        self._failing = False
        limiter.hurry = self._hurry.set

    async def run(self) -> None:
        """Tell and learn demands regularly; only cancellation ends it."""
        while True:
            moved = await self.round()
            with suppress(TimeoutError):
                async with asyncio.timeout(LEAST_GAP_S if moved else self._every_s):
                    await self._hurry.wait()
            since_s = self._clock() - self._looked_s
            if since_s < LEAST_GAP_S:
                await asyncio.sleep(LEAST_GAP_S - since_s)
            self._hurry.clear()

    async def round(self) -> bool:
        """Tell and learn demands once; return whether the next round should be soon.

        Without Postgres the shares stay as they are.
        """
        now_s = self._clock()
        took_s, self._looked_s = now_s - self._looked_s, now_s
        demands = self._limiter.look(max(took_s, 0.001))
        if not demands:
            return False
        try:
            totals = await self._demands.tell(self._incarnation, demands)
            self._told = True
            if now_s - self._pruned_s >= PRUNE_EVERY_S:
                self._pruned_s = now_s
                await self._demands.prune()
        except MetadataError as error:
            metrics.tell_failures.inc()
            if not self._failing:
                _log.warning("shares of limits stay as they are", error=str(error))
            self._failing = True
            return False
        self._failing = False
        return self._limiter.learn(totals)

    async def leave(self) -> None:
        """Leave this process's shares to the others at once."""
        if self._told:
            with suppress(MetadataError):
                await self._demands.leave(self._incarnation)
