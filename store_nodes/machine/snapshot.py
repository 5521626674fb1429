"""A machine's state as bytes: a version byte and one msgpack array.

    version u8 (2) · [group, applied, log time µs, digest,
                      [[queue id, base, meta, first, end, stage end, sealed, successors, kept,
                        [[session id, last seq, deadline µs, used µs, receipts], …], stages], …],
                      [tombstone queue id, …],
                      membership, [[counter, value], …], preferred leader, [dedup bucket, …]]

Queues and tombstones are in the order in which the log made them, sessions in that of their first
append, counters by name. Receipts are the session's ring of (base offset u64, count u64, log time
u64), little-endian. The rows of stages and dedup buckets are PackedStages and PackedBucket: raw
arrays, so that a million ids need no Python object each. Version 1 ends before `stages` and before
`membership`. docs/file-format.md (Checkpoint) describes the same for people.
"""

from __future__ import annotations

import struct
from array import array
from dataclasses import dataclass

import msgspec

from store_nodes.machine.dedup import DedupTable, PackedBucket
from store_nodes.machine.digest import DIGEST_BYTES
from store_nodes.machine.queues import Queue
from store_nodes.machine.sessions import RECEIPT_BYTES, RECEIPTS, Session
from store_nodes.machine.stages import PackedStages, Stages
from store_nodes.membership import Membership

SNAPSHOT_VERSION = 2
OLDEST_SNAPSHOT_VERSION = 1


class BadSnapshot(ValueError):
    """The bytes are no snapshot of a version that this release reads."""


@dataclass(frozen=True, slots=True)
class State:
    """The content of a snapshot."""

    group: int
    applied: int
    log_time_us: int
    digest: bytes
    queues: list[Queue]
    tombstones: list[bytes]
    membership: Membership | None
    """The membership; None in version 1."""
    counters: dict[str, int]
    preferred_leader: int
    dedup: DedupTable


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
    stages: PackedStages | None = None


class _Machine(msgspec.Struct, array_like=True):
    group: int
    applied: int
    log_time_us: int
    digest: bytes
    queues: list[_Queue]
    tombstones: list[bytes]
    membership: Membership | None = None
    counters: list[tuple[str, int]] = []
    preferred_leader: int = 0
    dedup: list[PackedBucket] = []


_EMPTY_ARRAY = b"\x90"
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Machine)


def encode(state: State) -> bytes:
    """Return a state as bytes; equal states give equal bytes."""
    head = _Machine(
        state.group,
        state.applied,
        state.log_time_us,
        state.digest,
        [_pack_queue(queue) for queue in state.queues],
        state.tombstones,
        state.membership,
        sorted(state.counters.items()),
        state.preferred_leader,
    )
    encoded = _encoder.encode(head)
    assert encoded.endswith(_EMPTY_ARRAY), "the ids are the last field"
    # The ids are most of a big snapshot: their arrays are copied once, straight into it.
    buckets = state.dedup.open()
    parts: list[bytes | bytearray | array[int]] = [bytes((SNAPSHOT_VERSION,))]
    parts += [encoded[: -len(_EMPTY_ARRAY)], _array_head(len(buckets))]
    for bucket in buckets:
        parts += [_array_head(len(bucket)), _encoder.encode(bucket.ends_us)]
        parts.append(_encoder.encode(bucket.queues))
        for arrays in (bucket.keys, bucket.rest):
            parts.append(_bin_head(sum(memoryview(values).nbytes for values in arrays)))
            parts += arrays
    return b"".join(parts)


def _array_head(length: int) -> bytes:
    """Return the shortest head of an array in MessagePack."""
    if length < 1 << 4:
        return bytes((0x90 | length,))
    if length < 1 << 16:
        return struct.pack(">BH", 0xDC, length)
    return struct.pack(">BI", 0xDD, length)


def _bin_head(length: int) -> bytes:
    if length < 1 << 8:
        return struct.pack(">BB", 0xC4, length)
    if length < 1 << 16:
        return struct.pack(">BH", 0xC5, length)
    return struct.pack(">BI", 0xC6, length)


def decode(raw: bytes | memoryview) -> State:
    """Return the state of a snapshot; raises BadSnapshot."""
    version = raw[0] if raw else 0
    if not OLDEST_SNAPSHOT_VERSION <= version <= SNAPSHOT_VERSION:
        raise BadSnapshot(f"version {version or 'missing'}")
    try:
        found = _decoder.decode(memoryview(raw)[1:])
        if version >= 2 and found.membership is None:
            raise BadSnapshot("no membership")
        if len(found.digest) != DIGEST_BYTES:
            raise BadSnapshot("digest length")
        if len({queue.queue for queue in found.queues}) != len(found.queues):
            raise BadSnapshot("a queue is there twice")
        return State(
            found.group,
            found.applied,
            found.log_time_us,
            found.digest,
            [_unpack_queue(queue) for queue in found.queues],
            found.tombstones,
            found.membership,
            dict(found.counters),
            found.preferred_leader,
            DedupTable.unpack(found.dedup),
        )
    except BadSnapshot:
        raise
    except (msgspec.DecodeError, ValueError) as error:
        raise BadSnapshot(str(error)) from error


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
        None if queue.stages is None else queue.stages.pack(),
    )


def _unpack_queue(raw: _Queue) -> Queue:
    queue = Queue(raw.queue, raw.base, raw.meta)
    queue.first = raw.first
    queue.end = raw.end
    if raw.stages is not None:
        queue.stages = Stages.unpack(raw.stages)
    if queue.stage_end != raw.stage_end:
        raise BadSnapshot("the end of the stages does not match")
    queue.sealed = raw.sealed
    queue.successors = raw.successors
    queue.kept = raw.kept
    if not 0 <= raw.base <= raw.first <= raw.end or (
        raw.kept and not raw.base <= raw.kept[0] <= raw.kept[-1] < raw.first
    ):
        raise BadSnapshot(f"offsets of a queue: {queue.base}, {queue.offsets}, {queue.kept}")
    for s in raw.sessions:
        if s.last_seq < 0 or len(s.receipts) != RECEIPT_BYTES * min(s.last_seq, RECEIPTS):
            raise BadSnapshot("receipts do not match the last sequence")
        queue.sessions[s.session] = Session(s.last_seq, s.deadline_us, s.used_us, s.receipts)
    return queue
