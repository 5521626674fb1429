"""The listening side of a store node: admits dialers, serves clients, hands peers on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from peering.rpc.frames import encode_head
from peering.rpc.handshake import Listening, PeerRefusal
from peering.rpc.listening import PeerListener
from peering.tls import PeerTls
from store_nodes.node.client_service import ClientService
from store_nodes.node.client_session import ClientSession
from store_nodes.transport.handshake import PROTOCOL, Admit, Identity, remote_of
from store_nodes.wire import Leaders, LeaderView, NodeView, Remote, Role, StoreConnection, Welcome

AdoptPeer = Callable[[StoreConnection, Remote], None]


class StoreServer:
    """Listens for clients, and for peers when told what to do with them."""

    def __init__(
        self,
        service: ClientService,
        identity: Identity,
        *,
        admit_peer: Admit | None = None,
        adopt_peer: AdoptPeer | None = None,
        tls: PeerTls | None = None,
    ) -> None:
        self._service = service
        self._identity = identity
        self._party = identity.party(Role.PEER)
        self._admit_peer = admit_peer
        self._adopt_peer = adopt_peer
        self._listener = PeerListener(self._accept, tls)
        self._connections: dict[StoreConnection, None] = {}
        self._sessions: dict[ClientSession, None] = {}

    async def start(self, host: str, port: int) -> int:
        """Listen; the port, which is chosen here where 0 is given."""
        return await self._listener.start(host, port)

    async def close(self) -> None:
        """Stop listening, say goodbye to everyone; peers' connections too."""
        self._listener.close()
        sessions, connections = list(self._sessions), list(self._connections)
        for connection in connections:
            connection.close("the node is stopping")
        for session in sessions:
            await session.join()
        await asyncio.gather(*(connection.wait_closed(1.0) for connection in connections))

    def announce(self, views: Sequence[LeaderView], nodes: Sequence[NodeView] = ()) -> None:
        """Push to every client what changed of the leaders; `nodes`: all members, where those
        changed."""
        head = Leaders(tuple(views), tuple(nodes))
        for session in self._sessions:
            session.connection.send(head)

    @property
    def clients(self) -> int:
        return len(self._sessions)

    def _accept(self) -> StoreConnection:
        connection = PROTOCOL.connection(ended=self._ended)
        connection.handler = Listening(
            connection,
            PROTOCOL,
            self._party,
            admit=lambda claim: self._admit(remote_of(claim)),
            welcome=self._welcome,
            opened=self._opened,
        )
        self._connections[connection] = None
        return connection

    def _ended(self, connection: StoreConnection) -> None:
        self._connections.pop(connection, None)

    def _admit(self, remote: Remote) -> PeerRefusal | None:
        if remote.cluster_uid not in (b"", self._identity.cluster_uid):
            return PeerRefusal("another cluster")
        if remote.role is Role.CLIENT:
            return None
        if self._admit_peer is None or self._adopt_peer is None:
            return PeerRefusal("peers are not served here")
        if not remote.cluster_uid:
            return PeerRefusal("a peer must name its cluster")
        return self._admit_peer(remote)

    def _welcome(self, claim: bytes) -> bytes:
        if remote_of(claim).role is Role.PEER:
            return encode_head(Welcome())
        service = self._service
        return encode_head(Welcome(tuple(service.leaders()), tuple(service.nodes())))

    def _opened(self, connection: StoreConnection, claim: bytes) -> None:
        remote = remote_of(claim)
        if remote.role is Role.PEER:
            assert self._adopt_peer is not None
            self._connections.pop(connection, None)
            self._adopt_peer(connection, remote)
            return
        session = ClientSession(self._service, connection, self._session_closed)
        connection.handler = session
        self._sessions[session] = None

    def _session_closed(self, session: ClientSession) -> None:
        self._sessions.pop(session, None)
