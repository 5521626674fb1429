"""The rows that only Postgres has, over its restore: positions that were sought, snapshots, dead
letters, redrives, outputs of acks, schedules, and locks that are held.

    before    each is made, and used once
    since     each is used again, and the backup forgets that
    after     it is as the backup has it, can be used, and never answers for what was forgotten
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

from metadata.eras import FENCE_BITS
from tests.chaos.delivery.caller import Caller, Reply

FOUND_S = 30.0
TTL_S = 120
QUIET_PULLS = 2
Message = dict[str, Any]


class Callers:
    """Any number of requests at once, each on a connection of its own."""

    def __init__(self, port: int, token: str) -> None:
        self._port = port
        self._token = token

    async def call(self, method: str, path: str, body: object = None, *, accept: str = "") -> Reply:
        """See `Caller.call`."""
        caller = Caller(self._port, self._token)
        try:
            return await caller.call(method, path, body, accept=accept)
        finally:
            caller.close()


class Rows:
    """Subscriptions of their own, with one message each."""

    def __init__(self, caller: Callers) -> None:
        self.caller = caller
        self.lost_ack_id = ""
        """The ack id of a cursor generation that the backup never knew."""
        self.held: dict[str, Any] = {}

    # Before the restore ------------------------------------------------------------------------

    async def before(self) -> None:
        for name in ("sought", "input", "output", "dead", "runs"):
            await self.make(name)
        dying = {"retry": {"max_attempts": 1}, "dead_letter_topic": "dead"}
        for name in ("dying", "dying-again"):
            await self.make(name, **dying)
            await self.publish(name)
        await self.publish("sought")
        await self.publish("input")
        await self.ack((await self.all_of("sought", 1))[0], "sought")
        await self._snapshot("early")
        await self._die("dying")
        await self._until("/subscriptions/dying/dead_letters", "dead_letters", 1)
        every_minute = {"name": "runs", "topic": "runs", "cron": "* * * * *", "missed_runs": "all"}
        await self.ok("POST", "/schedules", every_minute | {"message": {"data": "run"}})
        request = {"ttl_seconds": TTL_S, "holder": "me"}
        self.held = (await self.ok("POST", "/locks/held:acquire", request)).body

    async def since(self) -> None:
        await self.ok("POST", "/subscriptions/sought/seek", {"to": "earliest"})
        (message,) = await self.all_of("sought", 1)
        self.lost_ack_id = message["ack_id"]
        await self.ok("DELETE", "/snapshots/early")
        await self._snapshot("late")
        await self._redrive()
        (redriven,) = await self.all_of("dying", 1)
        await self.ack(redriven, "dying")
        await self._die("dying-again")
        await self._until("/subscriptions/dying-again/dead_letters", "dead_letters", 1)
        await self._ack_with_output()
        lost = {"ttl_seconds": TTL_S, "holder": "lost"}
        await self.ok("POST", "/locks/lost:acquire", lost)

    # After the restore -------------------------------------------------------------------------

    async def after(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._check_locks())
            tasks.create_task(self._check_seek())
            tasks.create_task(self._check_dead_letters())
            tasks.create_task(self._check_outputs())
            tasks.create_task(self._check_runs())
        for name in ("sought", "dying", "dying-again", "input", "output", "runs"):
            books = await self.ok("GET", f"/subscriptions/{name}/reconciliation")
            assert books.body["balanced"], books.body

    async def _check_locks(self) -> None:
        """Check that the holder of a lock keeps it, with a token above all that were given
        since.
        """
        other = await self.caller.call("POST", "/locks/held:acquire", {"holder": "other"})
        assert other.status == 409, other
        renewed = await self.ok("POST", "/locks/held:renew", {"lock_id": self.held["lock_id"]})
        assert renewed.body["fencing_token"] >= 1 << FENCE_BITS, renewed
        old = {"fencing_token": self.held["fencing_token"]}
        assert not (await self.ok("POST", "/locks/held:verify", old)).body["current"]
        await self.ok("POST", "/locks/held:release", {"lock_id": self.held["lock_id"]})
        got = await self.ok("POST", "/locks/lost:acquire", {"holder": "next"})
        assert got.body["fencing_token"] > 1 << FENCE_BITS

    async def _check_seek(self) -> None:
        """Check a message that was acked before the backup: only the next seek brings it again."""
        assert await self.all_of("sought") == []
        assert (await self.caller.call("GET", "/snapshots/late")).status == 404
        await self.ok("POST", "/subscriptions/sought/seek", {"to": {"snapshot": "early"}})
        assert await self.all_of("sought") == []
        await self.ok("POST", "/subscriptions/sought/seek", {"to": "earliest"})
        ids = {"ack_ids": [self.lost_ack_id]}
        stale = await self._until_done("POST", "/subscriptions/sought/ack", ids)
        assert "stale-ack-id" in str(stale.body["results"]), stale
        (message,) = await self.all_of("sought")
        await self.ack(message, "sought")

    async def _check_dead_letters(self) -> None:
        """Redriven since: its ack is forgotten, it is redriven again, and comes once."""
        await self._until("/subscriptions/dying/dead_letters", "dead_letters", 1)
        await self._redrive()
        (redriven,) = await self.all_of("dying")
        await self.ack(redriven, "dying")
        # Dead since: it is delivered again, dies again, and is in the topic once.
        await self._die("dying-again")
        await self._until("/subscriptions/dying-again/dead_letters", "dead_letters", 1)
        letters = [message["data"] for message in await self.all_of("dead")]
        assert Counter(letters) == {"dying": 1, "dying-again": 1}, letters

    async def _check_outputs(self) -> None:
        """Check the messages acked with an output since: both come again."""
        await self._ack_with_output()
        assert [each["data"] for each in await self.all_of("output")] == ["made", "made"]

    async def _check_runs(self) -> None:
        times = Counter(
            each["attributes"]["packetboat-scheduled-time"] for each in await self.all_of("runs")
        )
        assert all(count == 1 for count in times.values()), times

    # Shorthand --------------------------------------------------------------------------------

    async def ok(self, method: str, path: str, body: object = None) -> Reply:
        reply = await self._until_done(method, path, body)
        assert reply.ok, (method, path, reply)
        return reply

    async def _until_done(self, method: str, path: str, body: object = None) -> Reply:
        """Repeat the request where nobody has the partition just now."""
        deadline_s = time.monotonic() + FOUND_S
        while True:
            reply = await self.caller.call(method, path, body)
            if reply.status != 503 or time.monotonic() > deadline_s:
                return reply

    async def make(self, name: str, **subscription: object) -> None:
        retained = {"mode": "retain"}
        await self.ok("POST", "/topics", {"name": name, "partitions": 1, "retention": retained})
        spec = {"name": name, "start": "earliest", "ack_deadline_seconds": 60}
        await self.ok("POST", f"/topics/{name}/subscriptions", spec | subscription)

    async def publish(self, name: str) -> None:
        body = {"messages": [{"data": name, "content_type": "text/plain"}]}
        await self.ok("POST", f"/topics/{name}/messages:batch", body)

    async def _snapshot(self, name: str) -> None:
        await self.ok("POST", "/subscriptions/sought/snapshots", {"name": name})

    async def all_of(self, name: str, count: int | None = None) -> list[Message]:
        """Pull `count` messages, or until nothing has come for a while; they are not acked."""
        found: list[Message] = []
        quiet, deadline_s = 0, time.monotonic() + FOUND_S
        while len(found) < count if count is not None else quiet < QUIET_PULLS:
            assert time.monotonic() < deadline_s, (name, found)
            path = f"/subscriptions/{name}/messages?max_messages=10&wait_seconds=1"
            reply = await self.caller.call("GET", path)
            assert reply.status in (200, 503), reply
            more = reply.body.get("messages", [])
            found += more
            quiet = 0 if more or reply.status == 503 else quiet + 1
        return found

    async def ack(self, message: Message, name: str, **more: object) -> None:
        body = {"ack_ids": [message["ack_id"]]} | more
        reply = await self.ok("POST", f"/subscriptions/{name}/ack", body)
        assert reply.body["results"] == [], reply

    async def _ack_with_output(self) -> None:
        (message,) = await self.all_of("input", 1)
        output = {"topic": "output", "data": "made", "content_type": "text/plain"}
        await self.ack(message, "input", publish=[output])

    async def _die(self, name: str) -> None:
        (message,) = await self.all_of(name, 1)
        body = {"ack_ids": [message["ack_id"]]}
        await self.ok("POST", f"/subscriptions/{name}/nack", body)

    async def _redrive(self) -> None:
        """Redrive until it is done."""
        letters = "/subscriptions/dying/dead_letters"
        made = (await self.ok("POST", f"{letters}:redrive", {})).body
        path = f"/subscriptions/dying/redrives/{made['redrive_id']}"
        deadline_s = time.monotonic() + FOUND_S
        while (now := (await self.ok("GET", path)).body)["state"] == "running":
            assert time.monotonic() < deadline_s, now
            await asyncio.sleep(0.1)
        assert (now["redriven"], now["failed"]) == (1, 0), now

    async def _until(self, path: str, what: str, count: int) -> None:
        deadline_s = time.monotonic() + FOUND_S
        while len((found := await self.ok("GET", path)).body[what]) != count:
            assert time.monotonic() < deadline_s, found
            await asyncio.sleep(0.1)
