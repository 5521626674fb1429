"""The systems under test: how each is started, and the cases that are run on it in every round."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from benchmarks import wrk
from benchmarks.cache import peers_python
from benchmarks.nats_cluster import NatsCluster
from benchmarks.packetboat_cluster import PacketboatCluster, pause, run_load
from benchmarks.rabbit_cluster import RabbitCluster
from harness.measure import CpuMeter
from harness.processes import NotReady

Row = dict[str, Any]
Case = tuple[str, Callable[[], Row]]
POST_32, POST_256 = "POST, 32 connections", "POST, 256 connections"
BATCH_JSON, BATCH_MSGPACK = ":batch 4×64, JSON", ":batch 4×64, msgpack"
PUBLISH_32, PUBLISH_256 = "publish, 32 in flight", "publish, 256 in flight"
DRAIN, LATENCY = "drain + ack", "publish→consume, 200/s"
STREAM = "stream + ack"
LATENCY_PER_S = 200
DRAIN_MESSAGES = 20_000


class System(Protocol):
    """One system, started once, measured in rounds."""

    name: str

    def start(self) -> None:
        """Raises NotReady with the reason."""

    def cases(self, round_number: int, case_s: float) -> Iterator[Case]:
        """Name and measurement, in the order to run them."""

    def stop(self) -> None: ...


class PacketboatSystem:
    """Our cases, each on a topic of its own with four partitions."""

    name = PacketboatCluster.name

    def __init__(self, directory: Path) -> None:
        self._cluster = PacketboatCluster(directory)

    def start(self) -> None:
        self._cluster.start()
        for topic in ("single", "batch", "drain", "latency"):
            self._cluster.create("/topics", {"name": topic, "partitions": 4})
        for topic in ("drain", "latency"):
            self._cluster.create(f"/topics/{topic}/subscriptions", {"name": topic})

    def cases(self, round_number: int, case_s: float) -> Iterator[Case]:
        yield POST_32, lambda: self._counted(lambda: self._post(32, case_s))
        yield POST_256, lambda: self._counted(lambda: self._post(256, case_s))
        yield BATCH_JSON, lambda: self._counted(lambda: self._load("batch", case_s, topic="batch"))
        yield (
            BATCH_MSGPACK,
            lambda: self._counted(
                lambda: self._load("batch", case_s, topic="batch", encoding="msgpack")
            ),
        )
        yield DRAIN, lambda: self._counted(lambda: self._drain(case_s), prepare=self._fill)
        yield STREAM, lambda: self._counted(lambda: self._stream(case_s), prepare=self._fill)
        yield (
            LATENCY,
            lambda: self._counted(
                lambda: self._load(
                    "latency", case_s, topic="latency", subscription="latency", rate=LATENCY_PER_S
                )
            ),
        )

    def _load(self, case: str, seconds: float, **options: object) -> Row:
        return run_load(self._cluster, case, seconds=seconds, **options)

    def _post(self, connections: int, seconds: float) -> Row:
        meter, start = CpuMeter(self._cluster.pids()), time.perf_counter()
        row = wrk.post(
            f"{self._cluster.url}/topics/single/messages",
            self._cluster.token,
            connections=connections,
            seconds=seconds,
            directory=self._cluster.directory,
        )
        wall_s = time.perf_counter() - start
        servers, machine = meter.stop()
        return row | {"wall_s": wall_s, "server_cpu_s": servers, "machine_cpu_s": machine}

    def _fill(self) -> None:
        self._load("batch", 20, topic="drain", messages=DRAIN_MESSAGES, encoding="msgpack")
        pause()

    def _drain(self, case_s: float) -> Row:
        return self._load("drain", case_s * 2, subscription="drain")

    def _stream(self, case_s: float) -> Row:
        return self._load("stream", case_s * 2, subscription="drain")

    def _counted(
        self, measure: Callable[[], Row], *, prepare: Callable[[], None] = lambda: None
    ) -> Row:
        """Measure, with the fdatasyncs of all three nodes, and the CPU of each part."""
        prepare()
        flushes, parts = sum(self._cluster.flushes()), self._cluster.cpu_by_part()
        row = measure()
        parts_after = self._cluster.cpu_by_part()
        row["cpu_by_part"] = {
            part: round(seconds - parts.get(part, 0.0), 2) for part, seconds in parts_after.items()
        }
        row["fdatasyncs"] = sum(self._cluster.flushes()) - flushes
        return row

    def stop(self) -> None:
        self._cluster.stop()


class PeerSystem:
    """A peer, through its own protocol and its own Python client."""

    def __init__(self, cluster: NatsCluster | RabbitCluster) -> None:
        self._cluster = cluster
        self.name = cluster.name
        self._python = Path()

    def start(self) -> None:
        self._python = peers_python()
        self._cluster.start()

    def cases(self, round_number: int, case_s: float) -> Iterator[Case]:
        if self._cluster.peer == "rabbit":
            yield PUBLISH_32, lambda: self._load("publish", case_s, in_flight=32)
        yield PUBLISH_256, lambda: self._load("publish", case_s, in_flight=256)
        yield DRAIN, lambda: self._load("drain", case_s * 2)
        yield LATENCY, lambda: self._load("latency", case_s, rate=LATENCY_PER_S)

    def _load(self, case: str, seconds: float, **options: object) -> Row:
        command = [str(self._python), "-m", "benchmarks.peer_load", self._cluster.peer, case]
        command += ["--urls", self._cluster.urls, "--seconds", str(seconds)]
        command += ["--pids", ",".join(map(str, self._cluster.pids()))]
        for name, value in options.items():
            command += [f"--{name.replace('_', '-')}", str(value)]
        root = Path(__file__).parent.parent
        run = subprocess.run(command, capture_output=True, text=True, timeout=90, cwd=root)
        if run.returncode != 0:
            raise NotReady(f"{case}: {run.stderr.strip()[-500:]}")
        row: Row = json.loads(run.stdout)
        return row

    def stop(self) -> None:
        self._cluster.stop()


def system(name: str, directory: Path) -> System:
    """Return a system by its name in BENCH_ONLY."""
    if name == "packetboat":
        return PacketboatSystem(directory)
    if name == "rabbit":
        return PeerSystem(RabbitCluster(directory))
    return PeerSystem(NatsCluster(directory, always=name == "nats-always"))
