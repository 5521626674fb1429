"""The choice of segments that a compaction should rewrite: rules only, without any file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from store_nodes.checkpoint.store import CheckpointStore
from store_nodes.storage.compaction import Victims
from store_nodes.storage.life import Life
from store_nodes.wal.log import WriteAheadLog
from store_nodes.wal.segment import FIRST_COMPACTED

MIB = 1024 * 1024
_SMALL_SHARE = 4
_MANY_SMALL = 8
_SPARE_BYTES = 64 * MIB


class Rules(NamedTuple):
    """The rules that say when to compact, and how much at once."""

    segment_bytes: int = 64 * MIB
    """Bytes of the segments written."""
    min_raw: int = 4
    """Raw segments taken at least, unless most of their bytes are dead.

    The more are merged at once, the longer the stretches of one queue that a reader finds.
    """
    max_raw: int = 16
    lag_cap_bytes: int = 4096 * MIB
    """Bytes of raw segments; beyond them, they go as soon as this node does not need them.

    A member that still needs them gets batches instead.
    """
    measure_every_s: float = 600.0


def choose(
    rules: Rules,
    wal: WriteAheadLog,
    checkpoints: CheckpointStore,
    groups: Mapping[int, list[tuple[int, int]]],
    held: Mapping[int, int],
    measured: Mapping[int, int],
    life: Life,
    free_bytes: int,
    attached: int,
) -> Victims | None:
    """Return the segments to rewrite; None while there is too little to do.

    `groups` has the (group, last instance) of each raw segment, `held` the estimated live bytes of
    each segment, `measured` the exact ones of compacted segments. `attached` is the last raw
    segment whose index is attached.
    """
    sizes = wal.sizes()
    raw = _raw(rules, wal, checkpoints, groups, life, attached, sizes)
    room = free_bytes - _SPARE_BYTES
    while raw and sum(held.get(one, 0) for one in raw) > room:
        raw.pop()
    raw_bytes = sum(sizes.get(one, 0) for one in raw)
    if len(raw) < rules.min_raw and 2 * sum(held.get(one, 0) for one in raw) > raw_bytes:
        raw = []
    compacted = [
        one for one in wal.compacted.segments if 2 * measured.get(one, sizes[one]) < sizes[one]
    ]
    if raw or compacted:
        small = [
            one
            for one in wal.compacted.segments
            if sizes[one] * _SMALL_SHARE < rules.segment_bytes and one not in compacted
        ]
        if len(small) >= _MANY_SMALL:
            compacted += small
    room -= sum(held.get(one, 0) for one in raw)
    taken: list[int] = []
    for one in compacted:
        live = measured.get(one, sizes[one])
        if live <= room and len(taken) < 2 * rules.max_raw:
            taken.append(one)
            room -= live
    if not raw and not taken:
        return None
    oldest: dict[int, int] = {}
    for segment in raw:
        for group, last in groups.get(segment, ()):
            oldest[group] = max(last + 1, oldest.get(group, 0))
    upto = raw[-1] if raw else wal.compacted.first_segment - 1
    assert all(one < FIRST_COMPACTED for one in raw)
    return Victims(upto, frozenset((*raw, *taken)), oldest)


def _raw(
    rules: Rules,
    wal: WriteAheadLog,
    checkpoints: CheckpointStore,
    groups: Mapping[int, list[tuple[int, int]]],
    life: Life,
    attached: int,
    sizes: Mapping[int, int],
) -> list[int]:
    """Return the raw segments, from the oldest on, that may go."""
    start = checkpoints.oldest_start
    if start is None:
        return []
    raw_bytes = sum(size for segment, size in sizes.items() if segment < FIRST_COMPACTED)
    open_damages = {one.segment for one in wal.damages.open()}
    found: list[int] = []
    for segment in range(wal.compacted.first_segment, min(start[0], attached + 1)):
        if segment in open_damages or len(found) == rules.max_raw:
            break
        floor = life.applied if raw_bytes > rules.lag_cap_bytes else life.floor
        floors = [(floor(group), last) for group, last in groups.get(segment, ())]
        if any(least is None or last >= least for least, last in floors):
            break
        found.append(segment)
        raw_bytes -= sizes.get(segment, 0)
    return found
