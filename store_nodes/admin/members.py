"""Members of the cluster: adds, removes and replaces nodes, one step of one group at a time.

An added group begins with the members of group 0. So groups are listed again until none is new:
groups that are added after group 0 has changed begin with the right members.

Each step is a value in the group's log and compares the version of the membership it changes, so
two operators cannot undo each other, and a step whose answer was lost is recognised as done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from peering.shared_secret import SharedSecret
from peering.tls import PeerTls
from store_nodes.admin.errors import NotFinished, OperationRefused
from store_nodes.admin.operator import LOOK_AGAIN_S, Operator
from store_nodes.admin.overview import Overview
from store_nodes.commands import Reconfigure
from store_nodes.errors import Conflict, NotAllowed, NotDone, OutcomeUnknown
from store_nodes.membership import LEARNER, REMOVED, VOTER, ZONE, Membership
from store_nodes.settings import parse_address
from store_nodes.transport.handshake import Identity, dial
from store_nodes.wire import Role

REFUSED_FOR_GOOD_S = 10.0
"""Seconds after which a rule that still forbids a step is an answer.

Before, another node may only just be connecting. Catching up may take as long as it takes.
"""
REACH_S = 10.0


async def add_node(
    operator: Operator,
    node: int,
    address: str,
    *,
    zone: str = "",
    force: bool = False,
    secret: SharedSecret | None = None,
    tls: PeerTls | None = None,
) -> None:
    """Make `node` a voter of every group.

    It must run, with PACKETBOAT_STORE_JOIN=1.

    `force` accepts that half of the voters are in one zone, whose loss would stop the groups. With
    `secret` (and `tls`), the node is first asked at its address for its identity.
    """
    seen = await operator.stable_overview()
    _check_new(seen, node)
    _check_zones(operator, seen, force, add={node: zone})
    if secret is not None:
        await _check_reached(operator, node, address, secret, tls)
    await _in_every_group(
        operator,
        lambda held: True,
        lambda group: _enlist(operator, group, node, address, zone),
        lambda group: _promote(operator, group, node),
    )
    operator.say(f"node {node} is a voter of every group")


async def remove_node(operator: Operator, node: int, *, force: bool = False) -> None:
    """Remove `node`, up or down, from every group; its id is never used again.

    `force` is that of `add_node`.
    """
    seen = await operator.stable_overview()
    _check_known(seen, node)
    _check_zones(operator, seen, force, remove=node)
    await _in_every_group(
        operator,
        lambda held: held.member(node) is not None,
        lambda group: _leave(operator, group, node),
    )
    operator.say(f"node {node} is in no group; stop it and throw its directory away")


async def replace_node(
    operator: Operator,
    old: int,
    new: int,
    address: str,
    *,
    zone: str | None = None,
    force: bool = False,
    secret: SharedSecret | None = None,
    tls: PeerTls | None = None,
) -> None:
    """Put node `new` in the place of `old`, in the same zone unless told otherwise.

    In each group `new` becomes a voter first, then `old` is removed; if `old` does not answer, the
    other way round. `old` must not come back. `force` is that of `add_node`.
    """
    if old == new:
        raise OperationRefused(f"node {old} cannot replace itself: a lost directory needs a new id")
    seen = await operator.stable_overview()
    _check_known(seen, old)
    _check_new(seen, new)
    was = [member for each in seen.memberships.values() if (member := each.member(old))]
    if zone is None:
        zone = was[0].labels.get(ZONE, "") if was else ""
    _check_zones(operator, seen, force, add={new: zone}, remove=old)
    if secret is not None:
        await _check_reached(operator, new, address, secret, tls)
    zone_of_new = zone

    async def replace(group: int) -> None:
        row = (await operator.overview()).node(old)
        is_down = row is not None and row.state == "down"
        held = await operator.membership(group)
        both = _with(held, new, zone_of_new)
        if is_down:
            # Beside a dead voter, the new one would be needed for a majority.
            await _leave(operator, group, old)
        elif both.crowded_zone() is not None and held.crowded_zone() is None:
            # With an even number of voters, both at once would hold a majority in their zone.
            await _leave(operator, group, old)
        elif both.needed_zone() is not None and held.needed_zone() is None:
            # With fewer voters meanwhile, the loss of any one of them could stop the group.
            operator.say(
                f"until node {old} has left, zone {both.needed_zone()} holds half of the voters:"
                " losing it would stop the group",
                group,
            )
        await _promote(operator, group, new)
        await _leave(operator, group, old)

    await _in_every_group(
        operator,
        lambda held: held.member(old) is not None or held.member(new) is not None,
        lambda group: _enlist(operator, group, new, address, zone_of_new),
        replace,
    )
    operator.say(f"node {new} is where node {old} was; throw the directory of {old} away")


async def _in_every_group(
    operator: Operator,
    concerns: Callable[[Membership], bool],
    *works: Callable[[int], Awaitable[None]],
) -> None:
    """Do each work in turn in every group whose members it concerns, and in groups added
    meanwhile.
    """
    done: set[int] = set()
    with operator.bounded():
        while True:
            groups, seen = await operator.groups()
            added = [group for group in groups if group not in done]
            if not added:
                return
            concerned: list[int] = []
            for group in added:
                held = seen.memberships.get(group)
                if held is None or not held.members:
                    # The group is so new that no node knows its members yet.
                    held = await operator.membership(group)
                if concerns(held):
                    concerned.append(group)
            for work in works:
                await operator.each(concerned, work)
            done.update(added)


# One group.


async def _enlist(operator: Operator, group: int, node: int, address: str, zone: str) -> None:
    """Make the node a learner of a group.

    All groups do this before any waits for it to catch up, because it fetches for all of them
    together.
    """
    await _step(operator, group, node, LEARNER, address, {ZONE: zone} if zone else {})


async def _promote(operator: Operator, group: int, node: int) -> None:
    await _step(operator, group, node, VOTER, "", {})
    operator.say(f"node {node} is a voter", group)


async def _leave(operator: Operator, group: int, node: int) -> None:
    await _step(operator, group, node, REMOVED, "", {})
    operator.say(f"node {node} is removed", group)


async def _step(
    operator: Operator, group: int, node: int, role: str, address: str, labels: dict[str, str]
) -> None:
    """Repeat a step until the group's log has it; raises OperationRefused or NotFinished."""
    loop = asyncio.get_running_loop()
    refused_at_s: float | None = None
    while True:
        held = await operator.membership(group)
        if _is_done(held, node, role):
            return
        operator.say(f"node {node}: {_WORDS[role]}", group)
        step = Reconfigure(held.version + 1, node, role, address, labels)
        trouble: Exception | str
        try:
            await operator.client.reconfigure(group, step, timeout_s=10.0)
            return
        except NotAllowed as error:
            trouble = error
            refused_at_s = refused_at_s or loop.time()
            if role != VOTER and loop.time() - refused_at_s > REFUSED_FOR_GOOD_S:
                raise OperationRefused(f"group {group}: {error}") from None
            row = (await operator.overview()).node(node)
            if role == VOTER and row is not None and row.state == "down":
                trouble = f"node {node} does not answer: {row.why}"
        except (Conflict, OutcomeUnknown) as error:
            trouble = error  # the log shows the present state, from which the loop continues
        except NotDone as error:
            trouble = error
        operator.say(f"node {node}: {_WORDS[role]}; {trouble}", group)
        if operator.late:
            raise NotFinished(
                f"group {group}: node {node} is not yet {role} ({trouble}); run it again to go on"
            )
        await asyncio.sleep(LOOK_AGAIN_S)


