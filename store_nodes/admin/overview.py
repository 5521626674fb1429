"""The cluster in two tables, nodes and groups, from the status of each node. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from store_nodes.membership import ZONE, Member, Membership
from store_nodes.wire import NodeView

MAX_LAG_INSTANCES = 1000
"""Instances by which a voter may be behind and still count."""


class NodeRow(msgspec.Struct, frozen=True):
    """One node.

    `state` is "up" or, explained by `why`:

    down         no answer
    removed      no answer either, and no group needs one
    damaged      its log is damaged or its votes are lost: it repairs itself before it votes
        incomplete   it serves, but no node has some of its messages
    installing   it fetches what its peers do not hold any more one by one
    waiting      a first start, which waits for the other first nodes

    `lag` is its largest, over its groups, in instances.
    """

    node: int
    address: str
    zone: str
    state: str
    why: str
    leads: int
    voter_in: int
    learner_in: int
    lag: int
    slow: bool
    free_bytes: int | None
    log_bytes: int | None
    """Bytes of its segments, raw and compacted."""
    said: dict[str, Any]
    """The node's status, without its groups."""

    @property
    def up(self) -> bool:
        return self.state == "up"


class GroupRow(msgspec.Struct, frozen=True):
    """One group, as its leader reports, else the node that knows the latest membership."""

    group: int
    leader: int | None
    preferred: int | None
    wished: int
    """The leader that a transfer asked for; 0 if none."""
    version: int
    voters: tuple[int, ...]
    learners: tuple[int, ...]
    removed: tuple[int, ...]
    chosen: int
    lags: dict[int, int]
    """Instances behind the group's latest, of each member that answers."""
    queues: int
    stored_bytes: int
    spare: int
    """Number of voters that may still be lost before the group stops; below 0 it has stopped."""
    warning: str


class Overview(msgspec.Struct, frozen=True):
    """The state of the cluster at one moment, as far as known."""

    nodes: tuple[NodeRow, ...]
    groups: tuple[GroupRow, ...]
    memberships: dict[int, Membership]

    def node(self, node: int) -> NodeRow | None:
        return next((row for row in self.nodes if row.node == node), None)

    def group(self, group: int) -> GroupRow | None:
        return next((row for row in self.groups if row.group == group), None)


def overview(
    statuses: Mapping[int, Mapping[str, Any]],
    known: Mapping[int, NodeView],
    groups: Iterable[int],
) -> Overview:
    """Return the cluster, from statuses and known addresses.

    `statuses` has each node's status, or {"error": why}; `known` has the nodes' addresses.
    """
    of_group: dict[int, dict[int, Mapping[str, Any]]] = {group: {} for group in groups}
    for node, status in statuses.items():
        for row in status.get("groups", ()):
            of_group.setdefault(row["group"], {})[node] = row
    memberships = {
        group: max(map(membership_of, rows.values()), key=lambda each: each.version)
        for group, rows in of_group.items()
        if rows
    }
    states = {node: _state(status) for node, status in statuses.items()}
    healthy = {node for node, (state, _) in states.items() if state not in ("down", "damaged")}
    group_rows = [
        _group_row(group, rows, memberships.get(group, Membership()), healthy)
        for group, rows in sorted(of_group.items())
    ]
    members = {m.node: m for each in memberships.values() for m in each.members}
    node_rows = [
        _node_row(node, statuses.get(node, {}), states, known, members, group_rows)
        for node in sorted({*statuses, *members})
    ]
    return Overview(tuple(node_rows), tuple(group_rows), memberships)


def membership_of(row: Mapping[str, Any]) -> Membership:
    """Return the membership in a node's status of a group."""
    members = tuple(
        Member(each["node"], each["role"], each["address"], dict(each["labels"]))
        for each in row.get("members", ())
    )
    return Membership(row.get("membership", 0), members, tuple(row.get("removed", ())))


