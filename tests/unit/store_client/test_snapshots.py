"""Whole machines, as an install asks for them: never of a node that has less than is needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from store_nodes.errors import Unavailable
from tests.unit.store_client.store_client_support import GROUP, store_and_client
from tests.unit.store_node.node_support import running


async def test_a_node_that_is_behind_refuses(tmp_path: Path) -> None:
    async with running(tmp_path) as one:
        await one.advance(instances=3)
        clients = one.node.clients
        assert (await clients.snapshot(0, one.applied(), confirm=False)).applied == one.applied()
        with pytest.raises(Unavailable, match="is at instance 3, not at 4"):
            await clients.snapshot(0, one.applied() + 1, confirm=False)


async def test_a_node_of_an_older_release_gives_what_it_has_and_it_is_not_taken() -> None:
    """The one that stands for a node here does not look at `least` either."""
    async with store_and_client() as (store, client):
        applied = store.log.machine.applied
        assert (await client.snapshot(GROUP, 2, least=applied)).applied == applied
        with pytest.raises(Unavailable, match=f"at instance {applied}, not at {applied + 1}"):
            await client.snapshot(GROUP, 2, least=applied + 1)
