"""Bytes that rot in what is sealed and compacted: found, named, repaired; caches are made anew."""

from __future__ import annotations

import asyncio
import random

import pytest

from store_nodes.storage.damage import LostBatch, costs_votes
from store_nodes.storage.rows import OFFSETS
from store_nodes.storage.sidecar import PAGE_ROWS, ROW
from store_nodes.wal.compacted import LIST_NAME
from store_nodes.wal.position import Position
from store_nodes.wal.recovery import Damage, RecoveryState
from store_nodes.wal.segment import FIRST_COMPACTED, INDEX_SUFFIX
from tests.unit.storage.storage_support import SETTINGS, Command, Store, queue_id
from tests.unit.wal.wal_support import SEGMENT_BYTES

SCRUBBING = SETTINGS._replace(scrub_rate=1 << 40, scrub_pass_s=0.0)


def compacted_store(seed: int = 0) -> Store:
    """Return a store with compacted segments of two queues, whose tails are in raw ones."""
    store = Store(seed, SCRUBBING)
    for number in range(150):
        store.do(Command("append", number % 2, 2, 700))
        if number % 5 == 0:
            store.do(Command("stage", 2, 2, 400))
    store.do(Command("release", 2, numbers=(0, 3, 4)))
    store.checkpoint()
    store.checkpoint()
    store.compact(8)
    assert len(store.segments(".settled")) > 2
    store.check()
    return store


def flip(store: Store, name: str, at: int) -> None:
    store.disk.damage(name, at, bytes([store.disk.inode(name).live[at] ^ 4]))


def scrub(store: Store) -> list[LostBatch]:
    store.storage._scrub_due_s = 0.0
    store.compact(60)
    return [bare(one) for report in store.reports for one in report.lost]


def bare(lost: LostBatch) -> LostBatch:
    """Return a lost batch without when it was written, and where."""
    return LostBatch(*lost[:4])


def test_a_scrub_of_what_is_whole_finds_nothing() -> None:
    store = compacted_store()
    assert scrub(store) == []
    assert store.storage.status()["scrubbed_bytes"] != 0
    assert store.reports == []


def test_a_scrub_of_a_young_node_has_nothing_to_read() -> None:
    """A node has nothing sealed in the first minutes of its life, and a scrub ended it."""
    store = Store(0, SCRUBBING)
    store.do(Command("append", 0, 2, 700))
    assert store.segments(".settled") == []
    assert scrub(store) == []


@pytest.mark.parametrize("queue", [0, 1, 2])
def test_a_bit_in_a_compacted_batch(queue: int) -> None:
    store = compacted_store()
    if queue == 2:
        (entry,) = store.batches.staged_batches(queue_id(2), 4, 0)
        place, lost = entry.position, LostBatch(queue_id(2), True, 4, 2)
    else:
        (found,) = store.batches.locate(queue_id(queue), 20, 0)
        place, lost = found.position, LostBatch(queue_id(queue), False, 20, 2)
    assert place.segment >= FIRST_COMPACTED
    flip(store, f"{place.segment:016x}.settled", place.offset + 7)
    assert scrub(store) == [lost]
    assert [report.votes for report in store.reports] == [False]
    assert store.batches.missing(lost.queue, 0, 12, staged=lost.staged) or queue != 2
    # Until it is repaired, a start finds the same.
    store.kill()
    assert store.recovery.state is RecoveryState.DAMAGED
    assert [bare(one) for one in store.loader.lost(lambda _: True)] == [lost]
    store.repair([lost])
    store.check()
    store.kill()
    assert store.recovery.state is RecoveryState.CLEAN
    store.check()
    for _ in range(100):
        store.do(Command("append", 0, 2, 700))
    store.checkpoint()
    store.checkpoint()
    store.compact(8)
    store.check()
    store.kill()
    store.check()


def test_a_bit_in_a_raw_batch_below_the_checkpoint_stops_its_compaction() -> None:
    store = Store(0, SCRUBBING)
    for _ in range(150):
        store.do(Command("append", 0, 2, 700))
    store.checkpoint()
    store.checkpoint()
    (found,) = store.batches.locate(queue_id(0), 20, 0)
    flip(store, f"{found.position.segment:016x}.wal", found.position.offset + 7)
    store.compact(4)
    assert store.log.compacted.first_segment == found.position.segment
    lost = [LostBatch(queue_id(0), False, 20, 2)]
    assert [bare(one) for one in store.reports[0].lost_batches()] == lost
    assert store.batches.missing(queue_id(0), 0, 40) == [(20, 22)]
    assert [one.base_offset for one in store.batches.locate(queue_id(0), 16, 10_000)] == [16, 18]
    store.repair(lost)
    store.check()
    store.compact(8)
    assert store.log.compacted.first_segment > found.position.segment
    store.check()
    store.kill()
    assert store.recovery.damages == []
    store.check()


