"""Webhooks: `python -m benchmarks.push fast|fan|outage|hostile`.

`fast` pushes a backlog of 1 KB messages, a signed request each, to an endpoint that answers at once
(nginx, `return 204`), and prints deliveries a second, and a second of the server's CPU; beside it
the limit: a bare loop of the same HTTP client, which sends the same bodies unsigned and keeps no
books. Fails under 2,000 deliveries a CPU second. `fan` publishes two messages a second on one topic
with 1,000 push subscriptions and prints from POST to delivery, and the CPU of a delivery. `outage`
takes the endpoint away for 60 s under a backlog of 100,000 and prints what share of the requests
succeed from its return until the backlog is gone; fails under 95 %. `hostile` pushes to good
endpoints alone and with one endpoint of each way to misbehave beside them, by turns, and prints the
p99 from POST to delivery at the good ones, and by how much the server's memory grew: over the first
turn alone, and in the later half of those with them; fails above twice the p99, and above the
limits in `push_hostile`. One JSON line each.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from typing import Any

import aiohttp
import uvloop

from benchmarks.body import stamped_text, text_body
from benchmarks.packetboat_cluster import run_load
from benchmarks.push_hostile import hostile
from benchmarks.push_site import CONCURRENCY, HOST, PATIENCE_S, POLL_S, Receiver, Site, site
from harness.http_client import connect, request
from harness.measure import CpuMeter, percentile
from harness.processes import NotReady

LEAST_PER_CPU_S = 2_000
LEAST_SUCCESS = 0.95
FAN_RATE_PER_S = 2.0
Row = dict[str, Any]


def fill(made: Site, topic: str, messages: int) -> int:
    """Publish at least `messages`; return how many were published."""
    result = run_load(made.cluster, "batch", seconds=120, topic=topic, messages=messages)
    return int(result["n"])


def fast(options: argparse.Namespace) -> Row:
    """Measure the delivery of a backlog without a limit."""
    with site() as made:
        made.cluster.create("/topics", {"name": "bench"})
        made.subscribe("bench", "bench", made.endpoint.url, format=options.format)
        warm = fill(made, "bench", 2_000)
        made.until_delivered(warm)
        made.call("POST", "/subscriptions/bench/pause")
        whole = warm + fill(made, "bench", options.messages)
        before_parts, began_s = made.cluster.cpu_by_part(), time.perf_counter()
        start = made.delivered()
        made.call("POST", "/subscriptions/bench/resume")
        made.until_delivered(whole)
        elapsed_s = time.perf_counter() - began_s
        parts = made.cluster.cpu_by_part()
        limit = bare_loop(made.endpoint.url, options.messages // 2)
    n = whole - start
    spent = {part: value - before_parts.get(part, 0.0) for part, value in parts.items()}
    per_cpu_s = n / spent["server"]
    return {
        "case": "fast",
        "deliveries": n,
        "per_s": round(n / elapsed_s),
        "per_server_cpu_s": round(per_cpu_s),
        "bare_client_per_cpu_s": round(limit),
        "ratio_to_bare_client": round(per_cpu_s / limit, 2),
        "cpu_us": {part: round(value / n * 1e6) for part, value in spent.items()},
        "good": per_cpu_s >= LEAST_PER_CPU_S,
    }


def bare_loop(url: str, messages: int) -> float:
    """Requests a second of its CPU, of a process that only sends."""
    command = [sys.executable, "-m", "benchmarks.push", "bare", "--url", url]
    run = subprocess.run(
        [*command, "--messages", str(messages)], capture_output=True, text=True, timeout=300
    )
    if run.returncode != 0:
        raise NotReady(f"bare: {run.stderr[-300:]}")
    return float(run.stdout)


async def send_bare(url: str, messages: int) -> float:
    bodies = iter([text_body().encode() for _ in range(messages)])
    connector = aiohttp.TCPConnector(limit=CONCURRENCY)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def worker() -> None:
            for body in bodies:
                async with session.post(url, data=body) as answer:
                    await answer.read()

        began_s = time.process_time()
        await asyncio.gather(*(worker() for _ in range(CONCURRENCY)))
        return messages / (time.process_time() - began_s)


def fan(options: argparse.Namespace) -> Row:
    """Measure many push subscriptions of one topic."""
    with site() as made:
        return uvloop.run(_fan(made, options))


async def _fan(made: Site, options: argparse.Namespace) -> Row:
    receiver = Receiver()
    await receiver.start()
    made.cluster.create("/topics", {"name": "fan"})
    for number in range(options.subscriptions):
        url = f"http://{HOST}:{receiver.port}/{number}"
        await asyncio.to_thread(made.subscribe, f"fan-{number}", "fan", url, format="raw")
    host, port = made.cluster.url.removeprefix("http://").split(":")
    connection = await connect(host, int(port))

    async def publish(messages: int) -> None:
        for _ in range(messages):
            body = stamped_text().encode()
            path = "/topics/fan/messages"
            answer = await connection.send(
                request("POST", path, made.cluster.token, body, "text/plain")
            )
            if answer.status != 201:
                raise NotReady(f"publish: {answer.status} {answer.body[:200]!r}")
            await asyncio.sleep(1 / FAN_RATE_PER_S)

    async def until(count: int) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while len(receiver.latencies_s) < count:
            if time.monotonic() > deadline_s:
                raise NotReady(f"{len(receiver.latencies_s)} of {count} arrived")
            await asyncio.sleep(POLL_S)

    await publish(2)
    await until(2 * options.subscriptions)
    receiver.latencies_s.clear()
    meter = CpuMeter(made.cluster.pids())
    await publish(options.fan_messages)
    deliveries = options.fan_messages * options.subscriptions
    await until(deliveries)
    servers_s, _ = meter.stop()
    receiver.stop()
    return {
        "case": "fan",
        "subscriptions": options.subscriptions,
        "deliveries": len(receiver.latencies_s),
        "p50_ms": round(percentile(receiver.latencies_s, 50) * 1e3, 1),
        "p99_ms": round(percentile(receiver.latencies_s, 99) * 1e3, 1),
        "cpu_us": round(servers_s / deliveries * 1e6),
        "good": len(receiver.latencies_s) == deliveries,
    }


def outage(options: argparse.Namespace) -> Row:
    """The endpoint goes away and comes back under a backlog."""
    with site() as made:
        made.cluster.create("/topics", {"name": "bench"})
        made.subscribe("bench", "bench", made.endpoint.url, format="raw")
        warm = fill(made, "bench", 2_000)
        made.until_delivered(warm)
        made.endpoint.stop()
        whole = warm + fill(made, "bench", options.backlog)
        time.sleep(options.outage_s)
        down = made.counted("packetboat_push_requests_total")
        back_s = time.perf_counter()
        made.endpoint.start()
        made.until_delivered(warm + 1)
        first_s = time.perf_counter() - back_s
        made.until_delivered(whole)
        recovered_s = time.perf_counter() - back_s
        after = made.counted("packetboat_push_requests_total")
    during = {what: n - down.get(what, 0.0) for what, n in after.items() if n - down.get(what, 0.0)}
    share = during.get("delivered", 0.0) / sum(during.values())
    return {
        "case": "outage",
        "backlog": whole - warm,
        "failed_while_down": sum(n for what, n in down.items() if what != "delivered"),
        "first_success_s": round(first_s, 1),
        "recovered_s": round(recovered_s, 1),
        "requests": during,
        "success": round(share, 4),
        "good": share >= LEAST_SUCCESS,
    }


def beside(options: argparse.Namespace) -> Row:
    """Measure good endpoints beside hostile ones."""
    return hostile(options.turns, options.turn_s)


CASES = {"fast": fast, "fan": fan, "outage": outage, "hostile": beside}


def main() -> int:
    """Measure the cases. Exit status 1 if a figure misses its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="+", choices=[*CASES, "bare"])
    parser.add_argument("--messages", type=int, default=40_000)
    parser.add_argument("--format", default="raw")
    parser.add_argument("--subscriptions", type=int, default=1_000)
    parser.add_argument("--fan-messages", type=int, default=40)
    parser.add_argument("--backlog", type=int, default=100_000)
    parser.add_argument("--outage-s", type=float, default=60.0)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--turn-s", type=float, default=30.0)
    parser.add_argument("--url", default="")
    options = parser.parse_args()
    if options.cases == ["bare"]:
        print(uvloop.run(send_bare(options.url, options.messages)))
        return 0
    good = True
    for case in options.cases:
        row = CASES[case](options)
        print(json.dumps(row), flush=True)
        good = good and row["good"]
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
