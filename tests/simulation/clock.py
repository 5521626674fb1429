"""Clocks of a node: a monotonic one that drifts and a wall clock that is skewed and may jump."""

from __future__ import annotations

import random

from tests.simulation.options import SECOND

WALL_START_US = 1_700_000_000 * SECOND
SANE_SKEW_US = 50_000
JUMP_US = 3600 * SECOND


class SimClock:
    """An insane clock jumps by up to an hour; at most one node has one."""

    def __init__(self, rng: random.Random, drift_ppm: int, insane: bool) -> None:
        self._rng = rng
        self._ppm = rng.randint(-drift_ppm, drift_ppm)
        self._boot_us = rng.randrange(1000 * SECOND)
        self.insane = insane
        self.skew_us = rng.randint(-SANE_SKEW_US, SANE_SKEW_US)
        self.furthest_us = self.skew_us
        """The greatest skew that it has had."""
        if insane:
            self.jump()

    def monotonic_us(self, true_us: int) -> int:
        return self._boot_us + true_us + true_us * self._ppm // 1_000_000

    def true_delay_us(self, local_us: int) -> int:
        """Return the true time of a delay on this node's clock."""
        return local_us * 1_000_000 // (1_000_000 + self._ppm)

    def wall_us(self, true_us: int) -> int:
        return WALL_START_US + true_us + self.skew_us

    def jump(self) -> None:
        self.set(self._rng.randint(-JUMP_US, JUMP_US))

    def set(self, skew_us: int) -> None:
        """Somebody sets the wall clock."""
        self.skew_us = skew_us
        self.furthest_us = max(self.furthest_us, skew_us)
