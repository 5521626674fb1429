"""Who may be a peer: both sides prove that they know the key before anything else.

    dialer                          listener
    Hello(incarnation, nonce)   →
                                ←   Challenge(incarnation, nonce, proof of the listener)
    Proof(of the dialer)        →
                                ←   Welcome

A proof is an HMAC over the side it is of, the Hello and the bare Challenge: it fits one pair of
nonces, one pair of incarnations and one direction, so it can be neither replayed nor reflected.
While the key is being changed, the first that a side knows proves, and any verifies. It
authenticates; privacy comes from TLS, where it is on (`peering/tls.py`).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from peering.rpc.dialling import Address
from peering.rpc.frames import Goodbye
from peering.shared_secret import SharedSecret
from peering.tls import PeerTls, dialing
from subscribe_forwarder.links.wire import (
    NONCE_BYTES,
    OLDEST_PROTOCOL_VERSION,
    PROTOCOL_VERSION,
    Challenge,
    Head,
    Hello,
    LinkConnection,
    Proof,
    Welcome,
)

HANDSHAKE_TIMEOUT_S = 2.0
Admit = Callable[[bytes], str | None]
"""Says why a peer that has proved itself is not let in; None: it is."""
Open = Callable[[LinkConnection, bytes], None]
"""Takes over a connection to that incarnation: from here on it has another handler."""


class HandshakeFailed(ConnectionError):
    """The other side is not who we want to speak to, or does not want to speak to us."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this side is. Links of one key belong together."""

    key: SharedSecret
    incarnation: bytes


def link_key(secret: SharedSecret) -> SharedSecret:
    """The key of links, from the secret that all forwarders share."""
    return secret.derived(b"links")


def _proven(side: bytes, hello: Hello, challenge: Challenge) -> bytes:
    """What the proof of a side is about."""
    bare = msgspec.structs.replace(challenge, proof=b"")
    return side + msgspec.msgpack.encode((hello, bare))


class Listening:
    """The listener's half."""

    def __init__(
        self, connection: LinkConnection, identity: Identity, admit: Admit, opened: Open
    ) -> None:
        self._connection = connection
        self._identity = identity
        self._admit = admit
        self._opened = opened
        self._hello: Hello | None = None
        self._challenge: Challenge | None = None
        self._timer = asyncio.get_running_loop().call_later(
            HANDSHAKE_TIMEOUT_S, connection.abort, "no handshake in time"
        )

    def frame(self, head: Head, body: bytes) -> None:
        if isinstance(head, Hello) and self._hello is None:
            self._on_hello(head)
        elif isinstance(head, Proof) and self._hello is not None and self._challenge is not None:
            self._on_proof(self._hello, self._challenge, head)
        elif isinstance(head, Goodbye):
            self._connection.abort(f"goodbye: {head.text}")
        else:
            self._connection.close("not a handshake")

    def _on_hello(self, hello: Hello) -> None:
        mine = self._identity
        if hello.version < OLDEST_PROTOCOL_VERSION or hello.oldest > PROTOCOL_VERSION:
            self._connection.close(
                f"protocol {hello.oldest}…{hello.version} is not spoken here, only "
                f"{OLDEST_PROTOCOL_VERSION}…{PROTOCOL_VERSION}"
            )
        elif len(hello.nonce) != NONCE_BYTES or not hello.incarnation:
            self._connection.close("malformed hello")
        elif hello.incarnation == mine.incarnation:
            self._connection.close("this is yourself")
        else:
            version = min(PROTOCOL_VERSION, hello.version)
            bare = Challenge(version, mine.incarnation, os.urandom(NONCE_BYTES), b"")
            proof = mine.key.prove(_proven(b"listener", hello, bare))
            self._hello, self._challenge = hello, msgspec.structs.replace(bare, proof=proof)
            self._connection.send(self._challenge)

    def _on_proof(self, hello: Hello, challenge: Challenge, proof: Proof) -> None:
        proven = _proven(b"dialer", hello, challenge)
        if not self._identity.key.verifies(proof.proof, proven):
            self._connection.close("the secrets differ")
            return
        refusal = self._admit(hello.incarnation)
        if refusal is not None:
            self._connection.close(refusal)
            return
        self._timer.cancel()
        self._connection.trust()
        self._connection.send(Welcome())
        self._opened(self._connection, hello.incarnation)

    def closed(self, reason: str) -> None:
        self._timer.cancel()

    def congestion(self, congested: bool) -> None:
        pass


class _Dialing:
    """The dialer's half; the connection has its handler the moment it is welcomed, so that no
    frame is missed."""

    def __init__(
        self, connection: LinkConnection, identity: Identity, expected: bytes, opened: Open
    ) -> None:
        self._connection = connection
        self._identity = identity
        self._expected = expected
        self._opened = opened
        self._challenge: Challenge | None = None
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._hello = Hello(
            PROTOCOL_VERSION,
            OLDEST_PROTOCOL_VERSION,
            identity.incarnation,
            os.urandom(NONCE_BYTES),
        )
        connection.send(self._hello)

    def frame(self, head: Head, body: bytes) -> None:
        if isinstance(head, Challenge) and self._challenge is None:
            self._on_challenge(head)
        elif isinstance(head, Welcome) and self._challenge is not None:
            if not self.done.done():
                self.done.set_result(None)
            self._opened(self._connection, self._expected)
        elif isinstance(head, Goodbye):
            self._fail(f"refused: {head.text}")
        else:
            self._fail("not a handshake")

    def _on_challenge(self, challenge: Challenge) -> None:
        proven = _proven(b"listener", self._hello, challenge)
        if not self._identity.key.verifies(challenge.proof, proven):
            self._fail("the secrets differ")
        elif challenge.incarnation != self._expected:
            self._fail("another forwarder answers at this address")
        elif not OLDEST_PROTOCOL_VERSION <= challenge.version <= PROTOCOL_VERSION:
            self._fail(f"protocol {challenge.version}")
        else:
            self._challenge = challenge
            self._connection.trust()
            proven = _proven(b"dialer", self._hello, challenge)
            self._connection.send(Proof(self._identity.key.prove(proven)))

    def _fail(self, reason: str) -> None:
        if not self.done.done():
            self.done.set_exception(HandshakeFailed(reason))
        self._connection.abort(reason)

    def closed(self, reason: str) -> None:
        if not self.done.done():
            self.done.set_exception(HandshakeFailed(reason))

    def congestion(self, congested: bool) -> None:
        pass


async def dial(
    address: Address,
    identity: Identity,
    expected: bytes,
    opened: Open,
    connect: Callable[[], LinkConnection],
    tls: PeerTls | None = None,
) -> None:
    """Returns once `opened` has taken the connection over; raises OSError (HandshakeFailed is
    one) or TimeoutError."""
    loop = asyncio.get_running_loop()
    context, name = dialing(tls)
    async with asyncio.timeout(HANDSHAKE_TIMEOUT_S):
        _, connection = await loop.create_connection(
            connect, *address, ssl=context, server_hostname=name
        )
        handshake = _Dialing(connection, identity, expected, opened)
        connection.handler = handshake
        try:
            if not connection.open:
                raise HandshakeFailed("closed before a word")
            await handshake.done
        except BaseException:
            connection.abort("gave up the handshake")
            raise
