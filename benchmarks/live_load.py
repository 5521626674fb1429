"""Load at a steady rate, or as much as there is room for, while something else is measured.

The figures of any span of time can be read afterwards.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from harness.http_client import connect, request
from harness.measure import percentile

PER_S = 200
CONNECTIONS = 4
BATCH = 64
BODY = "x" * 1000
SETTLE_S = 1.0


class Window(NamedTuple):
    """Figures of the requests that began in a span of time."""

    rate: float
    p50_ms: float
    p99_ms: float
    failed: int


class LiveLoad:
    """A thread that publishes, from `with` to its end.

    If `paced`, it sends one message at a time, `PER_S` a second, over connections of their own;
    otherwise batches, each when the one before was answered.
    """

    def __init__(self, url: str, token: str, topic: str, *, paced: bool) -> None:
        self._url = urlsplit(url)
        self._token = token
        self._topic = topic
        self._paced = paced
        self._samples: list[tuple[float, float, int]] = []
        """Samples of time, duration and number of messages, which is negative for a failure."""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def __enter__(self) -> LiveLoad:
        self._thread.start()
        time.sleep(SETTLE_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def window(self, began_s: float, ended_s: float) -> Window:
        """Return the figures of a span of time, by `time.perf_counter`."""
        inside = [each for each in self._samples if began_s <= each[0] and sum(each[:2]) < ended_s]
        took_ms = [took_s * 1000 for _, took_s, count in inside if count > 0]
        done = sum(count for _, _, count in inside if count > 0)
        failed = -sum(count for _, _, count in inside if count < 0)
        rate = done / (ended_s - began_s)
        return Window(rate, percentile(took_ms, 50), percentile(took_ms, 99), failed)

    async def _run(self) -> None:
        act = self._steady if self._paced else self._saturate
        await asyncio.gather(*(act(number) for number in range(CONNECTIONS)))

    async def _steady(self, number: int) -> None:
        """Each has its turns; one that comes too late for its turn goes at once."""
        every_s = CONNECTIONS / PER_S
        path, body = f"/topics/{self._topic}/messages", json.dumps(BODY).encode()
        send = await self._sender(request("POST", path, self._token, body), 201, 1)
        due_s = time.perf_counter() + number / PER_S
        while not self._ended.is_set():
            await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
            await send(due_s)
            due_s += every_s

    async def _saturate(self, number: int) -> None:
        path = f"/topics/{self._topic}/messages:batch"
        body = json.dumps({"messages": [{"data": BODY}] * BATCH}).encode()
        send = await self._sender(request("POST", path, self._token, body), 200, BATCH)
        while not self._ended.is_set():
            await send(time.perf_counter())

    async def _sender(
        self, whole: bytes, status: int, count: int
    ) -> Callable[[float], Coroutine[Any, Any, None]]:
        """Sends it once, and notes how long after it was due the answer came."""
        assert self._url.hostname is not None
        assert self._url.port is not None
        connection = await connect(self._url.hostname, self._url.port)

        async def send(due_s: float) -> None:
            answer = await connection.send(whole)
            took_s = time.perf_counter() - due_s
            good = answer.status == status
            self._samples.append((due_s, took_s, count if good else -count))

        return send
