"""A machine's state as bytes: a version byte and one msgpack array.

    version u8 (1) · [group, applied, log time µs, digest,
                      [[queue id, base, meta, first, end, stage end, sealed, successors, kept,
                        [[session id, last seq, deadline µs, used µs, receipts], …]], …],
                      [tombstone queue id, …]]

Queues and tombstones stand in the order the log made them, sessions in that of their first append;
receipts are the session's ring of (base offset u64, count u64, log time u64), little-endian.
docs/file-format.md (Checkpoint) is this page for people.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from store_nodes.machine.digest import DIGEST_BYTES
from store_nodes.machine.queues import Queue
from store_nodes.machine.sessions import RECEIPT_BYTES, RECEIPTS, Session

SNAPSHOT_VERSION = 1


class BadSnapshot(ValueError):
    """The bytes are not a snapshot of this version."""


@dataclass(frozen=True, slots=True)
class State:
    """What a snapshot holds."""

    group: int
    applied: int
    log_time_us: int
    digest: bytes
    queues: list[Queue]
    tombstones: list[bytes]


class _Session(msgspec.Struct, array_like=True, gc=False):
    session: bytes
    last_seq: int
    deadline_us: int
    used_us: int
    receipts: bytes


class _Queue(msgspec.Struct, array_like=True):
    queue: bytes
    base: int
    meta: bytes
    first: int
    end: int
    stage_end: int
    sealed: bool
    successors: tuple[tuple[int, bytes], ...]
    kept: tuple[int, ...]
    sessions: list[_Session]


class _Machine(msgspec.Struct, array_like=True):
    group: int
    applied: int
    log_time_us: int
    digest: bytes
    queues: list[_Queue]
    tombstones: list[bytes]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Machine)


def encode(state: State) -> bytes:
    """Equal states give equal bytes."""
    raw = _Machine(
        state.group,
        state.applied,
        state.log_time_us,
        state.digest,
        [_pack_queue(queue) for queue in state.queues],
        state.tombstones,
    )
    return bytes((SNAPSHOT_VERSION,)) + _encoder.encode(raw)


def decode(raw: bytes) -> State:
    """Raises BadSnapshot."""
    if raw[:1] != bytes((SNAPSHOT_VERSION,)):
        raise BadSnapshot(f"version {raw[:1].hex() or 'missing'}")
    try:
        found = _decoder.decode(memoryview(raw)[1:])
    except msgspec.DecodeError as error:
        raise BadSnapshot(str(error)) from error
    if len(found.digest) != DIGEST_BYTES:
        raise BadSnapshot("digest length")
    queues = [_unpack_queue(queue) for queue in found.queues]
    return State(
        found.group, found.applied, found.log_time_us, found.digest, queues, found.tombstones
    )


def _pack_queue(queue: Queue) -> _Queue:
    return _Queue(
        queue.queue,
        queue.base,
        queue.meta,
        queue.first,
        queue.end,
        queue.stage_end,
        queue.sealed,
        queue.successors,
        queue.kept,
        [
            _Session(name, s.last_seq, s.deadline_us, s.used_us, s.packed_receipts())
            for name, s in queue.sessions.items()
        ],
    )


def _unpack_queue(raw: _Queue) -> Queue:
    queue = Queue(raw.queue, raw.base, raw.meta)
    queue.first = raw.first
    queue.end = raw.end
    queue.stage_end = raw.stage_end
    queue.sealed = raw.sealed
    queue.successors = raw.successors
    queue.kept = raw.kept
    for s in raw.sessions:
        if s.last_seq < 0 or len(s.receipts) != RECEIPT_BYTES * min(s.last_seq, RECEIPTS):
            raise BadSnapshot("receipts do not match the last sequence")
        queue.sessions[s.session] = Session(s.last_seq, s.deadline_us, s.used_us, s.receipts)
    return queue
