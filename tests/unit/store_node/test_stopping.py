"""A node that stops in good order writes nothing once its last checkpoint is there."""

from __future__ import annotations

import asyncio
from pathlib import Path

from store_nodes.commands import CompareAndSet, encode
from store_nodes.errors import StoreError
from store_nodes.wire import Durability
from tests.unit.store_node.node_support import running


class Silent:
    """Takes whatever a command is answered."""

    def accepted(self) -> None: ...

    def finished(self, value: int, log_time_us: int) -> None: ...

    def failed(self, error: StoreError, *, decided: bool) -> None: ...


async def test_what_a_group_hears_while_connections_close_is_not_written(tmp_path: Path) -> None:
    """The log was closed by then: an orderly stop ended with status 70."""
    async with running(tmp_path) as one:
        node = one.node
        await node.stop()
        records = node._commit.records
        raw = encode(CompareAndSet("late", 0, 1))
        node.groups[0].command(raw, Durability.QUORUM, 5000, Silent())  # type: ignore[arg-type]
        node.on_lost(2)
        for _ in range(5):
            await asyncio.sleep(0.01)
        assert node._commit.records == records
        assert node._commit.queued_bytes == 0
