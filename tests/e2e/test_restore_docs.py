"""docs/operations/restore-postgres.md, run as it stands there, while messages are published."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos import base_backup
from tests.e2e.test_operations_docs import assert_none_failed, blocks, desk

PAGE = "restore-postgres.md"


@pytest.fixture
def place() -> Iterator[Path]:
    """Yield a directory that Postgres's lesser account can enter when the tests run as root."""
    path = Path(tempfile.mkdtemp(prefix="packetboat-restore-"))
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


async def test_a_backup_is_restored_and_what_it_forgot_adopted(place: Path) -> None:
    async with desk(place, unkeyed_per_second=100.0) as operator:
        cluster, backup = operator.cluster, place / "base-backup"
        await base_backup.take(cluster.postgres, backup)
        assert (await cluster.call("POST", "/topics", b'{"name":"since","partitions":2}'))[0] == 201
        assert (await cluster.call("POST", "/topics/since/messages", b"kept"))[0] == 201

        cluster.kill_postgres()
        base_backup.restore(cluster.postgres, backup)
        await cluster.start_postgres()
        assert_none_failed(await operator.run(blocks(PAGE, "Restore it")))
        assert (await cluster.call("GET", "/topics/since"))[0] == 404

        adopted = blocks(PAGE, "Take back topics that the backup forgot")
        assert_none_failed(await operator.run(adopted))
        assert (await cluster.call("POST", "/topics/since/messages", b"again"))[0] == 201
        assert '"orphans":[]' in (await cluster.operated("orphans", "--json"))[1]
        await operator.torture.verify(acks_forgotten=True)
