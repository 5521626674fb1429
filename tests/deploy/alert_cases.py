"""A well installation as Prometheus sees it, and for each alert what is wrong when it fires.

Series are as promtool writes them: `0+1x75` begins at 0 and grows by 1, 75 times, every minute.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

STEPS = 40
"""Minutes."""
DAY_S = 86_400
NODES = ("1", "2", "3")
GROUPS = ("0", "1")


def still(value: float) -> str:
    return f"{value:g}x{STEPS}" if value >= 0 else f"{value:g}+0x{STEPS}"


def grows(by: float) -> str:
    """Return a series that grows by `by` each 15 s, the time between two scrapes."""
    return f"0+{4 * by:g}x{STEPS}"


def _of_node(name: str, value: str) -> dict[str, str]:
    return {f'packetboat_store_{name}{{node="{node}"}}': value for node in NODES}


def _of_group(name: str, values: Mapping[str, str]) -> dict[str, str]:
    return {
        f'packetboat_store_group_{name}{{node="{node}",group="{group}"}}': value
        for node, value in values.items()
        for group in GROUPS
    }


def _same(value: str) -> dict[str, str]:
    return dict.fromkeys(NODES, value)


def _histogram(name: str, bounds: Mapping[str, float]) -> dict[str, str]:
    """Return the buckets of a histogram; `bounds` has how much each bucket grows in 15 s."""
    return {f'{name}_bucket{{le="{bound}"}}': grows(by) for bound, by in bounds.items()}


WELL: dict[str, str] = {
    **_of_node("installing_groups", still(0)),
    **_of_node("unmet_nodes", still(0)),
    **_of_node("disk_full", still(0)),
    **_of_node("disk_free_bytes", still(64e9)),
    **_of_node("disk_reserve_bytes", still(268435456)),
    **_of_node("flush_seconds_sum", grows(0.3)),
    **_of_node("flush_seconds_count", grows(150)),
    **_of_node("damaged", still(0)),
    **_of_node("lost_ranges", still(0)),
    **_of_group("led", _same(still(1))),
    **_of_group("voting", _same(still(1))),
    **_of_group("voters", _same(still(3))),
    **_of_group("slow", _same(still(0))),
    **_of_group("applied_instances", _same(grows(1000))),
    **_of_group("leading", {"1": still(1), "2": still(0), "3": still(0)}),
    "packetboat_publish_refused_messages_total": still(0),
    "packetboat_publish_overload_refusals_total": still(0),
    "packetboat_publish_unknown_messages_total": still(0),
    "packetboat_publish_lost_messages_total": still(0),
    **_histogram("packetboat_publish_append_seconds", {"0.5": 100, "2.5": 100, "+Inf": 100}),
    'packetboat_scheduler_leading{instance="a"}': still(1),
    'packetboat_scheduler_leading{instance="b"}': still(0),
    'packetboat_scheduler_full_topics{instance="a"}': still(0),
    # The last value of a scheduler that no longer leads does not count.
    'packetboat_scheduler_full_topics{instance="b"}': still(3),
    'packetboat_scheduler_backlog_age_seconds{instance="a"}': still(60),
    'packetboat_scheduler_backlog_age_seconds{instance="b"}': still(0),
    'packetboat_scheduler_export_wait_seconds{instance="a"}': still(5),
    'packetboat_scheduler_export_wait_seconds{instance="b"}': still(9999),
    'packetboat_scheduler_failures_total{part="trim round"}': still(0),
    "packetboat_scheduler_schedule_failures_total": still(0),
    **_histogram("packetboat_scheduler_late_seconds", {"0.1": 50, "60.0": 50, "+Inf": 50}),
    'packetboat_subscribe_lease_held{instance="a"}': still(1),
    'packetboat_subscribe_unbalanced_cursors{instance="a"}': still(0),
    'packetboat_subscribe_flush_failed_total{how="unknown"}': still(0),
    'packetboat_subscribe_fetch_failed_total{kind="Unavailable"}': still(0),
    "packetboat_subscribe_undelivered_dead_letters": still(0),
    'packetboat_push_endpoints{breaker="open"}': still(0),
    'packetboat_push_endpoints{breaker="closed"}': still(9),
    'packetboat_push_decisions_total{what="disabled"}': still(0),
    'packetboat_push_decisions_total{what="enabled"}': grows(1),
    'packetboat_exports_runs_finished_total{kind="append",state="failed"}': still(0),
    'packetboat_exports_runs_finished_total{kind="append",state="succeeded"}': grows(1),
    "packetboat_export_runner_heard_timestamp_seconds": grows(15),
    'packetboat_metadata_failures_total{code="metadata_unavailable"}': still(0),
    'packetboat_metadata_failures_total{code="not_found"}': grows(50),
    'packetboat_breaker_state{to="metadata"}': still(0),
    'packetboat_breaker_state{to="group-3"}': still(0),
    "packetboat_postgres_recoveries_total": still(0),
    "packetboat_store_orphaned_topics": still(0),
    'packetboat_audit_failures_total{step="begin"}': still(0),
    "packetboat_usage_report_failures_total": still(0),
    'packetboat_backup_last_success_timestamp_seconds{instance="a"}': still(0),
    'packetboat_backup_last_success_timestamp_seconds{instance="b"}': still(0),
    'packetboat_peer_certificate_expires_timestamp_seconds{of="own"}': still(30 * DAY_S),
    'packetboat_peer_certificate_expires_timestamp_seconds{of="ca"}': still(900 * DAY_S),
    "packetboat_peer_certificate_unreadable": still(0),
    'packetboat_peer_connections_refused_total{why="plain"}': still(0),
    'up{job="packetboat-publish",instance="a"}': still(1),
    'process_start_time_seconds{job="packetboat-publish"}': still(1),
    'process_open_fds{job="packetboat-publish"}': still(100),
    'process_max_fds{job="packetboat-publish"}': still(65536),
    'packetboat_admission_refused_total{reason="delay",urgency="normal"}': still(0),
    'packetboat_gateway_requests_total{status="201"}': grows(1000),
    'packetboat_gateway_requests_total{status="404"}': grows(1000),
    'packetboat_gateway_requests_total{status="503"}': grows(10),
    'packetboat_gateway_requests_total{status="500"}': still(0),
    'packetboat_background_failures_total{task="expiry of leases"}': still(0),
    'packetboat_gateway_requests_total{status="504"}': still(0),
}
"""Nothing fires, at whatever time."""


class Case(NamedTuple):
    """Series that are not as in `WELL` (empty: they are not there), and what else fires by that."""

    wrong: dict[str, str]
    beside: frozenset[str] = frozenset()


def _one(series: str, values: str, *beside: str) -> Case:
    assert series in WELL, series
    return Case({series: values}, frozenset(beside))


DOWN = {name: "" for name in WELL if 'node="3"' in name}
"""Node 3 answers nobody."""
GROUP_1 = {
    name: still(0)
    for name in WELL
    if name.startswith("packetboat_store_group_led") and 'group="1"' in name
}
SECOND = 'node="2"'
CASES: dict[str, Case] = {
    "PacketboatGroupWithoutLeader": Case(GROUP_1),
    "PacketboatVotersMissing": Case(DOWN),
    "PacketboatStoreNodeNotReady": _one(
        f"packetboat_store_installing_groups{{{SECOND}}}", still(1)
    ),
    "PacketboatStoreNodeBehind": _one(
        f'packetboat_store_group_applied_instances{{{SECOND},group="0"}}', grows(900)
    ),
    "PacketboatStoreDiskFull": _one(f"packetboat_store_disk_full{{{SECOND}}}", still(1)),
    "PacketboatStoreDiskFills": _one(
        f"packetboat_store_disk_free_bytes{{{SECOND}}}", f"64e9-80e6x{STEPS}"
    ),
    "PacketboatStoreDiskSlow": _one(f"packetboat_store_flush_seconds_sum{{{SECOND}}}", grows(15)),
    "PacketboatStoreDamaged": _one(f"packetboat_store_damaged{{{SECOND}}}", still(1)),
    "PacketboatStoreMessagesMissing": _one(f"packetboat_store_lost_ranges{{{SECOND}}}", still(2)),
    "PacketboatLeadersChange": Case(
        {
            'packetboat_store_group_leading{node="1",group="0"}': "1 0 " * (STEPS // 2 + 1),
            'packetboat_store_group_leading{node="2",group="0"}': "0 1 " * (STEPS // 2 + 1),
        }
    ),
    "PacketboatPublishesRefused": _one("packetboat_publish_overload_refusals_total", grows(30)),
    "PacketboatPublishesUnknown": _one("packetboat_publish_unknown_messages_total", grows(1)),
    "PacketboatPublishesLost": _one("packetboat_publish_lost_messages_total", grows(1)),
    "PacketboatPublishesSlow": _one(
        'packetboat_publish_append_seconds_bucket{le="0.5"}', grows(90)
    ),
    "PacketboatTopicsFull": _one('packetboat_scheduler_full_topics{instance="a"}', still(1)),
    "PacketboatNoSubscribeForwarder": _one(
        'packetboat_subscribe_lease_held{instance="a"}', still(0)
    ),
    "PacketboatBacklogOld": _one(
        'packetboat_scheduler_backlog_age_seconds{instance="a"}', still(7200)
    ),
    "PacketboatBooksDoNotBalance": _one(
        'packetboat_subscribe_unbalanced_cursors{instance="a"}', still(1)
    ),
    "PacketboatAckFlushesFail": _one(
        'packetboat_subscribe_flush_failed_total{how="unknown"}', grows(1)
    ),
    "PacketboatFetchesFail": _one(
        'packetboat_subscribe_fetch_failed_total{kind="Unavailable"}', grows(15)
    ),
    "PacketboatDeadLettersUndeliverable": _one(
        "packetboat_subscribe_undelivered_dead_letters", still(4)
    ),
    "PacketboatWebhooksFail": _one('packetboat_push_endpoints{breaker="open"}', still(1)),
    "PacketboatWebhooksDisabled": _one(
        'packetboat_push_decisions_total{what="disabled"}', grows(1)
    ),
    "PacketboatSchedulerLeaderless": _one('packetboat_scheduler_leading{instance="a"}', still(0)),
    "PacketboatDelayedMessagesLate": _one(
        'packetboat_scheduler_late_seconds_bucket{le="0.1"}', grows(40)
    ),
    "PacketboatSchedulerPutsOff": _one(
        'packetboat_scheduler_failures_total{part="trim round"}', grows(1)
    ),
    "PacketboatSchedulesFail": _one("packetboat_scheduler_schedule_failures_total", grows(1)),
    "PacketboatExportsFail": _one(
        'packetboat_exports_runs_finished_total{kind="append",state="failed"}', grows(1)
    ),
    "PacketboatExportsWait": _one(
        'packetboat_scheduler_export_wait_seconds{instance="a"}', still(700)
    ),
    "PacketboatExportRunnerSilent": _one(
        "packetboat_export_runner_heard_timestamp_seconds", still(15)
    ),
    "PacketboatPostgresDown": _one(
        'packetboat_metadata_failures_total{code="metadata_unavailable"}', grows(15)
    ),
    "PacketboatPostgresEra": _one("packetboat_postgres_recoveries_total", f"0x{STEPS - 20} 1x20"),
    "PacketboatTopicsOrphaned": _one("packetboat_store_orphaned_topics", still(2)),
    "PacketboatAuditFails": _one('packetboat_audit_failures_total{step="begin"}', grows(1)),
    "PacketboatUsageUnwritten": _one("packetboat_usage_report_failures_total", grows(1)),
    # The clock of promtool begins at 0, so a backup that is too old is of a time before.
    "PacketboatBackupOld": _one(
        'packetboat_backup_last_success_timestamp_seconds{instance="a"}', still(-2 * DAY_S)
    ),
    "PacketboatCertificateEnds": _one(
        'packetboat_peer_certificate_expires_timestamp_seconds{of="own"}', still(5 * DAY_S)
    ),
    "PacketboatCertificateUnreadable": _one("packetboat_peer_certificate_unreadable", still(1)),
    "PacketboatPeersRefused": _one(
        'packetboat_peer_connections_refused_total{why="plain"}', grows(1)
    ),
    "PacketboatProcessDown": _one('up{job="packetboat-publish",instance="a"}', still(0)),
    "PacketboatProcessRestarts": _one(
        'process_start_time_seconds{job="packetboat-publish"}', grows(15)
    ),
    "PacketboatFewFilesLeft": _one('process_open_fds{job="packetboat-publish"}', still(60000)),
    "PacketboatRequestsRefused": _one(
        'packetboat_admission_refused_total{reason="delay",urgency="normal"}', grows(300)
    ),
    "PacketboatRequestsFail": _one('packetboat_gateway_requests_total{status="500"}', grows(3)),
    "PacketboatBackgroundFails": _one(
        'packetboat_background_failures_total{task="expiry of leases"}', grows(1)
    ),
    "PacketboatStoreNotReached": _one('packetboat_breaker_state{to="group-3"}', still(2)),
}
