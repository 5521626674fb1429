"""Appends: exactly once, in order, three outcomes; over every fault that a cluster can show."""

from __future__ import annotations

import asyncio

import pytest

from store_nodes.client import Durability
from store_nodes.commands import parse
from store_nodes.errors import (
    DeadlinePassed,
    DiskFull,
    OutcomeUnknown,
    Overloaded,
    QueueNotFound,
    QueueSealed,
    Unavailable,
)
from store_nodes.queue_id import QueueId
from tests.unit.store_client.store_client_support import (
    GROUP,
    QUEUE,
    FakeNode,
    is_append,
    store_and_client,
    until,
)


def batches(count: int, start: int = 0) -> list[bytes]:
    return [b"batch %d" % number for number in range(start, start + count)]


async def test_appends_get_dense_offsets_in_the_order_of_the_calls():
    async with store_and_client() as (store, client):
        appender = client.appender(GROUP, QUEUE)
        futures = [appender.append(batch, 2) for batch in batches(300)]
        receipts = await asyncio.gather(*futures)
        assert [r.base_offset for r in receipts] == list(range(0, 600, 2))
        assert store.log.stored() == batches(300)
        assert receipts == sorted(receipts, key=lambda r: r.log_time_us)
        await until(lambda: appender.idle)


async def test_at_most_64_are_in_flight():
    async with store_and_client() as (store, client):
        store.leader.intercept = lambda node, group, raw, reply: True
        appender = client.appender(GROUP, QUEUE)
        futures = [appender.append(batch, 1, timeout_s=0.3) for batch in batches(100)]
        await asyncio.sleep(0.15)
        assert len(store.leader.commands) == 64
        results = await asyncio.gather(*futures, return_exceptions=True)
        assert [type(r) for r in results] == [OutcomeUnknown] * 64 + [Unavailable] * 36


async def test_too_many_waiting_are_refused_at_once():
    async with store_and_client() as (store, client):
        store.leader.intercept = lambda node, group, raw, reply: True
        appender = client.appender(GROUP, QUEUE)
        futures = [appender.append(b"x", 1, timeout_s=0.1) for _ in range(64 + 1024)]
        with pytest.raises(Overloaded):
            appender.append(b"x", 1)
        await asyncio.gather(*futures, return_exceptions=True)


@pytest.mark.parametrize("lost", [1, 3])
async def test_cut_after_apply_before_reply_is_stored_once(lost):
    async with store_and_client() as (store, client):
        left = lost

        def apply_and_cut(node: FakeNode, group: int, raw: bytes, reply: object) -> bool:
            nonlocal left
            if left == 0 or not is_append(raw):
                return False
            left -= 1
            store.log.apply(raw)
            node.cut()
            return True

        store.leader.intercept = apply_and_cut
        appender = client.appender(GROUP, QUEUE)
        futures = [appender.append(batch, 1) for batch in batches(20)]
        receipts = await asyncio.gather(*futures)
        assert store.log.stored() == batches(20)
        assert [r.base_offset for r in receipts] == list(range(20))
        assert receipts[0].duplicate


async def test_kill_of_the_leader_goes_on_with_the_next():
    async with store_and_client() as (store, client):
        appender = client.appender(GROUP, QUEUE)
        half_applied = iter(range(10))

        def apply_but_keep_the_reply(node: FakeNode, group: int, raw: bytes, reply: object) -> bool:
            if next(half_applied, None) is not None:
                store.log.apply(raw)
            return True

        store.leader.intercept = apply_but_keep_the_reply
        futures = [appender.append(batch, 1) for batch in batches(30)]
        await until(lambda: len(store.leader.commands) == 30)
        assert client.has_leader(GROUP)
        await store.leader.kill()
        await until(lambda: not client.has_leader(GROUP), 0.5)
        futures += [appender.append(batch, 1) for batch in batches(10, 30)]
        store.elect(2)
        receipts = await asyncio.gather(*futures)
        assert store.log.stored() == batches(40)
        assert [r.base_offset for r in receipts] == list(range(40))
        assert [r.duplicate for r in receipts] == [True] * 10 + [False] * 30


