"""Every way to consume while the server, Postgres and store nodes are killed; how long anything
takes is `make torture`'s to judge."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cluster import ChaosCluster
from tests.chaos.delivery.actor import Site
from tests.chaos.delivery.load import DeliveryLoad


@pytest.fixture
def root() -> Iterator[Path]:
    """Not pytest's own directory: Postgres's lesser account must get there when we are root."""
    path = Path(tempfile.mkdtemp(prefix="packetboat-delivery-"))
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


async def test_every_way_to_consume_survives_kills(root: Path) -> None:
    async with ChaosCluster(root) as cluster:
        site = Site(cluster.http_port, cluster.token)
        load = DeliveryLoad(site, seed=1, lapses=cluster.lapses)
        await load.prepare()
        try:
            load.start()
            await asyncio.sleep(3)
            cluster.kill_server()
            cluster.start_server()
            await asyncio.sleep(6)
            cluster.kill_postgres()
            await asyncio.sleep(1)
            await cluster.start_postgres()
            await asyncio.sleep(2)
            cluster.kill_node(1)
            cluster.start_node(1)
            await asyncio.sleep(2)
            await load.verify()
        finally:
            await load.close()
