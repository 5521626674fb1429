"""Prometheus metrics of the scheduler."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

leading = Gauge("packetboat_scheduler_leading", "1 while this process holds the lock.")
released = Counter("packetboat_scheduler_released_total", "Delayed messages made readable.")
releases = Counter("packetboat_scheduler_releases_total", "Commands that did it.")
forwarded = Counter(
    "packetboat_scheduler_forwarded_total", "Delayed messages copied out of a sealed queue."
)
late_seconds = Histogram(
    "packetboat_scheduler_late_seconds",
    "From a message's due time to the answer that it is readable.",
    buckets=(0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0, 5.0, 60.0),
)
release_failed = Counter(
    "packetboat_scheduler_release_failed_total", "Release commands that failed, by kind.", ["kind"]
)
pending = Gauge("packetboat_scheduler_pending", "Delayed messages kept in memory.")
unwritten = Gauge("packetboat_scheduler_unwritten", "Due times that are not in Postgres yet.")
trims = Counter("packetboat_scheduler_trims_total", "Partitions whose trimmed_to went up.")
trim_seconds = Histogram(
    "packetboat_scheduler_trim_seconds",
    "A round of looking at all partitions and truncating them.",
    buckets=(0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)
full_topics = Gauge("packetboat_scheduler_full_topics", "Topics that refuse publishes.")
failures = Counter(
    "packetboat_scheduler_failures_total", "Work put off because something was away.", ["part"]
)
publications = Counter(
    "packetboat_scheduler_publications_total",
    "Messages published with an ack that somebody else left: released, or aborted.",
    ["how"],
)
redriven = Counter("packetboat_scheduler_redriven_total", "Dead letters published again.")
job_leases_expired = Counter(
    "packetboat_scheduler_job_leases_expired_total", "Tasks given back, or failed, by their time."
)
schedule_runs = Counter("packetboat_scheduler_schedule_runs_total", "Runs of schedules made.")
schedule_missed = Counter(
    "packetboat_scheduler_schedule_missed_total", "Runs passed over by a schedule's policy."
)
schedule_failures = Counter(
    "packetboat_scheduler_schedule_failures_total", "Tries of a run that failed."
)
schedule_late_seconds = Histogram(
    "packetboat_scheduler_schedule_late_seconds",
    "From a run's scheduled time to the answer that it is published and counted.",
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0, 600.0),
)
export_runs = Counter(
    "packetboat_scheduler_export_runs_total", "Runs of exports made by their schedules.", ["kind"]
)
export_ticks_missed = Counter(
    "packetboat_scheduler_export_ticks_missed_total",
    "Ticks of exports passed over by their policy.",
)
export_ticks_coalesced = Counter(
    "packetboat_scheduler_export_ticks_coalesced_total",
    "Ticks of exports at which a run of the kind was queued or running already.",
)
export_leases_expired = Counter(
    "packetboat_scheduler_export_leases_expired_total",
    "Runs of exports whose runner was not heard of any more, by what they became.",
    ["state"],
)
export_runs_live = Gauge(
    "packetboat_scheduler_export_runs_live", "Runs of exports that are not over.", ["state"]
)
export_wait_seconds = Gauge(
    "packetboat_scheduler_export_wait_seconds",
    "How long the run of an export waits that has waited longest of those that may begin.",
)
export_lag = Gauge(
    "packetboat_scheduler_export_lag_messages", "Messages that exports are behind, in all."
)
backlog_messages = Gauge(
    "packetboat_scheduler_backlog_messages",
    "Messages above the ack floors of all subscriptions, once for each.",
)
backlog_age_seconds = Gauge(
    "packetboat_scheduler_backlog_age_seconds",
    "How long the oldest of them has been known to the scheduler that leads.",
)
history_held = Gauge(
    "packetboat_scheduler_history_held",
    "1 while a backup is taken and no history is trimmed, as the leading scheduler knows.",
)
backup_began_seconds = Gauge(
    "packetboat_backup_last_success_timestamp_seconds",
    "When the newest whole backup was begun, as the leading scheduler knows; 0: never, or unknown.",
)
hints = Gauge(
    "packetboat_scheduler_hints", "Units that the scheduler wants elsewhere than at home."
)
moves = Counter(
    "packetboat_scheduler_moves_total",
    "Decisions to move what forwarders own, by what was moved.",
    ["kind"],
)
