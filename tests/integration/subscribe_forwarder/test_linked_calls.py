"""Every call at any of three forwarders, each of which owns a third of the subscription."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import msgspec
import pytest

from metadata.database import Database
from metadata.types import RetryPolicy
from store_nodes.client import StoreClient
from tests.integration.subscribe_forwarder.linked_site import LinkedSite
from tests.unit.subscribe_forwarder.fleet_support import eventually
from tests.unit.subscribe_forwarder.stream_support import stream
from tests.unit.subscribe_forwarder.subscribe_support import Answer

MESSAGES = "/subscriptions/{name}/messages"
PULL = "/subscriptions/{name}:pull"
BY_TOPIC = "/topics/{topic}/subscriptions/{name}/messages"
PARKED = "/subscriptions/{name}/parked_keys"


async def test_pulls_of_every_form_and_their_acks(database: Database, client: StoreClient) -> None:
    async with LinkedSite.open(database, client) as site:
        for round_, front in enumerate(site.members, 1):
            await site.publish_to_all("a", "b", "c")
            got: list[dict[str, Any]] = []
            async with asyncio.timeout(20):
                while len(got) < 9:
                    body = {"max_messages": 1, "wait_seconds": 2}
                    answers: list[Answer] = [
                        await front.call("POST", PULL, body, name="reader"),
                        await front.pull(1, wait_s=1),
                    ]
                    more = {"query": "max_messages=1&wait_seconds=1", "topic": "orders"}
                    answers.append(await front.call("GET", BY_TOPIC, name="reader", **more))
                    got += [one for answer in answers for one in answer.json()["messages"]]
            assert Counter(m["partition"] for m in got) == {0: 3, 1: 3, 2: 3}
            assert {m["attempt"] for m in got} == {1}
            other = site.members[round_ % 3]
            assert (await other.ack(*got)).json() == {"acked": 9, "results": []}
            assert await site.floors() == [3 * round_] * 3


async def test_a_long_poll_gets_what_comes_anywhere(
    database: Database, client: StoreClient
) -> None:
    async with LinkedSite.open(database, client) as site:
        for front in site.members:
            for partition in range(3):
                pull = asyncio.create_task(front.pulled(5, wait_s=10))
                await asyncio.sleep(0.05)
                await site.publish(partition, "x")
                (message,) = await pull
                assert (message["partition"], message["attempt"]) == (partition, 1)
                await front.ack(message)


@pytest.mark.parametrize("accept", [b"application/x-ndjson", b"text/event-stream"])
async def test_a_stream_is_of_all_owners(
    database: Database, client: StoreClient, accept: bytes
) -> None:
    async with LinkedSite.open(database, client) as site:
        front = site.members[1]
        query = "max_outstanding_messages=7&heartbeat_seconds=1"
        async with stream(front, query, {b"accept": accept}) as opened:
            texts = [str(number) for number in range(20)]
            await site.publish_to_all(*texts)
            acked: list[dict[str, Any]] = []
            async with asyncio.timeout(30):
                while len(acked) < 60:
                    await asyncio.sleep(0.01)
                    fresh = messages_of(opened.writes)[len(acked) :]
                    assert len(fresh) <= 7
                    if fresh:
                        assert (await front.ack(*fresh)).json()["acked"] == len(fresh)
                    acked += fresh
            assert len({m["message_id"] for m in acked}) == 60
            for partition in range(3):
                assert [m["data"] for m in acked if m["partition"] == partition] == texts
        assert await site.floors() == [20, 20, 20]


def messages_of(writes: list[bytes]) -> list[dict[str, Any]]:
    """Return the messages of a stream of either form; SSE has its messages in events
    without a name.
    """
    found = []
    for line in b"".join(writes).split(b"\n"):
        if line.startswith(b'{"message":'):
            found.append(msgspec.json.decode(line)["message"])
        elif line.startswith(b"data: ") and b'"ack_id"' in line:
            found.append(msgspec.json.decode(line[6:]))
    return found


async def test_nack_release_reject_and_deadline(database: Database, client: StoreClient) -> None:
    retry = RetryPolicy(0.0, 0.0, 5)
    opened = LinkedSite.open(database, client, dead_letter_topic="graves", retry=retry)
    async with opened as site:
        await site.publish_to_all("x")
        front, other = site.members[:2]
        for action, more in [
            ("nack", {"delay_seconds": 0}),
            ("release", {}),
            ("modify_ack_deadline", {"deadline_seconds": 60}),
            ("modify_ack_deadline", {"deadline_seconds": 0}),
        ]:
            ids = {"ack_ids": [m["ack_id"] for m in await front.everything(3)]}
            answer = await other.post(action, ids | more)
            assert answer.json() == {"done": 3, "results": []}, action
            if more == {"deadline_seconds": 60}:
                assert (await other.post("release", ids)).json()["done"] == 3
        messages = await front.everything(3)
        assert [m["attempt"] for m in messages] == [3, 3, 3]
        ids = {"ack_ids": [*(m["ack_id"] for m in messages), "nonsense"]}
        answer = (await other.post("reject", ids)).json()
        assert (answer["done"], [r["index"] for r in answer["results"]]) == (3, [3])
        async with asyncio.timeout(15):
            while len(await site.stored("graves")) < 3:
                await asyncio.sleep(0.05)
        again = (await other.post("reject", ids)).json()
        assert (again["done"], [r["index"] for r in again["results"]]) == (0, [0, 1, 2, 3])


async def test_an_ack_publishes_at_its_owner(database: Database, client: StoreClient) -> None:
    async with LinkedSite.open(database, client) as site:
        await site.publish_to_all("x")
        messages = await site.members[0].everything(3)
        publish = [{"topic": "outputs", "data": "done"}]
        several = {"ack_ids": [m["ack_id"] for m in messages], "publish": publish}
        assert (await site.members[0].post("ack", several)).status == 422
        assert await site.floors() == [0, 0, 0]
        for message in messages:
            front = site.members[(message["partition"] + 1) % 3]
            one = {"ack_ids": [message["ack_id"]], "publish": publish}
            answer = (await front.post("ack", one)).json()
            assert (answer["acked"], answer["duplicate"]) == (1, False)
            again = (await front.post("ack", one)).json()
            assert (again["acked"], again["duplicate"]) == (1, True)
        assert await site.stored("outputs") == ["done"] * 3
        assert await site.floors() == [1, 1, 1]


async def test_exactly_once_commits_one_lease_for_one_credit(
    database: Database, client: StoreClient
) -> None:
    opened = LinkedSite.open(database, client, delivery="exactly_once")
    async with opened as site:
        for number in range(6):
            front = site.members[number % 3]
            pull = asyncio.create_task(front.pulled(1, wait_s=10))
            await asyncio.sleep(0.05)
            await asyncio.gather(*(site.publish(partition, "x") for partition in range(3)))
            (message,) = await pull
            await asyncio.sleep(0.2)
            leases = [one for row in await site.loaded() for one in row.leases if not one.acked]
            assert len(leases) == 1, "the losers committed nothing"
            messages = [message, *await front.everything(2, at_once=1)]
            assert {m["attempt"] for m in messages} == {1}
            assert len({m["message_id"] for m in messages}) == 3
            assert (await front.ack(*messages)).json() == {"acked": 3, "results": []}
        assert await site.floors() == [6, 6, 6]


async def test_at_most_once_loses_nothing_to_a_race(
    database: Database, client: StoreClient
) -> None:
    opened = LinkedSite.open(database, client, delivery="at_most_once")
    async with opened as site:
        got: list[dict[str, Any]] = []
        for number in range(6):
            front = site.members[number % 3]
            pull = asyncio.create_task(front.pulled(1, wait_s=10))
            await asyncio.sleep(0.05)
            await asyncio.gather(*(site.publish(partition, "x") for partition in range(3)))
            got += await pull
            await asyncio.sleep(0.2)
            settled = sum(row.counters.acked for row in await site.rows())
            assert settled == len(got), "the losers acked nothing"
            got += await front.everything(2, at_once=1)
        assert len({m["message_id"] for m in got}) == len(got) == 18
        assert await site.floors() == [6, 6, 6]


async def test_who_waits_elsewhere_follows_a_pause_and_a_seek(
    database: Database, client: StoreClient
) -> None:
    async with LinkedSite.open(database, client) as site:
        await site.publish_to_all("old")
        first, second, third = site.members
        old = await first.everything(3)
        assert (await first.ack(*old)).json()["acked"] == 3
        pull = asyncio.create_task(first.pulled(10, wait_s=15))
        async with stream(second) as opened:
            await third.manage("pause")
            await site.publish_to_all("new")
            await asyncio.sleep(0.5)
            assert not pull.done()
            assert opened.messages == []
            await third.manage("resume")
            pulled = await pull
            await opened.until(3 - len(pulled))
            messages = [*pulled, *opened.messages]
            assert {m["data"] for m in messages} == {"new"}

            await third.manage("seek", {"to": "earliest"})
            await eventually(lambda: len(opened.messages) >= 6 + 3 - len(pulled), 10)
            again = opened.messages[3 - len(pulled) :]
            assert Counter(m["data"] for m in again) == {"old": 3, "new": 3}
            stale = (await second.ack(*messages)).json()
            assert (stale["acked"], len(stale["results"])) == (0, 3)
            assert (await second.ack(*again)).json()["acked"] == 6
        assert await site.floors() == [2, 2, 2]


async def test_parked_keys_of_all_owners(database: Database, client: StoreClient) -> None:
    opened = LinkedSite.open(
        database,
        client,
        ordered=True,
        retry=RetryPolicy(0.0, 0.0, max_attempts=1),
        on_exhausted="park",
    )
    async with opened as site:
        for partition in range(3):
            await site.publish(partition, "first", "second", key=f"k{partition}")
        front = site.members[0]
        ids = {"ack_ids": [m["ack_id"] for m in await front.everything(3)]}
        assert (await front.post("nack", ids)).json()["done"] == 3
        for member in site.members:
            keys = (await member.call("GET", PARKED, name="reader")).json()["parked_keys"]
            assert [(k["key"], k["partition"]) for k in keys] == [("k0", 0), ("k1", 1), ("k2", 2)]
        for action, key, data in [("skip", "k1", "second"), ("resume", "k2", "first")]:
            path = f"{PARKED}:{action}"
            answer = await front.call("POST", path, {"key": key}, name="reader")
            assert answer.json() == {"done": 1}
            (message,) = await front.everything(1)
            assert (message["key"], message["data"]) == (key, data)
            answer = await front.call("POST", path, {"key": key}, name="reader")
            assert answer.status == 404
        keys = (await front.call("GET", PARKED, name="reader")).json()["parked_keys"]
        assert [k["key"] for k in keys] == ["k0"]
