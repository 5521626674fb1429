"""Claims of this process that wait for runs, served in the order of their arrival.

All waiting claims that name the same lakes share one statement a second. When the process hears
that there may be a run, the first of them tries to claim it; the next one tries as soon as the
first has a run.

A caller that goes away leaves the line. The run that it got at that moment is returned, and no
attempt is counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import structlog

from edge.shares import Shares, TooManyWaiting
from gateway.exports import metrics
from metadata.errors import MetadataError
from metadata.exports.types import ClaimedRun, RunId

MAX_WAITING = 1_000
"""The limit of waiting claims in one process.

Runners belong to the platform, so no tenant has a share of it.
"""
_log = structlog.get_logger("packetboat.exports")


class Wanted(NamedTuple):
    """The arguments of a claim. `lakes` are in ascending order."""

    lakes: tuple[str, ...]
    runner: str
    lease_s: float


class Leases(Protocol):
    """The part of `metadata.exports.leases.ExportLeaseRepository` that this needs."""

    async def claim(
        self, lakes: tuple[str, ...], runner: str, lease_s: float
    ) -> ClaimedRun | None: ...
    async def release(self, run_id: RunId, lease: bytes) -> None: ...


@dataclass(slots=True, eq=False)
class _Waiter:
    wanted: Wanted
    got: asyncio.Future[ClaimedRun | None]
    trying: bool = False
    over: bool = False
    """Whether the time to wait has passed; the waiter then takes the result of its current try."""


class ClaimLine:
    """One per process; `close` it last."""

    def __init__(self, leases: Leases, on_wait: Callable[[], None] = lambda: None) -> None:
        self._leases = leases
        self._on_wait = on_wait
        self._waiters: list[_Waiter] = []
        self._waiting = Shares(MAX_WAITING, share=1.0, name="export_claim_waits")
        self._rings = 0
        self._heard = False
        self._serving = False
        self._draining = False
        self._owned: set[asyncio.Task[None]] = set()

    async def claim(self, wanted: Wanted, wait_s: float) -> ClaimedRun | None:
        """Return a run; None if none came in time.

        Raises TooManyWaiting, and MetadataError if the first try fails.
        """
        rings = self._rings
        if not any(each.wanted.lakes == wanted.lakes for each in self._waiters):
            got = await self._try(wanted)
            if got is not None:
                return got
        if wait_s <= 0 or self._draining:
            return None
        return await self._wait(wanted, wait_s, heard=self._rings != rings)

    def undo(self, run: ClaimedRun | None) -> None:
        """Nobody was told of it."""
        if run is not None:
            self._spawn(self._leases.release(run.id, run.lease))

    def rung(self, lake: str) -> None:
        """There may be a run for that lake."""
        self._rings += 1
        if any(lake in waiter.wanted.lakes for waiter in self._waiters):
            self._pump()

    def wake_all(self) -> None:
        """Rings may have been missed, or a run has become ready by time alone."""
        self._rings += 1
        if self._waiters:
            self._pump()

    def drain(self) -> None:
        """Answer all waiting claims now."""
        self._draining = True
        for waiter in self._waiters:
            if not waiter.trying and not waiter.got.done():
                waiter.got.set_result(None)
            waiter.over = True

    async def close(self) -> None:
        """After the last caller has gone: what is being given back is, if Postgres is there."""
        self._draining = True
        while self._owned:
            await asyncio.gather(*self._owned, return_exceptions=True)

    async def _wait(self, wanted: Wanted, wait_s: float, *, heard: bool) -> ClaimedRun | None:
        if self._waiting.take(wanted.runner) is not None:
            raise TooManyWaiting
        self._on_wait()
        waiter = _Waiter(wanted, asyncio.get_running_loop().create_future())
        self._waiters.append(waiter)
        metrics.waiting.inc()
        if heard:
            self._pump()
        answered = False
        try:
            got = await self._within(waiter, wait_s)
            answered = True
            return got
        finally:
            self._waiters.remove(waiter)
            self._waiting.release(wanted.runner)
            metrics.waiting.dec()
            if not answered and waiter.got.done() and not waiter.got.cancelled():
                self.undo(waiter.got.result())

    async def _within(self, waiter: _Waiter, wait_s: float) -> ClaimedRun | None:
        try:
            async with asyncio.timeout(wait_s):
                return await asyncio.shield(waiter.got)
        except TimeoutError:
            waiter.over = True
            return await waiter.got if waiter.trying or waiter.got.done() else None

    def _pump(self) -> None:
        self._heard = True
        if not self._serving:
            self._serving = True
            self._spawn(self._serve())

    async def _serve(self) -> None:
        try:
            while self._heard:
                self._heard = False
                nothing: set[tuple[str, ...]] = set()
                for waiter in list(self._waiters):
                    lakes = waiter.wanted.lakes
                    if lakes in nothing or waiter.got.done() or waiter not in self._waiters:
                        continue
                    if await self._serve_one(waiter) is None:
                        nothing.add(lakes)
        finally:
            self._serving = False

    async def _serve_one(self, waiter: _Waiter) -> ClaimedRun | None:
        """Raises MetadataError; the waiter goes on waiting, unless its time is over."""
        waiter.trying = True
        got: ClaimedRun | None = None
        try:
            got = await self._try(waiter.wanted)
        finally:
            waiter.trying = False
            if waiter not in self._waiters:
                self.undo(got)
            elif (got is not None or waiter.over) and not waiter.got.done():
                waiter.got.set_result(got)
        return got

    async def _try(self, wanted: Wanted) -> ClaimedRun | None:
        """A caller that goes away meanwhile leaves nothing claimed."""
        attempt = asyncio.ensure_future(self._leases.claim(*wanted))
        try:
            return await asyncio.shield(attempt)
        except asyncio.CancelledError:
            self._spawn(self._undo(attempt))
            raise

    async def _undo(self, attempt: asyncio.Future[ClaimedRun | None]) -> None:
        run = await attempt
        if run is not None:
            await self._leases.release(run.id, run.lease)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(_quietly(work))
        self._owned.add(task)
        task.add_done_callback(self._owned.discard)


async def _quietly(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except MetadataError as error:
        _log.info("a claim is tried again, or its lease ends", error=str(error))
