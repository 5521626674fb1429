"""Everything is lost, all store nodes and Postgres, and a backup is restored.

load      publishers and consumers, while a partition moves and a topic grows; backups meanwhile
loss      every process is killed, every directory thrown away
restore   another cluster, by the commands that an operator runs
held      what was answered before the recovery point, against what is there
"""

from __future__ import annotations

import asyncio
import itertools
import json
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.cluster import GROUPS, NODES, ChaosCluster
from store_nodes.backup.restoring import SKIP_OFFSETS
from tests.chaos.delivery.caller import Caller
from tests.chaos.restored_rows import Callers
from tests.chaos.shell import succeeds

TOPICS = ("kept", "work")
"""Two topics: nothing of the first is truncated; all that was acked of the second is."""
KEYS = 3
DELAY_S = 3600
NEVER_ACKED = 7
"""The number of messages of which one is never acked: a consumer has them and says nothing."""
LOAD_S = 3.0
PATIENCE_S = 60.0
QUIET_PULLS = 3
METRIC = "packetboat_backup_last_success_timestamp_seconds"


@dataclass(slots=True)
class Published:
    """A publish that was answered 201, and when, by the wall clock."""

    message_id: str
    answered: float


@dataclass(slots=True)
class Acked:
    """An ack that was answered without a failure."""

    sent: float
    answered: float


@dataclass(slots=True)
class Seen:
    """The knowledge of one topic's clients. Names are `key/number`, in order for each key."""

    published: dict[str, Published] = field(default_factory=dict)
    tried: set[str] = field(default_factory=set)
    acked: dict[str, Acked] = field(default_factory=dict)
    held: dict[str, str] = field(default_factory=dict)
    """Ack ids of what was handed out and never acked, by message."""

    def published_before(self, moment: float) -> set[str]:
        return {name for name, one in self.published.items() if one.answered < moment}

    def acked_before(self, moment: float) -> set[str]:
        return {name for name, one in self.acked.items() if one.answered < moment}

    def acked_after(self, moment: float) -> set[str]:
        return {name for name, one in self.acked.items() if one.sent > moment}


class RestoredCluster(ChaosCluster):
    """Another cluster, with the secrets that clients of the lost one hold."""

    def __init__(self, root: Path, lost: ChaosCluster) -> None:
        super().__init__(root, seeded=False)
        self.token = lost.token
        self._ack_secret = lost._ack_secret

    async def restore(self, vault: Path, name: str) -> None:
        """Restore as docs/operations/backup.md says; only Postgres runs afterwards."""
        self.root.mkdir(parents=True)
        await asyncio.gather(*(self._restore_node(node, vault, name) for node in NODES))
        self.postgres.prepare()
        await self.start_postgres()
        await succeeds(self, "restore", "postgres", str(vault), "--name", name)

    async def _restore_node(self, node: int, vault: Path, name: str) -> None:
        settings = {
            "PACKETBOAT_STORE_NODE_ID": str(node),
            "PACKETBOAT_STORE_DIR": str(self.node_dirs[node]),
        }
        await succeeds(self, "restore", "node", str(vault), "--name", name, settings=settings)

    async def start(self) -> None:
        """Postgres runs already."""
        for node in NODES:
            self.start_node(node)
        await succeeds(self, "migrate")
        self.start_server()
        await self.until_ready()


