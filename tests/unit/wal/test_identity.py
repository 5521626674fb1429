"""Test to which node and cluster the log in a directory belongs."""

from __future__ import annotations

from pathlib import Path

import pytest

from store_nodes.wal import identity as identities
from store_nodes.wal.disk import OsDisk
from store_nodes.wal.errors import DirectoryLocked, IdentityMismatch
from store_nodes.wal.log import WriteAheadLog
from tests.unit.wal.wal_support import (
    CLUSTER,
    DIRECTORY,
    SEGMENT_BYTES,
    PowerCut,
    SimDisk,
    accept,
    append,
    content,
    open_log,
)


def test_an_incarnation_lasts() -> None:
    disk = SimDisk()
    log, recovery = open_log(disk)
    assert recovery.fresh
    log.close()
    again, recovery = open_log(disk)
    assert not recovery.fresh
    assert again.identity == log.identity


def test_a_lost_disk_is_another_incarnation() -> None:
    assert open_log(SimDisk(1))[0].identity != open_log(SimDisk(2))[0].identity


@pytest.mark.parametrize(("cluster", "node"), [(b"x" * 16, 1), (CLUSTER, 2)])
def test_a_foreign_directory_is_refused(cluster: bytes, node: int) -> None:
    disk = SimDisk()
    open_log(disk)[0].close()
    with pytest.raises(IdentityMismatch):
        WriteAheadLog.open(DIRECTORY, cluster_uid=cluster, node_id=node, disk=disk)
    open_log(disk)  # The lock was let go.


def test_any_bit_of_the_identity_is_covered() -> None:
    disk = SimDisk()
    open_log(disk)[0].close()
    raw = bytes(disk.inode("node.json").live)
    for bit in range(len(raw) * 8):
        flipped = bytearray(raw)
        flipped[bit // 8] ^= 1 << bit % 8
        disk.damage("node.json", 0, bytes(flipped))
        with pytest.raises(IdentityMismatch):
            identities.load(disk, DIRECTORY)


def test_a_segment_of_another_node_is_refused() -> None:
    disk, other = SimDisk(1), SimDisk(2)
    open_log(disk)[0].close()
    open_log(other)[0].close()
    name = "0000000000000001.wal"
    disk.damage(name, 0, bytes(other.inode(name).live))
    with pytest.raises(IdentityMismatch):
        open_log(disk)


def test_records_without_an_identity_are_not_adopted() -> None:
    disk = SimDisk()
    log, _ = open_log(disk)
    append(log, accept(1))
    log.close()
    disk.remove(DIRECTORY / "node.json")
    with pytest.raises(IdentityMismatch):
        open_log(disk)


@pytest.mark.parametrize("seed", range(3))
def test_a_first_start_may_be_cut_anywhere(seed: int) -> None:
    steps = 0
    while True:
        disk = SimDisk(seed)
        disk.cut_after = steps
        try:
            open_log(disk)
        except PowerCut:
            disk.cut()
            log, _ = open_log(disk)
            append(log, accept(1))
            disk.cut()
            assert content(open_log(disk)[1]) == [accept(1)]
            steps += 1
            continue
        break
    assert steps > 10


def test_two_processes_never_share_a_directory(tmp_path: Path) -> None:
    def open_real() -> WriteAheadLog:
        return WriteAheadLog.open(
            tmp_path / "a" / "wal",
            cluster_uid=CLUSTER,
            node_id=1,
            disk=OsDisk(),
            segment_bytes=SEGMENT_BYTES,
        )[0]

    log = open_real()
    with pytest.raises(DirectoryLocked):
        open_real()
    log.close()
    open_real().close()
