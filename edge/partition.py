"""Which partition a key belongs to: for ever, at every process, in every version."""

from __future__ import annotations

from hashlib import blake2b


def partition_of(key: str, partitions: int) -> int:
    """`blake2b(key, 8 bytes) mod partitions`."""
    digest = blake2b(key.encode("utf-8"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % partitions
