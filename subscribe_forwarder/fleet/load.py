"""Reports a forwarder's load, each second with the renewal of its lease.

The work is O(recent deliveries): a subscription that gets nothing is not looked at. Rates are
smoothed over some seconds, so that the balancer sees load and not bursts.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable, Mapping

from metadata.delivery import loads
from metadata.delivery.loads import MAX_UNITS, Load, UnitLoad
from metadata.types import WHOLE, Unit
from subscribe_forwarder import metrics
from subscribe_forwarder.delivery.reader import Reader
from subscribe_forwarder.fleet.activity import Activity

SMOOTHED_OVER_S = 5.0
QUIET_PER_S = 0.05
"""Below it a reader is forgotten."""


class _Active:
    """A reader that messages were taken of lately."""

    __slots__ = ("backlog", "growth_per_s", "per_second")

    def __init__(self, backlog: int) -> None:
        self.per_second = 0.0
        self.backlog = backlog
        self.growth_per_s = 0.0

    def update(self, count: int, backlog: int, took_s: float, weight: float) -> None:
        self.per_second += weight * (count / took_s - self.per_second)
        self.growth_per_s += weight * ((backlog - self.backlog) / took_s - self.growth_per_s)
        self.backlog = backlog


class _Sum:
    """The sums of the readers of one unit."""

    __slots__ = ("backlog", "growth_per_s", "per_second", "waiting")

    def __init__(self) -> None:
        self.per_second = 0.0
        self.backlog = 0
        self.growth_per_s = 0.0
        self.waiting = 0

    def add(self, one: _Active) -> None:
        self.per_second += one.per_second
        self.backlog += one.backlog
        self.growth_per_s += one.growth_per_s


class LoadReporter:
    """Reports the load of one process."""

    def __init__(
        self,
        activity: Activity,
        *,
        units: Callable[[], int],
        waiting_of: Callable[[bytes], int],
        longest_lag_s: Callable[[], float] = lambda: 0.0,
        connections: Callable[[], int] | None = None,
        cpu_s: Callable[[], float] = time.process_time,
    ) -> None:
        """Make a reporter.

        `units`: how many are owned; `waiting_of`: consumers that wait for a subscription;
        `longest_lag_s`: the longest lag of the loop since its last call; `connections`: those that
        wait in this process, from its gauges unless given.
        """
        self._activity = activity
        self._units = units
        self._waiting_of = waiting_of
        self._connections = connections or _connections
        self._cpu_s = cpu_s
        self._longest_lag_s = longest_lag_s
        self._active: dict[Reader, _Active] = {}
        self._reported_s: float | None = None
        self._used_s = 0.0
        self._cpu = 0.0
        self._bytes_per_s = 0.0

    def report(self, now_s: float) -> bytes:
        """Return JSON of at most `loads.MAX_BYTES`; `now_s` is of a monotonic clock."""
        took_s = 0.0 if self._reported_s is None else now_s - self._reported_s
        used_s = self._cpu_s()
        counts, handed_bytes = self._activity.take()
        if took_s > 0:
            weight = -math.expm1(-took_s / SMOOTHED_OVER_S)
            self._cpu += weight * ((used_s - self._used_s) / took_s - self._cpu)
            self._bytes_per_s += weight * (handed_bytes / took_s - self._bytes_per_s)
            self._follow(counts, took_s, weight)
            metrics.consumed_backlog.set(sum(one.backlog for one in self._active.values()))
        self._reported_s, self._used_s = now_s, used_s
        return loads.encode(self._load())

    def _follow(self, counts: Mapping[Reader, int], took_s: float, weight: float) -> None:
        active = self._active
        for reader in counts:
            if reader not in active:
                active[reader] = _Active(reader.backlog)
        for reader, one in list(active.items()):
            count = counts.get(reader, 0)
            one.update(count, reader.backlog, took_s, weight)
            # A reader that is frozen for good, since its unit went elsewhere, is not kept alive.
            if reader.frozen or (not count and one.per_second < QUIET_PER_S):
                del active[reader]

    def _load(self) -> Load:
        parts: dict[Unit, _Sum] = {}
        wholes: dict[Unit, _Sum] = {}
        for reader, one in self._active.items():
            uid = reader.cursor.key.subscription_uid
            whole = reader.partition
            unit = whole._replace(subscription_uid=uid)
            first = unit not in parts
            part = parts.setdefault(unit, _Sum())
            part.add(one)
            if first:
                part.waiting = self._waiting_of(uid)
            if whole.subscription_uid == WHOLE:
                total = wholes.setdefault(whole, _Sum())
                total.add(one)
                total.waiting += part.waiting if first else 0
        return Load(
            cpu=round(self._cpu, 3),
            lag_s=round(self._longest_lag_s(), 3),
            per_second=round(sum(one.per_second for one in self._active.values()), 1),
            bytes_per_second=round(self._bytes_per_s),
            waiting=self._connections(),
            units=self._units(),
            partitions=_costliest(wholes),
            subscriptions=_costliest(parts),
        )


def _costliest(sums: Mapping[Unit, _Sum]) -> tuple[UnitLoad, ...]:
    chosen = heapq.nlargest(MAX_UNITS, sums.items(), key=lambda each: each[1].per_second)
    return tuple(
        UnitLoad.of(
            unit,
            per_second=total.per_second,
            backlog=total.backlog,
            growth_per_s=total.growth_per_s,
            waiting=total.waiting,
        )
        for unit, total in chosen
    )


def _connections() -> int:
    """Return the connections of the whole process, as Prometheus is told."""
    gauges = (metrics.waiting, metrics.streams)
    return sum(int(metric.samples[0].value) for gauge in gauges for metric in gauge.collect())
