"""The cost of size: `python -m benchmarks.scale` (make bench-scale).

Along six axes, each with an installation of its own as `packetboat up` runs it:

    topics          with four partitions each, to 10,000; publishing goes to all of them
    partitions      of a hundred topics, to 25,600
    subscriptions   to 100,000, a tenth of them with a pull that has opened them
    connections     that wait in long-polls, to 10,000; every message wakes one
    backlog         messages that wait, to 1,000,000; pages are pulled from it
    bytes           of a message, to 1 MB

At each size it measures the CPU that creating one more costs, of an idle installation, and of a
message; p50 and p99 of publishing (with connections: until delivery); and memory. Prints a table
for each axis, and the first thing that bends (`scale_report`). The whole takes an hour or two;
`--short` two minutes, and is a smoke test; `--only topics` is one axis. `--out` writes the figures
as JSON lines, and `--draw FIGURES PLOT` makes the plot of docs/ from such a file.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec
import uvloop
from rich.console import Console

from benchmarks.body import age_s, stamped_text, text_body
from benchmarks.fleet_system import Call, resident_bytes, send_all
from benchmarks.http_load import Page
from benchmarks.packetboat_cluster import PacketboatCluster, run_load
from benchmarks.scale_report import Point, drawn, print_report
from harness.cluster import HOST
from harness.http_client import Connection, connect, request
from harness.measure import CpuMeter, percentile, tree
from harness.processes import NotReady

console = Console(width=130, highlight=False, soft_wrap=True)
TOPICS = 100
"""Topics of the axes that do not count topics."""
PUBLISH_PER_S = 200.0
PUBLISHERS = 16
CREATING = 8
POLL_S = 60
PAGE = 100
PAGES = 10
OPENING = 50
"""Long-polls that are opened at once."""
LATEST_S = 10.0
SETTLE_SHARE = 0.75
"""The pause before an installation counts as idle, as a share of the seconds that it is idle."""
SETTINGS = {"PACKETBOAT_MAX_CONNECTIONS_OF_ADDRESS": "20000"}
Figures = dict[str, float]
_page = msgspec.json.Decoder(Page)


class Times(NamedTuple):
    """Seconds of each part of a measurement."""

    settle_s: float
    idle_s: float
    load_s: float


class Site:
    """One installation, and what is measured of it."""

    def __init__(self, directory: Path, times: Times) -> None:
        self.cluster = PacketboatCluster(directory, SETTINGS)
        self.times = times
        self.port = 0

    def start(self) -> None:
        """Raises NotReady."""
        self.cluster.start()
        self.port = urlsplit(self.cluster.url).port or 0

    async def send(self, calls: Iterable[Call]) -> None:
        """Send requests that must succeed. Raises NotReady."""
        await send_all(self.port, self.cluster.token, calls, CREATING)

    async def create(self, calls: Sequence[Call]) -> Figures:
        """Send requests that create something; return the CPU of one."""
        if not calls:
            return {}
        meter = CpuMeter(self.cluster.pids())
        await self.send(calls)
        servers, _ = meter.stop()
        return {"create_ms": servers / len(calls) * 1e3}

    def request(self, method: str, path: str, body: bytes = b"", kind: str = "") -> bytes:
        return request(method, path, self.cluster.token, body, kind or "application/json")

    async def idle(self) -> Figures:
        """Return the CPU and the memory of an installation that is asked nothing."""
        await asyncio.sleep(self.times.settle_s)
        meter = CpuMeter(self.cluster.pids())
        began = time.perf_counter()
        await asyncio.sleep(self.times.idle_s)
        servers, _ = meter.stop()
        memory = sum(resident_bytes(pid) for pid in tree(self.cluster.pids()))
        return {
            "idle_percent": servers / (time.perf_counter() - began) * 100,
            "memory_mib": memory / 2**20,
        }

    @property
    def published(self) -> int:
        """Return the number of messages that `publish` sends."""
        return int(self.times.load_s * PUBLISH_PER_S)

    async def publish(self, topics: Sequence[str]) -> Figures:
        """Publish to topics in turn at a steady rate, over a few connections."""
        idle = [await connect(HOST, self.port) for _ in range(PUBLISHERS)]
        opened = list(idle)
        took_ms: list[float] = []

        async def one(topic: str, due_s: float) -> None:
            if not idle:
                opened.append(await connect(HOST, self.port))
                idle.append(opened[-1])
            connection = idle.pop()
            path, body = f"/topics/{topic}/messages", stamped_text().encode()
            answer = await connection.send(self.request("POST", path, body, "text/plain"))
            idle.append(connection)
            if answer.status != 201:
                raise NotReady(f"POST {path}: {answer.status} {answer.body[:200]!r}")
            took_ms.append((time.perf_counter() - due_s) * 1e3)

        meter = CpuMeter(self.cluster.pids())
        async with asyncio.TaskGroup() as tasks:
            began = time.perf_counter()
            for number, topic in zip(range(self.published), itertools.cycle(topics), strict=False):
                due_s = began + number / PUBLISH_PER_S
                await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
                tasks.create_task(one(topic, due_s))
        servers, _ = meter.stop()
        for connection in opened:
            connection.close()
        return _latencies(took_ms) | {"message_us": servers / self.published * 1e6}


class Axis:
    """One thing that grows. `sizes` are those of a whole and of a short run."""

    name = ""
    sizes: tuple[int, ...] = ()
    short: tuple[int, ...] = ()

    def __init__(self, site: Site) -> None:
        self.site = site
        self.size = 0

    async def grow(self, size: int) -> Figures:
        """Grow to a size, and measure there."""
        raise NotImplementedError

    async def end(self) -> None:
        """Let go of what is open."""


class Topics(Axis):
    name = "topics"
    sizes = (10, 100, 1_000, 3_000, 10_000)
    short = (10, 40)

    async def grow(self, size: int) -> Figures:
        figures = await self.site.create(
            [_topic(f"topic-{number}", 4) for number in range(self.size, size)]
        )
        self.size = size
        names = [f"topic-{number}" for number in _spread(size)]
        return figures | await self.site.idle() | await self.site.publish(names)


class Partitions(Axis):
    name = "partitions"
    sizes = (100, 400, 1_600, 6_400, 25_600)
    short = (100, 200)

    async def grow(self, size: int) -> Figures:
        """Create topics of their own for each size, beside those of the last one."""
        names = [f"topics-{size}-{number}" for number in range(TOPICS)]
        each = (size - self.size) // TOPICS
        await self.site.send([_topic(name, each) for name in names])
        self.size = size
        return await self.site.idle() | await self.site.publish(names)


class Subscriptions(Axis):
    name = "subscriptions"
    sizes = (100, 1_000, 10_000, 30_000, 100_000)
    short = (100, 200)

    async def grow(self, size: int) -> Figures:
        names = [f"topic-{number}" for number in range(TOPICS)]
        if not self.size:
            await self.site.send([_topic(name, 4) for name in names])
        new = range(self.size, size)
        created = await self.site.create(
            [
                ("POST", f"/topics/topic-{n % TOPICS}/subscriptions", {"name": f"s-{n}"}, 201)
                for n in new
            ]
        )
        await self.site.send(
            ("GET", f"/subscriptions/s-{n}/messages?wait_seconds=0", None, 200)
            for n in new
            if n // TOPICS % 10 == 0
        )
        self.size = size
        return created | await self.site.idle() | await self.site.publish(names)


class Connections(Axis):
    """Every connection waits; a message wakes one, which acks it and waits again."""

    name = "connections"
    sizes = (10, 100, 1_000, 3_000, 10_000)
    short = (10, 100)

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._polls: list[asyncio.Task[None]] = []
        self._open: list[Connection] = []
        self._ages_ms: list[float] = []

    async def grow(self, size: int) -> Figures:
        names = [f"topic-{number}" for number in range(TOPICS)]
        if not self.size:
            await self.site.send([_topic(name, 1) for name in names])
            await self.site.send(
                [("POST", f"/topics/{name}/subscriptions", {"name": name}, 201) for name in names]
            )
        for at in range(self.size, size, OPENING):
            for number in range(at, min(size, at + OPENING)):
                connection = await connect(HOST, self.site.port)
                self._open.append(connection)
                poll = self._poll(connection, names[number % TOPICS])
                self._polls.append(asyncio.create_task(poll))
            await asyncio.sleep(0.05)
        self.size = size
        return await self.site.idle() | await self._deliver(names[: min(size, TOPICS)])

    async def _poll(self, connection: Connection, name: str) -> None:
        path = f"/subscriptions/{name}"
        pull = self.site.request(
            "GET", f"{path}/messages?max_messages={PAGE}&wait_seconds={POLL_S}", kind=""
        )
        while True:
            answer = await connection.send(pull)
            if answer.status != 200:
                raise NotReady(f"{path}: {answer.status} {answer.body[:200]!r}")
            messages = _page.decode(answer.body).messages
            if not messages:
                continue
            self._ages_ms += [age_s(message.data) * 1e3 for message in messages]
            ids = msgspec.json.encode({"ack_ids": [message.ack_id for message in messages]})
            await connection.send(self.site.request("POST", f"{path}/ack", ids))

    async def _deliver(self, names: Sequence[str]) -> Figures:
        self._ages_ms.clear()
        figures = await self.site.publish(names)
        count = self.site.published
        end = time.perf_counter() + LATEST_S
        while len(self._ages_ms) < count:
            if failed := [poll for poll in self._polls if poll.done()]:
                await failed[0]
            if time.perf_counter() > end:
                raise NotReady(f"{len(self._ages_ms)} of {count} messages arrived")
            await asyncio.sleep(0.01)
        return figures | _latencies(self._ages_ms)

    async def end(self) -> None:
        for poll in self._polls:
            poll.cancel()
        await asyncio.gather(*self._polls, return_exceptions=True)
        for connection in self._open:
            connection.close()


class Backlog(Axis):
    """Pages are pulled and acked from messages that wait; they are filled up again before."""

    name = "backlog"
    sizes = (10_000, 100_000, 300_000, 1_000_000)
    short = (2_000, 4_000)

    async def grow(self, size: int) -> Figures:
        if not self.size:
            await self.site.send([_topic("backlog", 4)])
            await self.site.send(
                [("POST", "/topics/backlog/subscriptions", {"name": "backlog"}, 201)]
            )
        options = {"topic": "backlog", "messages": size - self.size, "encoding": "msgpack"}
        await asyncio.to_thread(run_load, self.site.cluster, "batch", seconds=600, **options)
        figures = await self.site.idle() | await self._pull()
        self.size = size - PAGE * PAGES
        return figures

    async def _pull(self) -> Figures:
        connection = await connect(HOST, self.site.port)
        pull = self.site.request(
            "GET", f"/subscriptions/backlog/messages?max_messages={PAGE}&wait_seconds=1"
        )
        took_ms, count = [], 0
        meter = CpuMeter(self.site.cluster.pids())
        for _ in range(PAGES):
            began = time.perf_counter()
            answer = await connection.send(pull)
            ids = [message.ack_id for message in _page.decode(answer.body).messages]
            body = msgspec.json.encode({"ack_ids": ids})
            await connection.send(self.site.request("POST", "/subscriptions/backlog/ack", body))
            took_ms.append((time.perf_counter() - began) * 1e3)
            count += len(ids)
        servers, _ = meter.stop()
        connection.close()
        if count < PAGE * PAGES / 2:
            raise NotReady(f"{count} messages came in {PAGES} pages")
        return _latencies(took_ms) | {"message_us": servers / count * 1e6}


class Bytes(Axis):
    """Single messages, each connection sends its next one when the last is answered."""

    name = "bytes"
    sizes = (100, 1_000, 10_000, 100_000, 1_000_000)
    short = (100, 10_000)

    async def grow(self, size: int) -> Figures:
        if not self.size:
            await self.site.send([_topic("bytes", 4)])
        self.size = size
        whole = self.site.request(
            "POST", "/topics/bytes/messages", text_body(size).encode(), "text/plain"
        )
        took_ms: list[float] = []
        end = time.perf_counter() + self.site.times.load_s

        async def publisher() -> None:
            connection = await connect(HOST, self.site.port)
            while (sent := time.perf_counter()) < end:
                answer = await connection.send(whole)
                if answer.status != 201:
                    raise NotReady(f"POST of {size} bytes: {answer.status}")
                took_ms.append((time.perf_counter() - sent) * 1e3)
            connection.close()

        meter = CpuMeter(self.site.cluster.pids())
        await asyncio.gather(*(publisher() for _ in range(PUBLISHERS)))
        servers, _ = meter.stop()
        message_us = servers / len(took_ms) * 1e6
        return _latencies(took_ms) | {
            "message_us": message_us,
            "kilobyte_us": message_us / max(1.0, size / 1_000),
        }


AXES: tuple[type[Axis], ...] = (Topics, Partitions, Subscriptions, Connections, Backlog, Bytes)


def _topic(name: str, partitions: int) -> Call:
    return ("POST", "/topics", {"name": name, "partitions": partitions}, 201)


def _spread(size: int, most: int = 1_000) -> range:
    """Return at most `most` numbers below the size, evenly spread."""
    return range(0, size, max(1, size // most))


def _latencies(took_ms: Sequence[float]) -> Figures:
    return {"p50_ms": percentile(took_ms, 50), "p99_ms": percentile(took_ms, 99)}


def measured(axis: type[Axis], sizes: Sequence[int], times: Times) -> Iterator[Point]:
    """Yield the points of an axis; those that were not reached are one loud line."""
    directory = Path(tempfile.mkdtemp(prefix="packetboat-scale-"))
    site = Site(directory / "packetboat", times)
    try:
        site.start()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            along = axis(site)
            try:
                for size in sizes:
                    figures = runner.run(along.grow(size))
                    told = ", ".join(f"{name} {value:.1f}" for name, value in figures.items())
                    console.print(f"  {size:,} {axis.name}: {told}")
                    yield Point(axis.name, size, figures)
            finally:
                runner.run(along.end())
    except* (NotReady, OSError) as errors:
        console.print(f"SKIPPED the rest of {axis.name}: {errors.exceptions[0]}", style="bold")
    finally:
        site.cluster.stop()
        shutil.rmtree(directory, ignore_errors=True)


def read_points(path: Path) -> list[Point]:
    """Read the points of an earlier run."""
    return [Point(**json.loads(line)) for line in path.read_text().splitlines()]


def main() -> int:
    """Exit status 1 when an axis was not measured to its end."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--short", action="store_true", help="small sizes: a smoke test")
    parser.add_argument("--only", choices=[axis.name for axis in AXES], action="append")
    parser.add_argument("--most", type=int, help="leave out larger sizes")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each load, and of idling")
    parser.add_argument("--out", type=Path, help="a file for the figures")
    parser.add_argument("--draw", type=Path, nargs=2, metavar=("FIGURES", "PLOT"))
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if options.draw:
        points = read_points(options.draw[0])
        options.draw[1].write_text(drawn(points))
        print_report(points, console)
        return 0
    each_s = 2.0 if options.short else options.seconds
    times = Times(each_s * SETTLE_SHARE, each_s, each_s)
    points, missing = [], 0
    for axis in AXES:
        if options.only and axis.name not in options.only:
            continue
        sizes = axis.short if options.short else axis.sizes
        sizes = tuple(size for size in sizes if size <= (options.most or size))
        console.print(axis.name)
        found = list(measured(axis, sizes, times))
        missing += len(sizes) - len(found)
        points += found
        if options.out:
            options.out.write_text("".join(json.dumps(p._asdict()) + "\n" for p in points))
    print_report(points, console)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
