"""Three store nodes alone: no Postgres, no server, a client in this process."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from gateway.configuration.settings import format_addresses
from harness.measure import tree
from harness.processes import NotReady, Processes, free_ports
from peering.shared_secret import SharedSecret
from store_nodes.client import StoreClient

NODES = (1, 2, 3)
HOST = "127.0.0.1"


class StoreCluster:
    """One cluster in a fresh directory on free ports. Use as a context manager."""

    def __init__(self, directory: Path, *, groups: int = 8) -> None:
        self.directory = directory
        self.groups = groups
        self.addresses = {
            node: (HOST, port) for node, port in zip(NODES, free_ports(len(NODES)), strict=True)
        }
        self._cluster_uid = secrets.token_hex(16)
        self._secret = SharedSecret(secrets.token_bytes(32))
        self._processes = Processes()
        self._nodes: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> StoreCluster:
        self.directory.mkdir(parents=True)
        for node in NODES:
            self.start_node(node)
        return self

    def __exit__(self, *_: object) -> None:
        self._processes.stop()

    def start_node(self, node: int) -> None:
        environment = {
            "PACKETBOAT_STORE_NODES": format_addresses(self.addresses),
            "PACKETBOAT_STORE_GROUPS": str(self.groups),
            "PACKETBOAT_CLUSTER_UID": self._cluster_uid,
            "PACKETBOAT_STORE_SECRET": self._secret.first.hex(),
            "PACKETBOAT_STORE_NODE_ID": str(node),
            "PACKETBOAT_STORE_DIR": str(self.directory / f"node-{node}"),
        }
        self._nodes[node] = self._processes.start(
            [sys.executable, "-m", "gateway", "store-node"],
            log=self.directory / f"node-{node}.log",
            env=environment,
        )

    def stop_node(self, node: int, how: signal.Signals) -> None:
        """Returns when the process is gone."""
        self._nodes[node].send_signal(how)
        self._nodes[node].wait()

    def client(self) -> StoreClient:
        return StoreClient(self.addresses, groups=range(self.groups), secret=self._secret)

    def pids(self) -> list[int]:
        return list(tree(self._processes.pids()))

    def resident_bytes(self, node: int) -> int:
        """Return the memory that the process holds."""
        with open(f"/proc/{self._nodes[node].pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    async def until_applied(self, client: StoreClient, node: int, timeout_s: float = 600) -> float:
        """Return the seconds until the node has applied all that its peers had applied at the
        call.
        """
        began = time.monotonic()
        wanted = await self._applied(client, [other for other in NODES if other != node])
        while time.monotonic() - began < timeout_s:
            found = await self._applied(client, [node])
            if found and all(found.get(group, 0) >= upto for group, upto in wanted.items()):
                return time.monotonic() - began
            await asyncio.sleep(0.02)
        raise NotReady(f"node {node} has not caught up in {timeout_s:.0f} s")

    async def _applied(self, client: StoreClient, nodes: list[int]) -> dict[int, int]:
        highest: dict[int, int] = {}
        for node, status in (await statuses(client)).items():
            for group in status["groups"] if node in nodes else ():
                highest[group["group"]] = max(highest.get(group["group"], 0), group["applied"])
        return highest


async def statuses(client: StoreClient) -> dict[int, dict[str, Any]]:
    """Return the statuses of the nodes that answer."""
    found: dict[int, dict[str, Any]] = {}
    for node, status in (await client.status()).items():
        if "groups" in status:
            found[node] = dict(status)
    return found
