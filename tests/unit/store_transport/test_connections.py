"""Handshake, server and peers on loopback sockets."""

from __future__ import annotations

import asyncio
import hmac
from dataclasses import replace

import msgspec
import pytest

from peering.rpc.connection import FrameConnection
from peering.rpc.frames import LAYOUT, FrameReader, Goodbye, encode_frame, encode_head
from peering.rpc.handshake import HandshakeFailed, PeerRefusal, RefusedByPeer
from peering.shared_secret import SharedSecret
from store_nodes import wire
from store_nodes.client import StoreClient
from store_nodes.errors import NotSupported, Unavailable
from store_nodes.node.server import StoreServer
from store_nodes.transport import failures
from store_nodes.transport.handshake import PROTOCOL, Identity, dial
from store_nodes.transport.legacy import Version2
from store_nodes.transport.peers import PeerNetwork
from tests.unit.peering.peer_certificates import Certificates
from tests.unit.store_client.store_client_support import (
    CLUSTER,
    GROUP,
    QUEUE,
    SECRET,
    FakeStore,
    store_and_client,
    until,
)


class Collector:
    """A handler that keeps what it gets."""

    def __init__(self) -> None:
        self.frames: list[tuple[wire.Head, bytes]] = []
        self.reasons: list[str] = []
        self.welcome: wire.Welcome | None = None
        self.remote: object = None

    def opened(self, connection: FrameConnection, remote: object, welcome: wire.Welcome) -> None:
        self.welcome, self.remote = welcome, remote

    def frame(self, head: wire.Head, body: bytes) -> None:
        self.frames.append((head, body))

    def closed(self, reason: str) -> None:
        self.reasons.append(reason)

    def congestion(self, congested: bool) -> None:
        pass


@pytest.fixture
async def store():
    store = FakeStore()
    await store.start()
    yield store
    await store.close()


def address(store: FakeStore) -> tuple[str, int]:
    return "127.0.0.1", store.nodes[1].port


async def dial_as_0_2_0(at: tuple[str, int], collector: Collector) -> FrameConnection:
    """Open a connection as release 0.2.0 does.

    Its handler gets the heads of the handshake, too, and sends those of that release itself.
    """
    made = FrameConnection(wire.WIRE)
    _, connection = await asyncio.get_running_loop().create_connection(lambda: made, *at)
    connection.handler = collector
    connection.switch(LAYOUT)
    connection.end_handshake()
    return connection


@pytest.mark.parametrize(
    ("identity", "node", "why"),
    [
        (Identity(SharedSecret(b"wrong")), 1, "the secrets differ"),
        (Identity(SECRET, b"other"), 1, "another cluster"),
        (Identity(SECRET), 2, "node 1 answers where 2 should"),
    ],
)
async def test_strangers_are_refused(store, identity, node, why):
    with pytest.raises(HandshakeFailed, match=why):
        await dial(address(store), identity, wire.Role.CLIENT, node, Collector())
    assert store.nodes[1].server.clients == 0


@pytest.mark.parametrize("one", range(3))
async def test_a_secret_is_changed_in_rounds(one):
    """Each round of restarts meets the one before and the one after, no matter which side dials."""
    old, new = SECRET.first, b"the next secret of the cluster"
    rounds = [(old,), (old, new), (new, old), (new,)]
    for dialer, listener in ((one, one + 1), (one + 1, one)):
        first, *others = rounds[listener]
        store = FakeStore(secret=SharedSecret(first, tuple(others)))
        await store.start()
        first, *others = rounds[dialer]
        identity = Identity(SharedSecret(first, tuple(others)))
        connection = await dial(address(store), identity, wire.Role.CLIENT, 1, Collector())
        connection.abort("done")
        await store.close()


