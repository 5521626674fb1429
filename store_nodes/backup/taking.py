"""Copies a running store: the machine of each group, and every live batch not copied before.

A finished copy has these properties:

* Everything acknowledged before `take` began is in the copy: each group's machine comes from a
  leader that a majority confirmed after that moment, and that had applied all that was chosen by
  then.
* For each machine, every live batch is there. Batches that were truncated between the copy of the
  machine and that of the batch are gone, so the machine is copied again, until none was.
* The groups' machines are from different moments, but no queue begins after the end of the one that
  it follows. So a partition that was moved meanwhile is not split between the halves. The group of
  the older queue is copied again if it was copied too soon to know its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from store_nodes.admin.inventory import BARRIER
from store_nodes.backup.coverage import first_gap
from store_nodes.backup.packs import Pack, PackWriter
from store_nodes.client import SnapshotImage, StoreClient
from store_nodes.errors import Unavailable
from store_nodes.machine.machine import Machine
from store_nodes.node.copying import Copier, Sources
from store_nodes.queue_id import QueueId
from store_nodes.wal.footer import STAGED, BatchEntry

ROUNDS = 50
"""Copies of one group at most; each only fetches the batches since the one before."""
LIVE_SHARE = 0.5
"""Share of live bytes below which an older pack is left out and its live batches are copied
again.
"""


class Images(NamedTuple):
    """The parts of a copy to keep besides the packs."""

    machines: dict[int, SnapshotImage]
    counters: dict[str, int]
    """The counters of group 0."""
    messages: int
    """Number of live messages with an offset."""


class Taking:
    """One copy; `tell` is called with its progress in words."""

    def __init__(
        self,
        client: StoreClient,
        writer: PackWriter,
        *,
        bytes_per_s: int,
        tell: Callable[[str], None],
    ) -> None:
        self._client = client
        self._writer = writer
        self._bytes_per_s = bytes_per_s
        self._tell = tell
        self._images: dict[int, SnapshotImage] = {}
        self._machines: dict[int, Machine] = {}
        self._homes: dict[bytes, int] = {}
        """The group of each queue."""

    async def take(self, older: Iterable[Pack]) -> tuple[Images, list[Pack]]:
        """Take the copy; return it with the older packs that it needs.

        Raises StoreError, OSError.
        """
        await Sources(self._client, self._client.nodes).linked()
        for group in self._client.groups:
            await self._look(group)
        kept = [pack for pack in older if self._worth(pack)]
        for pack in kept:
            self._writer.had(pack.entries())
        again = list(self._client.groups)
        for _ in range(ROUNDS):
            for group in again:
                await self._fill(group)
            again = sorted(_cut_short(self._machines))
            if not again:
                break
            for group in again:
                await self._look(group)
        else:
            raise Unavailable(f"partitions of groups {again} are moved all the time")
        self._writer.close()
        return self._result(), [pack for pack in kept if any(map(self._is_live, pack.entries()))]

    async def _look(self, group: int) -> None:
        for _ in range(ROUNDS):
            leader = self._client.leader(group)
            await self._client.counter(group, BARRIER)
            # A node of 0.2.0 confirms nothing: the one that answered had applied it; another may
            # not have.
            if leader is not None and self._client.leader(group) == leader:
                break
        else:
            raise Unavailable(f"group {group} has another leader all the time")
        image = await self._client.snapshot(group)
        machine = await asyncio.to_thread(Machine.restore, group, image.raw)
        self._images[group], self._machines[group] = image, machine
        self._homes |= {info.queue: group for info in machine.queues()}

    async def _fill(self, group: int) -> None:
        leader = self._client.leader(group)
        nodes = sorted(self._client.nodes, key=lambda node: node != leader)
        copier = Copier(self._writer, Sources(self._client, nodes), self._bytes_per_s)
        for _ in range(ROUNDS):
            machine = self._machines[group]
            nowhere = (await copier.fill(machine)).missing
            if nowhere:
                queue = QueueId.unpack(nowhere[0].queue)
                raise Unavailable(
                    f"no node has {queue} from {nowhere[0].first} to {nowhere[0].end}: see "
                    "`packetboat store status`"
                )
            if await first_gap(machine, self._writer.batches) is None:
                self._tell(f"group {group}: {copier.copied_bytes} bytes copied")
                return
            await self._look(group)
        raise Unavailable(f"group {group} truncates faster than it is copied")

    def _worth(self, pack: Pack) -> bool:
        live = total = 0
        for entry in pack.entries():
            total += entry.position.length
            live += entry.position.length if self._is_live(entry) else 0
        return live > 0 and live >= LIVE_SHARE * total

    def _is_live(self, entry: BatchEntry) -> bool:
        group = self._homes.get(entry.queue)
        return group is not None and self._machines[group].batch_live(
            entry.queue, entry.base_offset, entry.messages, staged=entry.flags == STAGED
        )

    def _result(self) -> Images:
        machines = self._machines.values()
        return Images(
            dict(self._images),
            dict(self._machines[0].counters),
            sum(
                info.offsets.end - info.offsets.first + len(machine.kept(info.queue))
                for machine in machines
                for info in machine.queues()
            ),
        )


def _cut_short(machines: Mapping[int, Machine]) -> set[int]:
    """Return the groups whose copies do not fit together.

    The queue before one that is there continues, or is not made yet.
    """
    queues = {
        QueueId.unpack(info.queue): (group, info)
        for group, machine in machines.items()
        for info in machine.queues()
    }
    again: set[int] = set()
    for name, (_, info) in queues.items():
        if not name.generation:
            continue
        before = name._replace(generation=name.generation - 1)
        if before in queues:
            group, older = queues[before]
            if not older.offsets.sealed or older.offsets.end != info.base:
                again.add(group)
        elif info.base and not any(one.is_deleted(before.pack()) for one in machines.values()):
            again |= machines.keys()
    return again
