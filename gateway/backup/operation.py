"""Carries out `packetboat backup …` and `packetboat restore …`: finds the backup, acts,
says how it went.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import msgspec
from rich.table import Table

from gateway import logs
from gateway.backup import installation, restoring, taking
from gateway.backup.backup_directory import BackupDirectory, BackupDirectoryError, Manifest
from gateway.backup.taking import Source
from gateway.commands import orphan_operation
from gateway.commands.store_view import size, terminal
from gateway.configuration.settings import cluster_uid, log_level
from gateway.up.data_dir import State
from metadata.errors import MetadataError
from metadata.postgres.embedded import EmbeddedPostgresFailed
from metadata.settings import DatabaseSettings
from store_nodes.backup.packs import PackDamaged
from store_nodes.backup.restoring import SKIP_OFFSETS, NotRestorable
from store_nodes.errors import StoreError
from store_nodes.settings import from_environment

DONE = 0
REFUSED = 1
WRONG_USE = 2
NOT_FINISHED = 3


def take(
    data_dir: Path | None, backups: BackupDirectory, *, keep: int | None, bytes_per_s: int
) -> int:
    """Take a backup; return the exit status."""

    def work() -> None:
        source = find(data_dir)
        with backups.writing():
            name = asyncio.run(taking.take(source, backups, bytes_per_s=bytes_per_s, tell=_say))
            _, manifest = backups.manifest(name)
            _say(
                f"{name}: {manifest.messages} messages, {size(manifest.new_bytes)} of them new;"
                f" recovery point {_time(manifest.recovery_point)}"
            )
            for removed in backups.keep(keep) if keep is not None else ():
                _say(f"{removed} is removed")

    return _run("backup", work)


def find(data_dir: Path | None) -> Source:
    """Return the source: a `packetboat up`, or the one in the environment.

    Raises ValueError, OSError.
    """
    found = orphan_operation.find(data_dir)
    if data_dir is None:
        return Source(found.store, cluster_uid(), found.database.url)
    state = msgspec.json.decode((data_dir / "state.json").read_bytes(), type=State)
    return Source(found.store, bytes.fromhex(state.cluster_uid), found.database.url)


def show(backups: BackupDirectory, *, json: bool) -> int:
    """Print the list of backups; return the exit status."""

    def work() -> None:
        found = [backups.manifest(name) for name in backups.names()]
        if json:
            rows = [_row(name, manifest) for name, manifest in found]
            sys.stdout.write(msgspec.json.encode({"backups": rows}).decode() + "\n")
            return
        table = Table("backup", "recovery point", box=None, header_style="bold")
        for title in ("messages", "rows", "stored", "new", "release"):
            table.add_column(title, justify="right")
        for name, manifest in found:
            row = _row(name, manifest)
            stored, new = size(manifest.stored_bytes), size(manifest.new_bytes)
            table.add_row(
                name,
                _time(manifest.recovery_point),
                *map(str, (row["messages"], row["rows"], stored, new, manifest.release)),
            )
        terminal().print(table)

    return _run("backup list", work)


def verify(backups: BackupDirectory, name: str | None) -> int:
    """Check a backup; return the exit status."""

    def work() -> None:
        chosen, manifest = backups.manifest(name)
        restoring.verify(backups, manifest)
        _say(f"{chosen} is whole: {size(manifest.stored_bytes)} read")

    return _run("backup verify", work)


def restore_postgres(backups: BackupDirectory, name: str | None) -> int:
    """Restore Postgres from a backup; return the exit status."""

    def work() -> None:
        url = DatabaseSettings.from_environment().url
        chosen, manifest = backups.manifest(name)
        rows = asyncio.run(restoring.restore_postgres(url, backups, manifest))
        _say(f"Postgres is as in {chosen}: {rows} rows")

    return _run("restore postgres", work)


def restore_node(backups: BackupDirectory, name: str | None, skip_offsets: int | None) -> int:
    """Restore a store node from a backup; return the exit status."""

    def work() -> None:
        settings = from_environment()
        chosen, manifest = backups.manifest(name)
        restoring.restore_store_node(
            settings,
            backups,
            manifest,
            _say,
            skip_offsets=SKIP_OFFSETS if skip_offsets is None else skip_offsets,
        )
        _say(f"{settings.data_dir} is as in {chosen}: start the node once all are restored")

    return _run("restore node", work)


def restore_installation(
    backups: BackupDirectory, name: str | None, data_dir: Path, secrets: Path
) -> int:
    """Restore a whole installation from a backup; return the exit status."""

    def work() -> None:
        chosen, manifest = backups.manifest(name)
        installation.restore(backups, manifest, data_dir, secrets, _say)
        _say(f"{data_dir} is as in {chosen}: packetboat up --data-dir {data_dir}")

    return _run("restore installation", work)


def _run(command: str, work: Callable[[], None]) -> int:
    # The command reports a failure once; a node that is down is no news here.
    logs.configure("error" if log_level() == "info" else log_level(), role="backup")
    try:
        work()
    except StoreError as error:
        return _failed(command, f"not finished: {error}", NOT_FINISHED)
    except (BackupDirectoryError, NotRestorable, PackDamaged, MetadataError) as error:
        return _failed(command, str(error), REFUSED)
    except (EmbeddedPostgresFailed, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        return _failed(command, f"Postgres: {error}", REFUSED)
    except ValueError as error:
        return _failed(command, str(error), WRONG_USE)
    except OSError as error:
        return _failed(command, str(error), REFUSED)
    return DONE


def _failed(command: str, text: str, status: int) -> int:
    sys.stderr.write(f"packetboat {command}: {text}\n")
    return status


def _row(name: str, manifest: Manifest) -> dict[str, object]:
    return {
        "name": name,
        "began": manifest.began,
        "recovery_point": manifest.recovery_point,
        "finished": manifest.finished,
        "messages": manifest.messages,
        "rows": sum(table.rows for table in manifest.database.tables),
        "stored_bytes": manifest.stored_bytes,
        "new_bytes": manifest.new_bytes,
        "release": manifest.release,
    }


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
