"""A store node: its groups over one log, served to clients and peers.

Everything runs on one event loop; the log's writes and syncs run in the one thread of its group
commit. Groups touched in a loop iteration are pumped once at its end, so that what many
connections asked shares values, messages and flushes.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import structlog

from store_nodes import reads
from store_nodes.client_service import ClientService
from store_nodes.errors import Unavailable
from store_nodes.group import Group
from store_nodes.requests import Budget
from store_nodes.settings import StoreNodeSettings
from store_nodes.start import Started, checkpoint_of
from store_nodes.transport.peers import PeerNetwork
from store_nodes.transport.server import StoreServer
from store_nodes.wal.errors import WalDamaged
from store_nodes.wal.footer import BatchEntry
from store_nodes.wal.frame import Record
from store_nodes.wal.group_commit import GroupCommit
from store_nodes.wal.position import Position

TICK_S = 0.025
DISK_CHECK_S = 1.0
CHECKPOINT_BYTES = 64 * 1024 * 1024
CHECKPOINT_S = 600.0

log = structlog.get_logger()


class Node(ClientService):
    """The `NodeService` of the transport and the `Shell` of the groups."""

    def __init__(
        self,
        settings: StoreNodeSettings,
        started: Started,
        commit: GroupCommit,
        *,
        fatal: Callable[[str], None],
    ) -> None:
        super().__init__()
        self.settings = settings
        self._started = started
        self._wal = started.wal
        self._commit = commit
        self._fatal = fatal
        self._peers: PeerNetwork | None = None
        self._server: StoreServer | None = None
        self._budget = Budget(settings.max_pending_bytes)
        self._touched: dict[int, Group] = {}
        self._pumping = False
        self._disk_full = False
        self._free_bytes = 0
        self._checkpointed_bytes = 0
        self._checkpointed_s = time.monotonic()
        self._checkpoint_asked = False
        self._checkpointing: asyncio.Task[None] | None = None
        self._ticker: asyncio.Task[None] | None = None
        self._damaged = started.damage
        self._groups = {
            group.id: group for group in started.groups(self, self._budget, self.now_us())
        }
        self._last_position = started.last_position

    # -- life ----------------------------------------------------------------------------------

    def connect(self, peers: PeerNetwork, server: StoreServer) -> None:
        """The transport, which needs the node first."""
        self._peers = peers
        self._server = server

    def start(self) -> None:
        """Apply what the log already holds, then take part."""
        self._check_disk()
        for group in self._groups.values():
            self.touch(group)
        self._ticker = asyncio.create_task(self._tick_forever(), name="store-node-ticks")
        self._ticker.add_done_callback(self._on_task_done)

    async def stop(self) -> None:
        """Leave a checkpoint, so that the next start is quick."""
        if self._ticker is not None:
            self._ticker.cancel()
            await asyncio.gather(self._ticker, return_exceptions=True)
        if self._checkpointing is not None:
            await self._checkpointing
        if self._groups:
            await self._write_checkpoint()

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fatal(f"{task.get_name()}: {error!r}")

    async def _tick_forever(self) -> None:
        next_disk_check_s = 0.0
        while True:
            await asyncio.sleep(TICK_S)
            now_us, wall_us = self.now_us(), time.time_ns() // 1000
            for group in self._groups.values():
                group.tick(now_us, wall_us)
            now_s = time.monotonic()
            if now_s >= next_disk_check_s:
                next_disk_check_s = now_s + DISK_CHECK_S
                self._check_disk()
                self._checkpoint_if_due(now_s)

    # -- the groups' shell ---------------------------------------------------------------------

    def now_us(self) -> int:
        return time.monotonic_ns() // 1000

    def touch(self, group: Group) -> None:
        self._touched[group.id] = group
        if not self._pumping:
            self._pumping = True
            asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        while self._touched:
            touched, self._touched = self._touched, {}
            for group in touched.values():
                group.pump()
        self._pumping = False

    def submit(
        self, records: Sequence[Record], must_sync: bool, done: Callable[[list[Position]], None]
    ) -> None:
        def persisted(positions: list[Position]) -> None:
            self._last_position = positions[-1]
            done(positions)

        self._commit.submit(records, must_sync, persisted)

    def send(self, node: int, group: int, payload: bytes) -> None:
        if self._peers is not None:
            self._peers.send(node, group, (payload,))

    def read(self, position: Position) -> bytes:
        """A whole value, verified; damage found here ends the node, which starts as damaged."""
        try:
            return self._wal.read(position)
        except WalDamaged as error:
            self._wal.report_damage(error.damage)
            self._fatal(f"log: {error}")
            raise

    def read_batch(self, position: Position) -> bytes:
        """A batch inside a value; its reader verifies it."""
        return self._wal.read_slice(position)

    def note_batch(self, entry: BatchEntry) -> None:
        self._wal.note_batches((entry,))

    def checkpoint_wanted(self, group: Group, reason: str) -> None:
        log.info("checkpoint wanted", group=group.id, reason=reason)
        self._checkpoint_asked = True

    def leader_changed(self, group: Group) -> None:
        if self._server is not None:
            self._server.announce([group.view()])

    def queues_changed(self, group: Group, queues: Sequence[bytes]) -> None:
        self.watches.changed(group.id, queues)

    def disk_is_full(self) -> bool:
        return self._disk_full

    def disk_is_critical(self) -> bool:
        return self._free_bytes < self.settings.disk_reserve_bytes // 2

    def halt(self, reason: str) -> None:
        self._fatal(reason)

    # -- peers ---------------------------------------------------------------------------------

    def on_message(self, node: int, group: int, payload: bytes) -> None:
        found = self._groups.get(group)
        if found is not None:
            found.receive(node, payload)

    def on_connected(self, node: int) -> None:
        for group in self._groups.values():
            group.replica.peer_connected(self.now_us(), node)
            self.touch(group)

    def on_lost(self, node: int) -> None:
        for group in self._groups.values():
            group.replica.peer_lost(self.now_us(), node)
            self.touch(group)

    # -- clients (client_service.py) -----------------------------------------------------------

    def group(self, group: int) -> Group:
        if self._damaged:
            raise Unavailable(f"node {self.settings.node_id} is damaged and takes no part")
        found = self._groups.get(group)
        if found is None:
            raise Unavailable(f"no group {group}")
        return found

    def groups(self) -> Iterable[Group]:
        return self._groups.values()

    def bad_batch(self, position: Position) -> None:
        log.error("a stored batch fails its checks", position=position)

    async def status(self) -> Mapping[str, object]:
        return {
            "node": self.settings.node_id,
            "damaged": self._damaged,
            "disk": {"free_bytes": self._free_bytes, "appends_refused": self._disk_full},
            "log": {
                "flushes": self._commit.flushes,
                "records": self._commit.records,
                "bytes": self._commit.bytes,
                "flush_seconds": self._commit.flush_seconds,
            },
            "pending_bytes": self._budget.held_bytes,
            "groups": [reads.group_status(group) for group in self._groups.values()],
        }

    # -- disk and checkpoints ------------------------------------------------------------------

    def _check_disk(self) -> None:
        stat = os.statvfs(self.settings.data_dir)
        self._free_bytes = stat.f_bavail * stat.f_frsize
        full = self._free_bytes < self.settings.disk_reserve_bytes
        if full != self._disk_full:
            log.warning("disk watermark", free_bytes=self._free_bytes, appends_refused=full)
        self._disk_full = full

    def _checkpoint_if_due(self, now_s: float) -> None:
        written = self._commit.bytes - self._checkpointed_bytes
        due = (
            self._checkpoint_asked
            or written >= CHECKPOINT_BYTES
            or (written and now_s - self._checkpointed_s >= CHECKPOINT_S)
        )
        if due and (self._checkpointing is None or self._checkpointing.done()):
            self._checkpointing = asyncio.create_task(
                self._write_checkpoint(), name="store-node-checkpoint"
            )
            self._checkpointing.add_done_callback(self._on_task_done)

    async def _write_checkpoint(self) -> None:
        self._checkpoint_asked = False
        self._checkpointed_bytes = self._commit.bytes
        self._checkpointed_s = time.monotonic()
        checkpoint = checkpoint_of(self._groups.values(), self._wal, self._last_position)
        try:
            await asyncio.get_running_loop().run_in_executor(
                None, self._started.checkpoints.write, checkpoint
            )
        except OSError as error:
            self._fatal(f"checkpoint: {error}")
