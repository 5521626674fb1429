"""Changes are told to those who asked for them, and to nobody else."""

from __future__ import annotations

from collections.abc import Sequence

from metadata.types import Unit
from subscribe_forwarder.fleet.backlogs.local import Seen
from subscribe_forwarder.fleet.backlogs.part import Share, Wanted
from subscribe_forwarder.fleet.backlogs.tracker import HERE, Change, Tracker

TENANT, TOPIC, OTHER_TOPIC = b"t" * 16, b"p" * 16, b"q" * 16
UNIT = Unit(TENANT, TOPIC, 0)
PEER = b"peer"


def uid(number: int) -> bytes:
    return number.to_bytes(16, "big")


def wanted(number: int, topic: bytes = TOPIC, partitions: int = 1) -> Wanted:
    return Wanted(TENANT, topic, uid(number), partitions)


class Counts:
    """Holdings whose numbers a test sets; how often they were looked at."""

    def __init__(self) -> None:
        self.seen: dict[bytes, Seen] = {}
        self.looks = 0

    def set(self, number: int, messages: int, leased: int = 0, delivered: int = 0) -> None:
        self.seen[uid(number)] = Seen((Share(0, messages, leased),), delivered=delivered)

    def see(self, one: Wanted) -> Seen:
        self.looks += 1
        return self.seen.get(one.subscription_uid, Seen())

    async def load(self, some: Sequence[Wanted]) -> set[bytes]:
        return set()


def changes(tracker: Tracker, now_s: float) -> list[Change]:
    return [change for change in tracker.changes(now_s) if change is not None]


def told(tracker: Tracker, now_s: float) -> list[tuple[int, frozenset[bytes]]]:
    return [(change.part.messages, change.for_whom) for change in changes(tracker, now_s)]


def test_who_begins_to_want_is_told_what_is_known() -> None:
    counts = Counts()
    counts.set(1, 5)
    tracker = Tracker(counts)
    assert tracker.want(PEER, wanted(1), 0.0).messages == 5


def test_a_change_is_told_once_to_all_who_want_it() -> None:
    counts = Counts()
    tracker = Tracker(counts)
    tracker.want(PEER, wanted(1), 0.0)
    tracker.want(HERE, wanted(1), 0.0)
    changes(tracker, 0.0)
    counts.set(1, 7)
    assert tracker.worked(uid(1))
    assert told(tracker, 2.0) == [(7, frozenset([PEER, HERE]))]
    assert told(tracker, 4.0) == []


def test_a_tail_that_grew_changes_all_its_subscriptions() -> None:
    counts = Counts()
    tracker = Tracker(counts)
    for number in (1, 2):
        tracker.want(PEER, wanted(number), 0.0)
    tracker.want(PEER, wanted(3, OTHER_TOPIC), 0.0)
    changes(tracker, 0.0)
    for number in (1, 2, 3):
        counts.set(number, number)
    assert tracker.grew(UNIT)
    assert sorted(messages for messages, _ in told(tracker, 2.0)) == [1, 2]


def test_many_changes_are_told_once_a_second() -> None:
    counts = Counts()
    tracker = Tracker(counts)
    tracker.want(PEER, wanted(1), 0.0)
    changes(tracker, 0.0)
    heard = []
    for step in range(1, 50):
        counts.set(1, step)
        tracker.grew(UNIT)
        tracker.worked(uid(1))
        heard += told(tracker, step / 10)
    assert len(heard) == 4
    assert tracker.next_s() is not None
    assert told(tracker, 7.0) == [(49, frozenset([PEER]))]


def test_what_nobody_wants_is_never_looked_at() -> None:
    counts = Counts()
    tracker = Tracker(counts)
    assert not tracker.grew(UNIT)
    assert not tracker.worked(uid(1))
    assert (changes(tracker, 0.0), counts.looks, tracker.next_s()) == ([], 0, None)


def test_ten_thousand_idle_subscriptions_are_looked_at_once() -> None:
    counts = Counts()
    tracker = Tracker(counts)
    for number in range(10_000):
        tracker.want(PEER, wanted(number), 0.0)
    changes(tracker, 0.0)
    looks = counts.looks
    for second in range(1, 60):
        assert changes(tracker, float(second)) == []
    assert (counts.looks, tracker.next_s()) == (looks, None)


def test_what_is_leased_is_looked_at_until_it_is_not() -> None:
    """A lease that ends uncounted tells nobody."""
    counts = Counts()
    counts.set(1, 5, leased=2)
    tracker = Tracker(counts)
    tracker.want(PEER, wanted(1), 0.0)
    changes(tracker, 0.0)
    counts.set(1, 5)
    (change,) = changes(tracker, 1.0)
    assert change.part.leased == 0
    changes(tracker, 2.0)
    assert tracker.next_s() is None


def test_a_rate_is_of_the_last_second_and_falls_by_itself() -> None:
    counts = Counts()
    counts.set(1, 100, delivered=40)
    tracker = Tracker(counts)
    tracker.want(PEER, wanted(1), 0.0)
    changes(tracker, 0.0)
    rates = {}
    for second, delivered in ((1, 60), (2, 90), (3, 90), (4, 90)):
        counts.set(1, 100 - delivered, delivered=delivered)
        if delivered < 90 or second == 2:
            tracker.worked(uid(1))
        for change in changes(tracker, float(second)):
            rates[second] = change.part.delivered_per_s
    assert rates == {1: 20.0, 2: 30.0, 3: 0.0}


def test_a_hub_opened_anew_counts_from_nothing() -> None:
    counts = Counts()
    counts.set(1, 5, delivered=40)
    tracker = Tracker(counts)
    tracker.want(PEER, wanted(1), 0.0)
    counts.set(1, 5, delivered=10)
    (change,) = changes(tracker, 1.0)
    assert change.part.delivered_per_s == 10.0


def test_what_was_not_received_is_told_again() -> None:
    counts = Counts()
    tracker = Tracker(counts)
    tracker.want(PEER, wanted(1), 0.0)
    counts.set(1, 3)
    tracker.worked(uid(1))
    changes(tracker, 1.0)
    tracker.again(uid(1))
    assert told(tracker, 3.0) == [(3, frozenset([PEER]))]


def test_nobody_misses_what_changed_while_another_began_to_want() -> None:
    counts = Counts()
    tracker = Tracker(counts)
    tracker.want(PEER, wanted(1), 0.0)
    changes(tracker, 0.0)
    counts.set(1, 3)
    tracker.worked(uid(1))
    assert tracker.want(HERE, wanted(1), 1.0).messages == 3
    assert told(tracker, 2.0) == [(3, frozenset([PEER, HERE]))]


def test_who_has_gone_is_told_nothing() -> None:
    counts = Counts()
    tracker = Tracker(counts)
    tracker.want(PEER, wanted(1), 0.0)
    tracker.want(PEER, wanted(2), 0.0)
    tracker.want(HERE, wanted(2), 0.0)
    tracker.unwant_all(PEER)
    assert len(tracker) == 1
    counts.set(2, 1)
    assert told(tracker, 1.0) == [(1, frozenset([HERE]))]
    tracker.unwant(HERE, [uid(2), uid(3)])
    assert (len(tracker), tracker.grew(UNIT), tracker.next_s()) == (0, False, None)


def test_what_is_owned_and_not_known_is_to_be_loaded() -> None:
    counts = Counts()
    counts.seen[uid(1)] = Seen(missing=(UNIT,))
    tracker = Tracker(counts)
    tracker.want(HERE, wanted(1), 0.0)
    changes(tracker, 0.0)
    assert list(tracker.missing) == [uid(1)]
