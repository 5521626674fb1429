"""Store nodes for the tests of a module, and fleets in which hints are followed at once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from harness.cluster import ChaosCluster
from store_nodes.client import StoreClient
from subscribe_forwarder.fleet import claims, members
from tests.integration.store_nodes.store_cluster import ready_client, running_store


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChaosCluster]:
    with running_store(tmp_path_factory.mktemp("store")) as cluster:
        yield cluster


@pytest.fixture
async def client(
    cluster: ChaosCluster, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[StoreClient]:
    monkeypatch.setattr(claims, "HINTS_EVERY_S", 0.0)
    monkeypatch.setattr(members, "SETTLED_S", 0.0)
    async with ready_client(cluster) as client:
        yield client
