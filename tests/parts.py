"""Which tests run apart, which are long, and how the long ones are cut into parts.

A name here is a path or a pytest node id, and stands for all tests whose node id begins with it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
PARTS = 5
"""CI runs one part of the long tests; this number of commits in a row runs all of them."""

QUICK = ("tests/unit", "tests/tidy", "tests/golden")
"""They start no server and no cluster, so that any two of them may run at once."""

ALONE = (
    "tests/chaos/test_backup.py",
    "tests/chaos/test_exports.py",
    "tests/chaos/test_rolling.py",
    "tests/chaos/test_rotation.py",
    "tests/e2e/test_export_cluster.py",
    "tests/e2e/test_exports.py",
    "tests/e2e/test_guides.py::test_the_blocks_of_a_guide_with_exports_run",
    "tests/integration/exports/driver/",
    "tests/integration/spark/",
    "tests/terraform/test_platform_cluster.py",
    "tests/terraform/test_platform_runs.py",
)
"""Spark, or all nine processes: these tests keep both cores busy and run one at a time."""

LONG: Mapping[str, int] = {
    "tests/chaos/test_backup.py": 90,
    "tests/chaos/test_damage.py"
    "::test_a_node_with_a_damaged_log_repairs_itself_and_nothing_is_lost[sealed": 90,
    "tests/chaos/test_damage.py"
    "::test_a_node_with_a_damaged_log_repairs_itself_and_nothing_is_lost[tail-end": 60,
    "tests/chaos/test_damage.py"
    "::test_batches_lost_below_the_checkpoint_are_fetched_and_the_node_votes_on": 60,
    "tests/chaos/test_damage.py"
    "::test_messages_lost_on_several_nodes_are_refused_by_name_where_nobody_has_them": 30,
    "tests/chaos/test_delivery.py": 100,
    "tests/chaos/test_exports.py": 120,
    "tests/chaos/test_fleet.py": 240,
    "tests/chaos/test_peer_tls.py": 110,
    "tests/chaos/test_postgres_restored.py": 240,
    "tests/chaos/test_power_cuts.py::test_thirty_power_cuts_in_odd_orders_lose_nothing": 90,
    "tests/chaos/test_rolling.py": 150,
    "tests/chaos/test_rotation.py": 90,
    "tests/chaos/test_wiped_nodes.py"
    "::test_a_node_that_lost_what_it_had_is_refused_and_nothing_is_lost": 30,
    "tests/chaos/test_word_count.py::test_words_are_counted_exactly_while_workers_are_killed": 40,
    "tests/chaos/test_worker_chain.py": 100,
    "tests/e2e/test_backup_of_up.py": 60,
    "tests/e2e/test_export_cluster.py": 120,
    "tests/e2e/test_exports.py::test_what_others_broke_is_found_and_put_right": 60,
    "tests/e2e/test_guides.py::test_the_blocks_of_a_guide_with_exports_run": 180,
    "tests/e2e/test_load_balancers.py": 120,
    "tests/e2e/test_operations_docs.py": 240,
    "tests/e2e/test_restore_docs.py": 100,
    "tests/e2e/test_tenancy_crashes.py": 90,
    "tests/e2e/test_worker_faults.py": 40,
    "tests/integration/exports/driver/test_cluster.py": 60,
    "tests/integration/subscribe_forwarder/test_push_postgres.py"
    "::test_every_message_is_delivered_or_dead_lettered_and_others_go_on": 60,
    "tests/terraform/test_demo.py": 40,
    "tests/terraform/test_guide.py::test_the_blocks_of_the_guide_run": 40,
    "tests/terraform/test_parallel.py": 40,
    "tests/terraform/test_tenancy.py": 180,
    "tests/terraform/test_two_teams.py": 30,
}
"""Tests that need real processes for longer than about 20 s, each with its seconds on two cores.

`make test` leaves them out, `make test-long` runs them, and CI runs one part of them.
"""


def rotating(parts: int) -> int:
    """Return the part, from 1, whose turn it is at the commit that is checked out."""
    counted = subprocess.run(
        ["git", "-c", "safe.directory=*", "-C", str(ROOT), "rev-list", "--count", "HEAD"],
        capture_output=True,
        text=True,
        check=True,
    )
    return int(counted.stdout) % parts + 1


def which(text: str) -> tuple[int, int]:
    """Read `K/N` or `rotating`; return the part, from 1, and how many parts there are.

    Raises ValueError for anything else.
    """
    if text == "rotating":
        return rotating(PARTS), PARTS
    part, _, parts = text.partition("/")
    if not (part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise ValueError(f"{text!r} is no part: write rotating, or K/N such as 2/5")
    return int(part), int(parts)


def share(part: int, parts: int, long: Mapping[str, int] = LONG) -> list[str]:
    """Return the names in `part` of `parts`; parts take about equally long."""
    shares: list[list[str]] = [[] for _ in range(parts)]
    seconds = [0] * parts
    for name in sorted(long, key=lambda name: (-long[name], name)):
        least = seconds.index(min(seconds))
        shares[least].append(name)
        seconds[least] += long[name]
    return shares[part - 1]


def part_of(text: str) -> list[str]:
    """Return the names in `all`, `K/N` or `rotating`; raises ValueError for anything else."""
    return list(LONG) if text == "all" else share(*which(text))
