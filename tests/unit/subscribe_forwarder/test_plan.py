"""Test where units should be, and what a forwarder does about it, over random fleets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from metadata.types import Unit
from subscribe_forwarder.fleet.members import Member
from subscribe_forwarder.fleet.plan import MAX_GIVEN, WantedOwners, plan
from subscribe_forwarder.fleet.rendezvous import home

TENANT = b"t" * 16
KEYS = [number.to_bytes(16, "big") for number in range(2000)]
NOBODY: frozenset[bytes] = frozenset()


def member(number: int) -> bytes:
    return bytes([number]) * 16


def living(
    numbers: list[int], weights: Mapping[int, float] | None = None, settled_s: float = 0.0
) -> dict[bytes, Member]:
    return {
        member(n): Member(member(n), "h:1", (weights or {}).get(n, 1.0), 1e9, settled_s, False)
        for n in numbers
    }


def homes(weights: Mapping[bytes, float]) -> dict[bytes, bytes | None]:
    return {key: home(key, weights) for key in KEYS}


def unit(topic: int = 0, partition: int = 0, subscription: int = 0) -> Unit:
    uid = subscription.to_bytes(16, "big")
    return Unit(TENANT, KEYS[topic], partition, uid)


def test_a_home_is_the_same_in_every_process() -> None:
    weights = {member(1): 1.0, member(2): 2.5, member(3): 1.0}
    found = [home(key, weights) for key in KEYS[:6]]
    assert found == [home(key, dict(reversed(weights.items()))) for key in KEYS[:6]]
    assert home(b"k", {}) is None


@settings(max_examples=20, deadline=None)
@given(st.sets(st.integers(1, 60), min_size=2, max_size=8), st.integers(61, 90))
def test_who_comes_takes_its_share_and_who_goes_leaves_only_its_own(
    numbers: set[int], newcomer: int
) -> None:
    before = dict.fromkeys(map(member, numbers), 1.0)
    after = before | {member(newcomer): 1.0}
    first, second = homes(before), homes(after)
    moved = [key for key in KEYS if first[key] != second[key]]
    assert {second[key] for key in moved} == {member(newcomer)}
    share = len(KEYS) / len(after)
    assert 0.6 * share <= len(moved) <= 1.4 * share


def test_weights_are_shares() -> None:
    weights = {member(1): 1.0, member(2): 1.0, member(3): 2.0}
    counts = Counter(homes(weights).values())
    assert 850 <= counts[member(3)] <= 1150
    assert 400 <= counts[member(1)] <= 600


def test_partitions_of_a_topic_have_one_home_but_for_hints() -> None:
    places = WantedOwners(living([1, 2, 3]), {unit(5, 2): member(3)})
    assert len({places.of(unit(5, number)) for number in (0, 1, 3, 4)}) == 1
    assert places.of(unit(5, 2)) == member(3)


def test_a_hint_for_one_who_does_not_live_says_nothing() -> None:
    hints = {unit(5, 2): member(9), unit(5, 2, 4): member(9)}
    places, without = WantedOwners(living([1, 2, 3]), hints), WantedOwners(living([1, 2, 3]), {})
    assert places.of(unit(5, 2)) == without.of(unit(5, 2))
    assert places.parted(unit(5, 2, 4)) is None
    assert places.to_split() == []


hint_maps = st.dictionaries(
    st.builds(unit, st.integers(0, 5), st.integers(0, 2), st.integers(0, 3)),
    st.integers(1, 7).map(member),
    max_size=12,
)


class Fleet:
    """Forwarders that carry out their plans, one after the other, as Postgres would let them."""

    def __init__(self, numbers: list[int], hints: Mapping[Unit, bytes]) -> None:
        self.members = living(numbers)
        self.places = WantedOwners(self.members, hints)
        self.owned: dict[bytes, set[Unit]] = {one: set() for one in self.members}
        self.bases = {unit(topic, number) for topic in range(6) for number in range(3)}
        self.parts: set[Unit] = set()

    def join(self, number: int) -> None:
        self.members = living([*(one[0] for one in self.members), number])
        self.owned[member(number)] = set()
        self.places = WantedOwners(self.members, self.places._hints)

    def die(self, one: bytes) -> None:
        self.members = {key: value for key, value in self.members.items() if key != one}
        del self.owned[one]
        self.places = WantedOwners(self.members, self.places._hints)

    def free(self) -> set[Unit]:
        return (self.bases | self.parts) - {each for owned in self.owned.values() for each in owned}

    def split_off(self, one: bytes) -> dict[Unit, frozenset[bytes]]:
        return {
            key: frozenset(
                part.subscription_uid for part in self.parts if part.base == key and key.base == key
            )
            for key in self.owned[one]
        }

    def round(self) -> int:
        """Carry out one round of every plan; return the number of actions."""
        done = 0
        for me in self.members:
            todo = plan(
                me, self.places, self.split_off(me), self.free(), 10.0, reachable=self.members
            )
            assert not set(todo.claim) & set(todo.merge)
            self.owned[me] -= set(todo.give)
            self.parts |= set(todo.split)
            self.parts -= set(todo.merge)
            self.owned[me] |= set(todo.claim)
            done += sum(map(len, (todo.give, todo.split, todo.merge, todo.claim)))
        return done

    def settle(self) -> None:
        for _ in range(12):
            if not self.round():
                return
        raise AssertionError("it never comes to rest")

    def check(self) -> None:
        owned = [each for units in self.owned.values() for each in units]
        assert len(owned) == len(set(owned)), "one owner each"
        assert set(owned) == self.bases | self.parts
        assert self.parts == set(self.places.to_split()) & {
            each for each in self.places.to_split() if each.base in self.bases
        }
        for me, units in self.owned.items():
            for each in units:
                assert self.places.of(each) == me


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=5, unique=True), hint_maps, hint_maps)
def test_a_fleet_comes_to_rest_with_every_unit_where_it_is_wanted(
    numbers: list[int], hints: dict[Unit, bytes], other_hints: dict[Unit, bytes]
) -> None:
    fleet = Fleet(numbers, hints)
    fleet.settle()
    fleet.check()
    fleet.join(7)
    fleet.settle()
    fleet.check()
    fleet.places = WantedOwners(fleet.members, other_hints)
    fleet.settle()
    fleet.check()
    fleet.die(next(iter(fleet.members)))
    fleet.settle()
    fleet.check()


def test_what_is_given_away_is_bounded_and_topic_by_topic() -> None:
    places = WantedOwners(living([1, 2]), {})
    away = [n for n in range(200) if places.of(unit(n)) == member(2)]
    owned = {unit(n, number): NOBODY for n in away for number in range(4)}
    todo = plan(member(1), places, owned, (), 10.0, reachable=places.living)
    assert len(todo.give) == MAX_GIVEN
    partly = {each.topic_uid for each in todo.give} & {
        each.topic_uid for each in owned.keys() - set(todo.give)
    }
    assert len(partly) <= 1


def test_nothing_is_given_to_the_young_or_the_unreachable() -> None:
    everybody = living([1, 2])
    (away,) = [n for n in range(50) if WantedOwners(everybody, {}).of(unit(n)) == member(2)][:1]
    owned = {unit(away): NOBODY}
    young = WantedOwners(living([1, 2], settled_s=11.0), {})
    assert plan(member(1), young, owned, (), 10.0, reachable=everybody).give == []
    grown = WantedOwners(everybody, {})
    assert plan(member(1), grown, owned, (), 10.0, reachable={member(1)}).give == []
    assert plan(member(1), grown, owned, (), 10.0, reachable=everybody).give == [unit(away)]


def test_what_is_nobodys_is_claimed_by_the_young_too() -> None:
    young = WantedOwners(living([1, 2], settled_s=11.0), {})
    free = {unit(n) for n in range(20)}
    taken = [plan(member(n), young, {}, free, 10.0).claim for n in (1, 2)]
    assert sorted(taken[0] + taken[1]) == sorted(free)
    assert all(taken)