def _state(status: Mapping[str, Any]) -> tuple[str, str]:
    if "error" in status:
        return "down", str(status["error"])
    if status.get("damaged"):
        return "damaged", str(status["damaged"])
    if status.get("installing"):
        words = status["installing"].items()
        return "installing", "; ".join(f"group {group}: {text}" for group, text in words)
    if status.get("waits_for"):
        return "waiting", "for nodes " + ", ".join(map(str, status["waits_for"]))
    if status.get("lost"):
        return "incomplete", f"ranges of messages lost: {len(status['lost'])}"
    return "up", ""


def _group_row(
    group: int,
    rows: Mapping[int, Mapping[str, Any]],
    membership: Membership,
    healthy: set[int],
) -> GroupRow:
    leaders = [node for node, row in rows.items() if row["leader"] == node]
    leader = max(leaders, key=lambda node: rows[node]["chosen"], default=None)
    told = rows[leader] if leader is not None else max(rows.values(), key=_age, default={})
    chosen = max((row["chosen"] for row in rows.values()), default=0)
    members = {member.node for member in membership.members}
    lags = {node: chosen - row["applied"] for node, row in sorted(rows.items()) if node in members}
    counted = [
        node
        for node in membership.voters
        if node in healthy
        and rows.get(node, {}).get("voting", True)
        and lags.get(node, chosen + 1) <= MAX_LAG_INSTANCES
    ]
    spare = len(counted) - membership.majority
    return GroupRow(
        group=group,
        leader=leader,
        preferred=told.get("preferred_leader"),
        wished=told.get("wished_leader", 0),
        version=membership.version,
        voters=membership.voters,
        learners=membership.learners,
        removed=membership.removed,
        chosen=chosen,
        lags=lags,
        queues=told.get("queues", 0),
        stored_bytes=told.get("stored_bytes", 0),
        spare=spare,
        warning=_warning(membership, leader, spare),
    )


def _age(row: Mapping[str, Any]) -> int:
    chosen: int = row["chosen"]
    return chosen


def _warning(membership: Membership, leader: int | None, spare: int) -> str:
    if leader is None:
        return "no leader"
    if spare < 0:
        return "no quorum"
    if spare == 0 and len(membership.voters) > 2:
        return "one more loss stops it"
    crowded, needed = membership.crowded_zone(), membership.needed_zone()
    if crowded is not None:
        return f"zone {crowded} holds a majority"
    return f"zone {needed} holds half of the voters" if needed is not None else ""


def _node_row(
    node: int,
    status: Mapping[str, Any],
    states: Mapping[int, tuple[str, str]],
    known: Mapping[int, NodeView],
    members: Mapping[int, Member],
    groups: Sequence[GroupRow],
) -> NodeRow:
    state, why = states.get(node, ("down", "not reached yet"))
    member = members.get(node)
    if member is None and state == "down" and any(node in row.removed for row in groups):
        state, why = "removed", ""
    address = member.address if member is not None else ""
    if not address and node in known:
        address = known[node].address
    disk, storage = status.get("disk", {}), status.get("storage", {})
    own = status.get("groups", ())
    return NodeRow(
        node=node,
        address=address,
        zone=member.labels.get(ZONE, "") if member is not None else "",
        state=state,
        why=why,
        leads=sum(row.leader == node for row in groups),
        voter_in=sum(node in row.voters for row in groups),
        learner_in=sum(node in row.learners for row in groups),
        lag=max((row.lags[node] for row in groups if node in row.lags), default=0),
        slow=any(row.get("slow", False) for row in own),
        free_bytes=disk.get("free_bytes"),
        log_bytes=_sum(storage, "raw_bytes", "settled_bytes"),
        said={key: value for key, value in status.items() if key != "groups"},
    )


def _sum(said: Mapping[str, Any], *names: str) -> int | None:
    return sum(said.get(name, 0) for name in names) if said else None
