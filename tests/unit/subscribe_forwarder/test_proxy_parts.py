"""Races, turns and relays, each by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from subscribe_forwarder.fleet.proxy.owner_order import NOTHING_THERE_S, OwnerOrder
from subscribe_forwarder.fleet.proxy.race import Contender, Race
from subscribe_forwarder.fleet.proxy.relay import ProxyPaused, Relay, part_of
from subscribe_forwarder.fleet.proxy.routing import HERE, Found
from tests.unit.subscribe_forwarder.subscribe_support import subscription

A, B = b"a" * 16, b"b" * 16
START = {"type": "http.response.start", "status": 200, "headers": []}
BODY = {"type": "http.response.body", "body": b"x", "more_body": False}


class Client:
    """A client that keeps all that it was sent."""

    def __init__(self, *, holds_lease: bool = True) -> None:
        self.got: list[Any] = []
        self.lease = holds_lease
        self.relay = Relay(self._send, lambda: self.lease)

    async def _send(self, message: Any) -> None:
        self.got.append(message)


async def never(contender: Contender) -> None:
    await asyncio.Event().wait()


# Races.


async def test_one_of_two_may_answer_and_asks_as_often_as_it_likes() -> None:
    race, client = Race(), Client()
    one, other = (Contender(who, race, client.relay, never) for who in (A, B))
    assert [await one.race(), await other.race(), await one.race()] == [True, False, True]
    await other.send(START)
    await other.send(BODY)
    assert client.got == []
    await one.send(START)
    await one.send(BODY)
    assert client.got == [START, BODY]
    await asyncio.gather(one.cancel(), other.cancel())


async def test_who_was_cancelled_and_whoever_comes_after_the_end_wins_nothing() -> None:
    race, client = Race(), Client()
    one, other = (Contender(who, race, client.relay, never) for who in (A, B))
    await one.cancel()
    assert not await one.race()
    race.over = True
    assert not await other.race()
    assert race.winner is None
    await other.cancel()


# Relays.


async def test_the_head_waits_for_the_body() -> None:
    client = Client()
    await client.relay.send(START)
    assert (client.got, client.relay.begun) == ([], False)
    await client.relay.send(BODY)
    assert (client.got, client.relay.begun) == ([START, BODY], True)


async def test_nothing_leaves_without_the_lease_of_the_front() -> None:
    client = Client(holds_lease=False)
    await client.relay.send(START)
    with pytest.raises(ProxyPaused):
        await client.relay.send(BODY)
    assert (client.got, client.relay.begun, client.relay.refused) == ([], False, True)


def test_a_part_has_keys_a_query_and_headers_of_its_own() -> None:
    scope = {"query_string": b"a=1", "headers": [(b"x", b"y")], "method": "POST"}
    part = part_of(scope, {"method": "GET"}, query={"b": 2}, headers=[])
    assert (part["query_string"], part["headers"], part["method"]) == (b"b=2", [], "GET")
    assert part_of(scope)["query_string"] == b"a=1"
    assert scope["method"] == "POST"


# Turns.


def found(here: Sequence[int], elsewhere: Sequence[int]) -> Found:
    partitions = {HERE: tuple(here), A: tuple(elsewhere)}
    owners = {owner: some for owner, some in partitions.items() if some}
    return Found(subscription(), owners, (), 1, len(here) + len(elsewhere))


def test_those_elsewhere_are_first_as_often_as_their_share() -> None:
    turns = OwnerOrder(lambda: 0.0)
    spread = found([0], [1, 2, 3])
    assert sum(turns.elsewhere_first(spread) for _ in range(100)) == 75
    assert not any(OwnerOrder(lambda: 0.0).elsewhere_first(found([0, 1], [])) for _ in range(5))


def test_those_who_had_nothing_are_left_alone_for_a_while() -> None:
    now_s = 0.0
    turns = OwnerOrder(lambda: now_s)
    spread = found([0], [1, 2, 3])
    turns.nothing_elsewhere(spread)
    assert not any(turns.elsewhere_first(spread) for _ in range(5))
    now_s = NOTHING_THERE_S
    assert any(turns.elsewhere_first(spread) for _ in range(5))
