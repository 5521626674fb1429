"""This release on the directories and the rows of an earlier one, as they were when it stopped."""

from __future__ import annotations

import asyncio
import io
import json
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest
from packetboat.aio.client import AsyncClient
from packetboat.credentials import ClientCredentials
from packetboat.options import Options

from harness.cluster import HOST, ChaosCluster
from harness.settings import WITHOUT_QUOTAS
from metadata.counts import BUILT_IN_LIMITS
from metadata.postgres.migrate import upgrade_async
from tests.golden.record import SEGMENT_BYTES, Facts

HERE = Path(__file__).parent
RELEASES = sorted(path.parent.name for path in HERE.glob("*/facts.json"))
PATIENCE_S = 90.0


class GoldenCluster(ChaosCluster):
    """An installation of this release on what was recorded."""

    def __init__(self, root: Path, recorded: Path) -> None:
        super().__init__(root, segment_bytes=SEGMENT_BYTES, seeded=False)
        self.recorded = recorded
        self.facts = Facts(**json.loads((recorded / "facts.json").read_text()))
        self.token = self.facts.token
        with tarfile.open(recorded / "nodes.tar.gz") as archive:
            archive.extractall(root, filter="data")

    def _environment(self) -> dict[str, str]:
        settings = super()._environment() | self.facts.settings
        return {name: value for name, value in settings.items() if name not in WITHOUT_QUOTAS}

    async def migrate(self) -> None:
        """The rows come first, in the schema that they were of."""
        url = self.postgres.url
        await upgrade_async(url, self.facts.revision)
        connection = await asyncpg.connect(url)
        try:
            await connection.execute("SET session_replication_role = replica")
            tables = json.loads((self.recorded / "tables.json").read_text())
            for name, rows in tables.items():
                await connection.execute(f'DELETE FROM "{name}"')
                await connection.copy_to_table(name, source=io.BytesIO(rows.encode()))
        finally:
            await connection.close()
        await super().migrate()


@pytest.fixture
def root() -> Iterator[Path]:
    """Not pytest's own directory: Postgres's lesser account must get there when we are root."""
    path = Path(tempfile.mkdtemp(prefix="packetboat-golden-"))
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@pytest.mark.parametrize("release", RELEASES)
async def test_the_data_of_an_earlier_release_is_gone_on_with(release: str, root: Path) -> None:
    async with GoldenCluster(root, HERE / release) as cluster:
        facts, url = cluster.facts, f"http://{HOST}:{cluster.http_port}"
        secret = ClientCredentials(facts.client["id"], facts.client["secret"])
        async with AsyncClient.from_options(Options(urls=(url,), credentials=secret)) as client:
            await client.whoami()  # hashes of secrets, and sealed signing keys
        async with AsyncClient(url, cluster.token) as client:
            assert set((await client.quotas.get()).exempt) == set(BUILT_IN_LIMITS)
            done = {*facts.acked, *facts.dead}
            wanted = [data for data in facts.published if data not in done] + facts.delayed
            got: list[str] = []
            async with asyncio.timeout(PATIENCE_S):
                while len(got) < len(wanted):
                    messages = await client.pull("billing", max_messages=1, wait_seconds=10)
                    if messages:
                        assert not (await client.ack("billing", messages)).failures
                    got += [message.text for message in messages]
            assert sorted(got) == sorted(wanted)
            letters = [letter async for letter in client.dead_letters.list("billing")]
            assert len(letters) == len(facts.dead)
            again = await client.publish("orders", "new", key="key-0")
            (message,) = await client.pull("billing", wait_seconds=10)
            assert message.message_id == again.message_id
            assert not (await client.ack("billing", [message])).failures
        await cluster.until_replicas_agree()
