"""The check that a copy has all live messages of a machine."""

from __future__ import annotations

from store_nodes.machine.machine import Machine
from store_nodes.node.copying import Had, next_live
from store_nodes.queue_id import QueueId


async def first_gap(machine: Machine, held: Had) -> str | None:
    """Return the first live messages that are missing, in words; None if there are none."""
    for info in machine.queues():
        first, end, stage_end = info.offsets[:3]
        kept = [(offset, offset + 1) for offset in machine.kept(info.queue)]
        for low, high in [*kept, (first, end)]:
            for gap in held.missing(info.queue, low, high):
                return f"{QueueId.unpack(info.queue)}: offsets {gap[0]} to {gap[1] - 1}"
        for low, high in held.missing(info.queue, 0, stage_end, staged=True):
            if (live := await next_live(machine, info.queue, low, high)) is not None:
                return f"{QueueId.unpack(info.queue)}: {live[1]} delayed messages from {live[0]} on"
    return None
