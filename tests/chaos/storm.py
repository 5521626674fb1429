"""Faults of every kind at random moments, on every process, also on several at once.

The seed decides which faults and when; the processes' own timing is what it is, so a seed makes a
failure likely to come back, not certain.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter

from tests.chaos.cluster import NODES
from tests.chaos.disks import NodeDisks
from tests.chaos.scenarios import Torture

NODE_CALM_S = (0.2, 6.0)
SERVER_CALM_S = (6.0, 15.0)
DOWN_S = (0.0, 2.0)
HANG_S = (0.2, 4.0)


class Storm:
    """One storm over one installation under load."""

    def __init__(self, torture: Torture, disks: NodeDisks | None, seed: int) -> None:
        self.faults: Counter[str] = Counter()
        self._torture = torture
        self._cluster = torture.cluster
        self._disks = disks
        self._seed = seed

    async def run(self, seconds: float) -> None:
        """Until the time is over; everything runs again afterwards."""
        end = time.monotonic() + seconds
        self._torture.workload.start()
        async with asyncio.TaskGroup() as group:
            for node in NODES:
                group.create_task(self._on_node(node, random.Random(f"{self._seed}/{node}"), end))
            group.create_task(self._on_server(random.Random(f"{self._seed}/server"), end))
            group.create_task(self._on_postgres(random.Random(f"{self._seed}/postgres"), end))
        await self._cluster.until_ready()

    async def _on_node(self, node: int, dice: random.Random, end: float) -> None:
        kinds = ["kill", "kill", "hang", "hang and kill", "stop"]
        kinds += ["power cut"] * (2 if self._disks else 0)
        while True:
            await asyncio.sleep(dice.uniform(*NODE_CALM_S))
            if time.monotonic() > end:
                return
            kind = dice.choice(kinds)
            self.faults[kind] += 1
            if kind.startswith("hang"):
                self._cluster.pause_node(node)
                await asyncio.sleep(dice.uniform(*HANG_S))
                if kind == "hang":
                    self._cluster.resume_node(node)
                    continue
            if kind == "stop":
                await self._cluster.stop_node(node)
            if kind == "power cut" and self._disks is not None:
                self._disks.cut([node])
            self._cluster.kill_node(node)
            if kind == "power cut" and self._disks is not None:
                self._disks.remount([node])
            await asyncio.sleep(dice.uniform(*DOWN_S))
            self._cluster.start_node(node)

    async def _on_server(self, dice: random.Random, end: float) -> None:
        while True:
            await asyncio.sleep(dice.uniform(*SERVER_CALM_S))
            if time.monotonic() > end:
                return
            self.faults["server kill"] += 1
            self._cluster.kill_server()
            await asyncio.sleep(dice.uniform(*DOWN_S))
            self._cluster.start_server()

    async def _on_postgres(self, dice: random.Random, end: float) -> None:
        while True:
            await asyncio.sleep(dice.uniform(*SERVER_CALM_S))
            if time.monotonic() > end:
                return
            self.faults["postgres kill"] += 1
            self._cluster.kill_postgres()
            await asyncio.sleep(dice.uniform(*DOWN_S))
            await self._cluster.start_postgres()
