from __future__ import annotations

from gateway.http.unsent import LEAST_BYTES, Account, UnsentBytes, UnsentLimits

LIMITS = UnsentLimits(connection_bytes=100, tenant_bytes=150, process_bytes=300, timeout_s=30.0)


class Place:
    """Accounts of connections, and what they were told."""

    def __init__(self, limits: UnsentLimits = LIMITS) -> None:
        self.now_s = 0.0
        self.unsent = UnsentBytes(limits, lambda: self.now_s)
        self.ended: list[tuple[str, str]] = []

    def account(self, name: str) -> Account:
        return Account(lambda why: self.ended.append((name, why)))

    def note(self, account: Account, tenant_id: bytes, unsent: int, taken: int = 0) -> None:
        self.unsent.note(account, tenant_id, unsent, unsent + taken)

    def at(self, now_s: float, account: Account) -> None:
        self.now_s = now_s
        self.unsent.sweep(account, now_s)


def test_a_connection_beyond_its_bound_is_ended() -> None:
    place = Place()
    one = place.account("one")
    place.note(one, b"a", 100)
    assert not place.ended
    place.note(one, b"a", 101)
    assert place.ended == [("one", "unsent")]
    assert place.unsent.total_bytes == 0
    place.note(one, b"a", 50)  # said once more before its socket is gone
    assert place.unsent.total_bytes == 0


def test_of_a_tenant_the_connection_ends_that_stood_still_for_longest() -> None:
    place = Place()
    old, new, other = place.account("old"), place.account("new"), place.account("other")
    place.note(other, b"b", 90)
    place.note(old, b"a", 60)
    place.now_s = 1.0
    place.note(new, b"a", 90)
    assert not place.ended
    place.note(new, b"a", 91)
    assert place.ended == [("old", "unsent")]
    assert place.unsent.total_bytes == 181


def test_where_the_process_is_full_the_tenant_with_most_loses_one() -> None:
    place = Place()
    for number in range(5):
        place.now_s = number
        place.note(place.account(f"a{number}"), b"a", 28)
    for tenant in (b"b", b"c"):
        place.note(place.account(tenant.decode()), tenant, 80)
    assert not place.ended
    place.note(place.account("d"), b"d", 10)
    assert place.ended == [("a0", "unsent")]


def test_what_a_connection_has_counts_for_whose_answers_they_are() -> None:
    place = Place()
    one, two = place.account("one"), place.account("two")
    place.note(one, b"a", 90)
    place.note(one, b"b", 90)
    place.now_s = 1.0
    place.note(two, b"a", 90)
    assert not place.ended
    place.note(two, b"b", 91)
    assert place.ended == [("one", "unsent")]


def test_who_takes_nothing_for_the_timeout_is_ended() -> None:
    place = Place()
    one = place.account("one")
    place.now_s = 1000.0
    place.note(one, b"", 50)
    place.at(1030.0, one)
    assert not place.ended
    place.at(1030.1, one)
    assert place.ended == [("one", "stalled")]
    assert place.unsent.total_bytes == 0


def test_who_takes_enough_of_a_stream_is_not_ended() -> None:
    place = Place()
    one, taken = place.account("one"), 0
    for second in range(0, 300, 29):
        taken += LEAST_BYTES
        place.now_s = second
        place.note(one, b"", 50, taken)
        place.at(second, one)
    assert not place.ended


def test_who_takes_too_little_of_what_waits_is_ended() -> None:
    place = Place(UnsentLimits(timeout_s=30.0))
    one, taken = place.account("one"), 0
    for second in range(0, 100, 10):
        taken += LEAST_BYTES // 8
        place.now_s = second
        place.note(one, b"", 4 * LEAST_BYTES, taken)
        place.at(second, one)
    assert place.ended == [("one", "stalled")]


def test_who_takes_all_that_waited_each_time_is_not_ended() -> None:
    """A stream that says little, and says it just before each look, is not a stalled one."""
    place = Place()
    one = place.account("one")
    for second in range(100):
        place.now_s = second
        place.note(one, b"", 20, 20 * second)
        place.at(second, one)
    assert not place.ended


def test_who_had_taken_all_has_the_whole_timeout_again() -> None:
    place = Place()
    one = place.account("one")
    place.note(one, b"", 50)
    place.now_s = 29.0
    place.note(one, b"", 0, 50)
    place.note(one, b"", 10, 50)
    place.at(58.0, one)
    assert not place.ended


def test_a_lost_connection_has_nothing() -> None:
    place = Place()
    one = place.account("one")
    place.note(one, b"a", 50)
    place.unsent.forget(one)
    place.note(one, b"a", 50)
    assert place.unsent.total_bytes == 0
    assert not place.ended
