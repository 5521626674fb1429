"""Figures that every case shares: percentiles, medians, CPU of process trees.

It needs the standard library only, since the peers' load programs run in an environment of their
own.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Sequence

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def percentile(samples: Sequence[float], percent: float) -> float:
    """Return the nearest-rank percentile; NaN without samples."""
    if not samples:
        return float("nan")
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(percent / 100 * len(ordered)))]


def median(samples: Sequence[float]) -> float:
    """Return the middle sample, or the mean of the two middle ones; NaN without samples."""
    kept = sorted(sample for sample in samples if sample == sample)
    if not kept:
        return float("nan")
    half = len(kept) // 2
    return kept[half] if len(kept) % 2 else (kept[half - 1] + kept[half]) / 2


def longest_gap_ms(times_s: Sequence[float], end_s: float) -> float:
    """Return the longest time between two successive events, or between the last and the end."""
    pairs = itertools.pairwise([*sorted(times_s), end_s])
    return max(later - earlier for earlier, later in pairs) * 1e3


def _stat(pid: int) -> tuple[int, float]:
    """Return the parent and the CPU seconds of a process. Raises OSError if it is gone."""
    with open(f"/proc/{pid}/stat") as file:
        text = file.read()
    fields = text[text.rindex(")") + 2 :].split()
    return int(fields[1]), (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def tree(pids: Iterable[int]) -> set[int]:
    """Return these processes and all their descendants."""
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                parents[int(entry)] = _stat(int(entry))[0]
            except OSError:
                continue
    found = set(pids)
    while True:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        if not more:
            return found
        found |= more


def cpu_by_pid(pids: Iterable[int]) -> dict[int, float]:
    """Return the CPU seconds so far of each process of these trees."""
    spent: dict[int, float] = {}
    for pid in tree(pids):
        try:
            spent[pid] = _stat(pid)[1]
        except OSError:
            continue
    return spent


def machine_busy_s() -> float:
    """Return the CPU seconds that the whole machine has spent, without waiting."""
    with open("/proc/stat") as file:
        ticks = [int(field) for field in file.readline().split()[1:]]
    user, nice, system, _idle, _iowait, irq, softirq = ticks[:7]
    return (user + nice + system + irq + softirq) / TICKS_PER_S


class CpuMeter:
    """CPU of server processes between its making and `stop`. A process that ends in between is
    counted up to what was last seen: keep servers alive while measuring."""

    def __init__(self, pids: Iterable[int]) -> None:
        self._pids = list(pids)
        self._before = cpu_by_pid(self._pids)
        self._machine = machine_busy_s()

    def stop(self) -> tuple[float, float]:
        """Return the CPU seconds of the servers, and of the whole machine."""
        after = cpu_by_pid(self._pids)
        servers = sum(spent - self._before.get(pid, 0.0) for pid, spent in after.items())
        return servers, machine_busy_s() - self._machine
