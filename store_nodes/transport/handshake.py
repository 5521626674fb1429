"""Who may speak: both sides prove that they know the cluster's secret before anything else.

    dialer                          listener
    Hello(nonce a)          →
                            ←       Challenge(nonce b, HMAC(secret, "listener" · transcript))
    Proof(HMAC(secret, "dialer" · transcript)) →
                            ←       Welcome

The transcript is the Hello and the Challenge without its proof, so a proof fits one pair of
nonces, one pair of identities and one direction: it can be neither replayed nor reflected. When
either side speaks version 1 it covers the fields of version 1 alone (no boot, tail and run). While
the secret is being changed, the first that a side knows proves, and any verifies. The secret
authenticates; privacy and protection against a man in the middle come from TLS with certificates
of both sides, where it is on (`peering/tls.py`).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import msgspec

from peering.rpc.connection import FrameConnection, FrameHandler
from peering.rpc.dialling import Address
from peering.rpc.frames import Goodbye
from peering.shared_secret import SharedSecret
from peering.tls import PeerTls, dialing
from store_nodes.wire import (
    NONCE_BYTES,
    OLDEST_PROTOCOL_VERSION,
    PROTOCOL_VERSION,
    REFUSED,
    WIRE,
    Challenge,
    Head,
    Hello,
    Proof,
    Role,
    StoreConnection,
    Unknown,
    Welcome,
)

_FIELDS_OF_VERSION_1: dict[type[Head], int] = {Hello: 7, Challenge: 6}
HANDSHAKE_TIMEOUT_S = 2.0
FIRST_RETRY_S, MOST_RETRY_S = 0.02, 0.5
"""Of `Backoff`, when a node is dialed again."""


class HandshakeFailed(ConnectionError):
    """The other side is not who we want to speak to, or does not want to speak to us."""


class IdentityRefused(HandshakeFailed):
    """A peer that proved the secret says that this node must not come back as it is."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a node is not let in. `lasting`: it must not come back as it is, and should stop."""

    text: str
    lasting: bool = False

    @property
    def code(self) -> int:
        return REFUSED if self.lasting else 0


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this side is. A client has node 0; it may leave `cluster_uid` empty to accept any
    cluster that knows the secret."""

    secret: SharedSecret
    cluster_uid: bytes = b""
    node: int = 0
    incarnation: bytes = b""
    boot: int = 0
    tail: int = 0
    run: bytes = b""


@dataclass(frozen=True, slots=True)
class Remote:
    """Who the other side proved to be. `boot` is 0 of one that speaks version 1."""

    role: Role
    cluster_uid: bytes
    node: int
    incarnation: bytes
    boot: int = 0
    tail: int = 0
    run: bytes = b""


Admit = Callable[[Remote], Refusal | None]


class DialedHandler(FrameHandler[Head | Unknown], Protocol):
    """A handler that is told when its connection is ready for use."""

    def opened(self, connection: StoreConnection, remote: Remote, welcome: Welcome) -> None:
        """The handshake is over."""


def _proven(side: bytes, hello: Hello, challenge: Challenge) -> bytes:
    """What the proof of a side is about."""
    bare = msgspec.structs.replace(challenge, proof=b"")
    transcript = msgspec.msgpack.encode(
        (hello, bare) if challenge.version > 1 else (_of_version_1(hello), _of_version_1(bare))
    )
    return b"packetboat " + side + b" " + transcript


def _of_version_1(head: Hello | Challenge) -> list[object]:
    """What a head of version 1 was encoded from: its tag and the fields it had."""
    fields = msgspec.structs.astuple(head)
    return [head.__struct_config__.tag, *fields[: _FIELDS_OF_VERSION_1[type(head)]]]


def _remote(role: Role, head: Hello | Challenge, version: int) -> Remote:
    fresh = (head.boot, head.tail, head.run) if version > 1 else (0, 0, b"")
    return Remote(role, head.cluster_uid, head.node, head.incarnation, *fresh)


class Listening:
    """The listener's half. `admit` decides who is let in: it returns a refusal, or None and then
    `opened` is called, which must give the connection its handler."""

    def __init__(
        self,
        connection: StoreConnection,
        identity: Identity,
        admit: Admit,
        opened: Callable[[StoreConnection, Remote], None],
        closed: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._identity = identity
        self._admit = admit
        self._opened = opened
        self._closed = closed
        self._hello: Hello | None = None
        self._challenge: Challenge | None = None
        self._timer = asyncio.get_running_loop().call_later(
            HANDSHAKE_TIMEOUT_S, connection.abort, "no handshake in time"
        )

    def frame(self, head: Head | Unknown, body: bytes) -> None:
        if isinstance(head, Hello) and self._hello is None:
            self._on_hello(head)
        elif isinstance(head, Proof) and self._hello is not None and self._challenge is not None:
            self._on_proof(self._hello, self._challenge, head)
        else:
            self._connection.close("not a handshake")

    def _on_hello(self, hello: Hello) -> None:
        mine = self._identity
        if hello.version < OLDEST_PROTOCOL_VERSION or hello.oldest > PROTOCOL_VERSION:
            self._connection.close(
                f"protocol {hello.oldest}…{hello.version} is not spoken here, only "
                f"{OLDEST_PROTOCOL_VERSION}…{PROTOCOL_VERSION}"
            )
        elif hello.cluster_uid not in (b"", mine.cluster_uid):
            self._connection.close("another cluster")
        elif hello.role not in tuple(Role) or len(hello.nonce) != NONCE_BYTES:
            self._connection.close("malformed hello")
        else:
            self._hello = hello
            challenge = Challenge(
                version=min(PROTOCOL_VERSION, hello.version),
                cluster_uid=mine.cluster_uid,
                node=mine.node,
                incarnation=mine.incarnation,
                nonce=os.urandom(NONCE_BYTES),
                proof=b"",
                boot=mine.boot,
                tail=mine.tail,
                run=mine.run,
            )
            challenge.proof = mine.secret.prove(_proven(b"listener", hello, challenge))
            self._challenge = challenge
            self._connection.send(challenge)

    def _on_proof(self, hello: Hello, challenge: Challenge, proof: Proof) -> None:
        proven = _proven(b"dialer", hello, challenge)
        if not self._identity.secret.verifies(proof.proof, proven):
            self._connection.close("the secrets differ")
            return
        remote = _remote(Role(hello.role), hello, challenge.version)
        refusal = self._admit(remote)
        if refusal is not None:
            self._connection.close(refusal.text, refusal.code)
            return
        self._timer.cancel()
        self._connection.trust()
        self._opened(self._connection, remote)

    def closed(self, reason: str) -> None:
        self._timer.cancel()
        self._closed()

    def congestion(self, congested: bool) -> None:
        pass


class _Dialing:
    """The dialer's half; hands the connection to `handler` the moment it is welcomed, so that no
    frame is missed."""

    def __init__(
        self,
        connection: StoreConnection,
        identity: Identity,
        role: Role,
        expected_node: int,
        handler: DialedHandler,
        admit: Admit | None,
    ) -> None:
        self._connection = connection
        self._identity = identity
        self._admit = admit
        self._expected_node = expected_node
        self._handler = handler
        self._challenge: Challenge | None = None
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._hello = Hello(
            version=PROTOCOL_VERSION,
            oldest=OLDEST_PROTOCOL_VERSION,
            cluster_uid=identity.cluster_uid,
            role=role,
            node=identity.node,
            incarnation=identity.incarnation,
            nonce=os.urandom(NONCE_BYTES),
            boot=identity.boot,
            tail=identity.tail,
            run=identity.run,
        )
        connection.send(self._hello)

    def frame(self, head: Head | Unknown, body: bytes) -> None:
        if isinstance(head, Challenge) and self._challenge is None:
            self._on_challenge(head)
        elif isinstance(head, Welcome) and self._challenge is not None:
            challenge = self._challenge
            remote = _remote(Role.PEER, challenge, challenge.version)
            self._connection.handler = self._handler
            if not self.done.done():
                self.done.set_result(None)
            self._handler.opened(self._connection, remote, head)
        elif isinstance(head, Goodbye):
            # Only a listener that has proved itself can tell this node to stop.
            lasting = head.code == REFUSED and self._challenge is not None
            self._fail(f"refused: {head.text}", IdentityRefused if lasting else HandshakeFailed)
        else:
            self._fail("not a handshake")

    def _on_challenge(self, challenge: Challenge) -> None:
        mine = self._identity
        proven = _proven(b"listener", self._hello, challenge)
        if not mine.secret.verifies(challenge.proof, proven):
            self._fail("the secrets differ")
        elif mine.cluster_uid and challenge.cluster_uid != mine.cluster_uid:
            self._fail("another cluster")
        elif challenge.node != self._expected_node:
            self._fail(f"node {challenge.node} answers where {self._expected_node} should")
        elif not OLDEST_PROTOCOL_VERSION <= challenge.version <= PROTOCOL_VERSION:
            self._fail(f"protocol {challenge.version}")
        else:
            self._challenge = challenge
            self._connection.trust()
            proven = _proven(b"dialer", self._hello, challenge)
            self._connection.send(Proof(mine.secret.prove(proven)))
            remote = _remote(Role.PEER, challenge, challenge.version)
            refusal = self._admit(remote) if self._admit is not None else None
            if refusal is not None:
                # After the proof: the listener believes it only from one that knows the secret.
                self._connection.close(refusal.text, refusal.code)

    def _fail(self, reason: str, kind: type[HandshakeFailed] = HandshakeFailed) -> None:
        if not self.done.done():
            self.done.set_exception(kind(reason))
        self._connection.abort(reason)

    def closed(self, reason: str) -> None:
        if not self.done.done():
            self.done.set_exception(HandshakeFailed(reason))

    def congestion(self, congested: bool) -> None:
        pass


async def dial(
    address: Address,
    identity: Identity,
    role: Role,
    expected_node: int,
    handler: DialedHandler,
    *,
    admit: Admit | None = None,
    tls: PeerTls | None = None,
    timeout_s: float = HANDSHAKE_TIMEOUT_S,
) -> StoreConnection:
    """A welcomed connection, `handler.opened` called; raises OSError (HandshakeFailed is one) or
    TimeoutError. `admit` may refuse the listener for what it proved to be."""
    loop = asyncio.get_running_loop()
    context, name = dialing(tls)
    async with asyncio.timeout(timeout_s):
        _, connection = await loop.create_connection(
            lambda: FrameConnection(WIRE), *address, ssl=context, server_hostname=name
        )
        try:
            handshake = _Dialing(connection, identity, role, expected_node, handler, admit)
            connection.handler = handshake
            await handshake.done
        except BaseException:
            connection.abort("gave up the handshake")
            raise
    return connection
