"""Rows to figures: medians over the rounds, the table, the ratios and their targets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.cases import (
    BATCH_JSON,
    BATCH_MSGPACK,
    BATCHED,
    DRAIN,
    IDLE,
    KILLED,
    LATENCY,
    POST_32,
    POST_256,
    PUBLISH_32,
    PUBLISH_256,
    PUBLISH_WAITING,
    SDK_DRAIN,
    SDK_PUBLISH,
    STREAM,
)
from benchmarks.kafka_cluster import KafkaCluster
from benchmarks.nats_cluster import NatsCluster
from benchmarks.packetboat_cluster import PacketboatCluster
from benchmarks.rabbit_cluster import RabbitCluster
from harness.measure import median

Row = dict[str, Any]
US = PacketboatCluster.name
RABBIT = RabbitCluster.name
NATS_ALWAYS, NATS_DEFAULT = NatsCluster.names
KAFKA = KafkaCluster.name
STORE_NODES = 3
FIGURES = (
    "rate",
    "p50_ms",
    "p99_ms",
    "server_us",
    "fdatasyncs_per_message",
    "core_percent",
    "longest_gap_ms",
    "other_cores",
)
TITLE = "1 KB messages; medians of the rounds; CPU of all servers, and fdatasyncs, a message"
HEADINGS = (
    "msgs/s",
    "p50 ms",
    "p99 ms",
    "CPU µs",
    "syncs",
    "core %",
    "gap ms",
    "failed",
)


def derive(row: Row) -> Row:
    """Add rate, server CPU per message and others to the counts of a case."""
    n = row["n"]
    row["rate"] = n / row["elapsed_s"] if row["elapsed_s"] > 0 else 0.0
    row["core_percent"] = math.nan
    if row["case"] == IDLE:
        row["rate"] = math.nan
        row["core_percent"] = row["server_cpu_s"] / row["wall_s"] * 100
    if row["case"] != KILLED:
        row["longest_gap_ms"] = math.nan
    row["server_us"] = row["server_cpu_s"] / n * 1e6 if n else math.nan
    if "fdatasyncs" in row:
        row["fdatasyncs_per_message"] = row["fdatasyncs"] / n if n else math.nan
        row["fdatasyncs_per_message_and_node"] = row["fdatasyncs_per_message"] / STORE_NODES
    # these are ages of a backlog, or acks, so systems cannot be compared
    if row["case"] in (DRAIN, SDK_DRAIN, STREAM):
        row["p50_ms"] = row["p99_ms"] = math.nan
    load_cpu_s = row.get("client_cpu_s", row.get("clients_cpu_s", 0.0))
    row["other_cores"] = (row["machine_cpu_s"] - row["server_cpu_s"] - load_cpu_s) / row["wall_s"]
    return row


def headline(row: Row) -> str:
    """Return the figure of a row that a reader looks for first."""
    if row["case"] == IDLE:
        return f"{row['core_percent']:.1f} % of a core"
    if row["case"] == KILLED:
        return f"{row['longest_gap_ms']:.0f} ms without a confirm"
    return f"{row['rate']:,.0f}/s"


@dataclass(frozen=True, slots=True)
class Target:
    """One system's figure over another's in the same round, or one figure alone."""

    text: str
    ours: tuple[str, str]
    figure: str
    limit: float
    theirs: tuple[str, str] | None = None
    at_most: bool = False


def _rates(ours: str, theirs: tuple[str, str], limit: float) -> Target:
    """Return a target of our messages a second over theirs."""
    return Target(f"{ours} ÷ {theirs[0]}, {theirs[1]}", (US, ours), "rate", limit, theirs)


def _alone(ours: str, figure: str, unit: str, limit: float) -> Target:
    """Return a target of a figure of ours, which is at most the limit."""
    return Target(f"{ours}: {unit}", (US, ours), figure, limit, at_most=True)


TARGETS = (
    _rates(POST_256, (NATS_ALWAYS, PUBLISH_256), 1.0),
    _rates(POST_256, (NATS_DEFAULT, PUBLISH_256), 0.8),
    _rates(POST_256, (NATS_ALWAYS, PUBLISH_WAITING), 1.0),
    _rates(POST_256, (NATS_DEFAULT, PUBLISH_WAITING), 0.8),
    _rates(POST_256, (RABBIT, PUBLISH_256), 1.0),
    _rates(POST_32, (RABBIT, PUBLISH_32), 1.0),
    _rates(POST_256, (KAFKA, PUBLISH_256), 1.0),
    _alone(POST_256, "server_us", "server µs a message", 60.0),
    _rates(SDK_PUBLISH, (KAFKA, BATCHED), 2.0),
    _rates(BATCH_MSGPACK, (KAFKA, BATCHED), 2.0),
    _rates(BATCH_JSON, (KAFKA, BATCHED), 1.5),
    _rates(BATCH_JSON, (NATS_DEFAULT, BATCHED), 1.0),
    _alone(
        BATCH_JSON,
        "fdatasyncs_per_message_and_node",
        "fdatasyncs a message and node (the table has all three nodes)",
        0.02,
    ),
    _rates(SDK_DRAIN, (KAFKA, DRAIN), 1.3),
    _alone(SDK_DRAIN, "server_us", "server µs a message", 10.0),
    _rates(SDK_DRAIN, (NATS_DEFAULT, DRAIN), 1.0),
    _rates(DRAIN, (NATS_DEFAULT, DRAIN), 1.0),
    _rates(STREAM, (NATS_DEFAULT, DRAIN), 1.0),
    _alone(LATENCY, "p50_ms", "p50, ms", 1.5),
    Target(
        f"{LATENCY}: p99 ÷ {NATS_ALWAYS}",
        (US, LATENCY),
        "p99_ms",
        1.0,
        (NATS_ALWAYS, LATENCY),
        at_most=True,
    ),
    Target(
        f"{LATENCY}: server CPU ÷ {NATS_DEFAULT}",
        (US, LATENCY),
        "server_us",
        1.0,
        (NATS_DEFAULT, LATENCY),
        at_most=True,
    ),
    _alone(IDLE, "core_percent", "percent of a core", 2.0),
    _alone(KILLED, "longest_gap_ms", "longest time without a confirm, ms", 150.0),
    _alone(KILLED, "failed", "failed publishes", 0.0),
)


def by_case(rows: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
    """Return the rows by system and case, in the order in which these came first."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if "rate" in row:
            found.setdefault((row["system"], row["case"]), []).append(row)
    return found


