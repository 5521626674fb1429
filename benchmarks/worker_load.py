"""Workers of the SDK as a load, which `benchmarks.workers` starts.

`python -m benchmarks.worker_load pull|stream|threads|batches …` drains a subscription with handlers
that do nothing, in two processes, and prints one JSON object as `benchmarks.peer_load` does.
`python -m benchmarks.worker_load idle --workers N …` prints the memory of a process in which N
workers wait for messages (0: one that has only imported the SDK).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from pathlib import Path
from typing import Any

import uvloop
from packetboat.aio.client import AsyncClient
from packetboat.models import Message
from packetboat.worker import Worker, WorkerApp, WorkerOptions

from benchmarks import peer_load
from benchmarks.peer_load import NO_LIMIT, PROCESSES, OnBody, in_processes, receive

CASES: dict[str, WorkerOptions] = {
    "pull": {"source": "pull"},
    "stream": {"source": "stream"},
    "threads": {"source": "pull"},
    "batches": {"source": "pull", "batch_size": 100},
}
SETTLE_S = 3.0


class WorkerPeer:
    """A worker with the defaults; `urls` are the URL, the token, the subscription and the case."""

    def __init__(self, urls: list[str]) -> None:
        self._url, self._token, self._subscription, self._case = urls

    async def open(self) -> None:
        self._client = AsyncClient(self._url, self._token)

    async def consume(self, on_body: OnBody) -> None:
        async def handle(message: Message) -> None:
            on_body(message.body)

        async def handle_batch(messages: list[Message]) -> None:
            for message in messages:
                on_body(message.body)

        def handle_in_thread(message: Message) -> None:
            on_body(message.body)

        handler: Any = {"threads": handle_in_thread, "batches": handle_batch}.get(
            self._case, handle
        )
        await Worker(self._client, self._subscription, **CASES[self._case]).arun(handler)

    async def close(self) -> None:
        await self._client.close()


def resident_mib() -> float:
    """Return the private memory of this process, without shared pages."""
    text = Path(f"/proc/{os.getpid()}/smaps_rollup").read_text()
    kib = [int(line.split()[1]) for line in text.splitlines() if line.startswith("Private_")]
    return sum(kib) / 1024


async def idle(url: str, token: str, subscription: str, workers: int) -> float:
    """Return MiB once all workers wait. Their subscriptions are `subscription`-0, -1, …"""
    if not workers:
        return resident_mib()
    async with AsyncClient(url, token) as client:
        app = WorkerApp(client)
        for number in range(workers):
            app.subscription(f"{subscription}-{number}")(lambda message: None)
        running = asyncio.create_task(app.arun())
        await asyncio.sleep(SETTLE_S)
        found = resident_mib()
        app.stop()
        await running
    return found


def main() -> None:
    """Measure one case, and print one JSON object to stdout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", choices=(*CASES, "idle"))
    parser.add_argument("--url", required=True)
    parser.add_argument("--token", required=True)
    parser.add_argument("--subscription", required=True)
    parser.add_argument("--pids", default="")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    if options.case == "idle":
        at = (options.url, options.token, options.subscription, options.workers)
        print(json.dumps({"mib": uvloop.run(idle(*at))}))
        return
    peer_load.PEERS["packetboat"] = WorkerPeer  # type: ignore[assignment]
    urls = [options.url, options.token, options.subscription, options.case]
    pids = [int(pid) for pid in options.pids.split(",")]
    acts: list[Any] = [lambda peer: receive(peer, options.seconds, NO_LIMIT)] * PROCESSES
    print(json.dumps(in_processes("packetboat", urls, pids, acts)))


if __name__ == "__main__":
    main()
