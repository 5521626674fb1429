"""Good endpoints with one of each way to misbehave beside them; by itself, those endpoints."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.body import stamped_text
from benchmarks.push_site import HOST, PATIENCE_S, POLL_S, Receiver, Site, site
from harness.hostile_endpoint import HostileEndpoint
from harness.http_client import connect, request
from harness.measure import percentile, tree
from harness.processes import NotReady

GOOD = 10
GOOD_RATE_PER_S = 20.0
HOSTILE_RATE_PER_S = 10.0
HOSTILE = [
    *("/hang", "/unread", "/drip", "/drip-head", "/huge", "/huge-head", "/interim", "/chunks"),
    *("/redirect", "/early-close", "/reset", "/cut", "/garbage", "/500", "/429", "/410"),
    *("/flapping", "/slow/0.9", "tls:self_signed", "tls:expired", "tls:wrong_name"),
]
MAX_P99_RATIO = 2.0
MAX_GROWTH_MIB = 64.0
"""Growth that hostile endpoints may cause.

It is for code, connections, the log of attempts, and messages that wait for their next attempt.
"""
MAX_CREEP_MIB = 16.0
"""Growth between the middle of the turns with them and the end."""
Row = dict[str, Any]


class Hostiles:
    """The endpoints that misbehave, in a process of their own, each with an origin of its own."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "benchmarks.push_hostile"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise NotReady("the hostile endpoints do not start")
        self.urls: list[str] = json.loads(line)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


async def serve_hostiles() -> None:
    """Prints their urls, and goes on until killed."""
    async with HostileEndpoint() as endpoint:
        urls = []
        for number, what in enumerate(HOSTILE):
            host = f"127.0.1.{number + 1}"
            kind = what.removeprefix("tls:") if what.startswith("tls:") else ""
            await endpoint.listen(host, endpoint.ports[kind], kind)
            url = endpoint.url("/ok" if kind else what, kind)
            urls.append(url.replace(endpoint.host, host))
        print(json.dumps(urls), flush=True)
        while True:
            await asyncio.sleep(1)
            endpoint.received.clear()


def hostile(turns: int, turn_s: float) -> Row:
    """Measure good endpoints, without and with hostile ones beside them."""
    hostiles = Hostiles()
    try:
        with site() as made:
            return uvloop.run(_Beside(made, turn_s).measure(hostiles.urls, turns))
    finally:
        hostiles.stop()


class _Beside:
    """The good endpoints, and the load on all."""

    def __init__(self, made: Site, turn_s: float) -> None:
        self._made = made
        self._turn_s = turn_s
        self._receiver = Receiver()

    async def measure(self, urls: list[str], turns: int) -> Row:
        await self._receiver.start()
        for topic in ("good", "bad", "dead"):
            self._made.cluster.create("/topics", {"name": topic})
        for number in range(GOOD):
            url = f"http://{HOST}:{self._receiver.port}/{number}"
            await asyncio.to_thread(
                self._made.subscribe, f"good-{number}", "good", url, format="raw"
            )
        await self._turn({"good": GOOD_RATE_PER_S})
        alone: list[float] = []
        beside: list[float] = []
        sizes: list[float] = []
        before = 0.0
        for turn in range(turns):
            alone += await self._turn({"good": GOOD_RATE_PER_S})
            before = before or self._mib()
            await self._hostile(urls, "resume" if turn else "")
            watch = asyncio.ensure_future(self._watch(sizes))
            beside += await self._turn({"good": GOOD_RATE_PER_S, "bad": HOSTILE_RATE_PER_S})
            watch.cancel()
            await self._hostile(urls, "pause")
        self._receiver.stop()
        ratio = percentile(beside, 99) / percentile(alone, 99)
        growth, creep = max(sizes) - before, max(sizes) - sizes[len(sizes) // 2]
        return {
            "case": "hostile",
            "hostile_endpoints": len(urls),
            "deliveries": [len(alone), len(beside)],
            "p50_ms": [round(percentile(one, 50) * 1e3, 1) for one in (alone, beside)],
            "p99_ms": [round(percentile(one, 99) * 1e3, 1) for one in (alone, beside)],
            "p99_ratio": round(ratio, 2),
            "requests": self._made.counted("packetboat_push_requests_total"),
            "rss_mib": round(before, 1),
            "rss_growth_mib": round(growth, 1),
            "rss_creep_mib": round(creep, 1),
            "good": ratio <= MAX_P99_RATIO and growth <= MAX_GROWTH_MIB and creep <= MAX_CREEP_MIB,
        }

    async def _hostile(self, urls: list[str], action: str) -> None:
        """Make, pause or resume the subscriptions of the hostile endpoints."""
        for number, url in enumerate(urls):
            if action:
                path = f"/subscriptions/bad-{number}/{action}"
                await asyncio.to_thread(self._made.call, "POST", path)
                continue
            push = {"url": url, "verify": False, "timeout_seconds": 1}
            retry = {"min_backoff_seconds": 0.1, "max_backoff_seconds": 1, "max_attempts": 3}
            body = {"name": f"bad-{number}", "type": "push", "push": push, "retry": retry}
            body["dead_letter_topic"] = "dead"
            path = "/topics/bad/subscriptions"
            await asyncio.to_thread(self._made.cluster.create, path, body)

    async def _turn(self, rates: dict[str, float]) -> list[float]:
        """Publishes for a while, until all has arrived; how old it was."""
        receiver = self._receiver
        receiver.latencies_s.clear()
        counts = await asyncio.gather(*(self._publish(*each) for each in rates.items()))
        expected = counts[list(rates).index("good")] * GOOD
        deadline_s = time.monotonic() + PATIENCE_S
        while len(receiver.latencies_s) < expected:
            if time.monotonic() > deadline_s:
                raise NotReady(f"{len(receiver.latencies_s)} of {expected} arrived")
            await asyncio.sleep(POLL_S)
        return list(receiver.latencies_s)

    async def _publish(self, topic: str, per_s: float) -> int:
        """Publish at a rate; return the number of messages."""
        cluster = self._made.cluster
        host, port = cluster.url.removeprefix("http://").split(":")
        connection = await connect(host, int(port))
        count = int(self._turn_s * per_s)
        for _ in range(count):
            body = stamped_text().encode()
            path = f"/topics/{topic}/messages"
            answer = await connection.send(request("POST", path, cluster.token, body, "text/plain"))
            if answer.status != 201:
                raise NotReady(f"publish: {answer.status} {answer.body[:200]!r}")
            await asyncio.sleep(1 / per_s)
        connection.close()
        return count

    async def _watch(self, sizes: list[float]) -> None:
        while True:
            await asyncio.sleep(1)
            sizes.append(self._mib())

    def _mib(self) -> float:
        """Return the resident memory of the server."""
        found = 0
        for pid in tree(self._made.cluster.pids()):
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if b"serve" in command:
                status = Path(f"/proc/{pid}/status").read_text()
                found += int(status.partition("VmRSS:")[2].split()[0])
        return found / 1024


if __name__ == "__main__":
    uvloop.run(serve_hostiles())
