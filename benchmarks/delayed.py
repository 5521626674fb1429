"""Delayed messages at a steady rate: `python -m benchmarks.delayed [--pending 1000 1000000]`.

For each count of messages that are pending for a long time yet, a fresh `packetboat up` is given
`--rate` messages a second that come due one by one during `--seconds`, and readers that follow the
watch. Prints from due to read (by the group's log time), and the CPU that a message costs over
everything that happens to it: staged, projected, released, read. The ratio of the last count to the
first says whether pending messages cost anything.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from auth.development import DEV_TENANT_ID
from benchmarks.packetboat_cluster import PacketboatCluster
from harness.measure import percentile
from metadata.database import Database
from metadata.delivery.due import DueRepository
from metadata.postgres.embedded import EmbeddedPostgres
from metadata.settings import DatabaseSettings
from metadata.topics.topics import TopicRepository
from metadata.types import Partition
from peering.shared_secret import SharedSecret
from store_nodes.client import QueueOffsets, StageExtras, StoreClient
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message, decode, encode

PARTITIONS = 4
TOPIC = "delayed"
DAY_US = 86_400_000_000
TICK_S = 0.01
AHEAD_US = (1_500_000, 3_500_000)
"""A message comes due this long after it is staged."""
BODY = bytes(1024)
FETCH_BYTES = 4 * 1024 * 1024
PATIENCE_S = 30.0
RELEASES = "packetboat_scheduler_releases_total "


class Result(NamedTuple):
    pending: int
    released: int
    releases: float
    """Commands by which the messages were released."""
    late_ms: list[float]
    cpu_us: dict[str, float]
    """CPU time per message, by part of the installation."""


class Reader:
    """A reader of one partition, which follows its growth."""

    def __init__(self, client: StoreClient, topic_uid: bytes, partition: Partition) -> None:
        self._client = client
        self.group = partition.group
        self.queue = QueueId(topic_uid, partition.number)
        self.late_ms: list[float] = []
        self._end = 0
        self._grew = asyncio.Event()
        self._read = asyncio.Event()
        self._watch = client.watch(self.group, self._told)
        self._watch.add(self.queue)

    def _told(self, states: Sequence[QueueOffsets]) -> None:
        self._end = max(self._end, *(state.end for state in states))
        self._grew.set()

    async def run(self) -> None:
        offset = 0
        clock = self._client.clock(self.group)
        while True:
            self._grew.clear()
            while offset < self._end:
                fetched = await self._client.fetch(
                    self.group, self.queue, offset, FETCH_BYTES, min_end=self._end
                )
                now_us = clock.now_us()
                for entry in fetched.entries:
                    messages = decode(entry.batch)
                    indices = entry.indices or range(len(messages))
                    late = [now_us - messages[index].deliver_at_us for index in indices]
                    self.late_ms += [each / 1000 for each in late[offset - entry.base_offset :]]
                    offset = entry.base_offset + len(indices)
            self._read.set()
            await self._grew.wait()

    async def until(self, count: int) -> None:
        """Returns when that many were read."""
        while len(self.late_ms) < count:
            self._read.clear()
            await self._read.wait()


async def until_projected(due: DueRepository, count: int) -> None:
    """Wait until the due index knows `count` messages."""
    projected = 0
    while projected < count:
        await asyncio.sleep(0.5)
        projected = sum(each.projected_to for each in (await due.progress()).values())


async def stage_pending(client: StoreClient, readers: list[Reader], count: int) -> None:
    """Stage batches of up to 1,000 messages, due in a day or later."""
    appenders = [client.appender(reader.group, reader.queue) for reader in readers]

    async def fill(which: int) -> None:
        left = count // len(readers)
        while left > 0:
            size = min(1000, left)
            now_us = client.clock(readers[which].group).now_us()
            due = tuple(now_us + DAY_US + n * 1000 for n in range(size))
            batch = encode([Message(b"pending")] * size, now_us)
            await appenders[which].append(batch, size, StageExtras(due), timeout_s=60)
            left -= size

    await asyncio.gather(*(fill(which) for which in range(len(readers))))


async def stage_load(
    client: StoreClient, readers: list[Reader], rate: int, seconds: float
) -> tuple[list[int], float]:
    """Stage messages; return their numbers by reader, and the loop's time at which the last is
    due.
    """
    rng = random.Random(1)
    appenders = [client.appender(reader.group, reader.queue) for reader in readers]
    tasks: set[asyncio.Task[object]] = set()
    staged = [0] * len(readers)
    began_s = time.monotonic()
    while (passed_s := time.monotonic() - began_s) < seconds:
        while sum(staged) < passed_s * rate:
            which = rng.randrange(len(readers))
            now_us = client.clock(readers[which].group).now_us()
            count = max(1, int(rate * TICK_S))
            due = tuple(now_us + rng.randrange(*AHEAD_US) for _ in range(count))
            batch = encode([Message(BODY, deliver_at_us=each) for each in due], now_us)
            tasks.add(
                asyncio.ensure_future(appenders[which].append(batch, count, StageExtras(due)))
            )
            staged[which] += count
        await asyncio.sleep(TICK_S)
    await asyncio.gather(*tasks)
    return staged, asyncio.get_running_loop().time() + AHEAD_US[1] / 1e6


async def measure(cluster: PacketboatCluster, pending: int, rate: int, seconds: float) -> Result:
    data = cluster.directory / "data"
    state = json.loads((data / "state.json").read_text())
    postgres = EmbeddedPostgres(data / "postgres", port=state["ports"]["postgres"])
    database = Database(DatabaseSettings(postgres.url))
    await database.connect()
    client = StoreClient(
        {node: ("127.0.0.1", port) for node, port in enumerate(state["ports"]["store"], 1)},
        groups=range(8),
        secret=SharedSecret.from_text(state["store_secret"]),
    )
    await client.start()
    await client.wait_ready()
    topic = await TopicRepository(database).get(DEV_TENANT_ID, TOPIC)
    readers = [Reader(client, topic.uid, partition) for partition in topic.partitions]
    tasks = [asyncio.ensure_future(reader.run()) for reader in readers]
    try:
        began_s = time.monotonic()
        await stage_pending(client, readers, pending)
        await until_projected(DueRepository(database), pending // PARTITIONS * PARTITIONS)
        say(f"{pending:,} pending after {time.monotonic() - began_s:.1f} s")
        await asyncio.sleep(2.0)
        before = cluster.cpu_by_part()
        releases = -await asyncio.to_thread(cluster.metric, RELEASES)
        staged, last_due_s = await stage_load(client, readers, rate, seconds)
        async with asyncio.timeout_at(last_due_s + PATIENCE_S):
            for reader, count in zip(readers, staged, strict=True):
                await reader.until(count)
        after = cluster.cpu_by_part()
        releases += await asyncio.to_thread(cluster.metric, RELEASES)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await client.close()
        await database.close()
    late_ms = [each for reader in readers for each in reader.late_ms]
    count = len(late_ms)
    cpu_us = {part: (after[part] - before.get(part, 0.0)) / count * 1e6 for part in after}
    return Result(pending, count, releases, late_ms, cpu_us)


def say(text: str) -> None:
    print(text, flush=True)


def show(result: Result) -> None:
    late = result.late_ms
    parts = ", ".join(f"{part} {spent:.0f}" for part, spent in sorted(result.cpu_us.items()))
    say(
        f"{result.pending:,} pending, {result.released:,} released by {result.releases:,.0f}"
        f" commands: due → read"
        f" p50 {percentile(late, 50):.1f} ms, p99 {percentile(late, 99):.1f} ms,"
        f" max {max(late):.1f} ms, min {min(late):.1f} ms;"
        f" CPU {sum(result.cpu_us.values()):.0f} µs a message ({parts})"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pending", type=int, nargs="+", default=[1000, 1_000_000])
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    results = []
    for pending in options.pending:
        with tempfile.TemporaryDirectory(prefix="packetboat-delayed-") as directory:
            Path(directory).chmod(0o711)
            cluster = PacketboatCluster(Path(directory) / "cluster")
            try:
                cluster.start()
                cluster.create("/topics", {"name": TOPIC, "partitions": PARTITIONS})
                result = asyncio.run(measure(cluster, pending, options.rate, options.seconds))
            finally:
                cluster.stop()
        show(result)
        results.append(result)
    first, last = results[0], results[-1]
    if first is not last:
        ratio = sum(last.cpu_us.values()) / sum(first.cpu_us.values())
        say(f"CPU a message, {last.pending:,} ÷ {first.pending:,} pending: {ratio:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
