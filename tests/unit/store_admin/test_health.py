"""Test what `packetboat store wait` waits for, and the setting that `packetboat store
nodes` prints.
"""

from __future__ import annotations

from typing import Any

import pytest

from store_nodes.admin.health import missing, setting
from store_nodes.admin.overview import overview
from tests.unit.store_admin.test_overview import group, look, statuses, up

LEARNER = {"members": {1: "voter", 2: "voter", 3: "learner"}}


def three(**third: Any) -> dict[int, dict[str, Any]]:
    """Return a whole cluster, except for what its third node says of the group."""
    return statuses(n1=up(group(0, 1)), n2=up(group(0, 1)), n3=up(group(0, 1, **third)))


def behind(instances: int) -> dict[int, dict[str, Any]]:
    level = {"chosen": instances, "applied": instances}
    seen = {node: up(group(0, 1, **level)) for node in (1, 2)}
    return seen | {3: up(group(0, 1, chosen=instances, applied=0))}


def test_nothing_is_missing_of_a_whole_cluster() -> None:
    assert missing(look(three())) == ""


@pytest.mark.parametrize(
    ("seen", "word"),
    [
        (three() | {3: {"error": "refused"}}, "node 3 is down (refused)"),
        (three() | {3: up(group(0, 1), damaged="segment 3")}, "node 3 is damaged"),
        (behind(2000), "node 3 is 2000 instances behind"),
        ({node: up(group(0, None)) for node in (1, 2, 3)}, "group 0 has no leader"),
        ({node: up(group(0, 1, **LEARNER)) for node in (1, 2, 3)}, "nodes [3] are no voters"),
    ],
)
def test_it_says_what_is_missing(seen: dict[int, dict[str, Any]], word: str) -> None:
    assert word in missing(look(seen))


def test_nobody_answers() -> None:
    assert "no node answers" in missing(overview({}, {}, []))


def test_a_removed_node_is_not_missed() -> None:
    left = {"members": {1: "voter", 2: "voter"}, "removed": [3]}
    seen = {node: up(group(0, 1, **left)) for node in (1, 2)} | {3: {"error": "refused"}}
    assert missing(look(seen)) == ""
    assert setting(look(seen)) == "1=host:1@a,2=host:2@b"
