"""A backup of Postgres and the store, restored after both were lost (docs/operations/backup.md)."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.backup_drill import Drill, RestoredCluster, backups
from tests.chaos.shell import succeeds


@pytest.fixture
def root() -> Iterator[Path]:
    """Not pytest's own directory: Postgres's lesser account must get there when we are root."""
    path = Path(tempfile.mkdtemp(prefix="packetboat-backup-"))
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


async def test_what_was_answered_before_the_recovery_point_is_there_again(root: Path) -> None:
    drill = Drill(root)
    lost = await drill.lose()
    found = await backups(lost, drill.vault)
    assert [each["new_bytes"] > 0 for each in found] == [True, True]
    assert found[1]["new_bytes"] < found[1]["stored_bytes"], "the second took the first's packs"
    cluster = RestoredCluster(root / "restored", lost)
    await cluster.restore(drill.vault, found[1]["name"])
    async with cluster:
        await drill.check(cluster, found[1])
        await cluster.until_replicas_agree()
        # The new cluster is backed up into the same place, and shares nothing with the old one.
        await succeeds(cluster, "backup", "take", str(drill.vault), "--keep", "1")
        (only,) = await backups(cluster, drill.vault)
        assert only["messages"] > 0
        await succeeds(cluster, "backup", "verify", str(drill.vault))