_WORDS = {
    LEARNER: "joins as a learner",
    VOTER: "becomes a voter once it has caught up",
    REMOVED: "is being removed",
}


def _is_done(held: Membership, node: int, role: str) -> bool:
    if role == REMOVED:
        return held.member(node) is None
    member = held.member(node)
    return member is not None and (member.role == role or member.role == VOTER)


# Checks that refuse an operation before anything is changed.


def _check_new(seen: Overview, node: int) -> None:
    if not seen.groups:
        raise OperationRefused("no group is known: no node answers")
    used = [group for group, each in seen.memberships.items() if node in each.removed]
    if used:
        raise OperationRefused(
            f"node {node} was removed (groups {used}) and its id is never used again;"
            " give the new node an id that no node has had"
        )


def _check_known(seen: Overview, node: int) -> None:
    if not seen.groups:
        raise OperationRefused("no group is known: no node answers")
    if not any(
        each.member(node) is not None or node in each.removed for each in seen.memberships.values()
    ):
        raise OperationRefused(f"node {node} is and was in no group")


def _check_zones(
    operator: Operator,
    seen: Overview,
    force: bool,
    *,
    add: dict[int, str] | None = None,
    remove: int = 0,
) -> None:
    """Check that after the operation the loss of any one zone leaves a majority, if it did so
    before.

    `force` accepts half of the voters in one zone, but not a majority, since the groups' logs
    refuse that, too. If the nodes are in two zones only, one of them is always needed: the operator
    is told, and nothing is refused.
    """
    for group, held in seen.memberships.items():
        after = held
        for node, zone in (add or {}).items():
            after = _with(after, node, zone)
        if remove and after.member(remove) is not None:
            if after.voters == (remove,):
                raise OperationRefused(f"node {remove} is the last voter of group {group}")
            after = after.after(Reconfigure(after.version + 1, remove, REMOVED, "", {}))
        crowded, needed = after.crowded_zone(), after.needed_zone()
        if crowded is not None and held.crowded_zone() is None:
            raise OperationRefused(
                f"{_would_hold(crowded, 'a majority', group, after)} into another zone"
            )
        if needed is not None and held.needed_zone() is None and not force:
            raise OperationRefused(
                f"{_would_hold(needed, 'half', group, after)} into a zone of its own, or accept"
                " that with --force, as on the way to an odd number of voters"
            )
        if len(after.zones) < 3 <= len(held.zones):
            operator.say(
                f"its nodes stand in {len(after.zones)} zones then: losing one may stop it", group
            )


