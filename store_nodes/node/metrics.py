"""The metrics of a node, and its readiness, read on its event loop at each request.

Every family has the label `node`, because operators name nodes by these numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
    SummaryMetricFamily,
)

from store_nodes.node.group import Group

PART = "packetboat_store_"
Summary = Mapping[str, Any]
"""The result of `Node.summary()`."""


class MeasuredNode(Protocol):
    """The part of a node that the metrics describe."""

    def summary(self) -> dict[str, object]: ...

    @property
    def groups(self) -> Mapping[int, Group]: ...


def families(node: MeasuredNode) -> list[Metric]:
    """Return all metric families, with their present values."""
    summary = node.summary()
    name = str(summary["node"])
    return [*_node_families(name, summary), *_group_families(name, list(node.groups.values()))]


def unready(node: MeasuredNode) -> dict[str, str]:
    """Return what this node lacks to take its full part in every group, in words; empty if nothing.

    It may answer reads all the same. It does not know how far it is behind; others do.
    """
    summary: Summary = node.summary()
    groups = list(node.groups.values())
    lacking = {
        "first start, waits for nodes": summary["waits_for"],
        "groups fetched as a whole": summary["installing"],
        "no leader known of groups": [one.id for one in groups if not _is_led(one)],
        "no vote, after damage, in groups": [
            one.id for one in groups if not one.replica.state.voting
        ],
    }
    return {what: ", ".join(map(str, which)) for what, which in lacking.items() if which}


def _node_families(name: str, summary: Summary) -> Iterator[Metric]:
    disk, storage = summary["disk"], summary["storage"]
    gauges = (
        ("disk_free_bytes", disk["free_bytes"], "Free where the log is."),
        ("disk_reserve_bytes", disk["reserve_bytes"], "With less free than this appends stop."),
        ("disk_full", disk["appends_refused"], "1 while appends are refused for the disk."),
        ("pending_bytes", summary["pending_bytes"], "Commands that wait to be proposed."),
        ("peers", len(summary["connected"]), "Other nodes it is connected to."),
        ("damaged", summary["damaged"] is not None, "1 while stored bytes don't verify."),
        ("votes_lost", summary["votes_lost"], "1 while it may not vote for its damage."),
        ("lost_ranges", len(summary["lost"]), "Ranges of messages that it looks for."),
        ("installing_groups", len(summary["installing"]), "Groups fetched as a whole."),
        ("unmet_nodes", len(summary["waits_for"]), "Nodes that its first start waits for."),
    )
    for family, value, text in gauges:
        yield _gauge(family, text, [((name,), value)])
    kept = [((name, kind), storage[f"{kind}_bytes"]) for kind in ("raw", "settled")]
    yield _gauge("log_bytes", "Segments on disk.", kept, "kind")
    yield _gauge("live_bytes", "Batches still wanted.", [((name,), storage["live_bytes"])])
    counters = (
        ("starts", summary["start"], "Starts of the node, over its life."),
        ("scrubbed_bytes", storage["scrubbed_bytes"], "Read again and verified."),
        ("settles", storage["settles"], "Passes that joined what is left of old segments."),
        ("flushed_bytes", summary["log"]["bytes"], "Payloads written to the log."),
    )
    for family, value, text in counters:
        counter = CounterMetricFamily(PART + family, text, labels=["node"])
        counter.add_metric([name], value)
        yield counter
    flushes = SummaryMetricFamily(
        PART + "flush_seconds", "One write and fdatasync of the log.", labels=["node"]
    )
    flushes.add_metric([name], summary["log"]["flushes"], summary["log"]["flush_seconds"])
    yield flushes


def _group_families(name: str, groups: list[Group]) -> Iterator[Metric]:
    of_group = (
        ("group_led", _is_led, "1 while this node knows who leads the group."),
        ("group_leading", _leads, "1 while this node leads the group."),
        ("group_voting", _votes, "1 while this node votes in the group."),
        ("group_voters", lambda one: len(_voters(one)), "Nodes that should vote in it."),
        ("group_slow", lambda one: one.replica.state.slow, "1 for a minute after a slow disk."),
        ("group_applied_instances", lambda one: one.machine.applied, "Instances applied."),
        ("group_waiting", lambda one: one.line.waiting, "Commands that wait."),
    )
    for family, value, text in of_group:
        rows = [((name, str(group.id)), value(group)) for group in groups]
        yield _gauge(family, text, rows, "group")


def _is_led(group: Group) -> bool:
    return group.replica.state.leader is not None


def _voters(group: Group) -> tuple[int, ...]:
    return group.machine.membership.voters


def _votes(group: Group) -> bool:
    return group.replica.state.voting and group.replica.state.me in _voters(group)


def _leads(group: Group) -> bool:
    return group.replica.state.leader == group.replica.state.me


def _gauge(
    name: str, text: str, rows: Iterable[tuple[tuple[str, ...], float]], *labels: str
) -> Metric:
    gauge = GaugeMetricFamily(PART + name, text, labels=["node", *labels])
    for values, value in rows:
        gauge.add_metric(values, float(value))
    return gauge