@pytest.mark.parametrize("seed", range(12))
def test_any_bit_of_an_index_file(seed: int) -> None:
    store = compacted_store()
    luck = random.Random(seed)
    for name in store.segments(INDEX_SUFFIX):
        flip(store, name, luck.randrange(len(store.disk.inode(name).live)))
    store.kill()
    store.check()
    assert store.recovery.damages == []


def test_index_files_that_are_gone_empty_or_of_another_segment() -> None:
    store = compacted_store()
    names = store.segments(INDEX_SUFFIX)
    store.disk.remove(store.log.directory / names[0])
    store.disk.inode(names[1]).live.clear()
    store.disk.inode(names[2]).live[:] = store.disk.inode(names[3]).live
    store.kill()
    store.check()
    assert store.pages.rebuilt >= 3


def test_an_index_page_that_rots_while_the_node_runs() -> None:
    store = compacted_store()
    for name in store.segments(INDEX_SUFFIX):
        flip(store, name, len(store.disk.inode(name).live) - 30)
    before = store.pages.rebuilt
    store.pages._cache.clear()
    store.check()
    assert store.pages.rebuilt > before


def test_a_compacted_segment_without_its_footer() -> None:
    store = compacted_store()
    name = store.segments(".settled")[0]
    at = len(store.disk.inode(name).live) - 8
    flip(store, name, at)
    for index in store.segments(INDEX_SUFFIX):
        store.disk.remove(store.log.directory / index)
    store.kill()
    assert store.recovery.state is RecoveryState.DAMAGED
    assert store.loader.unindexed == [int(name[:16], 16)]
    assert not any(costs_votes(one, Position(5, 4096, 0)) for one in store.recovery.damages)
    gaps = [
        gap
        for number, queue in store.state.queues.items()
        for gap in store.batches.missing(queue_id(number), 0, queue.end)
    ]
    assert gaps, "what only it listed is missing, and nothing pretends otherwise"


def without_an_index(store: Store, offset: int = 20) -> int:
    """Return a compacted segment, after damage to its sidecar and its footer."""
    (found,) = store.batches.locate(queue_id(0), offset, 0)
    segment = found.position.segment
    assert segment >= FIRST_COMPACTED
    run = store.pages.run(segment)
    footer = store.log.reader(segment).footer_payload()
    assert footer is not None
    whole = bytes(store.disk.inode(f"{segment:016x}.settled").live)
    flip(store, f"{segment:016x}.settled", whole.rindex(footer) + 9)
    for page in range(0, run.rows * ROW.size, PAGE_ROWS * ROW.size):
        flip(store, f"{segment:016x}{INDEX_SUFFIX}", run.rows_at + page + 5)
    store.pages._cache.clear()
    return segment


def gaps(store: Store) -> list[LostBatch]:
    """Return the batches of queues 0 and 1 that the index lacks."""
    return [
        LostBatch(queue_id(number), False, base, messages)
        for number in (0, 1)
        for base, (messages, _) in store.state.queues[number].batches.items()
        if store.batches.missing(queue_id(number), base, base + messages)
    ]


def test_damage_in_a_segment_whose_index_cannot_be_read_is_recorded() -> None:
    """Each start ended at this damage, because it could not look for the lost batches."""
    store = compacted_store()
    (found,) = store.batches.locate(queue_id(0), 20, 0)
    segment = without_an_index(store)
    flip(store, f"{segment:016x}.settled", found.position.offset + 7)
    scrub(store)
    assert not store.fatal
    reasons = {one.reason for one in store.log.damages.open() if one.segment == segment}
    assert reasons >= {"payload", "footer"}
    assert [report.votes for report in store.reports] == [False] * len(store.reports)
    assert LostBatch(queue_id(0), False, 20, 2) in gaps(store)
    store.kill()
    assert store.recovery.state is RecoveryState.DAMAGED
    assert store.loader.unindexed == [segment]
    store.repair(gaps(store))
    store.check()


