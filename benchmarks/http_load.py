"""Load on Packetboat over HTTP, printed as one JSON object: `python -m benchmarks.http_load
post|batch|drain|stream|latency|steady …`.

It is a process of its own, so that its CPU is not counted as the server's.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import urlsplit

import msgspec
import uvloop

from benchmarks.body import age_s, stamped_text, text_body
from benchmarks.stream_client import open_stream
from harness.http_client import Answer, Connection, connect, request
from harness.measure import CpuMeter, longest_gap_ms, percentile

MESSAGES_PER_REQUEST = 64
PULL_MESSAGES = 500
OUTSTANDING = 2_000
ACK_MESSAGES = 500
SILENCE_S = 1.0
CONSUMERS = 2
PUBLISH_CONNECTIONS = 16
Result = dict[str, Any]


class Pulled(msgspec.Struct):
    """The fields of a message that the load needs."""

    ack_id: str
    data: str = ""


class Page(msgspec.Struct):
    """The answer to a pull."""

    messages: list[Pulled]


class Line(msgspec.Struct):
    """A line of a stream; heartbeats have no message."""

    message: Pulled | None = None


_page = msgspec.json.Decoder(Page)
_line = msgspec.json.Decoder(Line)


class Load:
    """The options of one case, and its counts."""

    def __init__(self, options: argparse.Namespace) -> None:
        url = urlsplit(options.url)
        assert url.hostname is not None
        assert url.port is not None
        self.host, self.port = url.hostname, url.port
        self.options = options
        self.latencies: list[float] = []
        self.n = 0
        self.failed = 0
        self.errors: list[str] = []
        self.longest_gap_ms = float("nan")

    async def connection(self) -> Connection:
        return await connect(self.host, self.port)

    def request(self, method: str, path: str, body: bytes = b"", kind: str = "") -> bytes:
        return request(method, path, self.options.token, body, kind or "application/json")

    def fail(self, what: str, answer: Answer, count: int = 1) -> None:
        self.failed += count
        if len(self.errors) < 3:
            self.errors.append(f"{what}: {answer.status} {answer.body[:200]!r}")


async def post(load: Load) -> float:
    """Publish one message a request, with one request outstanding on each connection."""
    path = f"/topics/{load.options.topic}/messages"
    whole = load.request("POST", path, text_body().encode(), "text/plain")
    end = time.perf_counter() + load.options.seconds

    async def publisher() -> None:
        connection = await load.connection()
        while time.perf_counter() < end:
            sent = time.perf_counter()
            answer = await connection.send(whole)
            load.latencies.append(time.perf_counter() - sent)
            if answer.status == 201:
                load.n += 1
            else:
                load.fail("publish", answer)
                await asyncio.sleep(0.01)
        connection.close()

    start = time.perf_counter()
    await asyncio.gather(*(publisher() for _ in range(load.options.connections)))
    return time.perf_counter() - start


def batch_request(load: Load) -> bytes:
    """Return a request with 64 different messages of 1 KB, the same in every call."""
    texts = [text_body() for _ in range(MESSAGES_PER_REQUEST)]
    path = f"/topics/{load.options.topic}/messages:batch"
    if load.options.encoding == "msgpack":
        body = msgspec.msgpack.encode({"messages": [{"data": text.encode()} for text in texts]})
        return load.request("POST", path, body, "application/msgpack")
    body = msgspec.json.encode({"messages": [{"data": text} for text in texts]})
    return load.request("POST", path, body)


async def batch(load: Load) -> float:
    """Publish over four connections with one request of 64 outstanding on each."""
    whole = batch_request(load)
    end = time.perf_counter() + load.options.seconds
    limit = load.options.messages or float("inf")

    async def publisher() -> None:
        connection = await load.connection()
        while time.perf_counter() < end and load.n < limit:
            sent = time.perf_counter()
            answer = await connection.send(whole)
            load.latencies.append(time.perf_counter() - sent)
            accepted = answer.body.count(b'"message_id"')
            if answer.status != 200 or accepted != MESSAGES_PER_REQUEST:
                load.fail("batch", answer, MESSAGES_PER_REQUEST - accepted)
                await asyncio.sleep(0.01)
            load.n += accepted
        connection.close()

    start = time.perf_counter()
    await asyncio.gather(*(publisher() for _ in range(load.options.connections)))
    return time.perf_counter() - start


async def drain(load: Load) -> float:
    """Four workers pulling pages and acking each page before the next; until nothing is left."""
    subscription = load.options.subscription
    pull = load.request(
        "GET", f"/subscriptions/{subscription}/messages?max_messages={PULL_MESSAGES}&wait_seconds=0"
    )
    start = last = time.perf_counter()

    async def worker() -> None:
        nonlocal last
        connection = await load.connection()
        empty = 0
        while time.perf_counter() < start + load.options.seconds and empty < 3:
            answer = await connection.send(pull)
            if answer.status != 200:
                load.fail("pull", answer)
                break
            ids = [message.ack_id for message in _page.decode(answer.body).messages]
            if not ids:
                empty += 1
                await asyncio.sleep(0.05)
                continue
            empty = 0
            sent = time.perf_counter()
            body = msgspec.json.encode({"ack_ids": ids})
            acked = await connection.send(
                load.request("POST", f"/subscriptions/{subscription}/ack", body)
            )
            last = time.perf_counter()
            load.latencies.append(last - sent)
            done = msgspec.json.decode(acked.body).get("acked", 0) if acked.status == 200 else 0
            load.n += done
            if done != len(ids):
                load.fail("ack", acked, len(ids) - done)
        connection.close()

    await asyncio.gather(*(worker() for _ in range(load.options.connections)))
    return last - start


async def stream(load: Load) -> float:
    """Consume streams, each with a connection beside it on which messages are acked together."""
    start = time.perf_counter()
    workers = (_stream_worker(load, start) for _ in range(load.options.connections))
    return max(await asyncio.gather(*workers)) - start


async def _stream_worker(load: Load, start: float) -> float:
    """Return the time at which the last ack was answered; end after `SILENCE_S` without a
    message.
    """
    path = f"/subscriptions/{load.options.subscription}"
    acks = await load.connection()
    unacked: list[str] = []
    woken = asyncio.Event()

    def on_lines(lines: list[bytes]) -> None:
        for line in lines:
            message = _line.decode(line).message
            if message is not None:
                unacked.append(message.ack_id)
        woken.set()

    query = f"max_outstanding_messages={OUTSTANDING}&max_outstanding_bytes=67108864"
    whole = load.request("GET", f"{path}/messages:stream?{query}")
    connection = await open_stream(load.host, load.port, whole, on_lines)
    last = start
    while time.perf_counter() < start + load.options.seconds:
        if not unacked:
            woken.clear()
            try:
                await asyncio.wait_for(woken.wait(), SILENCE_S)
            except TimeoutError:
                break
        ids, unacked[:] = unacked[:ACK_MESSAGES], unacked[ACK_MESSAGES:]
        if not ids:
            continue
        sent = time.perf_counter()
        body = msgspec.json.encode({"ack_ids": ids})
        answer = await acks.send(load.request("POST", f"{path}/ack", body))
        last = time.perf_counter()
        load.latencies.append(last - sent)
        done = msgspec.json.decode(answer.body).get("acked", 0) if answer.status == 200 else 0
        load.n += done
        if done != len(ids):
            load.fail("ack", answer, len(ids) - done)
    connection.close()
    acks.close()
    return last


async def latency(load: Load) -> float:
    """Open loop of single POSTs at a rate; consumers wait in long-polls."""
    expected = int(load.options.rate * load.options.seconds)
    done = asyncio.Event()
    consumers = [
        asyncio.create_task(_consumer(load, expected, done)) for _ in range(load.options.consumers)
    ]
    await asyncio.sleep(0.3)  # the polls are waiting
    idle = [await load.connection() for _ in range(PUBLISH_CONNECTIONS)]
    start = time.perf_counter()

    async def publish() -> None:
        connection = idle.pop() if idle else await load.connection()
        whole = load.request(
            "POST",
            f"/topics/{load.options.topic}/messages",
            stamped_text().encode(),
            "text/plain",
        )
        answer = await connection.send(whole)
        idle.append(connection)
        if answer.status != 201:
            load.fail("publish", answer)

    await _open_loop(publish, expected, start, load.options.rate)
    try:
        await asyncio.wait_for(done.wait(), 5)
    except TimeoutError:
        load.failed += expected - load.n
        load.errors.append(f"{load.n} of {expected} arrived")
    elapsed = time.perf_counter() - start
    for consumer in consumers:
        consumer.cancel()
    await asyncio.gather(*consumers, return_exceptions=True)
    return elapsed


async def _open_loop(
    publish: Callable[[], Coroutine[Any, Any, None]], count: int, start: float, rate: float
) -> None:
    """Start `count` publishes at a rate, whether or not earlier ones have ended; await them all."""
    publishes = []
    for index in range(count):
        await asyncio.sleep(max(0.0, start + index / rate - time.perf_counter()))
        publishes.append(asyncio.create_task(publish()))
    await asyncio.gather(*publishes)


async def steady(load: Load) -> float:
    """Open loop of single POSTs at a rate, without keys and without consumers."""
    expected = int(load.options.rate * load.options.seconds)
    idle = [await load.connection() for _ in range(PUBLISH_CONNECTIONS)]
    whole = load.request(
        "POST", f"/topics/{load.options.topic}/messages", text_body().encode(), "text/plain"
    )
    start = time.perf_counter()
    confirmed = [start]

    async def publish() -> None:
        connection = idle.pop() if idle else await load.connection()
        sent = time.perf_counter()
        answer = await connection.send(whole)
        idle.append(connection)
        if answer.status == 201:
            confirmed.append(time.perf_counter())
            load.latencies.append(confirmed[-1] - sent)
            load.n += 1
        else:
            load.fail("publish", answer)

    await _open_loop(publish, expected, start, load.options.rate)
    end = time.perf_counter()
    load.longest_gap_ms = longest_gap_ms(confirmed, end)
    return end - start


async def _consumer(load: Load, expected: int, done: asyncio.Event) -> None:
    subscription = load.options.subscription
    connection, acks = await load.connection(), await load.connection()
    pull = load.request(
        "GET", f"/subscriptions/{subscription}/messages?max_messages=100&wait_seconds=20"
    )
    unacked: list[str] = []
    acking: asyncio.Task[None] | None = None

    async def ack() -> None:
        while unacked:
            body = msgspec.json.encode({"ack_ids": unacked})
            unacked.clear()
            answer = await acks.send(
                load.request("POST", f"/subscriptions/{subscription}/ack", body)
            )
            if answer.status != 200:
                load.fail("ack", answer)

    while True:
        answer = await connection.send(pull)
        if answer.status != 200:
            load.fail("pull", answer)
            await asyncio.sleep(0.1)
            continue
        for message in _page.decode(answer.body).messages:
            load.latencies.append(age_s(message.data))
            unacked.append(message.ack_id)
            load.n += 1
        if unacked and (acking is None or acking.done()):
            acking = asyncio.create_task(ack())
        if load.n >= expected:
            done.set()


CASES = {
    "post": post,
    "batch": batch,
    "drain": drain,
    "stream": stream,
    "latency": latency,
    "steady": steady,
}


async def run(options: argparse.Namespace) -> Result:
    """Measure one case."""
    load = Load(options)
    meter = CpuMeter([int(pid) for pid in options.pids.split(",")])
    start = time.perf_counter()
    elapsed_s = await CASES[options.case](load)
    wall_s = time.perf_counter() - start
    servers, machine = meter.stop()
    return {
        "n": load.n,
        "elapsed_s": elapsed_s,
        "wall_s": wall_s,
        "p50_ms": percentile(load.latencies, 50) * 1e3,
        "p99_ms": percentile(load.latencies, 99) * 1e3,
        "latencies_ms": [each * 1e3 for each in load.latencies[: options.samples]],
        "failed": load.failed,
        "errors": load.errors,
        "requests": len(load.latencies),
        "longest_gap_ms": load.longest_gap_ms,
        "server_cpu_s": servers,
        "machine_cpu_s": machine,
        "client_cpu_s": time.process_time(),
    }


def main() -> None:
    """Measure one case, and print one JSON object to stdout."""
    parser = argparse.ArgumentParser()
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--url", required=True)
    parser.add_argument("--token", required=True)
    parser.add_argument("--pids", required=True)
    parser.add_argument("--topic", default="bench")
    parser.add_argument("--subscription", default="bench")
    parser.add_argument("--encoding", choices=("json", "msgpack"), default="json")
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--messages", type=int, default=0)
    parser.add_argument("--rate", type=float, default=200)
    parser.add_argument("--consumers", type=int, default=CONSUMERS, help="of case latency")
    parser.add_argument("--samples", type=int, default=0, help="latencies to tell one by one")
    print(json.dumps(uvloop.run(run(parser.parse_args()))))


if __name__ == "__main__":
    main()
