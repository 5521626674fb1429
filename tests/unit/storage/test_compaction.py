"""A compaction keeps what is live, whatever happens in the middle of it."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from store_nodes.wal.recovery import Damage
from tests.unit.storage.storage_support import Command, Store, queue_id
from tests.unit.wal.wal_support import SEGMENT_BYTES, PowerCut


def append(store: Store, queue: int, size: int = 900, messages: int = 3) -> None:
    store.do(Command("append", queue, messages, size))


def filled(seed: int = 0, appends: int = 120) -> Store:
    """Several segments of four queues, one of them with staged batches, and some of it dead."""
    store = Store(seed)
    for number in range(appends):
        append(store, number % 3)
        if number % 10 == 5:
            store.do(Command("stage", 3, 2, 500))
        if number % 40 == 39:
            store.do(Command("release", 3, numbers=tuple(range(number // 20))))
    store.do(Command("truncate", 0, upto=90, numbers=(4, 50, 51)))
    store.do(Command("discard", 3, numbers=(10, 11, 12)))
    store.checkpoint()
    append(store, 1)
    store.checkpoint()
    return store


def test_what_is_live_is_moved_and_the_rest_is_gone() -> None:
    store = filled()
    before = store.disk_bytes()
    store.check()
    store.compact(8)
    assert store.storage.compactions >= 2
    assert store.log.compacted.first_segment > 2
    assert store.segments(".settled")
    assert store.disk_bytes() < before - SEGMENT_BYTES // 2
    store.check()
    store.kill()
    store.check()
    assert store.recovery.damages == []


def test_queues_lie_together() -> None:
    store = filled()
    store.compact(8)
    found = store.batches.locate(queue_id(1), 0, 20_000)
    pairs = list(pairwise(one.position for one in found))
    assert len(pairs) > 10
    gaps = [b.offset - a.offset - a.length for a, b in pairs if a.segment == b.segment]
    assert max(gaps) < 200, "nothing of another queue is between them"


@pytest.mark.parametrize("seed", range(6))
def test_power_cut_at_every_file_operation(seed: int) -> None:
    whole = filled(seed)
    whole.disk.calls.clear()
    whole.compact(6)
    operations = len(whole.disk.calls)
    assert operations > 40
    for cut_after in range(seed, operations, 6):
        store = filled(seed)
        store.disk.cut_after = cut_after
        with pytest.raises(PowerCut):
            store.compact(6)
        store.cut()
        assert store.recovery.damages == []
        store.check()
        store.compact(6)
        store.check()
        store.kill()
        store.check()


def test_segments_that_come_back_are_removed_again() -> None:
    store = filled()
    old = {name: bytes(store.disk.inode(name).live) for name in store.segments(".wal")}
    store.compact(8)
    gone = [name for name in old if name not in store.segments(".wal")]
    assert len(gone) > 1
    stray = store.segments(".settled")[0]
    copy = bytes(store.disk.inode(stray).live)
    for name, raw in [(one, old[one]) for one in gone] + [(f"{0x8000_0100:016x}.settled", copy)]:
        fd = store.disk.open(store.log.directory / name, create=True)
        store.disk.write(fd, [raw], 0)
        store.disk.sync(fd)
    store.kill()
    assert store.recovery.damages == []
    assert not set(gone) & set(store.segments(".wal"))
    assert f"{0x8000_0100:016x}.settled" not in store.segments(".settled")
    store.check()


def test_one_message_kept_for_long_leaves_the_disk_flat() -> None:
    store = Store()
    append(store, 0)
    sizes = []
    for _ in range(12):
        for _ in range(120):
            append(store, 0)
        end = store.state.queues[0].end
        store.do(Command("truncate", 0, upto=end - 3, numbers=(1,)))
        store.checkpoint()
        store.checkpoint()
        store.compact(6)
        sizes.append(store.disk_bytes())
        store.check()
    assert max(sizes[6:]) <= max(sizes[:6])
    assert store.batches.locate(queue_id(0), 1, 0)[0].base_offset == 0


def test_staged_messages_that_are_done_leave_the_disk() -> None:
    """The disk is freed also behind a staged message that waits for a year."""
    store = Store()
    store.do(Command("stage", 0, 1, 700))
    sizes = []
    for _ in range(10):
        begin = store.state.queues[0].stage_end
        for _ in range(100):
            store.do(Command("stage", 0, 1, 900))
        numbers = tuple(range(begin, begin + 100))
        store.do(Command("release", 0, numbers=numbers[:50]))
        store.do(Command("discard", 0, numbers=numbers[50:]))
        store.checkpoint()
        store.checkpoint()
        store.compact(3)
        store.do(Command("truncate", 0, upto=store.state.queues[0].end))
        store.checkpoint()
        store.checkpoint()
        store.compact(6)
        sizes.append(store.disk_bytes())
        store.check()
    assert max(sizes[5:]) <= max(sizes[:5])


def test_a_batch_listed_by_a_later_segment_is_copied_with_its_own() -> None:
    """The batch is listed in the segment in which it was applied, and the segment of its
    bytes goes first.
    """
    store = Store()
    for _ in range(30):
        append(store, 0)
    store.do(Command("append", 1, 1, 600), apply=False)
    (written, _) = store.pending[store.next - 1]
    store.fill_segments(2)
    store.apply()
    store.do(Command("append", 1, 1, 600), apply=False)
    store.fill_segments(1)
    store.checkpoint()
    store.checkpoint()
    store.compact(1)
    assert any(run.lowest_segment < run.segment for run in store.pages.runs())
    store.compact(6)
    assert store.log.compacted.first_segment > written.segment
    store.check()
    store.kill()
    store.check()
    store.cut()
    store.check()


def test_nothing_goes_that_a_member_still_asks_for() -> None:
    store = filled()
    life = store.life()._replace(floor=lambda group: 20)
    store.life = lambda: life  # type: ignore[method-assign]
    store.compact(6)
    assert store.log.compacted.first_segment <= 2
    assert all(store.instances.get(instance) for instance in range(20, 120))


def test_past_the_lag_cap_it_goes_all_the_same() -> None:
    store = filled()
    rules = store.settings.rules._replace(lag_cap_bytes=2 * SEGMENT_BYTES)
    store.settings = store.settings._replace(rules=rules)
    store.kill()
    life = store.life()._replace(floor=lambda group: 20)
    store.life = lambda: life  # type: ignore[method-assign]
    store.compact(8)
    assert store.log.compacted.first_segment > 2
    assert store.instances.get(20) is None
    assert store.instances.oldest > 20
    store.check()


def test_instances_are_found_before_and_after() -> None:
    store = filled()
    for when in ("fresh", "restarted", "compacted", "restarted again"):
        for instance in range(store.instances.oldest, store.next):
            place = store.instances.get(instance)
            assert place is not None, when
            assert len(store.log.read(place)) == place.length
        if when == "restarted":
            store.compact(6)
            assert store.instances.oldest > 0
            assert store.instances.get(store.instances.oldest - 1) is None
        else:
            store.kill()


def test_deleted_queues_are_not_copied() -> None:
    store = filled()
    store.do(Command("delete", 1))
    store.checkpoint()
    store.checkpoint()
    store.compact(8)
    assert queue_id(1) not in store.batches.queues()
    assert all(b"1.0." not in store.disk.inode(n).live for n in store.segments(".settled"))
    store.kill()
    store.check()


def test_a_list_goes_on_from_the_last_where_nothing_is_live() -> None:
    store = filled()
    store.compact(8)
    before = store.log.compacted
    assert before.segments
    for queue in range(4):
        store.do(Command("delete", queue))
    store.checkpoint()
    store.checkpoint()
    store.compact(8)
    after = store.log.compacted
    assert not set(after.segments) & set(before.segments)
    assert after.first_segment >= before.first_segment
    assert after.next_segment >= before.next_segment
    store.kill()
    store.check()


async def test_no_round_begins_once_the_storage_is_closed() -> None:
    """The node's housekeeping goes on for a moment: a round then failed, and an orderly stop ended
    with status 70 and without its checkpoint."""
    store = filled()
    await store.storage.close()
    store.storage.housekeep(store.life())
    assert "store-node-storage" not in [task.get_name() for task in asyncio.all_tasks()]
    with pytest.raises(asyncio.CancelledError):
        await store.storage.found_damaged([Damage(1, 5000, 5001, "found too late")])
    assert store.fatal == []
