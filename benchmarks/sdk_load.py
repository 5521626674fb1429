"""Load by the SDK, as one JSON object: `python -m benchmarks.sdk_load async|sync|drain …`.

`async` and `sync` publish, `drain` pulls pages and acks them. `sdk` in the object is where the SDK
was imported from.

The same loops in the same number of processes as `peer_load` has for the peers' clients, so that
the two can be set beside each other.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections import deque
from typing import Any

import packetboat
from packetboat import AsyncClient, Client, PacketboatError, PendingReceipt

from benchmarks.peer_load import PEERS, OnBody, Peer, Result, in_processes, saturate, stamped_body

KEYS = 1000
PULL_MESSAGES = 500
PULLERS = 2
"""Pulls at once in each process."""
EMPTY_PULLS = 3


class Packetboat:
    """One topic; `key_of` counts through keys, or gives none."""

    topic = ""
    subscription = ""
    keyed = False

    def __init__(self, urls: list[str]) -> None:
        self._url, self._token = urls
        self._count = 0

    async def open(self) -> None:
        self._client = AsyncClient(self._url, self._token)
        if self.subscription:
            await self._client.whoami()
        else:
            await self._client.publish(self.topic, b"connects, as the peers do here")

    async def reset(self) -> None:
        """Do nothing: a topic is made for each run."""

    async def publish(self, body: bytes) -> None:
        await self._client.publish(self.topic, body, key=self._key())

    def publish_all(self, in_flight: int, seconds: float) -> Result:
        """Publish in one thread with `in_flight` receipts to come; it waits for the oldest."""
        latencies: list[float] = []
        errors: list[str] = []
        out: deque[tuple[float, PendingReceipt]] = deque()
        start, cpu_s = time.perf_counter(), time.process_time()
        with Client(self._url, self._token) as client:
            while (now := time.perf_counter()) < start + seconds or out:
                if now < start + seconds and len(out) < in_flight:
                    receipt = client.publish(self.topic, stamped_body(), key=self._key())
                    out.append((now, receipt))
                    continue
                sent, receipt = out.popleft()
                try:
                    receipt.result()
                except PacketboatError as error:
                    errors.append(repr(error)[:120])
                else:
                    latencies.append(time.perf_counter() - sent)
        return {
            "latencies": latencies,
            "errors": errors[:3],
            "failed": len(errors),
            "elapsed_s": time.perf_counter() - start,
            "cpu_s": time.process_time() - cpu_s,
        }

    async def drain(self, seconds: float) -> Result:
        """Pull pages and ack each, some at once, until three pulls in a row had none."""
        start = last = time.perf_counter()
        cpu_s, acked = time.process_time(), 0

        async def worker() -> None:
            nonlocal last, acked
            empty = 0
            while time.perf_counter() < start + seconds and empty < EMPTY_PULLS:
                messages = await self._client.pull(self.subscription, max_messages=PULL_MESSAGES)
                if not messages:
                    empty += 1
                    await asyncio.sleep(0.05)
                    continue
                empty = 0
                settled = await self._client.ack(self.subscription, messages)
                acked += settled.count
                last = time.perf_counter()

        await asyncio.gather(*(worker() for _ in range(PULLERS)))
        return {
            "n": acked,
            "latencies": [],
            "errors": [],
            "failed": 0,
            "elapsed_s": last - start,
            "cpu_s": time.process_time() - cpu_s,
        }

    async def consume(self, on_body: OnBody) -> None:
        raise NotImplementedError("it publishes")

    async def pull(self, on_body: OnBody) -> None:
        raise NotImplementedError("it publishes")

    async def close(self) -> None:
        await self._client.close()

    def _key(self) -> str | None:
        if not self.keyed:
            return None
        self._count += 1
        return f"key {self._count % KEYS}"


def main() -> None:
    """Measure one case, and print one JSON object to stdout."""
    parser = argparse.ArgumentParser()
    parser.add_argument("case", choices=("async", "sync", "drain"))
    parser.add_argument("--url", required=True)
    parser.add_argument("--token", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--subscription", default="")
    parser.add_argument("--pids", required=True)
    parser.add_argument("--keyed", action="store_true")
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--in-flight", type=int, default=256)
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    share = options.in_flight // options.processes
    Packetboat.topic, Packetboat.keyed = options.topic, options.keyed
    Packetboat.subscription = options.subscription
    PEERS["packetboat"] = Packetboat

    async def threads(peer: Peer) -> Result:
        assert isinstance(peer, Packetboat)
        return await asyncio.to_thread(peer.publish_all, share, options.seconds)

    async def loop(peer: Peer) -> Result:
        return await saturate(peer, share, options.seconds)

    async def drain(peer: Peer) -> Result:
        assert isinstance(peer, Packetboat)
        return await peer.drain(options.seconds)

    act: Any = {"async": loop, "sync": threads, "drain": drain}[options.case]
    pids = [int(pid) for pid in options.pids.split(",")]
    where = [options.url, options.token]
    row = in_processes("packetboat", where, pids, [act] * options.processes)
    print(json.dumps(row | {"sdk": packetboat.__file__}))


if __name__ == "__main__":
    main()
