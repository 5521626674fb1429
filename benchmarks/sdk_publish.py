"""The SDK's `publish` beside a peer's client: `python -m benchmarks.sdk_publish [--rounds 3]`.

1 KB messages, a receipt for each, 256 outstanding: by the asyncio client (with and without keys,
and once with 2,000 outstanding) and by the blocking one, in one process and in two; by nats-py to
three JetStream nodes with their default settings, two processes, which is where it is fastest. Ours
is on a majority's disks when a receipt comes, theirs in memory. The systems take turns; prints
medians with the CPU of servers and of clients a message, one JSON line each. Fails where our best,
with as many outstanding, is slower than the peer in the same round, in the median.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.cache import peers_python
from benchmarks.nats_cluster import NatsCluster
from benchmarks.packetboat_cluster import PacketboatCluster, pause
from harness.measure import median
from harness.processes import NotReady
from harness.settings import inherited_environment

ROOT = Path(__file__).parent.parent
TOPIC = "sdk"
PARTITIONS = 4
IN_FLIGHT = 256
MANY = "2,000 outstanding"
REQUESTS = 'packetboat_gateway_requests_total{method="POST"'
Row = dict[str, Any]
Case = tuple[str, list[str]]
OURS: tuple[Case, ...] = (
    ("asyncio", ["async"]),
    ("asyncio, two processes", ["async", "--processes", "2"]),
    ("asyncio, 1,000 keys", ["async", "--keyed"]),
    ("threads", ["sync"]),
    (f"asyncio, {MANY}", ["async", "--in-flight", "2000"]),
)
THEIRS: tuple[Case, ...] = (("nats-py, two processes", ["nats", "publish"]),)


def loaded(command: list[str], seconds: float, environment: Mapping[str, str] | None = None) -> Row:
    """Return the object that a load program prints. Raises NotReady."""
    if "--in-flight" not in command:
        command = [*command, "--in-flight", str(IN_FLIGHT)]
    run = subprocess.run(
        [*command, "--seconds", str(seconds)],
        capture_output=True,
        text=True,
        timeout=seconds + 60,
        cwd=ROOT,
        env=inherited_environment(**environment or {}),
        check=False,
    )
    if run.returncode != 0:
        raise NotReady(f"{command[1:4]}: {run.stderr.strip()[-500:]}")
    row: Row = json.loads(run.stdout)
    if row["failed"]:
        print(f"{command[2:4]}: {row['failed']} failed {row['errors']}", flush=True)
    return row


class Ours:
    """One installation and topic."""

    cases = OURS

    def __init__(self, directory: Path) -> None:
        self._cluster = PacketboatCluster(directory / "packetboat")
        self.name = PacketboatCluster.name

    def start(self) -> None:
        self._cluster.start()
        self._cluster.create("/topics", {"name": TOPIC, "partitions": PARTITIONS})

    def run(
        self, case: list[str], seconds: float, environment: Mapping[str, str] | None = None
    ) -> Row:
        """Measure a case; `environment` may name another SDK to import. Raises NotReady.

        `requests` of the row are those that the server counted.
        """
        cluster = self._cluster
        before = cluster.metric(REQUESTS)
        command = [sys.executable, "-m", "benchmarks.sdk_load", *case]
        command += ["--url", cluster.url, "--token", cluster.token, "--topic", TOPIC]
        command += ["--pids", ",".join(map(str, cluster.pids()))]
        row = loaded(command, seconds, environment)
        return row | {"requests": cluster.metric(REQUESTS) - before}

    def stop(self) -> None:
        self._cluster.stop()


class Theirs:
    """NATS, through its own client."""

    cases = THEIRS

    def __init__(self, directory: Path) -> None:
        self._cluster = NatsCluster(directory / "nats", always=False)
        self.name = self._cluster.name

    def start(self) -> None:
        self._python = peers_python()
        self._cluster.start()

    def run(self, case: list[str], seconds: float) -> Row:
        command = [str(self._python), "-m", "benchmarks.peer_load", *case]
        command += ["--urls", self._cluster.urls]
        return loaded([*command, "--pids", ",".join(map(str, self._cluster.pids()))], seconds)

    def stop(self) -> None:
        self._cluster.stop()


def measured(systems: list[Ours | Theirs], rounds: int, seconds: float) -> dict[str, list[Row]]:
    """Return the rows of each case, by its name; the order of the systems changes from round to
    round.
    """
    rows: dict[str, list[Row]] = {}
    for number in range(rounds):
        for system in systems if number % 2 == 0 else systems[::-1]:
            for name, case in system.cases:
                rows.setdefault(f"{system.name}: {name}", []).append(system.run(case, seconds))
                pause()
    return rows


def summary(case: str, rows: list[Row]) -> Row:
    """Return the medians of a case."""

    def figure(of: Callable[[Row], float], digits: int = 1) -> float:
        return round(median([of(row) for row in rows if row["n"]]), digits)

    return {
        "case": case,
        "failed": sum(row["failed"] for row in rows),
        "per_s": figure(rate, 0),
        "p50_ms": figure(lambda row: row["p50_ms"]),
        "p99_ms": figure(lambda row: row["p99_ms"]),
        "server_us": figure(lambda row: row["server_cpu_s"] / row["n"] * 1e6),
        "client_us": figure(lambda row: row["clients_cpu_s"] / row["n"] * 1e6),
    }


def rate(row: Row) -> float:
    """Return messages a second."""
    return float(row["n"] / row["elapsed_s"]) if row["elapsed_s"] else 0.0


def ratio(rows: dict[str, list[Row]]) -> float | None:
    """Return the median of our best over the peer's best in each round; None if there is no
    peer.
    """
    equal = {case: found for case, found in rows.items() if MANY not in case}
    ours = [found for case, found in equal.items() if case.startswith(PacketboatCluster.name)]
    theirs = [found for case, found in equal.items() if not case.startswith(PacketboatCluster.name)]
    if not ours or not theirs:
        return None
    best = [(max(map(rate, us)), max(map(rate, them))) for us, them in paired(ours, theirs)]
    return median([us / them for us, them in best if them])


def paired(ours: list[list[Row]], theirs: list[list[Row]]) -> Iterator[tuple[Any, Any]]:
    """Yield all rows of a round together."""
    return zip(zip(*ours, strict=True), zip(*theirs, strict=True), strict=True)


def main() -> int:
    """Measure. Exit status 1 if ours is slower."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--only-ours", action="store_true")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="packetboat-sdk-publish-"))
    systems: list[Ours | Theirs] = []
    try:
        for system in [Ours(directory)] + ([] if options.only_ours else [Theirs(directory)]):
            try:
                system.start()
            except (NotReady, subprocess.TimeoutExpired) as reason:
                print(f"SKIPPED {system.name}: {reason}", file=sys.stderr, flush=True)
                system.stop()
            else:
                systems.append(system)
        rows = measured(systems, options.rounds, options.seconds)
    finally:
        for system in systems:
            system.stop()
        shutil.rmtree(directory, ignore_errors=True)
    for case, found in rows.items():
        print(json.dumps(summary(case, found)), flush=True)
    times = ratio(rows)
    if times is not None:
        print(json.dumps({"ours over the peer's": round(times, 2)}), flush=True)
    return 1 if times is not None and times < 1 else 0


if __name__ == "__main__":
    sys.exit(main())
