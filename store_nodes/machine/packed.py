"""Arrays of u64 as bytes: little-endian in every snapshot, whatever the computer."""

from __future__ import annotations

import sys
from array import array


def pack_u64(values: array[int]) -> bytes:
    if sys.byteorder == "little":
        return values.tobytes()
    swapped = array("Q", values)
    swapped.byteswap()
    return swapped.tobytes()


def unpack_u64(raw: bytes) -> array[int]:
    """Raises ValueError."""
    values = array("Q", raw)
    if sys.byteorder == "big":
        values.byteswap()
    return values
