"""The lists of tests that run apart, of long tests, and of the parts of the long ones.

A name here is a path or a pytest node id, and stands for all tests whose node id begins with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tests.parts import Part


class Share(NamedTuple):
    """Tests that `make test` runs in one process, beside the other shares.

    The higher the niceness, the more it leaves the processors to the others.
    """

    name: str
    paths: tuple[str, ...]
    niceness: int = 0
    without: tuple[str, ...] = ()

    def has(self, test: str) -> bool:
        """Return whether a test or a file of tests, by its path, is in this share."""
        return test.startswith(self.paths) and not test.startswith(self.without or ("\0",))


CLIENTS = ("tests/unit/sdk", "tests/unit/spark_exports", "tests/unit/subscribe_forwarder")
FIXTURE = "tests/e2e/fixture"
SHARES = (
    Share("core", ("tests/simulation", "tests/tidy", "tests/unit"), niceness=5, without=CLIENTS),
    Share("clients", CLIENTS, niceness=5),
    Share("installations", ("tests/e2e",), without=(FIXTURE,)),
    Share(
        "rows",
        (
            *("tests/integration/metadata", "tests/integration/outbox"),
            *("tests/integration/quotas", "tests/integration/scheduler"),
            *("tests/integration/spark", "tests/integration/subscribe_forwarder"),
        ),
    ),
    Share(
        "outside",
        (
            *("tests/packaging", "tests/terraform", "tests/security", "tests/contract"),
            "tests/recorded",
        ),
    ),
    Share(
        "stores",
        (
            *("tests/integration/publish_forwarder", "tests/integration/store_nodes"),
            *("tests/integration/placement", FIXTURE),
        ),
    ),
    Share("faults", ("tests/chaos", "tests/deploy", "tests/golden")),
    Share(
        "books",
        (
            *("tests/integration/balancers", "tests/integration/dead_letters"),
            *("tests/integration/exports", "tests/integration/jobs", "tests/integration/lake"),
            "tests/integration/locks",
        ),
    ),
)
"""All tests, each in one share.

