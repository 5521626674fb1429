"""The text that Prometheus reads, of every process but the runners of exports.

Names follow Prometheus's rules: units last, `_total` for counters only, `_count` for histograms and
summaries only. `_created` series, for which the text format has no use, are left out.
"""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

GAUGES_WITH_COUNT = (
    "admission_held",
    "admission_pace_per_second",
    "admission_publishes_at_once",
    "admission_tenants",
    "exports_waiting_claims",
    "gateway_connections",
    "jobs_waiting_claims",
    "link_open",
    "link_running_requests",
    "peer_certificate_unreadable",
    "push_endpoints",
    "push_in_flight",
    "push_subscriptions",
    "quota_tenants",
    "scheduler_backlog_messages",
    "scheduler_export_lag_messages",
    "scheduler_full_topics",
    "scheduler_leading",
    "scheduler_pending",
    "scheduler_unwritten",
    "store_damaged",
    "store_disk_full",
    "store_group_applied_instances",
    "store_group_leading",
    "store_group_led",
    "store_group_slow",
    "store_group_voters",
    "store_group_voting",
    "store_group_waiting",
    "store_installing_groups",
    "store_lost_ranges",
    "store_orphaned_topics",
    "store_peers",
    "store_unmet_nodes",
    "store_votes_lost",
    "subscribe_backlog_streams",
    "subscribe_consumed_backlog",
    "subscribe_flush_rows",
    "subscribe_lease_held",
    "subscribe_owned_partitions",
    "subscribe_streams",
    "subscribe_unbalanced_cursors",
    "subscribe_undelivered_dead_letters",
    "subscribe_waiting_pulls",
    "throttle_flows",
    "throttle_pace_per_second",
)
OLD_NAMES = {f"packetboat_{name}": f"packetboat_{name}_count" for name in GAUGES_WITH_COUNT} | {
    "packetboat_scheduler_export_runs_live": "packetboat_scheduler_export_runs_count"
}
"""Names in 0.2 of the families that were renamed since, by their names of today."""


def exposition(registry: Collector, *, old_names: bool) -> bytes:
    """Return the current values of a registry; `old_names` adds renamed families under their old
    names.
    """
    return generate_latest(_Exposed(registry, old_names))


class _Exposed(Collector):
    def __init__(self, registry: Collector, old_names: bool) -> None:
        self._registry = registry
        self._old_names = old_names

    def collect(self) -> Iterable[Metric]:
        for family in self._registry.collect():
            created = family.name + "_created"
            family.samples = [sample for sample in family.samples if sample.name != created]
            yield family
            if self._old_names and family.name in OLD_NAMES:
                yield _renamed(family, OLD_NAMES[family.name])


def _renamed(family: Metric, old: str) -> Metric:
    text = f"Until 0.4; {family.name} is its name now. {family.documentation}"
    copy = Metric(old, text, family.type)
    for sample in family.samples:
        copy.samples.append(sample._replace(name=old + sample.name.removeprefix(family.name)))
    return copy
