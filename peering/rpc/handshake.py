"""The handshake: both sides prove that they know a secret before they say anything else.

    dialer                             listener
    Hello(versions, claim, nonce)   →
                                    ←  Challenge(version, claim, nonce), its proof
    Proof, its proof                →
                                    ←  Welcome, what the listener tells first
    Goodbye (either, at any time)

A claim says who a side is; its content is the protocol's own. The guarantees, each with its test in
`tests/unit/peering/test_handshake.py`:

- A side without the secret is neither admitted nor spoken to. Each side proves the secret, the
  listener first. (`test_only_who_knows_the_secret_is_let_in`, `…_is_spoken_to`)
- A proof is an HMAC-SHA256 over the name of the proving side and the bytes of the Hello and of the
  Challenge. It fits one pair of nonces, drawn anew for each handshake, and one direction, so it can
  be neither replayed nor reflected. (`test_a_proof_fits_one_handshake_and_one_side_of_it`)
- Claims and versions are under the proofs. Nobody between two sides can change a claim, or make the
  sides use an older version or the form of release 0.2.0. (`test_nobody_between_changes_a_claim`,
  `test_nobody_between_talks_two_into_what_is_older`)
- The key is derived from the secret for the protocol. A proof for one protocol is worthless in
  another one and in the older form. (`test_a_proof_is_good_for_one_protocol`)
- Claims are judged once they are proved. Before that, a side holds no more of the other than
  `HANDSHAKE_FRAME_BYTES`, for no longer than `HANDSHAKE_TIMEOUT_S`, and reads no frame of the
  protocol. (`test_no_claim_is_judged_before_it_is_proved`, `test_what_is_unproven_is_small`,
  `test_who_says_nothing_is_not_waited_for`)
- The code of a Goodbye counts only if its sender has proved itself.
  (`test_a_stranger_cannot_say_goodbye_for_good`)
- While the secret is being changed, a side proves with the first secret that it knows and accepts
  any. (`test_a_secret_is_changed_in_rounds`)

The handshake is the same over TLS (`peering/tls.py`), which adds privacy and keeps others out of
the middle. A proof is not bound to the TLS session: Python has no channel binding for TLS 1.3.

The forms of release 0.2.0 (`Form`) are still spoken, and a dialer does not know which form a
listener speaks. So the first frame is an older Hello whose body is the present one. A listener of
0.2.0 ignores the body. A listener of this release answers in the present form, which begins with
`MAGIC` in either direction, where no older frame can. It accepts a present Hello alone, too, so
release 0.4.0 can drop the older forms: the parts marked “goes with release 0.4.0”.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol

import msgspec

from peering.rpc.connection import FrameConnection
from peering.rpc.frames import (
    HANDSHAKE_FRAME_BYTES,
    LAYOUT,
    MAGIC,
    BadFrame,
    Goodbye,
    H,
    Layout,
    Wire,
    encode_frame,
    encode_head,
)
from peering.shared_secret import SharedSecret

HANDSHAKE_TIMEOUT_S = 2.0
NONCE_BYTES = 32
LISTENER, DIALER = b"listener", b"dialer"


class HandshakeFailed(ConnectionError):
    """A handshake ended because the other side is not the intended one, or refuses this side."""


class RefusedByPeer(HandshakeFailed):
    """A side that proved the secret refuses this one, with a code of the protocol."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True, slots=True)
class PeerRefusal:
    """The reason why a side that has proved itself is not admitted; the Goodbye carries `code`."""

    text: str
    code: int = 0


@dataclass(frozen=True, slots=True)
class Party:
    """This side of a handshake: the secret that it shares with the other, and its claim."""

    secret: SharedSecret
    claim: bytes


class _Head(msgspec.Struct, array_like=True, gc=False):
    pass


class Hello(_Head, tag=1):
    """The dialer's first message: it speaks every version in [oldest, newest]."""

    oldest: int
    newest: int
    claim: bytes
    nonce: bytes


class Challenge(_Head, tag=2):
    """The listener's answer, with the `version` to speak; its body is the proof."""

    version: int
    claim: bytes
    nonce: bytes


class Proof(_Head, tag=3):
    """The dialer's answer to the challenge; its body is the proof."""


class Welcome(_Head, tag=4):
    """The connection is open; the body is the first word of the listener's protocol."""


Message = Hello | Challenge | Proof | Welcome | Goodbye
_decode = msgspec.msgpack.Decoder(Message).decode
Admit = Callable[[bytes], PeerRefusal | None]
"""Judges the claim of a side that has proved itself; raises BadFrame if it is no claim."""


class Form(Protocol):
    """The encoding of a handshake's messages: the present form, or that of release 0.2.0."""

    oldest: int
    newest: int
    """Versions of the protocol that begin with a handshake of this form: `oldest` to `newest`."""
    layout: Layout

    def key(self, secret: SharedSecret) -> SharedSecret:
        """Return the secret that makes and verifies proofs."""

    def encode(self, head: Message, body: bytes) -> tuple[bytes, bytes]:
        """Return the head and the body of a message's frame."""

    def decode(self, head: bytes, body: bytes) -> tuple[Message, bytes]:
        """Return the message of a frame, with its body; raises BadFrame."""

    def proven(self, side: bytes, hello: bytes, challenge: bytes) -> bytes:
        """Return the bytes that a side's proof covers, made from the heads as they were sent."""


