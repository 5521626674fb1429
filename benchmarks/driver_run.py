"""Runs of a driver of exports, made as a runner makes them, and their cost."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from packetboat.models.export_runs import ExportSpec, LaneRange

from benchmarks.packetboat_cluster import PacketboatCluster
from harness.measure import cpu_by_pid
from harness.settings import inherited_environment
from spark_exports.order import Done, Failed, FromDriver, LakeSettings, Opened, Order, Ranges

SAMPLE_S = 0.1
NICE = 10
"""Niceness of drivers, which is the default of `PACKETBOAT_RUNNER_DRIVER_NICE`."""
_decoder = msgspec.json.Decoder(FromDriver)


class Measured(NamedTuple):
    """A run, from its plan to its answer; a session is there when it begins."""

    rows: int
    began_s: float
    """Beginning, by `time.perf_counter`."""
    took_s: float
    driver_s: float
    """Processor time of the driver, its JVM and its workers."""
    platform_s: float

    @property
    def cores_s(self) -> float:
        return self.driver_s + self.platform_s


class CpuSampler:
    """Processor time of process trees whose members come and go, as far as each was seen."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = pids
        self._seen: dict[int, float] = {}
        self._ended = threading.Event()
        self._look()
        self._before = sum(self._seen.values())
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> float:
        """Since it was made, in seconds."""
        self._ended.set()
        self._thread.join()
        return sum(self._seen.values()) - self._before

    def _run(self) -> None:
        while not self._ended.wait(SAMPLE_S):
            self._look()
        self._look()

    def _look(self) -> None:
        self._seen |= cpu_by_pid(self._pids)


class Driver:
    """Runs of one export, each in a process of its own. `module` and its arguments: which."""

    def __init__(
        self,
        module: Sequence[str],
        spec: ExportSpec,
        lake: LakeSettings,
        cluster: PacketboatCluster,
        directory: Path,
    ) -> None:
        self._module = module
        self._spec = spec
        self._lake = lake
        self._cluster = cluster
        self._directory = directory

    def run(self, number: int, ranges: Sequence[LaneRange]) -> Measured:
        """Raises CalledProcessError with what the driver said last."""
        state = self._directory / f"{self._spec.name}-{number}"
        state.mkdir(parents=True)
        order = Order(
            tenant="bench",
            number=number,
            attempt=1,
            kind="export",
            export=self._spec,
            lake=self._lake,
            url=self._cluster.url,
            token=self._cluster.token,
            state_dir=str(state),
        )
        command = ["nice", "-n", str(NICE), sys.executable, "-m"]
        log = state / "driver.log"
        with (
            log.open("wb") as errors,
            subprocess.Popen(
                [*command, *self._module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=inherited_environment(),
            ) as process,
        ):
            try:
                return self._follow(process, order, ranges)
            except EOFError as error:
                told = f"{error}\n{log.read_text(errors='replace')[-3000:]}"
                raise subprocess.CalledProcessError(1, command, told) from error
            finally:
                process.kill()

    def _follow(
        self, process: subprocess.Popen[bytes], order: Order, ranges: Sequence[LaneRange]
    ) -> Measured:
        """Raises EOFError where it did not end well."""
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(msgspec.json.encode(order) + b"\n")
        process.stdin.flush()
        began_s, samplers = 0.0, (None, None)
        for line in process.stdout:
            message = _decoder.decode(line)
            if isinstance(message, Opened):
                samplers = CpuSampler([process.pid]), CpuSampler(self._cluster.pids())
                began_s = time.perf_counter()
                process.stdin.write(msgspec.json.encode(Ranges(list(ranges))) + b"\n")
                process.stdin.flush()
            elif isinstance(message, Done):
                took_s = time.perf_counter() - began_s
                driver, platform = samplers
                assert driver is not None
                assert platform is not None
                return Measured(
                    message.result.rows, began_s, took_s, driver.stop(), platform.stop()
                )
            elif isinstance(message, Failed):
                raise EOFError(f"{message.code}: {message.message}")
        raise EOFError("it ended without a word")
