"""Fixtures for every kind of test: a real Postgres, and an empty migrated database per test."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from pathlib import Path

import asyncpg
import pytest
from hypothesis import settings

from gateway import heap
from harness.seeded_postgres import SeededPostgres, free_port
from metadata.database import Database
from metadata.models import Base, ChangeCounterRow, DatabaseSchemaRow
from metadata.postgres.embedded import EmbeddedPostgres
from metadata.settings import DatabaseSettings
from tests.e2e.installation import Installation
from tests.long_tests import ALONE, IN_TURN, LONG, name_of, names_of
from tests.parts import CASES, LONG_TESTS, Part, of_this_turn, part_of

# An example has no deadline: beside other tests, any example may wait for a processor.
settings.register_profile("busy machine", deadline=None)
settings.load_profile("busy machine")

KEPT = {ChangeCounterRow.__tablename__, DatabaseSchemaRow.__tablename__}
# Statements that are sent together are one transaction.
EMPTY = "; ".join(
    [
        *(
            f'DELETE FROM "{table.name}"'
            for table in reversed(Base.metadata.sorted_tables)
            if table.name not in KEPT
        ),
        "UPDATE change_counter SET version = 0, pruned_to = 0",
    ]
)

# None is the default; they change nothing for a client that does not ask for them.
SHARED_SETTINGS = {
    "PACKETBOAT_CORS_ORIGINS": "*",
    "PACKETBOAT_STREAM_TICKETS": "1",
    "PACKETBOAT_HTTP2": "1",
    "PACKETBOAT_EXPORT_LAKES": "default,recorded",
}
"""Settings of the installation that the tests of all suites share."""

NOT_LONG = "not long"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", default="all", help="long tests: all, K/N or rotating")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tests of the wheels say which Pythons they ran with; those of others were skipped."""
    ran = {
        str(value)
        for report in terminalreporter.stats.get("passed", ())
        for name, value in getattr(report, "user_properties", ())
        if name == "python"
    }
    if ran:
        terminalreporter.write_line(f"Pythons that ran the wheels: {', '.join(sorted(ran))}")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files all of whose tests are long are not imported for tests that are not."""
    path = collection_path.relative_to(config.rootpath).as_posix()
    return True if path in LONG and NOT_LONG in config.option.markexpr else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen = set(names_of(part_of(config.getoption("--part"), LONG_TESTS)))
    short = NOT_LONG in config.option.markexpr
    due = due_cases([item.nodeid for item in items], of_this_turn(CASES)) if short else set()
    kept, left = [], []
    for item in items:
        if item.nodeid.startswith(ALONE):
            item.add_marker(pytest.mark.alone)
        name = name_of(item.nodeid)
        if name is not None and item.nodeid not in due:
            item.add_marker(pytest.mark.long)
            (kept if name in chosen else left).append(item)
        else:
            kept.append(item)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept


def due_cases(names: Sequence[str], turn: Part) -> set[str]:
    """Return the names of those cases of IN_TURN whose turn it is."""
    return {
        case
        for test in IN_TURN
        for case in turn.choose([name for name in names if name_of(name) == test])
    }


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Modules and tests stay until the end, so the collector of garbage never looks at them."""
    with heap.loading():
        found = yield
    heap.freeze()
    return found


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Yield one installation for the tests of all suites that only use it; a start takes
    seconds.
    """
    installation = Installation(tmp_path_factory.mktemp("up") / "data")
    installation.settings = SHARED_SETTINGS
    with installation.started():
        yield installation


@contextlib.contextmanager
def running_postgres() -> Iterator[EmbeddedPostgres]:
    """Yield a migrated embedded server on a free port; its data is deleted with it."""
    # Not pytest's own directories: nobody but their owner may enter those.
    directory = Path(tempfile.mkdtemp(prefix="packetboat-test-"))
    directory.chmod(0o711)
    server = SeededPostgres(directory, port=free_port())
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(directory)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[EmbeddedPostgres]:
    """Yield one embedded server for the session (per worker under pytest-xdist)."""
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_url(postgres_server: EmbeddedPostgres) -> str:
    """The server's migrated database, shared by the session: tests take `database_url`."""
    return postgres_server.url


@pytest.fixture(scope="session")
def empty_database(postgres_url: str) -> Iterator[Callable[[], None]]:
    """Yield a function that empties the session's database."""
    emptying = Emptying(postgres_url)
    yield emptying.run
    emptying.close()


@pytest.fixture
def database_url(postgres_url: str, empty_database: Callable[[], None]) -> str:
    """Empty the migrated database, and return its URL.

    Dropping a database for each test would cost more, since it makes a checkpoint.
    """
    empty_database()
    return postgres_url


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """Yield a connected pool of the empty database."""
    database = Database(DatabaseSettings(database_url))
    await database.connect()
    yield database
    await database.close()


class Emptying:
    """Empties a database over one connection, whose process of Postgres knows the tables.

    A new one would read the descriptions of fifty tables from the catalogue for each test.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._loop = asyncio.new_event_loop()
        self._connection: asyncpg.Connection | None = None

    def run(self) -> None:
        self._loop.run_until_complete(self._empty())

    def close(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _empty(self) -> None:
        if self._connection is not None:
            try:
                await _empty(self._connection)
                return
            except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
                self._connection.terminate()  # a test has ended it, or the server
        self._connection = await asyncpg.connect(self._url)
        await _empty(self._connection)


async def _empty(connection: asyncpg.Connection) -> None:
    await connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    await connection.execute(EMPTY)