async def test_leader_that_steps_down_names_the_next():
    async with store_and_client() as (store, client):
        appender = client.appender(GROUP, QUEUE)
        await appender.append(b"first", 1)
        store.elect(3, announce=False)
        futures = [appender.append(batch, 1) for batch in batches(10)]
        await asyncio.gather(*futures)
        assert client.leader(GROUP) == 3
        assert store.log.stored() == [b"first", *batches(10)]


async def test_hung_leader_is_left_when_another_is_elected():
    async with store_and_client() as (store, client):
        appender = client.appender(GROUP, QUEUE)
        await appender.append(b"first", 1)
        store.leader.hang()
        futures = [appender.append(batch, 1) for batch in batches(5)]
        await asyncio.sleep(0.1)
        began = asyncio.get_running_loop().time()
        store.leadership[GROUP] = (2, 2)
        store.nodes[2].announce()
        await asyncio.gather(*futures)
        assert asyncio.get_running_loop().time() - began < 0.5
        assert store.log.stored() == [b"first", *batches(5)]


async def test_silent_leader_is_suspected_then_dropped():
    async with store_and_client() as (store, client):
        store.leader.hang()
        await until(lambda: not client.has_leader(GROUP), 2.0)
        await until(lambda: client.leader_link(GROUP) is None, 4.0)


async def test_deadline_without_a_leader_is_not_done():
    async with store_and_client() as (store, client):
        store.elect(None)
        await until(lambda: not client.has_leader(GROUP))
        with pytest.raises(Unavailable):
            await client.appender(GROUP, QUEUE).append(b"x", 1, timeout_s=0.1)
        assert store.log.stored() == []


async def test_deadline_after_sending_is_unknown_and_the_next_keeps_its_place():
    async with store_and_client() as (store, client):
        kept: list[bytes] = []

        def keep(node: FakeNode, group: int, raw: bytes, reply: object) -> bool:
            kept.append(raw)
            return True

        store.leader.intercept = keep
        appender = client.appender(GROUP, QUEUE)
        with pytest.raises(OutcomeUnknown):
            await appender.append(b"lost", 1, timeout_s=0.1)
        later = appender.append(b"later", 1)
        await until(lambda: len(kept) == 2)
        store.nodes[1].intercept = None
        store.elect(2)
        # The log answers the first with "deadline passed", which uses up its sequence.
        assert (await later).base_offset == 0
        for raw in kept:
            store.log.apply(raw)  # the old leader's copies come at last
        assert store.log.stored() == [b"later"]


async def test_a_session_is_kept_a_while_past_the_deadline_of_what_was_lost():
    """Our estimate of log time may be ahead of it, and then the log still takes the append."""
    async with store_and_client() as (store, client):
        kept: list[bytes] = []

        def keep(node: FakeNode, group: int, raw: bytes, reply: object) -> bool:
            kept.append(raw)
            return True

        store.leader.intercept = keep
        appender = client.appender(GROUP, QUEUE)
        with pytest.raises(OutcomeUnknown):
            await appender.append(b"lost", 1, timeout_s=0.1)
        appender.append(b"later", 1)
        await until(lambda: len(kept) == 2)
        lost, later = (parse(raw) for raw in kept)
        assert (later.session, later.seq) == (lost.session, lost.seq + 1)


async def test_the_log_refuses_what_is_past_its_deadline():
    async with store_and_client() as (store, client):
        store.log.clock_ahead_us = 60_000_000
        with pytest.raises(DeadlinePassed):
            await client.appender(GROUP, QUEUE).append(b"x", 1, timeout_s=1)
        # The leader's next reading sets the client's estimate right.
        await until(lambda: client.log_time_us(GROUP) > store.log.machine.log_time_us - 1_000_000)
        await client.appender(GROUP, QUEUE).append(b"y", 1, timeout_s=1)
        assert store.log.stored() == [b"y"]


