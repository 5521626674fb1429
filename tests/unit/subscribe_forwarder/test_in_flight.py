"""Deliveries pause when a tenant's messages in flight reach its share, over all its
subscriptions.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from edge.quota import ACKS, DELIVERED_BYTES, DELIVERED_MESSAGES, IN_FLIGHT
from subscribe_forwarder.delivery.hub import PAUSED_TENANT
from subscribe_forwarder.delivery.throttling.in_flight import COUNT_EVERY_S, Both, InFlight
from tests.unit.subscribe_forwarder.subscribe_support import (
    FakeMetadata,
    subscription,
    topic,
    world,
)

TENANT = b"t" * 16


class Levels:
    """`edge.quota.Quotas`."""

    def __init__(self, share: float | None) -> None:
        self.of_tenant = share
        self.asked = 0

    def share(self, tenant_id: bytes, quota: str, held: int, wanted: int) -> float | None:
        assert (tenant_id, quota) == (TENANT, IN_FLIGHT)
        self.asked = max(self.asked, held + wanted)
        return self.of_tenant


class Hub:
    def __init__(self) -> None:
        self.held = 0

    def leased(self) -> int:
        return self.held


@pytest.fixture
def hubs() -> list[Hub]:
    return [Hub(), Hub()]


def test_without_a_limit_nothing_is_held_back(hubs: list[Hub]) -> None:
    tenant = InFlight(Levels(None), lambda: 0.0).of(TENANT)
    assert not tenant.active
    assert tenant.room(10**6, 0.0) == 10**6


def test_subscriptions_share_the_room(hubs: list[Hub]) -> None:
    levels = Levels(10.0)
    tenant = InFlight(levels, lambda: 0.0).of(TENANT)
    for hub in hubs:
        tenant.add(hub)
    assert tenant.active
    hubs[0].held = 4
    assert tenant.room(100, 0.0) == 6
    tenant.took(6, 0.0)
    assert tenant.room(100, 0.0) == 0
    assert levels.asked == 110, "what would be taken is told"
    assert tenant.due_s(1, 0.0) is not None
    hubs[0].held, hubs[1].held = 1, 6
    assert tenant.room(100, COUNT_EVERY_S) == 3
    assert tenant.due_s(1, COUNT_EVERY_S) is None


def test_who_has_no_room_at_all_has_room_for_one() -> None:
    tenant = InFlight(Levels(0.2), lambda: 0.0).of(TENANT)
    assert tenant.room(100, 0.0) == 1
    tenant.took(1, 0.0)
    assert tenant.room(100, 0.0) == 0


def test_what_did_not_go_is_counted_anew(hubs: list[Hub]) -> None:
    tenant = InFlight(Levels(10.0), lambda: 0.0).of(TENANT)
    assert tenant.room(10, 0.0) == 10
    tenant.took(10, 0.0)
    tenant.give_back(10, 0.0)
    assert tenant.room(10, 0.0) == 10


def test_it_holds_beside_what_holds_for_the_process() -> None:
    class Process:
        active = True

        def room(self, wanted: int, now_s: float) -> int:
            return min(wanted, 3)

        def took(self, count: int, now_s: float) -> None: ...
        def give_back(self, count: int, now_s: float) -> None: ...
        def due_s(self, wanted: int, now_s: float) -> float | None:
            return 7.0

    tenant = InFlight(Levels(5.0), lambda: 0.0).of(TENANT)
    both = Both(Process(), tenant)
    assert both.room(10, 0.0) == 3
    assert both.due_s(1, 0.0) == 7.0
    both.took(5, 0.0)
    assert both.room(10, 0.0) == 0


class Usage:
    """`edge.quota.Usage`."""

    def __init__(self) -> None:
        self.counted: Counter[str] = Counter()

    def count(self, tenant_id: bytes, metric: str, value: float) -> None:
        self.counted[metric] += int(value)


async def test_hand_outs_pause_at_the_tenants_limit_and_go_on_after_acks() -> None:
    async with world() as w:
        w.forwarder._in_flight = InFlight(AnyTenant(4.0), w.clock)
        w.store.publish(*[b"%d" % number for number in range(10)])
        first = await w.pulled(wait_s=1)
        assert len(first) == 4
        assert (await w.pull()).json()["messages"] == []
        (hub,) = w.forwarder._hubs
        assert hub.paused_reason() == PAUSED_TENANT
        assert [one.kind for one in hub.throttles()] == ["tenant_in_flight"]
        waiting = asyncio.ensure_future(w.pulled(wait_s=20))
        await asyncio.sleep(0)
        await w.ack(*first[:3])
        assert len(await waiting) in (1, 2, 3)


async def test_leases_that_ended_make_room_for_another_subscription() -> None:
    metadata = FakeMetadata(topic(), subscription(ack_deadline_s=10.0))
    other = subscription("other", uid=b"o" * 16)
    metadata.add_rows(other, topic())
    async with world(metadata=metadata) as w:
        await w.ready()
        w.forwarder._in_flight = InFlight(AnyTenant(4.0), w.clock)
        w.store.publish(*[b"%d" % number for number in range(10)])
        assert len(await w.pulled(wait_s=1)) == 4
        assert (await w.pull(name="other")).json()["messages"] == []
        w.clock.added_s += 11.0
        await w.ready()
        answer = await w.pull(name="other", wait_s=5)
        assert len(answer.json()["messages"]) == 4


async def test_what_is_handed_out_and_acked_is_counted() -> None:
    async with world() as w:
        usage = w.forwarder.usage = Usage()
        w.store.publish(b"12345", b"67")
        got = await w.pulled(wait_s=1)
        await w.ack(*got)
        await w.ack(*got)
        assert usage.counted == {DELIVERED_MESSAGES: 2, DELIVERED_BYTES: 7, ACKS: 2}


class AnyTenant:
    """`edge.quota.Quotas`: the same share for everybody."""

    def __init__(self, share: float) -> None:
        self._share = share

    def share(self, tenant_id: bytes, quota: str, held: int, wanted: int) -> float:
        return self._share
