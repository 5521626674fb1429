"""Overload: goodput, memory, recovery, and a calm tenant beside a flooding one.

`python -m benchmarks.overload [balanced|direct|tenants|refusals …]`, a JSON line each.

balanced   through the shipped HAProxy: answers 201 at twice and five times the capacity
direct     five times, straight at the server: memory, nothing of what was accepted lost, recovery
tenants    p99 of 50 publishes a second of one tenant beside another's flood, over the same beside a
           flood of a program that only answers
refusals   processor time of a request that is refused, beside one that is served

The flood is wrk's, with a niceness, so that the cores are left to the measured processes. Each of
its connections waits between requests, so that all of them together send at the wanted rate while
they are answered fast. A server that refuses early therefore gets more requests.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import uvloop

from benchmarks.fleet_system import FleetSystem
from benchmarks.packetboat_cluster import PacketboatCluster
from harness.http_client import connect, request
from harness.measure import cpu_by_pid, percentile, tree
from harness.processes import NotReady, Processes, free_ports, listening, wait_until

LEAST_AT_TWICE = 0.75
LEAST_AT_FIVE_TIMES = 0.60
MOST_RECOVERY_S = 5.0
MOST_GROWTH = 1.5
"""Resident memory under the flood, over that at capacity."""
MOST_BESIDE = 2.0
LEAST_CHEAPER = 3.0
NICE = 10
FLOOD_CONNECTIONS = 4_000
BALANCED_CONNECTIONS = 1_000
CAPACITY_CONNECTIONS = 128
CALM_PER_S = 50
BODY = "x" * 256
Row = dict[str, Any]

SCRIPT = """
local threads = {{}}
function setup(thread) table.insert(threads, thread) end
accepted, refused, other = 0, 0, 0
wrk.method = "POST"
wrk.body = "{body}"
wrk.headers["Content-Type"] = "text/plain"
wrk.headers["Authorization"] = "Bearer {token}"
{more}
local ids = {ids} and io.open("{file}", "w")
function delay()
  if {per_second} == 0 then return 0 end
  return math.random() * 2000 * {connections} / {per_second}
end
function response(status, headers, body)
  if status == 201 then
    accepted = accepted + 1
    if ids then ids:write(body, "\\n") end
  elseif status == 503 then refused = refused + 1
  else other = other + 1 end
