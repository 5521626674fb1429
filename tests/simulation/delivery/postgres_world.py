"""The simulated world of a Postgres: the time, its place in its own history, chance.

Functions in `public`, which is searched first, take the place of those of `pg_catalog`. They read
one small file in the data directory, so that the simulator moves the time without a statement. The
schema's defaults are bound to them because they are there before the tables.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import NamedTuple

import asyncpg

from gateway.testing import postgres_clock
from tests.simulation.kernel.world import WALL_START_US

FILE = "packetboat.world"
_WIDTH = 160
"""Bytes of the file; each write covers the one before."""

# Read with the owner's rights: a tenant's role may read no files. A transaction has one `now()`,
# which is the time of its first call: its setting ends with the transaction.
_FUNCTIONS = """
CREATE OR REPLACE FUNCTION packetboat_clock.world(part int) RETURNS text
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    RETURN split_part(pg_read_file('packetboat.world'), ' ', part);
END $$;
CREATE OR REPLACE FUNCTION public.clock_timestamp() RETURNS timestamptz
    LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN 'epoch'::timestamptz + packetboat_clock.world(1)::int8 * interval '1 microsecond';
END $$;
CREATE OR REPLACE FUNCTION public.now() RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
DECLARE
    began text := pg_catalog.current_setting('packetboat.began', true);
BEGIN
    IF coalesce(began, '') = '' THEN
        began := packetboat_clock.world(1);
        PERFORM set_config('packetboat.began', began, true);
    END IF;
    RETURN 'epoch'::timestamptz + began::int8 * interval '1 microsecond';
END $$;
CREATE FUNCTION public.pg_current_wal_flush_lsn() RETURNS pg_lsn LANGUAGE plpgsql AS $$
BEGIN
    RETURN '0/0'::pg_lsn + packetboat_clock.world(2)::numeric;
END $$;
CREATE FUNCTION public.pg_walfile_name(lsn pg_lsn) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RETURN lpad(to_hex(packetboat_clock.world(3)::int), 8, '0') || '0000000000000000';
END $$;
CREATE FUNCTION public.pg_control_system(OUT system_identifier int8) LANGUAGE plpgsql AS $$
BEGIN
    system_identifier := packetboat_clock.world(4)::int8;
END $$;
CREATE SEQUENCE packetboat_clock.chance;
CREATE FUNCTION public.gen_random_uuid() RETURNS uuid
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    RETURN md5(packetboat_clock.world(5) || nextval('packetboat_clock.chance'))::uuid;
END $$;
-- The product refuses a server that keeps nothing over a power cut; this one loses nothing.
CREATE FUNCTION public.current_setting(name text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE name WHEN 'fsync' THEN 'on' ELSE pg_catalog.current_setting(name) END
$$;
"""


class Place(NamedTuple):
    """The place of a server in its own history, as `metadata.eras` reads it."""

    wal_bytes: int
    timeline: int
    system_identifier: int


FIRST_PLACE = Place(wal_bytes=1 << 24, timeline=1, system_identifier=7_000_000_001)


class World:
    """The file that the functions read, of one server."""

    def __init__(self, data: Path, seed: int, place: Place = FIRST_PLACE) -> None:
        # Not truncated before it is written: it never is empty for a reader.
        self._file = os.open(data / FILE, os.O_RDWR | os.O_CREAT, 0o644)
        os.fchmod(self._file, 0o644)
        self._seed = seed
        self.place = place
        self._now_us = 0

    def at(self, now_us: int) -> None:
        """Set the time to `now_us` microseconds after the beginning."""
        self._now_us = WALL_START_US + now_us
        self._write()

    def wrote(self, wal_bytes: int) -> None:
        """Count growth of the write-ahead log."""
        self.place = self.place._replace(wal_bytes=self.place.wal_bytes + wal_bytes)
        self._write()

    def close(self) -> None:
        os.close(self._file)

    def _write(self) -> None:
        wal_bytes, timeline, system = self.place
        text = f"{self._now_us} {wal_bytes} {timeline} {system} {self._seed} "
        os.pwrite(self._file, text.encode().ljust(_WIDTH), 0)


def install(url: str) -> None:
    """Install the functions in a database that is empty so far, before the migrations."""
    postgres_clock.install(url)
    asyncio.run(_install(url))


async def _install(url: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(_FUNCTIONS)
    finally:
        await connection.close()
