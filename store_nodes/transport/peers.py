"""The connections between the voters: one per pair, dialed by the lower node id.

Messages are opaque here, unordered across groups, and may be lost: when a connection is down or
its buffer is full `send` says so and forgets the message, for the consensus repeats what matters.
A closed connection is reported at once (a killed process is noticed by it); a silent one after
`SILENCE_S`, long after the consensus has stopped believing in it.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from typing import Protocol

import structlog

from store_nodes.transport.connection import FrameConnection
from store_nodes.transport.handshake import Address, Backoff, Identity, Remote, dial
from store_nodes.wire import Buffer, Goodbye, Head, Peer, Ping, Pong, Role, Welcome

PING_EVERY_S = 1.0
SILENCE_S = 5.0

_log = structlog.get_logger("store_nodes.peers")


class PeerEvents(Protocol):
    """What the consensus host hears, on the event loop."""

    def on_message(self, node: int, group: int, payload: bytes) -> None:
        """One message; what it raises ends the connection and goes to the loop's handler."""

    def on_connected(self, node: int) -> None:
        """Messages to `node` can be sent."""

    def on_lost(self, node: int) -> None:
        """Its connection closed; messages under way are lost. `on_connected` comes when it is
        back."""


class PeerNetwork:
    """All connections of this node to its peers."""

    def __init__(
        self,
        identity: Identity,
        addresses: Mapping[int, Address],
        events: PeerEvents,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._identity = identity
        self._addresses = {node: at for node, at in addresses.items() if node != identity.node}
        self._events = events
        self._tls = tls
        self._links: dict[int, _PeerLink] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self.dropped = 0
        """Messages not sent because the connection was down or its buffer full."""

    async def start(self) -> None:
        """Dial the peers that are ours to dial, and go on doing so whenever one is lost."""
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._keep_dialing(node))
            for node in self._addresses
            if node > self._identity.node
        ]
        self._tasks.append(loop.create_task(self._watch_silence()))

    async def close(self) -> None:
        """Close every connection; `on_lost` is called for each."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for link in list(self._links.values()):
            link.connection.close("the node is stopping")

    def send(self, node: int, group: int, payload: Sequence[Buffer]) -> bool:
        """False: dropped."""
        link = self._links.get(node)
        if link is not None and link.connection.send(Peer(group), payload):
            return True
        self.dropped += 1
        return False

    def connected(self) -> frozenset[int]:
        """The peers that can be sent to."""
        return frozenset(self._links)

    def incarnation(self, node: int) -> bytes | None:
        """What the connected peer said it is; None while it is not connected."""
        link = self._links.get(node)
        return link.remote.incarnation if link is not None else None

    def admit(self, remote: Remote) -> str | None:
        """For StoreServer: a refusal, or None."""
        if remote.node not in self._addresses:
            return f"node {remote.node} is not a peer"
        if remote.node > self._identity.node:
            return "the lower node id dials"
        return None

    def adopt(self, connection: FrameConnection, remote: Remote) -> None:
        """For StoreServer: a peer's connection, welcomed. It replaces an older one of that peer,
        which is a half-open rest of before its restart or of a network failure."""
        link = _PeerLink(self, connection, remote)
        connection.handler = link
        old = self._links.get(remote.node)
        if old is not None:
            old.connection.abort("the peer dialed again")
        self._up(link)

    def _up(self, link: _PeerLink) -> None:
        self._links[link.remote.node] = link
        _log.info("peer connected", peer=link.remote.node)
        self._events.on_connected(link.remote.node)

    def lost(self, link: _PeerLink, reason: str) -> None:
        """Its connection is closed."""
        node = link.remote.node
        if self._links.get(node) is link:
            del self._links[node]
            _log.info("peer lost", peer=node, reason=reason)
            self._events.on_lost(node)

    def message(self, node: int, group: int, payload: bytes) -> None:
        """A message came in."""
        self._events.on_message(node, group, payload)

    async def _keep_dialing(self, node: int) -> None:
        backoff = Backoff()
        while True:
            dialed = _Dialed(self, node)
            try:
                connection = await dial(
                    self._addresses[node], self._identity, Role.PEER, node, dialed, tls=self._tls
                )
            except (OSError, TimeoutError) as error:
                _log.debug("peer not reached", peer=node, reason=str(error))
            else:
                backoff.reset()
                await connection.wait_closed()
            await asyncio.sleep(backoff.next_s())

    async def _watch_silence(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            slept_at = loop.time()
            await asyncio.sleep(PING_EVERY_S)
            # When this process itself was stopped, its peers are not to blame for the silence.
            own_pause_s = max(0.0, loop.time() - slept_at - 2 * PING_EVERY_S)
            for link in list(self._links.values()):
                if loop.time() - link.connection.last_frame_s - own_pause_s > SILENCE_S:
                    link.connection.abort("silent")
                else:
                    link.connection.send(Ping(0))


class _PeerLink:
    """One peer's connection, whoever dialed."""

    def __init__(self, network: PeerNetwork, connection: FrameConnection, remote: Remote) -> None:
        self.connection = connection
        self.remote = remote
        self._network = network

    def frame(self, head: Head, body: bytes) -> None:
        if type(head) is Peer:
            self._network.message(self.remote.node, head.group, body)
        elif isinstance(head, Ping):
            self.connection.send(Pong(head.id))
        elif isinstance(head, Goodbye):
            self.connection.abort(f"goodbye: {head.text}")
        elif not isinstance(head, Pong):
            self.connection.close(f"unexpected {type(head).__name__}")

    def closed(self, reason: str) -> None:
        self._network.lost(self, reason)

    def congestion(self, congested: bool) -> None:
        pass


class _Dialed:
    """Becomes a `_PeerLink` when the connection opens."""

    def __init__(self, network: PeerNetwork, node: int) -> None:
        self._network = network
        self._node = node

    def opened(self, connection: FrameConnection, remote: Remote, welcome: Welcome) -> None:
        self._network.adopt(connection, remote)

    def frame(self, head: Head, body: bytes) -> None:
        raise AssertionError("a connection changes its handler when it opens")

    def closed(self, reason: str) -> None:
        pass

    def congestion(self, congested: bool) -> None:
        pass
