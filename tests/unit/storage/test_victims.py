"""Test which segments may go: at each bound, the last one that may and the first that may not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from store_nodes.storage.compaction import Victims
from store_nodes.storage.life import Life
from store_nodes.storage.victims import MIB, Rules, choose
from store_nodes.wal.compacted import CompactedList

SEGMENTS = range(1, 6)
RULES = Rules(segment_bytes=MIB, min_raw=1, max_raw=16)


@dataclass
class Log:
    """Five raw segments of 1 MiB, and no compacted one."""

    compacted: CompactedList = field(default_factory=lambda: CompactedList(first_segment=1))

    def sizes(self) -> dict[int, int]:
        return dict.fromkeys(SEGMENTS, MIB)

    @property
    def damages(self) -> Log:
        return self

    def open(self) -> list[Any]:
        return []


@dataclass
class Checkpoints:
    oldest_start: tuple[int, int] | None


def chosen(
    *,
    start: tuple[int, int] | None = (6, 0),
    attached: int = 5,
    floor: int | None = 1000,
    applied: int = 1000,
    rules: Rules = RULES,
) -> Victims | None:
    """Each segment ends with instance 10 × its number of group 7."""
    life = Life(lambda _: None, lambda *_: False, lambda _: floor, lambda _: applied)
    groups = {segment: [(7, 10 * segment)] for segment in SEGMENTS}
    log, checkpoints = cast(Any, Log()), cast(Any, Checkpoints(start))
    return choose(rules, log, checkpoints, groups, {}, {}, life, 1 << 40, attached)


def upto(victims: Victims | None) -> int:
    return 0 if victims is None else victims.raw_upto


@pytest.mark.parametrize("start", [1, 2, 4, 5])
def test_the_segment_that_a_start_reads_from_stays(start: int) -> None:
    """The start may also be behind all that was written in the segment so far."""
    assert upto(chosen(start=(start, MIB - 1))) == start - 1


@pytest.mark.parametrize("attached", [0, 1, 3, 5])
def test_a_segment_goes_once_its_index_is_attached(attached: int) -> None:
    assert upto(chosen(attached=attached)) == attached


@pytest.mark.parametrize("last", [10, 30])
def test_a_segment_stays_while_a_member_needs_its_last_instance(last: int) -> None:
    """All below the floor was applied by every member: the floor itself was not."""
    assert upto(chosen(floor=last)) == last // 10 - 1
    assert upto(chosen(floor=last + 1)) == last // 10


def test_past_the_lag_cap_only_what_is_applied_here_counts() -> None:
    """The log loses no more than the part beyond the cap."""
    capped = RULES._replace(lag_cap_bytes=3 * MIB)
    assert upto(chosen(floor=0, rules=capped)) == 2
    assert upto(chosen(floor=0, applied=20, rules=capped)) == 1
    assert upto(chosen(floor=None, rules=RULES)) == 0


def test_without_a_checkpoint_nothing_goes() -> None:
    assert chosen(start=None) is None


def test_the_victims_say_what_is_not_kept_any_more() -> None:
    victims = chosen(start=(4, 0))
    assert victims is not None
    assert victims.segments == frozenset({1, 2, 3})
    assert victims.oldest == {7: 31}
