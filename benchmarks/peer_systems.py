"""The peers as measured systems, each driven by the fastest client of its own.

Kafka's performance tools and `nats bench` take a number of messages, not a time: it comes from
the rate of the same case in the round before.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.cache import nats_client, peers_python
from benchmarks.cases import (
    BATCHED,
    DRAIN,
    FLUSHED,
    IDLE,
    KILL_WINDOW_S,
    KILLED,
    LATENCY,
    LATENCY_PER_S,
    PUBLISH_32,
    PUBLISH_256,
    PUBLISH_WAITING,
    Case,
    DelayedKill,
    Row,
    idle,
    with_cpu,
)
from benchmarks.kafka_cluster import KafkaCluster
from benchmarks.nats_cluster import NatsCluster
from benchmarks.rabbit_cluster import RabbitCluster
from harness.processes import NotReady

ROOT = Path(__file__).parent.parent
BODY_BYTES = 1024
IN_FLIGHT = 256
GUESS_PER_S = 2_000.0
"""The rate of a case that was not run yet; a first run of each, which is not counted, corrects
it."""
TOOL_S = 120.0


class Paced:
    """Runs tools with a number of messages that takes about as long as a case should."""

    def __init__(self) -> None:
        self._rates: dict[str, float] = {}

    def run(self, case: str, seconds: float, load: Callable[[int], Row]) -> Row:
        """Run a load that is given a number of messages, and keep its rate for the next time."""
        row = load(int(self._rates.get(case, GUESS_PER_S) * seconds))
        self._rates[case] = row["n"] / row["elapsed_s"]
        return row


class PythonLoad:
    """The loads of benchmarks.peer_load, at rates that a Python client does not throttle."""

    def __init__(self, cluster: NatsCluster | RabbitCluster) -> None:
        self._cluster = cluster

    def run(self, case: str, seconds: float, **options: object) -> Row:
        """Run a load in the peers' environment. Raises NotReady."""
        command = [str(peers_python()), "-m", "benchmarks.peer_load", self._cluster.peer, case]
        command += ["--urls", self._cluster.urls, "--seconds", str(seconds)]
        command += ["--pids", ",".join(map(str, self._cluster.pids()))]
        for name, value in options.items():
            command += [f"--{name.replace('_', '-')}", str(value)]
        run = subprocess.run(command, capture_output=True, text=True, timeout=90, cwd=ROOT)
        if run.returncode != 0:
            raise NotReady(f"{case}: {run.stderr.strip()[-500:]}")
        row: Row = json.loads(run.stdout)
        return row

    def killed(self) -> Row:
        """Publish at a rate, and kill the leader of the stream or queue meanwhile."""
        kill = DelayedKill(self._cluster.kill_leader)
        kill.begin()
        row = self.run("steady", KILL_WINDOW_S, rate=LATENCY_PER_S)
        kill.end()
        self._cluster.start_killed()
        return row


class RabbitSystem:
    """RabbitMQ, through its Python client, which waits for it rather than the other way round."""

    def __init__(self, cluster: RabbitCluster) -> None:
        self._cluster = cluster
        self.name = cluster.name
        self._load = PythonLoad(cluster)

    def start(self) -> None:
        peers_python()
        self._cluster.start()

    def cases(self, round_number: int, case_s: float) -> Iterator[Case]:
        yield PUBLISH_32, lambda: self._load.run("publish", case_s, in_flight=32)
        yield PUBLISH_256, lambda: self._load.run("publish", case_s, in_flight=IN_FLIGHT)
        yield DRAIN, lambda: self._load.run("drain", case_s * 2)
        yield LATENCY, lambda: self._load.run("latency", case_s, rate=LATENCY_PER_S)
        yield IDLE, lambda: idle(self._cluster.pids(), case_s)
        yield KILLED, self._load.killed

    def stop(self) -> None:
        self._cluster.stop()


