"""A store node: its groups over one log, served to clients and peers.

Everything runs on one event loop; the log's writes and syncs run in the one thread of its group
commit. Groups touched in a loop iteration are pumped once at its end, so that what many
connections asked shares values, messages and flushes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import structlog

from store_nodes import reads
from store_nodes.boot import BootRecord
from store_nodes.checkpoint.format import Checkpoint
from store_nodes.client_service import ClientService
from store_nodes.errors import Unavailable
from store_nodes.group import Group
from store_nodes.housekeeping import Housekeeping
from store_nodes.known_peers import KnownPeers
from store_nodes.members import Members
from store_nodes.requests import Budget
from store_nodes.settings import StoreNodeSettings
from store_nodes.start import Started, checkpoint_of
from store_nodes.transport.handshake import Refusal, Remote
from store_nodes.transport.peers import PeerNetwork
from store_nodes.transport.server import StoreServer
from store_nodes.wal.errors import WalDamaged
from store_nodes.wal.footer import BatchEntry
from store_nodes.wal.frame import Record
from store_nodes.wal.group_commit import GroupCommit
from store_nodes.wal.position import Position

TICK_S = 0.025
DISK_CHECK_S = 1.0

log = structlog.get_logger()


class Node(ClientService):
    """The `NodeService` of the transport and the `Shell` of the groups."""

    def __init__(
        self,
        settings: StoreNodeSettings,
        started: Started,
        commit: GroupCommit,
        boot: BootRecord,
        known: KnownPeers,
        *,
        fatal: Callable[[str], None],
        refused: Callable[[str], None],
        restart: Callable[[], None],
    ) -> None:
        """`refused` and `fatal` end the process at once; `restart` begins an orderly stop, after
        which `restarting` says that the process starts again."""
        super().__init__()
        self.settings = settings
        self._started = started
        self._wal = started.wal
        self._commit = commit
        self._known = known
        self._fatal = fatal
        self._refused = refused
        self._restart = restart
        self.restarting = False
        self._peers: PeerNetwork | None = None
        self._server: StoreServer | None = None
        self._budget = Budget(settings.max_pending_bytes)
        self._touched: dict[int, Group] = {}
        self._pumping = False
        self._ticker: asyncio.Task[None] | None = None
        self._damaged = started.damage
        self._groups = {
            group.id: group for group in started.groups(self, self._budget, self.now_us())
        }
        self._last_position = started.last_position
        to_meet = [] if started.ever_ran or settings.join else settings.peers
        self._members = Members(settings, [node for node in to_meet if node not in known])
        self._housekeeping = Housekeeping(
            started, commit, boot, known, self._checkpoint, self._tell, fatal
        )

    # -- life ----------------------------------------------------------------------------------

    def connect(self, peers: PeerNetwork, server: StoreServer) -> None:
        """The transport, which needs the node first."""
        self._peers = peers
        self._server = server

    def start(self) -> None:
        """Apply what the log already holds, then take part."""
        self._housekeeping.start()
        if self._members.may_take_part:
            self._pump_all()
        else:
            log.info("the first start waits for every first node", nodes=self._members.to_meet)
        self._ticker = asyncio.create_task(self._tick_forever(), name="store-node-ticks")
        self._ticker.add_done_callback(self._on_task_done)

    async def stop(self) -> None:
        """Leave a checkpoint, so that the next start is quick."""
        if self._ticker is not None:
            self._ticker.cancel()
            await asyncio.gather(self._ticker, return_exceptions=True)
        await self._housekeeping.stop()
        if self._groups:
            await self._housekeeping.checkpoint()

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fatal(f"{task.get_name()}: {error!r}")

    async def _tick_forever(self) -> None:
        next_disk_check_s = 0.0
        while True:
            await asyncio.sleep(TICK_S)
            if self._members.may_take_part:
                now_us, wall_us = self.now_us(), time.time_ns() // 1000
                for group in self._groups.values():
                    group.tick(now_us, wall_us)
            now_s = time.monotonic()
            if now_s >= next_disk_check_s:
                next_disk_check_s = now_s + DISK_CHECK_S
                self._housekeeping.disk.look()

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
        self._housekeeping.want_checkpoint()

    def leader_changed(self, group: Group) -> None:
        if self._server is not None:
            self._server.announce([group.view()])

    def queues_changed(self, group: Group, queues: Sequence[bytes]) -> None:
        self.watches.changed(group.id, queues)

    def membership_changed(self, group: Group) -> None:
        """Peers and addresses follow the memberships."""

    def install_needed(self, group: Group, source: int, oldest: int) -> None:
        log.warning("a checkpoint is needed", group=group.id, source=source, oldest=oldest)

    def voting_allowed(self, group: Group) -> None:
        group.replica.set_voting()

    def disk_is_full(self) -> bool:
        return self._housekeeping.disk.full

    def disk_is_critical(self) -> bool:
        return self._housekeeping.disk.critical

    def halt(self, reason: str) -> None:
        self._fatal(reason)

    # -- peers ---------------------------------------------------------------------------------

    @property
    def told_tail(self) -> int:
        """How far peers may be told that the log is synced."""
        return self._housekeeping.told_tail

    def _tell(self) -> None:
        if self._peers is not None:
            self._peers.tell()

    def meet(self, remote: Remote) -> Refusal | None:
        """A peer proved who it is; a refusal, if it comes with less than it once had."""
        refusal = self._known.meet(remote)
        if refusal is not None:
            log.error("peer refused", peer=remote.node, reason=refusal.text)
        return refusal

    def on_message(self, node: int, group: int, payload: bytes) -> None:
        found = self._groups.get(group)
        if found is not None and self._members.may_take_part:
            found.receive(node, payload)

    def on_connected(self, node: int) -> None:
        now_us = self.now_us()
        for group in self._groups.values():
            group.replica.peer_connected(now_us, node)
        if self._members.met(node):
            log.info("every first node was met")
        if self._members.may_take_part:
            self._pump_all()

    def on_lost(self, node: int) -> None:
        self._housekeeping.want_flush()
        for group in self._groups.values():
            group.replica.peer_lost(self.now_us(), node)
        if self._members.may_take_part:
            self._pump_all()

    def on_tail(self, node: int, tail: int) -> None:
        self._known.told(node, tail)

    def on_refused(self, node: int, text: str) -> None:
        self._refused(f"node {node} says: {text}")

    def _pump_all(self) -> None:
        for group in self._groups.values():
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
        disk = self._housekeeping.disk
        return {
            "node": self.settings.node_id,
            "damaged": self._damaged,
            "waits_for": self._members.to_meet,
            "disk": {"free_bytes": disk.free_bytes, "appends_refused": disk.full},
            "log": {
                "flushes": self._commit.flushes,
                "records": self._commit.records,
                "bytes": self._commit.bytes,
                "flush_seconds": self._commit.flush_seconds,
            },
            "pending_bytes": self._budget.held_bytes,
            "groups": [reads.group_status(group) for group in self._groups.values()],
        }

    def _checkpoint(self) -> Checkpoint:
        return checkpoint_of(self._groups.values(), self._wal, self._last_position)
