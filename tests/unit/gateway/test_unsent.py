from __future__ import annotations

from gateway.http.unsent import LEAST_BYTES, Account, UnsentBytes, UnsentLimits

LIMITS = UnsentLimits(connection_bytes=100, tenant_bytes=150, process_bytes=300, timeout_s=30.0)


class Place:
    """Accounts of connections, and what they were told."""

    def __init__(self) -> None:
        self.unsent = UnsentBytes(LIMITS)
        self.ended: list[tuple[str, str]] = []

    def account(self, name: str, now_s: float = 0.0) -> Account:
        return Account(lambda why: self.ended.append((name, why)), now_s)


def test_a_connection_beyond_its_bound_is_ended() -> None:
    place = Place()
    one = place.account("one")
    place.unsent.note(one, b"a", 100)
    assert not place.ended
    place.unsent.note(one, b"a", 101)
    assert place.ended == [("one", "unsent")]
    assert place.unsent.total_bytes == 0
    place.unsent.note(one, b"a", 50)  # said once more before its socket is gone
    assert place.unsent.total_bytes == 0


def test_of_a_tenant_the_connection_ends_that_stood_still_for_longest() -> None:
    place = Place()
    old, new, other = place.account("old", 1), place.account("new", 2), place.account("other", 0)
    place.unsent.note(other, b"b", 90)
    place.unsent.note(new, b"a", 90)
    place.unsent.note(old, b"a", 90)
    assert place.ended == [("old", "unsent")]
    assert place.unsent.total_bytes == 180


def test_where_the_process_is_full_the_tenant_with_most_loses_one() -> None:
    place = Place()
    for number in range(5):
        place.unsent.note(place.account(f"a{number}", number), b"a", 28)
    for tenant in (b"b", b"c"):
        place.unsent.note(place.account(tenant.decode(), 0), tenant, 80)
    assert not place.ended
    place.unsent.note(place.account("d", 0), b"d", 10)
    assert place.ended == [("a0", "unsent")]


def test_what_a_connection_has_counts_for_whose_answers_they_are() -> None:
    place = Place()
    one, two = place.account("one", 1), place.account("two", 2)
    place.unsent.note(one, b"a", 90)
    place.unsent.note(one, b"b", 90)
    place.unsent.note(two, b"a", 90)
    assert not place.ended
    place.unsent.note(two, b"b", 91)
    assert place.ended == [("one", "unsent")]


def test_who_takes_nothing_for_the_timeout_is_ended() -> None:
    place = Place()
    one = place.account("one")
    place.unsent.note(one, b"", 50)
    place.unsent.sweep(one, 30.0, 50)
    assert not place.ended
    place.unsent.sweep(one, 30.1, 50)
    assert place.ended == [("one", "stalled")]
    assert place.unsent.total_bytes == 0


def test_who_takes_enough_of_a_stream_is_not_ended() -> None:
    place = Place()
    one, given = place.account("one"), 0
    for second in range(0, 300, 29):
        given += LEAST_BYTES
        place.unsent.note(one, b"", 50)
        place.unsent.sweep(one, second, given + 50)
    assert not place.ended
    for second in range(300, 400, 10):
        given += LEAST_BYTES // 8
        place.unsent.note(one, b"", 50)
        place.unsent.sweep(one, second, given + 50)
    assert place.ended == [("one", "stalled")]


def test_who_had_taken_all_has_the_whole_timeout_again() -> None:
    place = Place()
    one = place.account("one")
    place.unsent.sweep(one, 1000.0, 0)
    place.unsent.note(one, b"", 50)
    place.unsent.sweep(one, 1029.0, 50)
    assert not place.ended


def test_a_lost_connection_has_nothing() -> None:
    place = Place()
    one = place.account("one")
    place.unsent.note(one, b"a", 50)
    place.unsent.forget(one)
    place.unsent.note(one, b"a", 50)
    assert place.unsent.total_bytes == 0
    assert not place.ended
