"""A tenant's transaction sees and writes that tenant's rows, whatever its statement says.

The tables are read off the catalogue and the methods off the repositories: a new one of either is
tested by being there.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from harness.seeded_postgres import free_port
from metadata.database import Connection, Database
from metadata.errors import MetadataError, MetadataUnavailable, StatementRefused
from metadata.exports.exports import ExportRepository
from metadata.exports.runs import ExportRunRepository
from metadata.exports.types import ExportSpec, Lane, LanePosition
from metadata.ids import new_uid
from metadata.locks.locks import Claim, LockRepository
from metadata.locks.waiters import LockWaiterRepository
from metadata.models import TopicRow
from metadata.postgres.embedded import EmbeddedPostgres
from metadata.postgres.migrate import upgrade_async
from metadata.postgres.role_names import PLATFORM_ROLE, TENANT_ROLE, TENANT_SETTING
from metadata.postgres.roles import RolesNeeded
from metadata.postgres.row_security import TENANT_MAY
from metadata.settings import DatabaseSettings
from metadata.subscriptions.redrives import RedriveRepository, RedriveSpec
from metadata.subscriptions.skip_rules import SkipRuleRepository
from metadata.subscriptions.snapshots import SnapshotRepository
from metadata.topics.schedules import ScheduleRepository, ScheduleSpec
from metadata.topics.schemas import SchemaRepository
from metadata.types import Subscription, SubscriptionSpec, Topic, TopicSpec
from tests.integration.metadata.two_tenants import MARK, NAME, Arguments, Method, methods
from tests.integration.metadata.world import World

OWN = f"(tenant_id = (current_setting('{TENANT_SETTING}'::text))::uuid)"
TABLES = """
SELECT relname, relrowsecurity, relforcerowsecurity, EXISTS (
    SELECT FROM pg_attribute WHERE attrelid = pg_class.oid AND attname = 'tenant_id'
) AS of_tenants
FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')
ORDER BY relname
"""
PLATFORM_ONLY = {
    "alembic_version",
    "forwarders",
    "signing_keys",
    "usage_reporters",
}
"""Tables without tenants of which the tenant's role sees nothing at all."""


# Tables, as the catalogue has them.


