"""A new data directory of `packetboat up`, made of a backup of another.

Its cluster is a new one, and so are the secrets that only its own processes share. Secrets that
others were given, or that sealed rows in Postgres, come from the old directory's `state.json`,
which no backup holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec

from gateway.backup import restoring
from gateway.backup.backup_directory import BackupDirectory, BackupDirectoryError, Manifest
from gateway.up.data_dir import DataDir, Ports, State, choose_ports
from gateway.up.supervisor import GROUPS, NODES
from metadata.postgres.embedded import EmbeddedPostgres
from peering.shared_secret import SharedSecret
from store_nodes.settings import StoreNodeSettings

HOST = "127.0.0.1"


def restore(
    backups: BackupDirectory,
    manifest: Manifest,
    path: Path,
    secrets: Path,
    tell: Callable[[str], None],
) -> None:
    """`path` must be empty or not be there. `secrets`: a `state.json`. Raises what the two halves
    do, EmbeddedPostgresFailed, OSError."""
    old = msgspec.json.decode(secrets.read_bytes(), type=State)
    if path.exists() and any(path.iterdir()):
        raise BackupDirectoryError(f"{path} is not empty: restore into a new directory")
    data_dir = DataDir(path)
    state = State(ack_secret=old.ack_secret, seal_keys=old.seal_keys, has_operator=True)
    ports = state.ports = choose_ports(HOST, None, old.ports)
    postgres = EmbeddedPostgres(data_dir.postgres, port=ports.postgres)
    try:
        postgres.start()
        rows = asyncio.run(restoring.restore_postgres(postgres.url, backups, manifest))
        tell(f"Postgres: {rows} rows")
    finally:
        postgres.stop()
    for node in NODES:
        settings = _node(data_dir, state, ports, node)
        restoring.restore_store_node(settings, backups, manifest, tell)
    # Last: only with it, it is an installation.
    data_dir.save(state)


def _node(data_dir: DataDir, state: State, ports: Ports, node: int) -> StoreNodeSettings:
    """Return the settings of a store node as the supervisor starts it."""
    return StoreNodeSettings(
        node_id=node,
        data_dir=data_dir.node(node),
        listen=(HOST, ports.store[node - 1]),
        peers={each: (HOST, ports.store[each - 1]) for each in NODES},
        cluster_uid=bytes.fromhex(state.cluster_uid),
        secret=SharedSecret.from_text(state.store_secret),
        groups=GROUPS,
    )