async def test_session_forgotten_by_the_log_is_replaced():
    async with store_and_client() as (store, client):
        appender = client.appender(GROUP, QUEUE)
        await appender.append(b"before", 1)
        store.log.clock_ahead_us = 120_000_000
        await until(lambda: client.log_time_us(GROUP) > store.log.machine.log_time_us + 100_000_000)
        futures = [appender.append(batch, 1) for batch in batches(70)]
        receipts = await asyncio.gather(*futures)
        assert [r.base_offset for r in receipts] == list(range(1, 71))
        assert store.log.stored() == [b"before", *batches(70)]


async def test_refused_without_being_proposed_leaves_no_gap():
    async with store_and_client() as (store, client):
        refused = [b"batch 3", b"batch 7"]

        def disk_full(node: FakeNode, group: int, raw: bytes, reply: object) -> bool:
            if any(raw.endswith(batch) for batch in refused):
                reply.failed(DiskFull("full"), decided=False)
                return True
            return False

        store.leader.intercept = disk_full
        appender = client.appender(GROUP, QUEUE)
        futures = [appender.append(batch, 1) for batch in batches(10)]
        results = await asyncio.gather(*futures, return_exceptions=True)
        assert [n for n, r in enumerate(results) if isinstance(r, DiskFull)] == [3, 7]
        assert store.log.stored() == [b for b in batches(10) if b not in refused]


async def test_overloaded_is_tried_again_in_order():
    async with store_and_client() as (store, client):
        tries = iter([False, True, False, True, True, False, True])

        def sometimes(node: FakeNode, group: int, raw: bytes, reply: object) -> bool:
            if next(tries, False):
                reply.failed(Overloaded("busy"), decided=False)
                return True
            return False

        store.leader.intercept = sometimes
        appender = client.appender(GROUP, QUEUE)
        futures = [appender.append(batch, 1) for batch in batches(12)]
        receipts = await asyncio.gather(*futures)
        assert store.log.stored() == batches(12)
        assert [r.base_offset for r in receipts] == list(range(12))


async def test_refused_after_a_lost_transmission_is_unknown():
    async with store_and_client() as (store, client):
        seen: list[bytes] = []

        def cut_then_full(node: FakeNode, group: int, raw: bytes, reply: object) -> bool:
            seen.append(raw)
            if len(seen) == 1:
                node.cut()
            else:
                reply.failed(DiskFull("full"), decided=False)
            return True

        store.leader.intercept = cut_then_full
        appender = client.appender(GROUP, QUEUE)
        with pytest.raises(OutcomeUnknown):
            await appender.append(b"x", 1, timeout_s=0.4)
        assert len(seen) >= 2
        assert len(set(seen)) == 1


async def test_session_given_up_only_after_the_deadline_of_what_was_lost():
    async with store_and_client() as (store, client):
        lost: list[bytes] = []

        def lose_then_full(node: FakeNode, group: int, raw: bytes, reply: object) -> bool:
            if raw.endswith(b"lost"):
                if not lost:
                    lost.append(raw)
                    node.cut()
                else:
                    reply.failed(DiskFull("full"), decided=False)
                return True
            return False

        store.leader.intercept = lose_then_full
        appender = client.appender(GROUP, QUEUE)
        first = appender.append(b"lost", 1, timeout_s=0.3)
        await until(lambda: len(store.leader.commands) > 1)
        second = appender.append(b"second", 1, timeout_s=5)
        with pytest.raises(OutcomeUnknown):
            await first
        assert (await second).base_offset == 0
        store.log.apply(lost[0])  # refused: its deadline is over, so it cannot come second
        assert store.log.stored() == [b"second"]


