"""Workers beside each other: `python -m benchmarks.workers [--messages 100000] [--rounds 3]`.

A backlog of 1 KB messages is handled by handlers that do nothing and acked one by one, in two
processes: ours by `Worker` with its defaults (pulls, a stream, plain functions in threads, batches
of 100), RabbitMQ's by aio-pika consumers of a quorum queue (prefetch 500, an ack each). Prints
messages a second, and the CPU of the servers and of the workers a message; and the memory of a
process with an idle worker, beside one that has only imported the SDK, and what each further one
takes. One JSON line each.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.cache import peers_python
from benchmarks.packetboat_cluster import PacketboatCluster, pause, run_load
from benchmarks.rabbit_cluster import RabbitCluster
from harness.measure import median
from harness.processes import NotReady
from harness.settings import inherited_environment

ROOT = Path(__file__).parent.parent
TOPIC = "workers"
PARTITIONS = 4
DRAIN_S = 60.0
IDLE = (0, 1, 21)
OURS = ("pull", "stream", "threads", "batches")
Row = dict[str, Any]


def loaded(command: list[str]) -> Row:
    """Return the object that a load program prints, with the CPU that it took itself."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=DRAIN_S + 120,
        cwd=ROOT,
        env=inherited_environment(),
        check=False,
    )
    if run.returncode != 0:
        raise NotReady(f"{command[2:5]}: {run.stderr.strip()[-500:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    row: Row = json.loads(run.stdout)
    spent_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return row | {"client_cpu_s": spent_s}


class Ours:
    """One installation, one topic, one subscription; more for idle workers."""

    def __init__(self, directory: Path, messages: int) -> None:
        self._cluster = PacketboatCluster(directory / "packetboat")
        self._messages = messages
        self.name = PacketboatCluster.name

    def start(self) -> None:
        self._cluster.start()
        self._cluster.create("/topics", {"name": TOPIC, "partitions": PARTITIONS})
        self._cluster.create(f"/topics/{TOPIC}/subscriptions", {"name": TOPIC})
        self._cluster.create("/topics", {"name": "idle", "partitions": 1})
        for number in range(max(IDLE)):
            self._cluster.create("/topics/idle/subscriptions", {"name": f"idle-{number}"})

    def cases(self) -> list[tuple[str, Callable[[], Row]]]:
        return [(case, lambda case=case: self._drain(case)) for case in OURS]  # type: ignore[misc]

    def _drain(self, case: str) -> Row:
        options = {"topic": TOPIC, "messages": self._messages, "encoding": "msgpack"}
        run_load(self._cluster, "batch", seconds=120, **options)
        pause()
        pids = ",".join(map(str, self._cluster.pids()))
        return loaded(self._command(case, TOPIC, "--pids", pids, "--seconds", str(DRAIN_S)))

    def memory(self) -> Row:
        """Return MiB of the SDK, of a process with one idle worker, and of each further worker."""
        found = [
            loaded(self._command("idle", "idle", "--workers", str(workers)))["mib"]
            for workers in IDLE
        ]
        imported, one, many = found
        return {
            "case": "idle",
            "sdk_mib": round(imported, 1),
            "one_worker_mib": round(one, 1),
            "each_further_mib": round((many - one) / (IDLE[2] - IDLE[1]), 2),
        }

    def _command(self, case: str, subscription: str, *more: str) -> list[str]:
        command = [sys.executable, "-m", "benchmarks.worker_load", case]
        command += ["--url", self._cluster.url, "--token", self._cluster.token]
        return [*command, "--subscription", subscription, *more]

    def stop(self) -> None:
        self._cluster.stop()


class Rabbit:
    """aio-pika on a quorum queue of three nodes."""

    def __init__(self, directory: Path, messages: int) -> None:
        self._cluster = RabbitCluster(directory / "rabbit")
        self._messages = messages
        self.name = "aio-pika, quorum queue"

    def start(self) -> None:
        self._python = peers_python()
        self._cluster.start()

    def cases(self) -> list[tuple[str, Callable[[], Row]]]:
        return [("consumers", self._drain)]

    def _drain(self) -> Row:
        loaded(self._command("fill", 120, "--messages", str(self._messages)))
        return loaded(self._command("drain", DRAIN_S))

    def _command(self, case: str, seconds: float, *more: str) -> list[str]:
        command = [str(self._python), "-m", "benchmarks.peer_load", "rabbit", case]
        command += ["--urls", self._cluster.urls, "--seconds", str(seconds)]
        return [*command, "--pids", ",".join(map(str, self._cluster.pids())), *more]

    def stop(self) -> None:
        self._cluster.stop()


def measured(systems: list[Ours | Rabbit], rounds: int) -> list[Row]:
    """Rounds go over all systems in turn; medians, a row a case."""
    rows: dict[tuple[str, str], list[Row]] = {}
    for _ in range(rounds):
        for system in systems:
            for case, run in system.cases():
                row = run()
                if row["failed"] or not row["n"]:
                    raise NotReady(f"{system.name}, {case}: {row['errors']}, {row['n']} handled")
                rows.setdefault((system.name, case), []).append(row)
    return [_summary(*names, found) for names, found in rows.items()]


def _summary(system: str, case: str, rows: list[Row]) -> Row:
    def figure(of: Callable[[Row], float], digits: int = 0) -> float:
        return round(median([of(row) for row in rows]), digits)

    return {
        "system": system,
        "case": case,
        "messages": sum(row["n"] for row in rows),
        "per_s": figure(lambda row: row["n"] / row["elapsed_s"]),
        "server_us": figure(lambda row: row["server_cpu_s"] / row["n"] * 1e6, 1),
        "worker_us": figure(lambda row: row["client_cpu_s"] / row["n"] * 1e6, 1),
    }


def main() -> int:
    """Exit status 1 when nothing of ours was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only-ours", action="store_true")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="packetboat-workers-"))
    ours = Ours(directory, options.messages)
    systems: list[Ours | Rabbit] = [ours]
    if not options.only_ours:
        systems.append(Rabbit(directory, options.messages))
    running: list[Ours | Rabbit] = []
    try:
        for system in systems:
            try:
                system.start()
                running.append(system)
            except NotReady as reason:
                print(f"SKIPPED {system.name}: {reason}", file=sys.stderr, flush=True)
        for row in measured(running, options.rounds):
            print(json.dumps(row), flush=True)
        if ours in running:
            print(json.dumps(ours.memory()), flush=True)
    finally:
        for system in systems:
            system.stop()
        shutil.rmtree(directory, ignore_errors=True)
    return 0 if ours in running else 1


if __name__ == "__main__":
    sys.exit(main())
