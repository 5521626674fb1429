"""Weighted rendezvous hashing: who of the living has what, with nobody to decide it.

Each (member, key) has a score, drawn from a hash of both so that it is the same in every process,
and a key belongs to the member with the highest. A member that comes takes its share from all the
others, one that goes leaves its own to all of them, and nothing else moves.

Score -w / ln(u) with u uniform in (0, 1): Schindelhauer and Schomaker, Weighted Distributed Hash
Tables, 2005.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from hashlib import blake2b


def home(key: bytes, weights: Mapping[bytes, float]) -> bytes | None:
    """Return the member (by id, each with a weight above 0) that the key belongs to; None
    of none.
    """
    best: tuple[float, bytes] | None = None
    for member, weight in weights.items():
        score = (-weight / math.log(_uniform(member, key)), member)
        if best is None or score > best:
            best = score
    return None if best is None else best[1]


def _uniform(member: bytes, key: bytes) -> float:
    """Return a number in (0, 1) for the pair."""
    drawn = int.from_bytes(blake2b(key, digest_size=8, key=member).digest(), "big")
    return ((drawn >> 11) + 0.5) / (1 << 53)
