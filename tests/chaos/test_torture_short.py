"""The torture in short, for CI: real processes under load, a few faults of each kind, and the
whole history held against the log. How long anything took is `make torture`'s to judge."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cluster import ChaosCluster
from harness.power_cut import unavailable
from tests.chaos.disks import NodeDisks
from tests.chaos.scenarios import Torture
from tests.chaos.workload import failed

PER_SECOND = 150


@pytest.fixture
def root() -> Iterator[Path]:
    """Not pytest's own directory: Postgres's lesser account must get there when we are root."""
    path = Path(tempfile.mkdtemp(prefix="packetboat-torture-"))
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


async def test_kills_and_a_hang_lose_nothing(root: Path) -> None:
    async with (
        ChaosCluster(root) as cluster,
        await Torture.over_http(cluster, "faults", per_second=PER_SECOND) as torture,
    ):
        torture.workload.start()
        await torture.kill(0, window_s=3, before_s=0.5, down_s=0.5)
        await torture.hang(1, window_s=4, hang_s=3, before_s=0.2)
        await torture.kill(2, window_s=2, before_s=0.2, down_s=0.2)
        await torture.verify()


async def test_losing_postgres_and_restarting_the_server_lose_nothing(
    root: Path,
) -> None:
    async with (
        ChaosCluster(root) as cluster,
        await Torture.over_http(cluster, "server", per_second=PER_SECOND) as torture,
    ):
        assert not failed(await torture.lose_postgres(load_s=1, down_s=1))
        await torture.verify()
        await torture.restart_server(load_s=1, kindly=True)
        await torture.verify()


async def test_kill_9_of_everything_at_once_loses_nothing(root: Path) -> None:
    async with (
        ChaosCluster(root) as cluster,
        await Torture.over_http(cluster, "everything", per_second=PER_SECOND) as torture,
    ):
        await torture.kill_everything(load_s=2)
        before = await torture.verify()
        torture.workload.start()
        await torture.kill(0, window_s=1, before_s=0.5, down_s=0.1)
        assert (await torture.verify()).acked > before.acked


async def test_power_cuts_of_one_node_and_of_all_lose_nothing(root: Path) -> None:
    reason = unavailable()
    if reason is not None:
        pytest.skip(f"no power cuts here: {reason}")
    with NodeDisks(root) as disks:
        async with (
            ChaosCluster(root, disks.directories) as cluster,
            await Torture.over_http(cluster, "power", per_second=PER_SECOND) as torture,
        ):
            torture.workload.start()
            await torture.cut_power(0, disks, window_s=3, before_s=1)
            await torture.verify()
            await torture.cut_all_power(disks, load_s=1.5)
            await torture.verify()
