"""Nodes added, removed and replaced: over lost answers, other operators and the rules of zones."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Any, cast

import pytest

from store_nodes.admin import Note, NotFinished, OperationRefused, Operator, members
from store_nodes.client import Reconfigure, StoreClient
from store_nodes.commands import GROUPS_COUNTER
from store_nodes.errors import NotAllowed, OutcomeUnknown, Unavailable
from store_nodes.membership import LEARNER, VOTER, ZONE, Membership
from store_nodes.node.members import first_of
from store_nodes.wire import NodeView


class FakeGroups:
    """A store client that is nothing but the memberships of its groups."""

    def __init__(self, zones: Mapping[int, str], groups: int = 3) -> None:
        first = Membership.first({node: (f"host:{node}", zone) for node, zone in zones.items()})
        self.memberships = dict.fromkeys(range(groups), first)
        self.steps: list[tuple[int, int, str]] = []
        self.seen_voters: set[tuple[int, ...]] = set()
        """The voters after each step, of any group."""
        self.level_after = 0
        """The number of promotions that are refused before the learner has caught up."""
        self.trouble: random.Random | None = None
        self.refuse = ""
        self.down: set[int] = set()
        self.adds_after = -1
        """The number of steps after which another operator adds a group."""

    @property
    def groups(self) -> tuple[int, ...]:
        return tuple(self.memberships)

    @property
    def nodes(self) -> dict[int, NodeView]:
        return {}

    async def status(self) -> dict[int, dict[str, Any]]:
        rows = [row(group, held) for group, held in self.memberships.items()]
        everyone = {m.node for held in self.memberships.values() for m in held.members}
        down = {node: {"error": "connection refused"} for node in self.down}
        return {node: {"groups": rows} for node in everyone} | down

    async def counter(self, group: int, name: str, *, timeout_s: float = 5.0) -> int:
        assert (group, name) == (0, GROUPS_COUNTER)
        return len(self.memberships)

    async def reconfigure(self, group: int, step: Reconfigure, *, timeout_s: float) -> int:
        await asyncio.sleep(0)
        dice = self.trouble.random() if self.trouble is not None else 1.0
        if dice < 0.1:
            raise Unavailable("no majority")
        if dice < 0.2:
            other = Reconfigure(self.memberships[group].version + 1, 99, LEARNER, "x:1", {})
            if self.memberships[group].member(99) is None:
                self.memberships[group] = self.memberships[group].after(other)
        if self.refuse:
            raise NotAllowed(self.refuse)
        promotes = step.role == VOTER
        if promotes and self.level_after:
            self.level_after -= 1
            raise NotAllowed("not caught up")
        held = self.memberships[group]
        after = held.after(step)
        if after.crowded_zone() is not None and held.crowded_zone() is None:
            raise NotAllowed("crowded")
        self.memberships[group] = after
        self.steps.append((group, step.node, step.role))
        self.seen_voters.add(after.voters)
        if len(self.steps) == self.adds_after:
            self.memberships[len(self.memberships)] = first_of(self.memberships[0])
        if dice < 0.4:
            raise OutcomeUnknown("the answer was lost")
        return after.version

    def operator(self, notes: list[Note] | None = None, timeout_s: float = 20.0) -> Operator:
        told = notes if notes is not None else []
        return Operator(cast(StoreClient, self), progress=told.append, timeout_s=timeout_s)

    def voters(self) -> set[tuple[int, ...]]:
        return {held.voters for held in self.memberships.values()}


def row(group: int, held: Membership) -> dict[str, Any]:
    return {
        "group": group,
        "leader": held.voters[0],
        "chosen": 5,
        "applied": 5,
        "membership": held.version,
        "members": [
            {"node": m.node, "role": m.role, "address": m.address, "labels": m.labels}
            for m in held.members
        ],
        "removed": list(held.removed),
    }


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("operator", "members"):
        monkeypatch.setattr(f"store_nodes.admin.{module}.LOOK_AGAIN_S", 0.0)
    monkeypatch.setattr(members, "REFUSED_FOR_GOOD_S", 0.0)


THREE = {1: "a", 2: "b", 3: "c"}


async def test_a_node_is_a_learner_everywhere_before_it_votes_anywhere() -> None:
    store = FakeGroups(THREE)
    store.level_after = 5
    await members.add_node(store.operator(), 4, "host:4", zone="a", force=True)
    assert store.voters() == {(1, 2, 3, 4)}
    assert [role for _, _, role in store.steps] == [LEARNER] * 3 + [VOTER] * 3
    member = store.memberships[0].member(4)
    assert member is not None
    assert (member.address, member.labels) == ("host:4", {ZONE: "a"})


async def test_a_node_is_replaced_in_its_zone() -> None:
    store = FakeGroups(THREE)
    notes: list[Note] = []
    await members.replace_node(store.operator(notes), 2, 4, "host:4")
    assert store.voters() == {(1, 3, 4)}
    assert store.memberships[0].removed == (2,)
    member = store.memberships[0].member(4)
    assert member is not None
    assert member.labels == {ZONE: "b"}
    assert "node 4 is where node 2 was" in notes[-1].text
    # With both of them, zone b holds two of the four voters.
    exposed = [note.group for note in notes if "zone b holds half of the voters" in note.text]
    assert sorted(exposed, key=str) == [0, 1, 2]


async def test_a_node_that_is_down_leaves_before_the_new_one_votes() -> None:
    """Test what made a group wait for ever: three of four voters were needed, one was gone, and the
    disk of the new one was damaged in the same moment (store seed 157213514018)."""
    store = FakeGroups(THREE)
    store.down = {2}
    store.level_after = 5
    await members.replace_node(store.operator(), 2, 4, "host:4")
    assert store.voters() == {(1, 3, 4)}
    assert all(len(voters) <= 3 for voters in store.seen_voters)
    store = FakeGroups(THREE)
    await members.replace_node(store.operator(), 2, 4, "host:4")
    assert (1, 2, 3, 4) in store.seen_voters


@pytest.mark.parametrize("after_steps", range(1, 10))
async def test_a_group_that_is_added_meanwhile_has_the_change_too(after_steps: int) -> None:
    """The added group was in no list, and kept the dead node as a voter, or the new one as
    a learner.
    """
    store = FakeGroups(THREE)
    store.adds_after = after_steps
    await members.replace_node(store.operator(), 2, 4, "host:4")
    assert (len(store.memberships), store.voters()) == (4, {(1, 3, 4)})
    store.adds_after = len(store.steps) + min(after_steps, 6)
    await members.add_node(store.operator(), 5, "host:5", zone="b", force=True)
    assert (len(store.memberships), store.voters()) == (5, {(1, 3, 4, 5)})
    store.adds_after = len(store.steps) + min(after_steps, 5)
    await members.remove_node(store.operator(), 1, force=True)
    assert (len(store.memberships), store.voters()) == (6, {(3, 4, 5)})


async def test_a_node_that_dies_while_it_is_added_ends_the_command_and_is_named() -> None:
    """The timeout is one for all groups and steps together."""
    store, notes = FakeGroups(THREE), list[Note]()
    store.level_after = 10**9
    store.down.add(4)
    with pytest.raises(NotFinished, match="node 4 does not answer: connection refused"):
        await members.add_node(store.operator(notes, timeout_s=0.05), 4, "host:4", zone="d")
    assert any("node 4 does not answer: connection refused" in note.text for note in notes)


@pytest.mark.parametrize("slow", ["leaders", "steps"])
@pytest.mark.parametrize(
    "change",
    [
        lambda o: members.add_node(o, 4, "host:4", zone="d"),
        lambda o: members.replace_node(o, 2, 4, "host:4"),
        lambda o: members.remove_node(o, 1, force=True),
    ],
    ids=["add", "replace", "remove"],
)
async def test_the_timeout_bounds_all_steps_together(
    change: Any, slow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step is done in half of the time; there are three of them or more."""
    monkeypatch.setattr("store_nodes.admin.operator.GROUPS_AT_ONCE", 1)
    store = FakeGroups({**THREE, 5: "e"})
    take_a_while(store, slow, monkeypatch)
    with pytest.raises(NotFinished):
        await change(store.operator(timeout_s=10.0))
    took = [len(store.steps), await finished(change, store)]
    assert 0 < took[0] < took[1]


