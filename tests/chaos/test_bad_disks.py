"""Disks that are full: a node says so and takes no harm; nothing is lost."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cluster import NODES, ChaosCluster
from harness.power_cut import unavailable
from tests.chaos.disks import NodeDisks
from tests.chaos.history import Outcome
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
