"""One backup of a running installation.

Postgres first, the store after it: whatever a row speaks of is in the copy of the store then, and
what the store has beyond it is what a restored Postgres always finds (gateway/recovery/). So the
backup is good for the moment before Postgres was read, its *recovery point*: what was answered
before that, messages and acks, is in it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import NamedTuple

import zstandard

from gateway.backup.backup_directory import (
    BackupDirectory,
    BackupDirectoryError,
    Draft,
    Manifest,
    NewFile,
    StoredFile,
    StoredPack,
)
from gateway.commands.store_operation import StoreAddresses
from gateway.recovery.keeper import ERA
from metadata.database import Database
from metadata.postgres.dump import Dump, Sink, dump
from metadata.settings import DatabaseSettings
from metadata.topics import backup_hold
from store_nodes.backup import counter
from store_nodes.backup.packs import PackWriter
from store_nodes.backup.taking import Taking
from store_nodes.client import StoreClient
from store_nodes.errors import Conflict

READY_S = 30.0
Tell = Callable[[str], None]


class Source(NamedTuple):
    """The installation that is backed up."""

    store: StoreAddresses
    cluster_uid: bytes
    database_url: str


async def take(source: Source, backups: BackupDirectory, *, bytes_per_s: int, tell: Tell) -> str:
    """Take a backup and return its name; call it only while `backups.writing()`.

    Raises StoreError, BackupDirectoryError, MetadataError, asyncpg's errors, OSError.
    """
    client = source.store.client(source.cluster_uid)
    database = Database(DatabaseSettings(source.database_url))
    await client.start()
    try:
        await client.wait_ready(READY_S)
        await database.connect()
        # Before the first row is read, until the last batch is copied.
        async with backup_hold.holding(database) as check:
            return await _Backup(source, client, backups, tell).take(bytes_per_s, check)
    finally:
        await database.close()
        await client.close()


class _Backup:
    def __init__(
        self, source: Source, client: StoreClient, backups: BackupDirectory, tell: Tell
    ) -> None:
        self._source = source
        self._client = client
        self._backups = backups
        self._tell = tell
        self._began = time.time()
        self._draft: Draft = backups.draft(self._began)
        self._tables: dict[str, StoredFile] = {}
        self._packs: dict[tuple[int, str], NewFile] = {}

    async def take(self, bytes_per_s: int, check: backup_hold.Check) -> str:
        older = self._older()
        recovery_point = time.time()
        dumped = await dump(self._source.database_url, self._table)
        self._tell(f"Postgres: {sum(table.rows for table in dumped.tables)} rows")
        writer = PackWriter(self._pack_file)
        taking = Taking(self._client, writer, bytes_per_s=bytes_per_s, tell=self._tell)
        packs = {self._backups.pack(stored): stored for stored in older}
        images, kept = await taking.take(packs)
        await check()
        machines: dict[int, StoredFile] = {}
        for group, image in images.machines.items():
            file = self._draft.file(f"group-{group}")
            file.write(image.raw)
            file.close()
            machines[group] = file.stored
        stored = [packs[pack] for pack in kept]
        for number in range(1, writer.packs + 1):
            batches, index = (self._packs[number, part].stored for part in ("pack", "index"))
            stored.append(StoredPack(batches, index))
        manifest = Manifest(
            release=version("packetboat-server"),
            began=self._began,
            recovery_point=recovery_point,
            finished=time.time(),
            cluster_uid=self._source.cluster_uid.hex(),
            store_era=images.counters.get(ERA, 0),
            store_groups=self._source.store.groups,
            messages=images.messages,
            new_bytes=writer.bytes,
            database=dumped,
            tables=self._tables,
            machines=machines,
            packs=tuple(stored),
        )
        _check_eras(dumped, manifest)
        self._draft.finish(manifest)
        await self._remember()
        return self._draft.name

    def _older(self) -> tuple[StoredPack, ...]:
        """Packs of the newest backup of the same cluster: in another one the same offset may be
        another message."""
        for name in reversed(self._backups.names()):
            _, found = self._backups.manifest(name)
            if found.cluster_uid == self._source.cluster_uid.hex():
                return found.packs
        return ()

    @contextlib.contextmanager
    def _table(self, name: str) -> Iterator[Sink]:
        file = self._draft.file(f"postgres/{name}.zst")
        compressed = _Compressed(file)
        yield compressed
        compressed.close()
        self._tables[name] = file.stored

    def _pack_file(self, number: int, part: str) -> NewFile:
        file = self._packs[number, part] = self._draft.file(f"{part}-{number}")
        return file

    async def _remember(self) -> None:
        known = await self._client.counter(counter.GROUP, counter.COUNTER)
        with contextlib.suppress(Conflict):  # another one, into another directory
            await self._client.compare_and_set(
                counter.GROUP, counter.COUNTER, known, max(known, int(self._began))
            )


class _Compressed:
    """Compresses what is written."""

    def __init__(self, file: NewFile) -> None:
        self._file = file
        self._frame = zstandard.ZstdCompressor().compressobj()

    def write(self, data: bytes) -> None:
        self._file.write(self._frame.compress(data))

    def close(self) -> None:
        self._file.write(self._frame.flush())
        self._file.close()


def _check_eras(dumped: Dump, manifest: Manifest) -> None:
    if dumped.era > manifest.store_era:
        raise BackupDirectoryError(
            f"Postgres is in era {dumped.era} and the store in era {manifest.store_era}: they are "
            "not of one installation"
        )
