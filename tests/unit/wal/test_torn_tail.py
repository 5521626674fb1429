"""A tail that was never synced is cut, wherever it tore, also when the repair is cut short."""

from __future__ import annotations

import copy
import random

import pytest

from store_nodes.wal import frame as frames
from store_nodes.wal.frame import Record
from store_nodes.wal.recovery import RecoveryState
from tests.unit.wal.wal_support import (
    SECTOR_BYTES,
    PowerCut,
    SimDisk,
    accept,
    append,
    content,
    open_log,
)

NAME = "0000000000000001.wal"
SYNCED = [accept(1, b"one"), accept(2, b"two" * 5)]
LAST = accept(3, bytes(range(1, 91)))
SMALL_SEGMENT = 12 * 1024


def golden() -> tuple[SimDisk, int, int]:
    """A log with two synced records and one more; its last frame is [start, end)."""
    disk = SimDisk(7)
    log, _ = open_log(disk, segment_bytes=SMALL_SEGMENT)
    append(log, *SYNCED)
    start = log.tail.offset
    append(log, LAST)
    end = log.tail.offset
    disk.kill()
    return disk, start, end


def torn_at(cut: int, start: int, end: int, fill: str) -> SimDisk:
    """Return a disk with the last frame written only up to `cut`, and zeros or noise after it."""
    disk, _, _ = golden()
    rest = end - cut
    noise = bytes(rest) if fill == "zeros" else random.Random(cut).randbytes(rest)
    disk.damage(NAME, cut, noise)
    return disk


def check_repaired(disk: SimDisk, expected: list[Record], torn: bool) -> None:
    log, recovery = open_log(disk, segment_bytes=SMALL_SEGMENT)
    assert recovery.state is (RecoveryState.TORN_TAIL_CUT if torn else RecoveryState.CLEAN)
    assert content(recovery) == expected
    append(log, accept(9, b"after"))
    disk.cut()
    log, recovery = open_log(disk, segment_bytes=SMALL_SEGMENT)
    assert recovery.state is RecoveryState.CLEAN
    assert content(recovery) == [*expected, accept(9, b"after")]
    log.close()


@pytest.mark.parametrize("fill", ["zeros", "garbage"])
def test_every_byte_and_a_second_cut_at_every_step_of_the_repair(fill: str) -> None:
    disk, start, end = golden()
    original = disk.inode(NAME).live
    padding = start + frames.HEADER_BYTES + len(LAST.payload)
    second_cuts = 0
    for cut in range(start, end):
        torn = torn_at(cut, start, end, fill)
        whole = torn.inode(NAME).live[start:padding] == original[start:padding]
        expected = [*SYNCED, LAST] if whole else SYNCED
        untouched = not any(torn.inode(NAME).live[start:end])
        steps = 0
        while True:
            disk = copy.deepcopy(torn)
            disk.cut_after = steps
            try:
                open_log(disk, segment_bytes=SMALL_SEGMENT)
            except PowerCut:
                disk.cut()
                log, recovery = open_log(disk, segment_bytes=SMALL_SEGMENT)
                assert recovery.state is not RecoveryState.DAMAGED
                assert content(recovery) == expected
                log.close()
                steps += 1
                second_cuts += 1
                continue
            break
        check_repaired(torn, expected, torn=not whole and not untouched)
    assert second_cuts > 5 * (end - start)


def test_pages_of_one_flush_may_land_in_any_order() -> None:
    """A hole of unwritten sectors in an unsynced flush is torn, though whole frames follow it."""
    landed = 0
    for seed in range(200):
        disk = SimDisk(seed)
        log, _ = open_log(disk)
        append(log, accept(0))
        log.write([accept(i, random.Random(i).randbytes(700)) for i in range(1, 9)])
        disk.cut()
        log, recovery = open_log(disk)
        assert recovery.state is not RecoveryState.DAMAGED, seed
        found = content(recovery)
        assert [record.instance for record in found] == list(range(len(found)))
        assert found, "what was synced is there"
        landed += 1 < len(found) < 9
        append(log, accept(99))
        disk.cut()
        assert content(open_log(disk)[1]) == [*found, accept(99)]
    assert landed > 5, "a part of a flush survived sometimes"


