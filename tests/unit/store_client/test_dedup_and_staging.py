"""Appends with ids, staged messages, and what is asked about them; over the real state machine."""

from __future__ import annotations

import asyncio
import os

import pytest

from store_nodes.client import Reconfigure, StageExtras
from store_nodes.commands import DEDUP_ENTRY, Append, CommandKind, parse
from store_nodes.errors import (
    Conflict,
    DedupKnown,
    Known,
    NotAllowed,
    OutcomeUnknown,
    Overloaded,
    QueueNotFound,
    QueueSealed,
    Unavailable,
)
from store_nodes.queue_id import QueueId
from store_nodes.wire import NodeView
from tests.unit.store_client.store_client_support import (
    GROUP,
    QUEUE,
    FakeNode,
    store_and_client,
    until,
)


def ids(*entries: tuple[int, bytes, int]) -> bytes:
    """Encode entries of (index, id, fingerprint)."""
    return b"".join(DEDUP_ENTRY.pack(index, name.ljust(16), body) for index, name, body in entries)


def refuse_known(node: FakeNode, group: int, raw: bytes, reply) -> bool:
    """Refuse known ids, as a leader does before it proposes."""
    command = parse(raw)
    known = node.store.log.machine.dedup_known(command) if isinstance(command, Append) else {}
    if known:
        reply.failed(DedupKnown(known), decided=False)
    return bool(known)


# -- ids -------------------------------------------------------------------------------------------


async def test_a_known_id_names_the_first_message_and_whether_the_body_is_the_same():
    async with store_and_client() as (store, client):
        appender = client.appender(GROUP, QUEUE)
        await appender.append(b"one", 2, dedup=ids((0, b"a", 1), (1, b"b", 2)))
        with pytest.raises(DedupKnown) as caught:
            await appender.append(b"two", 3, dedup=ids((0, b"c", 3), (1, b"b", 2), (2, b"a", 9)))
        assert caught.value.known == {
            1: Known(1, False, True, QUEUE.pack()),
            2: Known(0, False, False, QUEUE.pack()),
        }
        assert store.log.stored() == [b"one"]


@pytest.mark.parametrize("decided", [True, False])
async def test_a_session_goes_on_after_a_known_id(decided):
    async with store_and_client() as (store, client):
        if not decided:
            store.leader.intercept = refuse_known
        appender = client.appender(GROUP, QUEUE)
        await appender.append(b"one", 1, dedup=ids((0, b"a", 1)))
        session = appender._session
        with pytest.raises(DedupKnown):
            await appender.append(b"again", 1, dedup=ids((0, b"a", 1)))
        receipt = await appender.append(b"two", 1)
        assert receipt.base_offset == 1
        assert appender._session == session
        assert store.log.stored() == [b"one", b"two"]


async def test_what_follows_a_batch_refused_for_its_ids_is_stored_in_order_and_once():
    async with store_and_client() as (store, client):
        store.leader.intercept = refuse_known
        appender = client.appender(GROUP, QUEUE)
        await appender.append(b"one", 1, dedup=ids((0, b"a", 1)))
        futures = [
            appender.append(b"known", 1, dedup=ids((0, b"a", 1))),
            *(appender.append(b"next %d" % number, 1) for number in range(20)),
        ]
        results = await asyncio.gather(*futures, return_exceptions=True)
        assert isinstance(results[0], DedupKnown)
        assert [r.base_offset for r in results[1:]] == list(range(1, 21))
        assert store.log.stored() == [b"one", *(b"next %d" % number for number in range(20))]


async def test_a_known_id_is_believed_although_an_earlier_transmission_is_lost():
    async with store_and_client() as (store, client):
        appender = client.appender(GROUP, QUEUE)
        await appender.append(b"one", 1, dedup=ids((0, b"a", 1)))
        lost = iter([True])

        def lose_first(node: FakeNode, group: int, raw: bytes, reply) -> bool:
            if next(lost, False):
                node.cut()
                return True
            return refuse_known(node, group, raw, reply)

        store.leader.intercept = lose_first
        with pytest.raises(DedupKnown):
            await appender.append(b"again", 1, dedup=ids((0, b"a", 1)))
        assert (await appender.append(b"two", 1)).base_offset == 1
        assert store.log.stored() == [b"one", b"two"]


async def test_a_retry_of_what_was_stored_gets_its_receipt_not_its_own_id_as_known():
    async with store_and_client() as (store, client):
        cuts = iter([True])

        def apply_and_cut(node: FakeNode, group: int, raw: bytes, reply) -> bool:
            if next(cuts, False):
                store.log.apply(raw)
                node.cut()
                return True
            return refuse_known(node, group, raw, reply)

        store.leader.intercept = apply_and_cut
        receipt = await client.appender(GROUP, QUEUE).append(b"x", 1, dedup=ids((0, b"a", 1)))
        assert receipt.duplicate
        assert receipt.base_offset == 0


