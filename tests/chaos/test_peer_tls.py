"""TLS between real processes: switched on under load, one node after the other; then only who has
a certificate gets in, and certificates change while all run. With all nine processes:
`make peer-tls`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from harness.cluster import NODES, ChaosCluster
from peering.authority import make_authority
from peering.settings import PeerTlsMode
from peering.tls import PeerTls
from store_nodes.admin.members import IgnoredFrames
from store_nodes.client import StoreClient
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message, encode
from store_nodes.transport.handshake import Identity, dial
from store_nodes.wire import Role
from tests.unit.peering.peer_certificates import Certificates

MODES = (PeerTlsMode.ACCEPT, PeerTlsMode.PREFER, PeerTlsMode.REQUIRE)
QUEUE = QueueId(b"q" * 16, 0)
APPEND_S = 60.0


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[ChaosCluster]:
    """Run the store nodes alone, without TLS."""
    async with ChaosCluster(tmp_path / "cluster", store_only=True) as cluster:
        yield cluster


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path / "certificates")


class Appends:
    """The appends of one client after the other to one queue, as servers do."""

    def __init__(self, cluster: ChaosCluster) -> None:
        self._cluster = cluster
        self.count = 0

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator[None]:
        """Append by a client with the present settings; raises the error of an append."""
        client = self._cluster.store_client()
        await client.start()
        await client.wait_ready()
        stop = asyncio.Event()
        work = asyncio.create_task(self._append(client, stop))
        try:
            yield
            before = self.count
            async with asyncio.timeout(APPEND_S):
                while self.count == before and not work.done():
                    await asyncio.sleep(0.02)
        finally:
            stop.set()
            await work
            await client.close()

    @staticmethod
    def batch(number: int) -> bytes:
        return encode([Message(b"number %d" % number)], 0)

    async def _append(self, client: StoreClient, stop: asyncio.Event) -> None:
        appender = client.appender(0, QUEUE)
        while not stop.is_set():
            receipt = await appender.append(self.batch(self.count), 1, timeout_s=APPEND_S)
            assert receipt.base_offset == self.count
            self.count += 1
            await asyncio.sleep(0.005)


async def test_it_is_switched_on_under_load_and_then_nobody_else_gets_in(
    cluster: ChaosCluster, certificates: Certificates, tmp_path: Path
) -> None:
    appends = Appends(cluster)
    async with cluster.ready_client() as client:
        await client.create(0, QUEUE)
    for mode in MODES:
        async with appends.going_on():
            cluster.settings |= certificates.environment(mode)
            for node in NODES:
                await cluster.stop_node(node)
                cluster.start_node(node)
                status, said = await cluster.operated("wait")
                assert status == 0, said
    async with cluster.ready_client() as client:
        assert await stored(client) == list(map(appends.batch, range(appends.count)))
    assert not await lets_in(cluster, None)
    assert "TLS is required" in cluster.tail("node-1", 100_000)
    assert not await lets_in(cluster, Certificates(tmp_path / "strange").tls())
    assert await lets_in(cluster, certificates.tls())
    await _another_authority_takes_over(cluster, certificates)


async def _another_authority_takes_over(cluster: ChaosCluster, ours: Certificates) -> None:
    """No process is restarted; a client goes on over connections of before."""
    old = ours.tls()
    async with cluster.ready_client() as client:
        ours.trust(ours.authority, authority := make_authority("the next CA"))
        ours.authority = authority
        ours.issue()
        async with asyncio.timeout(60):
            while not await lets_in(cluster, ours.tls()):
                await asyncio.sleep(0.2)
        ours.trust(authority)
        async with asyncio.timeout(60):
            while await lets_in(cluster, old):
                await asyncio.sleep(0.2)
        assert await lets_in(cluster, ours.tls())
        assert await client.fetch(0, QUEUE, 0, 1_000)


async def stored(client: StoreClient) -> list[bytes]:
    """Return every batch of the queue."""
    found: list[bytes] = []
    while entries := (await client.fetch(0, QUEUE, len(found), 1_000_000)).entries:
        found += [bytes(entry.batch) for entry in entries]
    return found


async def lets_in(cluster: ChaosCluster, tls: PeerTls | None, node: int = 1) -> bool:
    """Return whether the node lets in a client that knows the secret."""
    identity = Identity(cluster.store_secret)
    try:
        connection = await dial(
            cluster.addresses[node],
            identity,
            Role.CLIENT,
            node,
            IgnoredFrames(),
            tls=tls,
            timeout_s=10.0,
        )
    except OSError:
        return False
    connection.abort("only looking")
    return True
