"""A base backup of a running Postgres, file by file, and its restore without archive recovery: what
`pg_basebackup` leaves, where that program is not there. The server comes back on the same timeline,
as it was when the backup ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
from pathlib import Path

import asyncpg

from metadata.postgres.embedded import EmbeddedPostgres

PROMOTED_S = 20.0


async def take(postgres: EmbeddedPostgres, to: Path) -> None:
    """`to` is made; the server is used meanwhile."""
    connection = await asyncpg.connect(postgres.url)
    try:
        await connection.execute("SELECT pg_backup_start('base', true)")
        await _copy(postgres.data, to)
        label = await connection.fetchval("SELECT labelfile FROM pg_backup_stop(false)")
    finally:
        await connection.close()
    # The log until the end of the backup, without which the copy is not consistent.
    await _copy(f"{postgres.data}/pg_wal/.", to / "pg_wal")
    (to / "backup_label").write_text(label)
    (to / "postmaster.pid").unlink()


def restore(postgres: EmbeddedPostgres, backup: Path) -> None:
    """Restore a backup in the place of the data of a stopped server; the backup stays."""
    owner = postgres.data.stat()
    shutil.rmtree(postgres.data)
    subprocess.run(["cp", "-a", backup, postgres.data], check=True)
    os.chown(postgres.data / "backup_label", owner.st_uid, owner.st_gid)


async def promote(postgres: EmbeddedPostgres) -> None:
    """Starts a server that does not run as a standby of none, and promotes it: it loses nothing
    that its data has, and is on another timeline."""
    signal = postgres.data / "standby.signal"
    signal.touch()
    owner = postgres.data.stat()
    os.chown(signal, owner.st_uid, owner.st_gid)
    postgres.spawn()
    async with asyncio.timeout(PROMOTED_S):
        while True:
            with contextlib.suppress(OSError, asyncpg.PostgresError):
                connection = await asyncpg.connect(postgres.url)
                break
            await asyncio.sleep(0.05)
    assert await connection.fetchval("SELECT pg_is_in_recovery()")
    await connection.execute("SELECT pg_promote()")
    await connection.close()
    await asyncio.to_thread(postgres.wait_ready)


async def _copy(what: Path | str, to: Path) -> None:
    """Files may vanish under way: what they held is in the log."""
    await asyncio.to_thread(subprocess.run, ["cp", "-a", what, to], stderr=subprocess.DEVNULL)
