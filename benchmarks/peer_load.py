"""Load on a peer, run by the interpreter of the peers' own environment.

`python -m benchmarks.peer_load nats|rabbit publish|fill|drain|… --urls … --pids …` prints one
JSON object. Two processes, as the two cores would be used by two client machines; every publisher
waits for its own confirm before its next message.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing as mp
import os
import struct
import time
from collections.abc import Callable
from typing import Any, Protocol

import uvloop

from harness.measure import CpuMeter, longest_gap_ms, percentile

PROCESSES = 2
BODY_BYTES = 1024
NO_LIMIT = 10**9
PULL_MESSAGES = 500
PADDING = os.urandom(BODY_BYTES - 8)
OnBody = Callable[[bytes], None]


def stamped_body() -> bytes:
    """Return 1 KB that holds the time at which it was made."""
    return struct.pack("d", time.perf_counter()) + PADDING


class Peer(Protocol):
    """A connection to the system under test."""

    async def open(self) -> None: ...
    async def reset(self) -> None: ...
    async def publish(self, body: bytes) -> None: ...
    async def consume(self, on_body: OnBody) -> None: ...
    async def pull(self, on_body: OnBody) -> None: ...
    async def close(self) -> None: ...


class Nats:
    """A file stream with three replicas; a push consumer with explicit acks."""

    def __init__(self, urls: list[str]) -> None:
        self._urls = urls

    async def open(self) -> None:
        import nats  # type: ignore[import-not-found]

        self._connection = await nats.connect(self._urls, max_outstanding_pings=10)
        self._stream = self._connection.jetstream(timeout=20)

    async def reset(self) -> None:
        from nats.errors import Error  # type: ignore[import-not-found]
        from nats.js import api  # type: ignore[import-not-found]

        config = api.StreamConfig(
            name="S", subjects=["s.>"], num_replicas=3, storage=api.StorageType.FILE
        )
        for attempt in range(40):  # the meta group needs a leader first
            try:
                if attempt == 0:
                    await self._stream.delete_stream("S")
            except Error:
                pass
            try:
                await self._stream.add_stream(config)
                break
            except Error:
                if attempt == 39:
                    raise
                await asyncio.sleep(0.5)
        await asyncio.sleep(0.5)

    async def publish(self, body: bytes) -> None:
        await self._stream.publish("s.a", body)

    async def consume(self, on_body: OnBody) -> None:
        from nats.js import api

        async def received(message: Any) -> None:
            on_body(message.data)
            await message.ack()

        config = api.ConsumerConfig(
            ack_policy=api.AckPolicy.EXPLICIT, max_ack_pending=4096, ack_wait=60
        )
        await self._stream.subscribe(
            "s.a", queue="C", durable="C", cb=received, manual_ack=True, config=config
        )
        await asyncio.Event().wait()

    async def pull(self, on_body: OnBody) -> None:
        """Consume pages of a pull consumer, and ack each message."""
        from nats.js import api
        from nats.js.errors import ServiceUnavailableError  # type: ignore[import-not-found]

        config = api.ConsumerConfig(
            ack_policy=api.AckPolicy.EXPLICIT, max_ack_pending=4096, ack_wait=60
        )
        subscription = None
        while True:
            try:
                if subscription is None:
                    subscription = await self._stream.pull_subscribe(
                        "s.a", durable="P", config=config
                    )
                page = await subscription.fetch(PULL_MESSAGES, timeout=1)
            except TimeoutError:
                continue
            except ServiceUnavailableError:  # the consumer has no leader yet
                await asyncio.sleep(0.05)
                continue
            for message in page:
                on_body(message.data)
                await message.ack()

    async def close(self) -> None:
        await self._connection.close()


class Rabbit:
    """A quorum queue on three nodes, persistent messages, publisher confirms, prefetch 500."""

    def __init__(self, urls: list[str]) -> None:
        self._url = urls[os.getpid() % len(urls)]

    async def open(self) -> None:
        import aio_pika  # type: ignore[import-not-found]

        self._message = aio_pika.Message
        self._connection = await aio_pika.connect(self._url)
        self._channel = await self._connection.channel(publisher_confirms=True)

    async def reset(self) -> None:
        await self._channel.queue_delete("q")
        await self._channel.declare_queue(
            "q",
            durable=True,
            arguments={"x-queue-type": "quorum", "x-quorum-initial-group-size": 3},
        )
        await asyncio.sleep(0.5)

    async def publish(self, body: bytes) -> None:
        message = self._message(body, delivery_mode=2)
        await self._channel.default_exchange.publish(message, "q")

    async def consume(self, on_body: OnBody) -> None:
        await self._channel.set_qos(prefetch_count=500)
        queue = await self._channel.declare_queue("q", passive=True)

        async def received(message: Any) -> None:
            on_body(message.body)
            await message.ack()

        await queue.consume(received)
        await asyncio.Event().wait()

    async def pull(self, on_body: OnBody) -> None:
        raise NotImplementedError("its consumers are pushed to")

    async def close(self) -> None:
        await self._connection.close()


CASES = ("publish", "fill", "drain", "drain-pull", "latency", "steady")
PEERS: dict[str, Callable[[list[str]], Peer]] = {"nats": Nats, "rabbit": Rabbit}
Result = dict[str, Any]


async def saturate(
    peer: Peer, publishers: int, seconds: float, messages: float = NO_LIMIT
) -> Result:
    """Each publisher sends its next message when the last is confirmed."""
    latencies: list[float] = []
    errors: list[str] = []
    start, cpu_s = time.perf_counter(), time.process_time()

    async def publisher() -> None:
        while (sent := time.perf_counter()) < start + seconds and len(latencies) < messages:
            try:
                await peer.publish(stamped_body())
            except Exception as error:  # any client error is a failed publish
                errors.append(repr(error)[:120])
                await asyncio.sleep(0.01)
            else:
                latencies.append(time.perf_counter() - sent)

    await asyncio.gather(*(publisher() for _ in range(publishers)))
    return {
        "latencies": latencies,
        "errors": errors[:3],
        "failed": len(errors),
        "elapsed_s": time.perf_counter() - start,
        "cpu_s": time.process_time() - cpu_s,
    }


async def receive(peer: Peer, seconds: float, limit: int, *, pull: bool = False) -> Result:
    """Consume and ack; stops after `limit`, the time, or one second of silence."""
    latencies: list[float] = []
    start = first = last = time.perf_counter()

    def on_body(body: bytes) -> None:
        nonlocal first, last
        last = time.perf_counter()
        if not latencies:
            first = last
        latencies.append(last - struct.unpack("d", body[:8])[0])

    consumer = asyncio.ensure_future(peer.pull(on_body) if pull else peer.consume(on_body))
    while len(latencies) < limit and not consumer.done():
        await asyncio.sleep(0.02)
        now = time.perf_counter()
        if now - start > seconds or (latencies and limit >= NO_LIMIT and now - last > 1):
            break
    failure = [repr(consumer.exception())[:120]] if consumer.done() else []
    consumer.cancel()
    await asyncio.sleep(0.1)  # the last acks leave
    return {
        "latencies": latencies,
        "errors": failure,
        "failed": len(failure),
        "elapsed_s": last - (start if limit >= NO_LIMIT else first),
    }


async def at_rate(peer: Peer, per_second: float, seconds: float) -> Result:
    """Open loop: one message each 1/rate, whatever became of the ones before."""
    start = time.perf_counter() + 0.5
    confirmed = [start]
    failed: list[str] = []

    async def one() -> None:
        try:
            await peer.publish(stamped_body())
        except Exception as error:  # any client error is a failed publish
            failed.append(repr(error)[:120])
        else:
            confirmed.append(time.perf_counter())

    publishes = []
    for index in range(int(per_second * seconds)):
        await asyncio.sleep(max(0.0, start + index / per_second - time.perf_counter()))
        publishes.append(asyncio.ensure_future(one()))
    await asyncio.gather(*publishes)
    return {
        "latencies": [],
        "errors": failed[:3],
        "failed": len(failed),
        "elapsed_s": seconds,
        "confirmed": len(confirmed) - 1,
        "longest_gap_ms": longest_gap_ms(confirmed, time.perf_counter()),
    }


async def steady(peer: Peer, per_second: float, seconds: float) -> Result:
    """Publish at a rate; the confirmed messages are those that count."""
    result = await at_rate(peer, per_second, seconds)
    return result | {"n": result["confirmed"]}


def _process(
    name: str, urls: list[str], barrier: Any, results: Any, act: Callable[[Peer], Any]
) -> None:
    async def go() -> Result:
        peer = PEERS[name](urls)
        await peer.open()
        try:
            await asyncio.to_thread(barrier.wait, 30)
            result: Result = await act(peer)
            return result
        finally:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(peer.close(), 2)

    try:
        results.put(uvloop.run(go()))
    except BaseException as error:
        results.put({"latencies": [], "errors": [repr(error)[:200]], "failed": 1, "elapsed_s": 0})


def in_processes(
    name: str, urls: list[str], pids: list[int], acts: list[Callable[[Peer], Any]]
) -> Result:
    """Run one act per process, all starting together, and measure the servers meanwhile."""
    context = mp.get_context("fork")
    barrier, results = context.Barrier(len(acts) + 1), context.Queue()
    children = [
        context.Process(target=_process, args=(name, urls, barrier, results, act)) for act in acts
    ]
    for child in children:
        child.start()
    barrier.wait(30)
    meter, start = CpuMeter(pids), time.perf_counter()
    try:
        answers = [results.get(timeout=180) for _ in acts]
    finally:
        servers, machine = meter.stop()
        wall = time.perf_counter() - start
        for child in children:
            child.join(3)
            if child.is_alive():
                child.kill()
    samples = [sample for answer in answers for sample in answer["latencies"]]
    return {
        "clients_cpu_s": sum(answer.get("cpu_s", 0.0) for answer in answers),
        "n": sum(answer.get("n", len(answer["latencies"])) for answer in answers),
        "elapsed_s": max(answer["elapsed_s"] for answer in answers),
        "wall_s": wall,
        "p50_ms": percentile(samples, 50) * 1e3,
        "p99_ms": percentile(samples, 99) * 1e3,
        "failed": sum(answer["failed"] for answer in answers),
        "errors": [error for answer in answers for error in answer["errors"]][:3],
        "longest_gap_ms": max(answer.get("longest_gap_ms", 0.0) for answer in answers),
        "server_cpu_s": servers,
        "machine_cpu_s": machine,
    }


async def _reset(name: str, urls: list[str]) -> None:
    peer = PEERS[name](urls)
    await peer.open()
    await peer.reset()
    await peer.close()


def main() -> None:
    """Measure one case, and print one JSON object to stdout."""
    parser = argparse.ArgumentParser()
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--urls", required=True)
    parser.add_argument("--pids", required=True)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--in-flight", type=int, default=256)
    parser.add_argument("--messages", type=int, default=NO_LIMIT)
    parser.add_argument("--rate", type=float, default=200)
    options = parser.parse_args()
    urls = options.urls.split(",")
    pids = [int(pid) for pid in options.pids.split(",")]
    seconds: float = options.seconds
    if options.case not in ("drain", "drain-pull"):
        uvloop.run(_reset(options.peer, urls))
    acts: list[Callable[[Peer], Any]]
    if options.case in ("publish", "fill"):
        share = options.in_flight // PROCESSES
        most = options.messages / PROCESSES
        acts = [lambda peer: saturate(peer, share, seconds, most)] * PROCESSES
    elif options.case in ("drain", "drain-pull"):
        pull = options.case == "drain-pull"
        acts = [lambda peer: receive(peer, seconds, NO_LIMIT, pull=pull)] * PROCESSES
    elif options.case == "steady":
        acts = [lambda peer: steady(peer, options.rate, seconds)]
    else:
        expected = int(options.rate * seconds)
        acts = [
            lambda peer: receive(peer, seconds + 3, expected),
            lambda peer: at_rate(peer, options.rate, seconds),
        ]
    print(json.dumps(in_processes(options.peer, urls, pids, acts)))


if __name__ == "__main__":
    main()
