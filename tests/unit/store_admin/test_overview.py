"""The two tables of the cluster, from what nodes say of themselves."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from gateway.commands.store_view import size, tables
from store_nodes.admin.overview import Overview, overview
from store_nodes.wire import NodeView


def group(number: int, leader: int | None, **over: Any) -> dict[str, Any]:
    """Return the row of a group in a node's status, with three voters in three zones."""
    members = over.pop("members", {1: "voter", 2: "voter", 3: "voter"})
    zones = over.pop("zones", {1: "a", 2: "b", 3: "c"})
    return {
        "group": number,
        "leader": leader,
        "preferred_leader": 1,
        "wished_leader": 0,
        "membership": 0,
        "members": [
            {
                "node": node,
                "role": role,
                "address": f"host:{node}",
                "labels": {"zone": zones[node]} if node in zones else {},
            }
            for node, role in members.items()
        ],
        "removed": [],
        "chosen": 100,
        "applied": 100,
        "queues": 2,
        "stored_bytes": 7,
        **over,
    }


def statuses(**nodes: dict[str, Any]) -> dict[int, dict[str, Any]]:
    return {int(name[1:]): status for name, status in nodes.items()}


def up(*groups: dict[str, Any], **said: Any) -> dict[str, Any]:
    return {"disk": {"free_bytes": 5}, **said, "groups": list(groups)}


def look(seen: dict[int, dict[str, Any]]) -> Overview:
    known = {node: NodeView(node, f"seed:{node}") for node in seen}
    return overview(seen, known, [0])


def test_a_whole_cluster_has_nothing_to_warn_of() -> None:
    seen = look(statuses(n1=up(group(0, 1)), n2=up(group(0, 1)), n3=up(group(0, 1))))
    (row,) = seen.groups
    assert (row.leader, row.voters, row.spare, row.warning) == (1, (1, 2, 3), 1, "")
    assert [(node.node, node.leads, node.zone, node.state) for node in seen.nodes] == [
        (1, 1, "a", "up"),
        (2, 0, "b", "up"),
        (3, 0, "c", "up"),
    ]
    assert seen.nodes[0].address == "host:1"
    assert seen.nodes[0].free_bytes == 5


def test_a_node_that_is_down_costs_the_spare_one() -> None:
    seen = look(statuses(n1=up(group(0, 1)), n2=up(group(0, 1)), n3={"error": "refused"}))
    assert (seen.groups[0].spare, seen.groups[0].warning) == (0, "one more loss stops it")
    assert (seen.nodes[2].state, seen.nodes[2].why) == ("down", "refused")


@pytest.mark.parametrize("how", ["down", "damaged", "far behind"])
def test_a_group_without_a_quorum_says_so(how: str) -> None:
    other = {
        "down": {"error": "gone"},
        "damaged": up(group(0, 1), damaged="segment 3"),
        "far behind": up(group(0, 1, applied=0)),
    }[how]
    leader = group(0, 1, chosen=5000, applied=5000)
    seen = look(statuses(n1=up(leader), n2=other, n3=other))
    assert (seen.groups[0].spare, seen.groups[0].warning) == (-1, "no quorum")


def test_nobody_leads_who_only_others_say_leads() -> None:
    seen = look(statuses(n1={"error": "gone"}, n2=up(group(0, 1)), n3=up(group(0, 1))))
    assert (seen.groups[0].leader, seen.groups[0].warning) == (None, "no leader")


def test_of_two_that_say_they_lead_the_later_one_is_believed() -> None:
    old = group(0, 1, chosen=90, membership=1)
    new = group(0, 2, chosen=120, membership=2, members={2: "voter", 3: "voter"})
    seen = look(statuses(n1=up(old), n2=up(new)))
    row = seen.groups[0]
    assert (row.leader, row.voters, row.version) == (2, (2, 3), 2)
    assert row.lags == {2: 20}


def test_lag_is_counted_from_the_latest_instance_of_anyone() -> None:
    seen = look(statuses(n1=up(group(0, 1, chosen=130)), n2=up(group(0, 1, applied=80))))
    assert seen.groups[0].lags == {1: 30, 2: 50}
    assert [row.lag for row in seen.nodes] == [30, 50, 0]


