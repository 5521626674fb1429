"""Rounds of balancing: loads are read, hints written.

Nothing waits for it: forwarders place their units without hints, and claim units that nobody owns.
A round of a fleet at rest is one statement.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

import structlog

from metadata.delivery.fleet import FleetRepository, LiveForwarder
from metadata.delivery.hints import HintRepository
from metadata.locks.locks import Lock
from metadata.types import Unit
from scheduler import metrics
from scheduler.balancing.plan import plan, topics_of_interest
from scheduler.balancing.pressure import Pressure
from scheduler.balancing.view import Busy, Change, Home, View
from scheduler.term import put_off

EVERY_S = 2.0
PRUNE_EVERY_S = 60.0
ROLE = "subscribe"
_log = structlog.get_logger("packetboat.scheduler")


class Balancer:
    """Balances the units in one term of leadership; `home` is the forwarders' own rule."""

    def __init__(
        self,
        fleet: FleetRepository,
        hints: HintRepository,
        home: Home,
        lock: Callable[[], Lock],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fleet = fleet
        self._hint_rows = hints
        self._home = home
        self._lock = lock
        self._clock = clock
        self._pressure = Pressure()
        self._hints: dict[Unit, bytes] | None = None
        """The present hints; None if they are to be read."""
        self._pruned_s: float | None = None

    async def run(self) -> None:
        """Balance regularly until this is cancelled."""
        while True:
            await put_off("balancing", self.round())
            await asyncio.sleep(EVERY_S)

    async def round(self) -> None:
        """Look at all forwarders once, and change hints if needed. Raises MetadataError."""
        live = {one.incarnation: one for one in await self._fleet.live() if one.role == ROLE}
        hints = await self._known_hints(live)
        metrics.hints.set(len(hints))
        now_s = self._clock()
        busy = {
            one.incarnation: Busy(one.load, one.weight, one.age_s)
            for one in live.values()
            if one.load is not None
        }
        self._pressure.observe(busy, hints, now_s)
        weights = {one.incarnation: one.weight for one in live.values()}
        view = View(busy, weights, hints, {}, self._home)
        topics = topics_of_interest(view, self._pressure, now_s)
        if topics:
            view = view._replace(owned=await self._fleet.owned(topics))
        changes = plan(view, self._pressure, now_s)
        if changes:
            await self._write(view, changes, now_s)

    async def _known_hints(self, live: Mapping[bytes, LiveForwarder]) -> dict[Unit, bytes]:
        """Return the hints that name live forwarders; the others are deleted.

        Only the leading scheduler makes hints, so if there are none, nothing need be read.
        """
        now_s = self._clock()
        if self._hints is None or self._hints:
            self._hints = {hint.unit: hint.forwarder for hint in await self._hint_rows.listing()}
        stale = self._pruned_s is None or now_s - self._pruned_s >= PRUNE_EVERY_S
        dead = set(self._hints.values()) - live.keys()
        if self._hints and (dead or stale):
            pruned = await self._hint_rows.prune(self._lock())
            self._pruned_s = now_s
            if pruned:
                _log.info("hints pruned", hints=pruned)
        return {unit: where for unit, where in self._hints.items() if where in live}

    async def _write(self, view: View, changes: Sequence[Change], now_s: float) -> None:
        put: dict[Unit, tuple[bytes, str]] = {}
        remove: set[Unit] = set()
        for change in changes:
            for unit in change.units:
                if change.target is None:
                    remove.add(unit)
                else:
                    put[unit] = (change.target, f"{change.kind.value}: {change.reason}")
        self._hints = None  # this holds also if nobody knows whether they were written
        await self._hint_rows.replace(self._lock(), put, remove)
        for change in changes:
            metrics.moves.labels(change.kind.value).inc()
            self._pressure.moved(change.units, _concerned(view, change), now_s)
            _log.info(
                "hints changed",
                kind=change.kind.value,
                reason=change.reason,
                topic=change.units[0].topic_uid.hex(),
                units=len(change.units),
                target=None if change.target is None else change.target.hex(),
            )


def _concerned(view: View, change: Change) -> set[bytes]:
    """Return the forwarders that a change moves units from and to."""
    found: set[bytes | None] = {change.target}
    for unit in change.units:
        found |= {view.owned.get(unit, view.owned.get(unit.base)), view.hints.get(unit)}
        if change.target is None:
            found.add(view.place(unit))
    return {each for each in found if each is not None and each in view.forwarders}
