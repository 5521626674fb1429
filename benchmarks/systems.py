"""Packetboat as a measured system: its cases, and the choice of systems by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import wrk
from benchmarks.cases import (
    BATCH_JSON,
    BATCH_MSGPACK,
    DRAIN,
    DRAIN_MESSAGES,
    IDLE,
    KILL_WINDOW_S,
    KILLED,
    LATENCY,
    LATENCY_PER_S,
    POST_32,
    POST_256,
    SDK_DRAIN,
    SDK_PUBLISH,
    STREAM,
    Case,
    DelayedKill,
    Row,
    System,
    idle,
    with_cpu,
)
from benchmarks.kafka_cluster import KafkaCluster
from benchmarks.nats_cluster import NatsCluster
from benchmarks.packetboat_cluster import PacketboatCluster, pause, run_load, run_sdk_load
from benchmarks.peer_systems import KafkaSystem, NatsSystem, RabbitSystem
from benchmarks.rabbit_cluster import RabbitCluster


class PacketboatSystem:
    """Our cases, each on a topic of its own with four partitions."""

    name = PacketboatCluster.name

    def __init__(self, directory: Path) -> None:
        self._cluster = PacketboatCluster(directory)

    def start(self) -> None:
        self._cluster.start()
        for topic in ("single", "batch", "sdk", "drain", "latency", "killed"):
            self._cluster.create("/topics", {"name": topic, "partitions": 4})
        for topic in ("drain", "latency"):
            self._cluster.create(f"/topics/{topic}/subscriptions", {"name": topic})

    def cases(self, round_number: int, case_s: float) -> Iterator[Case]:
        for name, measure, prepare in (
            (POST_32, lambda: self._post(32, case_s), None),
            (POST_256, lambda: self._post(256, case_s), None),
            (BATCH_JSON, lambda: self._load("batch", case_s, topic="batch"), None),
            (BATCH_MSGPACK, lambda: self._msgpack(case_s), None),
            (SDK_PUBLISH, lambda: run_sdk_load(self._cluster, "async", "sdk", case_s), None),
            (DRAIN, lambda: self._load("drain", case_s * 2, subscription="drain"), self._fill),
            (STREAM, lambda: self._load("stream", case_s * 2, subscription="drain"), self._fill),
            (SDK_DRAIN, lambda: self._sdk_drain(case_s), self._fill),
            (LATENCY, lambda: self._latency(case_s), None),
        ):
            yield name, lambda m=measure, p=prepare: self._counted(m, prepare=p)
        yield IDLE, lambda: idle(self._cluster.pids(), case_s)
        yield KILLED, self._killed

    def _load(self, case: str, seconds: float, **options: object) -> Row:
        return run_load(self._cluster, case, seconds=seconds, **options)

    def _msgpack(self, seconds: float) -> Row:
        return self._load("batch", seconds, topic="batch", encoding="msgpack")

    def _latency(self, seconds: float) -> Row:
        options = {"topic": "latency", "subscription": "latency", "rate": LATENCY_PER_S}
        return self._load("latency", seconds, **options)

    def _sdk_drain(self, case_s: float) -> Row:
        return run_sdk_load(self._cluster, "drain", "drain", case_s * 2)

    def _post(self, connections: int, seconds: float) -> Row:
        return with_cpu(
            self._cluster.pids(),
            lambda: wrk.post(
                f"{self._cluster.url}/topics/single/messages",
                self._cluster.token,
                connections=connections,
                seconds=seconds,
                directory=self._cluster.directory,
            ),
        )

    def _killed(self) -> Row:
        """Publish at a rate without keys, and kill the node that leads most partitions."""
        leader = self._cluster.most_leading()
        kill = DelayedKill(lambda: self._cluster.kill_node(leader))
        kill.begin()
        row = self._load("steady", KILL_WINDOW_S, topic="killed", rate=LATENCY_PER_S)
        kill.end()
        self._cluster.await_nodes()
        return row

    def _fill(self) -> None:
        self._load("batch", 20, topic="drain", messages=DRAIN_MESSAGES, encoding="msgpack")
        pause()

    def _counted(self, measure: Callable[[], Row], *, prepare: Callable[[], None] | None) -> Row:
        """Measure, with the fdatasyncs of all three nodes, and the CPU of each part."""
        if prepare is not None:
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


def system(name: str, directory: Path) -> System:
    """Return a system by its name in BENCH_ONLY."""
    if name == "packetboat":
        return PacketboatSystem(directory)
    if name == "kafka":
        return KafkaSystem(KafkaCluster(directory))
    if name == "rabbit":
        return RabbitSystem(RabbitCluster(directory))
    return NatsSystem(NatsCluster(directory, always=name == "nats-always"))
