"""The messages that a topic takes, and those that the clock publishes.

A schema gets versions while messages come; one schedule is run by hand and one runs by itself.

The promises: a message that does not fit is refused and never comes, and one that fits is never
refused for that; a run that was answered comes, and no more come than were asked for; a time has
one run.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar

from tests.chaos.delivery.actor import Actor, Message
from tests.chaos.delivery.caller import Caller

VERSION = "packetboat-schema-version"
MOST_VERSIONS = 200
REFUSED = "a body that does not fit was refused"
NAMED = "a body fitted the version it names"
ADDED = "a version was added while messages came"
RAN = "a schedule was run by hand"
CLOCK = "a schedule ran by itself"
PATCHED = "a topic was changed while messages came"
SITUATIONS = (REFUSED, NAMED, ADDED, RAN, CLOCK, PATCHED)

BY_HAND = "published-by-hand"
BY_CLOCK = "published-by-clock"


class Published(Actor):
    name: ClassVar[str] = "published"
    pause_s: ClassVar[float] = 0.15
    topic: ClassVar[dict[str, Any]] = {"schema": name}

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._fits: dict[str, bool] = {}
        self._named: set[str] = set()
        self._version = 1
        self._acked: set[str] = set()
        self._asked = 0
        """Runs; of each it may be unknown whether it was done."""
        self._ran: set[tuple[int, int]] = set()
        """Partition and offset of those that were answered."""
        self._runs: set[tuple[int, int]] = set()
        """The runs that came."""
        self._times: defaultdict[str, set[tuple[int, int]]] = defaultdict(set)

    async def prepare(self, caller: Caller) -> None:
        schema = {"name": self.name, "type": "json_schema", "definition": self._definition(1)}
        await caller.until_ok("POST", "/schemas", schema)
        await super().prepare(caller)
        for name, cron in ((BY_HAND, "0 0 1 1 *"), (BY_CLOCK, "* * * * *")):
            schedule = {"name": name, "topic": self.name, "cron": cron, "missed_runs": "all"}
            message = {"data": {"id": 0, "note": name}}
            await caller.until_ok("POST", "/schedules", schedule | {"message": message})

    @staticmethod
    def _definition(version: int) -> dict[str, Any]:
        """Closed, so what only a later version has does not fit."""
        later = {f"p{number}": {"type": "integer"} for number in range(2, version + 1)}
        return {
            "type": "object",
            "required": ["id"],
            "properties": {"id": {"type": "integer"}, "note": {"type": "string"}} | later,
            "additionalProperties": False,
        }

    def payload_of(self, data: Any) -> str:
        return json.dumps(data, sort_keys=True)

    def next_message(self) -> dict[str, Any]:
        number = next(self._numbers) + 1
        kind = self.dice.choice(["plain", "plain", "wrong", "named", "early"])
        data: dict[str, Any] = {"id": str(number) if kind == "wrong" else number}
        message: dict[str, Any] = {"data": data}
        if kind in ("named", "early"):
            version = self._version
            data[f"p{version + (kind == 'early')}"] = number
            message["attributes"] = {VERSION: str(version)}
        fits = kind == "plain" or (kind == "named" and self._version > 1)
        self._fits[self.payload_of(data)] = fits
        if fits and kind == "named":
            self._named.add(self.payload_of(data))
        return message

    def answered(self, payload: str, result: dict[str, Any]) -> None:
        super().answered(payload, result)
        refused = result.get("status") == 422
        if refused == self._fits[payload] and (refused or "message_id" in result):
            self.broke(f"{payload} was answered {result}")
        self.sometimes.hit(REFUSED, refused)
        self.sometimes.hit(NAMED, payload in self._named and "message_id" in result)

    def saw(self, message: dict[str, Any]) -> None:
        place = (message["partition"], message["offset"])
        note = message["data"].get("note")
        if note == BY_HAND:
            self._runs.add(place)
        elif note == BY_CLOCK:
            self._times[message["attributes"]["packetboat-scheduled-time"]].add(place)
            self.sometimes.hit(CLOCK)
        elif not self._fits[self.payload_of(message["data"])]:
            self.broke(f"{message['data']} came")

    async def handle(self, caller: Caller, messages: Sequence[Message]) -> None:
        told = await self.ack_surely(caller, messages)
        self._acked |= {m.payload for m, ok in zip(messages, told, strict=True) if ok}

    def extras(self) -> list[Callable[[asyncio.Event], Awaitable[None]]]:
        return [self._operate]

    async def _operate(self, published: asyncio.Event) -> None:
        caller = self.caller()
        while not published.is_set():
            tasks = (self._call_run, self._call_run, self._add_version, self._patch, self._look)
            await self.dice.choice(tasks)(caller)
            await asyncio.sleep(0.3)
        caller.close()

    async def _call_run(self, caller: Caller) -> None:
        self._asked += 1
        reply = await caller.call("POST", f"/schedules/{BY_HAND}:run")
        if reply.ok:
            self._ran.add((reply.body["partition"], reply.body["offset"]))
            self.sometimes.hit(RAN)

    async def _add_version(self, caller: Caller) -> None:
        if self._version >= MOST_VERSIONS:
            return
        body = {"definition": self._definition(self._version + 1)}
        reply = await caller.until_ok("POST", f"/schemas/{self.name}/versions", body)
        if reply.body.get("number") != self._version + 1:
            self.broke(f"version {self._version + 1} was answered {reply}")
        self._version += 1
        self.sometimes.hit(ADDED)

    async def _patch(self, caller: Caller) -> None:
        """Neither changes what is published."""
        labels = {"labels": {"round": str(self.dice.randint(0, 9))}}
        await caller.until_ok("PATCH", f"/topics/{self.name}", labels)
        await caller.until_ok("POST", f"/schedules/{BY_HAND}:pause")
        await caller.until_ok("PATCH", f"/schedules/{BY_HAND}", {"cron": "0 0 1 2 *"})
        await caller.until_ok("POST", f"/schedules/{BY_HAND}:resume")
        self.sometimes.hit(PATCHED)

    async def _look(self, caller: Caller) -> None:
        """Check that requests that only look tell the truth."""
        schema, narrow = f"/schemas/{self.name}", {"type": "object", "required": ["note"]}
        checked = await caller.until_ok("POST", f"{schema}:check", {"definition": narrow})
        valid = await caller.until_ok("POST", f"{schema}:validate", {"data": {"id": "wrong"}})
        if checked.body["compatible"] or valid.body["valid"]:
            self.broke(f"{checked.body}, {valid.body}")
        preview = {"schema": self.name}
        shown = await caller.until_ok("POST", f"/topics/{self.name}:preview_schema", preview)
        if shown.body["valid"] != shown.body["messages"]:
            self.broke(f"stored, and does not fit: {shown.body}")
        await caller.until_ok("GET", f"/schedules/{BY_CLOCK}/next?count=3")

    def done(self) -> bool:
        return self.accepted() <= self._acked and self._ran <= self._runs

    def left(self) -> str:
        return str(sorted(self.accepted() - self._acked)[:5] or sorted(self._ran - self._runs)[:5])

    async def check(self, caller: Caller) -> None:
        if len(self._runs) > self._asked:
            self.broke(f"{len(self._runs)} runs came, {self._asked} were asked for")
        for _ in range(20):
            if not self._gaps():
                break
            for message in await self.pull(caller, 100):
                await self.handle(caller, [message])
        for gap in self._gaps():
            self.broke(f"no run at {gap}")
        for when, places in self._times.items():
            if len(places) != 1:
                self.broke(f"{len(places)} runs at {when}")

    def _gaps(self) -> list[str]:
        """Return the minutes between the first and the last run that had none."""
        times = sorted(datetime.fromisoformat(each) for each in self._times)
        minute = timedelta(minutes=1)
        return [
            str(one + minute)
            for one, next_one in itertools.pairwise(times)
            if next_one - one != minute
        ]
