"""A partition that is read again and again, beside a subscription of it.

The promises: offsets have no gap; an offset has the same message whenever and however it is read;
every receipt's message is where the receipt says, and nothing else is.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar

import httpx

from tests.chaos.delivery.actor import DRAIN_S, Actor, Message
from tests.chaos.delivery.caller import HOST, PAUSE_S, Caller

PARTITIONS = 2
READ_TIMEOUT_S = 10.0
LONG_AGO = "2020-01-01T00:00:00Z"
AGAIN = "a partition was read again as NDJSON, and was the same"
SETTLED = "a message's ack history said when it was acked"
PREVIEWED = "a filter was tried on what is stored"
SITUATIONS = (AGAIN, SETTLED, PREVIEWED)


class Replaying(Actor):
    name: ClassVar[str] = "replaying"
    pause_s: ClassVar[float] = 0.15
    topic: ClassVar[dict[str, Any]] = {"retention": {"mode": "retain"}, "ack_history": True}

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._read: list[list[tuple[str, str]]] = [[] for _ in range(PARTITIONS)]
        """The message ids and payloads, by partition and offset."""
        self._receipts: dict[tuple[int, int], tuple[str, str]] = {}
        self._acked: set[str] = set()

    def answered(self, payload: str, result: dict[str, Any]) -> None:
        super().answered(payload, result)
        if "message_id" in result:
            place = (result["partition"], result["offset"])
            self._receipts[place] = (result["message_id"], payload)

    async def handle(self, caller: Caller, messages: Sequence[Message]) -> None:
        told = await self.ack_surely(caller, messages)
        acked = [message for message, ok in zip(messages, told, strict=True) if ok]
        self._acked |= {message.payload for message in acked}
        if acked and self.dice.random() < 0.2:
            path = f"/topics/{self.name}/messages/{acked[0].message_id}/ack"
            reply = await caller.until_ok("GET", path)
            state = reply.body["subscriptions"][self.name]
            if state["state"] != "acked":
                self.broke(f"{acked[0].payload!r} was acked and is {state}")
            self.sometimes.hit(SETTLED, "settled_at" in state)

    def extras(self) -> list[Callable[[asyncio.Event], Awaitable[None]]]:
        return [self._replay, self._preview]

    async def _replay(self, published: asyncio.Event) -> None:
        readers = [self._replay_one(number, published) for number in range(PARTITIONS)]
        await asyncio.gather(*readers)

    async def _replay_one(self, partition: int, published: asyncio.Event) -> None:
        """Replay to the end of the acknowledged messages, once no more are."""
        caller = self.caller()
        stopped_s = None
        async with httpx.AsyncClient(
            base_url=f"http://{HOST}:{self.site.port}",
            headers={"Authorization": f"Bearer {self.site.token}"},
            timeout=READ_TIMEOUT_S,
        ) as client:
            while not (published.is_set() and self._is_whole(partition)):
                if published.is_set():
                    stopped_s = stopped_s or time.monotonic()
                    if time.monotonic() > stopped_s + DRAIN_S:
                        break
                await self._read_on(caller, partition)
                if self._read[partition] and self.dice.random() < 0.3:
                    await self._read_again(client, partition)
        caller.close()

    def _is_whole(self, partition: int) -> bool:
        end = len(self._read[partition])
        return all(offset < end for number, offset in self._receipts if number == partition)

    async def _read_on(self, caller: Caller, partition: int) -> None:
        log = self._read[partition]
        query = f"offset={len(log)}&max_messages={self.dice.randint(1, 100)}&wait_seconds=1"
        path = f"/topics/{self.name}/partitions/{partition}"
        reply = await caller.call("GET", f"{path}/messages?{query}")
        if not reply.ok:
            if 400 <= reply.status < 500 and reply.status != 429:
                self.broke(f"partition {partition} at {len(log)}: {reply}")
            await asyncio.sleep(PAUSE_S)
            return
        for each in reply.body["messages"]:
            if each["offset"] != len(log):
                self.broke(f"partition {partition}: {each['offset']} after {len(log) - 1}")
            log.append((each["message_id"], each["data"]))
        if (reply.body["first_offset"], reply.body["next_offset"]) != (0, len(log)):
            self.broke(f"partition {partition} at {len(log)}: {reply.body}")
        if self.dice.random() < 0.1:
            bounds = await caller.until_ok("GET", f"{path}/offsets?time={LONG_AGO}")
            if bounds.body["at"] != 0 or bounds.body["end"] < len(log):
                self.broke(f"partition {partition} of {len(log)}: {bounds.body}")

    async def _read_again(self, client: httpx.AsyncClient, partition: int) -> None:
        """Read a known stretch again, as a stream.

        A stream that is cut short proves the messages that it gave.
        """
        log = self._read[partition]
        offset = self.dice.randrange(len(log))
        query = {"offset": offset, "max_messages": min(200, len(log) - offset)}
        found: list[tuple[str, str]] = []
        whole = False
        try:
            async with client.stream(
                "GET",
                f"/topics/{self.name}/partitions/{partition}/messages",
                params=query,
                headers={"Accept": "application/x-ndjson"},
            ) as response:
                if response.status_code != 200:
                    return
                async for line in response.aiter_lines():
                    each = json.loads(line)
                    found.append((each["message_id"], each["data"]))
            whole = True
        except (httpx.HTTPError, json.JSONDecodeError):
            await asyncio.sleep(PAUSE_S)
        wanted = query["max_messages"] if whole else len(found)
        if found != log[offset : offset + wanted]:
            self.broke(f"partition {partition} at {offset} is not what it was: {found[:3]}")
        self.sometimes.hit(AGAIN, whole)

    async def _preview(self, published: asyncio.Event) -> None:
        caller = self.caller()
        body = {"filter": "size(attributes) == 0", "messages": 50}
        while not published.is_set():
            for path in (f"/topics/{self.name}", self.path):
                shown = (await caller.until_ok("POST", f"{path}:preview_filter", body)).body
                if shown["matched"] != shown["examined"]:
                    self.broke(f"a preview: {shown}")
                self.sometimes.hit(PREVIEWED, shown["matched"] > 0)
            await asyncio.sleep(1)
        caller.close()

    def done(self) -> bool:
        return self.accepted() <= self._acked

    def left(self) -> str:
        return str(sorted(self.accepted() - self._acked)[:5])

    async def check(self, caller: Caller) -> None:
        for (partition, offset), receipt in self._receipts.items():
            log = self._read[partition]
            if offset >= len(log) or log[offset] != receipt:
                self.broke(f"partition {partition} at {offset} is not {receipt}")
        times = Counter(payload for log in self._read for _, payload in log)
        for payload, count in times.items():
            if count != 1 or payload not in self.published:
                self.broke(f"{payload!r} is stored {count} times")
