"""Makes and reads ack ids, the token of one delivery: opaque, authenticated, 72 characters.

    base64url of: subscription uid 16 B · generation u32 · partition u32 · lane u8 · era u32 · n u32
                  | attempt u16 · offset u64 · MAC 11 B

The MAC is keyed BLAKE2b over all before it. The first 33 bytes are the same for everything a
partition's owner hands out under one epoch and make exactly 44 characters, so their encoding and
the hash state after them are made once: what is left per message is 10 bytes.

The key outlives the process, so an ack id does too; while it is being changed, ids that an older
one made hold as well.
"""

from __future__ import annotations

import hashlib
import struct
from base64 import urlsafe_b64encode
from binascii import Error as Base64Error
from binascii import a2b_base64
from hmac import compare_digest
from typing import NamedTuple

from metadata.types import Epoch
from peering.shared_secret import SharedSecret

ID_CHARS = 72
HEAD_CHARS = 44
MAX_ATTEMPT = 0xFFFF
MIN_KEY_BYTES = 16
MAX_KEY_BYTES = hashlib.blake2b.MAX_KEY_SIZE

_HEAD = struct.Struct(">16sIIBII")
_TAIL = struct.Struct(">HQ")
_MAC_BYTES = 11
_TO_STANDARD = bytes.maketrans(b"-_", b"+/")


class BadAckId(ValueError):
    """The text is not an ack id of this platform."""


class Head(NamedTuple):
    """The part that all ack ids of one (subscription, partition) under one epoch share."""

    subscription_uid: bytes
    generation: int
    partition: int
    lane: int
    epoch: Epoch


class Minter:
    """Makes and reads the ack ids of one head."""

    __slots__ = ("_hash", "_others", "_prefix", "head")

    def __init__(self, head: Head, key: SharedSecret) -> None:
        assert len(key.first) >= MIN_KEY_BYTES
        raw = _HEAD.pack(
            head.subscription_uid,
            head.generation,
            head.partition,
            head.lane,
            head.epoch.era,
            head.epoch.n,
        )
        self.head = head
        self._prefix = urlsafe_b64encode(raw)
        self._hash = _keyed(raw, key.first)
        self._others = tuple(_keyed(raw, other) for other in key.others)

    @property
    def prefix(self) -> str:
        """The first characters, which all ids of this head share."""
        return self._prefix.decode()

    def mint(self, offset: int, attempt: int) -> bytes:
        """Return the ack id of one delivery."""
        tail = _TAIL.pack(min(attempt, MAX_ATTEMPT), offset)
        state = self._hash.copy()
        state.update(tail)
        return self._prefix + urlsafe_b64encode(tail + state.digest())

    def open(self, text: str) -> tuple[int, int]:
        """Return the attempt and the offset of an id that starts with `prefix`; raise BadAckId."""
        if len(text) != ID_CHARS:
            raise BadAckId(f"an ack id has {ID_CHARS} characters")
        try:
            raw = _decode(text[HEAD_CHARS:])
        except ValueError as error:
            raise BadAckId("not base64url") from error
        tail, mac = raw[: _TAIL.size], raw[_TAIL.size :]
        if not any(_is_mac(mac, begun, tail) for begun in (self._hash, *self._others)):
            raise BadAckId("not an ack id of this platform")
        attempt, offset = _TAIL.unpack_from(raw)
        return attempt, offset


def parse_head(text: str) -> Head:
    """Return the unverified claims of an id: open it with a Minter of that head."""
    if len(text) != ID_CHARS:
        raise BadAckId(f"an ack id has {ID_CHARS} characters")
    try:
        uid, generation, partition, lane, era, n = _HEAD.unpack(_decode(text[:HEAD_CHARS]))
    except ValueError as error:
        raise BadAckId("not base64url") from error
    return Head(uid, generation, partition, lane, Epoch(era, n))


def _keyed(raw: bytes, key: bytes) -> hashlib.blake2b:
    return hashlib.blake2b(raw, key=key, digest_size=_MAC_BYTES)


def _is_mac(mac: bytes, begun: hashlib.blake2b, tail: bytes) -> bool:
    """Return whether a MAC is that of an id, in constant time."""
    state = begun.copy()
    state.update(tail)
    return compare_digest(mac, state.digest())


def _decode(text: str) -> bytes:
    """Decode text of a length that needs no padding, so exactly one text decodes to given bytes."""
    if "+" in text or "/" in text:
        raise ValueError("base64, not base64url")
    try:
        raw = a2b_base64(text.encode("ascii").translate(_TO_STANDARD), strict_mode=True)
    except Base64Error as error:
        raise ValueError(str(error)) from error
    if len(raw) * 4 != len(text) * 3:
        raise ValueError("padding")
    return raw
