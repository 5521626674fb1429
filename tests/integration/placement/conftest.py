from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from harness.cluster import NODES, ChaosCluster


@pytest.fixture(scope="session")
def nodes_of_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChaosCluster]:
    cluster = ChaosCluster(tmp_path_factory.mktemp("store"), store_only=True)
    try:
        asyncio.run(cluster.start())
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def nodes(nodes_of_session: ChaosCluster) -> ChaosCluster:
    """Yield three store nodes, all running; they also have topics of other tests."""
    for node in NODES:
        if not nodes_of_session.is_running(node):
            nodes_of_session.start_node(node)
    return nodes_of_session
