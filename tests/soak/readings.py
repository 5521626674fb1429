"""The figures of an installation that are read again and again: its processes, Postgres, disks.

A node's elections are read from its log, so that none between two readings is missed.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import NamedTuple

import asyncpg

from harness.cluster import NODES, ChaosCluster
from harness.measure import tree
from tests.soak.levels import Sample

MIB = 1024 * 1024
_DATABASE = """
SELECT pg_database_size(current_database()) AS bytes,
    (SELECT coalesce(sum(n_dead_tup), 0) FROM pg_stat_user_tables) AS dead
"""
_TABLES = """
SELECT relname AS name, pg_total_relation_size(relid) AS bytes, n_dead_tup AS dead
FROM pg_stat_user_tables ORDER BY bytes DESC LIMIT 5
"""
_LEADER = b'"event": "leader"'


class Figure(NamedTuple):
    """A kind of figure: its unit, and the growth in an hour that is always allowed."""

    unit: str
    floor: float


FIGURES = {
    "memory": Figure("MiB", 8.0),
    "descriptors": Figure("", 10.0),
    "threads": Figure("", 3.0),
    "size": Figure("MiB", 24.0),
    "dead rows": Figure("", 20_000.0),
    "disk": Figure("MiB", 256.0),
}


class Readings:
    """All samples of a run, by the name of the process and of the figure."""

    def __init__(self, cluster: ChaosCluster) -> None:
        self._cluster = cluster
        self.samples: dict[tuple[str, str], list[Sample]] = {}
        self._lives: dict[str, tuple[int, int, float]] = {}
        """Process → the id, the number of its life, and when that began."""
        self._read_bytes = dict.fromkeys(NODES, 0)

    async def read(self, now_s: float) -> None:
        """Take one sample of everything; a process that is down has none."""
        for name, pid in self._pids().items():
            with contextlib.suppress(OSError):
                figures = _process(tree([pid]) if name == "postgres" else {pid})
                life, age_s = self._life(name, pid, now_s)
                for figure, value in figures.items():
                    self._add(name, figure, Sample(now_s, life, age_s, value))
        disk = sum(_directory_bytes(path) for path in self._cluster.node_dirs.values())
        self._add("nodes", "disk", Sample(now_s, 0, now_s, disk / MIB))
        with contextlib.suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            (row,) = await self._rows(_DATABASE)
            self._add("postgres", "size", Sample(now_s, 0, now_s, row["bytes"] / MIB))
            self._add("postgres", "dead rows", Sample(now_s, 0, now_s, float(row["dead"])))

    async def tables(self) -> list[str]:
        """Return a line for each of the largest tables of Postgres."""
        return [
            f"{row['name']}: {row['bytes'] / MIB:.1f} MiB, {row['dead']} dead rows"
            for row in await self._rows(_TABLES)
        ]

    def new_leaders(self) -> int:
        """Return the number of times that a node saw another leader since the last call."""
        count = 0
        for node in NODES:
            log = self._cluster.root / f"node-{node}.log"
            with contextlib.suppress(FileNotFoundError), log.open("rb") as file:
                file.seek(self._read_bytes[node])
                text = file.read()
                whole = text[: text.rfind(b"\n") + 1]
                self._read_bytes[node] += len(whole)
                count += whole.count(_LEADER)
        return count

    def _pids(self) -> dict[str, int]:
        found = {f"node-{node}": pid for node, pid in self._cluster.node_pids().items()}
        found["server"] = self._cluster.server_pid
        if self._cluster.postgres.pid is not None:
            found["postgres"] = self._cluster.postgres.pid
        return found

    def _life(self, name: str, pid: int, now_s: float) -> tuple[int, float]:
        known = self._lives.get(name)
        if known is None or known[0] != pid:
            known = self._lives[name] = (pid, known[1] + 1 if known else 0, now_s)
        return known[1], now_s - known[2]

    def _add(self, name: str, figure: str, sample: Sample) -> None:
        self.samples.setdefault((name, figure), []).append(sample)

    async def _rows(self, query: str) -> list[asyncpg.Record]:
        url = self._cluster.environment()["PACKETBOAT_DATABASE_URL"]
        connection = await asyncpg.connect(url, timeout=5)
        try:
            rows: list[asyncpg.Record] = await connection.fetch(query, timeout=5)
            return rows
        finally:
            await connection.close(timeout=5)


def _process(pids: set[int]) -> dict[str, float]:
    """Return the figures of processes together: shared memory counts in parts."""
    memory = descriptors = threads = 0
    for pid in pids:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        found = re.search(r"^Pss:\s+(\d+) kB", rollup, re.MULTILINE)
        memory += int(found[1]) if found else 0
        descriptors += len(os.listdir(f"/proc/{pid}/fd"))
        threads += len(os.listdir(f"/proc/{pid}/task"))
    return {
        "memory": memory / 1024,
        "descriptors": float(descriptors),
        "threads": float(threads),
    }


def _directory_bytes(directory: Path) -> int:
    """Return the space that the files of a directory take on disk."""
    total = 0
    for path, _, names in os.walk(directory):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += os.stat(os.path.join(path, name)).st_blocks * 512
    return total
