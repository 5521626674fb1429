"""Carries out `packetboat forwarders`: it asks Postgres, as no process knows all of it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import msgspec
from rich.console import Group
from rich.table import Table
from rich.text import Text

from gateway import logs
from gateway.commands.forwarder_view import document, named_in
from gateway.commands.store_view import size, terminal
from gateway.configuration.settings import log_level
from gateway.up.data_dir import State
from metadata.database import Database
from metadata.delivery.fleet import FleetRepository
from metadata.delivery.hints import HintRepository
from metadata.errors import MetadataError
from metadata.postgres.embedded import EmbeddedPostgres
from metadata.settings import DatabaseSettings
from openapi.forwarders import Fleet, Forwarder, ForwarderHint, ForwarderUnit

DONE = 0
REFUSED = 1
SHORT = 8
"""Hex digits of an incarnation that are shown to people."""


def find(data_dir: Path | None) -> DatabaseSettings:
    """Return the database of a `packetboat up`, or of the environment; raises ValueError or
    OSError.
    """
    logs.configure("error" if log_level() == "info" else log_level(), role="forwarders")
    if data_dir is None:
        return DatabaseSettings.from_environment()
    state = msgspec.json.decode((data_dir / "state.json").read_bytes(), type=State)
    if state.ports is None:
        raise ValueError(f"{data_dir} was never started")
    postgres = EmbeddedPostgres(data_dir / "postgres", port=state.ports.postgres)
    return DatabaseSettings(url=postgres.url)


def show(settings: DatabaseSettings, *, json: bool) -> int:
    """Print the forwarders; return the exit status."""
    try:
        seen = asyncio.run(_look(settings))
    except MetadataError as error:
        sys.stderr.write(f"packetboat forwarders: {error.code}: {error}\n")
        return REFUSED
    if json:
        sys.stdout.write(msgspec.json.encode(seen).decode() + "\n")
    else:
        terminal().print(tables(seen))
    return DONE


async def _look(settings: DatabaseSettings) -> Fleet:
    database = Database(settings)
    await database.connect()
    try:
        fleet = FleetRepository(database)
        forwarders, hints = await fleet.live(), await HintRepository(database).listing()
        names = await fleet.names(named_in(forwarders, hints))
    finally:
        await database.close()
    return document(forwarders, hints, names)


def tables(seen: Fleet) -> Group:
    """Return tables of forwarders, of the busiest units of each, and of hints; omit the
    last two if empty.
    """
    busiest = [(one.id, part) for one in seen.forwarders for part in one.busiest]
    found = [_forwarders(seen.forwarders)]
    if busiest:
        found.append(_busiest(sorted(busiest, key=lambda each: -each[1].messages_per_second)))
    if seen.hints:
        found.append(_hints(seen.hints))
    return Group(*[part for table in found for part in (table, Text())][:-1])


def _table(*names: str, left: int) -> Table:
    """Print a table; the first `left` columns are words, the others numbers."""
    table = Table(box=None, header_style="bold")
    for number, name in enumerate(names):
        table.add_column(name, justify="left" if number < left else "right")
    return table


def _forwarders(rows: list[Forwarder]) -> Table:
    table = _table(
        "forwarder", "role", "address", "age", "units", "cpu", "lag", "msg/s", "B/s", "waiting",
        left=3,
    )  # fmt: skip
    for row in rows:
        load = row.load
        numbers = ["–"] * 6
        if load is not None:
            numbers = [
                str(load.units),
                f"{load.cpu:.0%}",
                f"{1000 * load.lag_seconds:.0f} ms",
                f"{load.messages_per_second:.0f}",
                size(round(load.bytes_per_second)),
                str(load.waiting),
            ]
        age = f"{row.age_seconds:.0f} s"
        table.add_row(row.id[:SHORT], row.role, Text(row.address), age, *numbers)
    return table


def _busiest(rows: list[tuple[str, ForwarderUnit]]) -> Table:
    table = _table(
        "busiest", "partition", "subscription", "at", "msg/s", "backlog", "growth/s", "waiting",
        left=4,
    )  # fmt: skip
    for where, row in rows:
        table.add_row(
            *_unit(row),
            where[:SHORT],
            f"{row.messages_per_second:.0f}",
            str(row.backlog),
            f"{row.backlog_growth_per_second:.0f}",
            str(row.waiting),
        )
    return table


def _hints(rows: list[ForwarderHint]) -> Table:
    table = _table("hint", "partition", "subscription", "to", "why", "age", left=5)
    for row in rows:
        age = f"{row.age_seconds:.0f} s"
        table.add_row(*_unit(row), row.forwarder[:SHORT], Text(row.reason), age)
    return table


def _unit(row: ForwarderUnit | ForwarderHint) -> tuple[Text, str, Text]:
    return Text(row.topic), str(row.partition), Text(row.subscription or "all")
