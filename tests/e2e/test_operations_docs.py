"""The commands of docs/operations/, run verbatim under load.

The load is 500 messages a second, less in the last test. Nothing fails, each key keeps its order,
and the log holds every message that a publisher was told of.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gateway.up.data_dir import free_port
from harness.cluster import ChaosCluster
from tests.chaos.damage import flip_a_bit, harm, segments
from tests.chaos.history import Publish
from tests.chaos.read_log import queues_of
from tests.chaos.scenarios import Torture
from tests.chaos.workload import failed

PAGES = Path(__file__).parents[2] / "docs" / "operations"
TOPIC = "orders"
UNKEYED_PER_SECOND = 400.0
KEYS = 8
"""Each publishes its next message 50 ms after an answer: with the others about 500 a second."""
BLOCK = re.compile(r"^( *)```bash\n(.*?)^ *```$", flags=re.MULTILINE | re.DOTALL)
COMMAND_TIMEOUT_S = 120.0


def blocks(page: str, section: str = "") -> list[str]:
    """The shell blocks of a section, or of a whole page."""
    text = (PAGES / page).read_text(encoding="utf-8")
    if section:
        text = text.split(f"## {section}\n", 1)[1].split("\n## ", 1)[0]
    found = [
        re.sub(f"^{indent}", "", body, flags=re.MULTILINE) for indent, body in BLOCK.findall(text)
    ]
    assert found, f"{page} has no commands under {section!r}"
    return found


PR_SET_CHILD_SUBREAPER = 36
pytestmark = pytest.mark.usefixtures("adopting")


@pytest.fixture
def root() -> Iterator[Path]:
    """Not pytest's own directory: Postgres's lesser account must get there when we are root."""
    path = Path(tempfile.mkdtemp(prefix="packetboat-operations-"))
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


class Desk:
    """An operator's shell on a cluster that is published to."""

    def __init__(self, cluster: ChaosCluster, torture: Torture) -> None:
        self.cluster = cluster
        self.torture = torture

    async def run(self, commands: list[str], **variables: object) -> list[Publish]:
        """Run every block in a shell of its own; each must succeed.

        Return the messages published meanwhile.
        """
        began_s = time.monotonic()
        for command in commands:
            await self._run(command, {name: str(value) for name, value in variables.items()})
        publishes = self.torture.workload.between(began_s, time.monotonic())
        await self.torture.workload.answered(publishes)
        return publishes

    async def _run(self, command: str, variables: dict[str, str]) -> None:
        (prelude,) = blocks("README.md", "A shell to work in")
        began_s = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            "bash",
            "-euo",
            "pipefail",
            "-c",
            prelude + command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=self._environment() | variables,
        )
        async with asyncio.timeout(COMMAND_TIMEOUT_S):
            said, _ = await process.communicate()
        print(f"{command}\n{said.decode()}\n{time.monotonic() - began_s:.1f} s")
        assert process.returncode == 0, f"{command}\n{said.decode()}"

    def _environment(self) -> dict[str, str]:
        binaries = str(Path(sys.executable).parent)
        return self.cluster.environment() | {
            "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
            "PACKETBOAT_URL": f"http://127.0.0.1:{self.cluster.http_port}",
            "PACKETBOAT_TOKEN": self.cluster.token,
            "STORE": str(self.cluster.root),
        }

    def started(self) -> list[int]:
        """Return the processes that the shell started or knows of."""
        pids = [path.read_text().strip() for path in self.cluster.root.glob("*.pid")]
        return [int(pid) for pid in pids if pid]

    async def bury(self) -> None:
        """A process that has ended is there until its parent looks; where nobody does, as in many
        containers, the shell would wait for ever for it to go."""
        while True:
            for node in self.cluster.node_dirs:
                self.cluster.is_running(node)
            for pid in self.started():
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)  # noqa: ASYNC222 (does not wait)
            await asyncio.sleep(0.05)

    async def groups(self) -> set[int]:
        """Return the groups of the topic's open partitions."""
        client = self.cluster.store_client()
        await client.start()
        try:
            await client.wait_ready()
            queues = await queues_of(client, self.torture.topic_uid)
            return {group for group, _ in queues.values()}
        finally:
            await client.close()


