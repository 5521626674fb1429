"""`python -m tests.soak` (make soak): hours of mixed load, while every process is killed in turn.

An installation of three store nodes, a server and Postgres takes single messages, batches, delayed
messages, pushes, streams and dead letters. One process at a time is killed with SIGKILL and comes
back some seconds later. The run fails when

- a message that a publisher was told is stored does not arrive, or a refused one does;
- memory, descriptors, threads, Postgres or the nodes' disks still grow over the second half;
- a group elects another leader while no store node was killed.

`--minutes` (SOAK_MINUTES) is how long. Growth is judged from half an hour on; a shorter run only
shows that everything works. `--out` gets every sample as a line of JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import structlog
import uvloop
from packetboat import AsyncClient

from harness.cluster import NODES, ChaosCluster
from tests.soak.levels import Level, judge
from tests.soak.load import Load
from tests.soak.readings import FIGURES, Readings

MINUTES = 120.0
KILLS = 24
"""The number of kills that a run aims at; they are at least this far apart, and at most so far."""
LEAST_BETWEEN_S, MOST_BETWEEN_S = 45.0, 300.0
DOWN_S = (0.5, 3.0)
ELECTION_S = 30.0
"""Seconds after a node has come back in which leaders may still change: they move back to it."""
SAMPLES = 720
LEAST_EVERY_S = 5.0
SETTLE_S = 300.0
"""The first seconds of a process's life, which do not count for its levels."""
FINISH_S = 180.0
SERVER, POSTGRES = "server", "postgres"


class Elections(NamedTuple):
    """Leaders that changed without a fault: when, and how many nodes saw it."""

    at_s: float
    seen: int


class Soak:
    """One run."""

    def __init__(self, cluster: ChaosCluster, load: Load, seconds: float, seed: int) -> None:
        self.faults: Counter[str] = Counter()
        self.elections: list[Elections] = []
        self.leaders = 0
        """The number of times that a node saw another leader."""
        self.calm_s = 0.0
        """The time in which no leader may change."""
        self.readings = Readings(cluster)
        self._cluster = cluster
        self._load = load
        self._seconds = seconds
        self._dice = random.Random(seed)
        self._began_s = time.monotonic()
        self._excused_until_s = ELECTION_S

    async def run(self) -> None:
        """Run until the time is over, and everything has arrived."""
        await self._load.start()
        self._began_s = time.monotonic()
        watching = asyncio.create_task(self._watch())
        try:
            await self._kill_in_turn(watching)
            await self._load.finish(FINISH_S)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    def levels(self) -> list[Level]:
        """Judge every figure."""
        settle_s = min(SETTLE_S, self._seconds / 20)
        return [
            judge(
                f"{process}: {figure}",
                samples,
                self._seconds / 2,
                settle_s,
                FIGURES[figure].floor,
            )
            for (process, figure), samples in sorted(self.readings.samples.items())
        ]

    @property
    def now_s(self) -> float:
        """Return the seconds since the load has begun."""
        return time.monotonic() - self._began_s

    async def _kill_in_turn(self, watching: asyncio.Task[None]) -> None:
        between_s = min(MOST_BETWEEN_S, max(LEAST_BETWEEN_S, self._seconds / KILLS))
        victims: list[str] = []
        while not watching.done():
            pause_s = between_s * self._dice.uniform(0.8, 1.2)
            left_s = self._seconds - self.now_s
            await asyncio.sleep(min(pause_s, max(0.0, left_s)))
            if pause_s >= left_s:
                return
            if not victims:
                victims = [SERVER, POSTGRES, *(f"node-{node}" for node in NODES)]
                self._dice.shuffle(victims)
            await self._kill(victims.pop())
        await watching  # It has failed.

    async def _kill(self, victim: str) -> None:
        cluster, down_s = self._cluster, self._dice.uniform(*DOWN_S)
        self.faults[victim] += 1
        print(f"{self.now_s:7.0f} s  kill {victim}", flush=True)
        if victim == SERVER:
            cluster.kill_server()
            await asyncio.sleep(down_s)
            cluster.start_server()
        elif victim == POSTGRES:
            cluster.kill_postgres()
            await asyncio.sleep(down_s)
            await cluster.start_postgres()
        else:
            node = int(victim.removeprefix("node-"))
            self._excused_until_s = float("inf")
            cluster.kill_node(node)
            await asyncio.sleep(down_s)
            cluster.start_node(node)
            await cluster.until_up(node, timeout_s=60)
            self._excused_until_s = self.now_s + ELECTION_S
        await cluster.until_ready()

    async def _watch(self) -> None:
        every_s = max(LEAST_EVERY_S, self._seconds / SAMPLES)
        last_s = 0.0
        self.readings.new_leaders()
        while True:
            await asyncio.sleep(every_s)
            now_s = self.now_s
            seen = self.readings.new_leaders()
            self.leaders += seen
            if self._excused_until_s < last_s:
                self.calm_s += now_s - last_s
                if seen:
                    self.elections.append(Elections(now_s, seen))
                    print(f"{now_s:7.0f} s  a leader changed without a fault", flush=True)
            last_s = now_s
            await self.readings.read(now_s)