class Drill:
    """One drill, under `root`."""

    def __init__(self, root: Path) -> None:
        self.vault = root / "vault"
        self.seen = {topic: Seen() for topic in TOPICS}
        self.delayed_id = ""
        self._root = root
        self._over = asyncio.Event()
        self._cluster = ChaosCluster(root / "lost")
        self._caller = Callers(self._cluster.http_port, self._cluster.token)

    async def lose(self) -> ChaosCluster:
        """Return the cluster after load and backups, when nothing of it is left."""
        async with self._cluster as cluster:
            await self._make()
            async with asyncio.TaskGroup() as load:
                for topic in TOPICS:
                    load.create_task(self._consume(topic))
                    for key in range(KEYS):
                        load.create_task(self._publish(topic, f"k{key}"))
                await asyncio.sleep(LOAD_S)
                await self._backup()
                await asyncio.sleep(LOAD_S)
                await self._delay()
                moving = load.create_task(self._move_and_grow())
                await self._backup()
                await moving
                await asyncio.sleep(LOAD_S)
                await self._until_told()
                cluster.kill_everything()
                self._over.set()
        shutil.rmtree(cluster.root)
        return cluster

    # -- load ----------------------------------------------------------------------------------

    async def _make(self) -> None:
        for topic in TOPICS:
            mode = {"retention": {"mode": "retain"}} if topic == "kept" else {}
            await self._ok("POST", "/topics", {"name": topic, "partitions": 2} | mode)
            reader = {"name": topic, "start": "earliest", "ack_deadline_seconds": 600}
            await self._ok("POST", f"/topics/{topic}/subscriptions", reader)

    async def _publish(self, topic: str, key: str) -> None:
        """Publish one after the other; a message that was not answered is not tried again."""
        caller, seen = self._connection(), self.seen[topic]
        for number in itertools.count():
            if self._over.is_set():
                return
            name = f"{key}/{number:05}"
            seen.tried.add(name)
            reply = await caller.call("POST", f"/topics/{topic}/messages:batch", batch(name))
            if reply.ok and "message_id" in (receipt := reply.body["results"][0]):
                seen.published[name] = Published(receipt["message_id"], time.time())
            await asyncio.sleep(0.01)

    async def _consume(self, topic: str) -> None:
        caller, seen = self._connection(), self.seen[topic]
        while not self._over.is_set():
            path = f"/subscriptions/{topic}"
            query = "max_messages=20&wait_seconds=1"
            reply = await caller.call("GET", f"{path}/messages?{query}")
            messages = reply.body.get("messages", [])
            ids = {}
            for each in messages:
                if int(each["data"][-5:]) % NEVER_ACKED == 0:
                    seen.held[each["data"]] = each["ack_id"]
                else:
                    ids[each["data"]] = each["ack_id"]
            sent = time.time()
            if not ids:
                continue
            reply = await caller.call("POST", f"{path}/ack", {"ack_ids": list(ids.values())})
            if reply.ok and not reply.body["results"]:
                seen.acked |= {name: Acked(sent, time.time()) for name in ids}

    async def _delay(self) -> None:
        body = {"messages": [{"data": "delayed", "delay_seconds": DELAY_S}]}
        reply = await self._ok("POST", "/topics/kept/messages:batch", body)
        self.delayed_id = reply["results"][0]["message_id"]

    async def _move_and_grow(self) -> None:
        for group in range(3):
            await self._until_done("/topics/kept/partitions/0:move", {"group": group % GROUPS})
            if group == 1:
                await self._until_done("/topics/work:grow", {"partitions": 3})

    async def _backup(self) -> None:
        await succeeds(self._cluster, "backup", "take", str(self.vault))

    async def _until_told(self) -> None:
        """The alert on old backups sees that there is one."""
        newest = (await backups(self._cluster, self.vault))[-1]
        async with asyncio.timeout(PATIENCE_S):
            while True:
                page = await self._cluster.metrics()
                rows = [row for row in page.splitlines() if row.startswith(METRIC + " ")]
                if rows and float(rows[0].split()[1]) >= int(newest["began"]):
                    return
                await asyncio.sleep(0.2)

    # -- afterwards ----------------------------------------------------------------------------

    async def check(self, cluster: ChaosCluster, backup: dict[str, Any]) -> None:
        """Check the promises of docs/operations/backup.md."""
        self._caller = Callers(cluster.http_port, cluster.token)
        await self._check_log(backup["recovery_point"])
        await self._check_ack_ids()
        path = f"/topics/kept/messages/{self.delayed_id}"
        reply = await self._caller.call("PATCH", path, {"delay_seconds": 0})
        # Where its queue is sealed, it may be published before the change has its answer.
        released = reply.status == 409 and reply.body["type"].endswith("/already-released")
        assert reply.ok or released, reply
        for topic in TOPICS:
            await self._check_deliveries(topic, backup)
            await self._check_publishing(topic, backup["recovery_point"])
            books = await self._ok("GET", f"/subscriptions/{topic}/reconciliation")
            assert books["balanced"], books

    async def _check_log(self, recovery_point: float) -> None:
        """Check that messages answered 201 are there under their ids, and in order."""
        seen, log = self.seen["kept"], await self._log("kept")
        wanted = seen.published_before(recovery_point)
        assert len(wanted) > 10 * KEYS, "there was load"
        lost = {name for name in wanted if log.get(seen.published[name].message_id) != name}
        assert not lost, f"{len(lost)} of {len(wanted)} messages are lost: {sorted(lost)[:5]}"
        assert set(log.values()) <= seen.tried | {"delayed"}
        for key in range(KEYS):
            names = [name for name in log.values() if name.startswith(f"k{key}/")]
            assert names == sorted(names), "a key is out of order"

    async def _check_ack_ids(self) -> None:
        """None of before counts: it might be of another message by now."""
        for topic in TOPICS:
            (ack_id, *_) = self.seen[topic].held.values()
            path = f"/subscriptions/{topic}/ack"
            told = await self._until_done(path, {"ack_ids": [ack_id]})
            (refused,) = told["results"]
            assert refused["type"].endswith("/stale-ack-id"), refused

    async def _check_deliveries(self, topic: str, backup: dict[str, Any]) -> None:
        """Check the deliveries of messages published before the backup.

        Those acked before do not come, and all the rest does, but for those acked and truncated
        while the backup was taken.
        """
        seen = self.seen[topic]
        before, after = backup["recovery_point"], backup["finished"]
        got = await self._drain(topic, {"delayed"} if topic == "kept" else set())
        again = got & seen.acked_before(before)
        assert not again, f"acked before the recovery point, and there again: {sorted(again)[:5]}"
        wanted = seen.published_before(before) - set(seen.acked)
        if topic == "kept":
            wanted |= seen.published_before(before) & seen.acked_after(after)
        assert wanted <= got, f"not delivered: {sorted(wanted - got)[:5]}"
        assert set(seen.held) & seen.published_before(before) <= got

    async def _check_publishing(self, topic: str, recovery_point: float) -> None:
        """Check that a publisher that never got its answer asks again, and that all go on."""
        seen = self.seen[topic]
        name = max(seen.published_before(recovery_point))
        body = batch(name)
        (receipt,) = (await self._ok("POST", f"/topics/{topic}/messages:batch", body))["results"]
        assert receipt["duplicate"], receipt
        assert receipt["message_id"] == seen.published[name].message_id
        body = batch("k0/99999")
        (new,) = (await self._ok("POST", f"/topics/{topic}/messages:batch", body))["results"]
        assert new["offset"] >= SKIP_OFFSETS
        assert new["message_id"] not in {one.message_id for one in seen.published.values()}, (
            "an id is given once, also where its message was lost"
        )
        assert await self._drain(topic, {"k0/99999"}) == {"k0/99999"}

    async def _log(self, topic: str) -> dict[str, str]:
        """Return everything, by id, partition by partition in order."""
        found: dict[str, str] = {}
        listed = await self._ok("GET", f"/topics/{topic}/partitions")
        for number in sorted({row["partition"] for row in listed["partitions"]}):
            at = 0
            while True:
                query = f"offset={at}&max_messages=500"
                path = f"/topics/{topic}/partitions/{number}/messages?{query}"
                reply = await self._caller.call("GET", path)
                if reply.status == 410 or not (page := reply.body)["messages"]:
                    break  # from here on offsets are left out
                assert page["messages"][0]["offset"] == at, "there is a gap"
                found |= {each["message_id"]: each["data"] for each in page["messages"]}
                at = page["next_offset"]
        return found

    async def _drain(self, subscription: str, awaited: set[str]) -> set[str]:
        """Consume and ack until nothing has come for a while and all that is awaited has."""
        got: set[str] = set()
        quiet = 0
        deadline_s = time.monotonic() + PATIENCE_S
        while quiet < QUIET_PULLS or not awaited <= got:
            assert time.monotonic() < deadline_s, f"{awaited - got} did not come"
            path = f"/subscriptions/{subscription}"
            reply = await self._caller.call(
                "GET", f"{path}/messages?max_messages=100&wait_seconds=1"
            )
            messages = reply.body.get("messages", [])
            quiet = 0 if messages else quiet + 1
            if messages:
                ids = [each["ack_id"] for each in messages]
                told = await self._until_done(f"{path}/ack", {"ack_ids": ids})
                assert told["results"] == [], told
            got |= {each["data"] for each in messages}
        return got

    # -- shorthand -----------------------------------------------------------------------------

    def _connection(self) -> Caller:
        return Caller(self._cluster.http_port, self._cluster.token)

    async def _ok(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        reply = await self._caller.call(method, path, body)
        assert reply.ok, (method, path, reply)
        return reply.body

    async def _until_done(self, path: str, body: object) -> dict[str, Any]:
        """Repeat a request that may be asked again: while something is on the way, or has
        no owner yet.
        """
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            reply = await self._caller.call("POST", path, body)
            if reply.ok:
                return reply.body
            assert reply.status in (409, 503), (path, reply)
            assert time.monotonic() < deadline_s, (path, reply)
            await asyncio.sleep(0.1)


def batch(name: str) -> dict[str, Any]:
    """Return one message of that name, with its key and an idempotency key."""
    key = name.split("/")[0]
    return {"messages": [{"data": name, "key": key, "idempotency_key": name}]}


async def backups(cluster: ChaosCluster, vault: Path) -> list[dict[str, Any]]:
    """Return the backups as `packetboat backup list` tells programs."""
    said = await succeeds(cluster, "backup", "list", str(vault), "--json")
    found: list[dict[str, Any]] = json.loads(said.splitlines()[-1])["backups"]
    return found
