"""An empty Postgres and the nodes of a new store, filled with one backup.

The store's era is raised by so much that it is above all that the lost installation may have begun
since: the first server that connects finds Postgres behind the store, brings its rows up to the
queues, and fences what was held before. Nobody may use either half before both are filled, and
nothing does: the nodes are refused until theirs is, and servers wait for both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from gateway.backup.backup_directory import (
    BackupDirectory,
    BackupDirectoryError,
    Manifest,
    StoredFile,
)
from gateway.recovery.keeper import ERA, WITNESS
from metadata.postgres.dump import load
from store_nodes.backup.restoring import SKIP_OFFSETS, Copy, restore_node
from store_nodes.settings import StoreNodeSettings

ERAS_SKIPPED = 16
"""An installation begins one whenever its Postgres may have lost something."""


def restored_era(manifest: Manifest) -> int:
    """Return the era that begins with a restore."""
    return manifest.store_era + ERAS_SKIPPED


async def restore_postgres(url: str, backups: BackupDirectory, manifest: Manifest) -> int:
    """Restore Postgres; return the number of rows.

    Raises BackupDirectoryError, MetadataError, asyncpg's errors, OSError.
    """
    backups.check(list(manifest.tables.values()))
    await load(
        url,
        manifest.database,
        lambda name: backups.open_table(manifest.tables[name]),
        era=restored_era(manifest),
    )
    return sum(table.rows for table in manifest.database.tables)


def restore_store_node(
    settings: StoreNodeSettings,
    backups: BackupDirectory,
    manifest: Manifest,
    tell: Callable[[str], None],
    *,
    skip_offsets: int = SKIP_OFFSETS,
) -> None:
    """Raises BackupDirectoryError, NotRestorable, PackDamaged, OSError."""
    copy = open_copy(backups, manifest)

    def counters(found: Mapping[str, int]) -> Mapping[str, int]:
        kept = {name: value for name, value in found.items() if not name.startswith(WITNESS)}
        return kept | {ERA: restored_era(manifest)}

    restore_node(settings, copy, counters, tell, skip_offsets=skip_offsets)


def open_copy(backups: BackupDirectory, manifest: Manifest) -> Copy:
    """Return the store's part of a backup; raise BackupDirectoryError where it is damaged or
    incomplete.

    The batches are checked when they are read.
    """
    small: list[StoredFile] = [pack.index for pack in manifest.packs]
    backups.check(small)
    machines = {group: backups.read(file) for group, file in manifest.machines.items()}
    packs = tuple(backups.pack(pack) for pack in manifest.packs)
    copy = Copy(bytes.fromhex(manifest.cluster_uid), machines, packs)
    copy.open()
    gap = asyncio.run(copy.gap())
    if gap is not None:
        raise BackupDirectoryError(f"it lacks {gap}")
    return copy


def verify(backups: BackupDirectory, manifest: Manifest) -> None:
    """Check that all of a backup is there, as it was written, with all that is live; raise
    BackupDirectoryError.
    """
    backups.check(manifest.files())
    open_copy(backups, manifest)