async def test_client_that_guesses_the_proof_is_refused(store):
    collector = Collector()
    connection = await dial_as_0_2_0(address(store), collector)
    connection.send(wire.Hello(2, 1, b"", wire.Role.CLIENT, 0, b"", bytes(32)))
    connection.send(wire.Proof(bytes(32)))
    await until(lambda: collector.reasons != [])
    assert collector.frames[-1][0] == Goodbye("the secrets differ")
    assert store.nodes[1].server.clients == 0


@pytest.mark.parametrize(
    "head",
    [
        wire.Command(1, GROUP, 2, 100),
        wire.Proof(b""),
        wire.Hello(9, 8, b"", 1, 0, b"", bytes(32)),
        wire.Hello(2, 1, b"", 7, 0, b"", bytes(32)),
        wire.Hello(2, 1, b"", 1, 0, b"", b"short"),
    ],
)
async def test_nothing_is_served_before_the_handshake(store, head):
    collector = Collector()
    connection = await dial_as_0_2_0(address(store), collector)
    connection.send(head)
    await until(lambda: collector.reasons != [])
    assert store.nodes[1].commands == []


async def test_a_large_frame_before_the_handshake_is_not_read(store):
    collector = Collector()
    connection = await dial_as_0_2_0(address(store), collector)
    connection.send(wire.Peer(1), [bytes(10_000)])
    await until(lambda: collector.reasons != [])


async def test_a_dialer_that_says_nothing_is_dropped(store, monkeypatch):
    monkeypatch.setattr("peering.rpc.handshake.HANDSHAKE_TIMEOUT_S", 0.1)
    collector = Collector()
    await dial_as_0_2_0(address(store), collector)
    await until(lambda: collector.reasons != [], 1.0)


async def test_corrupt_frame_closes_the_connection_and_the_append_is_stored_once():
    async with store_and_client() as (store, client):
        link = client.leader_link(GROUP)
        assert link is not None
        transport = link._connection._transport
        appender = client.appender(GROUP, QUEUE)
        future = appender.append(b"x", 1)
        transport.write(b"".join(encode_frame(encode_head(wire.Ping(1))))[:-1] + b"\xff")
        assert (await future).base_offset == 0
        assert link.generation == 2
        assert store.log.stored() == [b"x"]


async def test_corrupt_reply_closes_the_connection_and_the_append_is_stored_once():
    async with store_and_client() as (store, client):
        server = store.leader.server
        corrupt = iter([True])

        def apply_and_corrupt(node, group, raw, reply):
            if next(corrupt, False):
                store.log.apply(raw)
                (session,) = server._sessions
                session.connection._transport.write(bytes(64))
                return True
            return False

        store.leader.intercept = apply_and_corrupt
        receipt = await client.appender(GROUP, QUEUE).append(b"x", 1)
        assert receipt.duplicate
        assert store.log.stored() == [b"x"]


async def test_replies_of_one_iteration_are_one_write(monkeypatch):
    async with store_and_client() as (store, client):
        writes = 0
        real = FrameConnection._flush

        def flush(self):
            nonlocal writes
            writes += bool(self._out)
            real(self)

        monkeypatch.setattr(FrameConnection, "_flush", flush)
        appender = client.appender(GROUP, QUEUE)
        await asyncio.gather(*(appender.append(b"x" * 100, 1) for _ in range(64)))
        assert writes <= 8
        assert len(store.log.stored()) == 64


async def test_slow_reader_stops_being_read_and_loses_nothing(monkeypatch):
    monkeypatch.setattr(PROTOCOL, "wire", replace(wire.WIRE, high_water_bytes=10_000))
    async with store_and_client() as (store, client):
        appender = client.appender(GROUP, QUEUE)
        for number in range(4):
            await appender.append(bytes([number]) * 1_000_000, 1)
        link = client.leader_link(GROUP)
        link._connection.pause_reading()
        fetches = [
            asyncio.ensure_future(client.fetch(GROUP, QUEUE, 0, 8_000_000, timeout_s=10))
            for _ in range(4)
        ]
        (session,) = store.leader.server._sessions
        await until(lambda: session.connection.congested)
        assert session._paused
        link._connection.resume_reading()
        for fetched in await asyncio.gather(*fetches):
            assert [len(e.batch) for e in fetched.entries] == [1_000_000] * 4
        await until(lambda: not session._paused)
        assert (await appender.append(b"y", 1)).base_offset == 4