async def test_overload_that_the_log_decided_is_the_answer():
    async with store_and_client() as (store, client):

        def full(node: FakeNode, group: int, raw: bytes, reply) -> bool:
            reply.failed(Overloaded("too many ids"), decided=True)
            return True

        store.leader.intercept = full
        with pytest.raises(Overloaded):
            await client.appender(GROUP, QUEUE).append(b"x", 1, timeout_s=30)
        assert len(store.leader.commands) == 1


async def test_a_sealed_queue_still_knows_its_ids():
    async with store_and_client() as (_, client):
        appender = client.appender(GROUP, QUEUE)
        await appender.append(b"one", 1, dedup=ids((0, b"a", 1)))
        await client.seal(GROUP, QUEUE)
        with pytest.raises(DedupKnown):
            await appender.append(b"again", 1, dedup=ids((0, b"a", 1)))
        with pytest.raises(QueueSealed):
            await appender.append(b"new", 1, dedup=ids((0, b"b", 1)))


# -- staged messages -------------------------------------------------------------------------------


async def test_a_staged_message_lives_from_its_number_to_its_offset():
    async with store_and_client() as (_, client):
        appender = client.appender(GROUP, QUEUE)
        await appender.append(b"before", 1)
        receipt = await appender.append(b"later", 3, StageExtras((0, 0, 0), b"tag"))
        assert receipt.base_offset == 0
        page = await client.staged(GROUP, QUEUE)
        assert [(m.stage_number, m.due_us, m.tag) for m in page.staged] == [
            (0, 0, b"tag"),
            (1, 0, b"tag"),
            (2, 0, b"tag"),
        ]
        assert page.staged[0].log_time_us == receipt.log_time_us
        assert await client.locate(GROUP, QUEUE, 1) == ("staged", None)
        assert await client.release(GROUP, QUEUE, [1, 0]) == [1, 2]
        assert await client.release(GROUP, QUEUE, [0]) == [2]
        assert await client.discard(GROUP, QUEUE, [0, 2]) == 1
        assert await client.release(GROUP, QUEUE, [2]) == [None]
        assert await client.locate(GROUP, QUEUE, 0) == ("offset", 2)
        assert await client.locate(GROUP, QUEUE, 2) == ("discarded", None)
        assert (await client.staged(GROUP, QUEUE)).staged == ()
        (batch,) = await client.fetch_staged(GROUP, QUEUE, 1, 1000)
        assert (batch.base_stage, batch.messages, bytes(batch.batch)) == (0, 3, b"later")


async def test_what_is_not_due_stays_and_says_so():
    async with store_and_client() as (_, client):
        due_us = client.log_time_us(GROUP) + 3600 * 1_000_000
        await client.appender(GROUP, QUEUE).append(b"later", 1, StageExtras((due_us,)))
        assert await client.release(GROUP, QUEUE, [0]) == [-1]
        changes = (await client.staged(GROUP, QUEUE)).changes
        assert await client.reschedule(GROUP, QUEUE, [0], [1]) == 1
        page = await client.staged_changes(GROUP, QUEUE, changes)
        assert [(m.stage_number, m.due_us) for m in page.staged] == [(0, 1)]
        assert page.changes == changes + 1
        assert not page.overrun
        assert await client.release(GROUP, QUEUE, [0]) == [0]


async def test_the_list_of_staged_messages_is_paged_by_number():
    async with store_and_client() as (_, client):
        await client.appender(GROUP, QUEUE).append(b"later", 5, StageExtras(None))
        first = await client.staged(GROUP, QUEUE, limit=2)
        rest = await client.staged(GROUP, QUEUE, after=first.staged[-1].stage_number, limit=10)
        assert [m.stage_number for m in (*first.staged, *rest.staged)] == [0, 1, 2, 3, 4]
        assert [m.due_us for m in rest.staged] == [None] * 3


async def test_appends_and_stages_of_one_appender_share_their_order():
    async with store_and_client() as (store, client):
        appender = client.appender(GROUP, QUEUE)
        futures = []
        for number in range(30):
            futures.append(appender.append(b"a%d" % number, 1))
            futures.append(appender.append(b"s%d" % number, 1, StageExtras(None)))
        receipts = await asyncio.gather(*futures)
        assert [r.base_offset for r in receipts] == [n for n in range(30) for _ in range(2)]
        kinds = [raw[0] for _, raw in store.leader.commands]
        assert kinds == [CommandKind.APPEND, CommandKind.STAGE] * 30


async def test_a_watch_tells_of_rescheduled_messages():
    async with store_and_client() as (_, client):
        seen = []
        watch = client.watch(GROUP, seen.extend)
        watch.add(QUEUE)
        await client.appender(GROUP, QUEUE).append(b"later", 1, StageExtras((10**18,)))
        await client.reschedule(GROUP, QUEUE, [0], [5])
        await until(lambda: bool(seen) and seen[-1].stage_changes == 1)
        assert seen[-1].stage_end == 1


async def test_a_queue_that_is_not_there_has_no_staged_messages():
    async with store_and_client([]) as (_, client):
        for call in (client.staged(GROUP, QUEUE), client.locate(GROUP, QUEUE, 0)):
            with pytest.raises(QueueNotFound):
                await call


