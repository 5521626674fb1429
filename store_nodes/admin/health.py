"""The check that the store is whole: every node up and level, every group led.

Scripts that go from one node to the next use it.
"""

from __future__ import annotations

from store_nodes.admin.operator import Operator
from store_nodes.admin.overview import MAX_LAG_INSTANCES, Overview


async def until_well(operator: Operator) -> None:
    """Wait until nothing is missing; raises NotFinished with the text about it."""
    why = "nothing is known yet"

    async def well() -> bool:
        nonlocal why
        why = missing(await operator.overview())
        if why:
            operator.say(f"waiting: {why}")
        return not why

    await operator.until(well, lambda: why)
    operator.say("every node is up and has caught up, and every group is led")


def missing(seen: Overview) -> str:
    """Return the first fault of the cluster; empty if there is none. Removed nodes do not count."""
    if not seen.groups:
        return "no group is known: no node answers"
    for node in seen.nodes:
        if node.state == "removed" or not (node.voter_in or node.learner_in):
            continue
        if not node.up:
            return f"node {node.node} is {node.state}" + (f" ({node.why})" if node.why else "")
    for row in seen.groups:
        if row.leader is None:
            return f"group {row.group} has no leader"
        if row.learners:
            return f"group {row.group}: nodes {list(row.learners)} are no voters yet"
        for voter in row.voters:
            if row.lags.get(voter, row.chosen) > MAX_LAG_INSTANCES:
                return f"group {row.group}: node {voter} is {row.lags.get(voter)} instances behind"
    return ""


def setting(seen: Overview) -> str:
    """Return the nodes in the form of PACKETBOAT_STORE_NODES: `1=host:port@zone,…`."""
    return ",".join(
        f"{row.node}={row.address}" + (f"@{row.zone}" if row.zone else "")
        for row in seen.nodes
        if row.address and (row.voter_in or row.learner_in)
    )
