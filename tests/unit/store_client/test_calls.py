"""Commands and reads of the client: leaders followed, replicas fallen back to, deadlines kept."""

from __future__ import annotations

import asyncio

import pytest

from peering.shared_secret import SharedSecret
from store_nodes.errors import (
    OutcomeUnknown,
    QueueExists,
    QueueNotFound,
    QueueSealed,
    QueueTruncated,
    Unavailable,
)
from store_nodes.queue_id import QueueId
from tests.unit.store_client.store_client_support import (
    GROUP,
    QUEUE,
    FakeNode,
    FakeStore,
    store_and_client,
    until,
)

OTHER = QueueId(bytes(16), 2)


async def test_create_is_idempotent_but_not_with_another_meta():
    async with store_and_client([]) as (_, client):
        await client.create(GROUP, QUEUE, 10, b"meta")
        await client.create(GROUP, QUEUE, 10, b"meta")
        with pytest.raises(QueueExists):
            await client.create(GROUP, QUEUE, 10, b"other")


async def test_command_whose_answer_was_lost_is_sent_again():
    async with store_and_client([]) as (store, client):
        cuts = iter([True, True, False])

        def apply_and_cut(node: FakeNode, group: int, raw: bytes, reply: object) -> bool:
            store.log.apply(raw)
            if next(cuts, False):
                node.cut()
                return True
            return False

        store.leader.intercept = apply_and_cut
        await client.create(GROUP, QUEUE)
        assert await client.seal(GROUP, QUEUE) == 0
        await client.delete(GROUP, QUEUE)
        await client.delete(GROUP, QUEUE)


async def test_command_not_answered_in_time_is_unknown():
    async with store_and_client() as (store, client):
        store.leader.intercept = lambda node, group, raw, reply: True
        with pytest.raises(OutcomeUnknown):
            await client.seal(GROUP, QUEUE, timeout_s=0.1)


async def test_command_without_a_leader_is_not_done():
    async with store_and_client() as (store, client):
        store.elect(None)
        await until(lambda: not client.has_leader(GROUP))
        with pytest.raises(Unavailable):
            await client.seal(GROUP, QUEUE, timeout_s=0.1)


async def test_command_moves_from_a_hung_leader_to_the_next():
    async with store_and_client() as (store, client):
        store.leader.hang()
        sealing = asyncio.ensure_future(client.seal(GROUP, QUEUE))
        await asyncio.sleep(0.05)
        store.leadership[GROUP] = (3, 2)
        store.nodes[3].announce()
        assert await asyncio.wait_for(sealing, 1.0) == 0


async def test_seal_with_other_successors_is_refused():
    async with store_and_client() as (_, client):
        await client.seal(GROUP, QUEUE)
        with pytest.raises(QueueSealed):
            await client.seal(GROUP, QUEUE, [(1, OTHER)])


async def test_fetch_slices_the_stored_batches():
    async with store_and_client() as (_, client):
        appender = client.appender(GROUP, QUEUE)
        sizes = [1, 1000, 1_000_000, 3]
        for number, size in enumerate(sizes):
            await appender.append(bytes([number]) * size, 2)
        fetched = await client.fetch(GROUP, QUEUE, 2, 10_000_000)
        assert [e.base_offset for e in fetched.entries] == [2, 4, 6]
        assert [bytes(e.batch) for e in fetched.entries] == [
            bytes([n]) * size for n, size in enumerate(sizes)
        ][1:]
        assert (fetched.first_offset, fetched.readable_end) == (0, 8)
        assert (await client.fetch(GROUP, QUEUE, 8, 100)).entries == []


async def test_fetch_needs_no_leader():
    async with store_and_client() as (store, client):
        await client.appender(GROUP, QUEUE).append(b"x", 1)
        await store.leader.kill()
        store.elect(None)
        await until(lambda: not client.has_leader(GROUP))
        fetched = await client.fetch(GROUP, QUEUE, 0, 100)
        assert [bytes(e.batch) for e in fetched.entries] == [b"x"]


async def test_fetch_passes_over_a_replica_that_is_behind():
    async with store_and_client() as (store, client):
        await client.appender(GROUP, QUEUE).append(b"x", 1)
        store.nodes[1].behind = store.nodes[2].behind = True
        assert (await client.fetch(GROUP, QUEUE, 0, 100)).entries == []
        fetched = await client.fetch(GROUP, QUEUE, 0, 100, min_end=1)
        assert [bytes(e.batch) for e in fetched.entries] == [b"x"]
        store.nodes[3].behind = True
        fetched = await client.fetch(GROUP, QUEUE, 0, 100, min_end=1)
        assert (fetched.entries, fetched.readable_end) == ([], 0)


