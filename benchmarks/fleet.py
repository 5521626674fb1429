"""Forwarders behind HAProxy: `python -m benchmarks.fleet [--quick]`.

With 1 and 3 subscribe forwarders and hashing, and with 3 and round-robin:

    drain      a backlog of 1 KB messages over 6 topics, pulled and acked in pages of 500:
               deliveries a second, CPU of all servers and of the balancer a message
    latency    200 messages a second on one topic, from before the POST to after the pull, two
               consumers in long-polls; first the topic has that one subscription, then 1,000 more
               that have no consumers
    sparse     one long-poller and one message a second on each of five topics

Three rounds of each, medians; of `sparse` all. On a machine with few cores the figures of three
forwarders say what the hops cost, not how it scales: processes share the cores with the load.
Fails when the p99 of `sparse` with round-robin is over 30 ms, or anything failed. One JSON line
each.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.fleet_system import FleetSystem, together
from benchmarks.packetboat_cluster import pause, run_load
from harness.fleet import Balance
from harness.measure import median, percentile

SYSTEMS: tuple[tuple[int, Balance], ...] = ((1, "hash"), (3, "hash"), (3, "roundrobin"))
DRAIN_TOPICS = tuple(f"drain-{n}" for n in range(6))
SPARSE_TOPICS = tuple(f"sparse-{n}" for n in range(5))
LATENCY = "latency"
IDLE = 1_000
RATE_PER_S = 200
MOST_SPARSE_P99_MS = 30.0
Row = dict[str, Any]


class Bench:
    """The cases on one installation."""

    def __init__(self, system: FleetSystem, options: argparse.Namespace) -> None:
        self._system = system
        self._options = options

    def prepare(self) -> None:
        for topic in (*DRAIN_TOPICS, *SPARSE_TOPICS, LATENCY):
            self._system.create(("/topics", {"name": topic}))
            self._system.create((f"/topics/{topic}/subscriptions", {"name": topic}))

    def rows(self) -> list[Row]:
        rounds = range(1 if self._options.quick else 3)
        found = [self._medians("drain", [self._drain() for _ in rounds])]
        found.append(self._medians(LATENCY, [self._latency() for _ in rounds]))
        subscriptions = f"/topics/{LATENCY}/subscriptions"
        self._system.create(*((subscriptions, {"name": f"idle-{n}"}) for n in range(IDLE)))
        pause(2)
        case = f"{LATENCY}, {IDLE:,} idle"
        found.append(self._medians(case, [self._latency() for _ in rounds]))
        found.append(self._sparse())
        return found

    def _drain(self) -> Row:
        each = self._options.messages // len(DRAIN_TOPICS)
        fill = {"messages": each, "encoding": "msgpack"}
        for topic in DRAIN_TOPICS:
            run_load(self._system, "batch", seconds=60, topic=topic, **fill)
        pause(1)
        loads = [
            functools.partial(
                run_load, self._system, "drain", seconds=60, subscription=topic, connections=2
            )
            for topic in DRAIN_TOPICS
        ]
        return self._counted(lambda: together(loads))

    def _latency(self) -> Row:
        seconds = 3.0 if self._options.quick else 10.0
        names = {"topic": LATENCY, "subscription": LATENCY}
        return self._counted(
            lambda: [run_load(self._system, LATENCY, seconds=seconds, rate=RATE_PER_S, **names)]
        )

    def _sparse(self) -> Row:
        seconds = 10.0 if self._options.quick else 60.0
        loads = [
            functools.partial(
                run_load,
                self._system,
                LATENCY,
                seconds=seconds,
                rate=1,
                consumers=1,
                samples=1000,
                topic=topic,
                subscription=topic,
            )
            for topic in SPARSE_TOPICS
        ]
        return self._medians("sparse", [self._counted(lambda: together(loads))])

    def _counted(self, measure: Callable[[], list[Row]]) -> Row:
        """Return loads that ran at the same time as one row, with CPU by part."""
        before = self._system.cpu()
        loads = measure()
        spent = {part: s - before[part] for part, s in self._system.cpu().items()}
        servers = sum(seconds for part, seconds in spent.items() if part != "haproxy")
        count = sum(load["n"] for load in loads)
        samples_ms = [each for load in loads for each in load["latencies_ms"]]
        return {
            "messages": count,
            "per_s": count / max(load["elapsed_s"] for load in loads),
            "p50_ms": median([load["p50_ms"] for load in loads]),
            "p99_ms": percentile(samples_ms, 99)
            if samples_ms
            else max(load["p99_ms"] for load in loads),
            "server_us": servers / count * 1e6,
            "subscribe_us": spent["subscribe"] / count * 1e6,
            "balancer_us": spent["haproxy"] / count * 1e6,
            "failed": sum(load["failed"] for load in loads),
            "errors": [error for load in loads for error in load["errors"]][:3],
        }

    def _medians(self, case: str, rows: list[Row]) -> Row:
        found: Row = {"system": self._system.name, "case": case}
        for figure in ("per_s", "p50_ms", "p99_ms", "server_us", "subscribe_us", "balancer_us"):
            found[figure] = round(median([row[figure] for row in rows]), 1)
        found["messages"] = sum(row["messages"] for row in rows)
        found["failed"] = sum(row["failed"] for row in rows)
        found["errors"] = [error for row in rows for error in row["errors"]][:3]
        return found


def is_good(row: Row) -> bool:
    sparse = row["case"] == "sparse" and "roundrobin" in row["system"]
    return not row["failed"] and not (sparse and row["p99_ms"] > MOST_SPARSE_P99_MS)


def main() -> int:
    """Exit status 1 when a figure is over its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=60_000, help="of one round of `drain`")
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--systems", type=int, nargs="*", default=range(len(SYSTEMS)))
    options = parser.parse_args()
    if options.quick:
        options.messages = min(options.messages, 12_000)
    good = True
    for number in options.systems:
        began_s = time.monotonic()
        with FleetSystem(*SYSTEMS[number]) as system:
            bench = Bench(system, options)
            bench.prepare()
            for row in bench.rows():
                print(json.dumps(row), flush=True)
                good = good and is_good(row)
            print(f"{system.name}: {time.monotonic() - began_s:.0f} s", file=sys.stderr)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}", file=sys.stderr)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
