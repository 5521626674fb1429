"""Settings of a store node: the one place that reads its environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

Address = tuple[str, int]
"""(host, port)."""

MIB = 1024 * 1024


class StoreNodeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One node. `peers` has every voter, this node too; ids are 1 … 65535 and never reused."""

    node_id: int
    data_dir: Path
    listen: Address
    peers: dict[int, Address]
    cluster_uid: bytes
    """16 bytes, the same at every node; a data directory of another cluster is refused."""
    secret: bytes
    """Shared by nodes and forwarders; proved at each connection, never sent."""
    groups: int = 8
    segment_bytes: int = 64 * MIB
    disk_reserve_bytes: int = 256 * MIB
    """Appends are refused while the disk has less than this free; below half of it the node does
    not take values from its peers either."""
    max_pending_bytes: int = 64 * MIB
    """Commands waiting to be proposed, per node; past it they are refused as overloaded."""

    def validate(self) -> None:
        """Raises ValueError naming the setting."""
        if self.node_id not in self.peers:
            raise ValueError(f"peers: node {self.node_id} itself is missing")
        if not all(0 < node < 1 << 16 for node in self.peers):
            raise ValueError("peers: node ids are 1 to 65535")
        if len(self.cluster_uid) != 16:
            raise ValueError("cluster_uid: 16 bytes")
        if len(self.secret) < 16:
            raise ValueError("secret: at least 16 bytes")
        if self.groups < 1:
            raise ValueError("groups: at least 1")


def parse_address(text: str) -> Address:
    """`host:port`; raises ValueError."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"{text!r} is not host:port")
    return host, int(port)


def parse_peers(text: str) -> dict[int, Address]:
    """`1=host:port,2=host:port`; raises ValueError."""
    peers: dict[int, Address] = {}
    for entry in text.split(","):
        node, _, address = entry.strip().partition("=")
        if not node.isdigit():
            raise ValueError(f"{entry!r} is not node=host:port")
        peers[int(node)] = parse_address(address)
    return peers


def from_environment(environ: Mapping[str, str] | None = None) -> StoreNodeSettings:
    """From PACKETBOAT_STORE_*; raises ValueError naming what is missing or wrong."""
    env = os.environ if environ is None else environ

    def need(name: str) -> str:
        if name not in env:
            raise ValueError(f"{name} is not set")
        return env[name]

    peers = parse_peers(need("PACKETBOAT_STORE_NODES"))
    node_id = int(need("PACKETBOAT_STORE_NODE_ID"))
    listen = env.get("PACKETBOAT_STORE_LISTEN")
    settings = StoreNodeSettings(
        node_id=node_id,
        data_dir=Path(need("PACKETBOAT_STORE_DIR")),
        listen=parse_address(listen) if listen else peers.get(node_id, ("127.0.0.1", 0)),
        peers=peers,
        cluster_uid=bytes.fromhex(need("PACKETBOAT_CLUSTER_UID")),
        secret=bytes.fromhex(need("PACKETBOAT_STORE_SECRET")),
        groups=int(env.get("PACKETBOAT_STORE_GROUPS", "8")),
        segment_bytes=int(env.get("PACKETBOAT_STORE_SEGMENT_BYTES", str(64 * MIB))),
        disk_reserve_bytes=int(env.get("PACKETBOAT_STORE_DISK_RESERVE_BYTES", str(256 * MIB))),
        max_pending_bytes=int(env.get("PACKETBOAT_STORE_MAX_PENDING_BYTES", str(64 * MIB))),
    )
    settings.validate()
    return settings