Those that start servers wait for them most of the time, and a share starts each kind of server
once. `core` and `clients`, which need no server, use the processors meanwhile. They start in this
order, some at a time (tests/run.py): those that take long begin first, so that none is left alone
at the end. A server that a session keeps uses the processor while it stands idle, so the tests that
need one come last in a share.
"""

ALONE = (
    "tests/chaos/test_backup.py",
    "tests/chaos/test_exports.py",
    "tests/chaos/test_rolling.py",
    "tests/chaos/test_rotation.py",
    "tests/e2e/test_export_cluster.py",
    "tests/e2e/test_exports.py",
    "tests/e2e/test_guides.py::test_the_blocks_of_a_guide_with_exports_run",
    "tests/e2e/test_guides.py::test_the_lake_of_the_readme_has_what_was_consumed",
    "tests/integration/exports/driver/",
    "tests/integration/spark/",
    "tests/terraform/test_platform_cluster.py",
    "tests/terraform/test_platform_runs.py",
)
"""Spark, or all nine processes: these tests keep both cores busy and run one at a time."""

LONG: Mapping[str, int] = {
    "tests/chaos/test_backup.py": 90,
    "tests/chaos/test_commands.py::test_every_command_holds_while_leaders_die_and_hang": 30,
    "tests/chaos/test_damage.py::test_a_damaged_settled_segment_is_repaired[misdirect_a_block": 20,
    "tests/chaos/test_damage.py::test_a_damaged_settled_segment_is_repaired[zero_a_block": 20,
    "tests/chaos/test_damage.py"
    "::test_a_node_with_a_damaged_log_repairs_itself_and_nothing_is_lost[sealed": 90,
    "tests/chaos/test_damage.py"
    "::test_a_node_with_a_damaged_log_repairs_itself_and_nothing_is_lost[tail-end": 60,
    "tests/chaos/test_damage.py"
    "::test_a_node_with_a_damaged_log_repairs_itself_and_nothing_is_lost[tail-middle-misdirect": 10,
    "tests/chaos/test_damage.py"
    "::test_a_node_with_a_damaged_log_repairs_itself_and_nothing_is_lost[tail-middle-zero": 10,
    "tests/chaos/test_damage.py"
    "::test_a_node_without_a_whole_checkpoint_is_made_whole_by_its_peers": 50,
    "tests/chaos/test_damage.py"
    "::test_batches_lost_below_the_checkpoint_are_fetched_and_the_node_votes_on": 60,
    "tests/chaos/test_damage.py"
    "::test_messages_lost_on_several_nodes_are_refused_by_name_where_nobody_has_them": 30,
    "tests/chaos/test_damage.py::test_one_damaged_checkpoint_costs_a_longer_start[zero_a_block": 20,
    "tests/chaos/test_delivery.py": 100,
    "tests/chaos/test_exports.py": 120,
    "tests/chaos/test_fleet.py": 240,
    "tests/chaos/test_install_storm.py": 60,
    "tests/chaos/test_peer_tls.py": 110,
    "tests/chaos/test_postgres_restored.py": 240,
    "tests/chaos/test_power_cuts.py::test_thirty_power_cuts_in_odd_orders_lose_nothing": 90,
    "tests/chaos/test_replaced_nodes.py"
    "::test_a_wiped_node_is_replaced_under_load_and_cannot_come_back": 30,
    "tests/chaos/test_rolling.py": 150,
    "tests/chaos/test_rotation.py": 90,
    "tests/chaos/test_torture_short.py::test_kills_and_a_hang_lose_nothing": 30,
    "tests/chaos/test_torture_short.py::test_power_cuts_of_one_node_and_of_all_lose_nothing": 20,
    "tests/chaos/test_wiped_nodes.py"
    "::test_a_node_that_lost_what_it_had_is_refused_and_nothing_is_lost": 30,
    "tests/chaos/test_word_count.py::test_words_are_counted_exactly_while_workers_are_killed": 40,
    "tests/chaos/test_worker_chain.py": 100,
    "tests/contract/test_openapi.py::test_answers_to_more_that_is_drawn_are_as_described": 240,
    "tests/contract/test_openapi_limits.py": 120,
    "tests/deploy/test_units_run.py": 40,
    "tests/e2e/test_backup_of_up.py": 60,
    "tests/e2e/test_bad_input.py::test_connections_that_say_nothing_are_closed": 20,
    "tests/e2e/test_export_cluster.py": 120,
    "tests/e2e/test_exports.py": 300,
    "tests/e2e/test_guides.py::test_the_blocks_of_a_guide_run[command-line]": 60,
    "tests/e2e/test_guides.py::test_the_blocks_of_a_guide_run[map-reduce]": 20,
    "tests/e2e/test_guides.py::test_the_blocks_of_a_guide_run[spark]": 60,
    "tests/e2e/test_guides.py::test_the_blocks_of_a_guide_run[stream-tasks]": 30,
    "tests/e2e/test_guides.py::test_the_blocks_of_a_guide_run[testing]": 40,
    "tests/e2e/test_guides.py::test_the_blocks_of_a_guide_run[tutorial]": 100,
    "tests/e2e/test_guides.py::test_the_blocks_of_a_guide_with_exports_run": 300,
    "tests/e2e/test_guides.py::test_the_lake_of_the_readme_has_what_was_consumed": 60,
    "tests/e2e/test_limits.py::test_expire_oldest_takes_what_comes_and_counts_what_goes": 30,
    "tests/e2e/test_load_balancers.py": 120,
    "tests/e2e/test_oauth.py::test_tokens_and_the_operator_outlive_a_restart": 30,
    "tests/e2e/test_operations_docs.py": 240,
    "tests/e2e/test_restore_docs.py": 100,
    "tests/e2e/test_telemetry.py"
    "::test_a_message_is_one_trace_from_its_publisher_to_a_webhook_and_linked_from_its_pull": 25,
    "tests/e2e/test_tenancy.py::test_webhooks_of_a_suspended_tenant_wait": 30,
    "tests/e2e/test_tenancy_crashes.py": 90,
    "tests/e2e/test_up.py::test_a_dead_child_is_started_again": 30,
    "tests/e2e/test_up.py::test_ctrl_c_leaves_nothing_and_a_second_start_finds_the_messages": 60,
    "tests/e2e/test_up.py::test_kill_9_of_the_supervisor_ends_everything_and_loses_nothing": 30,
    "tests/e2e/test_worker_faults.py": 40,
    "tests/golden/test_data.py::test_the_data_of_an_earlier_release_is_gone_on_with[0.1.0": 20,
    "tests/integration/exports/driver/test_cluster.py": 60,
    "tests/integration/exports/driver/test_driver_process.py": 180,
    "tests/integration/lake/test_crashes.py"
    "::test_who_dies_at_any_step_is_followed_by_one_who_ends_it[maintain]": 20,
    "tests/integration/metadata/test_row_security.py"
    "::test_two_databases_of_a_cluster_may_make_the_roles_at_once": 10,
    "tests/integration/metadata/test_worked_example.py"
    "::test_a_generated_copy_has_the_field_of_the_example": 20,
    "tests/integration/spark/test_packaged_java.py": 40,
    "tests/integration/spark/test_reads.py": 90,
    "tests/integration/spark/test_streams.py": 90,
    "tests/integration/store_nodes/test_admin.py"
    "::test_a_dead_node_is_replaced_by_a_command_that_is_killed_twice": 30,
    "tests/integration/store_nodes/test_admin.py::test_any_zone_of_three_can_be_lost": 30,
    "tests/integration/store_nodes/test_admin.py"
    "::test_nodes_restart_one_by_one_and_leaders_come_back": 30,
    "tests/integration/store_nodes/test_admin.py"
    "::test_nothing_is_added_that_does_not_run_or_is_another": 30,
    "tests/integration/store_nodes/test_install.py"
    "::test_an_install_that_is_killed_again_and_again_comes_to_its_end": 30,
    "tests/integration/store_nodes/test_install.py"
    "::test_an_install_whose_source_dies_never_takes_the_node_back": 40,
    "tests/integration/store_nodes/test_old_age.py": 30,
    "tests/integration/store_nodes/test_storage.py"
    "::test_a_node_that_missed_more_than_memory_holds_catches_up_from_the_log": 30,
    "tests/integration/store_nodes/test_storage.py"
    "::test_a_node_that_never_lives_long_leaves_a_checkpoint_all_the_same": 30,
    "tests/integration/subscribe_forwarder/test_linked_push.py": 140,
    "tests/integration/subscribe_forwarder/test_push_postgres.py"
    "::test_every_message_is_delivered_or_dead_lettered_and_others_go_on": 60,
    "tests/packaging/test_packaging.py"
    "::test_a_type_checker_finds_the_mistakes_and_nothing_else": 15,
    "tests/packaging/test_packaging.py::test_and_with_later_pythons": 70,
    "tests/packaging/test_packaging.py::test_every_type_is_known": 20,
    "tests/packaging/test_packaging.py"
    "::test_pytest_runs_in_a_project_with_folders_named_like_ours": 30,
    "tests/packaging/test_packaging.py::test_two_builds_give_the_same_wheels": 15,
    "tests/packaging/test_packaging.py::test_up_runs_in_a_project_with_folders_named_like_ours": 30,
    "tests/simulation/delivery/test_runs.py::test_a_seed_is_one_history": 40,
    "tests/simulation/delivery/test_runs.py::test_every_mutation_is_noticed": 230,
    "tests/simulation/test_every_scenario.py": 60,
    "tests/simulation/test_store_mutations.py": 240,
    "tests/terraform/test_backlog_protection.py": 40,
    "tests/terraform/test_demo.py": 40,
    "tests/terraform/test_go.py::test_the_providers_own_tests_pass": 20,
    "tests/terraform/test_guide.py::test_the_blocks_of_the_guide_run": 40,
    "tests/terraform/test_lifecycle.py::test_secrets_of_a_webhook_are_shown_in_no_plan": 15,
    "tests/terraform/test_messages.py": 60,
    "tests/terraform/test_modules.py"
    "::test_each_is_valid_and_passes_its_tests[modules/platform/manifests": 20,
    "tests/terraform/test_parallel.py": 40,
    "tests/terraform/test_platform_module.py"
    "::test_every_object_is_applied_once_and_the_second_plan_is_empty": 20,
    "tests/terraform/test_platform_network.py": 10,
    "tests/terraform/test_platform_runs.py": 90,
    "tests/terraform/test_tenancy.py": 180,
    "tests/terraform/test_two_teams.py": 30,
}
"""Tests that need real processes or the processor for long, each with its seconds on two cores.

