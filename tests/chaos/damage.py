"""The damages to the bytes of a stopped node: bits, blocks, blocks in wrong places."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

BLOCK_BYTES = 4096
_BATCH = b"PB\x01"
"""The first bytes of a record batch."""
_INTO_BATCH = 60

Harm = Callable[[bytearray, int], None]
"""Does it to the bytes of a file at an offset."""


def flip_a_bit(raw: bytearray, at: int) -> None:
    raw[at] ^= 0x10


def zero_a_block(raw: bytearray, at: int) -> None:
    start = at // BLOCK_BYTES * BLOCK_BYTES
    raw[start : start + BLOCK_BYTES] = bytes(BLOCK_BYTES)


def misdirect_a_block(raw: bytearray, at: int) -> None:
    """A write that went to the block before its own: that one is gone, its own is stale (zeros)."""
    start = max(1, at // BLOCK_BYTES) * BLOCK_BYTES
    raw[start - BLOCK_BYTES : start] = raw[start : start + BLOCK_BYTES]
    raw[start : start + BLOCK_BYTES] = bytes(BLOCK_BYTES)


HARMS: tuple[Harm, ...] = (flip_a_bit, zero_a_block, misdirect_a_block)


def harm(path: Path, share: float, how: Harm) -> None:
    """Do it at a share (0 … 1) of what is written in the file; in a log, in the first record batch
    from there on, if one follows."""
    raw = bytearray(path.read_bytes())
    used = len(raw.rstrip(b"\0"))
    before = bytes(raw)
    at = min(used - 1, int(used * share))
    batch = raw.find(_BATCH, at)
    how(raw, batch + _INTO_BATCH if batch >= 0 else at)
    assert raw != before, "nothing was changed"
    path.write_bytes(raw)


def segments(directory: Path) -> list[Path]:
    """Return the raw segments of a node, the oldest first; the last is the one written to."""
    return sorted((directory / "wal").glob("*.wal"))


def settled(directory: Path) -> list[Path]:
    """Return the compacted segments of a node."""
    return sorted((directory / "wal").glob("*.settled"))


def checkpoints(directory: Path) -> list[Path]:
    """Return the checkpoint files, the oldest first."""
    return sorted((directory / "checkpoints").glob("checkpoint-*"))


def manifests(directory: Path) -> list[Path]:
    """Return the manifests, the older one first."""
    found = (directory / "checkpoints").glob("manifest-?")
    return sorted(found, key=lambda path: path.stat().st_mtime_ns)