def test_a_read_does_without_rows_that_cannot_be_read() -> None:
    """The index must not raise: a node that applied a release ended here."""
    store = compacted_store()
    segment = without_an_index(store)
    assert store.batches.locate(queue_id(0), 20, 0)[0].base_offset > 20
    assert store.unreadable == [Damage(segment, 0, 0, "footer")]
    assert store.batches.row(queue_id(0), OFFSETS, 20) is None
    assert store.batches.log_time_of(queue_id(0), 20, False) == 0
    assert (20, 22) in [(one.base, one.base + one.messages) for one in gaps(store)]
    assert len(store.unreadable) == 1, "nothing refers to that index any more"


def test_an_index_that_cannot_be_read_is_not_attached_again() -> None:
    """A start must not attach it: its rows hide the batches that a repair wrote."""
    store = compacted_store()
    segment = without_an_index(store)
    store.batches.locate(queue_id(0), 20, 0)
    asyncio.run(store.storage.found_damaged(store.unreadable))
    assert [report.texts for report in store.reports] == [(f"segment {segment} at 0: footer",)]
    lost = gaps(store)
    assert lost
    store.repair(lost)
    store.check()
    store.kill()
    assert store.recovery.state is RecoveryState.CLEAN
    assert store.loader.unindexed == [segment]
    assert gaps(store) == []
    store.check()
    assert store.unreadable == []


def test_rows_in_use_of_an_index_that_is_known_as_repaired_are_reported() -> None:
    store = compacted_store()
    segment = without_an_index(store)
    store.log.damages.add(Damage(segment, 0, 0, "footer"))
    store.log.damages.repaired()
    store.batches.locate(queue_id(0), 20, 0)
    asyncio.run(store.storage.found_damaged(store.unreadable))
    assert len(store.reports) == 1


def test_rows_of_an_unreadable_index_are_dropped_when_some_of_them_are() -> None:
    store = compacted_store()
    without_an_index(store)
    store.batches.exclude(queue_id(0), OFFSETS, 20, 22)
    assert len(store.unreadable) == 1
    assert LostBatch(queue_id(0), False, 20, 2) in gaps(store)


def test_a_compacted_segment_that_is_missing() -> None:
    store = compacted_store()
    name = store.segments(".settled")[1]
    store.disk.remove(store.log.directory / name)
    store.kill()
    assert [one.reason for one in store.recovery.damages] == ["missing"]
    assert any(
        store.batches.missing(queue_id(number), 0, queue.end)
        for number, queue in store.state.queues.items()
    )


def test_a_list_of_compacted_segments_that_does_not_verify() -> None:
    store = compacted_store()
    flip(store, LIST_NAME, 30)
    store.kill()
    assert [one.reason for one in store.recovery.damages] == ["the list of compacted segments"]
    store.check()
    store.log.damages.repaired()
    store.kill()
    assert store.recovery.damages == []
    store.check()


def test_a_batch_listed_twice_counts_once() -> None:
    """In one footer, and in two: earlier versions did it after a restart."""
    store = Store()
    for number in range(120):
        store.do(Command("append", 0, 2, 700))
        store.log.note_batches(store.log.unfootered_batches()[-1 - number % 3 :])
    store.kill()
    store.check()
    listed = [
        entry.base_offset
        for segment in range(1, store.log.tail.segment)
        for entry in store.log.footer(segment).batches()
    ]
    assert len(listed) > 2 * len(set(listed))
    assert store.batches.stored_bytes(queue_id(0)) == 120 * 700
    store.checkpoint()
    store.checkpoint()
    store.compact(8)
    store.check()
    assert store.disk_bytes() < 120 * 900 + 2 * SEGMENT_BYTES


@pytest.mark.parametrize(
    ("damage", "start", "costs"),
    [
        (Damage(3, 5000, 6000, "payload"), Position(3, 6000, 0), False),
        (Damage(3, 5000, 6000, "payload"), Position(3, 5992, 0), True),
        (Damage(3, 0, 0, "missing"), Position(3, 6000, 0), True),
        (Damage(3, 9000, 9000, "footer"), Position(4, 4096, 0), False),
        (Damage(4, 9000, 9000, "footer"), Position(3, 4096, 0), True),
        (Damage(1, 5000, 6000, "payload"), None, True),
        (Damage(0, 0, 0, "the list of damages"), Position(3, 6000, 0), True),
        (Damage(FIRST_COMPACTED + 1, 0, 0, "missing"), None, False),
    ],
)
def test_which_damage_costs_votes(damage: Damage, start: Position | None, costs: bool) -> None:
    assert costs_votes(damage, start) is costs
