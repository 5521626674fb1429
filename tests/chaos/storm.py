"""Faults of every kind at random moments, on every process, also on several at once.

The seed decides which faults and when; the processes' own timing is what it is, so a seed makes a
failure likely to come back, not certain.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable

from harness.cluster import NODES
from tests.chaos.disks import NodeDisks
from tests.chaos.scenarios import Torture

NODE_CALM_S = (1.0, 20.0)
SERVER_CALM_S = (8.0, 20.0)
LONG_S = 3600.0
DOWN_S = (0.0, 2.0)
HANG_S = (0.2, 4.0)


class Storm:
    """One storm over one installation under load; `node` and `spare` are for nodes that come and
    go meanwhile."""

    def __init__(self, torture: Torture, disks: NodeDisks | None, seed: int) -> None:
        self.faults: Counter[str] = Counter()
        self._torture = torture
        self._cluster = torture.cluster
        self._disks = disks
        self._seed = seed
        self._end = 0.0
        self._on: dict[int, asyncio.Task[None]] = {}

    async def run(
        self, seconds: float, meanwhile: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Until the time is over and `meanwhile` has ended; everything runs again afterwards."""
        self._end = time.monotonic() + seconds + (LONG_S if meanwhile else 0.0)
        self._torture.workload.start()
        for node in NODES:
            self.node(node)
        others = [
            asyncio.create_task(self._on_server(self._dice("server"))),
            asyncio.create_task(self._on_postgres(self._dice("postgres"))),
        ]
        try:
            if meanwhile is not None:
                least = asyncio.create_task(asyncio.sleep(seconds))
                await meanwhile()
                await least
                self._end = time.monotonic()
            await asyncio.gather(*others, *self._on.values())
        finally:
            for task in (*others, *self._on.values()):
                task.cancel()
        await self._cluster.until_ready()

    def node(self, node: int) -> None:
        """Faults hit this node from now on."""
        self._on[node] = asyncio.create_task(self._on_node(node, self._dice(node)))

    def spare(self, node: int) -> None:
        """None does any more; it may hang or be down when this returns."""
        self._on.pop(node).cancel()

    def _dice(self, what: object) -> random.Random:
        return random.Random(f"{self._seed}/{what}")

    def _over(self) -> bool:
        return time.monotonic() > self._end

    async def _on_node(self, node: int, dice: random.Random) -> None:
        kinds = ["kill", "kill", "hang", "hang and kill", "stop"]
        disks = self._disks if node in NODES else None
        kinds += ["power cut"] * (2 if disks else 0)
        while True:
            await asyncio.sleep(dice.uniform(*NODE_CALM_S))
            if self._over():
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
                with contextlib.suppress(TimeoutError):  # not up yet: it is killed
                    await self._cluster.stop_node(node)
            if kind == "power cut" and disks is not None:
                self._cluster.freeze_nodes([node])
                disks.cut([node])
            self._cluster.kill_node(node)
            if kind == "power cut" and disks is not None:
                disks.remount([node])
            await asyncio.sleep(dice.uniform(*DOWN_S))
            self._cluster.start_node(node)

    async def _on_server(self, dice: random.Random) -> None:
        while True:
            await asyncio.sleep(dice.uniform(*SERVER_CALM_S))
            if self._over():
                return
            self.faults["server kill"] += 1
            self._cluster.kill_server()
            await asyncio.sleep(dice.uniform(*DOWN_S))
            self._cluster.start_server()

    async def _on_postgres(self, dice: random.Random) -> None:
        while True:
            await asyncio.sleep(dice.uniform(*SERVER_CALM_S))
            if self._over():
                return
            self.faults["postgres kill"] += 1
            self._cluster.kill_postgres()
            await asyncio.sleep(dice.uniform(*DOWN_S))
            await self._cluster.start_postgres()
