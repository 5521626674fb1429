"""Which tests run apart, which are long, and which of the long ones a part has.

A name here is a path or a pytest node id, and stands for all tests whose node id begins with it.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.parts import Part

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
    "tests/chaos/test_install_storm.py": 60,
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
    "tests/e2e/test_exports.py": 300,
    "tests/e2e/test_guides.py::test_the_blocks_of_a_guide_run[command-line]": 60,
    "tests/e2e/test_guides.py::test_the_blocks_of_a_guide_run[spark]": 60,
    "tests/e2e/test_guides.py::test_the_blocks_of_a_guide_run[testing]": 40,
    "tests/e2e/test_guides.py::test_the_blocks_of_a_guide_run[tutorial]": 100,
    "tests/e2e/test_guides.py::test_the_blocks_of_a_guide_with_exports_run": 180,
    "tests/e2e/test_load_balancers.py": 120,
    "tests/e2e/test_oauth.py::test_tokens_and_the_operator_outlive_a_restart": 30,
    "tests/e2e/test_operations_docs.py": 240,
    "tests/e2e/test_restore_docs.py": 100,
    "tests/e2e/test_tenancy_crashes.py": 90,
    "tests/e2e/test_worker_faults.py": 40,
    "tests/integration/exports/driver/test_cluster.py": 60,
    "tests/integration/exports/driver/test_driver_process.py": 180,
    "tests/integration/spark/test_packaged_java.py": 40,
    "tests/integration/store_nodes/test_admin.py"
    "::test_a_dead_node_is_replaced_by_a_command_that_is_killed_twice": 30,
    "tests/integration/store_nodes/test_admin.py::test_any_zone_of_three_can_be_lost": 30,
    "tests/integration/store_nodes/test_storage.py"
    "::test_a_node_that_missed_more_than_memory_holds_catches_up_from_the_log": 30,
    "tests/integration/subscribe_forwarder/test_linked_push.py": 140,
    "tests/integration/subscribe_forwarder/test_push_postgres.py"
    "::test_every_message_is_delivered_or_dead_lettered_and_others_go_on": 60,
    "tests/packaging/test_packaging.py::test_and_with_later_pythons": 70,
    "tests/terraform/test_demo.py": 40,
    "tests/terraform/test_guide.py::test_the_blocks_of_the_guide_run": 40,
    "tests/terraform/test_parallel.py": 40,
    "tests/terraform/test_platform_runs.py": 90,
    "tests/terraform/test_tenancy.py": 180,
    "tests/terraform/test_two_teams.py": 30,
}
"""Tests that need real processes for longer than about 20 s, each with its seconds on two cores.

`make test` leaves them out, `make test-long` runs them, and CI runs one part of them.
"""


def names_of(part: Part) -> list[str]:
    """Return the names of LONG in this part; parts take about equally long."""
    shares: list[list[str]] = [[] for _ in range(part.count)]
    seconds = [0] * part.count
    for name in sorted(LONG, key=lambda name: (-LONG[name], name)):
        least = seconds.index(min(seconds))
        shares[least].append(name)
        seconds[least] += LONG[name]
    return shares[part.number - 1]
