"""Disks that are damaged or full: a node says so and takes no harm further; nothing is lost."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.chaos.cluster import NODES, ChaosCluster
from tests.chaos.disks import NodeDisks
from tests.chaos.history import Outcome, check
from tests.chaos.power_cut import unavailable
from tests.chaos.read_log import read_topic
from tests.chaos.scenarios import Torture

RESERVE_BYTES = 16 * 1024 * 1024


@pytest.fixture
def root() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="packetboat-disks-"))
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
async def cluster(root: Path) -> AsyncIterator[ChaosCluster]:
    """The store nodes alone."""
    async with ChaosCluster(root, store_only=True) as cluster:
        yield cluster


def flip_a_bit(directory: Path) -> None:
    """In the middle of what is written of the first segment."""
    segment = min(directory.glob("wal/*.wal"))
    raw = segment.read_bytes()
    middle = len(raw.rstrip(b"\0")) // 2
    with segment.open("r+b") as file:
        file.seek(middle)
        file.write(bytes([raw[middle] ^ 0x10]))


async def test_a_damaged_node_says_so_and_stays_out(cluster: ChaosCluster) -> None:
    torture = await Torture.on_store(cluster, per_second=200)
    torture.workload.start()
    await asyncio.sleep(1.5)
    cluster.kill_node(3)
    flip_a_bit(cluster.node_dirs[3])
    cluster.start_node(3)
    await asyncio.sleep(3)
    await torture.workload.stop()
    statuses = await cluster.statuses()
    assert statuses[3]["damaged"]
    assert not statuses[1]["damaged"]
    assert all(group["leader"] in (1, 2) for group in statuses[1]["groups"])
    verdict = check(torture.workload.history, await read_topic(cluster, torture.topic_uid))
    verdict.require()
    assert verdict.acked > 500


async def test_full_disks_are_refused_before_they_are_full_and_heal_by_themselves(
    root: Path,
) -> None:
    reason = unavailable()
    if reason is not None:
        pytest.skip(f"no disks of our own here: {reason}")
    with NodeDisks(root, size_mb=256) as disks:
        async with ChaosCluster(root, disks.directories, store_only=True) as cluster:
            torture = await Torture.on_store(cluster, per_second=100, keys=2)
            await torture.workload.publish_one()
            for node in NODES:
                fill(cluster.node_dirs[node])
            await asyncio.sleep(1.5)  # a node looks once a second
            refused = [await torture.workload.publish() for _ in range(8)]
            assert {publish.outcome for publish in refused} == {Outcome.NOT_DONE}
            assert {publish.reason for publish in refused} == {"DiskFull"}
            assert all(cluster.is_running(node) for node in NODES)
            for node in NODES:
                (cluster.node_dirs[node].parent / "filler").unlink()
            await asyncio.sleep(1.5)
            await torture.workload.publish_one()
            await torture.verify()


def fill(directory: Path) -> None:
    """Leave less than the reserve on its file system."""
    filler = os.open(directory.parent / "filler", os.O_CREAT | os.O_WRONLY)
    stat = os.fstatvfs(filler)
    os.posix_fallocate(filler, 0, stat.f_bavail * stat.f_frsize - RESERVE_BYTES // 2)
    os.close(filler)
