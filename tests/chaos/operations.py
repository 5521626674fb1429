"""An operator changes the cluster while it is published to and faults happen: nodes are added,
removed (the leader too) and replaced, a group is added, a partition moves.

Each operation is the operator's own function, run again after it gave up, as its messages say.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable

import msgspec

from harness.cluster import GROUPS, ClusterFailed
from store_nodes.admin.errors import AdminError
from store_nodes.admin.groups import add_groups, checkpoint
from store_nodes.admin.leaders import balance
from store_nodes.admin.members import add_node, remove_node, replace_node
from store_nodes.admin.operator import Operator
from store_nodes.errors import StoreError
from tests.chaos.scenarios import Torture
from tests.chaos.sometimes import Sometimes

TRY_S = 45.0
GIVE_UP_S = 300.0

ADDED = "a node became a learner and then a voter"
LEADER_REMOVED = "a node that led was removed"
REPLACED = "a dead node was replaced"
GROUP_ADDED = "a group was added"
MOVED = "a partition moved to another group"
SITUATIONS = (ADDED, LEADER_REMOVED, REPLACED, GROUP_ADDED)
"""The situations of a cluster without a gateway; MOVED needs one."""

Nodes = Callable[[int], None]


def nobody(_: int) -> None:
    """Is told of a node, and does nothing."""


class Operations:
    """Every operation once, in an order the seed decides. `joined` and `leaving` are told of nodes
    that run from now on, and of those that must not be touched any more."""

    def __init__(
        self, torture: Torture, seed: int, *, joined: Nodes = nobody, leaving: Nodes = nobody
    ) -> None:
        http = torture.consumer is not None
        self.sometimes = Sometimes((*SITUATIONS, *((MOVED,) if http else ())))
        self.repeated = 0
        self.nodes = {1, 2, 3}
        """The nodes of the cluster as it is now."""
        self._torture = torture
        self._cluster = torture.cluster
        self._dice = random.Random(f"{seed}/operations")
        self._joined = joined
        self._leaving = leaving
        self._next_id = 4
        self._moves = http

    async def run(self) -> None:
        """Run all operations; raises ClusterFailed when one cannot be finished."""
        await self.add()
        steps = [self.add_group, self.remove_leader, self.replace_dead]
        steps += [self.move] if self._moves else []
        self._dice.shuffle(steps)
        for step in steps:
            await step()
        await self._repeat("balance", balance)
        await self._repeat("checkpoint", checkpoint)

    async def add(self) -> None:
        node, address = self._new_node()
        await self._repeat(f"add {node}", lambda operator: add_node(operator, node, address))
        self.nodes.add(node)
        self.sometimes.hit(ADDED)

    async def remove_leader(self) -> None:
        node = await self._torture.leader_of(0)
        self._leaving(node)
        await self._repeat(f"remove {node}", lambda operator: remove_node(operator, node))
        self.nodes.discard(node)
        self._cluster.end_node(node)
        self.sometimes.hit(LEADER_REMOVED)

    async def replace_dead(self) -> None:
        old = self._dice.choice(sorted(self.nodes))
        self._leaving(old)
        self._cluster.end_node(old)
        node, address = self._new_node()
        await self._repeat(
            f"replace {old} by {node}",
            lambda operator: replace_node(operator, old, node, address),
        )
        self.nodes.discard(old)
        self.nodes.add(node)
        self.sometimes.hit(REPLACED)

    async def add_group(self) -> None:
        total = GROUPS + 1
        await self._repeat("add a group", lambda operator: add_groups(operator, total))
        self.sometimes.hit(GROUP_ADDED)

    async def move(self) -> None:
        """Move partition 0 to the group of another; done when the listing says so."""
        topic = self._torture.topic
        began = time.monotonic()
        while True:
            try:
                status, body = await self._cluster.call("GET", f"/topics/{topic}/partitions")
                if status == 200:
                    if _generation(body) > 0:
                        break
                    group = (_group(body) + 1) % GROUPS
                    await self._cluster.call(
                        "POST",
                        f"/topics/{topic}/partitions/0:move",
                        json.dumps({"group": group}).encode(),
                    )
            except (OSError, TimeoutError):
                pass
            if time.monotonic() - began > GIVE_UP_S:
                raise ClusterFailed(f"partition 0 did not move: {self._cluster.tail('serve')}")
            await asyncio.sleep(0.5)
        self.sometimes.hit(MOVED)

    def _new_node(self) -> tuple[int, str]:
        node, self._next_id = self._next_id, self._next_id + 1
        address = self._cluster.new_node(node)
        self._cluster.start_node(node)
        self._joined(node)
        return node, address

    async def _repeat(self, what: str, work: Callable[[Operator], Awaitable[object]]) -> None:
        began = time.monotonic()
        while True:
            client = self._cluster.store_client(self._cluster.joined)
            await client.start()
            try:
                await work(Operator(client, timeout_s=TRY_S))
                return
            except (AdminError, StoreError) as error:
                self.repeated += 1
                if time.monotonic() - began > GIVE_UP_S:
                    raise ClusterFailed(f"{what}: {error}") from error
            finally:
                await client.close()
            await asyncio.sleep(0.2)


class _Partition(msgspec.Struct):
    partition: int
    group: int
    generation: int


def _rows(body: bytes) -> list[_Partition]:
    page = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    return msgspec.json.decode(page["partitions"], type=list[_Partition])


def _generation(body: bytes) -> int:
    return max(row.generation for row in _rows(body) if row.partition == 0)


def _group(body: bytes) -> int:
    return next(row.group for row in _rows(body) if row.partition == 0)
