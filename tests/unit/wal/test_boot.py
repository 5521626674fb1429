"""The boot record is durable before anything rests on it."""

from __future__ import annotations

import pytest

from store_nodes.node.boot import BootRecord, pack_tail
from store_nodes.wal.position import Position
from tests.unit.wal.wal_support import DIRECTORY, PowerCut, SimDisk

INCARNATION = b"i" * 16


@pytest.mark.parametrize("seed", range(12))
def test_what_peers_were_told_survives_a_power_cut(seed: int) -> None:
    """A copy that is put back later is told from the original by it."""
    disk = SimDisk(seed)
    for start in range(1, 5):
        record = BootRecord(DIRECTORY, disk=disk)
        record.started(INCARNATION)
        tail = Position(start, 4096 * start, 0)
        record.tell(pack_tail(tail))
        disk.cut()
        after = BootRecord(DIRECTORY, disk=disk)
        assert after.boot == start
        assert after.told(INCARNATION) == tail


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("cut_after", range(4))
def test_a_power_cut_in_the_middle_leaves_the_one_before(seed: int, cut_after: int) -> None:
    disk = SimDisk(seed)
    record = BootRecord(DIRECTORY, disk=disk)
    record.started(INCARNATION)
    told = Position(1, 4096, 0), Position(1, 8192, 0)
    record.tell(pack_tail(told[0]))
    disk.cut_after = cut_after
    try:
        record.tell(pack_tail(told[1]))
    except PowerCut:
        disk.cut()
        assert BootRecord(DIRECTORY, disk=disk).told(INCARNATION) in told