def take_a_while(store: FakeGroups, slow: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop's time moves by a second with each look at the groups, which show their leaders
    every fifth time, or with each step, of which every fifth is taken."""
    loop = asyncio.get_running_loop()
    time, status, reconfigure = loop.time, store.status, store.reconfigure
    calls = dict.fromkeys(("leaders", "steps"), 0)
    monkeypatch.setattr(loop, "time", lambda: time() + calls[slow])

    def waits(what: str) -> bool:
        calls[what] += 1
        return slow == what and calls[what] % 5 > 0

    async def slow_status() -> dict[int, dict[str, Any]]:
        seen = await status()
        if waits("leaders"):
            for node in seen.values():
                node["groups"] = [one | {"leader": None} for one in node["groups"]]
        return seen

    async def slow_reconfigure(group: int, step: Reconfigure, *, timeout_s: float) -> int:
        if waits("steps"):
            raise Unavailable("no majority")
        return await reconfigure(group, step, timeout_s=timeout_s)

    monkeypatch.setattr(store, "status", slow_status)
    monkeypatch.setattr(store, "reconfigure", slow_reconfigure)


async def finished(change: Any, store: FakeGroups) -> int:
    """Carry out a change with time enough; return its number of steps."""
    await change(store.operator(timeout_s=1000.0))
    return len(store.steps)


async def test_of_an_even_number_the_old_one_goes_first_where_both_would_crowd_the_zone() -> None:
    store = FakeGroups({**THREE, 4: "a"}, groups=1)
    await members.replace_node(store.operator(), 4, 5, "host:5")
    assert store.voters() == {(1, 2, 3, 5)}
    assert [(node, role) for _, node, role in store.steps] == [
        (5, "learner"),
        (4, "removed"),
        (5, "voter"),
    ]


@pytest.mark.parametrize("seed", range(30))
async def test_lost_answers_and_other_operators_change_nothing_of_the_outcome(seed: int) -> None:
    store = FakeGroups(THREE)
    store.trouble = random.Random(seed)
    store.level_after = seed % 4
    await members.replace_node(store.operator(), 2, 4, "host:4")
    await members.add_node(store.operator(), 5, "host:5")
    await members.remove_node(store.operator(), 1)
    assert store.voters() == {(3, 4, 5)}
    done = [(group, node, role) for group, node, role in store.steps if node != 99]
    assert len(done) == len(set(done)), "a step was taken twice"


@pytest.mark.parametrize("after_steps", range(9))
async def test_what_was_cut_short_goes_on_when_it_is_run_again(after_steps: int) -> None:
    store = FakeGroups(THREE)

    class Killed(Exception):
        pass

    whole = store.reconfigure
    left = iter(range(after_steps))

    async def cut(group: int, step: Reconfigure, *, timeout_s: float) -> int:
        if next(left, None) is None:
            raise Killed
        return await whole(group, step, timeout_s=timeout_s)

    store.reconfigure = cut  # type: ignore[method-assign]
    with pytest.raises(Killed):
        await members.replace_node(store.operator(), 2, 4, "host:4")
    store.reconfigure = whole  # type: ignore[method-assign]
    await members.replace_node(store.operator(), 2, 4, "host:4")
    assert store.voters() == {(1, 3, 4)}
    assert len(store.steps) == 9


async def test_a_zone_is_not_crowded() -> None:
    store = FakeGroups({**THREE, 4: "a"})
    with pytest.raises(
        OperationRefused, match="zone a would hold a majority of the voters of group 0"
    ):
        await members.add_node(store.operator(), 5, "host:5", zone="a")
    assert store.steps == []
    await members.add_node(store.operator(), 5, "host:5", zone="b")
    store.steps.clear()
    with pytest.raises(OperationRefused, match="another zone"):
        await members.replace_node(store.operator(), 2, 6, "host:6", zone="a")
    assert store.steps == []


async def test_half_of_the_voters_are_in_one_zone_by_force_only() -> None:
    store = FakeGroups(THREE)
    with pytest.raises(
        OperationRefused, match=r"zone a would hold half .* \[1, 4\] of \[1, 2, 3, 4\]"
    ):
        await members.add_node(store.operator(), 4, "host:4", zone="a")
    assert store.steps == []
    await members.add_node(store.operator(), 4, "host:4", zone="d")
    store.steps.clear()
    with pytest.raises(OperationRefused, match="zone b would hold half"):
        await members.replace_node(store.operator(), 4, 5, "host:5", zone="b")
    assert store.steps == []
    await members.add_node(store.operator(), 5, "host:5", zone="d")
    with pytest.raises(OperationRefused, match="zone d would hold half"):
        await members.remove_node(store.operator(), 1)
    await members.remove_node(store.operator(), 1, force=True)
    assert store.voters() == {(2, 3, 4, 5)}


async def test_that_only_two_zones_are_left_is_said() -> None:
    store, notes = FakeGroups(THREE, groups=1), list[Note]()
    await members.replace_node(store.operator(notes), 3, 4, "host:4", zone="a")
    assert any("stand in 2 zones then" in note.text for note in notes)
    assert store.voters() == {(1, 2, 4)}


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda o: members.add_node(o, 9, "h:1"), "never used again"),
        (lambda o: members.replace_node(o, 1, 9, "h:1"), "never used again"),
        (lambda o: members.replace_node(o, 7, 8, "h:1"), "is and was in no group"),
        (lambda o: members.replace_node(o, 2, 2, "h:1"), "cannot replace itself"),
        (lambda o: members.remove_node(o, 7), "is and was in no group"),
    ],
)
async def test_what_cannot_be_is_refused_before_anything_is_done(call: Any, why: str) -> None:
    store = FakeGroups(THREE)
    await members.add_node(store.operator(), 9, "host:9")
    await members.remove_node(store.operator(), 9)
    store.steps.clear()
    with pytest.raises(OperationRefused, match=why):
        await call(store.operator())
    assert store.steps == []


async def test_the_last_voter_stays() -> None:
    store = FakeGroups({1: ""})
    with pytest.raises(OperationRefused, match="last voter"):
        await members.remove_node(store.operator(), 1)


async def test_a_rule_that_goes_on_forbidding_a_step_is_the_answer() -> None:
    store = FakeGroups(THREE)
    store.refuse = "only node 1 can be reached"
    with pytest.raises(OperationRefused, match="group 0: only node 1 can be reached"):
        await members.remove_node(store.operator(), 2)


async def test_a_learner_that_never_catches_up_ends_the_command_not_the_work() -> None:
    store = FakeGroups(THREE)
    store.level_after = 10**9
    with pytest.raises(NotFinished, match="run it again"):
        await members.add_node(store.operator(timeout_s=0.0), 4, "host:4")
    store.level_after = 0
    await members.add_node(store.operator(), 4, "host:4")
    assert store.voters() == {(1, 2, 3, 4)}