def test_a_zone_that_could_stop_the_group_is_named() -> None:
    five = {node: "voter" for node in (1, 2, 3, 4, 5)}
    crowded = group(0, 1, members=five, zones={1: "a", 2: "a", 3: "a", 4: "b", 5: "c"})
    seen = look({node: up(crowded) for node in five})
    assert seen.groups[0].warning == "zone a holds a majority"
    four = {node: "voter" for node in (1, 2, 3, 4)}
    half = group(0, 1, members=four, zones={1: "a", 2: "a", 3: "b", 4: "c"})
    assert look({node: up(half) for node in four}).groups[0].warning == (
        "zone a holds half of the voters"
    )


def test_learners_do_not_count() -> None:
    row = group(0, 1, members={1: "voter", 2: "voter", 3: "learner"})
    seen = look(statuses(n1=up(row), n2=up(row), n3=up(row)))
    assert (seen.groups[0].voters, seen.groups[0].learners) == ((1, 2), (3,))
    assert seen.groups[0].spare == 0
    assert (seen.nodes[2].voter_in, seen.nodes[2].learner_in) == (0, 1)


@pytest.mark.parametrize(
    ("said", "state", "why"),
    [
        ({"damaged": "segment 3"}, "damaged", "segment 3"),
        ({"installing": {0: "40 bytes"}}, "installing", "group 0: 40 bytes"),
        ({"waits_for": [1, 3]}, "waiting", "for nodes 1, 3"),
        ({"lost": [{"queue": ""}]}, "incomplete", "ranges of messages lost: 1"),
        ({"damaged": None, "installing": {}, "waits_for": [], "lost": []}, "up", ""),
    ],
)
def test_what_a_node_is_busy_with_is_its_state(said: dict[str, Any], state: str, why: str) -> None:
    seen = look(statuses(n1=up(group(0, 1)), n2=up(group(0, 1), **said)))
    assert (seen.nodes[1].state, seen.nodes[1].why) == (state, why)


def test_a_node_that_was_removed_and_is_down_is_nobodys_trouble() -> None:
    rows = [group(0, 2, members={2: "voter", 3: "voter"}, removed=[1]) for _ in range(2)]
    seen = look(statuses(n1={"error": "gone"}, n2=up(rows[0]), n3=up(rows[1])))
    assert [(row.node, row.state) for row in seen.nodes] == [(1, "removed"), (2, "up"), (3, "up")]


def test_a_voter_that_may_not_vote_is_not_counted() -> None:
    mute = group(0, 1, voting=False)
    seen = look(statuses(n1=up(group(0, 1)), n2=up(mute), n3=up(group(0, 1))))
    assert seen.groups[0].spare == 0


def test_the_log_is_all_its_segments() -> None:
    storage = {"raw_bytes": 5, "settled_bytes": 7, "index_bytes": 100}
    seen = look(statuses(n1=up(group(0, 1, slow=True), storage=storage)))
    assert (seen.nodes[0].log_bytes, seen.nodes[0].slow) == (12, True)


def test_nothing_known_is_an_overview_too() -> None:
    seen = look(statuses(n1={"error": "gone"}))
    assert [(row.node, row.state) for row in seen.nodes] == [(1, "down")]
    assert seen.groups[0].warning == "no leader"


def test_the_tables_name_every_node_group_and_trouble() -> None:
    seen = look(statuses(n1=up(group(0, 1)), n2=up(group(0, 1)), n3={"error": "refused [x]"}))
    console = Console(width=200)
    with console.capture() as shown:
        console.print(tables(seen))
    text = shown.get()
    for word in ("host:1", "down", "refused [x]", "one more loss stops it", "1 2 3", "7 B"):
        assert word in text


@pytest.mark.parametrize(
    ("count", "text"), [(None, "–"), (0, "0 B"), (1536, "1.5 KiB"), (5 << 40, "5.0 TiB")]
)
def test_sizes_are_readable(count: int | None, text: str) -> None:
    assert size(count) == text
