"""Settings of a store node: the one place that reads its environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from edge.environment import PORT, Bounds, Reader, within
from peering.settings import PeerSettings
from peering.shared_secret import SharedSecret
from store_nodes.membership import Membership

Address = tuple[str, int]
"""(host, port)."""

MIB = 1024 * 1024
MIN_SEGMENT_BYTES, MAX_SEGMENT_BYTES = 8 * MIB, 64 * MIB
DISK_SHARE = 512
"""A segment is this part of the disk, unless its size is set."""
DISK_RESERVE = "PACKETBOAT_STORE_DISK_RESERVE_BYTES"
UID_BYTES = 16
_IDS = Bounds(1, 65_535)
_SEGMENT = Bounds(8 * 1024, 0xFFFF_0000)


class StoreNodeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one node. `peers` names the first voters, including this node unless it joins
    later; the logs of the groups record later changes. Ids are 1 … 65535 and never reused."""

    node_id: int
    data_dir: Path
    listen: Address
    peers: dict[int, Address]
    cluster_uid: bytes
    """16 bytes, the same at every node; a data directory of another cluster is refused."""
    secret: SharedSecret
    """Secret of nodes and forwarders; each connection proves it without sending it."""
    peering: PeerSettings = PeerSettings()
    """TLS with peers and clients."""
    zones: dict[int, str] = {}
    """Zones of the peers; a peer without a zone is not in the mapping."""
    join: bool = False
    """Whether this node joins later: it starts empty and waits until it is added."""
    groups: int = 8
    """Number of the first groups; later ones are added through the log."""
    segment_bytes: int = MAX_SEGMENT_BYTES
    """Largest segment of the log; the first ones are smaller."""
    disk_reserve_bytes: int = 256 * MIB
    """Free disk space below which appends are refused; below half of it the node accepts no values
    from its peers either."""
    max_pending_bytes: int = 64 * MIB
    """Bytes of commands that wait to be proposed on a node; further ones are refused as
    overloaded."""
    lag_cap_bytes: int = 4096 * MIB
    """A peer that lags by more bytes of the log gets a checkpoint instead."""
    scrub_bytes_per_s: int = 4 * MIB
    """Rate at which stored data is read again and verified; 0 for never."""
    copy_bytes_per_s: int = 64 * MIB
    """Rate of fetching missing data from peers, which have to serve at the same time."""
    metrics: Address | None = None
    """Address for `/metrics`, `/healthz` and `/readyz`, by HTTP; None serves none of them."""
    metrics_old_names: bool = True
    """Whether metrics also appear under their names of 0.2."""

    def validate(self) -> None:
        """Raises ValueError naming the setting."""
        if self.node_id not in self.peers and not self.join:
            raise ValueError(f"peers: node {self.node_id} itself is missing")
        if not all(0 < node < 1 << 16 for node in (self.node_id, *self.peers)):
            raise ValueError("peers: node ids are 1 to 65535")
        if len(self.cluster_uid) != UID_BYTES:
            raise ValueError(f"cluster_uid: {UID_BYTES} bytes")
        if self.groups < 1:
            raise ValueError("groups: at least 1")

    def first_membership(self) -> Membership:
        """Return version 0 of every first group; it is empty at a node that joins later."""
        if self.join:
            return Membership()
        return Membership.first(
            {
                node: (format_address(address), self.zones.get(node, ""))
                for node, address in self.peers.items()
            }
        )


def format_address(address: Address) -> str:
    """Write an address as `host:port`."""
    return f"{address[0]}:{address[1]}"