# -- counters, membership, snapshots ---------------------------------------------------------------


async def test_a_counter_is_set_only_from_what_it_is():
    async with store_and_client() as (_, client):
        assert await client.counter(GROUP, "era") == 0
        assert await client.compare_and_set(GROUP, "era", 0, 5) == 5
        with pytest.raises(Conflict) as caught:
            await client.compare_and_set(GROUP, "era", 0, 6)
        assert caught.value.current == 5
        assert await client.counter(GROUP, "era") == 5


async def test_a_conflict_after_a_lost_answer_is_unknown():
    """The conflict may be with the command's own first transmission."""
    async with store_and_client() as (store, client):
        cuts = iter([True])

        def apply_and_cut(node: FakeNode, group: int, raw: bytes, reply) -> bool:
            if next(cuts, False):
                store.log.apply(raw)
                node.cut()
                return True
            return False

        store.leader.intercept = apply_and_cut
        with pytest.raises(OutcomeUnknown):
            await client.compare_and_set(GROUP, "era", 0, 5)
        assert await client.counter(GROUP, "era") == 5


async def test_a_step_of_membership_names_its_version():
    async with store_and_client() as (_, client):
        step = Reconfigure(1, 7, "learner", "host:1", {"zone": "a"})
        assert await client.reconfigure(GROUP, step) == 1
        with pytest.raises(Conflict) as caught:
            await client.reconfigure(GROUP, step)
        assert caught.value.current == 1
        with pytest.raises(NotAllowed, match="learner first"):
            await client.reconfigure(GROUP, Reconfigure(2, 8, "voter", "", {}))


async def test_transfer_and_checkpoint_are_decided():
    async with store_and_client() as (store, client):
        await client.transfer(GROUP, 3)
        assert store.log.machine.preferred_leader == 3
        await client.take_checkpoint(GROUP)
        assert store.log.machine.applied == 3


async def test_a_snapshot_of_many_parts_arrives_whole(monkeypatch):
    monkeypatch.setattr("store_nodes.node.client_session.SNAPSHOT_PART_BYTES", 1000)
    async with store_and_client() as (store, client):
        store.snapshot = os.urandom(123_456)
        image = await client.snapshot(GROUP, 2)
        assert image.raw == store.snapshot
        assert image.applied == store.log.machine.applied


async def test_a_snapshot_of_a_node_that_dies_is_not_had(monkeypatch):
    monkeypatch.setattr("store_nodes.client.reads.PART_TIMEOUT_S", 0.1)
    async with store_and_client() as (store, client):
        await store.nodes[2].kill()
        await until(lambda: 2 not in client.connected)
        with pytest.raises(Unavailable, match="node 2"):
            await client.snapshot(GROUP, 2)


async def test_where_the_last_bytes_of_a_queue_begin():
    async with store_and_client() as (_store, client):
        appender = client.appender(GROUP, QUEUE)
        for _ in range(10):
            await appender.append(b"x" * 100, 2)
        assert await client.offset_back(GROUP, QUEUE, 350) == 14
        assert await client.offset_back(GROUP, QUEUE, 99) == 20
        assert await client.offset_back(GROUP, QUEUE, 10**9) == 0


# -- nodes and groups that the settings do not name ------------------------------------------------


async def test_nodes_are_learned_and_forgotten():
    async with store_and_client() as (store, client):
        fourth = FakeNode(store, 4)
        await fourth.start()
        store.nodes[4] = fourth
        told = [NodeView(n, f"127.0.0.1:{node.port}") for n, node in store.nodes.items()]
        store.members = tuple(told)
        store.elect(4)
        await until(lambda: client.leader(GROUP) == 4)
        await until(lambda: 4 in client.connected)
        assert (await client.appender(GROUP, QUEUE).append(b"x", 1)).base_offset == 0
        assert set(client.nodes) == {1, 2, 3, 4}
        await fourth.kill()
        await until(lambda: 4 not in client.connected)
        del store.nodes[4]
        store.members = tuple(told[:3])
        store.elect(1)
        await until(lambda: set(client.nodes) == {1, 2, 3})
        assert client.node_link(4) is None


async def test_a_node_that_a_client_belongs_to_is_never_dialed():
    async with store_and_client() as (store, _):
        client = store.client(own_node=2)
        await client.start()
        store.members = tuple(
            NodeView(n, f"127.0.0.1:{node.port}") for n, node in store.nodes.items()
        )
        try:
            await client.wait_ready(5)
            await until(lambda: set(client.connected) == {1, 3})
            assert client.node_link(2) is None
        finally:
            await client.close()


async def test_a_new_group_is_known_once_a_node_names_it():
    async with store_and_client() as (store, client):
        assert client.groups == (GROUP,)
        store.add_group(GROUP + 1)
        await until(lambda: client.has_leader(GROUP + 1))
        assert client.groups == (GROUP, GROUP + 1)
        queue = QueueId(bytes(16), 9)
        await client.create(GROUP + 1, queue)
        assert (await client.appender(GROUP + 1, queue).append(b"x", 1)).base_offset == 0
