"""The cases of `make bench`, and what every measured system can do."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from harness.measure import CpuMeter

Row = dict[str, Any]
Case = tuple[str, Callable[[], Row]]
POST_32, POST_256 = "POST, 32 connections", "POST, 256 connections"
BATCH_JSON, BATCH_MSGPACK = ":batch 4×64, JSON", ":batch 4×64, msgpack"
SDK_PUBLISH = "SDK publish, 256 outstanding"
PUBLISH_32, PUBLISH_256 = "publish, 32 in flight", "publish, 256 in flight"
PUBLISH_WAITING = "publish, 256 connections"
BATCHED = "batched, 256 outstanding"
DRAIN, SDK_DRAIN, STREAM = "drain + ack", "SDK drain + ack", "stream + ack"
LATENCY, IDLE, KILLED = "publish→consume, 200/s", "idle", "leader killed, 200/s"
FLUSHED = ", flushed"
"""The end of a case in which Kafka syncs each message before it is confirmed."""
LATENCY_PER_S = 200
DRAIN_MESSAGES = 20_000
KILL_AFTER_S = 2.0
KILL_WINDOW_S = 6.0
"""Seconds of load in a case with a killed leader, which dies `KILL_AFTER_S` after its start."""


class System(Protocol):
    """One system, started once, measured in rounds."""

    name: str

    def start(self) -> None:
        """Raises NotReady with the reason."""

    def cases(self, round_number: int, case_s: float) -> Iterator[Case]:
        """Name and measurement, in the order to run them."""

    def stop(self) -> None: ...


def idle(pids: Sequence[int], seconds: float) -> Row:
    """Count what a system spends while nobody asks it anything."""
    time.sleep(1)  # the last case's work ends
    meter, start = CpuMeter(pids), time.perf_counter()
    time.sleep(seconds)
    wall_s = time.perf_counter() - start
    servers, machine = meter.stop()
    return {
        "n": 0,
        "elapsed_s": wall_s,
        "wall_s": wall_s,
        "p50_ms": float("nan"),
        "p99_ms": float("nan"),
        "failed": 0,
        "server_cpu_s": servers,
        "machine_cpu_s": machine,
    }


def with_cpu(pids: Sequence[int], load: Callable[[], Row]) -> Row:
    """Run a load that knows nothing of the servers, and add their CPU to its row."""
    meter, start = CpuMeter(pids), time.perf_counter()
    row = load()
    wall_s = time.perf_counter() - start
    servers, machine = meter.stop()
    return row | {"wall_s": wall_s, "server_cpu_s": servers, "machine_cpu_s": machine}


class DelayedKill:
    """A kill that comes some seconds after a load has begun."""

    def __init__(self, kill: Callable[[], None], after_s: float = KILL_AFTER_S) -> None:
        self._kill = kill
        self._raised: BaseException | None = None
        self._timer = threading.Timer(after_s, self._act)

    def begin(self) -> None:
        """Begin to wait."""
        self._timer.start()

    def end(self) -> None:
        """Wait until it has killed; raises what that raised."""
        self._timer.join()
        if self._raised is not None:
            raise self._raised

    def _act(self) -> None:
        try:
            self._kill()
        except (RuntimeError, OSError, subprocess.SubprocessError) as error:
            self._raised = error