async def test_a_new_session_waits_for_what_may_still_be_applied():
    async with store_and_client() as (store, client):
        sent: list[bytes] = []

        def silent_or_full(node: FakeNode, group: int, raw: bytes, reply: object) -> bool:
            sent.append(raw)
            if raw.endswith(b"refused"):
                reply.failed(DiskFull("full"), decided=False)
            return True

        store.leader.intercept = silent_or_full
        appender = client.appender(GROUP, QUEUE)
        appender.append(b"silent", 1, timeout_s=5)
        with pytest.raises(DiskFull):
            await appender.append(b"refused", 1, timeout_s=0.2)
        await asyncio.sleep(0.2)
        assert len({parse(raw).session for raw in sent}) == 1


async def test_sealed_queue_names_end_and_successors():
    async with store_and_client() as (_store, client):
        appender = client.appender(GROUP, QUEUE)
        await appender.append(b"x", 5)
        successor = (9, QUEUE._replace(generation=1))
        assert await client.seal(GROUP, QUEUE, [successor]) == 5
        with pytest.raises(QueueSealed) as caught:
            await appender.append(b"y", 1)
        assert caught.value.offset == 5
        assert caught.value.successors == ((9, successor[1].pack()),)


async def test_unknown_queue_is_not_found():
    async with store_and_client() as (_, client):
        with pytest.raises(QueueNotFound):
            await client.appender(GROUP, QueueId(bytes(16), 1)).append(b"x", 1)


async def test_early_durabilities_are_answered_early_without_an_offset():
    async with store_and_client() as (store, client):
        held: list[tuple[bytes, object]] = []

        def hold(node: FakeNode, group: int, raw: bytes, reply: object) -> bool:
            held.append((raw, reply))
            if len(held) == 2:
                reply.accepted()
            return True

        store.leader.intercept = hold
        appender = client.appender(GROUP, QUEUE)
        none = await appender.append(b"none", 1, durability=Durability.NONE)
        leader = await appender.append(b"leader", 1, durability=Durability.LEADER)
        assert none.base_offset == leader.base_offset == -1
        assert store.log.stored() == []
        await store.leader.kill()
        store.elect(2)
        assert (await appender.append(b"quorum", 1)).base_offset == 2
        assert store.log.stored() == [b"none", b"leader", b"quorum"]
        assert client.lost_after_accept == 0


async def test_cancelled_append_is_never_half_stored():
    async with store_and_client() as (store, client):
        appender = client.appender(GROUP, QUEUE)
        futures = [appender.append(batch, 1) for batch in batches(100)]
        for future in futures[::3]:
            future.cancel()
        await asyncio.gather(*futures, return_exceptions=True)
        stored = store.log.stored()
        # Those in the window had been sent; those still waiting were taken back.
        assert stored == [b for n, b in enumerate(batches(100)) if n < 64 or n % 3]


async def test_two_appenders_of_one_queue_do_not_disturb_each_other():
    async with store_and_client() as (store, client):
        one, two = client.appender(GROUP, QUEUE), client.appender(GROUP, QUEUE)
        futures = []
        for number in range(50):
            futures.append(one.append(b"one %d" % number, 1))
            futures.append(two.append(b"two %d" % number, 1))
        await asyncio.gather(*futures)
        stored = store.log.stored()
        assert [b for b in stored if b.startswith(b"one")] == [b"one %d" % n for n in range(50)]
        assert [b for b in stored if b.startswith(b"two")] == [b"two %d" % n for n in range(50)]


async def test_closing_the_client_answers_every_append():
    async with store_and_client() as (store, client):
        store.leader.intercept = lambda node, group, raw, reply: True
        appender = client.appender(GROUP, QUEUE)
        futures = [appender.append(batch, 1) for batch in batches(70)]
        await until(lambda: len(store.leader.commands) == 64)
        await client.close()
        results = await asyncio.gather(*futures, return_exceptions=True)
        assert [type(r) for r in results] == [OutcomeUnknown] * 64 + [Unavailable] * 6
        with pytest.raises(Unavailable):
            appender.append(b"x", 1)
