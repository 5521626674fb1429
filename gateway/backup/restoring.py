"""An empty Postgres and the nodes of a new store, filled with one backup.

The store's era is raised by so much that it is above all that the lost installation may have begun
since: the first server that connects finds Postgres behind the store, brings its rows up to the
queues, and fences what was held before. Nobody may use either half before both are filled, and
nothing does: the nodes are refused until theirs is, and servers wait for both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from gateway.backup.vault import Manifest, StoredFile, Vault, VaultError
from gateway.recovery.keeper import ERA, WITNESS
from metadata.postgres.dump import load
from store_nodes.backup.restoring import SKIP_OFFSETS, Copy, restore_node
from store_nodes.settings import StoreNodeSettings

ERAS_SKIPPED = 16
"""An installation begins one whenever its Postgres may have lost something."""


def restored_era(manifest: Manifest) -> int:
    """Return the era that begins with a restore."""
    return manifest.store_era + ERAS_SKIPPED


async def restore_postgres(url: str, vault: Vault, manifest: Manifest) -> int:
    """Restore Postgres; return the number of rows.

    Raises VaultError, MetadataError, asyncpg's errors, OSError.
    """
    vault.check(list(manifest.tables.values()))
    await load(
        url,
        manifest.database,
        lambda name: vault.open_table(manifest.tables[name]),
        era=restored_era(manifest),
    )
    return sum(table.rows for table in manifest.database.tables)


def restore_store_node(
    settings: StoreNodeSettings,
    vault: Vault,
    manifest: Manifest,
    tell: Callable[[str], None],
    *,
    skip_offsets: int = SKIP_OFFSETS,
) -> None:
    """Raises VaultError, NotRestorable, PackDamaged, OSError."""
    copy = open_copy(vault, manifest)

    def counters(found: Mapping[str, int]) -> Mapping[str, int]:
        kept = {name: value for name, value in found.items() if not name.startswith(WITNESS)}
        return kept | {ERA: restored_era(manifest)}

    restore_node(settings, copy, counters, tell, skip_offsets=skip_offsets)


def open_copy(vault: Vault, manifest: Manifest) -> Copy:
    """Return the store's part of a backup; raise VaultError where it is damaged or incomplete.

    The batches are checked when they are read.
    """
    small: list[StoredFile] = [pack.index for pack in manifest.packs]
    vault.check(small)
    machines = {group: vault.read(file) for group, file in manifest.machines.items()}
    packs = tuple(vault.pack(pack) for pack in manifest.packs)
    copy = Copy(bytes.fromhex(manifest.cluster_uid), machines, packs)
    copy.open()
    gap = asyncio.run(copy.gap())
    if gap is not None:
        raise VaultError(f"it lacks {gap}")
    return copy


def verify(vault: Vault, manifest: Manifest) -> None:
    """Check that all of a backup is there, as it was written, with all that is live; raise
    VaultError.
    """
    vault.check(manifest.files())
    open_copy(vault, manifest)