async def test_client_of_another_version_is_told(store):
    collector = Collector()
    connection = await dial_as_0_2_0(address(store), collector)
    connection.send(wire.Hello(9, 8, b"", 1, 0, b"", bytes(32)))
    await until(lambda: collector.reasons != [])
    assert "protocol 8…9 is not spoken here, only 2…3" in collector.frames[0][0].text


async def test_stopping_node_says_goodbye(store):
    client: StoreClient = store.client()
    await client.start()
    await client.wait_ready(5)
    await store.nodes[1].server.close()
    await until(lambda: not client.has_leader(GROUP))
    with pytest.raises(Unavailable):
        await client.appender(GROUP, QUEUE).append(b"x", 1, timeout_s=0.1)
    await client.close()


# Peers.


class Node:
    """A server and its peer network, keeping what they hear."""

    def __init__(self, node: int) -> None:
        self.node = node
        self.identity = Identity(SECRET, CLUSTER, node, b"inc%d" % node, node, 7, b"run%d" % node)
        self.heard: list[tuple[int, int, bytes]] = []
        self.tails: dict[int, int] = {}
        self.refusals: list[tuple[int, str]] = []
        self.met: list[wire.Remote] = []
        self.refuses: PeerRefusal | None = None
        self.events: list[tuple[str, int]] = []
        self.port = 0

    async def listen(self) -> None:
        self.server = StoreServer(
            FakeStore().nodes[1],
            self.identity,
            admit_peer=lambda remote: self.network.admit(remote),
            adopt_peer=lambda connection, remote: self.network.adopt(connection, remote),
        )
        self.port = await self.server.start("127.0.0.1", self.port)

    async def join(self, nodes: dict[int, tuple[str, int]]) -> None:
        self.network = PeerNetwork(
            self.identity, nodes, self, meet=self.meet, own_tail=lambda: 100 + self.node
        )
        await self.network.start()

    async def leave(self) -> None:
        await self.network.close()
        await self.server.close()

    def meet(self, remote: wire.Remote) -> PeerRefusal | None:
        self.met.append(remote)
        return self.refuses

    def on_tail(self, node: int, tail: int) -> None:
        self.tails[node] = tail

    def on_refused(self, node: int, text: str) -> None:
        self.refusals.append((node, text))

    def on_message(self, node: int, group: int, payload: bytes) -> None:
        self.heard.append((node, group, payload))

    def on_connected(self, node: int) -> None:
        self.events.append(("up", node))

    def on_lost(self, node: int) -> None:
        self.events.append(("lost", node))


@pytest.fixture
async def nodes():
    nodes = {number: Node(number) for number in (1, 2, 3)}
    for node in nodes.values():
        await node.listen()
    addresses = {number: ("127.0.0.1", node.port) for number, node in nodes.items()}
    for node in nodes.values():
        await node.join(addresses)
    for node in nodes.values():
        await until(lambda node=node: len(node.network.connected()) == 2)
    yield nodes
    for node in nodes.values():
        await node.leave()


async def test_peers_hear_each_other_in_order(nodes):
    for number in range(100):
        assert nodes[1].network.send(2, number % 8, [b"head", b"%d" % number])
        assert nodes[2].network.send(1, number % 8, [b"%d" % number])
    await until(lambda: len(nodes[1].heard) == len(nodes[2].heard) == 100)
    assert nodes[2].heard == [(1, n % 8, b"head%d" % n) for n in range(100)]
    assert nodes[3].heard == []
    assert nodes[1].network.incarnation(3) == b"inc3"


