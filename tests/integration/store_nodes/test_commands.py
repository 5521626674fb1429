"""Every command and read of the store on three node processes: what the client is promised holds
over leader changes and restarts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from harness.cluster import NODES, ChaosCluster
from store_nodes.client import Reconfigure, StageExtras, StoreClient
from store_nodes.errors import Conflict, DedupKnown, NotAllowed, QueueSealed
from store_nodes.machine.machine import Machine
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import decode
from tests.integration.store_nodes.store_cluster import (
    batch,
    ids,
    new_queue,
    read_texts,
    ready_client,
    running_store,
)

HOUR_US = 3600 * 1_000_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChaosCluster]:
    with running_store(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
async def client(cluster: ChaosCluster) -> AsyncIterator[StoreClient]:
    async with ready_client(cluster) as connected:
        yield connected


async def change_leader(client: StoreClient, group: int = 0) -> None:
    """Another node leads the group when this returns."""
    was = client.leader(group)
    await client.transfer(group, next(node for node in NODES if node != was))
    async with asyncio.timeout(20):
        while client.leader(group) in (None, was):
            await client.next_change(group).wait()


async def test_a_staged_message_keeps_its_number_over_leaders_and_its_offset_for_ever(
    client: StoreClient,
) -> None:
    queue = await new_queue(client)
    appender = client.appender(0, queue)
    await appender.append(batch("first"), 1)
    staged = await appender.append(batch("a", "b", "c"), 3, StageExtras((0, 0, HOUR_US * 10**6)))
    assert staged.base_offset == 0
    await change_leader(client)
    assert [m.stage_number for m in (await client.staged(0, queue)).staged] == [0, 1, 2]
    assert await client.release(0, queue, [1, 2]) == [1, -1]
    await change_leader(client)
    assert await client.release(0, queue, [1, 0]) == [1, 2]
    assert await client.locate(0, queue, 1) == ("offset", 1)
    assert await read_texts(client, queue) == ["first", "b", "a"]
    fetched = await client.fetch(0, queue, 1, 10**6)
    assert [(e.base_offset, e.stage, e.indices) for e in fetched.entries] == [
        (1, 0, (1,)),
        (2, 0, (0,)),
    ]
    assert fetched.entries[0].log_time_us > staged.log_time_us


async def test_what_was_staged_is_there_after_all_nodes_were_killed(
    cluster: ChaosCluster, client: StoreClient
) -> None:
    queue = await new_queue(client)
    appender = client.appender(0, queue)
    await appender.append(batch("a", "b", "c", "d"), 4, StageExtras(None, b"tag"))
    await client.release(0, queue, [2])
    await client.discard(0, queue, [0])
    await client.reschedule(0, queue, [1], [77])
    for node in NODES:
        cluster.kill_node(node)
    for node in NODES:
        cluster.start_node(node)
    await client.wait_ready()
    assert await read_texts(client, queue) == ["c"]
    page = await client.staged(0, queue)
    assert [(m.stage_number, m.due_us, m.tag) for m in page.staged] == [
        (1, 77, b"tag"),
        (3, None, b"tag"),
    ]
    assert await client.locate(0, queue, 0) == ("discarded", None)
    assert await client.release(0, queue, [3, 1, 0]) == [1, 2, None]
    assert await read_texts(client, queue) == ["c", "d", "b"]
    (body,) = await client.fetch_staged(0, queue, 3, 10**6)
    assert [m.data for m in decode(body.batch)] == [b"a", b"b", b"c", b"d"]


async def test_an_id_is_known_to_every_later_leader(
    cluster: ChaosCluster, client: StoreClient
) -> None:
    queue = await new_queue(client)
    first = await client.appender(0, queue).append(batch("x", "y"), 2, dedup=ids("x", "y"))
    for _ in range(2):
        await change_leader(client)
        with pytest.raises(DedupKnown) as caught:
            await client.appender(0, queue).append(batch("n", "y"), 2, dedup=ids("n", "y", body=2))
        (known,) = caught.value.known.values()
        assert (known.position, known.staged, known.same_body) == (1, False, False)
        assert known.log_time_us == first.log_time_us
        assert known.queue == queue.pack()
    leader = client.leader(0)
    assert leader is not None
    cluster.kill_node(leader)
    with pytest.raises(DedupKnown):
        await client.appender(0, queue).append(batch("x"), 1, dedup=ids("x"), timeout_s=20)
    assert await read_texts(client, queue) == ["x", "y"]


async def test_the_window_of_an_id_ends_although_the_group_is_idle(client: StoreClient) -> None:
    """A leader that refuses a known id applies nothing, so nothing but its look at the time can
    end the window."""
    queue = await new_queue(client)
    send = client.appender(0, queue).append
    await send(batch("x"), 1, dedup=ids("idle"), dedup_window_s=2)
    with pytest.raises(DedupKnown):
        await send(batch("x"), 1, dedup=ids("idle"), dedup_window_s=2)
    await asyncio.sleep(3)  # an id is remembered for at most 1.25 windows
    try:
        stored = (await send(batch("x"), 1, dedup=ids("idle"), dedup_window_s=2)).base_offset
    except DedupKnown:
        stored = -1
    assert stored == 1, "the id is still known after 1.5 windows"
    with pytest.raises(DedupKnown):
        await send(batch("x"), 1, dedup=ids("idle"), dedup_window_s=2)


async def test_an_id_of_a_staged_message_names_its_number(client: StoreClient) -> None:
    queue = await new_queue(client)
    appender = client.appender(0, queue)
    staged = await appender.append(batch("x"), 1, StageExtras(None), dedup=ids("s"))
    with pytest.raises(DedupKnown) as caught:
        await appender.append(batch("x"), 1, dedup=ids("s"))
    (known,) = caught.value.known.values()
    assert (known.position, known.staged, known.same_body) == (0, True, True)
    assert known.log_time_us == staged.log_time_us


async def test_ids_of_many_writers_are_stored_once(client: StoreClient) -> None:
    """The leader's look before it proposes does not see what is on its way; the log does."""
    queue = await new_queue(client)
    outcomes = await asyncio.gather(
        *(
            client.appender(0, queue).append(batch(f"m{n % 10}"), 1, dedup=ids(f"m{n % 10}"))
            for n in range(60)
        ),
        return_exceptions=True,
    )
    known = [each for each in outcomes if isinstance(each, DedupKnown)]
    assert len(known) == 50
    assert sorted(await read_texts(client, queue)) == [f"m{n}" for n in range(10)]
    assert len({(each.known[0].position, each.known[0].log_time_us) for each in known}) == 10


