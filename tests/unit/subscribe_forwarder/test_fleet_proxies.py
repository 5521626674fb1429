"""Any forwarder serves any call: two and three of them over real links."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from openapi.subscriptions import DeliveryValue
from subscribe_forwarder.api.trace import DeliveryTrace
from tests.unit.subscribe_forwarder.linked_fleet import everything, linked
from tests.unit.subscribe_forwarder.stream_support import OpenStream, stream
from tests.unit.subscribe_forwarder.subscribe_support import SUBSCRIPTION_UID, World

BACKLOG = "/subscriptions/{name}/backlog"


async def test_a_forwarder_that_owns_nothing_serves_everything() -> None:
    async with linked(0, 0, 1) as fleet:
        await fleet.spread(0, 0, 0)
        front = fleet.members[1]
        for partition in range(3):
            fleet.store.publish(b"a", b"b", partition=partition)
        messages = await everything(front, 6)
        backlog = (await front.call("GET", BACKLOG, name="reader")).json()
        assert (backlog["leased"], backlog["forwarders"]) == (6, 1)
        assert (await front.ack(*messages)).json() == {"acked": 6, "results": []}
        assert [fleet.metadata.row(p).floor for p in range(3)] == [2, 2, 2]


async def test_three_owners_are_one_subscription() -> None:
    async with linked(0, 1, 2) as fleet:
        for front in fleet.members:
            for partition in range(3):
                fleet.store.publish(b"%d" % partition, partition=partition)
            messages = await everything(front, 3)
            assert sorted(m["data"] for m in messages) == ["0", "1", "2"]
            assert {m["attempt"] for m in messages} == {1}
            backlog = (await front.call("GET", BACKLOG, name="reader")).json()
            assert (backlog["leased"], backlog["forwarders"]) == (3, 3)
            assert [one["partition"] for one in backlog["partitions"]] == [0, 1, 2]
            answer = await front.post("ack", {"ack_ids": [*(m["ack_id"] for m in messages), "x"]})
            assert answer.json()["acked"] == 3
            assert [(r["index"], r["status"]) for r in answer.json()["results"]] == [(3, 400)]


async def test_a_waiting_pull_is_answered_by_whoever_gets_a_message() -> None:
    async with linked(0, 1, 2) as fleet:
        for partition in (2, 1, 0):
            pull = asyncio.create_task(fleet.members[0].pulled(5, wait_s=5))
            await asyncio.sleep(0.1)
            fleet.store.publish(b"x", partition=partition)
            (message,) = await pull
            assert message["partition"] == partition
            await fleet.members[0].ack(message)


async def test_no_message_is_counted_that_lost_a_race() -> None:
    async with linked(0, 1, 1) as fleet:
        pulls = [asyncio.create_task(fleet.members[0].pulled(1, wait_s=5)) for _ in range(20)]
        await asyncio.sleep(0.1)
        for partition in range(3):
            fleet.store.publish(*[b"x"] * 10, partition=partition)
        got = [message for pull in pulls for message in await pull]
        got += await everything(fleet.members[1], 10)
        assert len({m["message_id"] for m in got}) == len(got) == 30
        assert {m["attempt"] for m in got} == {1}


@pytest.mark.parametrize("delivery", ["exactly_once", "at_most_once"])
async def test_other_guarantees_over_links(delivery: DeliveryValue) -> None:
    async with linked(0, 1, delivery=delivery) as fleet:
        for partition in range(2):
            fleet.store.publish(*[b"x"] * 10, partition=partition)
        fronts = fleet.members
        got: list[dict[str, Any]] = []
        async with asyncio.timeout(20):
            while len(got) < 20:
                pulls = (front.pulled(2, wait_s=1) for front in fronts * 3)
                got += [one for some in await asyncio.gather(*pulls) for one in some]
        assert len({m["message_id"] for m in got}) == 20
        if delivery == "exactly_once":
            assert (await fronts[0].ack(*got)).json() == {"acked": 20, "results": []}
        assert [fleet.metadata.row(p).floor for p in range(2)] == [10, 10]


async def test_nacks_releases_and_deadlines_reach_their_owners() -> None:
    async with linked(0, 1) as fleet:
        front = fleet.members[0]
        for partition in range(2):
            fleet.store.publish(b"x", partition=partition)
        for action in ("nack", "release", "modify_ack_deadline"):
            ids = {"ack_ids": [m["ack_id"] for m in await everything(front, 2)]}
            more = {"deadline_seconds": 0} if action.startswith("modify") else {}
            assert (await front.post(action, ids | more)).json() == {"done": 2, "results": []}
        attempts = Counter(m["attempt"] for m in await everything(front, 2))
        assert attempts == {3: 2}, "a release counts no attempt"


async def test_message_ids_are_acked_at_their_owners() -> None:
    async with linked(0, 1) as fleet:
        for partition in range(2):
            fleet.store.publish(b"x", partition=partition)
        messages = await everything(fleet.members[1], 2)
        assert (await fleet.members[0].ack(*messages, by="message_id")).json()["acked"] == 2


async def test_a_stream_is_merged_and_keeps_to_its_window() -> None:
    async with linked(0, 1, 2) as fleet:
        for partition in range(3):
            fleet.store.publish(*[b"x"] * 20, partition=partition)
        front = fleet.members[0]
        async with stream(front, "max_outstanding_messages=6") as opened:
            acked = 0
            async with asyncio.timeout(30):
                while acked < 60:
                    await asyncio.sleep(0.02)
                    fresh = opened.messages[acked:]
                    assert len(fresh) <= 6
                    if fresh:
                        acked += (await front.ack(*fresh)).json()["acked"]
            assert len({m["message_id"] for m in opened.messages}) == 60


async def test_a_stream_with_a_window_of_one_serves_every_owner() -> None:
    async with linked(0, 1) as fleet:
        for partition in range(2):
            fleet.store.publish(b"a", b"b", partition=partition)
        front = fleet.members[0]
        async with stream(front, "max_outstanding_messages=1") as opened:
            await acked_one_by_one(front, opened, 4)
        assert {m["partition"] for m in opened.messages} == {0, 1}


async def acked_one_by_one(front: World, opened: OpenStream, count: int) -> None:
    acked = 0
    async with asyncio.timeout(20):
        while acked < count:
            await asyncio.sleep(0.01)
            fresh = opened.messages[acked:]
            assert len(fresh) <= 1
            acked += (await front.ack(*fresh)).json()["acked"] if fresh else 0


async def test_pulls_and_streams_follow_partitions_that_change_hands() -> None:
    async with linked(0, 1) as fleet:
        front = fleet.members[0]
        async with stream(front) as opened:
            pull = asyncio.create_task(fleet.members[1].pulled(1, wait_s=20))
            await asyncio.sleep(0.1)
            await fleet.spread(1, 0)
            fleet.store.publish(*[b"x"] * 3, partition=0)
            fleet.store.publish(*[b"y"] * 3, partition=1)
            pulled = await pull
            await opened.until(6 - len(pulled))
            assert not opened.whole
            ids = {m["message_id"] for m in [*pulled, *opened.messages]}
            assert len(ids) == 6


async def test_a_stream_that_was_all_here_goes_on_when_it_is_not() -> None:
    async with linked(0, 1) as fleet:
        await fleet.spread(0, 0)
        async with stream(fleet.members[0]) as opened:
            fleet.store.publish(b"a")
            await opened.until(1)
            await fleet.spread(0, 1)
            fleet.store.publish(b"b")
            fleet.store.publish(b"c", partition=1)
            messages = await opened.until(3)
            assert [m["attempt"] for m in messages] == [1, 1, 1]
            assert (await fleet.members[0].ack(*messages)).json()["acked"] == 3


async def test_whose_lease_it_is_shows_at_any_forwarder() -> None:
    async with linked(0, 1) as fleet:
        fleet.store.publish(b"x", partition=1)
        (message,) = await fleet.members[0].pulled(1, wait_s=2)
        path = "/topics/{topic}/messages/{id}/ack"
        for world in fleet.members:
            answer = await world.call("GET", path, topic="orders", id=message["message_id"])
            assert answer.json()["subscriptions"]["reader"]["state"] == "leased"


async def test_the_trace_names_what_was_handed_out(tmp_path: Path) -> None:
    trace = DeliveryTrace(tmp_path / "trace")
    async with linked(0, 1, trace=trace) as fleet:
        await fleet.spread(0, 0)
        fleet.store.publish(b"a", b"b")
        await fleet.members[0].pulled(1)
        await fleet.members[1].pulled(1)
        await fleet.members[0].call(
            "GET", "/subscriptions/{name}/messages", name="reader", gone_after_s=0.0
        )
        fleet.store.publish(b"c", partition=1)
        with pytest.raises(ConnectionResetError):
            await fleet.members[0].pull(1, wait_s=1, send_fails=True)
    trace.close()
    lines = [msgspec.json.decode(line) for line in (tmp_path / "trace").read_bytes().splitlines()]
    assert [(one["messages"], one["outcome"], one["forwarded"]) for one in lines] == [
        ([[0, 0, 0, 1]], "sent", False),
        ([[0, 0, 1, 1]], "sent", True),
        ([[1, 0, 0, 1]], "unsent", False),
    ]
    assert {one["subscription_uid"] for one in lines} == {SUBSCRIPTION_UID.hex()}