async def test_lost_peer_is_reported_at_once_and_comes_back(nodes):
    began = asyncio.get_running_loop().time()
    await nodes[2].leave()
    await until(lambda: ("lost", 2) in nodes[1].events and ("lost", 2) in nodes[3].events)
    assert asyncio.get_running_loop().time() - began < 0.2
    assert not nodes[1].network.send(2, 1, [b"x"])
    assert nodes[1].network.dropped == 1
    addresses = {number: ("127.0.0.1", node.port) for number, node in nodes.items()}
    await nodes[2].listen()
    await nodes[2].join(addresses)
    await until(lambda: len(nodes[2].network.connected()) == 2, 2.0)
    await until(lambda: nodes[1].events.count(("up", 2)) == nodes[3].events.count(("up", 2)) == 2)


async def test_peer_that_dials_again_replaces_its_connection(nodes):
    # The lower id dials, so 1 dials 2; as if 1 had lost the connection and 2 not noticed.
    class Again(Collector):
        pass

    connection = await dial(
        ("127.0.0.1", nodes[2].port), nodes[1].identity, wire.Role.PEER, 2, Again()
    )
    await until(lambda: nodes[2].events[-2:] == [("lost", 1), ("up", 1)])
    connection.abort("done")


@pytest.mark.parametrize("node", [3, 4])
async def test_only_the_peers_that_should_dial_are_admitted(nodes, node):
    stranger = Identity(SECRET, CLUSTER, node)
    with pytest.raises(HandshakeFailed):
        await dial(("127.0.0.1", nodes[2].port), stranger, wire.Role.PEER, 2, Collector())


async def test_peers_tell_who_they_are_and_how_far_their_log_is(nodes, monkeypatch):
    assert sorted(nodes[2].met, key=lambda remote: remote.node) == [
        wire.Remote(wire.Role.PEER, CLUSTER, 1, b"inc1", 1, 7, b"run1"),
        wire.Remote(wire.Role.PEER, CLUSTER, 3, b"inc3", 3, 7, b"run3"),
    ]
    await until(lambda: nodes[2].tails == {1: 101, 3: 103}, 3.0)


@pytest.mark.parametrize("refusing", [1, 2], ids=["the dialer refuses", "the listener refuses"])
async def test_a_refused_node_is_told_by_whoever_dialed(nodes, refusing):
    refused = 3 - refusing
    nodes[refusing].refuses = PeerRefusal("an older copy", wire.REFUSED)
    nodes[1].network._links[2].connection.abort("as if the network had failed")
    await until(lambda: nodes[refused].refusals != [])
    node, text = nodes[refused].refusals[0]
    assert node == refusing
    assert "an older copy" in text
    assert nodes[refusing].refusals == []
    assert refused not in nodes[refusing].network.connected()


async def test_a_stranger_cannot_tell_a_node_to_stop(nodes):
    """Goodbyes are believed from those who have proved the secret."""

    class Stranger(asyncio.Protocol):
        def connection_made(self, transport) -> None:
            goodbye = Goodbye("stop", wire.REFUSED)
            transport.write(b"".join(bytes(part) for part in encode_frame(encode_head(goodbye))))

    server = await asyncio.get_running_loop().create_server(Stranger, "127.0.0.1", 0)
    at = ("127.0.0.1", server.sockets[0].getsockname()[1])
    with pytest.raises(HandshakeFailed) as caught:
        await dial(at, nodes[1].identity, wire.Role.PEER, 2, Collector())
    assert not isinstance(caught.value, RefusedByPeer)
    server.close()


async def test_a_removed_node_is_told_so_and_a_new_one_is_dialed(nodes):
    late = Node(4)
    await late.listen()
    addresses = {number: ("127.0.0.1", node.port) for number, node in nodes.items()}
    addresses[4] = ("127.0.0.1", late.port)
    await late.join(addresses)
    del addresses[3]
    for number in (1, 2):
        nodes[number].network.change(addresses, frozenset({3}))
    await until(lambda: {1, 2} <= set(late.network.connected()), 3.0)
    await until(lambda: 3 not in nodes[1].network.connected())
    await until(lambda: any("removed" in text for _, text in nodes[3].refusals))
    await until(lambda: nodes[1].network.connected() == {2, 4}, 3.0)
    await late.leave()


