"""A subscription consumed by streams, acked over another connection."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any, ClassVar

import httpx

from tests.chaos.delivery.actor import Actor, Message
from tests.chaos.delivery.caller import HOST, PAUSE_S, Caller

CUT = "a stream was cut and another took its place"
SITUATIONS = (CUT,)
READ_TIMEOUT_S = 5.0
WINDOW = 50


class Streamed(Actor):
    name: ClassVar[str] = "streamed"
    recorded: ClassVar[bool] = True
    subscription: ClassVar[dict[str, Any]] = {"ack_deadline_seconds": 2}

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._acked: dict[str, float] = {}
        """Message id → when an ack of it was answered 200."""
        self._payloads: set[str] = set()
        self._streams = 0

    async def _work(self, finished: asyncio.Event) -> None:
        caller = self.caller()
        async with httpx.AsyncClient(
            base_url=f"http://{HOST}:{self.site.port}",
            headers={"Authorization": f"Bearer {self.site.token}"},
            timeout=READ_TIMEOUT_S,
        ) as client:
            while not finished.is_set():
                try:
                    await self._stream(client, caller, finished)
                except httpx.HTTPError:
                    await asyncio.sleep(PAUSE_S)
        caller.close()

    async def _stream(
        self, client: httpx.AsyncClient, caller: Caller, finished: asyncio.Event
    ) -> None:
        query = {"max_outstanding_messages": WINDOW, "heartbeat_seconds": 1}
        opened_s = time.monotonic()
        async with client.stream("GET", f"{self.path}/messages:stream", params=query) as response:
            if response.status_code != 200:
                await asyncio.sleep(PAUSE_S)
                return
            self._streams += 1
            self.sometimes.hit(CUT, self._streams > self.workers)
            batch: list[Message] = []
            async for line in response.aiter_lines():
                each = json.loads(line)
                if "message" in each:
                    batch.append(self._message(each["message"], opened_s))
                if batch and (len(batch) >= WINDOW // 2 or "heartbeat" in each):
                    await self._ack(caller, batch)
                    batch = []
                if finished.is_set() or "end" in each:
                    return

    def _message(self, each: dict[str, Any], opened_s: float) -> Message:
        if self._acked.get(each["message_id"], opened_s) < opened_s:
            self.broke(f"{each['data']!r} was given again after its ack")
        return self.got(each, opened_s)

    async def _ack(self, caller: Caller, messages: list[Message]) -> None:
        told = await self.ack_surely(caller, messages)
        now_s = time.monotonic()
        for message, ok in zip(messages, told, strict=True):
            if ok:
                self._acked.setdefault(message.message_id, now_s)
                self._payloads.add(message.payload)

    def done(self) -> bool:
        return self.accepted() <= self._payloads

    def left(self) -> str:
        return str(sorted(self.accepted() - self._payloads)[:5])