async def test_a_watch_tells_what_is_staged_rescheduled_and_stored(client: StoreClient) -> None:
    queue = await new_queue(client)
    seen = []
    watch = client.watch(0, seen.extend)
    watch.add(queue)
    appender = client.appender(0, queue)
    await appender.append(batch("x" * 1000), 1)
    await appender.append(batch("y"), 1, StageExtras((HOUR_US * 10**6,)))
    await client.reschedule(0, queue, [0], [HOUR_US * 10**6 + 1])
    async with asyncio.timeout(10):
        while not seen or seen[-1].stage_changes < 1:
            await asyncio.sleep(0.01)
    assert (seen[-1].end, seen[-1].stage_end) == (1, 1)
    assert seen[-1].stored_bytes > 1000
    (row,) = [info for info in await client.queues(0) if info.queue == queue.pack()]
    assert row.staged == 1
    assert row.stored_bytes == seen[-1].stored_bytes
    watch.close()


async def test_a_truncated_queue_forgets_what_was_released_there(client: StoreClient) -> None:
    queue = await new_queue(client)
    appender = client.appender(0, queue)
    await appender.append(batch("a", "b"), 2, StageExtras(None))
    await client.release(0, queue, [0, 1])
    await appender.append(batch("c"), 1)
    await client.truncate(0, queue, 2, keep=(1,))
    assert await client.locate(0, queue, 0) == ("truncated", None)
    assert await client.locate(0, queue, 1) == ("offset", 1)
    (kept,) = (await client.fetch(0, queue, 1, 10**6)).entries
    assert decode(kept.batch)[1].data == b"b"
    await client.truncate(0, queue, 3)
    assert await client.fetch_staged(0, queue, 0, 10**6) == []


