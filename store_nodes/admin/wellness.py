"""Whether the store is whole: every node up and level, every group led. For scripts that go from
one node to the next."""

from __future__ import annotations

from store_nodes.admin.operator import Operator
from store_nodes.admin.overview import MAX_LAG_INSTANCES, Overview


async def until_well(operator: Operator) -> None:
    """Until nothing is missing; raises NotFinished with what is."""
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
    """The first thing that is not as it should be; empty if all is. Removed nodes do not count."""
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
    """The nodes as PACKETBOAT_STORE_NODES writes them: `1=host:port@zone,…`."""
    return ",".join(
        f"{row.node}={row.address}" + (f"@{row.zone}" if row.zone else "")
        for row in seen.nodes
        if row.address and (row.voter_in or row.learner_in)
    )
