"""The identity of a log's node (`node.json`), and the lock that only one process has (`LOCK`).

The identity is written once, after the first segment exists, and never changes. The incarnation uid
is drawn with it. So a node that lost its disk comes back with another incarnation, by which its
peers know that its old promises are gone. It must then join under a new node id.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from crc32c import crc32c

from store_nodes.wal.disk import Disk, read_whole, write_atomically
from store_nodes.wal.errors import DirectoryLocked, IdentityMismatch, WalUnsupported

FORMAT_VERSION = 1
IDENTITY_NAME = "node.json"
LOCK_NAME = "LOCK"
UID_BYTES = 16


class Identity(msgspec.Struct, frozen=True):
    """The identity of a node's log; uids are in hexadecimal.

    `crc32c` is that of the JSON of the same object with `crc32c` 0.
    """

    format_version: int
    cluster_uid: str
    node_id: int
    incarnation_uid: str
    crc32c: int = 0

    def encode(self) -> bytes:
        bare = msgspec.structs.replace(self, crc32c=0)
        return msgspec.json.encode(
            msgspec.structs.replace(bare, crc32c=crc32c(msgspec.json.encode(bare)))
        )


def load(disk: Disk, directory: Path) -> Identity | None:
    """Return a directory's identity, None if it has none; raises IdentityMismatch if it is
    damaged.
    """
    raw = read_whole(disk, directory / IDENTITY_NAME)
    if raw is None:
        return None
    try:
        identity = msgspec.json.decode(raw, type=Identity)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise IdentityMismatch(f"{directory / IDENTITY_NAME}: {error}") from error
    if identity.encode() != raw:
        raise IdentityMismatch(f"{directory / IDENTITY_NAME}: CRC32C does not match")
    if identity.format_version != FORMAT_VERSION:
        raise WalUnsupported(f"{directory}: format version {identity.format_version}")
    return msgspec.structs.replace(identity, crc32c=0)


def store(disk: Disk, directory: Path, identity: Identity) -> None:
    write_atomically(disk, directory / IDENTITY_NAME, identity.encode())


def fresh(disk: Disk, cluster_uid: bytes, node_id: int) -> Identity:
    """Return a new incarnation, which is not stored yet."""
    assert len(cluster_uid) == UID_BYTES
    assert 0 < node_id < 1 << 16, "a ballot has 16 bits for it"
    return Identity(FORMAT_VERSION, cluster_uid.hex(), node_id, disk.random_bytes(UID_BYTES).hex())


def check(identity: Identity, directory: Path, cluster_uid: bytes, node_id: int) -> None:
    """Raise IdentityMismatch unless the directory is this node's."""
    if identity.cluster_uid != cluster_uid.hex():
        raise IdentityMismatch(f"{directory} belongs to cluster {identity.cluster_uid}")
    if identity.node_id != node_id:
        raise IdentityMismatch(f"{directory} belongs to node {identity.node_id}")


def lock(disk: Disk, directory: Path) -> int:
    """Return the descriptor that holds the directory's lock; raises DirectoryLocked."""
    try:
        return disk.lock(directory / LOCK_NAME)
    except BlockingIOError:
        raise DirectoryLocked(f"another process has {directory}") from None
