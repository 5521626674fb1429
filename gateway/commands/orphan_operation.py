"""Carries out `packetboat store orphans` and `packetboat adopt`, for topics that only the
store knows.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from rich.table import Table

from gateway.commands import store_operation
from gateway.commands.store_operation import DONE, NOT_FINISHED, REFUSED
from gateway.commands.store_view import terminal
from gateway.recovery import orphans
from gateway.recovery.adoption import Adoption, NotAdoptable
from gateway.recovery.orphans import Orphan
from gateway.up.data_dir import State
from metadata.database import Database
from metadata.errors import Conflict, MetadataError
from metadata.postgres.embedded import EmbeddedPostgres
from metadata.recovery import RecoveryRepository
from metadata.settings import DatabaseSettings
from metadata.tenancy.tenants import TenantRepository
from metadata.topics.placements import PlacementRepository
from store_nodes.client import StoreClient
from store_nodes.errors import StoreError

READY_S = 10.0


class Installation(NamedTuple):
    """Both halves of it."""

    store: store_operation.StoreAddresses
    database: DatabaseSettings


class Choice(NamedTuple):
    """The orphans to adopt: one by name or uid, or all; and the name for it."""

    topic: str | None
    every: bool
    name: str | None
    dry_run: bool


class Wrong(Exception):
    """The choice fits no orphan, or several; the text says so."""


def find(data_dir: Path | None) -> Installation:
    """Return the installation of a `packetboat up`, or of the environment.

    Raises ValueError, OSError.
    """
    store = store_operation.find(data_dir)
    if data_dir is None:
        return Installation(store, DatabaseSettings.from_environment())
    state = msgspec.json.decode((data_dir / "state.json").read_bytes(), type=State)
    assert state.ports is not None
    postgres = EmbeddedPostgres(data_dir / "postgres", port=state.ports.postgres)
    return Installation(store, DatabaseSettings(url=postgres.url))


def show(installation: Installation, *, json: bool) -> int:
    """Print the list of orphans; return the exit status."""

    async def work(store: StoreClient, database: Database) -> int:
        found = await orphans.find(store, RecoveryRepository(database))
        rows = [await _row(store, orphan) for orphan in found]
        if json:
            sys.stdout.write(msgspec.json.encode({"orphans": rows}).decode() + "\n")
        else:
            _print(rows)
        return DONE

    return _run(installation, work)


def adopt(installation: Installation, choice: Choice) -> int:
    """Adopt the chosen orphans; return the exit status: refused if any of them was not adopted."""

    async def work(store: StoreClient, database: Database) -> int:
        rows = RecoveryRepository(database)
        adoption = Adoption(store, rows, PlacementRepository(database), TenantRepository(database))
        status = DONE
        for orphan in choose(await orphans.find(store, rows), choice):
            if not await _adopt(adoption, orphan, choice):
                status = REFUSED
        return status

    return _run(installation, work)


def choose(found: list[Orphan], choice: Choice) -> list[Orphan]:
    """Raises Wrong."""
    if choice.every:
        return [orphan for orphan in found if orphan.name and not orphan.deleting]
    chosen = [one for one in found if choice.topic in (one.name, one.uid.hex())]
    if not chosen:
        raise Wrong(f"no orphan is called {choice.topic!r}; `packetboat store orphans` lists them")
    if len(chosen) > 1:
        uids = ", ".join(one.uid.hex() for one in chosen)
        raise Wrong(f"{len(chosen)} are called {choice.topic!r}; name one by its uid: {uids}")
    return chosen


async def _adopt(adoption: Adoption, orphan: Orphan, choice: Choice) -> bool:
    name = choice.name or orphan.name
    what = f"{name} ({orphan.uid.hex()}, {orphan.messages} messages)"
    if choice.dry_run:
        sys.stdout.write(f"would adopt {what}\n")
        return True
    try:
        topic = await adoption.adopt(orphan, name)
    except NotAdoptable as error:
        sys.stderr.write(f"packetboat adopt: not {what}: {error}\n")
        return False
    except Conflict:
        sys.stderr.write(
            f"packetboat adopt: not {what}: another topic has the name; choose one with --as\n"
        )
        return False
    sys.stdout.write(
        f"adopted {what}: {topic.partition_count} partitions. Its subscriptions, retention, schema"
        " and labels were in Postgres only; make those again that you want.\n"
    )
    return True


def _run(
    installation: Installation, work: Callable[[StoreClient, Database], Awaitable[int]]
) -> int:
    try:
        return asyncio.run(_operate(installation, work))
    except Wrong as error:
        sys.stderr.write(f"packetboat: {error}\n")
        return REFUSED
    except (StoreError, MetadataError) as error:
        sys.stderr.write(f"packetboat: not finished: {error}\n")
        return NOT_FINISHED


async def _operate(
    installation: Installation, work: Callable[[StoreClient, Database], Awaitable[int]]
) -> int:
    store = installation.store
    client = store.client()
    database = Database(installation.database)
    await database.connect()
    await client.start()
    try:
        await client.wait_ready(READY_S)
        return await work(client, database)
    finally:
        await client.close()
        await database.close()


async def _row(store: StoreClient, orphan: Orphan) -> dict[str, Any]:
    found = await orphans.times(store, orphan)
    first, last = (None, None) if found is None else map(_time, found)
    return {
        "topic": orphan.name,
        "uid": orphan.uid.hex(),
        "tenant": orphan.tenant_id.hex(),
        "partitions": orphan.queues.partitions,
        "priorities": orphan.queues.lanes,
        "messages": orphan.messages,
        "delayed": orphan.staged,
        "bytes": orphan.stored_bytes,
        "first": first,
        "last": last,
        "deleting": orphan.deleting,
    }


def _time(log_time_us: int) -> str:
    return datetime.fromtimestamp(log_time_us / 1e6, UTC).isoformat(timespec="milliseconds")


def _print(rows: list[dict[str, Any]]) -> None:
    if not rows:
        sys.stdout.write("Postgres knows every topic of the store.\n")
        return
    table = Table(*rows[0], box=None, header_style="bold")
    for row in rows:
        table.add_row(*("" if value is None else str(value) for value in row.values()))
    terminal().print(table)
