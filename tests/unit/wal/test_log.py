"""Writing, rolling and reading back, without faults."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from store_nodes.wal import opening, writer
from store_nodes.wal.errors import WalClosed, WalDamaged
from store_nodes.wal.footer import BatchEntry
from store_nodes.wal.frame import HEADER_BYTES, FrameKind, Record
from store_nodes.wal.log import WriteAheadLog
from store_nodes.wal.position import Position
from store_nodes.wal.recovery import RecoveryState
from store_nodes.wal.segment import SEGMENT_HEADER_BYTES, preallocated_bytes
from store_nodes.wal.writer import AHEAD_BYTES, SMALL_WRITE_BYTES
from tests.unit.wal.wal_support import (
    CLUSTER,
    SEGMENT_BYTES,
    Inode,
    SimDisk,
    accept,
    append,
    content,
    open_log,
)

BLOCK_BYTES = 4096


def batch(base: int) -> BatchEntry:
    return BatchEntry(b"q" * 25, base, 1, base, Position(1, base, 1))


def fill(log: WriteAheadLog, segments: int, payload: bytes = b"x" * 1000) -> list[Record]:
    """Flush one record at a time until the log has moved on by `segments` segments."""
    written: list[Record] = []
    last = log.tail.segment + segments
    while log.tail.segment < last:
        record = accept(len(written), payload)
        append(log, record)
        written.append(record)
    return written


def test_what_is_written_is_read() -> None:
    log, _ = open_log(SimDisk())
    records = [accept(i, os.urandom(i * 7)) for i in range(50)]
    positions = append(log, *records)
    assert [log.read(position) for position in positions] == [one.payload for one in records]


def test_a_flush_is_one_write_and_one_sync() -> None:
    disk = SimDisk()
    log, _ = open_log(disk)
    disk.calls.clear()
    append(log, *[accept(i) for i in range(20)])
    halves = 2  # The simulated disk writes in two steps, to be cut between.
    assert [call for call, _ in disk.calls] == ["write"] * halves + ["sync_data"]


class BlockDisk(SimDisk):
    """Knows which blocks were ever written, and counts the writes that reached others."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks: dict[Inode, set[int]] = {}
        self.new_blocks: list[int] = []
        """The number of blocks that each write was the first to reach."""
        self.longest = 0
        """Bytes of the longest write."""

    def write(self, fd: int, buffers: Sequence[bytes], offset: int) -> None:
        inode, _ = self._open[fd]
        size = sum(map(len, buffers))
        self.longest = max(self.longest, size)
        reached = set(range(offset // BLOCK_BYTES, -(-(offset + size) // BLOCK_BYTES)))
        written = self.blocks.setdefault(inode, set())
        self.new_blocks.append(len(reached - written))
        written |= reached
        super().write(fd, buffers, offset)


def open_on_blocks(disk: BlockDisk, segment_bytes: int = 2 * AHEAD_BYTES) -> WriteAheadLog:
    log, _ = open_log(disk, segment_bytes=segment_bytes)
    disk.new_blocks.clear()
    disk.longest = 0
    return log


def test_few_small_writes_reach_blocks_that_were_never_written() -> None:
    disk = BlockDisk()
    log = open_on_blocks(disk)
    flushes = AHEAD_BYTES // 1024
    for i in range(flushes):
        append(log, accept(i, bytes(1024 - HEADER_BYTES)))
    assert len(disk.new_blocks) == flushes
    assert sum(map(bool, disk.new_blocks)) == 2, "the first, and the one behind its zeros"


def test_a_start_fills_blocks_anew() -> None:
    """A start does not know how far the life before had filled the segment."""
    disk = BlockDisk()
    append(open_on_blocks(disk), accept(0))
    disk.kill()
    log = open_on_blocks(disk)
    disk.blocks.clear()
    for i in range(1, 20):
        append(log, accept(i, bytes(1000)))
    assert sum(map(bool, disk.new_blocks)) == 1


def test_a_large_write_has_no_zeros_behind_it() -> None:
    disk = BlockDisk()
    log = open_on_blocks(disk)
    append(log, accept(0, bytes(SMALL_WRITE_BYTES)))
    assert disk.longest == HEADER_BYTES + SMALL_WRITE_BYTES


def test_zeros_stay_within_the_segment() -> None:
    disk = BlockDisk()
    log = open_on_blocks(disk, segment_bytes=AHEAD_BYTES // 2)
    append(log, accept(0))
    assert len(disk.inode("0000000000000001.wal").live) == AHEAD_BYTES // 2
    assert disk.longest == AHEAD_BYTES // 2 - SEGMENT_HEADER_BYTES


def test_a_reopened_log_goes_on() -> None:
    disk = SimDisk()
    written = []
    for i in range(5):
        log, recovery = open_log(disk)
        assert content(recovery) == written
        assert recovery.state is RecoveryState.CLEAN
        append(log, accept(i))
        written.append(accept(i))
        log.close()


def test_a_full_segment_is_sealed_and_the_next_is_ready() -> None:
    disk = SimDisk()
    log, _ = open_log(disk)
    written = fill(log, 2)
    log.prepare_spare()
    assert [name for name in disk.names(log.directory) if name[0] == "0"] == [
        "0000000000000001.wal",
        "0000000000000002.wal",
        "0000000000000003.wal",
        "0000000000000004.spare",
    ]
    footers = [log.footer(1), log.footer(2)]
    instances = [entry.instance for footer in footers for entry in footer.frames()]
    assert instances == [one.instance for one in written[: len(instances)]]
    for entry in footers[0].frames():
        assert log.read(entry.position) == written[entry.instance].payload
    log.close()
    assert content(open_log(disk)[1]) == written


def test_a_roll_without_a_spare_makes_one() -> None:
    disk = SimDisk()
    log, _ = open_log(disk)
    written = fill(log, 3)  # Nobody calls prepare_spare.
    log.close()
    assert content(open_log(disk)[1]) == written


def test_a_flush_never_straddles_segments() -> None:
    disk = SimDisk()
    log, _ = open_log(disk)
    for i in range(20):
        positions = append(log, *[accept(i, bytes(900)) for _ in range(10)])
        assert len({position.segment for position in positions}) == 1
    sizes = [len(disk.inode(f"{n:016x}.wal").live) for n in range(1, log.tail.segment)]
    assert all(size <= SEGMENT_BYTES for size in sizes), "footers fit in what was preallocated"


def test_a_frame_larger_than_a_segment_gets_its_own() -> None:
    disk = SimDisk()
    log, _ = open_log(disk)
    big = accept(2, os.urandom(3 * SEGMENT_BYTES))
    one, two, three = (append(log, record)[0] for record in (accept(1), big, accept(3)))
    assert (one.segment, two.segment, three.segment) == (1, 2, 3)
    assert log.read(two) == big.payload
    log.close()
    assert content(open_log(disk)[1]) == [accept(1), big, accept(3)]


def test_an_oversize_frame_may_be_the_first_one() -> None:
    disk = SimDisk()
    log, _ = open_log(disk)
    big = accept(1, os.urandom(2 * SEGMENT_BYTES))
    assert append(log, big)[0].segment == 1
    log.close()
    log, recovery = open_log(disk)
    assert content(recovery) == [big]
    assert append(log, accept(2))[0].segment == 2


def test_every_noted_batch_is_in_a_footer_or_unfootered() -> None:
    log, _ = open_log(SimDisk())
    for base in range(2000):
        append(log, accept(base))
        log.note_batches([batch(base)])
    in_footers = [e for n in range(1, log.tail.segment) for e in log.footer(n).batches()]
    assert log.tail.segment > 3
    assert in_footers + log.unfootered_batches() == [batch(base) for base in range(2000)]


def test_more_noted_batches_than_a_segment_holds() -> None:
    """As after a long replay: the footer may make its segment longer."""
    disk = SimDisk()
    log, _ = open_log(disk)
    append(log, accept(0))
    log.note_batches(batch(base) for base in range(2000))
    append(log, accept(1))
    append(log, accept(2))
    log.close()
    log, recovery = open_log(disk)
    assert content(recovery) == [accept(0), accept(1), accept(2)]
    assert len([e for n in recovery.segments[:-1] for e in log.footer(n).batches()]) == 2000


def test_a_start_reads_only_the_last_segment() -> None:
    disk = SimDisk()
    log, _ = open_log(disk)
    fill(log, 5)
    log.close()
    disk.read_bytes.clear()
    open_log(disk)
    for number in range(1, 6):
        assert disk.read_bytes[f"{number:016x}.wal"] <= 3 * 4096 + 64


def test_frames_from_a_tail_on() -> None:
    disk = SimDisk()
    log, _ = open_log(disk)
    written = fill(log, 1)
    tail = log.tail
    append(log, accept(1000), accept(1001))
    written_after = [accept(1000), accept(1001), *fill(log, 2)]
    log.close()
    _, recovery = open_log(disk, start_at=tail)
    found = [record for record, _ in recovery.frames(tail.segment, tail.offset)]
    assert found == written_after
    assert content(recovery) == written + written_after


def test_positions_are_the_same_after_a_restart() -> None:
    disk = SimDisk()
    log, _ = open_log(disk)
    positions = [append(log, accept(i, bytes(700)))[0] for i in range(100)]
    log.close()
    log, recovery = open_log(disk)
    assert [position for _, position in recovery.frames()] == positions
    assert log.read(positions[0]) == bytes(700)


def test_a_tail_is_what_is_synced() -> None:
    log, _ = open_log(SimDisk())
    before = log.tail
    log.write([accept(1)])
    assert log.tail == before
    log.sync()
    assert log.tail > before


def test_slices_of_a_payload() -> None:
    log, _ = open_log(SimDisk())
    (position,) = append(log, accept(1, b"head batch"))
    inside = position._replace(offset=position.offset + 5, length=5)
    assert log.read_slice(inside) == b"batch"
    with pytest.raises(WalDamaged):
        log.read_slice(Position(1, SEGMENT_BYTES - 1, 5))
    with pytest.raises(WalDamaged):
        log.read(inside)


def test_what_is_not_there_is_damage_not_an_answer() -> None:
    log, _ = open_log(SimDisk())
    with pytest.raises(WalDamaged):
        log.read(Position(5, 4152, 1))
    with pytest.raises(WalDamaged):
        log.footer(1)


def test_a_closed_log_takes_nothing() -> None:
    log, _ = open_log(SimDisk())
    log.close()
    log.close()
    with pytest.raises(WalClosed):
        log.write([accept(1)])


def test_a_clean_stop_marks_what_is_synced() -> None:
    disk = SimDisk()
    log, _ = open_log(disk)
    append(log, accept(1))
    log.close()
    used = len(bytes(disk.inode("0000000000000001.wal").live).rstrip(b"\0"))
    open_log(disk)[0].close()
    assert len(bytes(disk.inode("0000000000000001.wal").live).rstrip(b"\0")) == used


def test_on_real_files(tmp_path: Path) -> None:
    """Preallocated blocks, 10 MiB payloads, more buffers than one call takes."""

    def open_real() -> tuple[WriteAheadLog, list[Record]]:
        log, recovery = WriteAheadLog.open(
            tmp_path, cluster_uid=CLUSTER, node_id=1, segment_bytes=1 << 20
        )
        return log, content(recovery)

    log, found = open_real()
    assert found == []
    spare = os.stat(tmp_path / "0000000000000002.spare")
    assert spare.st_size == 1 << 20
    assert spare.st_blocks * 512 >= 1 << 20
    big = accept(1, os.urandom(10 << 20))
    many = [Record(FrameKind.PROMISE, i, 0, i, b"abc") for i in range(3000)]
    (at,) = append(log, big)
    for one, after in pairwise(append(log, *many)):
        assert one < after
    assert log.read(at) == big.payload
    assert log.used_bytes >= 10 << 20
    assert log.free_bytes() > 0
    log.close()
    log, found = open_real()
    assert found == [big, *many]
    log.close()


def test_a_log_that_holds_nothing_takes_little_of_the_disk(tmp_path: Path) -> None:
    """Segments become as large as they are set to only as the log grows."""
    log, _ = WriteAheadLog.open(tmp_path, cluster_uid=CLUSTER, node_id=1)
    log.prepare_spare()
    taken = sum(os.stat(path).st_blocks * 512 for path in tmp_path.iterdir())
    assert taken <= 25 * 1024 * 1024
    assert log.used_bytes == 24 * 1024 * 1024
    log.close()


def test_segments_double_up_to_their_size() -> None:
    sizes = [preallocated_bytes(segment, 64 << 20) >> 20 for segment in range(1, 8)]
    assert sizes == [8, 16, 32, 64, 64, 64, 64]
    assert preallocated_bytes(1, 1 << 20) == 1 << 20
    assert preallocated_bytes(0x7FFF_FFFF, 64 << 20) == 64 << 20


@pytest.mark.parametrize("later", ["this", "0.2.0"])
def test_segments_of_another_release_are_gone_on_with(
    later: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Release 0.2.0 made every segment as large as they are set to."""
    disk = SimDisk()
    large = 32 << 20

    def old(segment: int, segment_bytes: int) -> int:
        return segment_bytes

    def become(release: str) -> None:
        made = old if release == "0.2.0" else preallocated_bytes
        for module in (opening, writer):
            monkeypatch.setattr(module, "preallocated_bytes", made)

    become("0.2.0" if later == "this" else "this")
    log, _ = open_log(disk, segment_bytes=large)
    append(log, accept(1))
    log.close()
    become(later)
    log, recovery = open_log(disk, segment_bytes=large)
    assert content(recovery) == [accept(1)]
    append(log, accept(2, bytes(40 << 20)))
    append(log, accept(3))
    log.close()
    assert content(open_log(disk, segment_bytes=large)[1])[-1] == accept(3)
