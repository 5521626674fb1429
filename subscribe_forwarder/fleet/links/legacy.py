"""Version 1 of links, which release 0.2.0 speaks: other frames, another form of the handshake. It
goes with release 0.4.0.

    frame = u32 bytes of the head · u32 bytes of the body · u32 CRC32C of both · head · body
            (little endian)

The key is derived from the secret; a proof is over the Hello and the Challenge without its proof.
"""

from __future__ import annotations

import struct
import typing
from collections.abc import Sequence

import msgspec
from crc32c import crc32c

from peering.rpc import handshake
from peering.rpc.frames import BadFrame, Buffer, FrameReader, Goodbye, H, Layout, encode_head
from peering.shared_secret import SharedSecret
from subscribe_forwarder.fleet.links.wire import (
    MAX_BODY_BYTES,
    MAX_HEAD_BYTES,
    Challenge,
    Hello,
    Proof,
    Welcome,
)

_PREFIX = struct.Struct("<III")
_decode = msgspec.msgpack.Decoder(Hello | Challenge | Proof | Welcome | Goodbye).decode
_challenge = msgspec.msgpack.Decoder(Challenge).decode
_hello = msgspec.msgpack.Decoder(Hello).decode


def encode_frame(head: bytes, body: Sequence[Buffer], max_frame_bytes: int) -> list[Buffer]:
    """Raises BadFrame over a limit."""
    length = sum(map(len, body))
    if len(head) > MAX_HEAD_BYTES or length > MAX_BODY_BYTES:
        raise BadFrame(
            f"a frame with {len(head)} and {length} bytes is over the limits of {MAX_HEAD_BYTES} "
            f"and {MAX_BODY_BYTES}"
        )
    crc = crc32c(head)
    for part in body:
        crc = crc32c(part, crc)
    return [_PREFIX.pack(len(head), length, crc) + head, *body]


class LegacyReader(FrameReader[H]):
    """The reader that it extends, for these frames."""

    __slots__ = ()

    def next(self) -> tuple[H, bytes] | None:
        start, view = self._start, self._view
        if self._end - start < _PREFIX.size:
            self._wait(_PREFIX.size)
            return None
        head_bytes, body_bytes, crc = _PREFIX.unpack_from(self._buffer, start)
        if head_bytes + body_bytes > self.max_frame_bytes:
            raise BadFrame(f"a frame of {head_bytes} and {body_bytes} bytes")
        head_at = start + _PREFIX.size
        body_at = head_at + head_bytes
        end = body_at + body_bytes
        if end > self._end:
            self._wait(end - start)
            return None
        if crc32c(view[head_at:end]) != crc:
            raise BadFrame("CRC32C mismatch")
        self._start = end
        raw = view[head_at:body_at]
        try:
            head = self._decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            head = self._refused(raw, error)
        return head, bytes(view[body_at:end])


LAYOUT = Layout(LegacyReader, encode_frame)


class Version1:
    """A `handshake.Form`."""

    oldest = newest = 1
    layout = LAYOUT

    def key(self, secret: SharedSecret) -> SharedSecret:
        return secret.derived(b"links")

    def encode(self, head: handshake.Message, body: bytes) -> tuple[bytes, bytes]:
        match head:
            case handshake.Hello():
                hello = Hello(head.newest, head.oldest, head.claim, head.nonce)
                return encode_head(hello), body
            case handshake.Challenge():
                return encode_head(Challenge(head.version, head.claim, head.nonce, body)), b""
            case handshake.Proof():
                return encode_head(Proof(body)), b""
            case handshake.Welcome():
                return encode_head(Welcome()), b""
            case Goodbye():
                return encode_head(head), b""
            case _:
                typing.assert_never(head)

    def decode(self, head: bytes, body: bytes) -> tuple[handshake.Message, bytes]:
        try:
            said = _decode(head)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BadFrame(f"handshake: {error}") from error
        match said:
            case Hello():
                hello = handshake.Hello(said.oldest, said.version, said.incarnation, said.nonce)
                return hello, b""
            case Challenge():
                claim = said.incarnation
                return handshake.Challenge(said.version, claim, said.nonce), said.proof
            case Proof():
                return handshake.Proof(), said.proof
            case Welcome():
                return handshake.Welcome(), b""
            case Goodbye():
                return said, b""
            case _:
                typing.assert_never(said)

    def proven(self, side: bytes, hello: bytes, challenge: bytes) -> bytes:
        bare = msgspec.structs.replace(_challenge(challenge), proof=b"")
        return side + encode_head((_hello(hello), bare))
