"""Dead letters that go back to their subscription, by filter, at a rate; some for a second time,
some never.

The promises: a message comes from as many places in the log as it was redriven, and one
more; a discarded one from one; and the topic's other subscription gets each once.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar
from urllib.parse import quote

from tests.chaos.delivery.actor import DRAIN_S, Actor, Message
from tests.chaos.delivery.caller import PAUSE_S, Caller

LETTERS = "redriven-dead"
OTHER = "redriven-other"
WANTED = 'reason == "rejected" && attributes.kind != "junk"'
JUNK = 'attributes.kind == "junk"'
DEATHS = {"dead": 1, "twice": 2}
"""Kind → how often a message of it is rejected before it is acked; junk is so each time."""
SLOW, FAST = 5, 200
"""Messages per second."""
REDRIVEN = "dead letters were redriven to their subscription"
AGAIN = "a message died again after it was redriven"
CANCELLED = "a redrive was cancelled"
DISCARDED = "dead letters were discarded"
SITUATIONS = (REDRIVEN, AGAIN, CANCELLED, DISCARDED)

Place = tuple[int, int]
"""Partition and offset."""


class Redriven(Actor):
    name: ClassVar[str] = "redriven"
    pause_s: ClassVar[float] = 0.15
    subscription: ClassVar[dict[str, Any]] = {"dead_letter_topic": LETTERS}

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._places: defaultdict[str, set[Place]] = defaultdict(set)
        self._elsewhere: defaultdict[str, set[Place]] = defaultdict(set)
        """The places of messages that the other subscription got."""
        self._acked: set[str] = set()
        self._rejected: set[str] = set()

    async def prepare(self, caller: Caller) -> None:
        letters = {"name": LETTERS, "partitions": 2, "retention": {"mode": "retain"}}
        await caller.until_ok("POST", "/topics", letters)
        await super().prepare(caller)
        other = {"name": OTHER, "start": "earliest"}
        await caller.until_ok("POST", f"/topics/{self.name}/subscriptions", other)

    def next_message(self) -> dict[str, Any]:
        message = super().next_message()
        kind = self.dice.choice(["good"] * 6 + ["dead", "twice", "junk"])
        message["data"] = f"{kind} {message['data']}"
        message["attributes"] = {"kind": kind, "name": message["data"]}
        return message

    def saw(self, message: dict[str, Any]) -> None:
        self._places[message["data"]].add((message["partition"], message["offset"]))

    async def handle(self, caller: Caller, messages: Sequence[Message]) -> None:
        good = [each for each in messages if not self._is_to_die(each.payload)]
        bad = [each for each in messages if each not in good]
        if good:
            told = await self.ack_surely(caller, good)
            self._acked |= {m.payload for m, ok in zip(good, told, strict=True) if ok}
        if bad:
            told_bad = await self.tell(caller, "reject", bad, reason="torture") or []
            self._rejected |= {m.payload for m, ok in zip(bad, told_bad, strict=False) if ok}

    def _is_to_die(self, payload: str) -> bool:
        kind = payload.split()[0]
        return kind == "junk" or len(self._places[payload]) <= DEATHS.get(kind, 0)

    def extras(self) -> list[Callable[[asyncio.Event], Awaitable[None]]]:
        return [self._operate, self._read_other]

    async def _operate(self, published: asyncio.Event) -> None:
        """Redrives and discards until all that was published has found its end."""
        caller = self.caller()
        stopped_s = None
        while not (published.is_set() and self.done()):
            if published.is_set():
                stopped_s = stopped_s or time.monotonic()
                if time.monotonic() > stopped_s + DRAIN_S:
                    break
            await self._redrive(caller, gently=not published.is_set())
            path = f"{self.path}/dead_letters:discard"
            reply = await caller.call("POST", path, {"filter": JUNK})
            self.sometimes.hit(DISCARDED, reply.ok and reply.body["discarded"] > 0)
            await asyncio.sleep(PAUSE_S)
        caller.close()

    async def _redrive(self, caller: Caller, gently: bool) -> None:
        """Redrive once, to its end; the `gentle` ones are slow now and then, and are cancelled."""
        cancel = gently and self.dice.random() < 0.3
        path = f"{self.path}/dead_letters:redrive"
        body = {"filter": WANTED, "rate": SLOW if cancel else FAST}
        if self.dice.random() < 0.2:
            await caller.until_ok("POST", path, body | {"dry_run": True})
        reply = await caller.call("POST", path, body)
        if not reply.ok:
            await asyncio.sleep(PAUSE_S)
            return  # it may have begun: then there are two at once
        redrive, one = reply.body, f"{self.path}/redrives/{reply.body['redrive_id']}"
        if cancel:
            await asyncio.sleep(0.5)
            await caller.until_ok("POST", f"{one}:cancel")
        deadline_s = time.monotonic() + DRAIN_S
        while redrive["state"] in ("running", "cancelling"):
            if time.monotonic() > deadline_s:
                self.broke(f"a redrive does not end: {redrive}")
                return
            await asyncio.sleep(PAUSE_S)
            redrive = (await caller.until_ok("GET", one)).body
        if redrive["state"] == "failed" or redrive["failed"]:
            self.broke(f"not redriven: {redrive}")
        self.sometimes.hit(REDRIVEN, redrive["redriven"] > 0)
        self.sometimes.hit(CANCELLED, redrive["state"] == "cancelled")

    async def _read_other(self, published: asyncio.Event) -> None:
        caller = self.caller()
        deadline_s = None
        while not (published.is_set() and self.accepted() <= self._elsewhere.keys()):
            if published.is_set():
                deadline_s = deadline_s or time.monotonic() + DRAIN_S
                if time.monotonic() > deadline_s:
                    break
            await self._pull_other(caller, 1)
        caller.close()

    async def _pull_other(self, caller: Caller, wait_s: int) -> int:
        path = f"/subscriptions/{OTHER}"
        query = f"max_messages=100&wait_seconds={wait_s}"
        reply = await caller.call("GET", f"{path}/messages?{query}")
        messages = reply.body.get("messages", []) if reply.ok else []
        for each in messages:
            self._elsewhere[each["data"]].add((each["partition"], each["offset"]))
        if messages:
            ids = [each["ack_id"] for each in messages]
            await caller.call("POST", f"{path}/ack", {"ack_ids": ids})
        return len(messages)

    def _unsettled(self) -> set[str]:
        found = self.accepted() | self._places.keys()
        return {each for each in found - self._acked if not self._is_junk_gone(each)}

    def _is_junk_gone(self, payload: str) -> bool:
        return payload.startswith("junk") and payload in self._rejected | self._places.keys()

    def done(self) -> bool:
        return not self._unsettled()

    def left(self) -> str:
        return str(sorted(self._unsettled())[:5])

    async def check(self, caller: Caller) -> None:
        while await self._pull_other(caller, 1):
            pass
        redriven = await self._letters(caller, "redriven")
        discarded = await self._letters(caller, "discarded")
        for payload, places in self._places.items():
            if len(places) != 1 + redriven[payload]:
                told = f"redriven {redriven[payload]} times"
                self.broke(f"{payload!r} came from {len(places)} places, {told}")
            if redriven[payload] > DEATHS.get(payload.split()[0], 0) or discarded[payload] > 1:
                self.broke(f"{payload!r} is a dead letter too often")
            self.sometimes.hit(AGAIN, redriven[payload] > 1)
        for payload in self.accepted() - self._elsewhere.keys():
            self.broke(f"{OTHER} never got {payload!r}")
        for payload, places in self._elsewhere.items():
            if len(places) != 1:
                self.broke(f"{OTHER} got {payload!r} from {len(places)} places")
        books = await caller.until_ok("GET", f"/subscriptions/{OTHER}/reconciliation")
        if not books.body["balanced"]:
            self.broke(f"the books of {OTHER} do not balance: {books.body}")

    async def _letters(self, caller: Caller, state: str) -> Counter[str]:
        """Return how many dead letters in that state each message has."""
        found: Counter[str] = Counter()
        path = f"{self.path}/dead_letters?state={state}&page_size=100"
        token = ""
        while True:
            page = (await caller.until_ok("GET", path + token)).body
            found.update(each["attributes"]["name"] for each in page["dead_letters"])
            if page["next_page_token"] is None:
                return found
            token = f"&page_token={quote(page['next_page_token'])}"