@pytest.mark.parametrize("bodies", [(700,), (20, 700, 20), (3000, 3000)])
def test_zeros_behind_a_torn_write_are_no_part_of_it(bodies: tuple[int, ...]) -> None:
    """The first write of a log ends with zeros, of which any sector may be lost, too."""
    found_counts = set()
    for seed in range(60):
        disk = SimDisk(seed)
        log, _ = open_log(disk)
        written = [accept(i, random.Random(i).randbytes(size)) for i, size in enumerate(bodies)]
        log.write(written)
        assert len(disk.inode(NAME).dirty) > 40, "zeros are a part of the write"
        disk.cut()
        log, recovery = open_log(disk)
        assert recovery.state is not RecoveryState.DAMAGED, seed
        found = content(recovery)
        assert found == written[: len(found)]
        found_counts.add(len(found))
        append(log, accept(99))
        disk.cut()
        assert content(open_log(disk)[1]) == [*found, accept(99)]
    assert {0, len(bodies)} <= found_counts


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("call", ["truncate", "allocate"])
def test_a_cut_that_was_lost_itself_is_made_again(call: str, seed: int) -> None:
    """ftruncate without fsync comes back (measured on ext4): the second start cuts the same."""
    disk, _, end = golden()
    disk.luck.seed(seed)
    disk.damage(NAME, end - 16, b"garbage!")
    disk.cut_after = {"truncate": 3, "allocate": 4}[call]
    with pytest.raises(PowerCut):
        open_log(disk, segment_bytes=SMALL_SEGMENT)
    assert disk.calls[-2][0] == call, "the power goes right after it"
    disk.cut()
    assert content(open_log(disk, segment_bytes=SMALL_SEGMENT)[1]) == SYNCED


def test_after_kill_9_what_only_memory_had_is_synced_before_it_is_believed() -> None:
    disk = SimDisk()
    log, _ = open_log(disk)
    log.write([accept(1)])
    disk.kill()
    _, recovery = open_log(disk)
    assert content(recovery) == [accept(1)]
    disk.cut()
    assert content(open_log(disk)[1]) == [accept(1)]


@pytest.mark.parametrize("seed", range(4))
def test_a_roll_may_be_cut_anywhere(seed: int) -> None:
    """Seal, rename, first frame: whatever was synced before is there after."""
    steps, done = 0, False
    while not done:
        disk = SimDisk(seed)
        log, _ = open_log(disk, segment_bytes=SMALL_SEGMENT)
        written = [accept(i, bytes([i + 1]) * SECTOR_BYTES) for i in range(9)]
        for record in written:
            append(log, record)
        assert log.tail.segment == 1
        disk.cut_after = steps
        try:
            for i in range(9, 20):
                append(log, accept(i, bytes([i + 1]) * SECTOR_BYTES))
                written.append(accept(i, bytes([i + 1]) * SECTOR_BYTES))
            log.prepare_spare()
            done = True
        except PowerCut:
            pass
        disk.cut()
        log, recovery = open_log(disk, segment_bytes=SMALL_SEGMENT)
        found = content(recovery)
        assert recovery.state is not RecoveryState.DAMAGED
        assert found[: len(written)] == written
        assert len(found) <= len(written) + 1
        append(log, accept(77))
        log.close()
        assert content(open_log(disk, segment_bytes=SMALL_SEGMENT)[1]) == [*found, accept(77)]
        steps += 1
    assert steps > 20


def test_a_footer_that_was_torn_is_written_again() -> None:
    disk = SimDisk()
    log, _ = open_log(disk, segment_bytes=SMALL_SEGMENT)
    first = [accept(i, b"x" * 500) for i in range(10)]
    for record in first:
        append(log, record)
    disk.failing["truncate"] = 5  # The footer is written, the seal does not finish.
    with pytest.raises(OSError, match="truncate"):
        append(log, accept(10, b"x" * 5000))
    disk.kill()
    log, recovery = open_log(disk, segment_bytes=SMALL_SEGMENT)
    assert recovery.state is not RecoveryState.DAMAGED
    assert content(recovery) == first
    append(log, accept(10, b"x" * 5000))
    assert [entry.instance for entry in log.footer(1).frames()] == list(range(10))
