"""A backup of Postgres restored under load: noticed, fenced, and made whole from the store."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from gateway.recovery.keeper import GROUP, OTHERS_S, witness
from harness import balancers, failpoints
from harness.cluster import ChaosCluster, metrics_at
from harness.fleet import Fleet
from metadata import eras
from tests.chaos import base_backup
from tests.chaos.restored import Restored
from tests.chaos.restored_rows import Callers, Rows
from tests.chaos.scenarios import Torture

AGE_S = 6.0
WITNESS_S = 4 * max(OTHERS_S)
STEPS = ("raised", "mended", "rebuilt", "used", "entered")


@pytest.fixture
def root() -> Iterator[Path]:
    """Not pytest's own directory: Postgres's lesser account must get there when we are root."""
    path = Path(tempfile.mkdtemp(prefix="packetboat-restored-"))
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


async def test_what_the_backup_forgot_comes_back(root: Path) -> None:
    """Restore under all of a fleet at once, where there is a balancer for it."""
    fleet = Fleet(root) if balancers.program("haproxy") else None
    async with (
        fleet or ChaosCluster(root) as cluster,
        await Torture.over_http(cluster, "kept", per_second=50, keys=4) as torture,
    ):
        torture.workload.start()
        await Restored(cluster, torture, root).run(AGE_S)
        await torture.verify(acks_forgotten=True)
        if fleet is not None:
            await all_went_through(fleet)


async def all_went_through(fleet: Fleet) -> None:
    """Each process is in the new era, and one of them made it."""
    repairs = 0.0
    for member in fleet.members:
        page = await metrics_at(member.metrics_port)
        found = dict(line.rsplit(" ", 1) for line in page.splitlines())
        assert float(found["packetboat_postgres_era"]) == 1.0, member.name
        repairs += float(found["packetboat_postgres_recoveries_total"])
    assert repairs == 1


async def test_a_repair_that_is_cut_is_made_again(root: Path) -> None:
    """Cut the repair at every step, one after the other; an era whose row may have been
    written is skipped.
    """
    async with ChaosCluster(root, failpoints=True) as cluster:
        restored = Restored(cluster, None, root)
        await restored.prepare(0)
        restored.lose()
        for step in STEPS:
            cluster.act_once(f"recovery.{step}")
            if step == STEPS[0]:
                await cluster.start_postgres()
            else:
                cluster.start_server()
            assert await cluster.server_status() == failpoints.EXIT_STATUS, step
            await restored.until_era(2 if step == "entered" else 0)
        cluster.start_server()
        await cluster.until_ready()
        await restored.until_era(2)
        await restored.check_ids()
        await restored.check_messages()
        await restored.check_topics()


async def test_a_promoted_standby_begins_an_era_and_nothing_else_changes(root: Path) -> None:
    async with ChaosCluster(root) as cluster:
        callers = Callers(cluster.http_port, cluster.token)
        rows = Rows(callers)
        await rows.make("kept")
        await rows.publish("kept")
        held = (await rows.ok("POST", "/locks/held:acquire", {"ttl_seconds": 120})).body
        cluster.kill_postgres()
        await base_backup.promote(cluster.postgres)
        await Restored(cluster, None, root).until_era(1)
        await cluster.until_ready()
        connection = await asyncpg.connect(cluster.postgres.url)
        assert await connection.fetchval("SELECT timeline FROM eras WHERE era = 1") == 2
        await connection.close()
        assert (
            await callers.call("POST", "/locks/held:acquire", {"holder": "other"})
        ).status == 409
        await rows.ok("POST", "/locks/held:renew", {"lock_id": held["lock_id"]})
        (message,) = await rows.all_of("kept", 1)
        await rows.ack(message, "kept")
        await rows.publish("kept")
        assert len(await rows.all_of("kept", 1)) == 1


async def until_witnessed(cluster: ChaosCluster) -> None:
    """The store knows that Postgres has come as far as it is now."""
    connection = await asyncpg.connect(cluster.postgres.url)
    now = await eras.observe(connection)
    await connection.close()
    store = cluster.store_client()
    await store.start()
    try:
        async with asyncio.timeout(WITNESS_S):
            while await store.counter(GROUP, witness(now.era or 0)) < now.wal_bytes:
                await asyncio.sleep(0.1)
    finally:
        await store.close()


async def test_who_starts_later_learns_it_from_the_store(root: Path) -> None:
    """Nobody is left who saw how far Postgres was; the backup is older than the last witness."""
    async with ChaosCluster(root) as cluster:
        status, _ = await cluster.call("POST", "/topics", b'{"name":"before","partitions":2}')
        assert status == 201
        backup = root / "base-backup"
        await base_backup.take(cluster.postgres, backup)
        status, _ = await cluster.call("POST", "/topics", b'{"name":"since","partitions":2}')
        assert status == 201
        status, _ = await cluster.call("POST", "/topics/since/messages", b"kept")
        assert status == 201
        await until_witnessed(cluster)
        cluster.kill_server()
        cluster.kill_postgres()
        base_backup.restore(cluster.postgres, backup)
        await cluster.start_postgres()
        cluster.start_server()
        await cluster.until_ready()
        assert (await cluster.call("GET", "/topics/since"))[0] == 404
        assert (await cluster.call("GET", "/topics/before"))[0] == 200
        connection = await asyncpg.connect(cluster.postgres.url)
        assert await connection.fetchval("SELECT max(era) FROM eras") == 1
        await connection.close()
        assert (await cluster.command("adopt", "--all"))[0] == 0
        status, stored = await cluster.call("GET", "/topics/since/partitions")
        assert sum(row["end"] for row in json.loads(stored)["partitions"]) == 1
