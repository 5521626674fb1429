"""What applying one command came to; one outcome per command of a value, in its order."""

from __future__ import annotations

import msgspec

from store_nodes.errors import StoreError


class AppendDone(msgspec.Struct, frozen=True, gc=False):
    """Messages have offsets `base_offset` … `base_offset + count - 1`.

    `duplicate`: the sequence was applied before and this is its old receipt; nothing was stored
    now, and `batch_at`, `batch_bytes` are 0. Otherwise they say where the batch lies in the value.
    """

    queue: bytes
    base_offset: int
    count: int
    log_time_us: int
    batch_at: int = 0
    batch_bytes: int = 0
    duplicate: bool = False


class CreateDone(msgspec.Struct, frozen=True, gc=False):
    """The queue exists with the base and meta asked for; `end` is its next offset."""

    queue: bytes
    end: int


class SealDone(msgspec.Struct, frozen=True, gc=False):
    """The queue ends at `offset` (the first offset it does not have)."""

    queue: bytes
    offset: int


class DeleteDone(msgspec.Struct, frozen=True, gc=False):
    """Only a tombstone is left of the queue."""

    queue: bytes


class TruncateDone(msgspec.Struct, frozen=True, gc=False):
    """Offsets below `first_offset` are gone, but those of `kept` (ascending)."""

    queue: bytes
    first_offset: int
    kept: tuple[int, ...] = ()


class Refused(msgspec.Struct, frozen=True):
    """The command changed no queue; `error` is what the client gets.

    `duplicate`: the sequence was refused before and this is its old receipt.
    """

    queue: bytes
    error: StoreError
    duplicate: bool = False


Outcome = AppendDone | CreateDone | SealDone | DeleteDone | TruncateDone | Refused
