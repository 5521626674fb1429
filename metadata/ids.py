"""Uids: 16 bytes that are never reused and sort by the time they were made (UUID version 7)."""

from __future__ import annotations

import secrets
import time


def new_uid() -> bytes:
    """Return a UUID of version 7 (RFC 9562 §5.7).

    It has 48 bits of Unix milliseconds, the version and variant, and 74 random bits.
    """
    millis = time.time_ns() // 1_000_000
    random = int.from_bytes(secrets.token_bytes(10), "big")
    high = (millis & (1 << 48) - 1) << 16 | 0x7000 | random >> 68 & 0xFFF
    low = 0b10 << 62 | random & (1 << 62) - 1
    return (high << 64 | low).to_bytes(16, "big")