def _would_hold(zone: str, how_many: str, group: int, after: Membership) -> str:
    inside = [m.node for m in after.members if m.role == VOTER and m.labels.get(ZONE) == zone]
    return (
        f"zone {zone} would hold {how_many} of the voters of group {group} (nodes {inside} of"
        f" {list(after.voters)}): losing it would stop the group; put the node"
    )


def _with(held: Membership, node: int, zone: str) -> Membership:
    labels = {ZONE: zone} if zone else {}
    if held.member(node) is None:
        step = Reconfigure(held.version + 1, node, LEARNER, "not:0", labels)
        held = held.after(step)
    return held.after(Reconfigure(held.version + 1, node, VOTER, "", {}))


async def _check_reached(
    operator: Operator, node: int, address: str, secret: SharedSecret, tls: PeerTls | None
) -> None:
    """Check that the node runs at its address and is the expected one."""
    try:
        place = parse_address(address)
    except ValueError as error:
        raise OperationRefused(str(error)) from None
    operator.say(f"looking for node {node} at {address}")
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + REACH_S
    while True:
        try:
            connection = await dial(
                place, Identity(secret), Role.CLIENT, node, IgnoredFrames(), tls=tls
            )
        except (OSError, TimeoutError) as error:
            if loop.time() >= deadline_s:
                raise OperationRefused(
                    f"no node {node} at {address} ({str(error) or type(error).__name__}); start it"
                    " first, with PACKETBOAT_STORE_JOIN=1"
                ) from None
        else:
            connection.close("only looking")
            return
        await asyncio.sleep(LOOK_AGAIN_S)


class IgnoredFrames:
    """The handler of a connection that is only looked at."""

    def opened(self, connection: object, remote: object, welcome: object) -> None:
        pass

    def frame(self, head: object, body: bytes) -> None:
        pass

    def closed(self, reason: str) -> None:
        pass

    def congestion(self, congested: bool) -> None:
        pass
