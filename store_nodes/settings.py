"""Settings of a store node: the one place that reads its environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from peering.settings import PeerSettings
from peering.shared_secret import SharedSecret
from store_nodes.membership import Membership

Address = tuple[str, int]
"""(host, port)."""

MIB = 1024 * 1024


class StoreNodeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One node. `peers` has the first voters, this node too unless it joins later; the logs of the
    groups say who came and went since. Ids are 1 … 65535 and never reused."""

    node_id: int
    data_dir: Path
    listen: Address
    peers: dict[int, Address]
    cluster_uid: bytes
    """16 bytes, the same at every node; a data directory of another cluster is refused."""
    secret: SharedSecret
    """Of nodes and forwarders; proved at each connection, never sent."""
    peering: PeerSettings = PeerSettings()
    """TLS with peers and clients."""
    zones: dict[int, str] = {}
    """Where peers stand; those in none need not be here."""
    join: bool = False
    """This node is none of the first: it starts with nothing and waits to be added."""
    groups: int = 8
    """The first groups; more are added through the log."""
    segment_bytes: int = 64 * MIB
    disk_reserve_bytes: int = 256 * MIB
    """Appends are refused while the disk has less than this free; below half of it the node does
    not take values from its peers either."""
    max_pending_bytes: int = 64 * MIB
    """Commands waiting to be proposed, per node; past it they are refused as overloaded."""
    lag_cap_bytes: int = 4096 * MIB
    """A peer that is behind by more than this much of the log is sent a checkpoint instead."""
    scrub_bytes_per_s: int = 4 * MIB
    """How fast stored data is read again to see that it still verifies; 0: not at all."""
    copy_bytes_per_s: int = 64 * MIB
    """How fast missing data is fetched from peers, so that they go on serving."""
    metrics: Address | None = None
    """Where `/metrics`, `/healthz` and `/readyz` are served by HTTP; None: nowhere."""

    def validate(self) -> None:
        """Raises ValueError naming the setting."""
        if self.node_id not in self.peers and not self.join:
            raise ValueError(f"peers: node {self.node_id} itself is missing")
        if not all(0 < node < 1 << 16 for node in (self.node_id, *self.peers)):
            raise ValueError("peers: node ids are 1 to 65535")
        if len(self.cluster_uid) != 16:
            raise ValueError("cluster_uid: 16 bytes")
        if self.groups < 1:
            raise ValueError("groups: at least 1")

    def first_membership(self) -> Membership:
        """Version 0 of every first group; empty at a node that joins later."""
        if self.join:
            return Membership()
        return Membership.first(
            {
                node: (format_address(address), self.zones.get(node, ""))
                for node, address in self.peers.items()
            }
        )


def format_address(address: Address) -> str:
    """`host:port`."""
    return f"{address[0]}:{address[1]}"


def parse_address(text: str) -> Address:
    """`host:port`; raises ValueError."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"{text!r} is not host:port")
    return host, int(port)


def parse_peers(text: str) -> dict[int, Address]:
    """The addresses of `1=host:port@zone,2=host:port`; raises ValueError."""
    return {node: address for node, (address, _) in parse_nodes(text).items()}


def parse_nodes(text: str) -> dict[int, tuple[Address, str]]:
    """Address and zone of each node of `1=host:port@zone,2=host:port`; raises ValueError."""
    nodes: dict[int, tuple[Address, str]] = {}
    for entry in text.split(","):
        node, _, rest = entry.strip().partition("=")
        if not node.isdigit():
            raise ValueError(f"{entry!r} is not node=host:port")
        address, _, zone = rest.partition("@")
        nodes[int(node)] = parse_address(address), zone
    return nodes


def _secret(text: str) -> SharedSecret:
    try:
        return SharedSecret.from_text(text)
    except ValueError as error:
        raise ValueError(f"PACKETBOAT_STORE_SECRET: {error}") from None


def from_environment(environ: Mapping[str, str] | None = None) -> StoreNodeSettings:
    """From PACKETBOAT_STORE_*; raises ValueError naming what is missing or wrong."""
    env = os.environ if environ is None else environ

    def need(name: str) -> str:
        if name not in env:
            raise ValueError(f"{name} is not set")
        return env[name]

    def number(name: str, default: int) -> int:
        return int(env.get(name, str(default)))

    nodes = parse_nodes(need("PACKETBOAT_STORE_NODES"))
    peers = {node: address for node, (address, _) in nodes.items()}
    node_id = int(need("PACKETBOAT_STORE_NODE_ID"))
    listen = env.get("PACKETBOAT_STORE_LISTEN")
    settings = StoreNodeSettings(
        node_id=node_id,
        data_dir=Path(need("PACKETBOAT_STORE_DIR")),
        listen=parse_address(listen) if listen else peers.get(node_id, ("127.0.0.1", 0)),
        peers=peers,
        zones={node: zone for node, (_, zone) in nodes.items() if zone},
        join=env.get("PACKETBOAT_STORE_JOIN", "") in ("1", "true", "yes"),
        cluster_uid=bytes.fromhex(need("PACKETBOAT_CLUSTER_UID")),
        secret=_secret(need("PACKETBOAT_STORE_SECRET")),
        peering=PeerSettings.from_environment(env),
        groups=number("PACKETBOAT_STORE_GROUPS", 8),
        segment_bytes=number("PACKETBOAT_STORE_SEGMENT_BYTES", 64 * MIB),
        disk_reserve_bytes=number("PACKETBOAT_STORE_DISK_RESERVE_BYTES", 256 * MIB),
        max_pending_bytes=number("PACKETBOAT_STORE_MAX_PENDING_BYTES", 64 * MIB),
        lag_cap_bytes=number("PACKETBOAT_STORE_LAG_CAP_BYTES", 4096 * MIB),
        scrub_bytes_per_s=number("PACKETBOAT_STORE_SCRUB_BYTES_PER_S", 4 * MIB),
        copy_bytes_per_s=number("PACKETBOAT_STORE_COPY_BYTES_PER_S", 64 * MIB),
        metrics=_metrics(env),
    )
    settings.validate()
    return settings


def _metrics(env: Mapping[str, str]) -> Address | None:
    port = int(env.get("PACKETBOAT_STORE_METRICS_PORT", "0"))
    host = env.get("PACKETBOAT_STORE_METRICS_HOST", "127.0.0.1")
    return (host, port) if port else None
