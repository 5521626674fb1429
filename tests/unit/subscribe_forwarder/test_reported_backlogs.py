"""Test how the reports of forwarders about a subscription are joined."""

from __future__ import annotations

from subscribe_forwarder.fleet.backlogs.part import Part, Share
from subscribe_forwarder.fleet.backlogs.reported import STALE_S, ReportedBacklogs

S = b"s" * 16
ONE, TWO, THREE = b"1", b"2", b"3"


def part(number: int, *shares: tuple[int, int, int], waiting: int = 0, per_s: float = 0) -> Part:
    return Part(S, number, tuple(Share(*one) for one in shares), waiting, 0, per_s)


def test_parts_of_several_forwarders_are_one_backlog() -> None:
    told = ReportedBacklogs()
    assert told.take(ONE, part(1, (0, 5, 1), (2, 1, 0), per_s=1.5), 0)
    assert told.take(TWO, part(1, (1, 7, 2), per_s=2.0), 0)
    whole = told.view(S, 3)
    assert [share.partition for share in whole.shares] == [0, 1, 2]
    assert (whole.messages, whole.leased, whole.delivered_per_s) == (13, 3, 3.5)
    assert whole.complete


def test_a_partition_nobody_tells_of_makes_it_incomplete() -> None:
    told = ReportedBacklogs()
    told.take(ONE, part(1, (0, 5, 0)), 0)
    assert not told.view(S, 2).complete
    assert told.view(S, 1).complete
    assert not ReportedBacklogs().view(S, 1).complete


def test_an_older_part_changes_nothing() -> None:
    told = ReportedBacklogs()
    told.take(ONE, part(4, (0, 5, 0)), 0)
    assert not told.take(ONE, part(3, (0, 9, 0)), 0)
    assert told.view(S, 1).messages == 5


def test_a_part_that_says_the_same_is_no_news() -> None:
    told = ReportedBacklogs()
    assert told.take(ONE, part(1, (0, 5, 0)), 0)
    assert not told.take(ONE, part(2, (0, 5, 0)), 0)
    assert told.take(ONE, part(3, (0, 6, 0)), 0)


def test_a_consumer_in_line_at_two_forwarders_is_one() -> None:
    told = ReportedBacklogs()
    told.take(ONE, part(1, (0, 0, 0), waiting=3), 0)
    told.take(TWO, part(1, (1, 0, 0), waiting=2), 0)
    assert told.view(S, 2).waiting == 3


def test_what_a_lost_forwarder_told_stays_for_a_while_and_is_marked() -> None:
    told = ReportedBacklogs()
    told.take(ONE, part(1, (0, 5, 0)), 0)
    told.take(TWO, part(1, (1, 7, 0)), 0)
    assert told.gone(TWO, 10.0) == {S}
    assert (told.view(S, 2).messages, told.view(S, 2).complete) == (12, False)
    assert told.any_stale
    assert told.expire(10.0 + STALE_S - 0.1) == set()
    assert told.expire(10.0 + STALE_S) == {S}
    assert (told.view(S, 2).messages, told.view(S, 2).complete) == (5, False)
    assert not told.any_stale


def test_the_successor_replaces_what_the_lost_one_told() -> None:
    told = ReportedBacklogs()
    told.take(ONE, part(1, (0, 5, 0), (1, 1, 0)), 0)
    told.gone(ONE, 1.0)
    told.take(TWO, part(1, (0, 4, 0)), 2.0)
    told.take(THREE, part(1, (1, 2, 0)), 2.0)
    whole = told.view(S, 2)
    assert (whole.messages, whole.complete) == (6, True)
    assert told.expire(100.0) == set()


def test_a_unit_given_away_counts_once_whoever_tells_first() -> None:
    for taker_first in (True, False):
        told = ReportedBacklogs()
        told.take(ONE, part(1, (0, 5, 0), (1, 1, 0)), 0)
        changes = [(TWO, part(1, (1, 3, 0))), (ONE, part(2, (0, 5, 0)))]
        for who, one in changes if taker_first else changes[::-1]:
            told.take(who, one, 1.0)
        whole = told.view(S, 2)
        assert (whole.messages, whole.complete) == (8, True), taker_first


def test_a_forwarder_of_nothing_is_not_remembered() -> None:
    told = ReportedBacklogs()
    assert not told.take(ONE, part(1), 0)
    assert len(told) == 0


def test_the_most_that_is_free_comes_first_and_the_empty_last() -> None:
    told = ReportedBacklogs()
    told.take(ONE, part(1, (0, 5, 5)), 0)
    told.take(TWO, part(1, (1, 4, 1)), 0)
    told.take(THREE, part(1, (2, 9, 1)), 0)
    assert told.most_backlog_first(S, [ONE, b"new", TWO, THREE]) == [THREE, TWO, b"new", ONE]


def test_what_is_forgotten_is_unknown() -> None:
    told = ReportedBacklogs()
    told.take(ONE, part(1, (0, 5, 0)), 0)
    told.gone(ONE, 0)
    told.forget(S)
    assert (told.view(S, 1).messages, told.any_stale) == (0, False)
