"""The groups themselves: how many there are, and checkpoints of all of them."""

from __future__ import annotations

from store_nodes.admin.errors import OperationRefused
from store_nodes.admin.operator import Operator
from store_nodes.commands import GROUPS_COUNTER
from store_nodes.errors import Conflict, OutcomeUnknown


async def add_groups(operator: Operator, total: int | None = None) -> int:
    """Make groups until there are `total` (None: one more than now) and each is led; how many
    there are. With a `total` it may be repeated."""
    seen = await operator.stable_overview()
    if not seen.groups:
        raise OperationRefused("no group is known: no node answers")
    have = max(row.group for row in seen.groups) + 1
    counted = await operator.client.counter(0, GROUPS_COUNTER)
    have = max(have, counted)
    wanted = have + 1 if total is None else total
    if wanted < have:
        raise OperationRefused(f"there are {have} groups already, and groups are never removed")
    if wanted > have:
        operator.say(f"{have} groups become {wanted}")
        await _count(operator, counted, wanted)
    await operator.until(
        lambda: _are_led(operator, wanted),
        lambda: f"not all of the {wanted} groups are led yet; run it again with --total {wanted}",
    )
    operator.say(f"there are {wanted} groups, all led")
    return wanted


async def _count(operator: Operator, counted: int, wanted: int) -> None:
    try:
        await operator.client.compare_and_set(0, GROUPS_COUNTER, counted, wanted, timeout_s=30.0)
    except (Conflict, OutcomeUnknown):
        now = await operator.client.counter(0, GROUPS_COUNTER, timeout_s=30.0)
        if now < wanted:
            raise OperationRefused(
                f"another operator changes the groups too (counter {now})"
            ) from None


async def _are_led(operator: Operator, wanted: int) -> bool:
    seen = await operator.overview()
    led = [row.group for row in seen.groups if row.leader is not None and row.group < wanted]
    if len(led) < wanted:
        operator.say(f"{len(led)} of {wanted} groups are led")
    return len(led) == wanted


async def checkpoint(operator: Operator) -> None:
    """Have every node write a checkpoint now."""
    seen = await operator.stable_overview()
    for row in seen.groups:
        await operator.client.take_checkpoint(row.group, "operator", timeout_s=30.0)
        operator.say("checkpoint asked for", row.group)
