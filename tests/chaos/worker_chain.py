"""A chain of stream tasks, and a plain worker, whose processes are killed again and again:
`python -m tests.chaos.worker_chain [--seconds 300] [--seed 1] [--messages 3000]`.

Each message of the first topic comes out of the last one exactly as often as the stages say, by
all of them in order; each of the plain subscription is written down at least once.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
from packetboat.aio.client import AsyncClient
from packetboat.errors import PacketboatError
from packetboat.models import Outgoing

from harness.cluster import ChaosCluster
from harness.processes import Processes
from tests.chaos.chain_worker import topic_of

STAGES = 5
WORKERS = 3
PARTITIONS = 2
PATIENCE_S = 240.0
PAGE = 500


class WorkerChain:
    """A chain of workers on a cluster that runs. `prepare`, then `storm`, then `verify`."""

    def __init__(self, cluster: ChaosCluster, seed: int, messages: int) -> None:
        self._cluster = cluster
        self._dice = random.Random(seed)
        self._messages = messages
        self._client = AsyncClient(f"http://127.0.0.1:{cluster.http_port}", cluster.token)
        self._written = cluster.root / "written"
        self._processes = Processes()
        self._workers: list[subprocess.Popen[bytes]] = []
        self.kills = 0

    async def prepare(self) -> None:
        for stage in range(STAGES + 1):
            await self._create("/topics", {"name": topic_of(stage), "partitions": PARTITIONS})
        for stage in range(STAGES):
            delivery = "exactly_once" if stage % 2 else "at_least_once"
            await self._subscribe(topic_of(stage), topic_of(stage), delivery)
        await self._create("/topics", {"name": "written", "partitions": PARTITIONS})
        await self._subscribe("written", "written", "at_least_once")

    async def storm(self, seconds: float) -> None:
        """Messages come in all the while, workers are killed, and once or more the server."""
        deadline_s = time.monotonic() + seconds
        for _ in range(WORKERS):
            self._start_worker()
        publishing = asyncio.create_task(self._publish(seconds))
        server_dies_s = time.monotonic() + seconds * self._dice.uniform(0.3, 0.6)
        while time.monotonic() < deadline_s:
            await asyncio.sleep(self._dice.uniform(0.3, 1.5))
            self._kill_worker(self._dice.randrange(WORKERS))
            if time.monotonic() > server_dies_s:
                server_dies_s += 30.0
                self._cluster.kill_server()
                self._cluster.start_server()
        await publishing

    async def verify(self) -> None:
        """Waits until all that went in has come out, and looks at each."""
        deadline_s = time.monotonic() + PATIENCE_S
        expected = {(n, part) for n in range(self._messages) for part in "ab"}
        # Outputs of an ack are in no backlog until they are readable: where the server that had
        # them died, the scheduler makes them that, seconds later.
        while time.monotonic() < deadline_s:
            await asyncio.sleep(0.5)
            if not await self._backlog() and expected <= set(await self._came_out()):
                break
        await asyncio.sleep(0.5)
        found = collections.Counter(await self._came_out())
        assert {item: count for item, count in found.items() if count != 1} == {}, "twice"
        assert expected - set(found) == set(), "lost"
        assert set(found) - expected == set(), "made up"
        written = {int(line) for line in self._written.read_text().split()}
        assert written == set(range(self._messages)), "not written down"

    async def close(self) -> None:
        self._processes.stop(grace_s=5)
        await self._client.close()

    async def _publish(self, seconds: float) -> None:
        """Each once: a batch that may have been stored is sent again as the same batch."""
        for first in range(0, self._messages, PAGE):
            numbers = range(first, min(first + PAGE, self._messages))
            inputs: list[Any] = [
                Outgoing(data={"n": n, "path": [], "part": ""}, key=f"k{n % 50}") for n in numbers
            ]
            await self._published(topic_of(0), inputs)
            await self._published("written", [str(n) for n in numbers])
            await asyncio.sleep(seconds * 0.6 * PAGE / self._messages)

    async def _published(self, topic: str, messages: list[Any]) -> None:
        keyed = [
            Outgoing(
                data=each.data if isinstance(each, Outgoing) else each,
                key=each.key if isinstance(each, Outgoing) else None,
                idempotency_key=f"{topic}/{index}/{messages[0]!r:.80}",
            )
            for index, each in enumerate(messages)
        ]
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                results = await self._client.publish_batch(topic, keyed)
            except PacketboatError:
                assert time.monotonic() < deadline_s
                await asyncio.sleep(0.2)
                continue
            keyed = [
                message
                for message, result in zip(keyed, results, strict=True)
                if isinstance(result, PacketboatError)
            ]
            if not keyed:
                return

    async def _came_out(self) -> list[tuple[int, str]]:
        found = []
        for partition in range(PARTITIONS):
            path, offset = f"/topics/{topic_of(STAGES)}/partitions/{partition}/messages", 0
            while True:
                page = await self._get(f"{path}?offset={offset}&max_messages=1000")
                for message in page["messages"]:
                    item = message["data"]
                    assert item["path"] == list(range(STAGES)), item
                    found.append((item["n"], item["part"]))
                if page["next_offset"] >= page["end_offset"]:
                    break
                offset = page["next_offset"]
        return found

    async def _backlog(self) -> int:
        names = [*map(topic_of, range(STAGES)), "written"]
        shown = [await self._get(f"/subscriptions/{name}/backlog") for name in names]
        return sum(each["messages"] for each in shown)

    def _start_worker(self) -> None:
        seed = self._dice.randrange(10**6)
        command = [sys.executable, "-m", "tests.chaos.chain_worker", str(STAGES)]
        command += [str(self._written), str(seed)]
        process = self._processes.start(
            command,
            log=self._cluster.root / "workers.log",
            env={
                "PACKETBOAT_URL": f"http://127.0.0.1:{self._cluster.http_port}",
                "PACKETBOAT_TOKEN": self._cluster.token,
            },
        )
        self._workers.append(process)

    def _kill_worker(self, index: int) -> None:
        """Kill a worker with SIGKILL, and start another in its place."""
        process = self._workers.pop(index)
        assert process.poll() is None, (self._cluster.root / "workers.log").read_text()[-3000:]
        process.kill()
        process.wait()
        self.kills += 1
        self._start_worker()

    async def _subscribe(self, topic: str, name: str, delivery: str) -> None:
        body = {
            "name": name,
            "start": "earliest",
            "delivery": delivery,
            "ack_deadline_seconds": 2,
            "retry": {"min_backoff_seconds": 0.05, "max_backoff_seconds": 0.5},
        }
        await self._create(f"/topics/{topic}/subscriptions", body)

    async def _create(self, path: str, body: dict[str, Any]) -> None:
        status, answer = await self._cluster.call("POST", path, msgspec.json.encode(body))
        assert status == 201, answer

    async def _get(self, path: str) -> Any:
        while True:
            try:
                status, answer = await self._cluster.call("GET", path)
            except OSError:
                status, answer = 0, b""
            if status == 200:
                return msgspec.json.decode(answer)
            await asyncio.sleep(0.2)


async def run(root: Path, seconds: float, seed: int, messages: int) -> WorkerChain:
    """Run all of it, on a cluster of its own."""
    async with ChaosCluster(root) as cluster:
        chain = WorkerChain(cluster, seed, messages)
        try:
            await chain.prepare()
            await chain.storm(seconds)
            await chain.verify()
        finally:
            await chain.close()
    return chain


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--messages", type=int, default=3000)
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    root = Path(tempfile.mkdtemp(prefix="packetboat-chain-"))
    root.chmod(0o755)
    try:
        chain = asyncio.run(run(root, options.seconds, options.seed, options.messages))
        print(f"{options.messages} messages exactly once over {chain.kills} kills")
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
