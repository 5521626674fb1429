"""A real Postgres for one seed: a copy of a migrated template, no syncs, a snapshot by copying.

Statements are real; `postgres_world` supplies the world that they read. Between statements the
server is at rest: nothing runs in it by itself (no autovacuum), so that a copy of its files after a
checkpoint is the database of that moment, and the next start recovers it as after a crash.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from pathlib import Path

import asyncpg

from harness.seeded_postgres import free_port, template
from metadata.postgres.embedded import EmbeddedPostgres
from metadata.postgres.migrate import upgrade
from tests.simulation.delivery import postgres_world
from tests.simulation.delivery.postgres_control import ControlConnection
from tests.simulation.delivery.postgres_world import FIRST_PLACE, Place, World
from tests.simulation.kernel.world import WALL_START_US

_TRUST = "host all all 127.0.0.1/32 trust\n"
_OPTIONS = {
    "fsync": "off",
    "full_page_writes": "on",
    "autovacuum": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "shared_buffers": "32MB",
    "max_connections": "120",
    # A statement waits for a lock in virtual time, and the simulator finds the circles.
    "deadlock_timeout": "1h",
    "checkpoint_timeout": "1h",
    "track_activities": "on",
}


class SimulatedServer:
    """One server process and its files, below `directory`."""

    def __init__(
        self, directory: Path, seed: int, source: Path | None = None, place: Place = FIRST_PLACE
    ) -> None:
        """Make a server; `source`: the files of a snapshot; None is a new database."""
        directory.mkdir()
        directory.chmod(0o755)
        named = asyncpg.connection._uid
        made = template(
            "simulated-postgres", _make, (Path(postgres_world.__file__), Path(__file__))
        )
        self._postgres = _Copied(directory, made, source)
        self._postgres.start()
        # Statements of a run have the same names whether or not the template was made just now.
        asyncpg.connection._uid = named
        self.directory = directory
        self.port = self._postgres.port
        self.world = World(self._postgres.data, seed, place)
        self.world.at(0)
        self.control = ControlConnection(self.port)

    def snapshot(self, directory: Path) -> Place:
        """Copy the files as they are now; no statement may be running."""
        self.control.query("CHECKPOINT")
        _copy(self._postgres.data, directory)
        for name in ("postmaster.pid", "postmaster.opts"):
            (directory / name).unlink(missing_ok=True)
        return self.world.place

    def stop(self) -> None:
        """Nothing of it is left."""
        self.control.close()
        self.world.close()
        self._postgres.kill()
        shutil.rmtree(self._postgres.data, ignore_errors=True)
        shutil.rmtree(self.directory, ignore_errors=True)


class _Copied(EmbeddedPostgres):
    def __init__(self, directory: Path, made: EmbeddedPostgres, source: Path | None) -> None:
        self.port = free_port()
        super().__init__(directory, port=self.port, options=_OPTIONS)
        self._made = made
        self._source = source or made.data

    def _make_data(self) -> None:
        fresh = self._home / "data.new"
        _copy(self._source, fresh)
        (fresh / "pg_hba.conf").write_text(_TRUST)
        shutil.copy(self._made._password_file, self._password_file)
        fresh.rename(self.data)

    def kill(self) -> None:
        """Kill the server; its files go with it, so it need not write them."""
        if self._process is not None:
            self._process.send_signal(3)  # SIGQUIT: children end at once, shared memory is freed
        self.stop()


def _copy(source: Path, target: Path) -> None:
    """Copy the files with their owners; each file by itself in Python takes twice as long."""
    subprocess.run(["cp", "-a", source, target], check=True)


def _make(server: EmbeddedPostgres) -> None:
    server.start()
    (server.data / postgres_world.FILE).write_text(f"{WALL_START_US} 1 1 1 0 ")
    (server.data / postgres_world.FILE).chmod(0o644)
    postgres_world.install(server.url)
    upgrade(server.url)
    asyncio.run(_drop_others(server.url))
    server.stop()


async def _drop_others(url: str) -> None:
    """The databases that nobody uses are most of the files that each seed copies."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("ALTER DATABASE template0 IS_TEMPLATE false")
        await connection.execute("ALTER DATABASE template1 IS_TEMPLATE false")
        for name in ("template0", "template1", "postgres"):
            await connection.execute(f"DROP DATABASE {name}")
        await connection.execute("CHECKPOINT")
    finally:
        await connection.close()
