"""Postgres restored from a backup under load, and everything that was done since then held against
what is there afterwards.

    before   topics are published to and consumed; the backup
    since    topics are made, moved, grown, deleted; messages are acked, given up for now, delayed;
             locks change hands; then as much time as the backup is to be old
    restored what publishers were told is there, what the backup forgot comes again, nothing that
             was handed out before is taken for something new
"""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import asyncpg

from harness.cluster import ChaosCluster
from metadata.eras import FENCE_BITS
from tests.chaos import base_backup
from tests.chaos.delivery.caller import Reply
from tests.chaos.restored_rows import Callers, Rows
from tests.chaos.scenarios import Torture
from tests.chaos.workload import failed

ERA_S = 60.0
DRAIN_S = 60.0
QUIET_PULLS = 2
"""Empty ones in a row after which a subscription has nothing more."""
MESSAGES = 20
TRIM_S = 20.0
Names = set[str]


class Restored:
    """One run on a cluster of its own, which is published to all the time."""

    def __init__(self, cluster: ChaosCluster, torture: Torture | None, root: Path) -> None:
        self.cluster = cluster
        self.torture = torture
        self.backup = root / "base-backup"
        self.caller = Callers(cluster.http_port, cluster.token)
        self.rows = Rows(self.caller)
        self.published: dict[str, Names] = {}
        """The messages answered 201, by topic."""
        self.acked: Names = set()
        """Before the backup, so it never comes again."""
        self.fences: list[int] = []
        self.ids: dict[str, str] = {}
        """Ack ids of messages that were out when the backup was restored, by subscription."""

    async def run(self, age_s: float) -> None:
        await self.prepare(age_s)
        assert self.torture is not None
        killed_s = time.monotonic()
        self.lose()
        await self.cluster.start_postgres()
        await self.until_era(1)
        await self.cluster.until_ready()
        meanwhile = self.torture.workload.between(killed_s, time.monotonic())
        await self.torture.workload.answered(meanwhile)
        bad = failed(meanwhile)
        assert not bad, f"{len(bad)} publishes failed: {sorted({each.reason for each in bad})}"
        await self.after()

    async def prepare(self, age_s: float) -> None:
        """Until the backup is so old, and things have been done since."""
        await self.before()
        await base_backup.take(self.cluster.postgres, self.backup)
        taken_s = time.monotonic()
        await self.since()
        await asyncio.sleep(max(0.0, taken_s + age_s - time.monotonic()))

    def lose(self) -> None:
        """The backup is in the place of Postgres, which does not run."""
        self.cluster.kill_postgres()
        base_backup.restore(self.cluster.postgres, self.backup)

    # Before the restore ------------------------------------------------------------------------

    async def before(self) -> None:
        for topic in ("moved", "grown", "gone", "trimmed", "once"):
            delivery = {"delivery": "exactly_once"} if topic == "once" else {}
            await self.make(topic, **delivery)
            await self.publish(topic, "old")
        self.acked |= await self.consume("moved", MESSAGES // 2)
        await self.lock("old-lock")
        await self.rows.before()

    async def since(self) -> None:
        await self.make("late")
        await self.publish("late", "new")
        await self.ok("DELETE", "/topics/gone?force=true")
        for topic in ("moved", "late"):
            group = await self.group_of(topic)
            other = {"group": (group + 1) % 8}
            await self.until_done("POST", f"/topics/{topic}/partitions/0:move", other)
        await self.until_done("POST", "/topics/grown:grow", {"partitions": 4})
        await self.until_done("POST", "/topics/late:grow", {"partitions": 4})
        for topic in ("moved", "grown", "late"):
            await self.publish(topic, "newer")
        await self.publish("moved", "delayed", count=3, delay_seconds=8)
        await self.trim("trimmed")
        for topic in ("moved", "once"):
            self.ids[topic] = await self.lease_one(topic)
        await self.lock("old-lock")
        await self.lock("new-lock")
        await self.rows.since()

    async def trim(self, topic: str) -> None:
        """Ack and truncate all messages but one; that one failed, and is kept."""
        first = True
        while messages := await self.pull(topic, MESSAGES):
            ids = [each["ack_id"] for each in messages]
            if first:
                failed_one = {"ack_ids": ids[:1], "delay_seconds": 600}
                await self.ok("POST", f"/subscriptions/{topic}/nack", failed_one)
                ids, first = ids[1:], False
            if ids:
                await self.ok("POST", f"/subscriptions/{topic}/ack", {"ack_ids": ids})
        deadline_s = time.monotonic() + TRIM_S
        while True:
            listed = await self.ok("GET", f"/topics/{topic}/partitions")
            if all(row["first"] == row["end"] for row in listed.body["partitions"]):
                return
            assert time.monotonic() < deadline_s, listed.body
            await asyncio.sleep(0.2)

    # After the restore -------------------------------------------------------------------------

    async def after(self) -> None:
        await self.check_ids()
        await asyncio.gather(self.check_messages(), self.rows.after())
        await self.check_topics()
        await self.check_locks()
        await self.check_orphan()

    async def check_messages(self) -> None:
        """Check all messages that are not acked as the backup has it, whatever was done since."""
        topics = ("moved", "grown", "once", "trimmed")
        for topic, got in zip(
            topics, await asyncio.gather(*map(self.consume, topics)), strict=True
        ):
            wanted = self.published[topic] - self.acked
            if topic == "trimmed":
                assert len(got) == 1, f"the one message that was not acked is delivered: {got}"
            else:
                assert got == wanted, _differ(topic, got, wanted)
            await self.until_balanced(topic)

    async def check_ids(self) -> None:
        """Check acks of before: at least once they are good for ever, exactly once no lease
        of before is.
        """
        told = await self.acknowledge("moved", self.ids["moved"])
        assert told["results"] == [], told
        told = await self.acknowledge("once", self.ids["once"])
        assert len(told["results"]) == 1, told

    async def acknowledge(self, subscription: str, ack_id: str) -> dict[str, Any]:
        """Repeat the ack until its partition has an owner."""
        path = f"/subscriptions/{subscription}/ack"
        return (await self.until_done("POST", path, {"ack_ids": [ack_id]})).body

    async def check_topics(self) -> None:
        assert (await self.caller.call("GET", "/topics/gone")).status == 404
        for topic, generations in (("moved", [1, 0]), ("grown", [1, 1, 0, 0])):
            listed = await self.ok("GET", f"/topics/{topic}/partitions")
            rows = [row for row in listed.body["partitions"] if row["state"] == "open"]
            assert [row["generation"] for row in rows] == generations, listed.body
            assert listed.body["placement"] is None
        await self.until_done("POST", "/topics/grown:grow", {"partitions": 5})
        await self.publish("grown", "after")
        assert await self.consume("grown") == _named("grown-after")

    async def check_locks(self) -> None:
        """No fencing token comes twice, also of locks that the backup never knew."""
        before = max(self.fences)
        for name in ("old-lock", "new-lock"):
            await self.lock(name)
        assert min(self.fences[-2:]) > max(before, 1 << FENCE_BITS), self.fences

    async def check_orphan(self) -> None:
        assert (await self.caller.call("GET", "/topics/late")).status == 404
        status, said = await self.cluster.operated("orphans", "--json")
        assert status == 0, said
        rows = json.loads(said.strip().splitlines()[-1])["orphans"]
        found = {row["topic"]: row for row in rows}
        assert found.keys() == {"late"}, rows
        assert found["late"]["messages"] == len(self.published["late"]), found
        status, said = await self.cluster.command("adopt", "--topic", "late")
        assert status == 0, said
        start = {"name": "late", "start": "earliest"}
        await self.ok("POST", "/topics/late/subscriptions", start)
        assert await self.consume("late") == self.published["late"]
        await self.publish("late", "after")
        assert await self.consume("late") == _named("late-after")

    async def until_balanced(self, subscription: str) -> None:
        books = await self.ok("GET", f"/subscriptions/{subscription}/reconciliation")
        assert books.body["balanced"], books.body

    async def until_era(self, era: int) -> None:
        deadline_s = time.monotonic() + ERA_S
        newest = None
        while newest != era:
            assert time.monotonic() < deadline_s, (newest, self.cluster.tail("serve"))
            connection = await asyncpg.connect(self.cluster.postgres.url)
            newest = await connection.fetchval("SELECT max(era) FROM eras")
            await connection.close()
            await asyncio.sleep(0.1)

    # Shorthand --------------------------------------------------------------------------------

    async def ok(self, method: str, path: str, body: object = None) -> Reply:
        reply = await self.caller.call(method, path, body)
        assert reply.ok, (method, path, reply)
        return reply

    async def until_done(self, method: str, path: str, body: object) -> Reply:
        """Repeat the request until it is done, not only begun."""
        deadline_s = time.monotonic() + DRAIN_S
        while True:
            reply = await self.caller.call(method, path, body)
            if reply.status == 200:
                return reply
            assert reply.status in (202, 409, 421, 503), (method, path, reply)
            assert time.monotonic() < deadline_s, (method, path, reply)
            await asyncio.sleep(0.1)

    async def make(self, topic: str, **subscription: object) -> None:
        await self.ok("POST", "/topics", {"name": topic, "partitions": 2})
        spec = {"name": topic, "start": "earliest", "ack_deadline_seconds": 60}
        await self.ok("POST", f"/topics/{topic}/subscriptions", spec | subscription)

    async def publish(
        self, topic: str, what: str, *, count: int = MESSAGES, **extra: object
    ) -> None:
        names = sorted(_named(f"{topic}-{what}", count))
        batch = [
            {"data": name, "content_type": "text/plain", "key": f"k{at % 5}"} | extra
            for at, name in enumerate(names)
        ]
        path = f"/topics/{topic}/messages:batch"
        reply = await self.ok("POST", path, {"messages": batch})
        assert all("message_id" in result for result in reply.body["results"]), reply
        self.published.setdefault(topic, set()).update(names)

    async def pull(self, subscription: str, count: int) -> list[dict[str, Any]]:
        path = f"/subscriptions/{subscription}/messages?max_messages={count}&wait_seconds=1"
        reply = await self.caller.call("GET", path)
        assert reply.status in (200, 503), reply
        found: list[dict[str, Any]] = reply.body.get("messages", [])
        return found

    async def consume(self, subscription: str, count: int | None = None) -> Names:
        """Consume and ack `count` messages, or until nothing has come for a while."""
        got: Names = set()
        quiet = 0
        while (count is None and quiet < QUIET_PULLS) or (count is not None and len(got) < count):
            messages = await self.pull(subscription, min(10, (count or 10**6) - len(got)))
            quiet = 0 if messages else quiet + 1
            if messages:
                ids = [each["ack_id"] for each in messages]
                path = f"/subscriptions/{subscription}/ack"
                reply = await self.until_done("POST", path, {"ack_ids": ids})
                assert reply.body["results"] == [], reply
            got |= {each["data"] for each in messages}
        return got

    async def lease_one(self, subscription: str) -> str:
        for _ in range(10):
            if messages := await self.pull(subscription, 1):
                ack_id: str = messages[0]["ack_id"]
                if subscription == "moved":
                    self.acked.add(messages[0]["data"])
                return ack_id
        raise AssertionError(f"{subscription} has nothing")

    async def group_of(self, topic: str) -> int:
        listed = await self.ok("GET", f"/topics/{topic}/partitions")
        group: int = listed.body["partitions"][0]["group"]
        return group

    async def lock(self, name: str) -> None:
        """Take the lock and release it."""
        held = await self.ok("POST", f"/locks/{name}:acquire", {"ttl_seconds": 30, "holder": "me"})
        self.fences.append(held.body["fencing_token"])
        released = {"lock_id": held.body["lock_id"]}
        await self.ok("POST", f"/locks/{name}:release", released)


def _named(what: str, count: int = MESSAGES) -> Names:
    return {f"{what}-{number:03}" for number in range(count)}


def _differ(topic: str, got: Names, wanted: Names) -> str:
    return f"{topic}: missing {sorted(wanted - got)}, too many {sorted(got - wanted)}"
