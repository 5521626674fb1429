"""Rows to figures: medians over the rounds, the table, the ratios and their targets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.nats_cluster import NatsCluster
from benchmarks.packetboat_cluster import PacketboatCluster
from benchmarks.rabbit_cluster import RabbitCluster
from benchmarks.systems import (
    BATCH_JSON,
    BATCH_MSGPACK,
    DRAIN,
    LATENCY,
    POST_32,
    POST_256,
    PUBLISH_32,
    PUBLISH_256,
    STREAM,
)
from harness.measure import median

Row = dict[str, Any]
US = PacketboatCluster.name
RABBIT = RabbitCluster.name
NATS_ALWAYS, NATS_DEFAULT = NatsCluster.names
STORE_NODES = 3
FIGURES = ("rate", "p50_ms", "p99_ms", "server_us", "fdatasyncs_per_message", "other_cores")


def derive(row: Row) -> Row:
    """Add rate, server CPU per message and others to the counts of a case."""
    n = row["n"]
    row["rate"] = n / row["elapsed_s"] if row["elapsed_s"] > 0 else 0.0
    row["server_us"] = row["server_cpu_s"] / n * 1e6 if n else math.nan
    if "fdatasyncs" in row:
        row["fdatasyncs_per_message"] = row["fdatasyncs"] / n if n else math.nan
        row["fdatasyncs_per_message_and_node"] = row["fdatasyncs_per_message"] / STORE_NODES
    # these are ages of a backlog, or acks, so systems cannot be compared
    if row["case"] in (DRAIN, STREAM):
        row["p50_ms"] = row["p99_ms"] = math.nan
    load_cpu_s = row.get("client_cpu_s", 0.0)
    row["other_cores"] = (row["machine_cpu_s"] - row["server_cpu_s"] - load_cpu_s) / row["wall_s"]
    return row


@dataclass(frozen=True, slots=True)
class Target:
    """One system's figure over another's in the same round, or one figure alone."""

    text: str
    ours: tuple[str, str]
    figure: str
    limit: float
    theirs: tuple[str, str] | None = None
    at_most: bool = False


TARGETS = (
    Target(
        "single POST, 256 connections ÷ RabbitMQ at 256 in flight",
        (US, POST_256),
        "rate",
        1.0,
        (RABBIT, PUBLISH_256),
    ),
    Target(
        "single POST, 32 connections ÷ RabbitMQ at 32 in flight",
        (US, POST_32),
        "rate",
        1.0,
        (RABBIT, PUBLISH_32),
    ),
    Target(
        ":batch JSON ÷ NATS sync always",
        (US, BATCH_JSON),
        "rate",
        15.0,
        (NATS_ALWAYS, PUBLISH_256),
    ),
    Target(
        ":batch JSON ÷ NATS default", (US, BATCH_JSON), "rate", 1.0, (NATS_DEFAULT, PUBLISH_256)
    ),
    Target(
        ":batch msgpack ÷ NATS sync always",
        (US, BATCH_MSGPACK),
        "rate",
        15.0,
        (NATS_ALWAYS, PUBLISH_256),
    ),
    Target(
        ":batch msgpack ÷ NATS default",
        (US, BATCH_MSGPACK),
        "rate",
        1.0,
        (NATS_DEFAULT, PUBLISH_256),
    ),
    Target("publish→consume p50, ms", (US, LATENCY), "p50_ms", 3.0, at_most=True),
    Target("publish→consume p99, ms", (US, LATENCY), "p99_ms", 10.0, at_most=True),
    Target(
        "fdatasyncs per message at load, of each node (the table has all three)",
        (US, BATCH_JSON),
        "fdatasyncs_per_message_and_node",
        0.02,
        at_most=True,
    ),
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
    table = Table(title="1 KB messages; medians of the rounds")
    for name in ("system", "case"):
        table.add_column(name, no_wrap=True)
    for name in ("msgs/s", "p50 ms", "p99 ms", "server µs/msg", "fdatasync/msg", "failed"):
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
