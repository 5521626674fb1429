"""The identities of store nodes and their clients, for the handshake of `peering/rpc`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import msgspec

from peering.rpc import dialling
from peering.rpc.connection import FrameHandler
from peering.rpc.dialling import Address
from peering.rpc.frames import BadFrame, encode_head
from peering.rpc.handshake import HANDSHAKE_TIMEOUT_S, Party, PeerRefusal, RpcProtocol
from peering.shared_secret import SharedSecret
from peering.tls import PeerTls
from store_nodes.transport.legacy import Version2
from store_nodes.wire import (
    PROTOCOL_VERSION,
    WIRE,
    Head,
    Remote,
    Role,
    StoreConnection,
    Unknown,
    Welcome,
)

FIRST_RETRY_S, MOST_RETRY_S = 0.02, 0.5
"""First and longest wait of the `Backoff` with which a node is dialed again."""
PROTOCOL: RpcProtocol[Head | Unknown] = RpcProtocol(
    b"store", WIRE, oldest=PROTOCOL_VERSION, newest=PROTOCOL_VERSION, legacy=Version2()
)
_remote = msgspec.msgpack.Decoder(Remote).decode
_welcome = msgspec.msgpack.Decoder(Welcome).decode


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of this side.

    A client has node 0. It may leave `cluster_uid` empty to accept any cluster that knows the
    secret.
    """

    secret: SharedSecret
    cluster_uid: bytes = b""
    node: int = 0
    incarnation: bytes = b""
    boot: int = 0
    tail: int = 0
    run: bytes = b""

    def party(self, role: Role) -> Party:
        """Return this side of a handshake, with its claim in that role."""
        claim = Remote(
            *(role, self.cluster_uid, self.node, self.incarnation),
            *(self.boot, self.tail, self.run),
        )
        return Party(self.secret, encode_head(claim))


Admit = Callable[[Remote], PeerRefusal | None]
"""Returns why a side is refused, or None if it is admitted."""


class DialedHandler(FrameHandler[Head | Unknown], Protocol):
    """A handler that is told when its connection is ready for use."""

    def opened(self, connection: StoreConnection, remote: Remote, welcome: Welcome) -> None:
        """Learn that the handshake is over."""


def remote_of(claim: bytes) -> Remote:
    """Return the identity in a claim; raises BadFrame."""
    try:
        return _remote(claim)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadFrame(f"claim: {error}") from error


async def dial(
    address: Address,
    identity: Identity,
    role: Role,
    expected_node: int,
    handler: DialedHandler,
    *,
    admit: Admit = lambda remote: None,
    tls: PeerTls | None = None,
    timeout_s: float = HANDSHAKE_TIMEOUT_S,
) -> StoreConnection:
    """Return a welcomed connection, after `handler.opened` was called.

    `admit` may refuse the listener after it proved its identity. Raises OSError (HandshakeFailed is
    one) or TimeoutError.
    """

    def expect(claim: bytes) -> str | None:
        remote = remote_of(claim)
        if identity.cluster_uid and remote.cluster_uid != identity.cluster_uid:
            return "another cluster"
        if remote.node != expected_node:
            return f"node {remote.node} answers where {expected_node} should"
        return None

    def opened(connection: StoreConnection, claim: bytes, told: bytes) -> None:
        connection.handler = handler
        try:
            welcome = _welcome(told)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BadFrame(f"welcome: {error}") from error
        handler.opened(connection, remote_of(claim), welcome)

    return await dialling.dial(
        address,
        PROTOCOL,
        identity.party(role),
        opened,
        expect=expect,
        admit=lambda claim: admit(remote_of(claim)),
        tls=tls,
        timeout_s=timeout_s,
    )