def medians(rows: Sequence[Row]) -> list[Row]:
    """Return the medians, one row per system and case."""
    return [
        {"system": system, "case": case, "rounds": len(group)}
        | {name: median([row.get(name, math.nan) for row in group]) for name in FIGURES}
        | {"failed": sum(row["failed"] for row in group)}
        for (system, case), group in by_case(rows).items()
    ]


def check(target: Target, rows: Sequence[Row]) -> Row | None:
    """Return the target's figure, or None if a side was not measured.

    A ratio is the median of the rounds' ratios: both sides of each were measured within the same
    minute.
    """
    cases = by_case(rows)
    ours = {row["round"]: row[target.figure] for row in cases.get(target.ours, [])}
    if target.theirs is not None:
        theirs = {row["round"]: row[target.figure] for row in cases.get(target.theirs, [])}
        values = [ours[at] / theirs[at] for at in ours if theirs.get(at)]
    else:
        values = list(ours.values())
    value = median(values)
    if math.isnan(value):
        return None
    met = value <= target.limit if target.at_most else value >= target.limit
    return {"target": target.text, "value": value, "limit": target.limit, "met": met}


def _cell(value: float, digits: int) -> str:
    return "–" if math.isnan(value) else f"{value:,.{digits}f}"


def print_table(rows: Sequence[Row], console: Console) -> None:
    """Print the medians."""
    table = Table(title=TITLE)
    for name in ("system", "case"):
        table.add_column(name, no_wrap=True)
    for name in HEADINGS:
        table.add_column(name, justify="right", no_wrap=True)
    for row in medians(rows):
        table.add_row(
            row["system"],
            row["case"],
            _cell(row["rate"], 0),
            _cell(row["p50_ms"], 1),
            _cell(row["p99_ms"], 1),
            _cell(row["server_us"], 0),
            _cell(row["fdatasyncs_per_message"], 4),
            _cell(row["core_percent"], 1),
            _cell(row["longest_gap_ms"], 0),
            str(row["failed"]),
        )
    console.print(table)


def print_targets(rows: Sequence[Row], console: Console) -> list[Row]:
    """Print each target with its verdict; return those that were measured."""
    measured = []
    for target in TARGETS:
        result = check(target, rows)
        sign = "≤" if target.at_most else "≥"
        if result is None:
            console.print(f"not measured  {target.text} ({sign} {target.limit:g})")
            continue
        measured.append(result)
        verdict = "met   " if result["met"] else "MISSED"
        console.print(f"{verdict}  {target.text}: {result['value']:.3g} ({sign} {target.limit:g})")
    return measured


def print_cpu(rows: Sequence[Row], console: Console) -> None:
    """Print the CPU of our servers' parts, per message."""
    for (_, case), group in by_case(rows).items():
        parts = [row["cpu_by_part"] | {"n": row["n"]} for row in group if row.get("cpu_by_part")]
        if parts:
            names = sorted({name for part in parts for name in part if name != "n"})
            shares = ", ".join(f"{name} {_median_us(parts, name):.0f}" for name in names)
            console.print(f"CPU µs per message, {case}: {shares}")


def _median_us(parts: Sequence[Row], name: str) -> float:
    return median([part.get(name, 0.0) / max(part["n"], 1) * 1e6 for part in parts])