class Present:
    """The form of this release."""

    layout = LAYOUT

    def __init__(self, name: bytes, oldest: int, newest: int) -> None:
        self.oldest = oldest
        self.newest = newest
        self._name = name

    def key(self, secret: SharedSecret) -> SharedSecret:
        return secret.derived(b"handshake of " + self._name)

    def encode(self, head: Message, body: bytes) -> tuple[bytes, bytes]:
        return encode_head(head), body

    def decode(self, head: bytes, body: bytes) -> tuple[Message, bytes]:
        try:
            return _decode(head), body
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BadFrame(f"handshake: {error}") from error

    def proven(self, side: bytes, hello: bytes, challenge: bytes) -> bytes:
        parts = (side, hello, challenge)
        return b"".join(len(part).to_bytes(4, "little") + part for part in parts)


class RpcProtocol(Generic[H]):
    """The protocol of one kind of connection."""

    def __init__(
        self, name: bytes, wire: Wire[H], *, oldest: int, newest: int, legacy: Form | None = None
    ) -> None:
        """Describe a protocol. Its key is derived for `name`; `legacy` goes with release 0.4.0."""
        self.wire = wire
        self.present = Present(name, oldest, newest)
        self.legacy = legacy

    def connection(
        self,
        *,
        ended: Callable[[FrameConnection[H]], None] | None = None,
        stood_still: Callable[[], bool] | None = None,
    ) -> FrameConnection[H]:
        """Return a connection on which the handshake is still to come; see FrameConnection."""
        legacy = self.legacy.layout if self.legacy is not None else None
        return FrameConnection(self.wire, ended=ended, stood_still=stood_still, legacy=legacy)

    def form(self, connection: FrameConnection[H]) -> Form:
        """Return the form that the other side speaks, once it has spoken."""
        if connection.present or self.legacy is None:
            return self.present
        return self.legacy

    @property
    def oldest(self) -> int:
        return self.present.oldest if self.legacy is None else self.legacy.oldest


class _Side(Generic[H]):
    """The common part of both halves: they encode messages in the form of the connection."""

    def __init__(
        self, connection: FrameConnection[H], protocol: RpcProtocol[H], party: Party
    ) -> None:
        self._connection = connection
        self._protocol = protocol
        self._party = party
        self._form: Form = protocol.present
        self._hello = b""
        self._challenge = b""

    def _say(self, message: Message, body: bytes = b"") -> bytes:
        """Send a message; return its head as it was sent."""
        head, body = self._form.encode(message, body)
        limit = self._protocol.wire.max_frame_bytes
        self._connection.write(self._form.layout.encode(head, [body] if body else [], limit))
        return head

    def _proof(self, side: bytes) -> bytes:
        key = self._form.key(self._party.secret)
        return key.prove(self._form.proven(side, self._hello, self._challenge))

    def _proves(self, side: bytes, proof: bytes) -> bool:
        key = self._form.key(self._party.secret)
        return key.verifies(proof, self._form.proven(side, self._hello, self._challenge))

    def congestion(self, congested: bool) -> None:
        pass


class Listening(_Side[H]):
    """The listener's half of a handshake; it is the connection's handler until the handshake is
    over.
    """

    def __init__(
        self,
        connection: FrameConnection[H],
        protocol: RpcProtocol[H],
        party: Party,
        *,
        admit: Admit,
        opened: Callable[[FrameConnection[H], bytes], None],
        welcome: Callable[[bytes], bytes] = lambda claim: b"",
    ) -> None:
        """Wait for the dialer's Hello.

        `opened` receives the connection and the dialer's claim, and gives the connection its
        handler. `welcome` returns the body of the Welcome.
        """
        super().__init__(connection, protocol, party)
        self._admit = admit
        self._opened = opened
        self._welcome = welcome
        self._claim = b""
        self._timer = asyncio.get_running_loop().call_later(
            HANDSHAKE_TIMEOUT_S, connection.abort, "no handshake in time"
        )

    def frame(self, head: bytes, body: bytes) -> None:
        if not self._hello:
            head = self._choose(head, body)
        message, body = self._form.decode(head, body)
        if isinstance(message, Hello) and not self._hello:
            self._on_hello(message, head)
        elif isinstance(message, Proof) and self._challenge:
            self._on_proof(body)
        elif isinstance(message, Goodbye):
            self._connection.abort(f"goodbye: {message.text}")
        else:
            self._connection.close("not a handshake")

    def _choose(self, head: bytes, body: bytes) -> bytes:
        """Return the Hello in the form that both sides will speak; goes with release 0.4.0."""
        self._form = self._protocol.form(self._connection)
        if self._form is self._protocol.legacy and body.startswith(MAGIC):
            self._form = self._protocol.present
            self._connection.switch(LAYOUT)
            head = body[len(MAGIC) :]
        if self._form is self._protocol.present:
            self._connection.write([MAGIC])
        return head

    def _on_hello(self, hello: Hello, head: bytes) -> None:
        form = self._form
        if hello.newest < form.oldest or hello.oldest > form.newest:
            self._connection.close(
                f"protocol {hello.oldest}…{hello.newest} is not spoken here, only "
                f"{self._protocol.oldest}…{self._protocol.present.newest}"
            )
        elif form is self._protocol.legacy and hello.newest > form.newest:
            # A dialer of that version also sends the present form: somebody between has removed it.
            self._connection.close("an older handshake than the dialer's")
        elif len(hello.nonce) != NONCE_BYTES:
            self._connection.close("malformed hello")
        else:
            version = min(hello.newest, form.newest)
            challenge = Challenge(version, self._party.claim, os.urandom(NONCE_BYTES))
            self._claim, self._hello = hello.claim, head
            self._challenge, _ = form.encode(challenge, b"")
            self._say(challenge, self._proof(LISTENER))

    def _on_proof(self, proof: bytes) -> None:
        if not self._proves(DIALER, proof):
            self._connection.close("the secrets differ")
            return
        refusal = self._admit(self._claim)
        if refusal is not None:
            self._connection.close(refusal.text, refusal.code)
            return
        self._timer.cancel()
        self._say(Welcome(), self._welcome(self._claim))
        self._connection.end_handshake()
        self._opened(self._connection, self._claim)

    def closed(self, reason: str) -> None:
        self._timer.cancel()


