"""Runs a store node: its groups over one log, served to clients and peers.

Everything runs on one event loop; the log's writes and syncs run in the one thread of its group
commit. Groups touched in a loop iteration are pumped once at its end, so that requests of many
connections share values, messages and flushes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

import structlog

from peering.rpc.handshake import PeerRefusal
from peering.tls import PeerTls
from store_nodes.beats import EARLY_S, ROUND_US, next_multiple
from store_nodes.checkpoint.format import Checkpoint
from store_nodes.client import SnapshotImage
from store_nodes.commands import GROUPS_COUNTER
from store_nodes.machine.machine import Machine
from store_nodes.membership import VOTER
from store_nodes.node.aging import life_of, storage_settings
from store_nodes.node.boot import BootRecord
from store_nodes.node.client_service import ClientService
from store_nodes.node.group import Group
from store_nodes.node.housekeeping import Housekeeping
from store_nodes.node.known_peers import KnownPeers
from store_nodes.node.members import Members, first_of
from store_nodes.node.recovering import Recovering
from store_nodes.node.requests import Budget
from store_nodes.node.server import StoreServer
from store_nodes.node.start import (
    CheckpointDraft,
    GroupStart,
    Started,
    checkpoint_of,
    is_behind,
)
from store_nodes.settings import StoreNodeSettings
from store_nodes.storage.storage import Storage
from store_nodes.transport.peers import PeerNetwork
from store_nodes.wal.footer import BatchEntry
from store_nodes.wal.frame import Record
from store_nodes.wal.group_commit import GroupCommit
from store_nodes.wal.position import Position
from store_nodes.wal.recovery import Damage
from store_nodes.wire import NodeView, Remote

TICK_US = 25_000
"""Least time between two ticks of the groups."""

log = structlog.get_logger()


class Node:
    """The `Shell` of the groups, and the owner of all parts of a running node."""

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
        tls: PeerTls | None = None,
    ) -> None:
        """Prepare a node.

        `refused` and `fatal` end the process at once. `restart` begins an orderly stop, after which
        `restarting` says that the process starts again.
        """
        self.settings = settings
        self._started = started
        self._wal = started.wal
        self._commit = commit
        self._boot = boot
        self._known = known
        self._fatal = fatal
        self._refused = refused
        self._restart = restart
        self.restarting = False
        self._stopped = False
        self._peers: PeerNetwork | None = None
        self._server: StoreServer | None = None
        self._budget = Budget(settings.max_pending_bytes)
        self._touched: dict[int, Group] = {}
        self._pumping = False
        self._timer: asyncio.TimerHandle | None = None
        """The timer of the next tick; None before the start, after the stop, and in a tick."""
        self._tick_us = self._ticked_us = 0
        """Times of the next tick and of the last one."""
        self._next_disk_check_us = 0
        self._ticking = True
        self._tasks: set[asyncio.Task[None]] = set()
        self.groups = {
            group.id: group for group in started.groups(self, self._budget, self.now_us())
        }
        self.clients = ClientService(
            self.groups, self.summary, started.wal.read_slice, self.bad_batch
        )
        started.batches.on_damage = self.damaged
        self._last_position = started.last_position
        to_meet = [] if started.ever_ran or settings.join else settings.peers
        self.members = Members(settings, [node for node in to_meet if node not in known])
        for group in self.groups.values():
            self.members.put(group.id, group.replica.state.membership)
        self._announced: list[NodeView] = []
        self._learning: asyncio.Task[None] | None = None
        self._new_groups: set[int] = set()
        """Groups that were added and are not in a checkpoint yet: they wait."""
        self._recovering = Recovering(self, started, boot.boot, tls)
        self._storage = Storage(
            started.wal,
            started.checkpoints,
            started.pages,
            started.batches,
            lambda: {group.id: group.instances for group in self.groups.values()},
            started.segment_groups,
            settings=storage_settings(settings),
            on_damage=self._recovering.damage_found,
            on_fatal=fatal,
        )
        self._housekeeping = Housekeeping(
            started, commit, boot, known, self.draft_checkpoint, self._tell, self._age, fatal
        )

    # -- life ----------------------------------------------------------------------------------

    def connect(self, peers: PeerNetwork, server: StoreServer) -> None:
        """Set the transport, which needs the node first."""
        self._peers = peers
        # The settings name the first nodes only; the memberships that the start read name the
        # others.
        peers.change(self.members.addresses(), self.members.removed)
        self._server = server

    def start(self) -> None:
        """Apply the log's chosen values, then take part."""
        self._housekeeping.start()
        self._recovering.repair.start()
        if not self.members.may_take_part:
            log.info("the first start waits for every first node", nodes=self.members.to_meet)
        self.take_part()
        self._tick()

    async def stop(self) -> None:
        """Write a checkpoint, so that the next start is quick.

        The groups write nothing more, because there is no log for messages that arrive while
        connections close.
        """
        self._recovering.stop()
        await self._storage.close()
        self._ticking = False
        if self._timer is not None:
            self._timer.cancel()
        await self._housekeeping.stop()
        if not self.restarting:
            await self._housekeeping.checkpoint()
        self._stopped = True
        self._touched.clear()

    def want_checkpoint(self) -> None:
        """Have a checkpoint written soon."""
        self._housekeeping.want_checkpoint()

    async def start_again(self, images: Mapping[int, SnapshotImage]) -> None:
        """Write a checkpoint with these machines of peers, from which the process then starts.

        No checkpoint is written after it.
        """
        if self.restarting:
            return
        self.restarting = True
        await self._housekeeping.write_last(lambda: self._last_checkpoint(images))
        log.info("store node starts again")
        self._restart()

    def _last_checkpoint(self, images: Mapping[int, SnapshotImage]) -> Checkpoint:
        groups = self.groups.values()
        checkpoint = checkpoint_of(groups, self._wal, self._last_position, images)
        assert not is_behind(checkpoint, groups), "an install may never take a group back"
        return checkpoint

    def own(self, task: asyncio.Task[None]) -> None:
        """Keep a task; when it fails, the node ends."""
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)

    def refuse(self, reason: str) -> None:
        """End with the status that says that another start does not help."""
        self._refused(reason)

    @property
    def _takes_part(self) -> bool:
        return self.members.may_take_part and not self._recovering.holds_back and not self._stopped

    def take_part(self) -> None:
        """Let the groups run, if nothing holds them back."""
        if self._takes_part:
            for group in self.groups.values():
                self.touch(group)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fatal(f"{task.get_name()}: {error!r}")

    def _tick(self) -> None:
        """Tick the groups that are due, and set the timer of the next tick."""
        now_us, wall_us = self.now_us(), time.time_ns() // 1000
        self._timer = None
        self._ticked_us = now_us
        due_us = now_us
        if self._takes_part:
            due_us = self._tick_groups(now_us, wall_us)
        if now_us >= self._next_disk_check_us:
            self._next_disk_check_us = next_multiple(now_us, ROUND_US)
            self._housekeeping.disk.look()
            self._announce_nodes()
            self._learn_members()
        self._set_timer(max(min(due_us, self._next_disk_check_us), now_us + TICK_US))

    def _tick_groups(self, now_us: int, wall_us: int) -> int:
        """Tick the groups that are due; return the first time at which another one is.

        The others, and new groups, say in `_pump` when they are due.
        """
        first_us = now_us + ROUND_US
        for group in list(self.groups.values()):
            if group.id in self._new_groups:
                continue
            if group.next_tick_us <= now_us:
                group.tick(now_us, wall_us)
            else:
                first_us = min(first_us, group.next_tick_us)
        return first_us

    def _tick_by(self, due_us: int) -> None:
        """Tick at `due_us` or before, but not sooner after the last tick than `TICK_US`."""
        if self._timer is not None and due_us < self._tick_us:
            at_us = max(due_us, self._ticked_us + TICK_US)
            if at_us < self._tick_us:
                self._timer.cancel()
                self._set_timer(at_us)

    def _set_timer(self, at_us: int) -> None:
        if self._ticking:
            self._tick_us = at_us
            delay_s = max(0, at_us - self.now_us()) / 1e6 + EARLY_S
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._tick)

    # -- the groups' shell ---------------------------------------------------------------------

    def now_us(self) -> int:
        return time.monotonic_ns() // 1000

    def touch(self, group: Group) -> None:
        if group.id in self._new_groups or not self._takes_part:
            return
        self._touched[group.id] = group
        if not self._pumping:
            self._pumping = True
            asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        while self._touched:
            touched, self._touched = self._touched, {}
            for group in touched.values():
                group.pump()
                # The next tick is as soon as it may be: it looks at this group, due or not.
                soon = self._tick_us <= self._ticked_us + TICK_US
                group.next_tick_us = 0 if soon else group.due_us
                if not soon:
                    self._tick_by(group.next_tick_us)
        self._pumping = False

    def submit(
        self, records: Sequence[Record], must_sync: bool, done: Callable[[list[Position]], None]
    ) -> None:
        def persisted(positions: list[Position]) -> None:
            """Note the end of the durable records, and tell the group that they are durable."""
            self._last_position = positions[-1]
            done(positions)

        self._commit.submit(records, must_sync, persisted)

    def send(self, node: int, group: int, payload: bytes) -> None:
        if self._peers is not None:
            self._peers.send(node, group, (payload,))

    def read(self, position: Position) -> bytes:
        return self._wal.read(position)

    def damaged(self, damage: Damage) -> None:
        self.own(
            asyncio.create_task(self._storage.found_damaged([damage]), name="store-node-damage")
        )

    def _age(self) -> None:
        self._storage.housekeep(life_of(self.groups))

    def note_batch(self, entry: BatchEntry) -> None:
        """List an applied batch in the footer of the segment."""
        self._wal.note_batches((entry,))

    def checkpoint_wanted(self, group: Group, reason: str) -> None:
        log.info("checkpoint wanted", group=group.id, reason=reason)
        self._housekeeping.want_checkpoint()

    def leader_changed(self, group: Group) -> None:
        if self._server is not None:
            self._server.announce([group.view()])

    def queues_changed(self, group: Group, queues: Sequence[bytes]) -> None:
        """Tell the watches of changed queues."""
        self.clients.watches.changed(group.id, queues)

    def membership_changed(self, group: Group) -> None:
        """Tell the transport of new members: peers follow memberships as chosen, clients as
        applied.
        """
        if self.members.put(group.id, group.replica.state.membership) and self._peers is not None:
            self._peers.change(self.members.addresses(), self.members.removed)
        self._announce_nodes()
        self.touch(group)

    def _announce_nodes(self) -> None:
        """Tell clients of members as applied, which may be a little later than chosen."""
        views = list(self.clients.nodes())
        if views != self._announced and self._server is not None:
            self._announced = views
            self._server.announce([], views)

    def counter_set(self, group: Group, name: str, value: int) -> None:
        """Add groups, which a counter of group 0 counts; the new ones begin with its members."""
        if group.id != 0 or name != GROUPS_COUNTER:
            return
        added = [number for number in range(value) if number not in self.groups]
        for number in added:
            found = self._started.strays.pop(number, None) or GroupStart(Machine(number))
            found.machine = Machine(number, first_of(group.machine.membership))
            # From here on every checkpoint has the group; it runs once one does.
            self._new_groups.add(number)
            self.groups[number] = self._started.group(found, self, self._budget, self.now_us())
            self.members.put(number, found.machine.membership)
        if added:
            log.info("groups added", groups=added)
            self.own(asyncio.create_task(self._begin_groups(added), name="store-node-new-groups"))

    async def _begin_groups(self, added: Sequence[int]) -> None:
        if not await self._housekeeping.checkpoint():
            return  # the process starts again, and adds the groups again if it must
        self._new_groups.difference_update(added)
        now_us = self.now_us()
        for number in added:
            group = self.groups[number]
            for node in self._peers.connected() if self._peers is not None else ():
                group.replica.peer_connected(now_us, node)
            self.leader_changed(group)
            self.touch(group)

    def _learn_members(self) -> None:
        """Ask peers for the members of groups that were added while this node was away.

        A checkpoint of group 0 counts such a group. Until enough of its voters know its members,
        nobody leads it, and nobody tells them.
        """
        me = self.settings.node_id
        strangers = [
            group.id
            for group in self.groups.values()
            if not group.replica.state.membership.members and group.id not in self._new_groups
        ]
        at_home = self.groups[0].replica.state.membership.member(me)
        if not strangers or at_home is None or at_home.role != VOTER or not self._takes_part:
            return
        if self._learning is None or self._learning.done():
            self._learning = asyncio.create_task(
                self._begin_strangers(strangers), name="store-node-first-members"
            )
            self.own(self._learning)

    async def _begin_strangers(self, numbers: Sequence[int]) -> None:
        machines = await self._recovering.first_machines(numbers)
        begun: list[int] = []
        for number, machine in machines.items():
            old = self.groups[number]
            acceptor = old.replica.state.acceptor
            if old.replica.state.membership.members or acceptor.promised or acceptor.accepted:
                continue  # a leader exists by now, and tells more
            found = GroupStart(machine, instances=old.instances)
            self._new_groups.add(number)
            self.groups[number] = self._started.group(found, self, self._budget, self.now_us())
            self.members.put(number, machine.membership)
            begun.append(number)
        if begun:
            log.info("members learned", groups=begun)
            await self._begin_groups(begun)

    def install_needed(self, group: Group, source: int, oldest: int) -> None:
        self._recovering.installer.want(group.id, source, oldest)

    def voting_allowed(self, group: Group) -> None:
        self._recovering.repair.voting_allowed(group)
        self.touch(group)

    def disk_without_room(self) -> str | None:
        """Return why appends are refused for lack of disk space; None while they are accepted."""
        return self._housekeeping.disk.without_room()

    def disk_is_critical(self) -> bool:
        """Return whether values of peers are refused for lack of disk space."""
        return self._housekeeping.disk.critical

    def halt(self, reason: str) -> None:
        self._fatal(reason)

    # -- peers ---------------------------------------------------------------------------------

    @property
    def told_tail(self) -> int:
        """The synced end of the log that peers may be told."""
        return self._housekeeping.told_tail

    def _tell(self) -> None:
        if self._peers is not None:
            self._peers.tell()

    def meet(self, remote: Remote) -> PeerRefusal | None:
        """Accept a peer that proved its identity, or refuse it if it has less than it once had."""
        refusal = self._known.meet(remote)
        if refusal is not None:
            log.error("peer refused", peer=remote.node, reason=refusal.text)
        return refusal

    def on_message(self, node: int, group: int, payload: bytes) -> None:
        found = self.groups.get(group)
        if found is not None and group not in self._new_groups and self._takes_part:
            found.receive(node, payload)

    def on_connected(self, node: int) -> None:
        now_us = self.now_us()
        for group in self.groups.values():
            group.replica.peer_connected(now_us, node)
        if self.members.met(node):
            log.info("every first node was met")
        self.take_part()

    def on_lost(self, node: int) -> None:
        self._housekeeping.want_flush()
        for group in self.groups.values():
            group.replica.peer_lost(self.now_us(), node)
        self.take_part()

    def on_tail(self, node: int, tail: int) -> None:
        self._known.told(node, tail)

    def on_refused(self, node: int, text: str) -> None:
        self._refused(f"node {node} says: {text}")

    # -- clients (client_service.py) -----------------------------------------------------------

    def bad_batch(self, position: Position) -> None:
        """Report a batch whose bytes fail their checks or are gone; its reader was told that it is
        lost.
        """
        if position.length:
            end = position.offset + position.length
            self.damaged(Damage(position.segment, position.offset, end, "batch"))

    def summary(self) -> dict[str, object]:
        """Return the status without the groups, whose part takes longer the more they hold."""
        disk = self._housekeeping.disk
        return {
            "node": self.settings.node_id,
            "start": self._boot.boot,
            "peers": [
                {"node": node, "start": start} for node, start in self._known.starts().items()
            ],
            **self._recovering.status(),
            "tracing": self._recovering.repair.tracing or self._storage.excluding > 0,
            "waits_for": self.members.to_meet,
            "connected": sorted(self._peers.connected()) if self._peers is not None else [],
            "disk": {
                "path": str(self.settings.data_dir),
                "free_bytes": disk.free_bytes,
                "reserve_bytes": self.settings.disk_reserve_bytes,
                "appends_refused": disk.full,
            },
            "log": {
                "flushes": self._commit.flushes,
                "records": self._commit.records,
                "bytes": self._commit.bytes,
                "flush_seconds": self._commit.flush_seconds,
            },
            "storage": self._storage.status(),
            "pending_bytes": self._budget.held_bytes,
        }

    def draft_checkpoint(self) -> CheckpointDraft:
        return CheckpointDraft(self.groups.values(), self._wal, self._last_position)
