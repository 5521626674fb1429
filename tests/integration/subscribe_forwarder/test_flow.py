"""Limits that a consumer gives at one of two forwarders; both keep to them."""

from __future__ import annotations

import asyncio
import time

import pytest

from metadata.database import Database
from store_nodes.client import StoreClient
from tests.integration.subscribe_forwarder.linked_site import LinkedSite, Member
from tests.unit.subscribe_forwarder.fleet_support import eventually

FLOW = "/subscriptions/{name}/flow"
BACKLOG = "/subscriptions/{name}/backlog"
STOP = {"messages_per_second": 0, "ttl_seconds": 600, "reason": "closed"}
PATIENCE_S = 20.0


async def say(member: Member, **body: object) -> None:
    answer = await member.call("POST", FLOW, body, name="reader")
    assert answer.status == 200, answer.body


def known(site: LinkedSite) -> list[object]:
    """Return the rate that each forwarder knows."""
    said = [member.book.of(site.subscription.uid) for member in site.members]
    return [None if one is None else one.messages_per_second for one in said]


async def test_it_holds_at_all_owners_until_it_is_taken_back(
    database: Database, client: StoreClient
) -> None:
    async with LinkedSite.open(database, client, owners=(0, 1, 1)) as site:
        one, other = site.members
        await site.publish_to_all("a", "b")
        await say(one, **STOP)
        await eventually(lambda: known(site) == [0.0, 0.0], PATIENCE_S)
        assert await one.pulled(10) == await other.pulled(10) == []
        waiting = asyncio.create_task(one.pulled(10, wait_s=20))
        backlog = (await other.call("GET", BACKLOG, name="reader")).json()
        (throttle,) = backlog["throttles"]
        assert throttle.pop("until") is not None
        wanted = {"kind": "flow_messages_per_second", "reason": "closed", "value": 0.0}
        assert (throttle, backlog["paused"]) == (wanted, "rate_limited")
        shown = (await other.call("GET", FLOW, name="reader")).json()
        assert (shown["messages_per_second"], shown["said_by"]) == (0.0, "dev")
        assert (await other.call("DELETE", FLOW, name="reader")).status == 204
        got = await waiting
        got += await other.everything(6 - len(got))
        assert len({message["message_id"] for message in got}) == 6
        assert (await one.call("GET", FLOW, name="reader")).json()["until"] is None


async def test_what_no_note_told_is_known_by_the_change_feed(
    database: Database, client: StoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with LinkedSite.open(database, client, owners=(0, 1, 1)) as site:
        for member in site.members:
            monkeypatch.setattr(member.network, "tell", lambda subject, body: None)
        await say(site.members[0], **STOP)
        began_s = time.monotonic()
        await eventually(lambda: known(site) == [0.0, 0.0], PATIENCE_S)
        assert time.monotonic() - began_s < PATIENCE_S
        await say(site.members[1], messages_per_second=5)
        await eventually(lambda: known(site) == [5.0, 5.0], PATIENCE_S)


async def test_a_rate_holds_over_all_owners_together(
    database: Database, client: StoreClient
) -> None:
    async with LinkedSite.open(database, client, owners=(0, 1, 1)) as site:
        for partition in range(3):
            await site.publish(partition, *[str(number) for number in range(100)])
        await say(site.members[0], messages_per_second=15)
        await eventually(lambda: known(site) == [15.0, 15.0], PATIENCE_S)
        began_s = time.monotonic()
        got = 0
        while time.monotonic() - began_s < 3:
            got += len(await site.members[got % 2].pulled(100, wait_s=0.2))
        took_s = time.monotonic() - began_s
        assert got <= 15 * (took_s + 1) + 2, "a second's worth may go at once"
        assert got > 0


async def test_outstanding_messages_are_bounded(database: Database, client: StoreClient) -> None:
    async with LinkedSite.open(database, client, owners=(0, 1, 1)) as site:
        await site.publish_to_all("a", "b", "c", "d")
        await say(site.members[1], max_outstanding=3)
        await eventually(
            lambda: all(m.book.of(site.subscription.uid) for m in site.members), PATIENCE_S
        )
        got = [m for member in site.members for m in await member.pulled(10)]
        assert 0 < len(got) <= 3
        assert not await site.members[0].pulled(10)


async def test_it_ends_by_itself(database: Database, client: StoreClient) -> None:
    async with LinkedSite.open(database, client, owners=(0, 1, 1)) as site:
        await site.publish_to_all("a")
        await say(site.members[0], messages_per_second=0, ttl_seconds=1)
        got = await site.members[1].everything(3)
        assert len(got) == 3


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "messages_per_second"),
        ({"messages_per_second": -1}, "messages_per_second"),
        ({"max_outstanding": 0}, "max_outstanding"),
        ({"messages_per_second": 1, "ttl_seconds": 0}, "ttl_seconds"),
        ({"messages_per_second": 1, "ttl_seconds": 3601}, "ttl_seconds"),
        ({"messages_per_second": 1, "reason": "x" * 257}, "reason"),
        ({"messages_per_second": 1, "color": "red"}, "color"),
    ],
)
async def test_what_does_not_fit_is_named(
    database: Database, client: StoreClient, body: dict[str, object], field: str
) -> None:
    async with LinkedSite.open(database, client, owners=(0, 0, 0)) as site:
        answer = await site.members[0].call("POST", FLOW, body, name="reader")
        assert answer.status == 422
        assert [error["field"] for error in answer.json()["errors"]] == [field]
        assert (await site.members[0].call("GET", FLOW, name="other")).status == 404