async def test_fetch_leaves_a_hung_node():
    async with store_and_client() as (store, client):
        await client.appender(GROUP, QUEUE).append(b"x", 1)
        store.leader.hang()
        fetched = await asyncio.wait_for(client.fetch(GROUP, QUEUE, 0, 100), 2.0)
        assert len(fetched.entries) == 1


async def test_fetch_below_the_first_offset_names_it():
    async with store_and_client() as (store, client):
        appender = client.appender(GROUP, QUEUE)
        await appender.append(b"x", 5)
        await appender.append(b"y", 5)
        assert await client.truncate(GROUP, QUEUE, 5) == 5
        with pytest.raises(QueueTruncated) as caught:
            await client.fetch(GROUP, QUEUE, 0, 100)
        assert caught.value.first_offset == 5
        store.elect(None)
        await until(lambda: not client.has_leader(GROUP))
        with pytest.raises(QueueTruncated):
            await asyncio.wait_for(client.fetch(GROUP, QUEUE, 0, 100), 1.0)


async def test_offsets_are_the_leaders():
    async with store_and_client() as (store, client):
        await client.appender(GROUP, QUEUE).append(b"x", 3)
        found = await client.offsets(GROUP, QUEUE)
        assert (found.first, found.end, found.sealed) == (0, 3, False)
        store.elect(2, announce=False)
        assert (await client.offsets(GROUP, QUEUE)).end == 3
        with pytest.raises(QueueNotFound):
            await client.offsets(GROUP, OTHER)


async def test_offset_at_is_by_log_time():
    async with store_and_client() as (_, client):
        appender = client.appender(GROUP, QUEUE)
        receipts = [await appender.append(b"x", 1) for _ in range(3)]
        assert await client.offset_at(GROUP, QUEUE, receipts[1].log_time_us) == 1
        assert await client.offset_at(GROUP, QUEUE, receipts[2].log_time_us + 1) == 3


async def test_queues_are_paged(monkeypatch):
    monkeypatch.setattr("store_nodes.client.reads.QUEUES_PER_PAGE", 2)
    queues = [QueueId(bytes(16), number) for number in range(5)]
    async with store_and_client(queues) as (_, client):
        found = await client.queues(GROUP)
        assert [row.queue for row in found] == [queue.pack() for queue in queues]


async def test_status_names_the_node_that_is_down():
    async with store_and_client() as (store, client):
        await store.nodes[3].kill()
        await until(lambda: client._links[3].up is False)
        status = await client.status()
        assert status[1] == {"node": 1}
        assert "error" in status[3]


async def test_not_ready_says_which_groups_and_why():
    store = FakeStore(secret=SharedSecret(b"another"))
    await store.start()
    client = store.client()
    await client.start()
    with pytest.raises(Unavailable, match="the secrets differ"):
        await client.wait_ready(0.3)
    await client.close()
    await store.close()


async def test_client_finds_nodes_that_come_up_later():
    async with store_and_client() as (store, client):
        for node in store.nodes.values():
            await node.kill()
        await until(lambda: not client.has_leader(GROUP))
        await asyncio.sleep(0.1)
        for node in store.nodes.values():
            await node.start()
        await client.wait_ready(2.0)
        await client.appender(GROUP, QUEUE).append(b"x", 1)


@pytest.mark.parametrize("use", ["command", "read", "fetch", "append", "watch"])
async def test_a_client_that_dials_at_its_first_use_is_then_like_any_other(use: str):
    async with store_and_client() as (store, _):
        late = store.client()
        await late.start(at_first_use=True)
        try:
            await asyncio.sleep(0.05)
            assert late.connected == ()
            seen: list[object] = []
            match use:
                case "command":
                    assert await late.counter(GROUP, "era") == 0
                case "read":
                    assert (await late.offsets(GROUP, QUEUE)).end == 0
                case "fetch":
                    assert (await late.fetch(GROUP, QUEUE, 0, 1000)).entries == []
                case "append":
                    assert (await late.appender(GROUP, QUEUE).append(b"x", 1)).base_offset == 0
                case "watch":
                    late.watch(GROUP, seen.extend).add(QUEUE)
                    await until(lambda: bool(seen))
            await until(lambda: late.connected == (1, 2, 3))
        finally:
            await late.close()


async def test_a_client_that_was_never_used_is_closed():
    async with store_and_client() as (store, _):
        late = store.client()
        await late.start(at_first_use=True)
        await late.close()
        assert late.connected == ()
