"""Arrays of u64 as bytes: little-endian in every snapshot, on every computer."""

from __future__ import annotations

import sys
from array import array


def pack_u64(values: array[int]) -> bytes:
    return little_endian(values).tobytes()


def little_endian(values: array[int]) -> array[int]:
    """Return an array whose bytes are little-endian: the array itself, or a copy with its bytes
    swapped.

    The result is only for reading its bytes.
    """
    if sys.byteorder == "little":
        return values
    swapped = array("Q", values)
    swapped.byteswap()
    return swapped


def unpack_u64(raw: bytes) -> array[int]:
    """Return the array of packed bytes; raises ValueError."""
    values = array("Q", raw)
    if sys.byteorder == "big":
        values.byteswap()
    return values
