"""The partition of a key, which is the same in every process and in every version."""

from __future__ import annotations

from hashlib import blake2b


def partition_of(key: str, partitions: int) -> int:
    """Return `blake2b(key, 8 bytes) mod partitions`."""
    digest = blake2b(key.encode("utf-8"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % partitions
