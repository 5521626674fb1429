"""The cost of subscriptions that nobody uses: `python -m benchmarks.idle [--subscriptions 10000]`.

Makes that many subscriptions over the API, over `--topics` topics, pulls once from each so that the
subscribe forwarder has all of them open, and then does nothing for `--seconds`. Prints the share of
a core and the memory of the subscribe forwarders, and statements a second in Postgres: every one
that is logged, of all processes, without BEGIN and COMMIT, which are printed beside them. `empty`
is the same before there was a subscription. Fails if a subscribe forwarder takes over 2 % of a
core, or all processes together send more than 10 statements a second, with BEGIN and COMMIT.
`--verbose` prints the statements. One JSON line each.

`--installation` measures something else: the CPU of everything that `packetboat up` runs (store
nodes, server, Postgres and supervisor), first `empty`, then with `--topics` topics of
`--partitions` partitions each, which nobody uses. Fails if all of it takes more than 2 % of a core
when empty, or 5 % with topics.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.fleet_system import Call, FleetSystem
from benchmarks.packetboat_cluster import PacketboatCluster

MOST_CORE_SHARE = 0.02
MOST_CORE_SHARE_WITH_TOPICS = 0.05
MOST_STATEMENTS_PER_S = 10.0
SETTLE_S = 15.0
Row = dict[str, Any]


def watched(system: FleetSystem, case: str, seconds: float, *, verbose: bool) -> Row:
    """Return the figures of a time without requests."""
    counting = system.statements()
    counting.start()
    before = system.cpu()
    time.sleep(seconds)
    spent = {part: s - before[part] for part, s in system.cpu().items()}
    asked = counting.stop()
    if verbose:
        for text, count in asked.texts.most_common(25):
            print(f"  {count / asked.seconds:6.2f}/s {text}", file=sys.stderr)
    return {
        "case": case,
        "subscribe_core_share": round(spent["subscribe"] / asked.seconds, 4),
        "core_shares": {part: round(s / asked.seconds, 4) for part, s in spent.items()},
        "statements_per_s": round(asked.statements / asked.seconds, 2),
        "begin_commit_per_s": round(asked.framing / asked.seconds, 2),
        "statements_of": {
            name: round(count / asked.seconds, 2) for name, count in asked.by_process.items()
        },
        "subscribe_memory_mib": round(system.memory_bytes() / 2**20, 1),
    }


def fill(system: FleetSystem, subscriptions: int, topics: int) -> float:
    """Makes all and opens each once; seconds it took to make one."""
    system.create(*(("/topics", {"name": f"topic-{n}"}) for n in range(topics)))
    began_s = time.monotonic()
    system.create(
        *(
            (f"/topics/topic-{n % topics}/subscriptions", {"name": f"idle-{n}"})
            for n in range(subscriptions)
        )
    )
    each_s = (time.monotonic() - began_s) / subscriptions
    pulls: list[Call] = [
        ("GET", f"/subscriptions/idle-{n}/messages?wait_seconds=0", None, 200)
        for n in range(subscriptions)
    ]
    asyncio.run(system.send(pulls))
    return each_s


def core_share(cluster: PacketboatCluster, case: str, seconds: float) -> Row:
    """Return the CPU of all processes during a time without requests."""
    before, began_s = cluster.cpu_by_part(), time.monotonic()
    time.sleep(seconds)
    after, took_s = cluster.cpu_by_part(), time.monotonic() - began_s
    spent = {part: s - before.get(part, 0.0) for part, s in after.items()}
    return {
        "case": case,
        "core_share": round(sum(spent.values()) / took_s, 4),
        "core_shares": {part: round(s / took_s, 4) for part, s in spent.items()},
    }


def installation(topics: int, partitions: int, seconds: float) -> int:
    """Print the cost of an idle installation without topics and with them; 1 if it is too high."""
    with tempfile.TemporaryDirectory() as directory:
        cluster = PacketboatCluster(Path(directory) / "cluster")
        try:
            cluster.start()
            time.sleep(SETTLE_S)
            empty = core_share(cluster, "empty installation", seconds)
            print(json.dumps(empty), flush=True)
            before, began_s = sum(cluster.cpu_by_part().values()), time.monotonic()
            for number in range(topics):
                cluster.create("/topics", {"name": f"topic-{number}", "partitions": partitions})
            each_s = (time.monotonic() - began_s) / topics
            each_cpu_s = (sum(cluster.cpu_by_part().values()) - before) / topics
            time.sleep(SETTLE_S)
            row = core_share(cluster, "idle installation", seconds)
        finally:
            cluster.stop()
    row |= {
        "topics": topics,
        "partitions": topics * partitions,
        "created_ms": round(each_s * 1e3, 2),
        "created_cpu_ms": round(each_cpu_s * 1e3, 2),
    }
    print(json.dumps(row), flush=True)
    good = empty["core_share"] <= MOST_CORE_SHARE
    return 0 if good and row["core_share"] <= MOST_CORE_SHARE_WITH_TOPICS else 1


def main() -> int:
    """Exit status 1 when a figure is over its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--subscriptions", type=int, default=10_000)
    parser.add_argument("--topics", type=int, default=100)
    parser.add_argument("--installation", action="store_true")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--forwarders", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    if options.installation:
        return installation(options.topics, options.partitions, options.seconds)
    with FleetSystem(options.forwarders) as system:
        time.sleep(SETTLE_S)
        empty = watched(system, "empty", options.seconds, verbose=options.verbose)
        print(json.dumps(empty), flush=True)
        each_s = fill(system, options.subscriptions, options.topics)
        time.sleep(SETTLE_S)
        row = watched(system, "idle", options.seconds, verbose=options.verbose)
    row |= {
        "subscriptions": options.subscriptions,
        "forwarders": options.forwarders,
        "created_ms": round(each_s * 1e3, 2),
        "more_statements_per_s": round(row["statements_per_s"] - empty["statements_per_s"], 2),
    }
    print(json.dumps(row), flush=True)
    return 0 if is_good(row) else 1


def is_good(row: Row) -> bool:
    forwarders: int = row["forwarders"]
    asked: float = row["statements_per_s"] + row["begin_commit_per_s"]
    share: float = row["subscribe_core_share"]
    return share <= MOST_CORE_SHARE * forwarders and asked <= MOST_STATEMENTS_PER_S


if __name__ == "__main__":
    sys.exit(main())