def parse_address(text: str) -> Address:
    """Parse `host:port`; raises ValueError."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"{text!r} is not host:port")
    return host, within(int, PORT, port)


def parse_peers(text: str) -> dict[int, Address]:
    """Parse the addresses of `1=host:port@zone,2=host:port`; raises ValueError."""
    return {node: address for node, (address, _) in parse_nodes(text).items()}


def parse_nodes(text: str) -> dict[int, tuple[Address, str]]:
    """Parse address and zone of each node of `1=host:port@zone,2=host:port`; raises ValueError."""
    nodes: dict[int, tuple[Address, str]] = {}
    for entry in text.split(","):
        node, _, rest = entry.strip().partition("=")
        if not node.isdigit():
            raise ValueError(f"{entry!r} is not node=host:port")
        address, _, zone = rest.partition("@")
        nodes[int(node)] = parse_address(address), zone
    return nodes


def from_environment(environ: Mapping[str, str] | None = None) -> StoreNodeSettings:
    """Read the settings from PACKETBOAT_STORE_*; raises SettingsError."""
    env = os.environ if environ is None else environ
    reader = Reader(env)
    number = reader.number
    none: dict[int, tuple[Address, str]] = {}
    nodes = reader.need("PACKETBOAT_STORE_NODES", parse_nodes, none, "1=host:port,2=host:port,…")
    peers = {node: address for node, (address, _) in nodes.items()}
    node_id = reader.need(
        "PACKETBOAT_STORE_NODE_ID", lambda text: within(int, _IDS, text), 0, "1 to 65535"
    )
    data_dir = reader.need("PACKETBOAT_STORE_DIR", Path, Path(), "a directory")
    listen = reader.read("PACKETBOAT_STORE_LISTEN", _listen, None)
    join = env.get("PACKETBOAT_STORE_JOIN", "") in ("1", "true", "yes")
    secret = _secret(reader, env)
    cluster_uid = reader.need("PACKETBOAT_CLUSTER_UID", _uid, b"", "16 bytes in hex")
    peering = _peering(reader, env)
    positive = Bounds(1)
    numbers = {
        "groups": number("PACKETBOAT_STORE_GROUPS", 8, Bounds(1, 65_535)),
        "segment_bytes": number(
            "PACKETBOAT_STORE_SEGMENT_BYTES", _segment_bytes(data_dir), _SEGMENT
        ),
        "disk_reserve_bytes": number(DISK_RESERVE, 256 * MIB, Bounds(0)),
        "max_pending_bytes": number("PACKETBOAT_STORE_MAX_PENDING_BYTES", 64 * MIB, positive),
        "lag_cap_bytes": number("PACKETBOAT_STORE_LAG_CAP_BYTES", 4096 * MIB, positive),
        "scrub_bytes_per_s": number("PACKETBOAT_STORE_SCRUB_BYTES_PER_S", 4 * MIB, Bounds(0)),
        "copy_bytes_per_s": number("PACKETBOAT_STORE_COPY_BYTES_PER_S", 64 * MIB, positive),
    }
    metrics_port = number("PACKETBOAT_STORE_METRICS_PORT", 0, PORT)
    metrics_host = env.get("PACKETBOAT_STORE_METRICS_HOST", "127.0.0.1")
    if nodes and node_id and node_id not in peers and not join:
        reader.faults.append(
            f"PACKETBOAT_STORE_NODE_ID={node_id}: PACKETBOAT_STORE_NODES does not have this node"
        )
    reader.done()
    settings = StoreNodeSettings(
        node_id=node_id,
        data_dir=data_dir,
        listen=listen or peers.get(node_id, ("127.0.0.1", 0)),
        peers=peers,
        zones={node: zone for node, (_, zone) in nodes.items() if zone},
        join=join,
        cluster_uid=cluster_uid,
        secret=secret,
        peering=peering,
        metrics=(metrics_host, metrics_port) if metrics_port else None,
        metrics_old_names=env.get("PACKETBOAT_METRICS_OLD_NAMES", "1") in ("1", "true", "yes"),
        **numbers,
    )
    settings.validate()
    return settings


def _listen(text: str) -> Address | None:
    return parse_address(text) if text else None


def _uid(text: str) -> bytes:
    try:
        uid = bytes.fromhex(text)
    except ValueError:
        uid = b""
    if len(uid) != UID_BYTES:
        raise ValueError(f"must be {UID_BYTES} bytes in hex")
    return uid


def _secret(reader: Reader, env: Mapping[str, str]) -> SharedSecret:
    name = "PACKETBOAT_STORE_SECRET"
    nobody = SharedSecret(b"")
    if name not in env:
        reader.faults.append(f"{name} is needed: at least 16 bytes in hex")
        return nobody
    return reader.read(name, SharedSecret.from_text, nobody, secret=True)


def _peering(reader: Reader, env: Mapping[str, str]) -> PeerSettings:
    try:
        return PeerSettings.from_environment(env)
    except ValueError as error:
        reader.faults += str(error).splitlines()
        return PeerSettings()


def _segment_bytes(data_dir: Path) -> int:
    """Return the size of segments for the disk of the log."""
    there = next((one for one in (data_dir, *data_dir.absolute().parents) if one.exists()), None)
    if there is None:
        return MAX_SEGMENT_BYTES
    stat = os.statvfs(there)
    return segment_bytes_on(stat.f_blocks * stat.f_frsize)


def segment_bytes_on(disk_bytes: int) -> int:
    """Return the size of segments on a disk of this size, unless a setting gives it."""
    share = disk_bytes // DISK_SHARE // MIB * MIB
    return max(MIN_SEGMENT_BYTES, min(MAX_SEGMENT_BYTES, share))