async def test_a_removed_node_that_nobody_dials_any_more_asks_and_is_told(nodes, monkeypatch):
    monkeypatch.setattr("store_nodes.transport.peers.DIAL_LOWER_EVERY_S", 0.05)
    addresses = {number: ("127.0.0.1", node.port) for number, node in nodes.items()}
    await nodes[3].network.close()
    for number in (1, 2):
        others = {node: at for node, at in addresses.items() if node != 3}
        nodes[number].network.change(others, frozenset({3}))
    await nodes[3].join(addresses)
    await until(lambda: nodes[3].refusals != [])
    assert "node 3 was removed" in nodes[3].refusals[0][1]


# Release 0.2.0.


def proof_of_0_2_0(side: bytes, hello: wire.Hello, challenge: wire.Challenge) -> bytes:
    """Compute a proof as release 0.2.0 does, over the heads that it knows."""
    bare = msgspec.structs.replace(challenge, proof=b"")
    text = b"packetboat " + side + b" " + msgspec.msgpack.encode((hello, bare))
    return hmac.digest(SECRET.first, text, "sha256")


async def test_a_node_of_release_0_2_0_may_dial(nodes):
    collector = Collector()
    connection = await dial_as_0_2_0(("127.0.0.1", nodes[2].port), collector)
    hello = wire.Hello(2, 1, CLUSTER, wire.Role.PEER, 1, b"inc1", bytes(32), 5, 6, b"run")
    connection.send(hello)
    await until(lambda: collector.frames != [])
    challenge, _ = collector.frames[0]
    assert (challenge.version, challenge.node, challenge.boot) == (2, 2, 2)
    assert challenge.proof == proof_of_0_2_0(b"listener", hello, challenge)
    connection.send(wire.Proof(proof_of_0_2_0(b"dialer", hello, challenge)))
    await until(lambda: len(collector.frames) > 1)
    assert collector.frames[1] == (wire.Welcome(), b"")
    assert nodes[2].met[-1] == wire.Remote(wire.Role.PEER, CLUSTER, 1, b"inc1", 5, 6, b"run")
    connection.send(wire.Peer(3), [b"message"])
    await until(lambda: nodes[2].heard == [(1, 3, b"message")])
    connection.abort("done")


async def test_a_node_of_release_0_2_0_may_be_dialed():
    welcome = wire.Welcome((wire.LeaderView(1, 2, 3, 4),), (wire.NodeView(5, "host:6"),))
    greeted = []

    class Node(asyncio.Protocol):
        """A node that decodes heads, and passes over the body of a Hello."""

        def connection_made(self, transport):
            self.transport = transport
            self.reader = FrameReader(wire.WIRE.decode, 4096)

        def data_received(self, data):
            self.reader.get_buffer()[: len(data)] = data
            self.reader.filled(len(data))
            head, _ = self.reader.next()
            if isinstance(head, wire.Hello):
                assert (head.version, head.oldest) == (3, 2)
                version = min(head.version, 2)
                challenge = wire.Challenge(version, CLUSTER, 7, b"inc7", bytes(32), b"", 5, 6, b"r")
                challenge.proof = proof_of_0_2_0(b"listener", head, challenge)
                self.hello, self.challenge = head, challenge
                self.say(challenge)
            elif isinstance(head, wire.Proof):
                assert head.proof == proof_of_0_2_0(b"dialer", self.hello, self.challenge)
                self.say(welcome)
            else:
                greeted.append(head)

        def say(self, head):
            self.transport.write(b"".join(encode_frame(encode_head(head))))

    server = await asyncio.get_running_loop().create_server(Node, "127.0.0.1", 0)
    at = ("127.0.0.1", server.sockets[0].getsockname()[1])
    collector = Collector()
    connection = await dial(at, Identity(SECRET, CLUSTER), wire.Role.CLIENT, 7, collector)
    assert collector.welcome == welcome
    assert collector.remote == wire.Remote(wire.Role.PEER, CLUSTER, 7, b"inc7", 5, 6, b"r")
    connection.close("done")
    await until(lambda: greeted == [Goodbye("done")])
    server.close()


