"""The rules of membership: one node a step, majorities that meet, ids that never come back."""

from __future__ import annotations

from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store_nodes.commands import Reconfigure
from store_nodes.errors import Conflict, NotAllowed
from store_nodes.membership import LEARNER, REMOVED, VOTER, ZONE, Member, Membership

FIRST = Membership.first({2: ("b:1", "y"), 1: ("a:1", "x"), 3: ("c:1", "")})


def step(version: int, node: int, role: str, address: str = "", **labels: str) -> Reconfigure:
    return Reconfigure(version, node, role, address, labels)


def test_the_first_membership_is_in_node_order() -> None:
    assert FIRST.members == (
        Member(1, VOTER, "a:1", {ZONE: "x"}),
        Member(2, VOTER, "b:1", {ZONE: "y"}),
        Member(3, VOTER, "c:1", {}),
    )
    assert (FIRST.version, FIRST.voters, FIRST.learners, FIRST.majority) == (0, (1, 2, 3), (), 2)


def test_a_life() -> None:
    found = FIRST.after(step(1, 4, LEARNER, "d:1", zone="z"))
    assert (found.voters, found.learners) == ((1, 2, 3), (4,))
    found = found.after(step(2, 4, VOTER))
    assert found.member(4) == Member(4, VOTER, "d:1", {ZONE: "z"})
    assert found.majority == 3
    found = found.after(step(3, 1, LEARNER)).after(step(4, 1, REMOVED))
    assert (found.voters, found.removed) == ((2, 3, 4), (1,))
    assert found.member(1) is None
    assert found.version == 4


def test_address_and_labels_change_in_place() -> None:
    found = FIRST.after(step(1, 1, VOTER, "new:1", zone="q", rack="7"))
    assert found.member(1) == Member(1, VOTER, "new:1", {ZONE: "q", "rack": "7"})
    found = found.after(step(2, 1, VOTER, rack="", zone="q"))
    assert found.member(1) == Member(1, VOTER, "new:1", {ZONE: "q"})


@pytest.mark.parametrize("version", [0, 2, 9])
def test_a_step_names_the_next_version(version: int) -> None:
    with pytest.raises(Conflict) as caught:
        FIRST.after(step(version, 4, LEARNER, "d:1"))
    assert caught.value.current == 0


@pytest.mark.parametrize(
    "bad",
    [
        step(1, 0, LEARNER, "d:1"),
        step(1, 1 << 16, LEARNER, "d:1"),
        step(1, 4, VOTER, "d:1"),
        step(1, 4, LEARNER),
        step(1, 4, REMOVED),
        step(1, 1, "king"),
    ],
)
def test_what_a_step_may_not_do(bad: Reconfigure) -> None:
    with pytest.raises(NotAllowed):
        FIRST.after(bad)


def test_a_removed_id_never_comes_back() -> None:
    found = FIRST.after(step(1, 3, REMOVED))
    for role in (LEARNER, VOTER, REMOVED):
        with pytest.raises(NotAllowed):
            found.after(step(2, 3, role, "c:2"))


def test_the_last_voter_stays() -> None:
    found = FIRST.after(step(1, 3, REMOVED)).after(step(2, 2, LEARNER))
    for role in (LEARNER, REMOVED):
        with pytest.raises(NotAllowed):
            found.after(step(3, 1, role))


steps = st.lists(st.tuples(st.integers(1, 7), st.sampled_from([LEARNER, VOTER, REMOVED])))


@given(steps)
def test_majorities_of_neighbours_meet(drawn: list[tuple[int, str]]) -> None:
    held = FIRST
    for node, role in drawn:
        try:
            after = held.after(step(held.version + 1, node, role, "h:1"))
        except NotAllowed:
            continue
        assert after.voters
        assert set(held.removed) <= set(after.removed)
        assert not {member.node for member in after.members} & set(after.removed)
        for one in combinations(held.voters, held.majority):
            for other in combinations(after.voters, after.majority):
                assert set(one) & set(other)
        held = after


@pytest.mark.parametrize(
    ("zones", "crowded"),
    [
        ("xyz", None),
        ("xxyyz", None),
        ("xxxyz", "x"),
        # One of zone x is being replaced by another.
        ("xxyz", None),
        ("xxx", None),
        ("xxyy", None),
        ("", None),
    ],
)
def test_a_crowded_zone(zones: str, crowded: str | None) -> None:
    found = Membership.first({node: ("h:1", zone) for node, zone in enumerate(zones, 1)})
    assert found.crowded_zone() == crowded


@pytest.mark.parametrize("voters", range(3, 8))
def test_a_needed_zone_is_one_whose_loss_leaves_no_majority(voters: int) -> None:
    for zones in product("xyz", repeat=voters):
        found = Membership.first({node: ("h:1", zone) for node, zone in enumerate(zones, 1)})
        stops = [z for z in "xyz" if sum(zone != z for zone in zones) < found.majority]
        if len(set(zones)) == 3:
            assert found.needed_zone() == (stops[0] if stops else None), zones
        else:
            assert found.needed_zone() is None
