"""Time within Postgres, moved ahead: functions of the same names come before Postgres' own.

They are made before the tables, so that defaults of columns are theirs. Rights that processes hold
by renewing them (the forwarder's lease, the platform's locks, rows of waiters) are moved along:
nobody was away.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

import asyncpg

from metadata.locks.locks import PLATFORM

_INSTALL = """
CREATE SCHEMA packetboat_clock;
CREATE TABLE packetboat_clock.ahead (by interval NOT NULL);
INSERT INTO packetboat_clock.ahead VALUES ('0');
GRANT USAGE ON SCHEMA packetboat_clock TO PUBLIC;
GRANT SELECT ON packetboat_clock.ahead TO PUBLIC;
CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
    'SELECT pg_catalog.clock_timestamp() + by FROM packetboat_clock.ahead';
CREATE FUNCTION public.now() RETURNS timestamptz LANGUAGE sql STABLE AS
    'SELECT pg_catalog.now() + by FROM packetboat_clock.ahead';
"""
_BEFORE_ITS_OWN = "ALTER DATABASE {} SET search_path = public, pg_catalog"
_MOVE = "UPDATE packetboat_clock.ahead SET by = by + make_interval(secs => $1)"
_ALONG = (
    "UPDATE forwarders SET lease_until = lease_until + make_interval(secs => $1)",
    "UPDATE lock_waiters SET alive_until = alive_until + make_interval(secs => $1)",
)
_LOCKS_ALONG = """
UPDATE locks SET lease_until = lease_until + make_interval(secs => $1)
WHERE tenant_id = $2 AND owner IS NOT NULL
"""


def install(url: str) -> None:
    """Make the functions in a database that is empty so far."""
    _run(_install(url))


def move(url: str, by_s: float) -> None:
    """Move the time of the database on by `by_s`."""
    _run(_moved(url, by_s))


async def _install(url: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(_INSTALL)
        name = await connection.fetchval("SELECT quote_ident(current_database())")
        await connection.execute(_BEFORE_ITS_OWN.format(name))
    finally:
        await connection.close()


async def _moved(url: str, by_s: float) -> None:
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            await connection.execute(_MOVE, by_s)
            for statement in _ALONG:
                await connection.execute(statement, by_s)
            await connection.execute(_LOCKS_ALONG, by_s, PLATFORM.hex())
    finally:
        await connection.close()


def _run(work: Coroutine[Any, Any, None]) -> None:
    """Run the work, also where the caller's thread runs a loop."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            asyncio.run(work)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, name="packetboat-clock")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
