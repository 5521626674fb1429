"""Many subscriptions of one topic: `python -m benchmarks.fanout [--subscriptions 1000]`.

Two messages a second are published on one topic, each of 1 KB; every subscription has a consumer
with a stream, which acks every five seconds what it got; with `--trickle` each second, one consumer
after the other, so that few acks come together. With 1 and 3 subscribe forwarders, by
HAProxy with hashing, prints the bytes that the subscribe forwarders read from the store relative to
what was published, a forwarder; statements in Postgres a delivery, of the subscribe forwarders and
of everybody; from POST to delivery; CPU a delivery. Fails when the first is over 2, or statements
of everybody are 0.05 a delivery or more, or anything did not arrive. One JSON line each.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import json
import sys
import time
from typing import Any

import msgspec
import uvloop

from benchmarks.body import age_s, stamped_text
from benchmarks.fleet_system import RETRY_S, TRIES, Call, FleetSystem
from benchmarks.http_load import Line
from benchmarks.stream_client import StreamConnection, open_stream
from harness.cluster import HOST
from harness.http_client import Connection, connect, request
from harness.measure import percentile
from harness.processes import NotReady

TOPIC = "fanout"
RATE_PER_S = 2.0
ACK_EVERY_S = 5.0
TRICKLE_S = 1.0
ACK_CONNECTIONS = 16
OPENING = 20
"""Streams opened at once."""
OPENING_S = 60.0
OPENING_CHECKS = 120
PATIENCE_S = 15.0
MOST_READ = 2.0
MOST_STATEMENTS = 0.05
Row = dict[str, Any]
_line = msgspec.json.Decoder(Line)


class Fanout:
    """The consumers of all subscriptions, and the one publisher."""

    def __init__(
        self, system: FleetSystem, names: list[str], messages: int, *, trickle: bool
    ) -> None:
        self._system = system
        self._unacked: dict[str, list[str]] = {name: [] for name in names}
        self._streams: list[StreamConnection] = []
        self.latencies_s: list[float] = []
        self._acked = 0
        self._all = len(names) * messages
        self._trickle = trickle
        self.ack_s: list[float] = []
        self.repeated = 0
        """Acks that were sent again after a 503."""
        self._done = asyncio.Event()

    async def open(self) -> None:
        """Open a stream for every subscription."""
        names = list(self._unacked)
        for at in range(0, len(names), OPENING):
            opened = (self._open(name) for name in names[at : at + OPENING])
            self._streams += await asyncio.gather(*opened)
        for _ in range(OPENING_CHECKS):
            missing = [stream.status for stream in self._streams if stream.status != 200]
            if not missing:
                return
            await asyncio.sleep(OPENING_S / OPENING_CHECKS)
        raise NotReady(f"{len(missing)} streams are not open: {missing[0]}")

    async def _open(self, name: str) -> StreamConnection:
        path = f"/subscriptions/{name}/messages:stream?heartbeat_seconds=60"
        whole = request("GET", path, self._system.token)
        port = self._system.fleet.port
        return await open_stream(HOST, port, whole, functools.partial(self._came, name))

    def _came(self, name: str, lines: list[bytes]) -> None:
        for line in lines:
            message = _line.decode(line).message
            if message is not None:
                self.latencies_s.append(age_s(message.data))
                self._unacked[name].append(message.ack_id)

    async def publish(self, count: int) -> None:
        connection = await connect(HOST, self._system.fleet.port)
        began_s = time.monotonic()
        for number in range(count):
            await asyncio.sleep(max(0.0, began_s + number / RATE_PER_S - time.monotonic()))
            whole = request(
                "POST",
                f"/topics/{TOPIC}/messages",
                self._system.token,
                stamped_text().encode(),
                "text/plain",
            )
            answer = await connection.send(whole)
            if answer.status != 201:
                raise NotReady(f"publish: {answer.status} {answer.body!r}")
        connection.close()

    async def until_acked(self) -> None:
        """Until all of it has come and is acked, everywhere."""
        try:
            await asyncio.wait_for(self._done.wait(), PATIENCE_S + ACK_EVERY_S)
        except TimeoutError as error:
            ended = sum(stream.ended.done() for stream in self._streams)
            raise NotReady(
                f"{len(self.latencies_s)} of {self._all} came, {self._acked} are acked,"
                f" {sum(map(len, self._unacked.values()))} are not; {ended} streams have ended"
            ) from error

    async def ack_for_ever(self) -> None:
        """All that came, every five seconds, spread over them."""
        connections = [await connect(HOST, self._system.fleet.port) for _ in range(ACK_CONNECTIONS)]
        names = list(self._unacked)
        shares = [names[n::ACK_CONNECTIONS] for n in range(ACK_CONNECTIONS)]
        await asyncio.gather(*map(self._ack_share, connections, shares))

    async def _ack_share(self, connection: Connection, names: list[str]) -> None:
        every_s = TRICKLE_S if self._trickle else ACK_EVERY_S
        apart_s = TRICKLE_S / len(names) if self._trickle else 0.0
        while True:
            began_s = time.monotonic()
            for number, name in enumerate(names):
                if self._trickle:
                    at_s = began_s + number * apart_s
                    await asyncio.sleep(max(0.0, at_s - time.monotonic()))
                await self._ack(connection, name)
            await asyncio.sleep(max(0.1, began_s + every_s - time.monotonic()))

    async def _ack(self, connection: Connection, name: str) -> None:
        ids, self._unacked[name] = self._unacked[name], []
        if not ids:
            return
        body = msgspec.json.encode({"ack_ids": ids})
        path = f"/subscriptions/{name}/ack"
        whole = request("POST", path, self._system.token, body)
        began_s = time.perf_counter()
        answer = await connection.send(whole)
        for _ in range(TRIES):
            if answer.status != 503:
                break
            self.repeated += 1
            await asyncio.sleep(RETRY_S)
            answer = await connection.send(whole)
        self.ack_s.append(time.perf_counter() - began_s)
        if answer.status != 200:
            raise NotReady(f"ack: {answer.status} {answer.body!r}")
        self._acked += int(msgspec.json.decode(answer.body)["acked"])
        if self._acked == self._all:
            self._done.set()

    def close(self) -> None:
        for stream in self._streams:
            stream.close()


async def consume(system: FleetSystem, names: list[str], messages: int, *, trickle: bool) -> Row:
    """Publish, and return the figures until all of it is acked."""
    fanout = Fanout(system, names, messages, trickle=trickle)
    await fanout.open()
    acking = asyncio.ensure_future(fanout.ack_for_ever())
    counting = system.statements()
    try:
        await asyncio.to_thread(counting.start)
        before = await asyncio.to_thread(figures, system)
        await fanout.publish(messages)
        await fanout.until_acked()
        after = await asyncio.to_thread(figures, system)
        asked = await asyncio.to_thread(counting.stop)
    finally:
        acking.cancel()
        (failure,) = await asyncio.gather(acking, return_exceptions=True)
        fanout.close()
        if isinstance(failure, NotReady):
            raise failure
    spent = {name: value - before[name] for name, value in after.items()}
    deliveries = messages * len(names)
    subscribe = sum(n for name, n in asked.by_process.items() if name.startswith("subscribe"))
    return {
        "published": messages,
        "deliveries": deliveries,
        "read_bytes": spent.pop("read_bytes"),
        "statements_per_delivery": round(asked.statements / deliveries, 4),
        "subscribe_statements_per_delivery": round(subscribe / deliveries, 4),
        "p50_ms": round(percentile(fanout.latencies_s, 50) * 1e3, 1),
        "p99_ms": round(percentile(fanout.latencies_s, 99) * 1e3, 1),
        "acks_repeated": fanout.repeated,
        "ack_p50_ms": round(percentile(fanout.ack_s, 50) * 1e3, 1),
        "ack_p99_ms": round(percentile(fanout.ack_s, 99) * 1e3, 1),
        "cpu_us": {part: round(s / deliveries * 1e6, 1) for part, s in spent.items()},
        "texts": asked.texts.most_common(15),
    }


def figures(system: FleetSystem) -> dict[str, float]:
    """CPU by part, and the bytes read from the store."""
    read = system.metric("packetboat_subscribe_fetched_bytes_total")
    return system.cpu() | {"read_bytes": read}


def measure(options: argparse.Namespace, forwarders: int) -> Row:
    names = [f"{TOPIC}-{n}" for n in range(options.subscriptions)]
    with FleetSystem(forwarders) as system:
        system.create(("/topics", {"name": TOPIC}))
        path = f"/topics/{TOPIC}/subscriptions"
        system.create(*((path, {"name": name}) for name in names))
        asyncio.run(system.send([first_pull(name) for name in names]))
        found = uvloop.run(consume(system, names, options.messages, trickle=options.trickle))
    texts = found.pop("texts")
    if options.verbose:
        for text, count in texts:
            print(f"  {count:6} {text}", file=sys.stderr)
    body_bytes = len(stamped_text().encode())
    read = found.pop("read_bytes") / (found["published"] * body_bytes * forwarders)
    return {"forwarders": forwarders, "read_per_published": round(read, 3)} | found


def first_pull(name: str) -> Call:
    """Opens the subscription where it is served."""
    return ("GET", f"/subscriptions/{name}/messages?wait_seconds=0", None, 200)


def is_good(row: Row) -> bool:
    statements: float = row["statements_per_delivery"]
    return row["read_per_published"] <= MOST_READ and statements < MOST_STATEMENTS


def main() -> int:
    """Exit status 1 when a figure is over its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--subscriptions", type=int, default=1_000)
    parser.add_argument("--messages", type=int, default=60)
    parser.add_argument("--forwarders", type=int, nargs="*", default=[1, 3])
    parser.add_argument("--trickle", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    good = True
    for forwarders in options.forwarders:
        row = measure(options, forwarders)
        print(json.dumps(row), flush=True)
        good = good and is_good(row)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
