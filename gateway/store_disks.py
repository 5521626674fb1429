"""Warns when the disks of the store have little room, as its nodes say.

A full disk makes no process unready: reads and acks go on, and they are what makes room. So it is a
warning, in `/readyz` and in `packetboat doctor`, and publishes say the same when they are refused.
"""

from __future__ import annotations

import asyncio

from store_nodes.client import StoreClient
from store_nodes.disk_room import no_room_of

LOOK_EVERY_S = 5.0


class StoreDisks:
    """The findings of the last look; a node that did not answer has no warning."""

    def __init__(self, nodes: StoreClient) -> None:
        self._nodes = nodes
        self._full: list[str] = []

    async def run(self) -> None:
        """Look at the disks for as long as the process serves."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_EVERY_S)

    async def look(self) -> None:
        said = await self._nodes.status(groups=False)
        found = (no_room_of(status) for _, status in sorted(said.items()))
        self._full = [text for text in found if text is not None]

    def warning(self) -> str | None:
        """Return the warning; None where all nodes that answer have room."""
        return "; ".join(self._full) or None