class NatsSystem:
    """NATS JetStream, through `nats bench`; at 200 a second through its Python client."""

    def __init__(self, cluster: NatsCluster) -> None:
        self._cluster = cluster
        self.name = cluster.name
        self._load = PythonLoad(cluster)
        self._paced = Paced()
        self._client = Path()
        self._stored = 0

    def start(self) -> None:
        peers_python()
        self._client = nats_client()
        self._cluster.start()
        self._cluster.await_leader()
        for case, _ in PUBLISHES:
            self._publish(case, 1.0)

    def cases(self, round_number: int, case_s: float) -> Iterator[Case]:
        for case, _ in PUBLISHES:
            yield case, lambda case=case: self._publish(case, case_s)  # type: ignore[misc]
        yield DRAIN, self._drain
        yield LATENCY, lambda: self._load.run("latency", case_s, rate=LATENCY_PER_S)
        yield IDLE, lambda: idle(self._cluster.pids(), case_s)
        yield KILLED, self._load.killed

    def _publish(self, case: str, seconds: float) -> Row:
        command = ["pub", *dict(PUBLISHES)[case].split(), "--size", str(BODY_BYTES), "--create"]
        command += ["--replicas", "3", "--purge", "--maxbytes", "10GB", "bench.a"]
        row = self._paced.run(case, seconds, lambda n: self._bench(n, *command))
        self._stored = row["n"]
        return row

    def _drain(self) -> Row:
        """Consume and ack what the case before has stored, by two clients."""
        return self._bench(self._stored, "consume", "--clients", "2", "--acks", "explicit")

    def _bench(self, messages: int, *arguments: str) -> Row:
        command = [str(self._client), "--no-context", "--server", self._cluster.urls]
        command += ["bench", "js", *arguments, "--msgs", str(messages), "--no-progress"]

        def load() -> Row:
            run = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_S)
            return bench_row(run.stdout, messages, run.returncode, run.stderr)

        return with_cpu(self._cluster.pids(), load)

    def stop(self) -> None:
        self._cluster.stop()


PUBLISHES = (
    (PUBLISH_WAITING, f"sync --clients {IN_FLIGHT}"),
    (BATCHED, f"atomic --clients 2 --batch {IN_FLIGHT // 2}"),
    (PUBLISH_256, f"async --clients 2 --batch {IN_FLIGHT // 2}"),
)
"""Cases of `nats bench js pub`: each of many connections waits for its confirm; two send batches
that are stored whole; two send single messages, and wait for all confirms of one volley."""


def bench_row(output: str, messages: int, status: int, errors: str) -> Row:
    """Return the figures that `nats bench` prints last. Raises NotReady without any."""
    total = output.rpartition("stats:")[2]
    rate = re.search(r"([\d,]+) msgs/sec", total)
    if status != 0 or rate is None:
        raise NotReady(f"nats bench: {(errors or output).strip()[-400:]}")

    def latency_ms(name: str) -> float:
        found = re.search(rf"{name}:? ([\d,.]+)us", total)
        return float(found[1].replace(",", "")) / 1e3 if found else float("nan")

    per_s = float(rate[1].replace(",", ""))
    return {
        "n": messages,
        "elapsed_s": messages / per_s,
        "p50_ms": latency_ms("P50"),
        "p99_ms": latency_ms("P99"),
        "failed": 0,
    }


