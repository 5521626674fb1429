"""The connections between the members: one per pair, dialed by the lower node id.

Messages are opaque here, unordered across groups, and may be lost. When a connection is down or its
buffer is full, `send` returns False and drops the message, because the consensus repeats the
important ones. A closed connection is reported at once (so a killed process is noticed). A silent
one is reported after `SILENCE_S`, long after the consensus has replaced the node as a leader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import structlog

from peering.rpc.dialling import Address, Backoff, keep_dialling
from peering.rpc.frames import Buffer, Goodbye
from peering.rpc.handshake import PeerRefusal, RefusedByPeer
from peering.tls import PeerTls
from store_nodes.beats import ROUND_S, until_next_s
from store_nodes.transport.handshake import (
    FIRST_RETRY_S,
    MOST_RETRY_S,
    Admit,
    Identity,
    dial,
)
from store_nodes.wire import (
    REFUSED,
    Head,
    Peer,
    Ping,
    Pong,
    Remote,
    Role,
    StoreConnection,
    Unknown,
    Welcome,
)

PING_EVERY_S = ROUND_S
DIAL_LOWER_EVERY_S = 3.0
SILENCE_S = 5.0

_log = structlog.get_logger("store_nodes.peers")


class PeerEvents(Protocol):
    """The events for the consensus host, on the event loop."""

    def on_message(self, node: int, group: int, payload: bytes) -> None:
        """Take one message; an exception ends the connection and goes to the loop's handler."""

    def on_connected(self, node: int) -> None:
        """Learn that messages to `node` can be sent."""

    def on_lost(self, node: int) -> None:
        """Learn that a connection closed and messages under way are lost.

        `on_connected` is called when it is back.
        """

    def on_tail(self, node: int, tail: int) -> None:
        """Learn the end of the node's synced log, about once a second (wire.Ping)."""

    def on_refused(self, node: int, text: str) -> None:
        """Learn that `node` says that this one must not come back as it is, and what to do."""


