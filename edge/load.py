"""The load of this process and its machine, sampled ten times a second, twice while it is idle.

Two things are measured: how late the event loop calls a timer, which is how long anything that has
arrived waits before it is looked at; and the use of the processor, by this process and by the
machine. A machine on which everything is on time is well used, however busy. So only the *standing*
lag, the least of half a second, counts as overload: one long callback, or a moment without the
processor, is no queue.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from prometheus_client import Gauge

EVERY_S = 0.1
IDLE_EVERY_S = 0.5
"""Seconds between samples of a process that did next to nothing since the last one. Overload that
follows is seen half a second later.
"""
IDLE_CPU = 0.05
"""The part of a core below which a process does next to nothing."""
STANDING_S = 0.5
TARGET_LAG_S = 0.1
_SMOOTHING = 0.2
"""The weight of a sample of `EVERY_S`."""

_LAG = Gauge(
    "packetboat_load_loop_lag_seconds", "How late the event loop calls timers, last.",
    multiprocess_mode="livemax",
)  # fmt: skip
_CPU = Gauge(
    "packetboat_load_cpu_ratio",
    "Processor in use, of 1: by this process, of one core; by everything, of the machine.",
    ["of"],
    multiprocess_mode="livemax",
)
_OVERLOADED = Gauge(
    "packetboat_load_overloaded_ratio", "From 0, all is on time, to 1, twice the lag that may be.",
    multiprocess_mode="livemax",
)  # fmt: skip


class MachineCpu:
    """A reader of busy and total time of all cores together, from /proc/stat; zeros without that
    file.
    """

    def __init__(self) -> None:
        self._file = -1
        with suppress(OSError):
            self._file = os.open("/proc/stat", os.O_RDONLY | os.O_CLOEXEC)

    def __call__(self) -> tuple[float, float]:
        """Return the busy and the total jiffies since the machine was started."""
        if self._file < 0:
            return 0.0, 0.0
        line = os.pread(self._file, 256, 0).split(b"\n", 1)[0]
        # user nice system idle iowait irq softirq steal; guests are within user.
        times = [int(each) for each in line.split()[1:9]]
        total = sum(times)
        return total - times[3] - times[4], total

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class MachineLoad:
    """A sampler, started and stopped on the loop that it watches; tests call `sample`
    themselves.
    """

    def __init__(
        self,
        *,
        target_lag_s: float = TARGET_LAG_S,
        clock: Callable[[], float] = time.monotonic,
        process_s: Callable[[], float] = time.process_time,
        machine: Callable[[], tuple[float, float]] | None = None,
    ) -> None:
        """Make a sampler that is not started.

        `process_s` returns the processor time used by the process, `machine` the busy and total
        time of the machine.
        """
        self._target_lag_s = target_lag_s
        self._clock = clock
        self._process_s = process_s
        self._machine = MachineCpu() if machine is None else machine
        self._lags: deque[float] = deque(maxlen=round(STANDING_S / EVERY_S))
        self._used_s = process_s()
        self._busy, self._total = self._machine()
        self._sampled_s = clock()
        self._timer: asyncio.TimerHandle | None = None
        self._due_s = 0.0
        self._longest_lag_s = 0.0
        self._recent_cpu = 0.0
        """Cores in use by the process since the last sample but one."""
        self._listeners: list[Callable[[float], None]] = []
        self.process_cpu = 0.0
        """Cores in use by the process, smoothed over half a second; above 1 if threads work beside
        the loop.
        """
        self.machine_cpu = 0.0
        """Part of all cores in use, smoothed in the same way."""
        self.loop_lag_s = 0.0
        """Seconds by which the loop was late at the last sample."""
        self.standing_lag_s = 0.0
        """Smallest lag of the last half second."""
        self.overloaded = 0.0
        """Overload, from 0 (on time) to 1 (twice the lag that is allowed, or more)."""

    @property
    def cpu(self) -> float:
        """Use of the process's core or of the machine, the larger of the two, from 0 to 1."""
        return min(1.0, max(self.process_cpu, self.machine_cpu))

    @property
    def every_s(self) -> float:
        """Seconds from the last sample to the next."""
        idle = self._recent_cpu < IDLE_CPU and self.loop_lag_s < self._target_lag_s
        return IDLE_EVERY_S if idle else EVERY_S

    def take_longest_lag_s(self) -> float:
        """Return the longest lag since the last call, for the only caller."""
        longest_s, self._longest_lag_s = self._longest_lag_s, 0.0
        return longest_s

    def add_listener(self, sampled: Callable[[float], None]) -> None:
        """Call a function after each sample, with the seconds since the last."""
        self._listeners.append(sampled)

    def start(self) -> None:
        """Take the next sample when it is due; on the loop that is to be watched."""
        loop = asyncio.get_running_loop()
        self._due_s = loop.time() + self.every_s
        self._timer = loop.call_at(self._due_s, self._called)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if isinstance(self._machine, MachineCpu):
            self._machine.close()

    def _called(self) -> None:
        try:
            self.sample(asyncio.get_running_loop().time() - self._due_s)
        finally:
            self.start()

    def sample(self, lag_s: float) -> None:
        """Take a sample when a timer was called `lag_s` late."""
        now_s = self._clock()
        took_s, self._sampled_s = now_s - self._sampled_s, now_s
        if took_s <= 0:
            return
        # uvloop counts time in whole milliseconds: a timer may be called a little early.
        self.loop_lag_s = max(0.0, lag_s)
        self._longest_lag_s = max(self._longest_lag_s, self.loop_lag_s)
        self._lags.append(self.loop_lag_s)
        full = len(self._lags) == self._lags.maxlen
        self.standing_lag_s = min(self._lags) if full else 0.0
        self._read_cpu(took_s)
        late = self.standing_lag_s / self._target_lag_s - 1.0
        self.overloaded = min(1.0, max(0.0, late))
        _LAG.set(self.loop_lag_s)
        _OVERLOADED.set(self.overloaded)
        for sampled in self._listeners:
            sampled(took_s)

    def _read_cpu(self, took_s: float) -> None:
        used_s = self._process_s()
        self._recent_cpu = (used_s - self._used_s) / took_s
        weight = min(1.0, _SMOOTHING * took_s / EVERY_S)
        self.process_cpu += weight * (self._recent_cpu - self.process_cpu)
        self._used_s = used_s
        busy, total = self._machine()
        if total > self._total:
            share = (busy - self._busy) / (total - self._total)
            self.machine_cpu += weight * (share - self.machine_cpu)
        self._busy, self._total = busy, total
        _CPU_OF_PROCESS.set(self.process_cpu)
        _CPU_OF_MACHINE.set(self.machine_cpu)


_CPU_OF_PROCESS, _CPU_OF_MACHINE = _CPU.labels("process"), _CPU.labels("machine")