def test_the_proofs_of_version_2_are_frozen():
    hello = wire.Hello(1, 1, b"uid", 2, 3, b"inc", b"n" * 32, 9, 9, b"run")
    challenge = wire.Challenge(2, b"uid", 4, b"inc4", b"m" * 32, b"ignored", 8, 8, b"run4")

    def proven(challenge):
        heads = encode_head(hello), encode_head(challenge)
        return SECRET.prove(Version2().proven(b"dialer", *heads)).hex()

    assert proven(challenge) == "ffd5c8d79e570e3596d70eaf5404ec306cc0f03208b99069c248e86a45a72c66"
    other = msgspec.structs.replace(challenge, boot=7)
    assert proven(other) != proven(challenge)


async def test_silent_peer_is_lost(nodes, monkeypatch):
    monkeypatch.setattr("store_nodes.transport.peers.PING_EVERY_S", 0.05)
    monkeypatch.setattr("store_nodes.transport.peers.SILENCE_S", 0.3)
    await asyncio.sleep(1.1)  # the running loops take up the shorter times
    for link in nodes[2].network._links.values():
        link.connection.pause_reading()
    await until(lambda: ("lost", 2) in nodes[1].events, 2.0)


# TLS.


async def test_mutual_tls(tmp_path):
    tls, strange = (Certificates(tmp_path / name).tls() for name in ("ours", "strange"))
    store = FakeStore()
    for node in store.nodes.values():
        await node.start(tls=tls)
    client = store.client(tls=tls)
    await client.start()
    await client.wait_ready(5)
    await client.create(GROUP, QUEUE)
    batch = bytes(range(256)) * 20_000
    await client.appender(GROUP, QUEUE).append(batch, 1)
    fetched = await client.fetch(GROUP, QUEUE, 0, 10_000_000)
    assert [bytes(e.batch) for e in fetched.entries] == [batch]
    for other in (strange, None):
        stranger = store.client(tls=other)
        await stranger.start()
        with pytest.raises(Unavailable):
            await stranger.wait_ready(0.3)
        await stranger.close()
    await client.close()
    await store.close()


class LaterRequest(msgspec.Struct, array_like=True, tag=63):
    """A request that a later version may have."""

    id: int
    text: str


class LaterNews(msgspec.Struct, array_like=True, tag=15):
    """A message that a later version may send without being asked."""

    text: str


async def test_a_request_of_a_later_version_is_refused_and_the_others_go_on(store):
    collector = Collector()
    connection = await dial(address(store), Identity(SECRET), wire.Role.CLIENT, 1, collector)
    connection.send(LaterNews("heard by nobody"))
    connection.send(LaterRequest(9, "for nobody"))
    connection.send(wire.Ping(10))
    await until(lambda: len(collector.frames) == 2)
    (failed, _), (pong, _) = collector.frames
    with pytest.raises(NotSupported, match="requests of type 63"):
        raise failures.decode(failed)
    assert (failed.id, failed.decided) == (9, False)
    assert pong == wire.Pong(10, pong.leaders)
    assert connection.open
    connection.abort("done")


async def test_a_client_passes_over_what_a_later_node_tells():
    async with store_and_client() as (store, client):
        (session,) = store.nodes[1].server._sessions
        session.connection.send(LaterNews("new"))
        await client.offsets(GROUP, QUEUE)  # Answered on the same connection, or a new one.
        assert list(store.nodes[1].server._sessions) == [session]
