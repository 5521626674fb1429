"""A subscription that is pushed to an endpoint which refuses messages and drops requests.

A message answered with 2xx may come again where the server or Postgres went before that was written
down, however long they then take to come back; and never where neither did.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec

from tests.chaos.delivery.actor import Actor
from tests.chaos.delivery.caller import Caller

AGAIN = "a message was pushed again"
SITUATIONS = (AGAIN,)
CONCURRENCY = 8
COMMITTED_S = 20.0
"""By then an answer has been written down, where nothing ended."""
BACK_S = 20.0
"""Seconds after Postgres is there again for which acks may still wait to be committed."""


def is_kept(answer_s: float, now_s: float, lapses: Sequence[float]) -> bool:
    """Return whether a 2xx of then must have been written down by now."""
    until_s = answer_s + COMMITTED_S
    return now_s > until_s and not any(answer_s - BACK_S <= lapse <= until_s for lapse in lapses)


class Pushed(Actor):
    name: ClassVar[str] = "pushed"
    workers: ClassVar[int] = 0

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._taken: dict[str, list[float]] = {}
        """Payload → when a 2xx was answered."""
        self._seen: set[str] = set()
        self._out = 0
        self._server: asyncio.Server | None = None

    async def prepare(self, caller: Caller) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        await caller.until_ok("POST", "/topics", {"name": self.name, "partitions": 2})
        push = {
            "url": f"http://127.0.0.1:{port}/in",
            "verify": False,
            "signing": [],
            "max_concurrency": CONCURRENCY,
            "timeout_seconds": 2,
            "disable_after_seconds": None,
        }
        spec = {
            "name": self.name,
            "type": "push",
            "push": push,
            "start": "earliest",
            "ack_deadline_seconds": 2,
            "retry": {"min_backoff_seconds": 0.05, "max_backoff_seconds": 0.5},
        }
        await caller.until_ok("POST", f"/topics/{self.name}/subscriptions", spec)

    async def check(self, caller: Caller) -> None:
        if self._server is not None:
            self._server.close()

    def done(self) -> bool:
        return self.accepted() <= self._taken.keys()

    def left(self) -> str:
        return str(sorted(self.accepted() - self._taken.keys())[:5])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
                length = int(head.partition("content-length:")[2].partition("\r\n")[0])
                status = await self._receive(await reader.readexactly(length))
                if not status:
                    break
                writer.write(b"HTTP/1.1 %d x\r\ncontent-length: 0\r\n\r\n" % status)
                await writer.drain()
        except (OSError, EOFError, ValueError):
            pass
        finally:
            writer.close()

    async def _receive(self, body: bytes) -> int:
        """Return the status to answer with; 0: nothing."""
        (each,) = msgspec.json.decode(body)["messages"]
        payload = self.payload_of(each["data"])
        self._out += 1
        if self._out > 2 * CONCURRENCY:  # of a server that died, and of the next
            self.broke(f"{self._out} requests at once")
        await asyncio.sleep(self.dice.random() * 0.01)
        self._out -= 1
        now_s = time.monotonic()
        self.sometimes.hit(AGAIN, payload in self._seen)
        self._seen.add(payload)
        if any(is_kept(answer_s, now_s, self.lapses) for answer_s in self._taken.get(payload, ())):
            self.broke(f"{payload!r} was pushed again after its answer")
        roll = self.dice.random()
        if roll < 0.02:
            return 0
        if roll < 0.05:
            return 422
        self._taken.setdefault(payload, []).append(now_s)
        return 200
