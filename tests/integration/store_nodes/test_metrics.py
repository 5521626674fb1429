"""Metrics and probes of store nodes, in real processes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families

from harness.cluster import NODES, ChaosCluster
from harness.processes import free_ports
from store_nodes.node import metrics_server
from store_nodes.node.group import Group
from tests.integration.store_nodes.store_cluster import batch, new_queue, ready_client

Values = dict[tuple[str, str, str], float]
"""Values of samples, by sample, node and group."""


class Watched:
    """A store whose nodes serve metrics, each on a port of its own."""

    def __init__(self, root: Path) -> None:
        self.cluster = ChaosCluster(root, store_only=True)
        self.ports = dict(zip(NODES, free_ports(len(NODES)), strict=True))

    def start(self, node: int) -> None:
        port = {"PACKETBOAT_STORE_METRICS_PORT": str(self.ports[node])}
        self.cluster.start_node(node, port)

    def get(self, node: int, path: str) -> requests.Response:
        return requests.get(f"http://127.0.0.1:{self.ports[node]}{path}", timeout=30)

    def values(self, node: int) -> Values:
        page = self.get(node, "/metrics").text
        return {
            (sample.name, sample.labels.get("node", ""), sample.labels.get("group", "")): (
                sample.value
            )
            for family in text_string_to_metric_families(page)
            for sample in family.samples
        }

    async def until(self, node: int, ready: bool) -> str:
        """Return the body of `/readyz` once its status is the wanted one."""
        while True:
            try:
                answer = await asyncio.to_thread(self.get, node, "/readyz")
            except requests.RequestException:
                await asyncio.sleep(0.1)
                continue
            if answer.ok == ready:
                return answer.text
            await asyncio.sleep(0.1)


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    store = Watched(tmp_path_factory.mktemp("store"))
    try:
        yield store
    finally:
        store.cluster.stop()


async def test_a_first_start_is_not_ready_before_it_met_the_others(watched: Watched) -> None:
    watched.start(1)
    said = await watched.until(1, ready=False)
    assert "first start, waits for nodes" in said
    assert watched.get(1, "/healthz").ok
    for node in NODES[1:]:
        watched.start(node)
    for node in NODES:
        assert await watched.until(node, ready=True) == "{}"


async def test_what_a_node_tells(watched: Watched) -> None:
    async with ready_client(watched.cluster) as client:
        queue = await new_queue(client)
        await client.appender(0, queue).append(batch("one"), 1)
    told = {node: watched.values(node) for node in NODES}
    for node, values in told.items():
        name = str(node)
        assert values["packetboat_store_peers", name, ""] == 2
        assert values["packetboat_store_flush_seconds_count", name, ""] > 0
        assert values["packetboat_store_starts_total", name, ""] == 1
        assert values["packetboat_store_group_voting", name, "0"] == 1
        assert values["packetboat_store_group_voters", name, "0"] == 3
        free = values["packetboat_store_disk_free_bytes", name, ""]
        assert free > values["packetboat_store_disk_reserve_bytes", name, ""] > 0
        assert values["packetboat_store_disk_full", name, ""] == 0
        assert values["process_open_fds", "", ""] > 0
    leaders = [
        values["packetboat_store_group_leading", str(node), "0"] for node, values in told.items()
    ]
    assert sorted(leaders) == [0, 0, 1]


async def test_without_a_quorum_no_leader_is_told_of(watched: Watched) -> None:
    for node in (2, 3):
        await watched.cluster.stop_node(node)
    assert "no leader known of groups" in await watched.until(1, ready=False)
    # Group after group: a leader is given up when it was not heard of for some time.
    async with asyncio.timeout(60):
        while watched.values(1)["packetboat_store_group_led", "1", "0"]:
            await asyncio.sleep(0.1)


class Hanging:
    """A node of which nothing is asked."""

    def summary(self) -> dict[str, object]:
        raise AssertionError

    def groups(self) -> list[Group]:
        raise AssertionError


async def test_a_loop_that_hangs_is_answered_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_server, "ANSWER_S", 0.2)
    server = metrics_server.MetricsServer(Hanging())
    host, port = server.start(("127.0.0.1", 0))
    url = f"http://{host}:{port}/healthz"
    try:
        for ask_for in (requests.get, requests.head):
            assert (await asyncio.to_thread(ask_for, url, timeout=30)).status_code == 200
        answered = threading.Event()
        found: list[int] = []

        def ask() -> None:
            found.append(requests.get(url, timeout=30).status_code)
            answered.set()

        threading.Thread(target=ask).start()
        assert answered.wait(30), "the loop waits here, and so answers nothing"
        assert found == [503]
    finally:
        await server.close()