end
function done(summary, latency, requests)
  local thread = threads[1]
  io.write(string.format(
    '\\n{{"accepted": %d, "refused": %d, "other": %d, "elapsed_s": %f, ' ..
    '"p50_ms": %f, "p99_ms": %f}}\\n',
    thread:get("accepted"), thread:get("refused"), thread:get("other"), summary.duration / 1e6,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end
"""


class Flood:
    """wrk, for some seconds, at a rate or (0) as fast as it is answered."""

    def __init__(
        self,
        directory: Path,
        url: str,
        token: str,
        *,
        per_second: float,
        connections: int,
        seconds: float,
        ids: bool = False,
        proxied: bool = False,
    ) -> None:
        """`ids`: what is answered goes to a file. `proxied`: as if it came through a proxy, whose
        connections a server goes on reading after it has refused."""
        wrk = shutil.which("wrk")
        if wrk is None:
            raise NotReady("wrk is not installed (apt-get install wrk)")
        self.ids = directory / "ids"
        script = directory / "flood.lua"
        text = SCRIPT.format(
            body=BODY,
            token=token,
            ids="true" if ids else "false",
            file=self.ids,
            per_second=round(per_second),
            connections=connections,
            more='wrk.headers["X-Forwarded-For"] = "192.0.2.1"' if proxied else "",
        )
        script.write_text(text)
        self._until_s = seconds + 30
        self._process = subprocess.Popen(
            [
                *("nice", "-n", str(NICE), wrk, "-t1", f"-c{connections}", f"-d{seconds:.0f}s"),
                *("--timeout", "10s", "-s", str(script), url),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def result(self) -> Row:
        """Wait for its end; return the counts of answers, and the accepted ones a second."""
        out, error = self._process.communicate(timeout=self._until_s)
        if self._process.returncode != 0:
            raise NotReady(f"wrk: {error.strip()[-300:]}")
        result: Row = json.loads(out.strip().splitlines()[-1])
        asked = result["accepted"] + result["refused"] + result["other"]
        return result | {
            "accepted_per_s": round(result["accepted"] / result["elapsed_s"], 1),
            "asked_per_s": round(asked / result["elapsed_s"], 1),
        }


def publish_url(url: str, topic: str) -> str:
    return f"{url}/topics/{topic}/messages"


def capacity(directory: Path, url: str, token: str, seconds: float) -> float:
    """Publishes a second when nobody asks for more than is answered."""
    runs = []
    for part in (seconds / 2, seconds):
        flood = Flood(
            directory, url, token, per_second=0, connections=CAPACITY_CONNECTIONS, seconds=part
        )
        runs.append(float(flood.result()["accepted_per_s"]))
    return runs[-1]


@contextmanager
def workplace() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="packetboat-overload-"))
    directory.chmod(0o711)  # Postgres runs as a lesser account when we are root.
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def installation(directory: Path) -> Iterator[PacketboatCluster]:
    """Yield one server, with nothing before it."""
    cluster = PacketboatCluster(directory / "site")
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def balanced(options: argparse.Namespace) -> Iterator[Row]:
    """Measure how much of its capacity is used if twice and five times as much is asked."""
    with workplace() as directory, FleetSystem(1) as system:
        system.create(("/topics", {"name": "bench", "partitions": 4}))
        url = publish_url(system.url, "bench")
        can = capacity(directory, url, system.token, options.seconds)
        for times, least in ((2, LEAST_AT_TWICE), (5, LEAST_AT_FIVE_TIMES)):
            result = Flood(
                directory,
                url,
                system.token,
                per_second=times * can,
                connections=BALANCED_CONNECTIONS,
                seconds=options.seconds,
            ).result()
            share = result["accepted_per_s"] / can
            yield {
                "case": "balanced",
                "times": times,
                "capacity_per_s": round(can, 1),
                **result,
                "goodput": round(share, 3),
                "good": share >= least,
            }


class Memory:
    """The most that a process had, looked at some times a second."""

    def __init__(self, pid: int) -> None:
        self._path = Path(f"/proc/{pid}/status")
        self.most_bytes = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.1):
            found = re.search(r"^VmRSS:\s+(\d+) kB$", self._path.read_text(), re.MULTILINE)
            assert found is not None
            self.most_bytes = max(self.most_bytes, int(found[1]) * 1024)


def server_pid(cluster: PacketboatCluster) -> int:
    """Return the id of the process that serves HTTP."""
    for pid in tree(cluster.pids()):
        if b"serve" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
            return pid
    raise NotReady("no server is running")


def direct(options: argparse.Namespace) -> Iterator[Row]:
    """Measure five times the capacity, with nothing in front."""
    with workplace() as directory, installation(directory) as cluster:
        cluster.create("/topics", {"name": "bench", "partitions": 4})
        url = publish_url(cluster.url, "bench")
        pid = server_pid(cluster)
        with Memory(pid) as at_capacity:
            can = capacity(directory, url, cluster.token, options.seconds)
        cluster.create("/topics", {"name": "flood", "partitions": 4})
        with Memory(pid) as under_flood:
            flood = Flood(
                directory,
                publish_url(cluster.url, "flood"),
                cluster.token,
                per_second=5 * can,
                connections=FLOOD_CONNECTIONS,
                seconds=options.seconds,
                ids=True,
            )
            result = flood.result()
        recovered_s = uvloop.run(recovery(url, cluster.token))
        accepted = {
            msgspec.json.decode(line)["message_id"] for line in flood.ids.read_bytes().splitlines()
        }
        missing = accepted - stored(cluster, "flood", 4)
        growth = under_flood.most_bytes / at_capacity.most_bytes
        yield {
            "case": "direct",
            "capacity_per_s": round(can, 1),
            **result,
            "goodput": round(result["accepted_per_s"] / can, 3),
            "memory_mb": round(under_flood.most_bytes / 1e6),
            "memory_growth": round(growth, 2),
            "recovered_s": round(recovered_s, 2),
            "accepted_ids": len(accepted),
            "lost": len(missing),
            "good": growth <= MOST_GROWTH
            and recovered_s <= MOST_RECOVERY_S
            and not missing
            and len(accepted) > 0,
        }


async def recovery(url: str, token: str) -> float:
    """Seconds until a whole second of calm publishes is answered 201, each within a tenth."""
    parts = urlsplit(url)
    connection = await connect(str(parts.hostname), parts.port or 80)
    whole = request("POST", parts.path, token, BODY.encode(), "text/plain")
    began_s = time.perf_counter()
    well = 0
    while well < CALM_PER_S and time.perf_counter() - began_s < 10 * MOST_RECOVERY_S:
        sent_s = time.perf_counter()
        answer = await connection.send(whole)
        fast = time.perf_counter() - sent_s < 0.1
        well = well + 1 if answer.status == 201 and fast else 0
        await asyncio.sleep(1 / CALM_PER_S)
    connection.close()
    return max(0.0, time.perf_counter() - began_s - 1.0)


def stored(cluster: PacketboatCluster, topic: str, partitions: int) -> set[str]:
    """Return the ids of all messages that can be read."""
    found: set[str] = set()
    for partition in range(partitions):
        offset: int | None = 0
        while offset is not None:
            path = f"/topics/{topic}/partitions/{partition}/messages"
            page = call(cluster, f"{path}?offset={offset}&max_messages=1000")
            ids = [message["message_id"] for message in page["messages"]]
            found.update(ids)
            offset = page["next_offset"] if ids else None
    return found


def call(cluster: PacketboatCluster, path: str) -> Any:
    """Send a GET request; return its JSON."""
    headers = {"Authorization": f"Bearer {cluster.token}"}
    return answered(urllib.request.Request(cluster.url + path, headers=headers))


async def calm(url: str, token: str, seconds: float) -> tuple[list[float], int]:
    """Publish at a fixed rate; return the latencies, from when each was due, and the failures."""
    parts = urlsplit(url)
    connections = [await connect(str(parts.hostname), parts.port or 80) for _ in range(50)]
    whole = request("POST", parts.path, token, BODY.encode(), "text/plain")
    free = list(connections)
    latencies: list[float] = []
    failed = 0

    async def publish(due_s: float) -> None:
        nonlocal failed
        connection = free.pop() if free else await connect(str(parts.hostname), parts.port or 80)
        answer = await connection.send(whole)
        latencies.append(time.perf_counter() - due_s)
        failed += answer.status != 201
        free.append(connection)

    began_s = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for number in range(int(seconds * CALM_PER_S)):
            due_s = began_s + number / CALM_PER_S
            await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
            tasks.create_task(publish(due_s))
    return latencies, failed


class Answering(asyncio.Protocol):
    """Answers each request 503, and looks at nothing but where it ends."""

    ANSWER = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 2\r\n\r\nno"
    END = BODY.encode()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        count = data.count(self.END)
        self._rest = data[data.rfind(self.END) + len(self.END) :] if count else data
        if count:
            self._transport.write(self.ANSWER * count)  # type: ignore[attr-defined]


async def answer_only(port: int) -> None:
    """Answer until it is ended."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Answering, "127.0.0.1", port, backlog=2048)
    await server.serve_forever()


def tenants(options: argparse.Namespace) -> Iterator[Row]:
    """Measure a calm tenant beside a flood of another, and beside the same flood somewhere else."""
    with workplace() as directory, installation(directory) as cluster, Processes() as processes:
        flooding = tenant_token(cluster, "flooding")
        calm_token = tenant_token(cluster, "calm")
        for token in (flooding, calm_token):
            created(cluster.url, token, "bench")
        url = publish_url(cluster.url, "bench")
        can = capacity(directory, url, flooding, options.seconds / 2)
        (port,) = free_ports(1)
        command = [sys.executable, "-m", "benchmarks.overload", "answer", "--port", str(port)]
        processes.start(command, log=directory / "answer.log")
        wait_until(lambda: listening(port), timeout_s=20, what="the program that only answers")
        p99_ms: dict[str, float] = {}
        rows: dict[str, Row] = {}
        for where, at in (("elsewhere", f"http://127.0.0.1:{port}/"), ("here", url)):
            flood = Flood(
                directory,
                at,
                flooding,
                per_second=options.times * can,
                connections=FLOOD_CONNECTIONS,
                seconds=options.seconds + 5,
            )
            time.sleep(3)
            latencies, failed = uvloop.run(calm(url, calm_token, options.seconds))
            p99_ms[where] = percentile(latencies, 99) * 1e3
            result = flood.result()
            rows[where] = {
                "p50_ms": round(percentile(latencies, 50) * 1e3, 1),
                "p99_ms": round(p99_ms[where], 1),
                "failed": failed,
                "flood_accepted_per_s": result["accepted_per_s"],
                "flood_asked_per_s": result["asked_per_s"],
            }
        ratio = p99_ms["here"] / p99_ms["elsewhere"]
        yield {
            "case": "tenants",
            "capacity_per_s": round(can, 1),
            **rows,
            "p99_ratio": round(ratio, 2),
            "good": ratio <= MOST_BESIDE and not rows["here"]["failed"],
        }


def tenant_token(cluster: PacketboatCluster, name: str) -> str:
    """Return a token of the owner of a new tenant."""
    lines = (cluster.directory / "data" / "operator.env").read_text().splitlines()
    values = dict(line.removeprefix("export ").split("=", 1) for line in lines if "=" in line)
    client_id, secret = values["PACKETBOAT_CLIENT_ID"], values["PACKETBOAT_CLIENT_SECRET"]
    operator = access_token(cluster.url, client_id, secret)
    owner = {"owner": {"name": "owner"}}
    made = sent(cluster.url, f"/tenants/{name}", operator, owner, method="PUT")["owner"]
    return access_token(cluster.url, made["client_id"], made["client_secret"])


def access_token(url: str, client_id: str, secret: str) -> str:
    form = {
        "grant_type": "client_credentials",
        "client_id": client_id,
        "client_secret": secret,
    }
    body = urllib.parse.urlencode(form).encode()
    token: str = answered(urllib.request.Request(f"{url}/oauth/token", body))["access_token"]
    return token


def answered(wanted: urllib.request.Request) -> Any:
    """Return the JSON of the answer. Raises NotReady with any other answer."""
    try:
        with urllib.request.urlopen(wanted, timeout=30) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise NotReady(f"{wanted.full_url}: {error.code} {error.read()[:300]!r}") from error


def sent(url: str, path: str, token: str, body: Row, *, method: str = "POST") -> Any:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    data = json.dumps(body).encode()
    return answered(urllib.request.Request(url + path, data, headers, method=method))


def created(url: str, token: str, topic: str) -> None:
    sent(url, "/topics", token, {"name": topic, "partitions": 4})


def refusals(options: argparse.Namespace) -> Iterator[Row]:
    """Measure the processor time of a request that is refused, and of one that is served."""
    with workplace() as directory, installation(directory) as cluster, Processes() as processes:
        cluster.create("/topics", {"name": "bench", "partitions": 4})
        (port,) = free_ports(1)
        command = [sys.executable, "-m", "benchmarks.refusing_server", str(port), cluster.token]
        refusing = processes.start(command, log=directory / "refusing.log")
        wait_until(lambda: listening(port), timeout_s=20, what="the listener that refuses")
        each_us = {}
        places = (
            ("accepted", cluster.url, server_pid(cluster)),
            ("refused", f"http://127.0.0.1:{port}", refusing.pid),
        )
        for what, url, pid in places:
            capacity(directory, publish_url(url, "bench"), cluster.token, options.seconds / 4)
            before_s = cpu_by_pid([pid])[pid]
            result = Flood(
                directory,
                publish_url(url, "bench"),
                cluster.token,
                per_second=0,
                connections=CAPACITY_CONNECTIONS,
                seconds=options.seconds / 2,
                proxied=True,
            ).result()
            each_us[what] = (cpu_by_pid([pid])[pid] - before_s) / max(1, result[what]) * 1e6
        ratio = each_us["accepted"] / each_us["refused"]
        yield {
            "case": "refusals",
            "served_us": round(each_us["accepted"], 1),
            "refused_us": round(each_us["refused"], 1),
            "cheaper": round(ratio, 1),
            "good": ratio >= LEAST_CHEAPER,
        }


CASES: dict[str, Callable[[argparse.Namespace], Iterator[Row]]] = {
    "balanced": balanced,
    "direct": direct,
    "tenants": tenants,
    "refusals": refusals,
}


def main() -> int:
    """Exit status 1 when a figure misses its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", default=list(CASES))
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--times", type=float, default=3.0)
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    if options.cases == ["answer"]:
        uvloop.run(answer_only(options.port))
        return 0
    good = True
    for case in options.cases:
        for row in CASES[case](options):
            print(json.dumps(row), flush=True)
            good = good and row["good"]
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
