"""`python -m benchmarks.store_log` (make bench-log): the replicated log alone, three nodes.

    append    batches of 16 messages of 1 KB, 1, 32 and 256 outstanding
    fetch     everything of one queue, in pages of 1 MiB
    catch-up  a node that was stopped while the others took appends
    recovery  `kill -9` of all nodes, until every group has a leader that has applied all

The limit beside us is the disk: one process that writes the same batch and syncs it, again and
again. Every figure is a JSON line in benchmarks/history, with the commit.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks.store_cluster import NODES, StoreCluster, statuses
from harness.measure import CpuMeter, median, percentile
from store_nodes import record_batch
from store_nodes.client import Appender, StoreClient
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message

MESSAGES = 16
MESSAGE_BYTES = 1024
OUTSTANDING = (1, 32, 256)
PAGE_BYTES = 1024 * 1024
MIB = 1024 * 1024
SYNCS = 400

console = Console(width=140, highlight=False, soft_wrap=True)
Row = dict[str, Any]


def a_batch() -> bytes:
    messages = [Message(os.urandom(MESSAGE_BYTES)) for _ in range(MESSAGES)]
    return record_batch.encode(messages, time.time_ns() // 1000)


class Log:
    """A running cluster, a client, and one queue with its appender per group."""

    def __init__(self, cluster: StoreCluster, client: StoreClient) -> None:
        self.cluster = cluster
        self.client = client
        self.queues = [QueueId(os.urandom(16), group) for group in range(cluster.groups)]
        self.appenders: list[Appender] = []
        self.batch = a_batch()

    async def create(self) -> None:
        for group, queue in enumerate(self.queues):
            await self.client.create(group, queue)
            self.appenders.append(self.client.appender(group, queue))

    async def append(self, outstanding: int, seconds: float) -> Row:
        """Append with a fixed number of batches outstanding, spread over the groups."""
        flushes = await self._flushes()
        latencies: list[float] = []
        meter = CpuMeter(self.cluster.pids())
        began = time.monotonic()
        end = began + seconds

        async def one(number: int) -> None:
            appender = self.appenders[number % len(self.appenders)]
            while (sent := time.monotonic()) < end:
                await appender.append(self.batch, MESSAGES)
                latencies.append(time.monotonic() - sent)

        await asyncio.gather(*(one(number) for number in range(outstanding)))
        elapsed = time.monotonic() - began
        cpu_s, _ = meter.stop()
        done = len(latencies)
        return {
            "case": f"append, {outstanding} outstanding",
            "batches_per_s": done / elapsed,
            "mib_per_s": done * len(self.batch) / elapsed / MIB,
            "p50_ms": percentile(latencies, 50) * 1000,
            "p99_ms": percentile(latencies, 99) * 1000,
            "server_us": cpu_s / done * 1e6,
            "fdatasyncs_per_batch": (await self._flushes() - flushes) / done,
        }

    async def fill(self, total_bytes: int) -> None:
        """Append that much, over all groups."""
        left = total_bytes // len(self.batch)

        async def one(appender: Appender) -> None:
            nonlocal left
            while left > 0:
                left -= 1
                await appender.append(self.batch, MESSAGES, timeout_s=30)

        await asyncio.gather(*(one(appender) for appender in self.appenders for _ in range(4)))

    async def fetch(self) -> Row:
        """Read the first queue from its start."""
        end = (await self.client.offsets(0, self.queues[0])).end
        meter = CpuMeter(self.cluster.pids())
        began = time.monotonic()
        offset = fetched_bytes = 0
        while offset < end:
            found = await self.client.fetch(0, self.queues[0], offset, PAGE_BYTES)
            fetched_bytes += sum(len(entry.batch) for entry in found.entries)
            last = found.entries[-1]
            offset = last.base_offset + record_batch.peek(last.batch)[0]
        elapsed = time.monotonic() - began
        cpu_s, _ = meter.stop()
        return {
            "case": "fetch",
            "mib_per_s": fetched_bytes / elapsed / MIB,
            "server_us": cpu_s / max(1, fetched_bytes // len(self.batch)) * 1e6,
        }

    async def catch_up(self, total_bytes: int) -> Row:
        """A stopped node learns what it missed."""
        node = NODES[-1]
        self.cluster.stop_node(node, signal.SIGTERM)
        await self.client.wait_ready()
        await self.fill(total_bytes)
        self.cluster.start_node(node)
        seconds = await self.cluster.until_applied(self.client, node)
        return {"case": "catch-up", "mib_per_s": total_bytes / seconds / MIB, "seconds": seconds}

    async def recover(self) -> Row:
        """Restart all nodes at once; the time counts from their start."""
        before = await statuses(self.client)
        log_bytes = min(status["log"]["bytes"] for status in before.values())
        for node in NODES:
            self.cluster.stop_node(node, signal.SIGKILL)
        began = time.monotonic()
        for node in NODES:
            self.cluster.start_node(node)
        await asyncio.sleep(0.5)  # until the client has noticed
        await self.client.wait_ready(120)
        for group, queue in enumerate(self.queues):
            await self.client.offsets(group, queue)
        seconds = time.monotonic() - began
        return {
            "case": "recovery",
            "seconds": seconds,
            "log_mib": log_bytes / MIB,
            "s_per_gib": seconds / (log_bytes / 1024 / MIB),
        }

    async def _flushes(self) -> float:
        """Return the flushes of one node, on average."""
        found = await statuses(self.client)
        return sum(float(status["log"]["flushes"]) for status in found.values()) / len(found)


def disk_limit(directory: Path, batch: bytes) -> Row:
    """Measure the same disk with one process, and one batch per sync."""
    path = directory / "limit"
    with path.open("wb", buffering=0) as file:
        os.posix_fallocate(file.fileno(), 0, SYNCS * len(batch))
        os.fsync(file.fileno())
        taken: list[float] = []
        for _ in range(SYNCS):
            began = time.monotonic()
            file.write(batch)
            os.fdatasync(file.fileno())
            taken.append(time.monotonic() - began)
    path.unlink()
    return {
        "case": "disk alone: write + fdatasync",
        "batches_per_s": SYNCS / sum(taken),
        "mib_per_s": SYNCS * len(batch) / sum(taken) / MIB,
        "p50_ms": percentile(taken, 50) * 1000,
        "p99_ms": percentile(taken, 99) * 1000,
    }


@asynccontextmanager
async def running(directory: Path) -> AsyncIterator[Log]:
    with StoreCluster(directory) as cluster:
        client = cluster.client()
        await client.start()
        try:
            await client.wait_ready(60)
            log = Log(cluster, client)
            await log.create()
            yield log
        finally:
            await client.close()


async def round_of(directory: Path, options: argparse.Namespace) -> list[Row]:
    rows = [disk_limit(directory, a_batch())]
    async with running(directory / "store") as log:
        for outstanding in OUTSTANDING:
            rows.append(await log.append(outstanding, options.seconds))
        await log.fill(options.mib * MIB)
        rows.append(await log.fetch())
        rows.append(await log.catch_up(options.mib * MIB))
        rows.append(await log.recover())
    return rows


def summary(rounds: list[list[Row]]) -> list[Row]:
    """Return the median of each figure, by case."""
    merged: list[Row] = []
    for same in zip(*rounds, strict=True):
        figures = {name for row in same for name in row} - {"case"}
        medians = {name: median([row[name] for row in same if name in row]) for name in figures}
        merged.append({"case": same[0]["case"], **medians})
    return merged


def _figure(value: float) -> str:
    return f"{value:,.{0 if value >= 100 else 3}f}"


def show(rows: list[Row]) -> None:
    columns = {
        "batches_per_s": "batches/s",
        "mib_per_s": "MiB/s",
        "p50_ms": "p50 ms",
        "p99_ms": "p99 ms",
        "server_us": "server µs/batch",
        "fdatasyncs_per_batch": "fdatasync/batch/node",
        "seconds": "s",
        "log_mib": "log MiB",
        "s_per_gib": "s/GiB",
    }
    table = Table("", *columns.values())
    for row in rows:
        cells = [_figure(row[name]) if name in row else "–" for name in columns]
        table.add_row(row["case"], *cells)
    console.print(table)
    by_case = {row["case"]: row for row in rows}
    alone = rows[0]["batches_per_s"]
    for outstanding in OUTSTANDING:
        rate = by_case[f"append, {outstanding} outstanding"]["batches_per_s"]
        console.print(f"{outstanding} outstanding ÷ the disk alone: {rate / alone:.2f}")


def commit() -> str:
    found = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return found.stdout.strip() or "unknown"


def keep(rows: list[Row], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    about = {"commit": commit(), "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    with path.open("a") as file:
        for row in rows:
            file.write(json.dumps(about | row) + "\n")
    console.print(f"kept in {path}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.store_log", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each append case")
    parser.add_argument("--mib", type=int, default=256, help="fetched, and caught up with")
    parser.add_argument("--results", type=Path, default=Path("benchmarks/history/store_log.jsonl"))
    options = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="packetboat-log-", dir=os.environ.get("BENCH_DIR")))
    try:
        rounds: list[list[Row]] = []
        for number in range(options.rounds):
            directory = root / str(number)
            directory.mkdir()
            rounds.append(uvloop.run(round_of(directory, options)))
            shutil.rmtree(directory)
        rows = summary(rounds)
        show(rows)
        keep(rows, options.results)
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
