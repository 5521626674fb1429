"""The cost of a large backlog of a subscription: `python -m benchmarks.backlog [--messages
5000000]`.

Three cases on a fresh `packetboat up`, each with a ratio or a promise as its bound:

    deep       a backlog of `--messages`: memory of the server and CPU of a pull, near its start and
               after much of it, against a backlog of a fiftieth
    unacked    one message is held while `--passing` others pass: time of a flush, ranges of the
               cursor and bytes on the store's disks, at the end against the start
    priority   a message of priority 9 behind `--behind` of priority 0: how soon it arrives; and
               what share of the deliveries priority 0 gets while priority 9 never runs dry
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import tempfile
import time
import urllib.request
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.packetboat_cluster import PacketboatCluster
from harness.http_client import Connection, connect, request
from harness.measure import cpu_by_pid, median

BATCH = 1000
SENDERS = 4
BODY = "x" * 100
PULL = 1000
SETTLE_S = 90.0
"""Seconds to wait: a hole is passed over when it is a minute old, and then later data is
truncated.
"""
ENOUGH = 60_000
"""Messages of priority 9 from which shares are computed; there are 100,000."""


class Sample(NamedTuple):
    """Figures of the server over some pulls."""

    rss_mib: float
    cpu_us: float
    """CPU time per message that is pulled and acked."""
    pull_ms: float
    """Median time of one pull of 1,000."""


class Bench:
    """The connections to one installation."""

    def __init__(self, cluster: PacketboatCluster) -> None:
        self.cluster = cluster
        host, port = cluster.url.removeprefix("http://").split(":")
        self._address = host, int(port)

    async def connection(self) -> Connection:
        return await connect(*self._address)

    async def call(
        self, connection: Connection, method: str, path: str, body: object = None
    ) -> dict[str, Any]:
        data = b"" if body is None else json.dumps(body).encode()
        answer = await connection.send(request(method, path, self.cluster.token, data))
        assert answer.status in (200, 201, 204), (method, path, answer)
        decoded: dict[str, Any] = json.loads(answer.body or b"{}")
        return decoded

    async def publish(self, topic: str, count: int, priority: int = 0) -> None:
        """Publish in batches of 1,000, over a few connections."""
        batch = {"messages": [{"data": BODY, "priority": priority}] * BATCH}
        whole = request(
            "POST",
            f"/topics/{topic}/messages:batch",
            self.cluster.token,
            json.dumps(batch).encode(),
        )
        left = itertools.count(0, BATCH)

        async def send() -> None:
            connection = await self.connection()
            while next(left) < count:
                while (answer := await connection.send(whole)).status != 200:
                    assert answer.status in (429, 503), answer
                    await asyncio.sleep(0.1)
            connection.close()

        await asyncio.gather(*(send() for _ in range(SENDERS)))

    async def make(self, name: str, **topic: Any) -> None:
        connection = await self.connection()
        await self.call(connection, "POST", "/topics", {"name": name, "partitions": 2} | topic)
        spec = {"name": name, "start": "earliest", "ack_deadline_seconds": 600}
        await self.call(connection, "POST", f"/topics/{name}/subscriptions", spec)
        connection.close()

    def server(self) -> int:
        """Return the server's process id."""
        for pid in cpu_by_pid(self.cluster.pids()):
            if b"serve" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                return pid
        raise RuntimeError("no server")

    async def consume(self, name: str, pulls: int, connection: Connection) -> Sample:
        """Pull and ack `pulls` times a thousand messages."""
        server = self.server()
        before = cpu_by_pid([server])[server]
        took_ms, taken = [], 0
        for _ in range(pulls):
            began_s = time.perf_counter()
            messages = await self.pull(name, connection)
            took_ms.append((time.perf_counter() - began_s) * 1000)
            taken += len(messages)
            await self.ack(name, connection, messages)
        spent = cpu_by_pid([server])[server] - before
        return Sample(_rss_mib(server), spent / max(1, taken) * 1e6, median(took_ms))

    async def pull(self, name: str, connection: Connection, count: int = PULL) -> list[Any]:
        path = f"/subscriptions/{name}/messages?max_messages={count}&wait_seconds=5"
        messages: list[Any] = (await self.call(connection, "GET", path))["messages"]
        return messages

    async def ack(self, name: str, connection: Connection, messages: list[Any]) -> None:
        if messages:
            ids = {"ack_ids": [message["ack_id"] for message in messages]}
            await self.call(connection, "POST", f"/subscriptions/{name}/ack", ids)


