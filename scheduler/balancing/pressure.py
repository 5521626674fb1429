"""The times for which loads have lasted, by which balancing is slow to act and rests in between.

A burst moves nothing. Units that were moved rest, and the loads of the forwarders involved count
again only after they can show the move. When forwarders come or go, units move without the
balancer, so all waiting begins again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from metadata.delivery.loads import UnitLoad
from metadata.types import Unit
from scheduler.balancing.view import Busy

FULL = 0.7
"""Part of a core below which a forwarder is never relieved."""
UNEVEN = 1.3
"""Times the mean of all loads."""
PRESSED_FOR_S = 10.0
GROWS_PER_S = 1.0
GROWN = 100
"""Messages below which a backlog does not count."""
RESTS_S = 30.0
"""Seconds of rest after a first move; each further one doubles them."""
MAX_RESTS_S = 3600.0
FORGIVEN_S = 600.0
"""Seconds after its rest from which a move counts as a first one again."""
STABLE_AFTER_S = 10.0
CALM_FOR_S = 60.0
_IN_FLIGHT_S = 2.0
_FEW = 10
_K = TypeVar("_K")


class Pressure:
    """The durations of loads; one per term of leadership.

    `now_s` comes from one monotonic clock.
    """

    def __init__(self) -> None:
        self._pressed: dict[bytes, float] = {}
        self._growing: dict[Unit, float] = {}
        self._calm: dict[Unit, float] = {}
        self._rests: dict[Unit, tuple[float, int]] = {}
        """The end of a unit's rest, and the number of its moves."""
        self._stable_at: dict[bytes, float] = {}
        self._known: set[bytes] = set()

    def observe(
        self, forwarders: Mapping[bytes, Busy], hints: Mapping[Unit, bytes], now_s: float
    ) -> None:
        """Note the loads once a round, before anything is asked."""
        if forwarders.keys() != self._known:
            self._known = set(forwarders)
            self._stable_at = dict.fromkeys(forwarders, now_s + STABLE_AFTER_S)
        self._rests = {
            unit: rest for unit, rest in self._rests.items() if rest[0] + FORGIVEN_S > now_s
        }
        unstable = {each for each, until_s in self._stable_at.items() if until_s > now_s}
        stable = {each: busy for each, busy in forwarders.items() if each not in unstable}
        mean = sum(busy.load.cpu for busy in forwarders.values()) / max(1, len(forwarders))
        full = {each for each, busy in stable.items() if busy.load.cpu >= FULL}
        pressed = {each for each in full if forwarders[each].load.cpu >= UNEVEN * mean}
        self._pressed = _since(self._pressed, pressed, now_s)
        growing = {
            part.unit
            for each in full
            for part in forwarders[each].load.subscriptions
            if part.growth_per_s >= GROWS_PER_S and part.backlog >= GROWN
        }
        self._growing = _since(self._growing, growing, now_s)
        backlogged = {
            part.unit
            for busy in forwarders.values()
            for part in (*busy.load.partitions, *busy.load.subscriptions)
            if _backlogged(part)
        }
        self._calm = _since(self._calm, hints.keys() - backlogged, now_s)

    def pressed(self, now_s: float) -> list[bytes]:
        """Return forwarders that have been too full, compared with the others, for long enough."""
        return [each for each, since in self._pressed.items() if now_s - since >= PRESSED_FOR_S]

    def growing(self, now_s: float) -> set[Unit]:
        """Return parts of subscriptions whose backlog has grown for long enough at a full
        forwarder.
        """
        return {unit for unit, since in self._growing.items() if now_s - since >= PRESSED_FOR_S}

    def calm(self, now_s: float) -> set[Unit]:
        """Return hinted units without a backlog for long enough that were not moved recently."""
        return {
            unit
            for unit, since in self._calm.items()
            if now_s - since >= CALM_FOR_S and not self.rests(unit, now_s)
        }

    def rests(self, unit: Unit, now_s: float) -> bool:
        """Return whether a unit was moved so recently that it stays where it is."""
        return self._rests.get(unit, (now_s, 0))[0] > now_s

    def is_stable(self, forwarder: bytes, now_s: float) -> bool:
        """Return whether a forwarder's load shows all moves."""
        return self._stable_at.get(forwarder, 0.0) <= now_s

    def moved(self, units: Iterable[Unit], forwarders: Iterable[bytes], now_s: float) -> None:
        """Note that units were moved, and the forwarders involved."""
        for unit in units:
            moves = self._rests.get(unit, (0.0, 0))[1]
            rest_s = min(MAX_RESTS_S, RESTS_S * 2.0**moves)
            self._rests[unit] = (now_s + rest_s, moves + 1)
            self._calm.pop(unit, None)
        for forwarder in forwarders:
            self._stable_at[forwarder] = now_s + STABLE_AFTER_S


def _since(before: Mapping[_K, float], now: Iterable[_K], now_s: float) -> dict[_K, float]:
    return {each: before.get(each, now_s) for each in now}


def _backlogged(part: UnitLoad) -> bool:
    """Return whether a unit's backlog is more than the messages on their way to be acked."""
    return part.backlog > max(_FEW, _IN_FLIGHT_S * part.per_second)
