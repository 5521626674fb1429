"""Power cuts in a row, of random subsets, with odd restart orders: `make power-cuts` in short."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from harness.cluster import ChaosCluster
from harness.power_cut import unavailable
from tests.chaos.disks import NodeDisks
from tests.chaos.power_cuts import SEGMENT_BYTES, PowerCuts
from tests.chaos.scenarios import Torture
from tests.chaos.sometimes import Sometimes

CUTS = 30


async def test_thirty_power_cuts_in_odd_orders_lose_nothing() -> None:
    reason = unavailable()
    if reason is not None:
        pytest.skip(f"no power cuts here: {reason}")
    with tempfile.TemporaryDirectory(prefix="packetboat-power-") as directory:
        root = Path(directory)
        with NodeDisks(root) as disks:
            async with (
                ChaosCluster(
                    root, disks.directories, store_only=True, segment_bytes=SEGMENT_BYTES
                ) as cluster,
                await Torture.on_store(cluster, per_second=60) as torture,
            ):
                power = PowerCuts(torture, disks, seed=2)
                await power.run(CUTS)
                await torture.verify()
                power.sometimes.require()


def test_a_situation_that_never_came_fails_the_run() -> None:
    sometimes = Sometimes(["seen", "never"])
    sometimes.hit("seen")
    sometimes.hit("never", when=False)
    with pytest.raises(AssertionError, match=r"never seen: .'never'."):
        sometimes.require()
