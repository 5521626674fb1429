"""Arrays of u64 as bytes: little-endian in every snapshot, whatever the computer."""

from __future__ import annotations

import sys
from array import array


def pack_u64(values: array[int]) -> bytes:
    return little_endian(values).tobytes()


def little_endian(values: array[int]) -> array[int]:
    """The array itself where that is its byte order, else a copy: for who only reads its bytes."""
    if sys.byteorder == "little":
        return values
    swapped = array("Q", values)
    swapped.byteswap()
    return swapped


def unpack_u64(raw: bytes) -> array[int]:
    """Raises ValueError."""
    values = array("Q", raw)
    if sys.byteorder == "big":
        values.byteswap()
    return values