async def test_every_table_of_tenants_is_secured_for_both_roles(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    tables = [row for row in await connection.fetch(TABLES) if row["of_tenants"]]
    policies: dict[str, list[tuple[Any, ...]]] = {}
    for row in await connection.fetch("SELECT * FROM pg_policies"):
        rule = (row["roles"], row["permissive"], row["cmd"], row["qual"], row["with_check"])
        policies.setdefault(row["tablename"], []).append(rule)
    await connection.close()
    assert len(tables) > 35
    for row in tables:
        assert (row["relrowsecurity"], row["relforcerowsecurity"]) == (True, True), row["relname"]
        assert sorted(policies[row["relname"]]) == [
            ([PLATFORM_ROLE], "PERMISSIVE", "ALL", "true", "true"),
            ([TENANT_ROLE], "PERMISSIVE", "ALL", OWN, OWN),
        ]


async def test_the_tenants_role_has_the_privileges_that_are_listed(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    tables = await connection.fetch(TABLES)
    granted: dict[str, set[str]] = {row["relname"]: set() for row in tables}
    for row in await connection.fetch(
        "SELECT table_name, privilege_type FROM information_schema.role_table_grants"
        " WHERE grantee = $1",
        TENANT_ROLE,
    ):
        granted[row["table_name"]].add(row["privilege_type"])
    everybody = await connection.fetch(
        "SELECT table_name FROM information_schema.role_table_grants"
        " WHERE grantee = 'PUBLIC' AND table_schema = 'public'"
    )
    sequences = await connection.fetch(
        "SELECT sequencename FROM pg_sequences WHERE has_sequence_privilege("
        "$1, format('%I.%I', schemaname, sequencename), 'USAGE, SELECT, UPDATE')",
        TENANT_ROLE,
    )
    await connection.close()
    assert (everybody, sequences) == ([], [])
    for row in tables:
        default = "SELECT, INSERT, UPDATE, DELETE" if row["of_tenants"] else ""
        listed = re.sub(r"\w+ \(\w+\)", "", TENANT_MAY.get(row["relname"], default))
        assert granted[row["relname"]] == set(re.findall(r"\w+", listed)), row["relname"]
    assert all(granted[table] == set() for table in PLATFORM_ONLY)
    assert set(TENANT_MAY) <= set(granted)


async def test_nothing_in_the_schema_goes_round_row_security(database_url: str) -> None:
    """Views run as their owner unless they say otherwise, functions where they say so."""
    connection = await asyncpg.connect(database_url)
    views = await connection.fetch(
        "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"
        " AND (relkind = 'm' OR relkind = 'v' AND NOT coalesce("
        "'security_invoker=true' = ANY(reloptions), false))"
    )
    functions = await connection.fetch(
        "SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND prosecdef"
    )
    roles = await connection.fetch(
        "SELECT rolname FROM pg_roles WHERE rolname = ANY($1)"
        " AND (rolsuper OR rolbypassrls OR rolcanlogin OR rolcreaterole)",
        [PLATFORM_ROLE, TENANT_ROLE],
    )
    await connection.close()
    assert (views, functions, roles) == ([], [], [])


async def test_foreign_keys_stay_within_a_tenant(database_url: str) -> None:
    """Postgres checks foreign keys, and cascades along them, past row security."""
    connection = await asyncpg.connect(database_url)
    crossing = await connection.fetch(
        "SELECT conname FROM pg_constraint WHERE contype = 'f' AND NOT EXISTS ("
        " SELECT FROM unnest(conkey, confkey) AS pair (here, there)"
        " JOIN pg_attribute AS a ON a.attrelid = conrelid AND a.attnum = pair.here"
        " JOIN pg_attribute AS b ON b.attrelid = confrelid AND b.attnum = pair.there"
        " WHERE a.attname = 'tenant_id' AND b.attname = 'tenant_id')"
    )
    checked = await connection.fetchval("SELECT count(*) FROM pg_constraint WHERE contype = 'f'")
    await connection.close()
    assert crossing == []
    assert checked > 20


class Bare:
    """Every table without its other constraints, so that any row will do, and all privileges."""

    def __init__(self, url: str, tables: dict[str, dict[str, str]]) -> None:
        self.url = url
        self.tables = tables
        """The types of the columns that get values, by their names."""
        self.first, self.second = new_uid(), new_uid()

    def row(self, table: str, tenant_id: bytes) -> tuple[str, list[Any]]:
        columns = self.tables[table]
        values = {name: _value(kind) for name, kind in columns.items()}
        values["tenant_id"] = UUID(bytes=tenant_id)
        places = ", ".join(f"${at}" for at in range(1, len(values) + 1))
        names = ", ".join(f'"{name}"' for name in values)
        return f"INSERT INTO {table} ({names}) VALUES ({places})", list(values.values())


def _value(kind: str) -> Any:
    if kind.endswith("multirange") or kind.startswith("_"):
        return []
    number = new_uid()[-3:]
    return {
        "uuid": UUID(bytes=new_uid()),
        "text": number.hex(),
        "jsonb": "{}",
        "bytea": b"",
        "bool": False,
        "timestamptz": datetime.now(UTC),
        "float8": 1.0,
        "int2": number[0],
        "numeric": 1,
    }.get(kind, int.from_bytes(number, "big"))


@pytest.fixture(scope="module")
def bare(postgres_url: str) -> Iterator[Bare]:
    server, _, _ = postgres_url.rpartition("/")
    made = asyncio.run(_make_bare(postgres_url, f"{server}/row_security"))
    yield made
    asyncio.run(_run(postgres_url, "DROP DATABASE row_security WITH (FORCE)"))


async def _make_bare(admin: str, url: str) -> Bare:
    await _run(admin, "CREATE DATABASE row_security TEMPLATE template0")
    await upgrade_async(url)
    connection = await asyncpg.connect(url)
    for row in await connection.fetch(
        "SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname) AS drop"
        " FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND contype IN ('c', 'f')"
    ):
        await connection.execute(row["drop"])
    await connection.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {TENANT_ROLE}")
    tables: dict[str, dict[str, str]] = {}
    for row in await connection.fetch(
        "SELECT table_name, column_name, udt_name FROM information_schema.columns"
        " WHERE table_schema = 'public' AND is_identity = 'NO' ORDER BY 1, ordinal_position"
    ):
        tables.setdefault(row["table_name"], {})[row["column_name"]] = row["udt_name"]
    bare = Bare(url, {name: kinds for name, kinds in tables.items() if "tenant_id" in kinds})
    for table in bare.tables:
        for tenant_id in (bare.first, bare.second):
            statement, values = bare.row(table, tenant_id)
            await connection.execute(statement, *values)
    await connection.close()
    return bare


async def _run(url: str, *statements: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


@pytest.fixture
async def tenants_connection(bare: Bare) -> AsyncIterator[asyncpg.Connection]:
    """In the tenant's role, which has every privilege here: only the policies are in its way."""
    connection = await asyncpg.connect(bare.url)
    await connection.execute(f"SET ROLE {TENANT_ROLE}")
    yield connection
    await connection.close()


async def _name_tenant(connection: asyncpg.Connection, tenant_id: bytes) -> None:
    await connection.execute(
        "SELECT set_config($1, $2, true)", TENANT_SETTING, str(UUID(bytes=tenant_id))
    )


async def test_of_every_table_a_tenant_sees_and_changes_its_own_rows(
    bare: Bare, tenants_connection: asyncpg.Connection
) -> None:
    connection, other = tenants_connection, UUID(bytes=bare.second)
    for table in bare.tables:
        transaction = connection.transaction()
        await transaction.start()
        await _name_tenant(connection, bare.first)
        rows = await connection.fetch(f"SELECT tenant_id FROM {table}")
        assert [row[0].bytes for row in rows] == [bare.first], table
        found = await connection.fetch(f"SELECT 1 FROM {table} WHERE tenant_id = $1", other)
        assert found == [], table
        changed = await connection.execute(f"UPDATE {table} SET tenant_id = tenant_id")
        assert changed == "UPDATE 1", table
        assert await connection.execute(f"DELETE FROM {table}") == "DELETE 1", table
        await transaction.rollback()


async def test_no_row_is_given_to_another_tenant(
    bare: Bare, tenants_connection: asyncpg.Connection
) -> None:
    connection = tenants_connection
    for table in bare.tables:
        insert, values = bare.row(table, bare.second)
        update = f"UPDATE {table} SET tenant_id = $1"
        for statement, arguments in ((insert, values), (update, [UUID(bytes=bare.second)])):
            transaction = connection.transaction()
            await transaction.start()
            await _name_tenant(connection, bare.first)
            with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
                await connection.execute(statement, *arguments)
            await transaction.rollback()


async def test_without_a_tenant_nothing_is_answered(
    bare: Bare, tenants_connection: asyncpg.Connection
) -> None:
    """A new session is refused, and so is a session that named a tenant before."""
    connection = tenants_connection
    for refusal in (asyncpg.UndefinedObjectError, asyncpg.InvalidTextRepresentationError):
        for table in bare.tables:
            insert, values = bare.row(table, bare.first)
            with pytest.raises(refusal):
                await connection.execute(insert, *values)
            for statement in (
                f"SELECT FROM {table}",
                f"UPDATE {table} SET tenant_id = tenant_id",
                f"DELETE FROM {table}",
            ):
                with pytest.raises(refusal):
                    await connection.execute(statement)
        async with connection.transaction():
            await _name_tenant(connection, bare.first)


async def test_the_platform_sees_all(bare: Bare) -> None:
    connection = await asyncpg.connect(bare.url)
    await connection.execute(f"SET ROLE {PLATFORM_ROLE}")
    for table in bare.tables:
        assert await connection.fetchval(f"SELECT count(*) FROM {table}") == 2, table
    await connection.close()


# Connections of a process.


async def _who(connection: Connection) -> tuple[str, str]:
    return tuple(
        await connection.fetchrow(
            "SELECT current_user::text, coalesce(current_setting($1, true), '')", TENANT_SETTING
        )
    )


async def _who_in_session(session: AsyncSession) -> tuple[str, str]:
    statement = "SELECT current_user::text, coalesce(current_setting(:name, true), '')"
    return tuple((await session.execute(text(statement), {"name": TENANT_SETTING})).one())


@pytest.fixture
async def narrow(database_url: str) -> AsyncIterator[Database]:
    """Yield a database whose pools have one connection each."""
    settings = DatabaseSettings(database_url, data_connections=1, control_connections=1)
    database = Database(settings)
    await database.connect()
    yield database
    await database.close()


async def test_a_connection_carries_nothing_from_one_use_to_the_next(narrow: Database) -> None:
    tenants = [new_uid(), new_uid()]
    for tenant_id in (*tenants, *reversed(tenants)):
        mine = (TENANT_ROLE, str(UUID(bytes=tenant_id)))
        of = narrow.of(tenant_id)
        assert await of.read(_who_in_session) == mine
        assert await narrow.platform.read(_who_in_session) == (PLATFORM_ROLE, "")
        assert await of.write(_who_in_session) == mine
        assert await narrow.platform.write(_who_in_session) == (PLATFORM_ROLE, "")
        assert await of.statement(_who, writes=False) == mine
        assert await narrow.statement(_who, writes=False) == (PLATFORM_ROLE, "")
        assert await of.transaction(_who) == mine
        assert await narrow.transaction(_who) == (PLATFORM_ROLE, "")


async def test_nor_after_a_failure_or_a_deadline(narrow: Database) -> None:
    of = narrow.of(new_uid())

    async def refused(connection: Connection) -> None:
        await connection.execute("SELECT * FROM signing_keys")

    async def refused_session(session: AsyncSession) -> None:
        await session.execute(text("SELECT * FROM signing_keys"))

    async def slow(connection: Connection) -> None:
        await connection.execute("SELECT pg_sleep(60)")

    async def slow_session(session: AsyncSession) -> None:
        await session.execute(text("SELECT pg_sleep(60)"))

    for failing in (
        of.transaction(refused),
        of.statement(refused, writes=False),
        of.read(refused_session),
        of.write(refused_session),
    ):
        with pytest.raises(StatementRefused, match="signing_keys"):
            await failing
        assert await narrow.statement(_who, writes=False) == (PLATFORM_ROLE, "")
        assert await narrow.platform.read(_who_in_session) == (PLATFORM_ROLE, "")
    for late in (
        of.transaction(slow, deadline_s=0.2),
        of.read(slow_session, deadline_s=0.2),
    ):
        with pytest.raises(MetadataUnavailable):
            await late
        assert await narrow.statement(_who, writes=False) == (PLATFORM_ROLE, "")
        assert await narrow.platform.read(_who_in_session) == (PLATFORM_ROLE, "")


async def test_a_session_that_is_rolled_back_in_between_stays_its_tenants(
    narrow: Database,
) -> None:
    tenant_id = new_uid()

    async def work(session: AsyncSession) -> list[tuple[str, str]]:
        before = await _who_in_session(session)
        await session.rollback()
        return [before, await _who_in_session(session)]

    mine = (TENANT_ROLE, str(UUID(bytes=tenant_id)))
    assert await narrow.of(tenant_id).read(work) == [mine, mine]


async def test_a_statement_without_its_tenant_is_held_back(world: World) -> None:
    """The database stops a repository that forgets to ask for its tenant."""
    await world.topic()
    other = World(world.database, new_uid())

    async def all_topics(session: AsyncSession) -> int:
        return len((await session.execute(text("SELECT 1 FROM topics"))).all())

    async def rename_all(connection: Connection) -> str:
        status: str = await connection.execute("UPDATE topics SET name = 'mine'")
        return status

    assert await world.database.of(other.tenant_id).read(all_topics) == 0
    assert await world.database.of(world.tenant_id).read(all_topics) == 1
    assert await world.database.of(other.tenant_id).transaction(rename_all) == "UPDATE 0"

    async def give_away(session: AsyncSession) -> None:
        row = await session.get(TopicRow, (world.tenant_id, topic.uid))
        assert row is not None
        row.tenant_id = other.tenant_id

    topic = await world.topics.get(world.tenant_id, "orders")
    with pytest.raises(StatementRefused, match="row-level security"):
        await world.database.of(world.tenant_id).write(give_away)


# Answers of the repositories to the wrong tenant.


async def _furnish(world: World) -> tuple[Topic, Subscription, list[bytes]]:
    """Make one of everything, named `NAME` and marked; return also the uids of those that
    have one.
    """
    database, tenant_id, labels = world.database, world.tenant_id, {"is": MARK}
    schemas = SchemaRepository(database)
    await schemas.create(
        tenant_id, NAME, type_="json_schema", compatibility="none", definition=f'"{MARK}"'
    )
    topic = await world.topics.create(tenant_id, TopicSpec(NAME, labels=labels, schema=NAME), [0])
    topic = await world.topics.activate(tenant_id, topic.uid)
    subscription = await world.subscriptions.create(
        tenant_id, topic.uid, SubscriptionSpec(NAME, labels=labels), {(0, 0): 0}
    )
    await SnapshotRepository(database).create(
        tenant_id, NAME, NAME, expires_in_s=600, labels=labels
    )
    rule = await SkipRuleRepository(database).add(
        tenant_id, NAME, expression="true", reason=MARK, created_by=MARK
    )
    spec = ScheduleSpec(NAME, topic.uid, "* * * * *", "UTC", "skip", b"", None, labels=labels)
    schedule = await ScheduleRepository(database).create(tenant_id, spec)
    start = LanePosition(Lane(NAME, topic.uid, 0, 0), 0)
    export = await ExportRepository(database).create(
        tenant_id, ExportSpec(NAME, NAME, MARK, labels=labels), [start]
    )
    run, _ = await ExportRunRepository(database).create(tenant_id, NAME)
    await LockRepository(database).acquire(
        Claim(tenant_id, NAME, new_uid(), 600, holder=MARK, labels=labels)
    )
    await LockWaiterRepository(database).join(tenant_id, NAME)
    letter = new_uid()
    await _run_as_platform(
        database,
        "INSERT INTO dead_letters SELECT $1, $2, $3, 0, 0, 0, 7, $4, $4, '{}', NULL, 1, 'failed',"
        " $4, 1, NULL, NULL, now(), now(), $5, 0, 0, 0, 'open', NULL",
        (tenant_id, subscription.uid, letter, MARK, topic.uid),
    )
    redrive = await RedriveRepository(database).create(
        tenant_id, subscription.uid, RedriveSpec(filter=MARK), 1
    )
    uids = [topic.uid, subscription.uid, rule.uid, schedule.uid, letter, redrive.uid]
    uids += [export.uid, run.uid]
    values = Arguments(labels=labels, display_name=MARK, role="viewer")
    for method in methods():
        # Also what was added after this was written, where a name is all that it takes.
        if method.name == "create" and "metadata.tenancy.named_rows" in _imports(method):
            made = await method.bind(database)(tenant_id=tenant_id, **values.of(method))
            uids.append(made.uid)
    return topic, subscription, uids


def _imports(method: Method) -> set[str]:
    module = __import__(method.repository.__module__, fromlist=["*"])
    return {getattr(each, "__module__", "") for each in vars(module).values()}


async def _run_as_platform(
    database: Database, statement: str, arguments: Sequence[object] = ()
) -> None:
    async def work(connection: Connection) -> None:
        await connection.execute(statement, *arguments)

    await database.statement(work, writes=True)


async def _rows_of(url: str, tenant_id: bytes) -> dict[str, list[str]]:
    connection = await asyncpg.connect(url)
    try:
        return {
            row["relname"]: [
                found[0]
                for found in await connection.fetch(
                    f"SELECT t::text FROM {row['relname']} AS t WHERE tenant_id = $1 ORDER BY 1",
                    UUID(bytes=tenant_id),
                )
            ]
            for row in await connection.fetch(TABLES)
            if row["of_tenants"]
        }
    finally:
        await connection.close()


async def test_every_method_keeps_the_other_tenants_things_to_itself(
    world: World, database_url: str
) -> None:
    """Another tenant calls each method with the first tenant's names and ids."""
    topic, subscription, uids = await _furnish(world)
    before = await _rows_of(database_url, world.tenant_id)
    assert sum(map(bool, before.values())) >= 15
    values = Arguments(
        labels={}, topic_uid=topic.uid, subscription_uid=subscription.uid, uids=uids, limit=100
    )
    asked = 0
    for method in methods():
        hints = method.hints()
        for uid in uids if {"uid", "snapshot_uid"} & set(hints) else uids[:1]:
            other = new_uid()
            await world.tenants.ensure(other, f"tenant-{other.hex()}")
            arguments = values.of(method, uid=uid)
            asked += 1
            try:
                answer = await method.bind(world.database)(tenant_id=other, **arguments)
            except (MetadataError, ValueError):
                continue
            assert MARK not in repr(answer), method.label
            assert repr(world.tenant_id) not in repr(answer), method.label
    assert asked > 80
    assert await _rows_of(database_url, world.tenant_id) == before


# Logins.


LOGIN = "packetboat_test_login"
PASSWORD = "for-tests-only"


@pytest.fixture(params=["INHERIT", "NOINHERIT"])
def empty_url(postgres_url: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """Yield the URL of a database whose owner is an ordinary login."""
    asyncio.run(
        _run(
            postgres_url,
            f"CREATE ROLE {LOGIN} LOGIN PASSWORD '{PASSWORD}' {request.param}",
            f"CREATE DATABASE {LOGIN} TEMPLATE template0 OWNER {LOGIN}",
        )
    )
    server = postgres_url.rpartition("/")[0].rpartition("@")[2]
    yield f"postgresql://{LOGIN}:{PASSWORD}@{server}/{LOGIN}"
    asyncio.run(_run(postgres_url, f"DROP DATABASE {LOGIN} WITH (FORCE)", f"DROP ROLE {LOGIN}"))


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedPostgres]:
    """Yield a cluster without Packetboat's roles."""
    directory = Path(tempfile.mkdtemp(prefix="packetboat-test-"))
    directory.chmod(0o711)
    server = EmbeddedPostgres(directory, port=free_port())
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(directory)


async def test_a_login_that_may_make_roles_makes_them(cluster: EmbeddedPostgres) -> None:
    await _run(
        cluster.url,
        f"CREATE ROLE {LOGIN} LOGIN CREATEROLE PASSWORD '{PASSWORD}'",
        f"CREATE DATABASE {LOGIN} TEMPLATE template0 OWNER {LOGIN}",
    )
    place = cluster.url.rpartition("/")[0].rpartition("@")[2]
    url = f"postgresql://{LOGIN}:{PASSWORD}@{place}/{LOGIN}"
    try:
        await upgrade_async(url)
        await _works(url)
    finally:
        await _run(
            cluster.url,
            f"DROP DATABASE {LOGIN} WITH (FORCE)",
            f"DROP ROLE {PLATFORM_ROLE}, {TENANT_ROLE}",
            f"DROP ROLE {LOGIN}",
        )


async def test_two_databases_of_a_cluster_may_make_the_roles_at_once(
    cluster: EmbeddedPostgres,
) -> None:
    names = ("one", "two", "three")
    for name in names:
        await _run(cluster.url, f"CREATE DATABASE {name} TEMPLATE template0")
    place = cluster.url.rpartition("/")[0]
    done = await asyncio.gather(*(_migrate(f"{place}/{name}") for name in names))
    assert [status for status, _ in done] == [0, 0, 0], done
    await _works(f"{place}/two")


async def _migrate(url: str) -> tuple[int | None, str]:
    """Migrate in a process of its own, as the command does; return its exit status and its
    complaints.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", "migrate"),
        env=os.environ | {"PACKETBOAT_DATABASE_URL": url},
        stderr=asyncio.subprocess.PIPE,
    )
    _, complaint = await process.communicate()
    return process.returncode, complaint.decode()


async def _works(url: str) -> None:
    database = Database(DatabaseSettings(url))
    await database.connect()
    try:
        world = await World.open(database)
        await world.topic()
        assert (await world.topics.page(new_uid())).items == ()
        assert len((await world.topics.page(world.tenant_id)).items) == 1
        forwarder = await world.forwarder()
        claims = await world.claim(forwarder, await world.topics.get(world.tenant_id, "orders"))
        assert len(claims) == 2
    finally:
        await database.close()


async def test_an_owner_who_may_not_make_roles_is_told_what_to_run(
    empty_url: str, postgres_url: str
) -> None:
    with pytest.raises(RolesNeeded) as refused:
        await upgrade_async(empty_url)
    assert await _migrate(empty_url) == (1, f"packetboat: {refused.value}\n")
    by_hand = [
        line.strip()
        for line in str(refused.value).splitlines()
        if line.strip().startswith(("GRANT", "ALTER"))
    ]
    assert by_hand
    await _run(postgres_url, *by_hand)
    await upgrade_async(empty_url)
    await _works(empty_url)
    # A migration that changes rows does, although the owner too is bound by the policies.
    connection = await asyncpg.connect(empty_url)
    assert await connection.execute("UPDATE topics SET labels = '{}'") == "UPDATE 1"
    await connection.close()


async def test_a_login_of_its_own_may_serve_what_another_has_migrated(
    database_url: str, empty_url: str, postgres_url: str
) -> None:
    url = empty_url.rpartition("/")[0] + "/" + postgres_url.rpartition("/")[2]
    database = Database(DatabaseSettings(url))
    await database.connect()
    with pytest.raises(MetadataUnavailable, match="packetboat migrate"):
        await database.check()
    await database.close()
    await _run(postgres_url, f"GRANT {PLATFORM_ROLE}, {TENANT_ROLE} TO {LOGIN}")
    await _works(url)  # inherited or not: it becomes what it needs


async def test_roles_that_see_too_much_are_refused(postgres_url: str) -> None:
    for worse, better in (
        (
            f"ALTER ROLE {TENANT_ROLE} BYPASSRLS",
            f"ALTER ROLE {TENANT_ROLE} NOSUPERUSER NOBYPASSRLS NOLOGIN",
        ),
        (
            f"GRANT {PLATFORM_ROLE} TO {TENANT_ROLE}",
            f"REVOKE {PLATFORM_ROLE} FROM {TENANT_ROLE}",
        ),
    ):
        await _run(postgres_url, worse)
        try:
            with pytest.raises(RolesNeeded, match=better):
                await upgrade_async(postgres_url)
        finally:
            await _run(postgres_url, better)
