"""Ranges of what is had, beside a twin that remembers every number."""

from __future__ import annotations

import random

from store_nodes.backup.held import Held
from store_nodes.wal.footer import APPENDED, STAGED, BatchEntry
from store_nodes.wal.position import Position

QUEUE = bytes(25)


def entry(first: int, end: int, flags: int = APPENDED) -> BatchEntry:
    return BatchEntry(QUEUE, first, end - first, 0, Position(0, 0, 0), flags)


def test_what_is_missing_is_what_was_never_added() -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    dice = random.Random(seed)
    for _ in range(300):
        held, twin = Held(), set[int]()
        for _ in range(dice.randint(0, 12)):
            first = dice.randint(0, 40)
            end = first + dice.randint(1, 9)
            held.add(entry(first, end))
            twin |= set(range(first, end))
        low = dice.randint(0, 40)
        high = low + dice.randint(0, 30)
        gaps = held.missing(QUEUE, low, high)
        assert [n for gap in gaps for n in range(*gap)] == sorted(set(range(low, high)) - twin)
        assert all(gap[0] < gap[1] for gap in gaps)


def test_stage_numbers_are_no_offsets_and_queues_no_others() -> None:
    held = Held()
    held.add(entry(0, 5, STAGED))
    assert held.missing(QUEUE, 0, 5) == [(0, 5)]
    assert held.missing(QUEUE, 0, 5, staged=True) == []
    assert held.missing(b"x" * 25, 0, 5, staged=True) == [(0, 5)]
