"""Chains digests of applied values: two replicas have the same one exactly if their logs agree."""

from __future__ import annotations

import struct
from hashlib import blake2b

from crc32c import crc32c

DIGEST_BYTES = 16
EMPTY = bytes(DIGEST_BYTES)
"""The digest before instance 0."""

_LINK = struct.Struct("<16sQIQ")


def chain(previous: bytes, instance: int, value: bytes) -> bytes:
    """Return the digest after `value` was applied as `instance`.

    The value enters by its CRC32C and length. A cryptographic pass over every batch would cost more
    than applying it, and the digest guards against bugs and flipped bits, not against forgers.
    """
    link = _LINK.pack(previous, instance, crc32c(value), len(value))
    return blake2b(link, digest_size=DIGEST_BYTES).digest()
