"""The handshake of version 2, which release 0.2.0 speaks. It goes with release 0.4.0.

The claim is spread over the fields of the heads, proofs are fields too, and the key is the secret
of the cluster itself. A proof is over the Hello and the Challenge without its proof.
"""

from __future__ import annotations

import typing

import msgspec

from peering.rpc import handshake
from peering.rpc.frames import LAYOUT, BadFrame, Goodbye, encode_head
from peering.shared_secret import SharedSecret
from store_nodes.wire import Challenge, Hello, Proof, Remote, Role, Welcome

_decode = msgspec.msgpack.Decoder(Hello | Challenge | Proof | Welcome | Goodbye).decode
_remote = msgspec.msgpack.Decoder(Remote).decode
_challenge = msgspec.msgpack.Decoder(Challenge).decode
_hello = msgspec.msgpack.Decoder(Hello).decode


def _claim(said: Hello | Challenge, role: Role) -> bytes:
    remote = Remote(
        role, said.cluster_uid, said.node, said.incarnation, said.boot, said.tail, said.run
    )
    return encode_head(remote)


class Version2:
    """A `handshake.Form`."""

    oldest = newest = 2
    layout = LAYOUT

    def key(self, secret: SharedSecret) -> SharedSecret:
        return secret

    def encode(self, head: handshake.Message, body: bytes) -> tuple[bytes, bytes]:
        match head:
            case handshake.Hello():
                hello = Hello(
                    version=head.newest,
                    oldest=head.oldest,
                    nonce=head.nonce,
                    **msgspec.structs.asdict(_remote(head.claim)),
                )
                return encode_head(hello), body
            case handshake.Challenge():
                claimed = msgspec.structs.asdict(_remote(head.claim))
                del claimed["role"]
                challenge = Challenge(head.version, nonce=head.nonce, proof=body, **claimed)
                return encode_head(challenge), b""
            case handshake.Proof():
                return encode_head(Proof(body)), b""
            case handshake.Welcome():
                return body, b""
            case Goodbye():
                return encode_head(head), b""
            case _:
                typing.assert_never(head)

    def decode(self, head: bytes, body: bytes) -> tuple[handshake.Message, bytes]:
        try:
            said = _decode(head)
            match said:
                case Hello():
                    claim = _claim(said, Role(said.role))
                    return handshake.Hello(said.oldest, said.version, claim, said.nonce), b""
                case Challenge():
                    claim = _claim(said, Role.PEER)
                    return handshake.Challenge(said.version, claim, said.nonce), said.proof
                case Proof():
                    return handshake.Proof(), said.proof
                case Welcome():
                    return handshake.Welcome(), head
                case Goodbye():
                    return said, b""
                case _:
                    typing.assert_never(said)
        except (msgspec.DecodeError, ValueError) as error:
            raise BadFrame(f"handshake: {error}") from error

    def proven(self, side: bytes, hello: bytes, challenge: bytes) -> bytes:
        bare = msgspec.structs.replace(_challenge(challenge), proof=b"")
        return b"packetboat " + side + b" " + encode_head((_hello(hello), bare))
