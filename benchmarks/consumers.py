"""Consumers beside each other: `python -m benchmarks.consumers [--messages 100000] [--rounds 3]`.

A backlog of 1 KB messages is drained with explicit acks: ours by pull + ack (pages of 500 over four
connections), by stream + ack (four streams, where all that came while the last ack was out is acked
next), and by the SDK in two processes, which pulls pages in binary; RabbitMQ by consumers of a
quorum queue (prefetch 500), NATS by pull consumers. Prints deliveries a second, server CPU a
message and, of ours, Postgres transactions a message. Fails when ours need 0.05 transactions a
message or more. One JSON line each.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg

from benchmarks.cache import peers_python
from benchmarks.nats_cluster import NatsCluster
from benchmarks.packetboat_cluster import PacketboatCluster, pause, run_load, run_sdk_load
from benchmarks.rabbit_cluster import RabbitCluster
from harness.measure import median
from harness.processes import NotReady
from metadata.postgres.embedded import EmbeddedPostgres

TOPIC = "consumers"
PARTITIONS = 4
DRAIN_S = 30.0
MOST_TRANSACTIONS = 0.05
STATISTICS_S = 1.5
"""Postgres tells of a transaction about a second later."""
Row = dict[str, Any]
Case = tuple[str, Callable[[], Row]]


class Ours:
    """One installation, one topic, one subscription."""

    def __init__(self, directory: Path, messages: int) -> None:
        self._cluster = PacketboatCluster(directory / "packetboat")
        self._messages = messages
        self.name = PacketboatCluster.name

    def start(self) -> None:
        self._cluster.start()
        self._cluster.create("/topics", {"name": TOPIC, "partitions": PARTITIONS})
        self._cluster.create(f"/topics/{TOPIC}/subscriptions", {"name": TOPIC})

    def cases(self) -> Iterator[Case]:
        yield "pull + ack", lambda: self._drain("drain")
        yield "stream + ack", lambda: self._drain("stream")
        yield "SDK pull + ack", lambda: self._drain("sdk")

    def _drain(self, case: str) -> Row:
        options = {"topic": TOPIC, "messages": self._messages, "encoding": "msgpack"}
        run_load(self._cluster, "batch", seconds=120, **options)
        pause(STATISTICS_S)
        before, parts = asyncio.run(self._transactions()), self._cluster.cpu_by_part()
        if case == "sdk":
            row = run_sdk_load(self._cluster, "drain", TOPIC, DRAIN_S)
        else:
            row = run_load(self._cluster, case, seconds=DRAIN_S, subscription=TOPIC)
        after = self._cluster.cpu_by_part()
        pause(STATISTICS_S)
        row["transactions"] = asyncio.run(self._transactions()) - before
        row["cpu_by_part"] = {
            part: round(seconds - parts.get(part, 0.0), 2) for part, seconds in after.items()
        }
        return row

    async def _transactions(self) -> int:
        """Return the number of transactions of all processes so far."""
        data = self._cluster.directory / "data"
        port = json.loads((data / "state.json").read_text())["ports"]["postgres"]
        connection = await asyncpg.connect(EmbeddedPostgres(data / "postgres", port=port).url)
        try:
            found: int = await connection.fetchval(
                "SELECT sum(xact_commit + xact_rollback)::bigint FROM pg_stat_database"
            )
            return found
        finally:
            await connection.close()

    def stop(self) -> None:
        self._cluster.stop()


class Theirs:
    """A peer, through its own client."""

    def __init__(self, cluster: NatsCluster | RabbitCluster, messages: int) -> None:
        self._cluster = cluster
        self._messages = messages
        self.name = cluster.name

    def start(self) -> None:
        self._python = peers_python()
        self._cluster.start()

    def cases(self) -> Iterator[Case]:
        yield ("consumers, prefetch" if self._cluster.peer == "rabbit" else "pull"), self._drain

    def _drain(self) -> Row:
        self._load("fill", 120, messages=self._messages)
        return self._load("drain" if self._cluster.peer == "rabbit" else "drain-pull", DRAIN_S)

    def _load(self, case: str, seconds: float, **options: int) -> Row:
        command = [str(self._python), "-m", "benchmarks.peer_load", self._cluster.peer, case]
        command += ["--urls", self._cluster.urls, "--seconds", str(seconds)]
        command += ["--pids", ",".join(map(str, self._cluster.pids()))]
        command += [word for name, value in options.items() for word in (f"--{name}", str(value))]
        root = Path(__file__).parent.parent
        run = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds + 60, cwd=root, check=False
        )
        if run.returncode != 0:
            raise NotReady(f"{case}: {run.stderr.strip()[-500:]}")
        row: Row = json.loads(run.stdout)
        return row

    def stop(self) -> None:
        self._cluster.stop()


def measure(system: Ours | Theirs, rounds: int) -> list[Row]:
    """Return the medians, one row per case."""
    cases: dict[str, list[Row]] = {}
    for _ in range(rounds):
        for name, run in system.cases():
            row = run()
            if row["failed"]:
                print(f"{system.name}, {name}: {row['failed']} failed {row['errors']}", flush=True)
            cases.setdefault(name, []).append(row)
    return [_summary(system.name, name, rows) for name, rows in cases.items()]


def _summary(system: str, case: str, rows: list[Row]) -> Row:
    def figure(of: Callable[[Row], float], digits: int = 0) -> float:
        return round(median([of(row) for row in rows if row["n"]]), digits)

    found: Row = {
        "system": system,
        "case": case,
        "messages": sum(row["n"] for row in rows),
        "failed": sum(row["failed"] for row in rows),
        "per_s": figure(lambda row: row["n"] / row["elapsed_s"]),
        "server_us": figure(lambda row: row["server_cpu_s"] / row["n"] * 1e6, 1),
    }
    if "transactions" in rows[0]:
        found["transactions_per_message"] = figure(lambda row: row["transactions"] / row["n"], 4)
        found["cpu_by_part"] = rows[-1]["cpu_by_part"]
    return found


def main() -> int:
    """Exit status 1 when a figure of ours is over its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only-ours", action="store_true")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="packetboat-consumers-"))
    systems: list[Ours | Theirs] = [Ours(directory, options.messages)]
    if not options.only_ours:
        nats = NatsCluster(directory / "nats", always=False)
        peers = (RabbitCluster(directory / "rabbit"), nats)
        systems += [Theirs(peer, options.messages) for peer in peers]
    worst = 0.0
    try:
        for system in systems:
            began_s = time.monotonic()
            try:
                system.start()
                for row in measure(system, options.rounds):
                    print(json.dumps(row), flush=True)
                    worst = max(worst, row.get("transactions_per_message", 0.0))
            except (NotReady, subprocess.TimeoutExpired) as reason:
                print(f"SKIPPED {system.name}: {reason}", file=sys.stderr, flush=True)
            finally:
                system.stop()
            print(f"{system.name}: {time.monotonic() - began_s:.0f} s", file=sys.stderr, flush=True)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return 1 if worst >= MOST_TRANSACTIONS else 0


if __name__ == "__main__":
    sys.exit(main())
