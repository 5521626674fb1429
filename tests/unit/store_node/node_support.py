"""One store node in this process, on a real directory, without a network: it leads its groups."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple, NoReturn

import pytest

from peering.shared_secret import SharedSecret
from store_nodes.checkpoint.files import DiskFiles
from store_nodes.checkpoint.format import Checkpoint
from store_nodes.checkpoint.store import CheckpointStore
from store_nodes.client import SnapshotImage
from store_nodes.commands import GROUPS_COUNTER, CompareAndSet, encode, encode_value
from store_nodes.errors import Conflict, StoreError, Unavailable
from store_nodes.machine.machine import Machine
from store_nodes.node.boot import BootRecord
from store_nodes.node.known_peers import KnownPeers
from store_nodes.node.node import Node
from store_nodes.node.start import load
from store_nodes.settings import StoreNodeSettings
from store_nodes.wal.group_commit import GroupCommit
from store_nodes.wire import Durability

GROUPS = 2
CLUSTER = bytes(range(16))


def settings_of(directory: Path) -> StoreNodeSettings:
    """Node 1 is the only voter."""
    return StoreNodeSettings(
        node_id=1,
        data_dir=directory,
        listen=("127.0.0.1", 0),
        peers={1: ("127.0.0.1", 1)},
        cluster_uid=CLUSTER,
        secret=SharedSecret(bytes(32)),
        groups=GROUPS,
        segment_bytes=1024 * 1024,
        disk_reserve_bytes=0,
    )


class _Reply:
    """The reply to one command."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def accepted(self) -> None: ...

    def appended(self, base_offset: int, *_: int, duplicate: bool = False) -> None:
        self.answer.set_result(base_offset)

    def released(self, offsets: tuple[int | None, ...], log_time_us: int) -> None:
        self.answer.set_result(len(offsets))

    def finished(self, value: int, log_time_us: int) -> None:
        self.answer.set_result(value)

    def failed(self, error: StoreError, *, decided: bool) -> None:
        self.answer.set_exception(error)


class RunningNode:
    """The node, and short ways to move it."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def applied(self, group: int = 0) -> int:
        return self.node.groups[group].machine.applied

    async def command(self, raw: bytes, group: int = 0) -> None:
        reply = _Reply()
        self.node.groups[group].command(raw, Durability.QUORUM, 5000, reply)
        await reply.answer

    async def set_counter(self, group: int, name: str, old: int, new: int) -> None:
        await self.command(encode(CompareAndSet(name, old, new)), group)

    async def advance(self, group: int = 0, instances: int = 10) -> None:
        """Apply `instances` values, one after the other."""
        counters = self.node.groups[group].machine.counters
        for _ in range(instances):
            at = counters.get("tests", 0)
            try:
                await self.set_counter(group, "tests", at, at + 1)
            except Conflict:
                # Values that the start found in the log were applied in between.
                at = counters.get("tests", 0)
                await self.set_counter(group, "tests", at, at + 1)

    def image(self, group: int = 0, ahead: int = 0, groups: int = 0) -> SnapshotImage:
        """Return the machine of the group with `ahead` more values, as an image of a peer.

        The machine counts `groups` groups, unless that is 0.
        """
        machine = Machine.restore(group, self.node.groups[group].machine.state_snapshot())
        for _ in range(ahead):
            at = machine.counters.get("tests", 0)
            value = encode_value(
                [encode(CompareAndSet("tests", at, at + 1))], machine.log_time_us + 1
            )
            machine.apply(machine.applied, value)
        if groups:
            machine.counters[GROUPS_COUNTER] = groups
        return SnapshotImage(machine.state_snapshot(), machine.applied, 0)

    async def install(self, images: dict[int, SnapshotImage], *, whole: bool = True) -> None:
        """Finish an install, as the installer does in the end."""
        await self.node._recovering.finish_install(images, whole=whole)


class Link(NamedTuple):
    """The connection to a peer."""

    up: bool


class Peers:
    """Stands for a client of other nodes: whom it asks for a machine, and what that one gives."""

    def __init__(
        self,
        images: dict[int, SnapshotImage],
        meanwhile: Callable[[], Awaitable[None]] | None = None,
        before: int = 1,
    ) -> None:
        """`meanwhile` happens before the answer of that number arrives."""
        self.images = images
        self.asked: list[int] = []
        self.down: set[int] = set()
        self._meanwhile, self._before = meanwhile, before

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    def node_link(self, node: int) -> Link:
        return Link(up=node not in self.down)

    async def snapshot(
        self, group: int, node: int, *, least: int = 0, timeout_s: float = 0.0
    ) -> SnapshotImage:
        self.asked.append(node)
        image = self.images[node]
        if image.applied < least:
            raise Unavailable(f"node {node} is behind")
        if self._meanwhile is not None and len(self.asked) == self._before:
            await self._meanwhile()
        return image


@contextmanager
def with_peers(one: RunningNode, peers: Peers) -> Iterator[None]:
    """The first of them is the source that says it has what is needed."""
    recovering = one.node._recovering
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("store_nodes.node.copying.LINK_TRIES", 0)
        patch.setattr("store_nodes.node.install.GATHER_S", 0.02)
        patch.setattr("store_nodes.node.install.RETRY_S", 0.02)
        patch.setattr(recovering, "store_client", lambda: peers)
        patch.setattr(recovering, "sources", lambda best=None: list(peers.images))
        yield


async def until_ended(one: RunningNode) -> None:
    installer = one.node._recovering.installer
    async with asyncio.timeout(10):
        while installer.active:
            await asyncio.sleep(0.02)


@asynccontextmanager
async def running(
    directory: Path, until_led: Iterable[int] | None = None
) -> AsyncIterator[RunningNode]:
    """Run a node until the block ends.

    Then it is gone as after a kill, without a last checkpoint. `until_led` names the groups to wait
    for; None means all.
    """

    def ended(reason: str) -> NoReturn:
        raise AssertionError(reason)

    settings = settings_of(directory)
    started = load(settings)
    boot = BootRecord(directory)
    boot.started(bytes.fromhex(started.wal.identity.incarnation_uid))
    commit = GroupCommit(started.wal, on_fatal=lambda error: ended(str(error)))
    node = Node(
        settings,
        started,
        commit,
        boot,
        KnownPeers(directory),
        fatal=ended,
        refused=ended,
        restart=lambda: None,
    )
    flushing = asyncio.create_task(commit.run())
    node.start()
    try:
        async with asyncio.timeout(10):
            wanted = {*(node.groups if until_led is None else until_led)}
            while not all(node.groups[group].replica.state.leading for group in wanted):
                await asyncio.sleep(0.01)
        yield RunningNode(node)
    finally:
        node.restarting = True  # No checkpoint.
        await node.stop()
        await commit.close()
        await flushing
        started.wal.close()


def last_checkpoint(directory: Path) -> Checkpoint:
    """Return the checkpoint with which the next start begins."""
    loaded = CheckpointStore(DiskFiles(directory / "checkpoints")).load()
    assert loaded is not None
    return loaded.checkpoint
