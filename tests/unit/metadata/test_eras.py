"""Test which positions of Postgres count as going back in its history, and which do not."""

from __future__ import annotations

import pytest

from metadata.eras import HistoryCheck, Position, behind_store, went_back
from metadata.errors import MetadataUnavailable


def at(wal_bytes: int, era: int | None = 0, **different: object) -> Position:
    position = Position("one", 1, wal_bytes, era, None if era is None else "one", 1)
    return position._replace(**different)


@pytest.mark.parametrize(
    ("seen", "now", "why"),
    [
        (None, at(5), None),
        (None, at(5, None), None),
        (at(5), at(5), None),
        (at(5), at(9), None),
        (at(5), at(4), "its log ends 1 bytes before"),
        (at(5, 2), at(900, 1), "era 2 is not in it"),
        (at(5), at(9, None), "era 0 is not in it"),
        # After a repair, by another process, the log may well be shorter.
        (at(5, 1), at(4, 2), None),
        (None, at(5, system_identifier="other"), "another server"),
        (at(5), at(9, timeline=2), "another timeline"),
    ],
)
def test_going_back_is_noticed(seen: Position | None, now: Position, why: str | None) -> None:
    found = went_back(seen, now)
    assert (found is None) == (why is None)
    assert why is None or (found is not None and found.startswith(why))


@pytest.mark.parametrize(
    ("now", "store_era", "witness", "behind"),
    [
        (at(5), 0, 0, False),
        (at(5), 0, 5, False),
        (at(5), 0, 6, True),
        (at(5, None), 0, 6, True),
        (at(900), 1, 0, True),
        (at(900, None), 1, 0, True),
        (at(5, 1), 1, 5, False),
    ],
)
def test_the_store_knows_more(now: Position, store_era: int, witness: int, behind: bool) -> None:
    assert (behind_store(now, store_era, witness) is not None) == behind


async def greeted(history: HistoryCheck, position: Position) -> bool:
    class Connection:
        async def fetchrow(self, _: str) -> Position:
            return position

    try:
        await history.check(Connection())
    except MetadataUnavailable:
        return False
    return True


async def test_no_connection_is_used_before_the_store_was_asked() -> None:
    history = HistoryCheck()
    assert not await greeted(history, at(5))
    history.confirm(at(5))
    assert await greeted(history, at(5))


async def test_a_connection_to_the_past_is_refused_until_it_is_repaired() -> None:
    history = HistoryCheck()
    history.confirm(at(5))
    assert not await greeted(history, at(4))
    assert history.doubted.is_set()
    assert not await greeted(history, at(90)), "growing past it makes it no better"
    history.confirm(at(7, 1))
    assert await greeted(history, at(8, 1))


async def test_an_era_that_another_process_began_is_used_and_compared() -> None:
    history = HistoryCheck()
    history.confirm(at(50))
    assert await greeted(history, at(7, 1))
    assert history.doubted.is_set()
    assert not await greeted(history, at(60)), "and the one before it no more"


async def test_answers_that_come_late_are_not_taken_for_the_past() -> None:
    history = HistoryCheck()
    history.confirm(at(5))
    before = history.seen
    history.saw(at(9), before)
    history.saw(at(7), before)  # asked at the same time, answered first, heard last
    assert history.suspicion is None
    assert history.seen == at(9)
