"""Records what a release leaves behind, for later releases to go on with:

    python -m tests.golden.record 0.1.0

frames.json    a frame of every kind (samples.py)
nodes.tar.gz   the directories of three store nodes, two stopped in order and one killed
tables.json    the rows of Postgres, each table as COPY writes it
facts.json     the settings that belong to them, and what clients had been told
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
from packetboat.aio.client import AsyncClient
from packetboat.models import Message, Retention, RetryPolicy

from harness import releases
from harness.cluster import HOST, ChaosCluster

HERE = Path(__file__).parent
SEGMENT_BYTES = 1024 * 1024
KEPT_S = 31_536_000
"""The longest that a topic may keep messages: these are read for as long."""
DELAY_S = 120
"""Longer than recording takes; when it is read it is over."""
BELONGS = (
    "PACKETBOAT_CLUSTER_UID",
    "PACKETBOAT_STORE_SECRET",
    "PACKETBOAT_STORE_GROUPS",
    "PACKETBOAT_ACK_SECRET",
    "PACKETBOAT_SEAL_KEYS",
    "PACKETBOAT_DEV_TOKEN_SHA256",
)


@dataclass
class Facts:
    """The values that clients got; lists are of `data`."""

    revision: str = ""
    token: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    client: dict[str, str] = field(default_factory=dict)
    published: list[str] = field(default_factory=list)
    delayed: list[str] = field(default_factory=list)
    acked: list[str] = field(default_factory=list)
    dead: list[str] = field(default_factory=list)


async def record(release: releases.Release, root: Path, to: Path) -> None:
    """Record a release into the folder `to`; `root` has its data meanwhile."""
    facts = Facts()
    async with ChaosCluster(root, release=release, segment_bytes=SEGMENT_BYTES) as cluster:
        await _use(cluster, facts)
        facts.token = cluster.token
        environment = cluster.environment()
        facts.settings = {name: environment[name] for name in BELONGS}
        cluster.stop_server()
        tables, facts.revision = await _tables(cluster.postgres.url)
        cluster.kill_node(3)
        for node in (1, 2):
            await cluster.stop_node(node)
        _pack(cluster, to / "nodes.tar.gz")
    (to / "tables.json").write_text(json.dumps(tables, indent=1, sort_keys=True) + "\n")
    (to / "facts.json").write_text(json.dumps(vars(facts), indent=1, sort_keys=True) + "\n")
    (to / "frames.json").write_text(_frames(release))


async def _use(cluster: ChaosCluster, facts: Facts) -> None:
    """Store at least one of everything that can be stored."""
    async with AsyncClient(f"http://{HOST}:{cluster.http_port}", cluster.token) as client:
        made = await client.clients.create("golden")
        facts.client = {"id": made.client_id, "secret": made.client_secret}
        await client.topics.create("orders", partitions=2, retention=Retention(seconds=KEPT_S))
        await client.topics.create("dead", partitions=1, retention=Retention(seconds=KEPT_S))
        await client.subscriptions.create(
            "orders",
            "billing",
            start="earliest",
            ordered=True,
            dead_letter_topic="dead",
            retry=RetryPolicy(max_attempts=3),
        )
        for number in range(30):
            data = f"message {number}"
            facts.published.append(data)
            await client.publish("orders", data, key=f"key-{number % 3}", idempotency_key=data)
        data = "delayed"
        facts.delayed.append(data)
        await client.publish("orders", data, delay_seconds=DELAY_S)
        acked: list[Message] = []
        while len(acked) < 12:
            acked += (got := await client.pull("billing", max_messages=2, wait_seconds=5))
            assert not (await client.ack("billing", got)).failures
        facts.acked = [message.text for message in acked]
        (dead,) = await client.pull("billing", max_messages=1, wait_seconds=5)
        await client.reject("billing", [dead], reason="golden")
        facts.dead = [dead.text]


async def _tables(url: str) -> tuple[dict[str, str], str]:
    connection = await asyncpg.connect(url)
    try:
        names = await connection.fetch(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1"
        )
        tables = {}
        for (name,) in names:
            rows = io.BytesIO()
            await connection.copy_from_table(name, output=rows)
            if text := rows.getvalue().decode():
                tables[name] = text
        revision = tables.pop("alembic_version").strip()
        return tables, revision
    finally:
        await connection.close()


def _pack(cluster: ChaosCluster, to: Path) -> None:
    with tarfile.open(to, "w:gz") as archive:
        for node, directory in cluster.node_dirs.items():
            archive.add(directory, f"node-{node}")


def _frames(release: releases.Release) -> str:
    path = release.environment()["PYTHONPATH"] + f":{releases.ROOT}"
    command = [sys.executable, "-m", "tests.golden.samples"]
    environment = {"PYTHONPATH": path}
    return subprocess.check_output(command, cwd=release.tree, env=environment, text=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("release", choices=releases.HISTORY)
    name: Any = parser.parse_args().release
    to = HERE / name
    to.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)  # Postgres's lesser account must get there when we are root.
        root = Path(place) / "data"
        asyncio.run(record(releases.unpacked(Path(place), name), root, to))


if __name__ == "__main__":
    main()
