"""Bytes that were synced and do not verify are damage: reported, kept, never cut."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from store_nodes.wal import frame as frames
from store_nodes.wal.errors import WalDamaged
from store_nodes.wal.log import WriteAheadLog
from store_nodes.wal.position import Position
from store_nodes.wal.recovery import Damage, RecoveryState
from tests.unit.wal.wal_support import SimDisk, accept, append, content, open_log

DAMAGED = RecoveryState.DAMAGED


def name(segment: int) -> str:
    return f"{segment:016x}.wal"


def written(count: int, *, seed: int = 0) -> tuple[SimDisk, WriteAheadLog, list[Position]]:
    """A stopped log of `count` records of 300 bytes without zeros, one flush each."""
    disk = SimDisk(seed)
    log, _ = open_log(disk)
    positions = [append(log, record(i))[0] for i in range(count)]
    log.close()
    return disk, log, positions


def record(i: int) -> frames.Record:
    return accept(i, bytes([i % 255 + 1]) * 300)


def flip(disk: SimDisk, segment: int, at: int) -> None:
    raw = disk.inode(name(segment)).live[at]
    disk.damage(name(segment), at, bytes([raw ^ 0x10]))


@pytest.mark.parametrize("which", [0, 5, 8, 9])
@pytest.mark.parametrize("into", [-56, -48, -4, 0, 299])
def test_a_bit_anywhere_below_the_mark(which: int, into: int) -> None:
    disk, _, positions = written(10)
    flip(disk, 1, positions[which].offset + into)
    log, recovery = open_log(disk)
    assert recovery.state is DAMAGED
    assert content(recovery) == [record(i) for i in range(10) if i != which]
    (damage,) = recovery.damages
    assert damage.segment == 1
    assert damage.offset == positions[which].offset - frames.HEADER_BYTES
    if into >= 0:
        assert (damage.group, damage.instance) == (1, which)
    with pytest.raises(WalDamaged):
        log.read(positions[which])


@pytest.mark.parametrize("seed", range(30))
def test_a_lost_block(seed: int) -> None:
    disk, _, positions = written(60)
    at = random.Random(seed).randrange(4096, positions[-1].offset, 512)
    disk.damage(name(1), at, bytes(512))
    _, recovery = open_log(disk)
    assert recovery.state is DAMAGED
    found = content(recovery)
    kept = {one.instance for one in found}
    for i, position in enumerate(positions):
        start, end = position.offset - frames.HEADER_BYTES, position.offset + 300
        assert (i in kept) == (end <= at or start >= at + 512)


def test_a_block_of_another_place() -> None:
    """The block is misdirected: it verifies by itself, but does not belong there."""
    disk, _, _positions = written(60)
    live = disk.inode(name(1)).live
    disk.damage(name(1), 8192, bytes(live[4096 : 4096 + 4096]))
    assert open_log(disk)[1].state is DAMAGED


def test_a_frame_of_another_place() -> None:
    """Whole, of this very segment, and where a frame may begin: only the chain tells."""
    disk, _, positions = written(10)
    live = disk.inode(name(1)).live
    at, end = (positions[which].offset - frames.HEADER_BYTES for which in (2, 3))
    disk.damage(name(1), positions[5].offset - frames.HEADER_BYTES, bytes(live[at:end]))
    _, recovery = open_log(disk)
    assert recovery.state is DAMAGED
    assert [one.reason for one in recovery.damages] == ["chain"]


def test_rot_in_the_last_flush_is_damage_when_the_log_was_marked() -> None:
    disk, _, positions = written(3)
    flip(disk, 1, positions[2].offset)
    assert open_log(disk)[1].state is DAMAGED


def test_rot_above_the_mark_is_damage_when_a_whole_frame_follows() -> None:
    disk = SimDisk()
    log, _ = open_log(disk)
    positions = append(log, record(1), record(2), record(3))
    disk.kill()
    flip(disk, 1, positions[1].offset)
    assert open_log(disk)[1].state is DAMAGED


def test_a_log_that_ends_before_the_checkpoint() -> None:
    disk, log, positions = written(3)
    tail = log.tail
    disk.damage(name(1), positions[1].offset - 56, bytes(2000))
    assert open_log(disk, start_at=tail)[1].state is DAMAGED
    disk, log, _ = written(3)
    assert open_log(disk, start_at=Position(4, 4096, 0))[1].state is DAMAGED
    assert open_log(SimDisk(), start_at=None)[1].state is RecoveryState.CLEAN


def test_a_missing_segment() -> None:
    disk, log, _ = written(300)
    disk.remove(log.directory / name(2))
    _, recovery = open_log(disk)
    assert recovery.state is DAMAGED
    assert recovery.damages[0].segment == 2


def test_all_segments_missing() -> None:
    disk, log, _ = written(3)
    disk.remove(log.directory / name(1))
    log, recovery = open_log(disk)
    assert recovery.state is DAMAGED
    assert append(log, accept(1))[0].segment > 1, "a number is never used again"


def test_a_sealed_segment_is_verified_when_it_is_read() -> None:
    disk, _, positions = written(300)
    flip(disk, 1, positions[7].offset)
    log, recovery = open_log(disk)
    assert recovery.state is RecoveryState.CLEAN, "its frames are not scanned by a start"
    assert content(recovery) == [record(i) for i in range(300) if i != 7]
    assert recovery.state is DAMAGED
    log.close()
    assert open_log(disk)[1].state is DAMAGED, "remembered"


def test_a_footer_that_rots() -> None:
    disk, log, _ = written(300)
    size = len(disk.inode(name(1)).live)
    for at, where in ((size - 16, "trailer"), (size - 40, "rows")):
        disk, log, _ = written(300)
        flip(disk, 1, at)
        log, recovery = open_log(disk)
        with pytest.raises(WalDamaged):
            log.footer(1)
        assert (recovery.state is DAMAGED) == (where == "trailer")


@pytest.mark.parametrize("segment", [1, 2])
def test_a_segment_header(segment: int) -> None:
    """One copy gone is no loss; both gone take the segment."""
    disk, _, _ = written(120)
    assert disk.names(open_log(disk)[0].directory).count(name(3)) == 0
    disk.kill()
    disk.damage(name(segment), 0, bytes(512))
    log, recovery = open_log(disk)
    assert recovery.state is RecoveryState.CLEAN
    assert len(content(recovery)) == 120
    log.close()
    disk.damage(name(segment), 2048, bytes(512))
    log, recovery = open_log(disk)
    assert recovery.state is DAMAGED
    assert 0 < len(content(recovery)) < 120
    assert append(log, accept(1))[0].segment == 3 if segment == 2 else 2
    log.close()
    assert open_log(disk)[1].state is DAMAGED


def test_damage_lasts_until_it_is_repaired_and_is_not_found_again() -> None:
    disk, _, positions = written(10)
    before = bytes(disk.inode(name(1)).live).rstrip(b"\0")
    flip(disk, 1, positions[4].offset)
    for _ in range(3):
        log, recovery = open_log(disk)
        assert recovery.state is DAMAGED
        assert content(recovery)[:9] == [record(i) for i in range(10) if i != 4]
        assert len(recovery.damages) == 1
        log.close()
    kept = bytes(disk.inode(name(1)).live)[: len(before)]
    assert sum(a != b for a, b in zip(kept, before, strict=True)) == 1, "nothing was cut"
    log, _ = open_log(disk)
    append(log, record(4))
    log.damages.repaired()
    log.close()
    _, recovery = open_log(disk)
    found = content(recovery)
    assert recovery.state is RecoveryState.CLEAN
    assert sorted(one.instance for one in found) == list(range(10))


@pytest.mark.parametrize("before", ["removal", "repair", "neither"])
def test_what_is_repaired_is_forgotten_once_its_segment_is_removed(before: str) -> None:
    """The list was growing for ever.

    `before` names the step before which the process stops, after the compaction.
    """
    disk, _, positions = written(2000)
    flip(disk, 1, positions[4].offset)
    log, recovery = open_log(disk)
    content(recovery)
    (damage,) = log.damages.all()
    votes = Damage(0, 7, 7, "votes may be lost since start 7")
    log.damages.add(votes)
    if before != "repair":
        log.damages.repaired()
    log = reopened(log, disk)
    kept = [damage, votes] if before == "repair" else [replace(damage, repaired=True)]
    assert log.damages.all() == kept, "its bytes would be reported again"
    log.commit_compaction(replace(log.compacted, first_segment=2), {})
    if before == "removal":
        log = reopened(log, disk)
    log.remove_segments([1])
    if before == "repair":
        assert log.damages.open() == [damage, votes]
        log.damages.repaired()
        log = reopened(log, disk)
    assert log.damages.all() == []
    assert reopened(log, disk).damages.all() == []


def reopened(log: WriteAheadLog, disk: SimDisk) -> WriteAheadLog:
    log.close()
    again, recovery = open_log(disk)
    content(recovery)
    return again


def test_a_damaged_segment_gets_an_index_of_what_is_whole() -> None:
    disk, _, positions = written(10)
    flip(disk, 1, positions[4].offset)
    log, _ = open_log(disk)
    assert [entry.instance for entry in log.footer(1).frames()] == [0, 1, 2, 3, 5, 6, 7, 8, 9]


def test_what_a_read_finds_can_be_reported() -> None:
    disk, _, positions = written(300)
    log, recovery = open_log(disk)
    flip(disk, 1, positions[3].offset)
    with pytest.raises(WalDamaged) as caught:
        log.read(positions[3])
    log.damages.add(caught.value.damage)
    assert recovery.state is DAMAGED
    log.close()
    assert open_log(disk)[1].state is DAMAGED


def test_a_published_copy_of_the_log_is_only_a_payload() -> None:
    """Frames inside a message never verify: each segment has its own random seed."""
    disk, _, positions = written(5)
    copied = bytes(disk.inode(name(1)).live[4096:6000])
    other = SimDisk(99)
    log, _ = open_log(other)
    records = [accept(1, copied), accept(2)]
    positions = append(log, *records)
    log.close()
    flip(other, 1, positions[0].offset - 40)
    assert content(open_log(other)[1]) == [accept(2)]


def test_a_damage_list_that_rots_is_damage() -> None:
    disk, _, positions = written(10)
    flip(disk, 1, positions[4].offset)
    open_log(disk)[0].close()
    disk.damage("damage.json", 0, b"\xff\xff")
    assert open_log(disk)[1].state is DAMAGED