`make test` leaves them out, `make test-long` runs them, and CI runs one part of them.
"""

IN_TURN: Mapping[str, int] = {
    "tests/chaos/test_partitions.py"
    "::test_the_others_serve_while_the_leader_or_a_follower_is_isolated": 25,
    "tests/deploy/test_alerts.py::test_an_alert_fires_when_it_should": 20,
    "tests/e2e/test_guides.py::test_the_blocks_of_a_guide_run": 60,
    "tests/integration/lake/test_crashes.py"
    "::test_who_dies_at_any_step_is_followed_by_one_who_ends_it": 15,
    "tests/integration/metadata/test_embedded.py": 40,
    "tests/integration/placement/test_placement.py"
    "::test_a_mover_killed_at_any_step_is_followed_by_another": 40,
    "tests/simulation/test_scenarios.py::test_row_9_nats_7549_bit_errors_on_a_minority": 10,
    "tests/simulation/test_simulation.py::test_every_mutation_is_caught": 20,
    "tests/simulation/test_store.py::test_a_run": 10,
    "tests/terraform/test_modules.py::test_each_is_valid_and_passes_its_tests": 20,
    "tests/terraform/test_platform_manifests.py::test_kubernetes_takes_every_object": 15,
    "tests/unit/edge/test_large_bodies.py"
    "::test_a_large_batch_is_what_a_small_one_is_and_holds_up_nobody": 15,
    "tests/unit/scheduler/test_balancing.py::test_any_fleet_comes_to_rest": 10,
    "tests/unit/spark_exports/lake/test_maintenance.py"
    "::test_small_files_become_one_a_partition": 15,
    "tests/unit/subscribe_forwarder/test_push_limiter.py"
    "::test_an_outage_of_a_minute_ends_without_a_stampede": 15,
    "tests/unit/subscribe_forwarder/test_push_limiter.py"
    "::test_one_that_fails_a_share_of_its_requests_is_kept_busy": 10,
}
"""Tests that try one rule many times, each with the seconds of all of its cases on two cores.

`make test` runs one of three cases, others at the next commit; all of them are long tests as well.
A case that LONG names has no turn.
"""

ALL_LONG: Mapping[str, int] = {**LONG, **IN_TURN}


def name_of(test: str) -> str | None:
    """Return the name that a test is listed under as a long one; the longest, where two are."""
    return max((name for name in ALL_LONG if test.startswith(name)), key=len, default=None)


def names_of(part: Part) -> list[str]:
    """Return the names of the long tests in this part.

    Parts take about equally long, and so do those of their tests that run alone.
    """
    shares: list[list[str]] = [[] for _ in range(part.count)]
    for alone in (True, False):
        seconds = [0] * part.count
        names = [name for name in ALL_LONG if name.startswith(ALONE) is alone]
        for name in sorted(names, key=lambda name: (-ALL_LONG[name], name)):
            least = seconds.index(min(seconds))
            shares[least].append(name)
            seconds[least] += ALL_LONG[name]
    return shares[part.number - 1]
