"""The ids that a group remembers, so that a repeated publish is stored once.

* An id is remembered at least for the window its append named and at most 1.25 times that, both in
  log time. Until then nothing makes the group forget it, not even the deletion of its queue.
* At `MAX_DEDUP_ENTRIES` an append with new ids is refused; no id is forgotten early.
* The first message with an id is the one remembered, also within one batch.

Ids that end together are in one bucket, so that forgetting them is dropping a bucket. In a bucket
they are sorted by hash and cut into shards of at most `SHARD_ENTRIES`, two packed arrays each. An
id takes 36 bytes, and an insert or a split copies at most one shard. A look-up is two binary
searches per bucket; a window has at most nine live buckets, typically five.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import NamedTuple

from store_nodes.commands import DEDUP_ENTRY
from store_nodes.errors import Known
from store_nodes.machine.packed import little_endian, unpack_u64

MAX_DEDUP_ENTRIES = 1_250_000
"""Ids that a group remembers at once; every replica must have the same limit."""
SHARD_ENTRIES = 1024

_ENTRY = struct.Struct("<IQQQ")
"""The format DEDUP_ENTRY with its hash as two numbers, the high part first."""
_REST = struct.Struct("<QQQI")
"""The low part of the hash, the fingerprint, the position, and the queue's ordinal in the
bucket.
"""
_REST_BYTES = _REST.size
_STAGED = 1 << 63
"""The bit of a position that marks a stage number instead of an offset."""
NEVER_US = 2**64

assert _ENTRY.size == DEDUP_ENTRY.size


class PackedBucket(NamedTuple):
    """A bucket in a snapshot: the arrays of all its shards joined."""

    ends_us: int
    queues: list[bytes]
    keys: bytes
    rest: bytes


class OpenBucket(NamedTuple):
    """The parts of a PackedBucket, not copied yet: they are good until the table changes."""

    ends_us: int
    queues: list[bytes]
    keys: list[array[int]]
    rest: list[bytearray]


class _Shard:
    """Ids with neighbouring hashes.

    `keys` are the high parts, ascending; `rest` has the other fields of each, in the same order.
    """

    __slots__ = ("keys", "rest")

    def __init__(self, keys: array[int], rest: bytearray) -> None:
        self.keys = keys
        self.rest = rest


class _Bucket:
    """Ids that are forgotten together. Ids with equal high parts are in one shard."""

    __slots__ = ("_ordinals", "_shards", "_starts", "ends_us", "entries", "queues")

    def __init__(self, ends_us: int) -> None:
        self.ends_us = ends_us
        self.entries = 0
        self.queues: list[bytes] = []
        self._ordinals: dict[bytes, int] = {}
        self._shards = [_Shard(array("Q"), bytearray())]
        self._starts = [0]

    def find(self, high: int, low: int) -> tuple[int, int, bytes] | None:
        """Return the (fingerprint, position, queue) of an id, or None."""
        shard = self._shards[bisect_right(self._starts, high) - 1]
        keys = shard.keys
        at = bisect_left(keys, high)
        while at < len(keys) and keys[at] == high:
            found, fingerprint, position, ordinal = _REST.unpack_from(shard.rest, at * _REST_BYTES)
            if found == low:
                return fingerprint, position, self.queues[ordinal]
            at += 1
        return None

    def insert(self, high: int, low: int, fingerprint: int, position: int, queue: bytes) -> None:
        ordinal = self._ordinals.get(queue)
        if ordinal is None:
            ordinal = self._ordinals[queue] = len(self.queues)
            self.queues.append(queue)
        number = bisect_right(self._starts, high) - 1
        shard = self._shards[number]
        at = bisect_left(shard.keys, high)
        shard.keys.insert(at, high)
        at *= _REST_BYTES
        shard.rest[at:at] = _REST.pack(low, fingerprint, position, ordinal)
        self.entries += 1
        if len(shard.keys) > SHARD_ENTRIES:
            self._split(number)

    def _split(self, number: int) -> None:
        shard = self._shards[number]
        cut = _cut(shard.keys, len(shard.keys) // 2)
        if cut == len(shard.keys):
            return
        # Both halves are new arrays, because the old ones have room for the moved ids.
        halves = [
            _Shard(shard.keys[:cut], shard.rest[: cut * _REST_BYTES]),
            _Shard(shard.keys[cut:], shard.rest[cut * _REST_BYTES :]),
        ]
        self._shards[number : number + 1] = halves
        self._starts.insert(number + 1, halves[1].keys[0])

    def open(self) -> OpenBucket:
        keys = [little_endian(shard.keys) for shard in self._shards]
        return OpenBucket(self.ends_us, self.queues, keys, [shard.rest for shard in self._shards])

    @classmethod
    def unpack(cls, packed: PackedBucket) -> _Bucket:
        """Return the bucket of a snapshot; raises ValueError."""
        keys = unpack_u64(packed.keys)
        if len(packed.rest) != len(keys) * _REST_BYTES or not keys:
            raise ValueError("ids and their fields do not match")
        bucket = cls(packed.ends_us)
        bucket.queues = list(packed.queues)
        bucket._ordinals = {queue: at for at, queue in enumerate(bucket.queues)}
        bucket.entries = len(keys)
        bucket._shards = []
        start = 0
        while start < len(keys):
            # Shards are filled as splitting leaves them, so that not all of them split again at
            # once.
            end = _cut(keys, start + SHARD_ENTRIES * 3 // 4)
            rest = bytearray(packed.rest[start * _REST_BYTES : end * _REST_BYTES])
            bucket._shards.append(_Shard(keys[start:end], rest))
            start = end
        bucket._starts = [0, *(shard.keys[0] for shard in bucket._shards[1:])]
        edges = [key for shard in bucket._shards for key in (shard.keys[0], shard.keys[-1])]
        if edges != sorted(edges):
            raise ValueError("ids are not in the order of their hashes")
        return bucket


def _cut(keys: array[int], at: int) -> int:
    """Return the first place from `at` on where a shard may end, because equal keys stay
    together.
    """
    while 0 < at < len(keys) and keys[at] == keys[at - 1]:
        at += 1
    return min(at, len(keys))


def bucket_end(log_time_us: int, window_us: int) -> int:
    """Return the log time at which an id of this window is forgotten.

    The times are on a grid of at most a quarter of the window.
    """
    grid = 1 << ((window_us >> 2).bit_length() - 1)
    ends_us = (log_time_us + window_us) // grid * grid + grid
    assert window_us < ends_us - log_time_us <= window_us + window_us // 4, (
        f"a window of {window_us} that begins at {log_time_us} would end at {ends_us}"
    )
    return ends_us


class DedupTable:
    """The remembered ids of one group."""

    __slots__ = ("_buckets", "entries", "next_end_us")

    def __init__(self) -> None:
        self._buckets: list[_Bucket] = []
        """The buckets by `ends_us`, ascending."""
        self.entries = 0
        self.next_end_us = NEVER_US
        """The log time at which ids are to be forgotten next."""

    def forget(self, log_time_us: int) -> None:
        """Forget the ids that end at this log time or before."""
        buckets = self._buckets
        while buckets and buckets[0].ends_us <= log_time_us:
            self.entries -= buckets.pop(0).entries
        self.next_end_us = buckets[0].ends_us if buckets else NEVER_US

    def known(self, section: bytes, log_time_us: int = 0) -> dict[int, Known]:
        """Return the remembered entries of a dedup section by their index in the batch.

        `log_time_us` 0 stands for that of the last value applied, which forgot the ids that had
        ended.
        """
        found: dict[int, Known] = {}
        for index, high, low, fingerprint in _ENTRY.iter_unpack(section):
            entry = self._find(high, low, log_time_us)
            if entry is not None and index not in found:
                held, position, queue = entry
                staged = position >= _STAGED
                found[index] = Known(
                    position - _STAGED if staged else position, staged, held == fingerprint, queue
                )
        return found

    def has_room(self, section: bytes) -> bool:
        """Return whether the table has room for the ids of a section.

        Equal ids are counted each time, because the answer must not cost a look-up.
        """
        return self.entries + len(section) // _ENTRY.size <= MAX_DEDUP_ENTRIES

    def remember(
        self, section: bytes, queue: bytes, base: int, *, staged: bool, until_us: int
    ) -> None:
        """Remember the entries of a section, none of which is known yet.

        The first position is `base`; `until_us` comes from `bucket_end`.
        """
        bucket = self._bucket(until_us)
        first = base + (_STAGED if staged else 0)
        for index, high, low, fingerprint in _ENTRY.iter_unpack(section):
            if bucket.find(high, low) is None:
                bucket.insert(high, low, fingerprint, first + index, queue)
                self.entries += 1
        assert self.entries <= MAX_DEDUP_ENTRIES, f"{self.entries} ids are remembered"

    def _find(self, high: int, low: int, log_time_us: int) -> tuple[int, int, bytes] | None:
        # The newest bucket comes first, because most repetitions follow at once.
        for bucket in reversed(self._buckets):
            if bucket.ends_us <= log_time_us:
                return None
            found = bucket.find(high, low)
            if found is not None:
                return found
        return None

    def _bucket(self, ends_us: int) -> _Bucket:
        buckets = self._buckets
        at = bisect_left(buckets, ends_us, key=lambda bucket: bucket.ends_us)
        if at == len(buckets) or buckets[at].ends_us != ends_us:
            buckets.insert(at, _Bucket(ends_us))
            self.next_end_us = buckets[0].ends_us
        return buckets[at]

    # Snapshots.

    def open(self) -> list[OpenBucket]:
        """Return the buckets by the time they end; equal tables give equal bytes, however they are
        cut.
        """
        return [bucket.open() for bucket in self._buckets]

    @classmethod
    def unpack(cls, packed: list[PackedBucket]) -> DedupTable:
        """Return the table of a snapshot; raises ValueError."""
        table = cls()
        table._buckets = [_Bucket.unpack(bucket) for bucket in packed]
        ends = [bucket.ends_us for bucket in table._buckets]
        if any(later <= earlier for earlier, later in pairwise(ends)):
            raise ValueError("buckets of ids are not in the order in which they end")
        table.entries = sum(bucket.entries for bucket in table._buckets)
        table.forget(0)
        return table
