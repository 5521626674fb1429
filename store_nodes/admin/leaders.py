"""Leaders of groups: one by name, one for balance, and none on a node that is about to be
stopped.
"""

from __future__ import annotations

from collections import Counter

from store_nodes.admin.errors import NotFinished, OperationRefused
from store_nodes.admin.operator import Operator
from store_nodes.admin.overview import MAX_LAG_INSTANCES, GroupRow, Overview

TRANSFER_S = 30.0


async def transfer(operator: Operator, group: int, node: int) -> None:
    """Make `node` the leader of `group`, for as long as it can lead; `balance` ends this."""
    seen = await operator.stable_overview()
    row = _group(seen, group)
    if node not in row.voters:
        raise OperationRefused(
            f"node {node} is no voter of group {group}, only {list(row.voters)} are"
        )
    _check_fit(seen, row, node)
    operator.say(f"node {node} shall lead", group)
    await operator.client.transfer(group, node, timeout_s=TRANSFER_S)
    await _until_led(operator, {group: node})
    operator.say(f"node {node} leads", group)


async def balance(operator: Operator) -> None:
    """Forget every named leader, and wait until balance's preferred node leads each group.

    A group whose preferred node is down or behind stays where it is.
    """
    seen = await operator.stable_overview()
    for row in seen.groups:
        if row.wished:
            await operator.client.transfer(row.group, 0, timeout_s=TRANSFER_S)
    seen = await operator.overview()
    wanted: dict[int, int] = {}
    for row in seen.groups:
        preferred = row.voters[row.group % len(row.voters)] if row.voters else 0
        if _unfit(seen, row, preferred):
            operator.say(f"stays: node {preferred} {_unfit(seen, row, preferred)}", row.group)
        else:
            wanted[row.group] = preferred
    await _until_led(operator, wanted)
    leads = Counter(wanted.values())
    operator.say(", ".join(f"node {node} leads {count}" for node, count in sorted(leads.items())))


async def drain(operator: Operator, node: int) -> None:
    """Move every leadership off `node`, so that stopping it interrupts nothing.

    Raises OperationRefused if a group would be left without a quorum. `balance` brings the leaders
    back.
    """
    seen = await operator.stable_overview()
    if seen.node(node) is None:
        raise OperationRefused(f"node {node} is not known")
    why = "the others"

    async def may_stop() -> bool:
        nonlocal seen, why
        seen = await operator.overview()
        why = _needed(seen, node)
        if why:
            operator.say(f"waiting: {why}")
        return not why

    patience_s = min(operator.timeout_s, 60.0)
    try:
        await operator.until(may_stop, lambda: why, patience_s)
    except NotFinished:
        raise OperationRefused(f"node {node} must not be stopped now: {why}") from None
    leads = Counter(row.leader for row in seen.groups)
    wanted: dict[int, int] = {}
    for row in seen.groups:
        if node in (row.leader, row.wished) or row.preferred == node:
            others = [voter for voter in row.voters if not _unfit(seen, row, voter)]
            others = [voter for voter in others if voter != node]
            if row.leader in others and row.wished != node:
                to = row.leader
            else:
                to = min(others, key=lambda voter: (leads[voter], voter))
                leads[to] += 1
            assert to is not None
            wanted[row.group] = to
    for group, to in wanted.items():
        operator.say(f"node {to} shall lead", group)
        await operator.client.transfer(group, to, timeout_s=TRANSFER_S)
    await _until_led(operator, wanted)
    operator.say(f"node {node} leads nothing and may be stopped; afterwards, balance")


def _group(seen: Overview, group: int) -> GroupRow:
    row = seen.group(group)
    if row is None or not row.voters:
        raise OperationRefused(f"group {group} is not known")
    return row


def _check_fit(seen: Overview, row: GroupRow, node: int) -> None:
    unfit = _unfit(seen, row, node)
    if unfit:
        raise OperationRefused(f"node {node} {unfit}")


def _unfit(seen: Overview, row: GroupRow, node: int) -> str:
    """Return why the node cannot lead the group now; empty if it can."""
    found = seen.node(node)
    if found is None or not found.up:
        return "is " + (found.state if found is not None else "unknown")
    if row.lags.get(node, row.chosen) > MAX_LAG_INSTANCES:
        return f"is {row.lags.get(node, row.chosen)} instances behind"
    return ""


def _needed(seen: Overview, node: int) -> str:
    """Return why some group needs the node; empty if none does."""
    for row in seen.groups:
        if node not in row.voters:
            continue
        fit = [v for v in row.voters if v != node and not _unfit(seen, row, v)]
        if len(fit) <= len(row.voters) // 2:
            missing = [v for v in row.voters if v != node and v not in fit]
            reasons = ", ".join(f"node {v} {_unfit(seen, row, v)}" for v in missing)
            return f"group {row.group} would have no quorum ({reasons or 'too few voters'})"
    return ""


async def _until_led(operator: Operator, wanted: dict[int, int]) -> None:
    left = dict(wanted)

    async def led() -> bool:
        seen = await operator.overview()
        for row in seen.groups:
            if row.leader is not None and left.get(row.group) == row.leader:
                operator.say(f"node {row.leader} leads", row.group)
                del left[row.group]
        return not left

    def missing() -> str:
        return "; ".join(f"node {node} does not lead group {g} yet" for g, node in left.items())

    await operator.until(led, missing, min(operator.timeout_s, TRANSFER_S))
