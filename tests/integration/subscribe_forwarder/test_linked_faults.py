"""Calls at one forwarder while the owner of a part of the subscription dies."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from metadata.database import Database
from store_nodes.client import StoreClient
from tests.integration.subscribe_forwarder.linked_site import LinkedSite, Member
from tests.unit.subscribe_forwarder.fleet_support import eventually
from tests.unit.subscribe_forwarder.stream_support import stream
from tests.unit.subscribe_forwarder.subscribe_support import Answer

TAKEOVER_S = 10.0
"""Five seconds are promised; machines under test are slow."""


def ids_of(messages: list[dict[str, Any]]) -> dict[str, Any]:
    return {"ack_ids": [message["ack_id"] for message in messages]}


async def until_done(front: Member, action: str, body: object) -> dict[str, Any]:
    """Send the same request again as long as the answer is a 503."""
    async with asyncio.timeout(TAKEOVER_S):
        while True:
            answer = await front.post(action, body)
            if answer.status == 200:
                return dict(answer.json())
            assert answer.status == 503, answer.body
            await asyncio.sleep(0.1)


async def in_flight(front: Member, owner: Member, action: str, body: object) -> Answer:
    """The owner dies while it is at it."""
    reached = asyncio.Event()

    async def hang(*_: object, **__: object) -> None:
        reached.set()
        await asyncio.Event().wait()

    owner.forwarder.flusher.commit = hang  # type: ignore[method-assign]
    asked = asyncio.create_task(front.post(action, body))
    async with asyncio.timeout(5):
        await reached.wait()
    await owner.die()
    return await asked


@pytest.mark.parametrize("action", ["ack", "nack"])
async def test_an_owner_dies_over_an_ack(
    database: Database, client: StoreClient, action: str
) -> None:
    async with LinkedSite.open(database, client) as site:
        await site.publish_to_all("a", "b")
        front, _, owner = site.members
        messages = await front.everything(6)
        body = ids_of(messages)
        answer = await in_flight(front, owner, action, body)
        problem = answer.json()
        assert (answer.status, problem["outcome"]) == (503, "unknown")
        assert problem["type"].endswith("ack-not-durable")
        assert f"The {action} may or may not take effect" in problem["detail"]
        done = await until_done(front, action, body)
        if action == "ack":
            assert done == {"acked": 6, "results": []}
            assert await site.floors() == [2, 2, 2]
        else:
            there = {i for i, one in enumerate(messages) if one["partition"] != 2}
            told = {result["index"] for result in done["results"]}
            assert there <= told, "what was nacked before the death is leased by nobody"
            again = await front.everything(6)
            assert len({m["message_id"] for m in again}) == 6


async def test_an_ack_of_what_nobody_owns_is_answered_within_a_second_or_so(
    database: Database, client: StoreClient
) -> None:
    async with LinkedSite.open(database, client) as site:
        await site.publish_to_all("a")
        front, _, owner = site.members
        messages = await front.everything(3)
        await owner.die()
        await eventually(lambda: len(front.network.peers()) == 1)
        began_s = time.monotonic()
        answer = await front.post("ack", ids_of(messages))
        assert answer.status == 503
        assert time.monotonic() - began_s < 3.0
        floors = await site.floors()
        assert floors == [1, 1, 0], "the others have done their part"
        assert await until_done(front, "ack", ids_of(messages)) == {"acked": 3, "results": []}
        assert await site.floors() == [1, 1, 1]


async def test_an_ack_that_publishes_is_once_over_the_death_of_its_owner(
    database: Database, client: StoreClient
) -> None:
    async with LinkedSite.open(database, client) as site:
        await site.publish(2, "a")
        front, _, owner = site.members
        (message,) = await front.everything(1)
        publish = [{"topic": "outputs", "data": "done"}]
        body = ids_of([message]) | {"publish": publish}
        answer = await in_flight(front, owner, "ack", body)
        assert (answer.status, answer.json()["outcome"]) == (503, "unknown")
        assert (await until_done(front, "ack", body))["acked"] == 1
        assert (await front.post("ack", body)).json()["duplicate"]
        assert await site.stored("outputs") == ["done"]
        assert await site.floors() == [0, 0, 1]


@pytest.mark.parametrize("dies", [1, 2])
async def test_a_stream_and_a_pull_outlive_an_owner(
    database: Database, client: StoreClient, dies: int
) -> None:
    async with LinkedSite.open(database, client) as site:
        front = site.members[0]
        async with stream(front, "heartbeat_seconds=1") as opened:
            await site.publish_to_all("a")
            first = await opened.until(3)
            assert (await front.ack(*first)).json()["acked"] == 3
            await site.members[dies].die()
            await site.publish_to_all("b")
            await eventually(lambda: len(opened.messages) >= 6, TAKEOVER_S)
            fresh = opened.messages[3:]
            assert {m["data"] for m in fresh} == {"b"}
            assert {m["partition"] for m in fresh} == {0, 1, 2}
            assert (await front.ack(*fresh)).json()["acked"] == 3
            assert not opened.whole
        assert await site.floors() == [2, 2, 2]


async def test_a_pull_that_waits_at_a_dead_owner_gets_it_from_the_next(
    database: Database, client: StoreClient
) -> None:
    async with LinkedSite.open(database, client) as site:
        front, _, owner = site.members
        pull = asyncio.create_task(front.pulled(5, wait_s=20))
        await asyncio.sleep(0.2)
        await owner.die()
        await site.publish(2, "x")
        async with asyncio.timeout(TAKEOVER_S):
            (message,) = await pull
        assert (message["partition"], message["attempt"]) == (2, 1)
        assert (await front.ack(message)).json()["acked"] == 1


async def test_exactly_once_leases_of_a_dead_owner_hold(
    database: Database, client: StoreClient
) -> None:
    opened = LinkedSite.open(database, client, delivery="exactly_once")
    async with opened as site:
        await site.publish_to_all("a", "b")
        front, _, owner = site.members
        got = await front.everything(6)
        await owner.die()
        done = await until_done(front, "ack", ids_of(got))
        assert done == {"acked": 6, "results": []}
        assert await front.pulled(5, wait_s=1) == []
        assert await site.floors() == [2, 2, 2]