class KafkaSystem:
    """Kafka, through its own producer and consumer performance tools.

    Its topics are as it comes, or sync each message: the cases of these end with `FLUSHED`.
    """

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster
        self.name = cluster.name
        self._paced = Paced()
        self._stored = 0

    def start(self) -> None:
        """Start the nodes, and run each load once: a JVM is slow before its code is compiled."""
        self._cluster.start()
        for suffix, settings in (("", {}), (FLUSHED, {"flush_messages": 1})):
            for topic in ("published", "steady"):
                self._cluster.create_topic(topic + TOPIC_ENDS[suffix], **settings)
            for case in PRODUCERS:
                self._publish(case, suffix, 2.0)
                self._publish(case, suffix, 2.0)

    def cases(self, round_number: int, case_s: float) -> Iterator[Case]:
        for suffix in (FLUSHED, ""):
            for case in PRODUCERS:
                yield (
                    case + suffix,
                    lambda case=case, suffix=suffix: self._publish(case, suffix, case_s),
                )
            yield LATENCY + suffix, lambda suffix=suffix: self._steady(suffix, case_s, 2)
        yield DRAIN, self._drain
        yield IDLE, lambda: idle(self._cluster.pids(), case_s)
        yield KILLED, self._killed

    def _publish(self, case: str, suffix: str, seconds: float) -> Row:
        def load(messages: int) -> Row:
            given: list[Any] = ["--topic", "published" + TOPIC_ENDS[suffix]]
            given += ["--num-records", messages + messages // 2, "--record-size", BODY_BYTES]
            given += ["--warmup-records", messages // 2]
            given += ["--throughput", -1, "--command-property", "acks=all", *PRODUCERS[case]]
            told = self._cluster.tool("ProducerPerformance", *given, timeout_s=TOOL_S)
            return producer_row(told)

        pids = self._cluster.pids()
        row = with_cpu(pids, lambda: self._paced.run(case + suffix, seconds, load))
        self._stored = row["n"]
        return row

    def _drain(self) -> Row:
        """Consume all that the topic without a sync has, once more: a new group begins there."""
        given: list[Any] = ["--topic", "published", "--num-records", self._stored]

        def load() -> Row:
            tool = self._cluster.tool
            return consumer_row(tool("ConsumerPerformance", *given, timeout_s=TOOL_S))

        return with_cpu(self._cluster.pids(), load)

    def _steady(
        self, suffix: str, seconds: float, consumers: int, begin: Callable[[], None] | None = None
    ) -> Row:
        def load() -> Row:
            topic = "steady" + TOPIC_ENDS[suffix]
            told = self._cluster.load(topic, LATENCY_PER_S, seconds, consumers, begin)
            row: Row = json.loads(told)
            return row

        return with_cpu(self._cluster.pids(), load)

    def _killed(self) -> Row:
        leader = self._cluster.leader("steady")
        kill = DelayedKill(lambda: self._cluster.kill(leader))
        row = self._steady("", KILL_WINDOW_S, 0, kill.begin)
        kill.end()
        self._cluster.start_node(leader)
        return row

    def stop(self) -> None:
        self._cluster.stop()


def producer_row(output: str) -> Row:
    """Return the figures of the last two lines of kafka-producer-perf-test. Raises NotReady.

    All records count for the servers' CPU; rate and latencies are those after the warm-up.
    """
    pattern = (
        r"(\d+) (?:steady state )?records sent, ([\d.]+) rec.* ([\d.]+) ms 50th.* ([\d.]+) ms 99th"
    )
    figures = re.findall(pattern, output)
    if len(figures) != 2:
        raise NotReady(f"kafka-producer-perf-test: {output.strip()[-400:]}")
    n = int(figures[0][0])
    per_s, p50_ms, p99_ms = map(float, figures[1][1:])
    return {
        "n": n,
        "elapsed_s": n / per_s,
        "p50_ms": p50_ms,
        "p99_ms": p99_ms,
        "failed": 0,
    }


def consumer_row(output: str) -> Row:
    """Return the figures of kafka-consumer-perf-test, without its time of joining the group.
    Raises NotReady.
    """
    fields = [field.strip() for field in output.strip().rpartition("\n")[2].split(",")]
    if len(fields) != 10 or not fields[4].isdigit():
        raise NotReady(f"kafka-consumer-perf-test: {output.strip()[-400:]}")
    return {
        "n": int(fields[4]),
        "elapsed_s": int(fields[7]) / 1e3,
        "p50_ms": float("nan"),
        "p99_ms": float("nan"),
        "failed": 0,
    }


TOPIC_ENDS = {"": "", FLUSHED: "-flushed"}
PRODUCERS = {
    PUBLISH_256: (
        "batch.size=0",
        "linger.ms=0",
        f"buffer.memory={IN_FLIGHT * 1120}",
    ),
    BATCHED: ("batch.size=65536", f"buffer.memory={IN_FLIGHT * BODY_BYTES}"),
}
"""Settings of producers; the buffer, which a record leaves when it is confirmed, bounds the
records that are outstanding."""