class PeerNetwork:
    """All connections of this node to its peers."""

    def __init__(
        self,
        identity: Identity,
        addresses: Mapping[int, Address],
        events: PeerEvents,
        *,
        meet: Admit = lambda remote: None,
        own_tail: Callable[[], int] = lambda: 0,
        tls: PeerTls | None = None,
    ) -> None:
        """Prepare the connections.

        `meet` decides on a peer that has proved its identity; `own_tail` returns the tail to tell.
        """
        self._identity = identity
        self._addresses = {node: at for node, at in addresses.items() if node != identity.node}
        self._removed: frozenset[int] = frozenset()
        self._events = events
        self._meet = meet
        self._own_tail = own_tail
        self._tls = tls
        self._links: dict[int, _PeerLink] = {}
        self._dialing: dict[int, asyncio.Task[None]] = {}
        self._watching: asyncio.Task[None] | None = None
        self.dropped = 0
        """Number of messages not sent because the connection was down or its buffer full."""

    async def start(self) -> None:
        """Dial the peers that are ours to dial, now and whenever one is lost."""
        self._watching = asyncio.get_running_loop().create_task(self._watch_silence())
        for node in self._addresses:
            self._dial(node)

    def change(self, addresses: Mapping[int, Address], removed: frozenset[int]) -> None:
        """Set the present members.

        A connection with a node that is none any more is closed. A node with another address is
        dialed there when its connection is next lost.
        """
        self._removed = removed
        self._addresses = {n: at for n, at in addresses.items() if n != self._identity.node}
        for node in [n for n in self._dialing if n not in self._addresses]:
            self._dialing.pop(node).cancel()
        for node, link in list(self._links.items()):
            if node not in self._addresses:
                refusal = self._not_a_member(node)
                link.connection.close(refusal.text, refusal.code)
        if self._watching is not None:
            for node in self._addresses:
                self._dial(node)

    async def close(self) -> None:
        """Close every connection; `on_lost` is called for each."""
        tasks = [*self._dialing.values(), *([self._watching] if self._watching else [])]
        self._dialing, self._watching = {}, None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for link in list(self._links.values()):
            link.connection.close("the node is stopping")

    def send(self, node: int, group: int, payload: Sequence[Buffer]) -> bool:
        """Send a message; return False if it was dropped."""
        link = self._links.get(node)
        if link is not None and link.connection.send(Peer(group), payload):
            return True
        self.dropped += 1
        return False

    def tell(self) -> None:
        """Send everyone `own_tail` now."""
        own_tail = self._own_tail()
        for link in self._links.values():
            link.connection.send(Ping(0, own_tail))

    def connected(self) -> frozenset[int]:
        """Return the peers to which messages can be sent."""
        return frozenset(self._links)

    def incarnation(self, node: int) -> bytes | None:
        """Return the incarnation that a connected peer reported; None while it is not connected."""
        link = self._links.get(node)
        return link.remote.incarnation if link is not None else None

    def admit(self, remote: Remote) -> PeerRefusal | None:
        """Return why StoreServer must refuse a peer, or None."""
        if remote.node not in self._addresses:
            return self._not_a_member(remote.node)
        if remote.node > self._identity.node:
            return PeerRefusal("the lower node id dials")
        return self._meet(remote)

    def _not_a_member(self, node: int) -> PeerRefusal:
        if node in self._removed:
            return PeerRefusal(f"node {node} was removed; its id is never used again", REFUSED)
        return PeerRefusal(f"node {node} is not a peer")

    def adopt(self, connection: StoreConnection, remote: Remote) -> None:
        """Take a peer's welcomed connection from StoreServer.

        It replaces an older one of that peer, which is half open since the peer's restart or a
        network failure.
        """
        link = _PeerLink(self, self._events, connection, remote)
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
        """Learn that a peer's connection is closed."""
        node = link.remote.node
        if self._links.get(node) is link:
            del self._links[node]
            _log.info("peer lost", peer=node, reason=reason)
            self._events.on_lost(node)

    def _dial(self, node: int) -> None:
        if node not in self._dialing:
            ours = node > self._identity.node
            work = self._keep_dialing(node) if ours else self._keep_dialing_lower(node)
            self._dialing[node] = asyncio.get_running_loop().create_task(work)

    async def _keep_dialing_lower(self, node: int) -> None:
        """Dial a peer with a lower id now and then, although it should dial this node.

        A peer that knows that this node was removed, or must not come back, does not dial, and
        tells only if asked.
        """
        while True:
            await asyncio.sleep(DIAL_LOWER_EVERY_S)
            if node in self._links:
                continue
            connection = await self._dial_once(node)
            if connection is not None:
                await connection.wait_closed()

    async def _keep_dialing(self, node: int) -> None:
        await keep_dialling(lambda: self._dial_once(node), Backoff(FIRST_RETRY_S, MOST_RETRY_S))

    async def _dial_once(self, node: int) -> StoreConnection | None:
        """Try once; return None if the connection did not come up."""
        try:
            return await dial(
                self._addresses[node],
                self._identity,
                Role.PEER,
                node,
                _Dialed(self, node),
                admit=self._meet,
                tls=self._tls,
            )
        except RefusedByPeer as error:
            if error.code == REFUSED:
                self._events.on_refused(node, str(error))
        except (OSError, TimeoutError) as error:
            _log.debug("peer not reached", peer=node, reason=str(error))
        return None

    async def _watch_silence(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            slept_at = loop.time()
            await asyncio.sleep(until_next_s(slept_at, PING_EVERY_S))
            # If this process itself was stopped, its peers are not to blame for the silence.
            own_pause_s = max(0.0, loop.time() - slept_at - 2 * PING_EVERY_S)
            own_tail = self._own_tail()
            for link in list(self._links.values()):
                if loop.time() - link.connection.last_frame_s - own_pause_s > SILENCE_S:
                    link.connection.abort("silent")
                else:
                    link.connection.send(Ping(0, own_tail))


class _PeerLink:
    """One peer's connection, whichever side dialed."""

    def __init__(
        self,
        network: PeerNetwork,
        events: PeerEvents,
        connection: StoreConnection,
        remote: Remote,
    ) -> None:
        self.connection = connection
        self.remote = remote
        self._network = network
        self._events = events

    def frame(self, head: Head | Unknown, body: bytes) -> None:
        if type(head) is Peer:
            self._events.on_message(self.remote.node, head.group, body)
        elif isinstance(head, Ping):
            self.connection.send(Pong(head.id))
            if head.tail:
                self._events.on_tail(self.remote.node, head.tail)
        elif isinstance(head, Goodbye):
            if head.code == REFUSED:
                self._events.on_refused(self.remote.node, head.text)
            self.connection.abort(f"goodbye: {head.text}")
        elif not isinstance(head, Pong | Unknown):
            self.connection.close(f"unexpected {type(head).__name__}")

    def closed(self, reason: str) -> None:
        self._network.lost(self, reason)

    def congestion(self, congested: bool) -> None:
        pass


class _Dialed:
    """A dialed connection, which becomes a `_PeerLink` when it opens."""

    def __init__(self, network: PeerNetwork, node: int) -> None:
        self._network = network
        self._node = node

    def opened(self, connection: StoreConnection, remote: Remote, welcome: Welcome) -> None:
        self._network.adopt(connection, remote)

    def frame(self, head: Head | Unknown, body: bytes) -> None:
        raise AssertionError("a connection changes its handler when it opens")

    def closed(self, reason: str) -> None:
        pass

    def congestion(self, congested: bool) -> None:
        pass
