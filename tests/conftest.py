"""Fixtures for every kind of test: a real Postgres, and an empty migrated database per test."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest

from metadata.database import Database
from metadata.models import Base, ChangeCounterRow, DatabaseSchemaRow
from metadata.postgres.embedded import EmbeddedPostgres
from metadata.postgres.migrate import upgrade
from metadata.settings import DatabaseSettings

ALONE = (
    "tests/chaos/test_backup.py",
    "tests/chaos/test_exports.py",
    "tests/chaos/test_rolling.py",
    "tests/chaos/test_rotation.py",
    "tests/e2e/test_export_cluster.py",
    "tests/e2e/test_exports.py",
    "tests/e2e/test_guides.py::test_the_blocks_of_a_guide_with_exports_run",
    "tests/integration/exports/driver/",
    "tests/integration/spark/",
    "tests/terraform/test_platform_cluster.py",
    "tests/terraform/test_platform_runs.py",
)
"""Spark, or all nine processes: both cores for a while. CI runs these apart, one at a time."""

LONG = (
    "tests/chaos/test_fleet.py::test_orderly_moves_repeat_nothing",
    "tests/chaos/test_fleet.py::test_rolling_restarts_lose_nothing_and_takeovers_need_no_scheduler",
    "tests/chaos/test_postgres_restored.py::test_a_repair_that_is_cut_is_made_again",
    "tests/chaos/test_postgres_restored.py::test_what_the_backup_forgot_comes_back",
    "tests/chaos/test_postgres_restored.py::test_who_starts_later_learns_it_from_the_store",
    "tests/chaos/test_power_cuts.py::test_thirty_power_cuts_in_odd_orders_lose_nothing",
    "tests/e2e/test_backup_of_up.py",
    "tests/e2e/test_export_cluster.py",
    "tests/e2e/test_exports.py::test_what_others_broke_is_found_and_put_right",
    "tests/e2e/test_guides.py::test_the_blocks_of_a_guide_with_exports_run[exports]",
    "tests/e2e/test_operations_docs.py::test_a_dead_node_is_replaced_and_every_node_restarted",
    "tests/e2e/test_operations_docs.py::test_a_lost_zone_a_damaged_node_a_full_disk_and_more_nodes",
    "tests/integration/exports/driver/test_cluster.py",
    "tests/integration/subscribe_forwarder/test_push_postgres.py"
    "::test_every_message_is_delivered_or_dead_lettered_and_others_go_on",
)
"""Most of a minute or more each, and what they hold is held by shorter ones as well. CI goes
without; `make test` runs them, and `make test-long` them alone."""


KEPT = {ChangeCounterRow.__tablename__, DatabaseSchemaRow.__tablename__}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith(ALONE):
            item.add_marker(pytest.mark.alone)
        if item.nodeid.startswith(LONG):
            item.add_marker(pytest.mark.long)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def running_postgres() -> Iterator[EmbeddedPostgres]:
    """A migrated embedded server on a free port; its data goes with it."""
    # Not pytest's own directories: nobody but their owner may enter those.
    directory = Path(tempfile.mkdtemp(prefix="packetboat-test-"))
    directory.chmod(0o711)
    server = EmbeddedPostgres(directory, port=free_port())
    try:
        server.start()
        upgrade(server.url)
        yield server
    finally:
        server.stop()
        shutil.rmtree(directory)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[EmbeddedPostgres]:
    """One embedded server for the session (per worker under pytest-xdist)."""
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_url(postgres_server: EmbeddedPostgres) -> str:
    """The server's migrated database, shared by the session: tests take `database_url`."""
    return postgres_server.url


@pytest.fixture
def database_url(postgres_url: str) -> str:
    """The migrated database, empty. (Cheaper than one per test: dropping one is a checkpoint.)"""
    asyncio.run(_empty(postgres_url))
    return postgres_url


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """A door to the empty database."""
    database = Database(DatabaseSettings(database_url))
    await database.connect()
    yield database
    await database.close()


async def _empty(url: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        async with connection.transaction():
            for table in reversed(Base.metadata.sorted_tables):
                if table.name not in KEPT:
                    await connection.execute(f'DELETE FROM "{table.name}"')
            await connection.execute("UPDATE change_counter SET version = 0, pruned_to = 0")
    finally:
        await connection.close()