class Dialling(_Side[H]):
    """The dialer's half of a handshake; it sends its Hello at once.

    The connection gets its handler the moment it is welcomed, so that no frame is missed.
    """

    def __init__(
        self,
        connection: FrameConnection[H],
        protocol: RpcProtocol[H],
        party: Party,
        *,
        expect: Callable[[bytes], str | None],
        admit: Admit,
        opened: Callable[[FrameConnection[H], bytes, bytes], None],
    ) -> None:
        """Send the Hello.

        `expect` returns why a listener that has proved itself is not the intended one; this side
        then proves nothing to it. `admit` may refuse the listener, which is told the reason.
        `opened` receives the connection, the listener's claim and the body of its Welcome.
        """
        super().__init__(connection, protocol, party)
        self._expect = expect
        self._admit = admit
        self._opened = opened
        self._claim = b""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._older_hello = b""
        present = protocol.present
        nonce = os.urandom(NONCE_BYTES)
        hello = Hello(present.oldest, present.newest, party.claim, nonce)
        self._hello, _ = present.encode(hello, b"")
        if protocol.legacy is None:
            connection.write([MAGIC, *encode_frame(self._hello)])
        else:
            # Goes with release 0.4.0.
            older = Hello(protocol.legacy.oldest, present.newest, party.claim, nonce)
            self._older_hello, _ = protocol.legacy.encode(older, b"")
            connection.write(
                protocol.legacy.layout.encode(
                    self._older_hello, [MAGIC + self._hello], HANDSHAKE_FRAME_BYTES
                )
            )

    def frame(self, head: bytes, body: bytes) -> None:
        if not self._challenge:
            self._form = self._protocol.form(self._connection)
        message, body = self._form.decode(head, body)
        if isinstance(message, Challenge) and not self._challenge:
            self._on_challenge(message, head, body)
        elif isinstance(message, Welcome) and self._challenge:
            self._connection.end_handshake()
            if not self.done.done():
                self.done.set_result(None)
            self._opened(self._connection, self._claim, body)
        elif isinstance(message, Goodbye):
            # Only a listener that has proved itself can refuse with a code.
            text = f"refused: {message.text}"
            code = message.code if self._challenge else 0
            self._fail(RefusedByPeer(text, code) if code else HandshakeFailed(text))
        else:
            self._fail(HandshakeFailed("not a handshake"))

    def _on_challenge(self, challenge: Challenge, head: bytes, proof: bytes) -> None:
        form = self._form
        if form is self._protocol.legacy:
            self._hello = self._older_hello
        self._challenge = head
        if not self._proves(LISTENER, proof):
            self._challenge = b""
            self._fail(HandshakeFailed("the secrets differ"))
        elif not form.oldest <= challenge.version <= form.newest:
            self._fail(HandshakeFailed(f"protocol {challenge.version}"))
        elif (unexpected := self._expect(challenge.claim)) is not None:
            self._fail(HandshakeFailed(unexpected))
        else:
            self._claim = challenge.claim
            self._connection.trust()
            self._say(Proof(), self._proof(DIALER))
            refusal = self._admit(challenge.claim)
            if refusal is not None:
                # This comes after the proof: a listener believes a refusal only from a side that
                # knows the secret.
                self._connection.close(refusal.text, refusal.code)

    def _fail(self, error: HandshakeFailed) -> None:
        if not self.done.done():
            self.done.set_exception(error)
        self._connection.abort(str(error))

    def closed(self, reason: str) -> None:
        if not self.done.done():
            self.done.set_exception(HandshakeFailed(reason))


def anyone(claim: bytes) -> None:
    """Expect or admit every side that has proved itself."""