@pytest.fixture
def adopting() -> Iterator[None]:
    """Adopt the processes that shells leave behind, so that `bury` sees them end."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    yield
    libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


@contextlib.asynccontextmanager
async def desk(
    root: Path,
    zones: dict[int, str] | None = None,
    unkeyed_per_second: float = UNKEYED_PER_SECOND,
) -> AsyncIterator[Desk]:
    """Yield a cluster, its publishers at work, and a desk to operate it."""
    async with (
        ChaosCluster(root, zones=zones) as cluster,
        await Torture.over_http(
            cluster, TOPIC, per_second=unkeyed_per_second, keys=KEYS
        ) as torture,
    ):
        at_work = Desk(cluster, torture)
        for node, pid in cluster.node_pids().items():
            (root / f"node-{node}.pid").write_text(f"{pid}\n")
        torture.workload.start()
        await asyncio.sleep(1)
        reaper = asyncio.create_task(at_work.bury())
        try:
            yield at_work
        finally:
            reaper.cancel()
            for pid in at_work.started():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def assert_none_failed(publishes: list[Publish]) -> None:
    assert len(publishes) > 20
    assert {publish.key is None for publish in publishes} == {True, False}
    assert not failed(publishes), failed(publishes)[:5]


async def test_a_group_is_added_and_a_hot_partition_moved_to_it(root: Path) -> None:
    async with desk(root) as operator:
        added = blocks("add-capacity.md", "Add a group")
        assert_none_failed(await operator.run(added, TOTAL=9))
        moved = blocks("partitions.md", "Move a partition to another group")
        assert_none_failed(await operator.run(moved, TOPIC=TOPIC, PARTITION=0, GROUP=8))
        await asyncio.sleep(1)
        assert 8 in await operator.groups()
        await operator.torture.verify()


async def test_a_forwarder_is_added_and_taken_away(root: Path) -> None:
    async with desk(root, unkeyed_per_second=100.0) as operator:
        commands = blocks("forwarders.md")
        assert_none_failed(await operator.run(commands, NEW_PORT=free_port("127.0.0.1")))
        assert "lease held" in (operator.cluster.root / "forwarder.log").read_text()
        await operator.torture.verify()


async def test_a_dead_node_is_replaced_and_every_node_restarted(root: Path) -> None:
    async with desk(root) as operator:
        operator.cluster.kill_node(2)
        await asyncio.sleep(3)  # its leaders are others now
        replaced = blocks("replace-a-node.md")
        address = operator.cluster.new_node(4)
        during = await operator.run(replaced, OLD=2, NEW=4, NEW_ADDRESS=address)
        assert_none_failed(during)
        restarted = blocks("rolling-restart.md", "Store nodes")
        assert_none_failed(await operator.run(restarted, NODES="1 3 4"))
        await operator.torture.verify(nodes=(1, 3, 4))


async def test_a_lost_zone_a_damaged_node_a_full_disk_and_more_nodes(root: Path) -> None:
    zones = {1: "a", 2: "b", 3: "c"}
    async with desk(root, zones, unkeyed_per_second=100.0) as operator:
        assert_none_failed(await operator.run(blocks("zones.md", "Before")))
        operator.cluster.kill_node(3)
        await asyncio.sleep(3)  # its leaders are others now
        lost = ["start_node 3", *blocks("zones.md", "A zone is lost")]
        assert_none_failed(await operator.run(lost))

        await operator.run(['packetboat store drain 3; kill -9 "$(cat "$STORE/node-3.pid")"'])
        await asyncio.sleep(0.5)
        harm(segments(operator.cluster.node_dirs[3])[-1], 0.4, flip_a_bit)
        assert_none_failed(await operator.run(["start_node 3", *blocks("damaged-node.md")]))
        assert "damaged" in operator.cluster.tail("node-3", 1_000_000)
        assert_none_failed(await operator.run(blocks("disk-full.md")))

        address = operator.cluster.new_node(4)
        added = blocks("add-capacity.md", "Add a node")
        during = await operator.run(added, NEW=4, NEW_ADDRESS=address, ZONE="c", FORCE="--force")
        removed = blocks("add-capacity.md", "Remove a node")
        assert_none_failed(during + await operator.run(removed, OLD=3))
        await operator.torture.verify(nodes=(1, 2, 4))
