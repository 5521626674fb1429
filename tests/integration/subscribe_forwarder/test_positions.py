"""Seek, snapshots, pause and drain on a real Postgres, with a forwarder that has it all cached."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from edge.asgi import AUTHORISED, CALLER
from edge.problem import Problem
from metadata.database import Database
from metadata.delivery.cursors import CursorRepository
from metadata.errors import NotFound
from metadata.ids import new_uid
from metadata.subscriptions.seeks import SeekRepository
from metadata.subscriptions.snapshots import SnapshotRepository
from metadata.subscriptions.states import SubscriptionStateRepository
from metadata.topics.retention import LaneKey, RetentionRepository
from metadata.types import RetryPolicy
from openapi.subscriptions import StartAt
from positions.targets import Targets
from store_nodes.record_batch import Message
from subscribe_forwarder.api.positions import PositionRoutes
from tests.integration.subscribe_forwarder.forwarder_support import Site, subscribe
from tests.unit.subscribe_forwarder.subscribe_support import Answer, Consumer


class Mover:
    """A consumer of a site, and what moves its subscription."""

    def __init__(self, site: Site, consumer: Consumer) -> None:
        self.site = site
        self.consumer = consumer
        self.snapshots = SnapshotRepository(site.database)
        self.routes = PositionRoutes(
            consumer.forwarder,
            SeekRepository(site.database),
            self.snapshots,
            SubscriptionStateRepository(site.database),
        )

    @classmethod
    @asynccontextmanager
    async def open(cls, database: Database, **options: Any) -> AsyncIterator[Mover]:
        site = await Site.open(database, **options)
        async with site.forwarder(lazy_flush_s=0.02) as consumer:
            yield cls(site, consumer)

    async def post(self, action: str, body: object = None) -> Answer:
        raw = b"" if body is None else msgspec.json.encode(body)
        answer = Answer(0, {}, b"")

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": raw, "more_body": False}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                answer.status = message["status"]
            else:
                answer.body += message["body"]

        scope = {
            "packetboat.tenant": self.site.tenant_id,
            CALLER: AUTHORISED,
            "path_params": {"name": "reader"},
            "query_string": b"",
            "headers": [],
        }
        try:
            await getattr(self.routes, action)(scope, receive, send)
        except Problem as problem:
            return Answer(problem.status, {}, problem.to_json())
        except NotFound as error:
            return Answer(404, {}, str(error).encode())
        return answer

    async def seek(self, to: object) -> dict[str, Any]:
        answer = await self.post("seek", {"to": to})
        assert answer.status == 200, answer.body
        found: dict[str, Any] = answer.json()
        return found

    async def drained(self) -> list[str]:
        """Pull and ack all available messages; return their data."""
        data: list[str] = []
        while messages := await self.consumer.pulled(100):
            data += [message["data"] for message in messages]
            await self.consumer.ack(*messages)
        return data

    async def snapshot(self, name: str = "before") -> None:
        await self.snapshots.create(
            self.site.tenant_id, "reader", name, expires_in_s=3600.0, labels={}
        )

    async def trim(self, upto: int) -> tuple[int, tuple[int, ...]]:
        """Trim as the scheduler does where nothing holds messages; return the new start and
        the kept offsets below.
        """
        retention = RetentionRepository(self.site.database)
        key = LaneKey(self.site.tenant_id, self.site.topic.uid, 0, 0)
        trimmed = await retention.trim(key, upto, past_pins=False)
        assert trimmed is not None
        self.site.store.truncate(trimmed.trimmed_to, keep=trimmed.kept)
        return trimmed.trimmed_to, trimmed.kept

    async def balanced(self) -> bool:
        return await CursorRepository(self.site.database).unbalanced() == []


async def test_a_seek_back_delivers_again_and_old_ack_ids_are_stale(database: Database) -> None:
    async with Mover.open(database) as mover:
        consumer, site = mover.consumer, mover.site
        site.store.publish(*[b"%d" % number for number in range(10)])
        messages = await consumer.pulled(10)
        await consumer.ack(*messages[:7])
        sought = await mover.seek({"offset": 4})
        assert sought["partitions"] == [{"partition": 0, "lane": 0, "offset": 4}]
        assert (sought["backlog"], sought["dry_run"]) == (6, False)
        stale = (await consumer.ack(*messages[7:])).json()
        assert stale["acked"] == 0
        assert {result["type"].rpartition("/")[2] for result in stale["results"]} == {
            "stale-ack-id"
        }
        assert await mover.drained() == ["4", "5", "6", "7", "8", "9"]
        row = await site.row()
        assert (row.start, row.floor, row.counters.acked) == (4, 10, 6)
        assert row.generation == sought["generation"]
        assert await mover.balanced()


async def test_a_dry_run_says_and_does_nothing(database: Database) -> None:
    async with Mover.open(database) as mover:
        mover.site.store.publish(b"a", b"b", b"c")
        (message, *_) = await mover.consumer.pulled(3)
        before = await mover.site.row()
        answer = await mover.post("seek", {"to": "latest", "dry_run": True})
        assert (answer.json()["backlog"], answer.json()["dry_run"]) == (0, True)
        assert (await mover.consumer.ack(message)).json()["acked"] == 1
        assert (await mover.site.row()).generation == before.generation


@pytest.mark.parametrize("to", ["earliest", {"offset": 0}, {"time": "2020-01-01T00:00:00Z"}])
@pytest.mark.parametrize("why", ["delayed", "parked"])
async def test_a_seek_back_delivers_what_is_unacked_below_what_is_trimmed(
    database: Database, why: str, to: object
) -> None:
    """A consume topic stores such messages only for their open deliveries."""
    retry = RetryPolicy(0.0, 0.0, max_attempts=1 if why == "parked" else None)
    parks = {"ordered": True, "on_exhausted": "park"} if why == "parked" else {}
    async with Mover.open(database, retry=retry, **parks) as mover:
        consumer, site = mover.consumer, mover.site
        site.store.publish(*[Message(b"%d" % n, "text/plain", key=str(n)) for n in range(10)])
        messages = await consumer.pulled(10)
        await consumer.ack(*[m for m in messages if m["data"] not in ("3", "4")])
        ids = [m["ack_id"] for m in messages if m["data"] in ("3", "4")]
        delay_s = 0 if why == "parked" else 600
        nacked = await consumer.post("nack", {"ack_ids": ids, "delay_seconds": delay_s})
        assert nacked.json()["done"] == 2
        assert await mover.trim(10) == (10, (3, 4))
        assert await mover.drained() == []

        dry_run = await mover.post("seek", {"to": to, "dry_run": True})
        assert dry_run.json()["backlog"] == 2
        assert (await mover.seek(to))["backlog"] == 2
        assert await mover.trim(10) == (10, (3, 4)), "they are kept for the new generation too"
        assert await mover.drained() == ["3", "4"]
        assert (await site.row()).counters.acked == 7
        assert await mover.balanced()


async def test_a_seek_to_the_end_passes_over_what_is_open(database: Database) -> None:
    async with Mover.open(database) as mover:
        mover.site.store.publish(b"0", b"1", b"2")
        messages = await mover.consumer.pulled(3)
        await mover.consumer.ack(*messages[1:])
        body = {"ack_id": messages[0]["ack_id"], "delay_seconds": 600}
        assert (await mover.consumer.post("nack", body)).json()["done"] == 1
        assert (await mover.seek("latest"))["backlog"] == 0
        assert await mover.drained() == []
        assert await mover.balanced()


async def test_nothing_of_the_old_position_after_the_answer(database: Database) -> None:
    """Many consumers pull all the time; a pull after the answer gets messages beyond the
    position.
    """
    async with Mover.open(database, partitions=2) as mover:
        store, consumer = mover.site.store, mover.consumer
        for partition in range(2):
            for _ in range(40):
                store.publish(*[b"x"] * 10, partition=partition)
        target = 0
        wrong: list[dict[str, Any]] = []
        done = False

        async def consume() -> None:
            while not done:
                least = target
                answer = await consumer.pull(7)
                if answer.status == 503:
                    continue  # it is being moved just now
                messages = answer.json()["messages"]
                wrong.extend(message for message in messages if message["offset"] < least)
                if messages and random.random() < 0.5:
                    await consumer.ack(*messages[:3])

        async with asyncio.TaskGroup() as tasks:
            for _ in range(8):
                tasks.create_task(consume())
            for offset in range(40, 400, 40):
                await mover.seek({"offset": offset})
                target = offset
                await asyncio.sleep(0.01)
            done = True
        assert wrong == []
        assert await mover.balanced()


async def test_a_waiting_pull_gets_what_a_seek_brings(database: Database) -> None:
    async with Mover.open(database) as mover:
        mover.site.store.publish(b"a")
        assert await mover.drained() == ["a"]
        async with asyncio.timeout(10):
            waiting = asyncio.create_task(mover.consumer.pulled(1, wait_s=60))
            await asyncio.sleep(0.05)
            await mover.seek("earliest")
            assert [message["data"] for message in await waiting] == ["a"]


async def test_seeks_by_time_partition_and_name(database: Database) -> None:
    async with Mover.open(database, partitions=2) as mover:
        for partition in range(2):
            for number in range(4):
                mover.site.store.publish(b"%d" % number, partition=partition)

        async def floors(to: object) -> list[int]:
            return [each["offset"] for each in (await mover.seek(to))["partitions"]]

        assert await floors("latest") == [4, 4]
        assert await floors({"offsets": {"1": 2}}) == [4, 2]
        assert await floors({"offsets": {"0/0": 1}}) == [1, 2]
        assert await floors({"time": "2025-12-31T23:59:59.123459Z"}) == [3, 3]
        assert await floors({"offset": 900}) == [4, 4]
        assert await floors("earliest") == [0, 0]


UNFIT: tuple[object, ...] = (
    *({}, {"offset": -1}, {"offset": 1.5}, {"offset": 1, "snapshot": "s"}, "yesterday", 7),
    *({"offsets": {}}, {"offsets": {"9": 1}}, {"offsets": {"x": 1}}, {"offsets": {"0/1": 1}}),
)


async def test_what_does_not_fit_is_refused(database: Database) -> None:
    async with Mover.open(database) as mover:
        for to in UNFIT:
            answer = await mover.post("seek", {"to": to})
            assert answer.status == 422, to
            assert answer.json()["errors"]


async def test_back_to_a_snapshot(database: Database) -> None:
    async with Mover.open(database) as mover:
        consumer = mover.consumer
        mover.site.store.publish(*[b"%d" % number for number in range(8)])
        messages = await consumer.pulled(6)
        await consumer.ack(messages[0], messages[2], messages[5])
        await mover.snapshot()
        await consumer.ack(*messages)
        assert await mover.drained() == ["6", "7"]
        mover.site.store.publish(b"8")
        sought = await mover.seek({"snapshot": "before"})
        assert sought["backlog"] == 6
        assert await mover.drained() == ["1", "3", "4", "6", "7", "8"]
        assert await mover.balanced()
        assert (await mover.post("seek", {"to": {"snapshot": "no"}})).status == 404


async def test_another_subscription_starts_at_a_snapshot(database: Database) -> None:
    async with Mover.open(database) as mover:
        mover.site.store.publish(b"a", b"b", b"c")
        messages = await mover.consumer.pulled(3)
        await mover.consumer.ack(messages[1])
        await mover.snapshot()
        targets = Targets(mover.site.store, mover.snapshots)
        _, floors = await targets.find(mover.site.topic, StartAt(snapshot="before"))
        await subscribe(database, mover.site.topic, "other", floors=floors)
        answer = await mover.consumer.pull(name="other")
        assert [message["data"] for message in answer.json()["messages"]] == ["a", "c"]
        assert await mover.balanced()


async def test_a_snapshot_of_another_topic_is_refused(database: Database) -> None:
    async with Mover.open(database) as mover:
        await mover.snapshot()
        other = replace(mover.site.topic, uid=new_uid())
        with pytest.raises(Problem) as refused:
            await Targets(mover.site.store, mover.snapshots).find(other, StartAt(snapshot="before"))
        assert (refused.value.status, refused.value.slug) == (409, "snapshot-of-another-topic")


async def test_pause_keeps_waiters_and_takes_acks(database: Database) -> None:
    async with Mover.open(database) as mover:
        consumer, site = mover.consumer, mover.site
        site.store.publish(b"a")
        (message,) = await consumer.pulled()
        answer = await mover.post("pause", {"reason": "deploy"})
        assert answer.json() == {"name": "reader", "state": "paused", "state_reason": "deploy"}
        site.store.publish(b"b")
        assert await consumer.pulled() == []
        assert (await consumer.ack(message)).json()["acked"] == 1
        async with asyncio.timeout(10):
            waiting = asyncio.create_task(consumer.pulled(wait_s=60))
            await asyncio.sleep(0.05)
            assert not waiting.done()
            await mover.post("resume")
            assert [each["data"] for each in await waiting] == ["b"]


async def test_draining_hands_out_only_what_was_out_before(database: Database) -> None:
    async with Mover.open(database) as mover:
        consumer, site = mover.consumer, mover.site
        site.store.publish(b"a")
        (message,) = await consumer.pulled()
        await mover.post("drain")
        site.store.publish(b"b")
        await consumer.post("nack", {"ack_id": message["ack_id"], "delay_seconds": 0})
        assert await mover.drained() == ["a"]
        await mover.post("resume")
        assert await mover.drained() == ["b"]


async def test_another_process_follows_a_state(database: Database) -> None:
    async with Mover.open(database) as mover:
        mover.site.store.publish(b"a", b"b")
        assert len(await mover.consumer.pulled(1)) == 1
        states = SubscriptionStateRepository(database)
        await states.set(mover.site.tenant_id, "reader", "paused", None)
        hub = mover.consumer.forwarder.open_hub(mover.site.subscription.uid)
        assert hub is not None
        async with asyncio.timeout(5):
            while hub.paused_reason() is None:
                await asyncio.sleep(0.02)
        assert await mover.consumer.pulled() == []