async def test_a_sealed_queue_releases_nothing_and_still_discards(client: StoreClient) -> None:
    queue = await new_queue(client)
    await client.appender(0, queue).append(batch("a", "b"), 2, StageExtras(None))
    successor = QueueId(queue.topic_uid, 0, 0, 1)
    await client.seal(0, queue, [(1, successor)])
    with pytest.raises(QueueSealed) as caught:
        await client.release(0, queue, [0])
    assert caught.value.successors == ((1, successor.pack()),)
    assert await client.discard(0, queue, [0]) == 1
    assert await client.locate(0, queue, 1) == ("staged", None)


async def test_counters_are_one_for_all(client: StoreClient) -> None:
    name = f"test-{id(client)}"

    async def count() -> None:
        while True:
            now = await client.counter(0, name)
            try:
                await client.compare_and_set(0, name, now, now + 1)
            except Conflict:
                continue
            return

    await asyncio.gather(*(count() for _ in range(10)))
    assert await client.counter(0, name) == 10


async def test_the_end_of_a_queue_by_bytes(client: StoreClient) -> None:
    queue = await new_queue(client)
    appender = client.appender(0, queue)
    for number in range(20):
        await appender.append(batch(f"{number:01000}"), 1)
    each = len(batch("0" * 1000))
    assert await client.offset_back(0, queue, 5 * each) == 15
    assert await client.offset_back(0, queue, each - 1) == 20
    assert await client.offset_back(0, queue, 10**9) == 0
    await client.truncate(0, queue, 17)
    assert await client.offset_back(0, queue, 10**9) == 17


async def test_a_snapshot_of_any_node_is_the_machine_of_the_group(
    cluster: ChaosCluster, client: StoreClient
) -> None:
    queue = await new_queue(client, 2)
    appender = client.appender(2, queue)
    await appender.append(batch("a"), 1, dedup=ids("a"))
    await appender.append(batch("b"), 1, StageExtras(None))
    await cluster.until_replicas_agree()
    images = [await client.snapshot(2, node) for node in NODES]
    assert len({image.raw for image in images}) == 1
    machine = Machine.restore(2, images[0].raw)
    assert machine.applied == images[0].applied
    assert machine.offsets(queue.pack()).stage_end == 1
    assert machine.membership.voters == NODES


async def test_membership_changes_while_messages_are_stored(client: StoreClient) -> None:
    queue = await new_queue(client)
    appender = client.appender(0, queue)
    texts: list[str] = []
    changed = asyncio.Event()

    async def store() -> None:
        while not changed.is_set():
            texts.append(str(len(texts)))
            await appender.append(batch(texts[-1]), 1, timeout_s=20)

    storing = asyncio.create_task(store())
    version = 0
    for node in NODES:
        for role in ("learner", "voter"):
            await promote_or_demote(client, version + 1, node, role)
            version += 1
    changed.set()
    await storing
    assert await read_texts(client, queue) == texts
    with pytest.raises(NotAllowed, match="learner first"):
        await client.reconfigure(0, Reconfigure(version + 1, 9, "voter", "", {}))


async def promote_or_demote(client: StoreClient, version: int, node: int, role: str) -> None:
    async with asyncio.timeout(30):
        while True:
            try:
                await client.reconfigure(0, Reconfigure(version, node, role, "", {}))
            except NotAllowed:  # not level yet
                await asyncio.sleep(0.05)
            else:
                return