def _rss_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def deep(bench: Bench, options: argparse.Namespace) -> None:
    """Make the same pulls of a small backlog, and near the start, the middle and the end of a large
    one.
    """
    connection = await bench.connection()
    small = options.messages // 50
    await bench.make("small")
    await bench.publish("small", small)
    samples = {f"of {small:,}": await bench.consume("small", 20, connection)}
    await bench.make("large")
    await bench.publish("large", options.messages)
    samples[f"of {options.messages:,}, first"] = await bench.consume("large", 20, connection)
    await bench.consume("large", options.messages // 5 // PULL, connection)
    samples["after a fifth"] = await bench.consume("large", 20, connection)
    for what, sample in samples.items():
        print(
            f"  {what:24} server {sample.rss_mib:6.0f} MiB, {sample.cpu_us:5.1f} µs per message,"
            f" a pull {sample.pull_ms:5.1f} ms"
        )
    first, *_, last = samples.values()
    print(f"  CPU of a message, large over small: {last.cpu_us / first.cpu_us:.2f}")
    connection.close()


async def unacked(bench: Bench, options: argparse.Namespace) -> None:
    """One message stays out for the whole time."""
    connection = await bench.connection()
    await bench.make("unacked", partitions=1)
    await bench.publish("unacked", BATCH)
    await bench.pull("unacked", connection, 1)
    rounds, each = 10, options.passing // 10
    first: tuple[float, int, int] | None = None
    for number in range(rounds + 1):
        before = await _flushes(bench)
        await bench.publish("unacked", each)
        for _ in range(each // PULL):
            await bench.ack("unacked", connection, await bench.pull("unacked", connection))
        after = await _flushes(bench)
        flush_ms = (after[0] - before[0]) / max(1, after[1] - before[1]) * 1000
        row = await bench.call(connection, "GET", "/subscriptions/unacked/reconciliation")
        ranges = (await bench.call(connection, "GET", "/subscriptions/unacked/backlog"))[
            "partitions"
        ][0]["acked_ranges"]
        now = flush_ms, ranges, _disk_bytes(bench.cluster.directory)
        print(
            f"  {number * each:>9,} passed: a flush {flush_ms:.2f} ms, {ranges} ranges,"
            f" {now[2] / 2**20:.0f} MiB on disk, balanced {row['balanced']}"
        )
        if number == 2:
            first = now
    assert first is not None
    connection.close()
    await asyncio.sleep(SETTLE_S)
    connection = await bench.connection()
    row = await bench.call(connection, "GET", "/subscriptions/unacked/reconciliation")
    (books,) = row["partitions"]
    disk = _disk_bytes(bench.cluster.directory)
    print(
        f"  at the end over the third round: a flush {now[0] / first[0]:.2f}; {SETTLE_S:g} s later"
        f" {books['open_deliveries']} open delivery, the floor at {books['floor']:,},"
        f" {disk / 2**20:.0f} MiB on disk"
    )
    connection.close()


def _page(url: str) -> str:
    with urllib.request.urlopen(url) as answer:
        text: str = answer.read().decode()
    return text


async def _flushes(bench: Bench) -> tuple[float, float]:
    """Return the seconds spent in flushes, and their number."""
    text = await asyncio.to_thread(_page, bench.cluster.metrics_url)
    found = {}
    for line in text.splitlines():
        if line.startswith("packetboat_subscribe_flush_seconds_"):
            name, value = line.rsplit(" ", 1)
            found[name.split("{")[0]] = float(value)
    return (
        found["packetboat_subscribe_flush_seconds_sum"],
        found["packetboat_subscribe_flush_seconds_count"],
    )


def _disk_bytes(directory: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in directory.rglob("*.wal"))


async def priority(bench: Bench, options: argparse.Namespace) -> None:
    """Measure workers that are never idle, with priority 0 in abundance."""
    connection = await bench.connection()
    await bench.make("priority", priorities=10)
    await bench.publish("priority", options.behind)
    workers = [await bench.connection() for _ in range(2)]
    seen: dict[int, int] = {0: 0, 9: 0}
    arrived: asyncio.Queue[float] = asyncio.Queue()
    over, plenty = asyncio.Event(), asyncio.Event()

    async def work(mine: Connection) -> None:
        while not over.is_set():
            messages = await bench.pull("priority", mine, 100)
            for message in messages:
                seen[message["priority"]] += 1
                if message["priority"] == 9:
                    arrived.put_nowait(time.perf_counter())
            await bench.ack("priority", mine, messages)
            if seen[9] >= ENOUGH:
                plenty.set()

    tasks = [asyncio.create_task(work(each)) for each in workers]
    late_s = []
    for _ in range(20):
        await asyncio.sleep(0.1)
        began_s = time.perf_counter()
        await bench.call(
            connection,
            "POST",
            "/topics/priority/messages:batch",
            {"messages": [{"data": "urgent", "priority": 9}]},
        )
        late_s.append(await arrived.get() - began_s)
    print(
        f"  behind {options.behind:,}: priority 9 arrived after {median(late_s) * 1000:.0f} ms"
        f" in the median, {max(late_s) * 1000:.0f} ms at most (≤ 1000)"
    )
    await bench.publish("priority", 100_000, priority=9)
    seen.update({0: 0, 9: 0})
    await plenty.wait()
    share = seen[0] / (seen[0] + seen[9])
    print(f"  with priority 9 never dry, priority 0 gets {share:.1%} of the deliveries (≥ 5 %)")
    over.set()
    await asyncio.gather(*tasks)
    connection.close()


CASES: dict[str, Callable[[Bench, argparse.Namespace], Coroutine[Any, Any, None]]] = {
    "deep": deep,
    "unacked": unacked,
    "priority": priority,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(CASES))
    parser.add_argument("--messages", type=int, default=5_000_000, help="the deep backlog")
    parser.add_argument("--passing", type=int, default=1_000_000, help="past the one held")
    parser.add_argument("--behind", type=int, default=1_000_000, help="of priority 0")
    options = parser.parse_args()
    for name in options.only.split(","):
        with tempfile.TemporaryDirectory(prefix="packetboat-backlog-") as directory:
            Path(directory).chmod(0o755)
            cluster = PacketboatCluster(Path(directory) / "up")
            cluster.start()
            print(f"{name}: {(CASES[name].__doc__ or '').splitlines()[0]}", flush=True)
            try:
                asyncio.run(CASES[name](Bench(cluster), options))
            finally:
                cluster.stop()


if __name__ == "__main__":
    main()