def report(soak: Soak, load: Load, tables: Sequence[str]) -> list[str]:
    """Print what was found; return what was missed."""
    missed: list[str] = []
    for actor in load.actors:
        book = actor.book
        print(
            f"{book.name}: {book.accepted:,} accepted, {book.arrived:,} arrived,"
            f" {len(book.missing)} lost; {book.again:,} deliveries of messages that had arrived,"
            f" {book.unknown} publishes with an unknown end; errors: {actor.errors or 'none'}"
        )
        if book.missing:
            missed.append(f"{book.name}: lost {book.missing[:5]} of {len(book.missing)}")
        missed += book.broken
    print(f"kills: {dict(soak.faults)}")
    print(
        f"nodes saw another leader {soak.leaders} times; in the {soak.calm_s:,.0f} s without a"
        f" fault: {sum(seen for _, seen in soak.elections)}"
    )
    missed += [f"a leader changed at {at_s:.0f} s ({seen})" for at_s, seen in soak.elections]
    print(f"{'figure':28} {'level':>10} {'per hour':>10} {'over lives':>10} {'limit':>8}")
    for level in soak.levels():
        verdict = "levels off" if level.holds else "GROWS"
        print(
            f"{level.name:28} {level.level:10,.1f} {level.within_lives:+10.2f}"
            f" {level.over_lives:+10.2f} {level.limit:8,.1f}"
            f"  {verdict if level.judged else 'too short to judge'}"
        )
        if not level.holds:
            missed.append(f"{level.name} grows")
    print("largest tables: " + "; ".join(tables))
    return missed


def write_samples(path: Path, soak: Soak) -> None:
    """Write every sample as a line of JSON."""
    with path.open("w") as file:
        for (process, figure), samples in soak.readings.samples.items():
            for sample in samples:
                line = {"process": process, "figure": figure} | sample._asdict()
                file.write(json.dumps(line) + "\n")


async def soaked(options: argparse.Namespace, root: Path) -> list[str]:
    """Run one soak; return what was missed."""
    async with ChaosCluster(root) as cluster:
        url = f"http://127.0.0.1:{cluster.http_port}"
        client = AsyncClient(url, cluster.token, retry_for_s=60)
        load = Load(client, options.scale)
        soak = Soak(cluster, load, options.minutes * 60, options.seed)
        try:
            await soak.run()
            missed = report(soak, load, await soak.readings.tables())
        finally:
            await client.close(timeout_s=5)
        if options.out:
            write_samples(Path(options.out), soak)
        return missed


def main() -> int:
    """Exit status 1 when something was missed."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    default = float(os.environ.get("SOAK_MINUTES") or MINUTES)
    parser.add_argument("--minutes", type=float, default=default)
    parser.add_argument("--scale", type=float, default=1.0, help="of the rates of publishing")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", help="a file for the samples")
    parser.add_argument("--keep", action="store_true", help="do not remove the data")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    root = Path(tempfile.mkdtemp(prefix="packetboat-soak-"))
    root.chmod(0o711)  # Postgres runs as a lesser account when we are root.
    print(f"{options.minutes:g} minutes, seed {options.seed}, in {root}", flush=True)
    try:
        missed = uvloop.run(soaked(options, root))
    finally:
        if not options.keep:
            shutil.rmtree(root, ignore_errors=True)
    print("missed: " + ("; ".join(missed) or "nothing"))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
