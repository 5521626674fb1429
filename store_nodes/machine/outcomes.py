"""Outcomes of commands; a value has one outcome per command, in their order."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from store_nodes.errors import StoreError


class AppendDone(msgspec.Struct, frozen=True, gc=False):
    """Messages were stored with the offsets `base_offset` … `base_offset + count - 1`.

    `duplicate` says that the sequence was applied before and this is its old receipt; nothing was
    stored now, and `batch_at` and `batch_bytes` are 0. Otherwise they say where the batch is in the
    value.
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
    """The queue is deleted; only a tombstone is left of it."""

    queue: bytes


class TruncateDone(msgspec.Struct, frozen=True, gc=False):
    """Offsets below `first_offset` are gone, except those of `kept` (ascending)."""

    queue: bytes
    first_offset: int
    kept: tuple[int, ...] = ()


class StageDone(msgspec.Struct, frozen=True, gc=False):
    """Messages were staged with the numbers `base_stage` … `base_stage + count - 1`.

    The other fields are those of AppendDone.
    """

    queue: bytes
    base_stage: int
    count: int
    log_time_us: int
    batch_at: int = 0
    batch_bytes: int = 0
    duplicate: bool = False


class ReleasedRun(NamedTuple):
    """Messages of one staged batch that got consecutive offsets from `base_offset` on.

    They are at `indices` of the batch that begins at stage number `stage_base`, in that order.
    """

    base_offset: int
    stage_base: int
    indices: tuple[int, ...]


class ReleaseDone(msgspec.Struct, frozen=True):
    """Messages were released, or had been before.

    `offsets` are those of wire.Released. `runs` are the messages that this command released, in
    offset order; it is empty if all were released before.
    """

    queue: bytes
    offsets: tuple[int | None, ...]
    runs: tuple[ReleasedRun, ...]
    log_time_us: int


class StagedChanged(msgspec.Struct, frozen=True, gc=False):
    """Staged messages were rescheduled or discarded: `changed` of those named were staged
    before.
    """

    queue: bytes
    changed: int


class CounterSet(msgspec.Struct, frozen=True, gc=False):
    """A counter of compare_and_set has this value."""

    name: str
    value: int
    queue: bytes = b""


class MembershipSet(msgspec.Struct, frozen=True, gc=False):
    """A reconfigure took effect."""

    version: int
    queue: bytes = b""


class LeaderWished(msgspec.Struct, frozen=True, gc=False):
    """A transfer was recorded: `node` should lead; 0 leaves it to the balance."""

    node: int
    queue: bytes = b""


class CheckpointWanted(msgspec.Struct, frozen=True, gc=False):
    """Every replica writes a checkpoint now."""

    reason: str
    queue: bytes = b""


class CommandRefused(msgspec.Struct, frozen=True):
    """A command changed no queue; `error` is the client's answer.

    `duplicate` says that the sequence was refused before and this is its old receipt.
    """

    queue: bytes
    error: StoreError
    duplicate: bool = False


Outcome = (
    AppendDone
    | CreateDone
    | SealDone
    | DeleteDone
    | TruncateDone
    | StageDone
    | ReleaseDone
    | StagedChanged
    | CounterSet
    | MembershipSet
    | LeaderWished
    | CheckpointWanted
    | CommandRefused
)
