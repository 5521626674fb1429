"""The start of a node from its data directory, and the checkpoint that it leaves for the next
start.

A start reads

    1. the newest whole checkpoint: machines, promises, and the place in the log to continue from;
    2. the sidecars of sealed and compacted segments: the places of batches and instances (neither
       frames nor footers are read, and only tables of the sidecars);
    3. the frames from the checkpoint's place on: promises, accepts, marks of the chosen prefix.

The replicas apply chosen values that are not applied yet, once they run. If the log or the
checkpoints are damaged, everything that is whole is opened; `Started.damage` describes the rest.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from store_nodes.checkpoint.files import DiskFiles
from store_nodes.checkpoint.format import (
    Checkpoint,
    CheckpointBehind,
    CheckpointDamaged,
    GroupCheckpoint,
    Rest,
)
from store_nodes.checkpoint.store import CheckpointStore, Loaded
from store_nodes.client import SnapshotImage
from store_nodes.commands import GROUPS_COUNTER
from store_nodes.consensus.acceptor import Recovered
from store_nodes.consensus.ballot import CHOSEN
from store_nodes.consensus.replica import Replica
from store_nodes.consensus.state import ReplicaState
from store_nodes.machine.machine import Machine
from store_nodes.node.group import Group, Shell
from store_nodes.node.install import is_ahead
from store_nodes.node.requests import Budget, PendingCommands
from store_nodes.settings import StoreNodeSettings
from store_nodes.storage.batch_index import BatchIndex
from store_nodes.storage.checkpoint_tail import pack_tail, unpack_tail
from store_nodes.storage.damage import DamageReport, LostBatch, costs_votes, loses_index
from store_nodes.storage.instance_index import InstanceIndex
from store_nodes.storage.loading import IndexLoader
from store_nodes.storage.pages import Pages
from store_nodes.wal.batch_frame import entry_at
from store_nodes.wal.disk import Disk, OsDisk
from store_nodes.wal.footer import BatchEntry
from store_nodes.wal.frame import HEADER_BYTES, FrameKind, Record
from store_nodes.wal.log import WriteAheadLog
from store_nodes.wal.position import Position
from store_nodes.wal.recovery import Recovery, RecoveryState
from store_nodes.wal.segment import FIRST_COMPACTED

log = structlog.get_logger()


@dataclass(slots=True)
class GroupStart:
    """The state found for one group."""

    machine: Machine
    promised: int = 0
    chosen: int = 0
    accepted: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    positions: dict[int, Position] = field(default_factory=dict)
    instances: InstanceIndex = field(default_factory=InstanceIndex)

    def replay(self, record: Record, position: Position) -> None:
        """Replay a frame of the log; frames come in the order written, and the last of an instance
        counts.
        """
        match record.kind:
            case FrameKind.PROMISE:
                self.promised = max(self.promised, record.ballot)
            case FrameKind.CHOSEN:
                self.chosen = max(self.chosen, record.instance)
            case FrameKind.ACCEPT | FrameKind.LEARN:
                learned = record.kind is FrameKind.LEARN
                if not learned:
                    self.promised = max(self.promised, record.ballot)
                self.instances.put(record.instance, position)
                if record.instance >= self.machine.applied:
                    ballot = CHOSEN if learned else record.ballot
                    self.accepted[record.instance] = (ballot, record.payload)
                    self.positions[record.instance] = position


@dataclass(slots=True)
class Started:
    """The open storage of a node."""

    settings: StoreNodeSettings
    wal: WriteAheadLog
    checkpoints: CheckpointStore
    batches: BatchIndex
    found: dict[int, GroupStart]
    pages: Pages
    damage: DamageReport | None = None
    segment_groups: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """The (group, last instance) of each group with records, by raw sealed segment."""
    strays: dict[int, GroupStart] = field(default_factory=dict)
    """Groups with records in the log that neither the settings nor the checkpoint name."""
    last_position: Position | None = None
    """The position of the last record found."""
    replayed_bytes: int = 0
    """Bytes of the log above the checkpoint, roughly: every start reads them again."""

    @property
    def ever_ran(self) -> bool:
        """Whether something was written in this directory before, so that the node may have
        promised.
        """
        return bool(self.damage or self.last_position) or any(
            found.promised or found.machine.applied for found in self.found.values()
        )

    def instances(self, group: int) -> InstanceIndex | None:
        found = self.found.get(group)
        return found.instances if found is not None else None

    def is_live(self, batch: LostBatch) -> bool:
        """Return whether a reader may still ask for part of a batch, as far as the machines know
        now.
        """
        return any(
            found.machine.batch_live(batch.queue, batch.base, batch.messages, staged=batch.staged)
            for found in self.found.values()
        )

    def groups(self, shell: Shell, budget: Budget, now_us: int) -> Iterator[Group]:
        """Yield every group; those of a node that may have lost votes do not vote."""
        for found in self.found.values():
            yield self.group(found, shell, budget, now_us)

    def group(self, found: GroupStart, shell: Shell, budget: Budget, now_us: int) -> Group:
        """Return one group, ready to run."""
        group = found.machine.group
        recovered = Recovered(found.promised, found.chosen, found.machine.applied, found.accepted)
        replica = Replica(
            ReplicaState(
                group,
                self.settings.node_id,
                found.machine.membership,
                recovered,
                random.Random(),
                now_us=now_us,
                voting=self.damage is None or not self.damage.votes,
                preferred=found.machine.preferred_leader or None,
            )
        )
        return Group(
            replica,
            found.machine,
            shell,
            PendingCommands(budget),
            self.batches,
            found.instances,
            found.positions,
        )


def directories(settings: StoreNodeSettings) -> tuple[Path, Path]:
    """Return the directories of the checkpoints and of the log."""
    return settings.data_dir / "checkpoints", settings.data_dir / "wal"


def load(
    settings: StoreNodeSettings, synced: Position | None = None, *, disk: Disk | None = None
) -> Started:
    """Open the data directory; raises DirectoryLocked, IdentityMismatch, CheckpointBehind and
    OSError.

    The log was synced at least up to `synced`, even if it and the checkpoints say less.
    """
    disk = disk or OsDisk()
    checkpoint_dir, wal_dir = directories(settings)
    for directory in (checkpoint_dir, wal_dir):
        disk.make_directory(directory)
    checkpoints = CheckpointStore(DiskFiles(checkpoint_dir, disk))
    damage: list[str] = []
    loaded = _load_checkpoint(checkpoints, damage)
    start = Position(0, 0, 0)
    if loaded is not None:
        start = Position(loaded.checkpoint.wal_segment, loaded.checkpoint.wal_offset, 0)
    wal, recovery = WriteAheadLog.open(
        wal_dir,
        cluster_uid=settings.cluster_uid,
        node_id=settings.node_id,
        disk=disk,
        segment_bytes=settings.segment_bytes,
        start_at=max(one for one in (start, synced) if one is not None)
        if loaded is not None or synced is not None
        else None,
    )
    pages = Pages(wal)
    known = -1
    while len(wal.damages.all()) != known:
        # Frames may show damage to records that were indexed before; then everything is read once
        # more.
        known = len(wal.damages.all())
        batches = BatchIndex(pages, wal.damages.add)
        machines = _machines(settings, loaded)
        started = Started(settings, wal, checkpoints, batches, machines, pages)
        wal.forget_instances(_passed(machines, loaded))
        oldest = wal.compacted.oldest
        for group, found in started.found.items():
            found.instances = InstanceIndex(oldest.get(group, 0))
        loader = IndexLoader(wal, pages, started.batches)
        loader.segments((*recovery.compacted, *recovery.segments[:-1]), started.instances)
        _restore_tail(started, loaded, loader)
        _replay(started, recovery, start if loaded or not damage else None, loader)
    _forget_truncated(started)
    started.segment_groups = loader.groups
    above = sum(segment >= start.segment for segment in recovery.segments[:-1])
    started.replayed_bytes = above * settings.segment_bytes + wal.tail.offset
    # An earlier release called an index repaired whose rows it still used: the peers are asked.
    again = [one for one in wal.damages.all() if one.repaired and loses_index(one)]
    if recovery.state is RecoveryState.DAMAGED or damage or again:
        texts = [
            f"segment {one.segment} at {one.offset}: {one.reason}"
            for one in (*wal.damages.open(), *again)
        ]
        checkpoint_start = start if loaded is not None else None
        started.damage = DamageReport(
            votes=bool(damage)
            or any(costs_votes(one, checkpoint_start) for one in wal.damages.open()),
            texts=(*damage, *texts),
            unindexed=tuple(loader.unindexed),
            lost=loader.lost(started.is_live),
        )
    text = str(started.damage) if started.damage else None
    log.info("log opened", state=recovery.state.value, damage=text, start=tuple(start))
    return started


class CheckpointDraft:
    """The next checkpoint, taken group by group, because a group's state can be tens of megabytes.

    The next start reads the log from the earliest record that was not applied when the draft was
    begun. If all were applied, it reads from the last record that the event loop knew to be durable
    (the log itself may be ahead of that). Values that are applied between then and `rest` do no
    harm: a start recognises instances that a group has applied, and batches that are listed
    already.

    If an image of a group is given that is ahead of its machine, the image takes the machine's
    place. The group's promise, its accepted values (the start is that of this node's log) and the
    mark of its progress stay its own in either case.
    """

    def __init__(
        self,
        groups: Iterable[Group],
        wal: WriteAheadLog,
        last_position: Position | None,
        images: Mapping[int, SnapshotImage] | None = None,
    ) -> None:
        self.groups = list(groups)
        self._wal = wal
        self._images = images or {}
        needed = [position for group in self.groups for position in group.positions.values()]
        if last_position is not None:
            needed.append(last_position)
        self._start = min(needed, default=Position(0, HEADER_BYTES, 0))
        # Group 0 has the number of groups. It is copied in the turn in which they are listed: a
        # group that is added later is in neither, and the log adds it again.
        self._counting = {group.id: self._copy(group) for group in self.groups if group.id == 0}

    def of(self, group: Group) -> GroupCheckpoint:
        """Return one group as it is now, or was at some time since the draft was begun."""
        return self._counting.pop(group.id, None) or self._copy(group)

    def _copy(self, group: Group) -> GroupCheckpoint:
        acceptor, machine = group.replica.state.acceptor, group.machine
        image = self._images.get(group.id)
        if image is not None and is_ahead(acceptor, image.applied):
            upto, raw = image.applied, image.raw
        else:
            self._assert_listed(machine)
            upto, raw = acceptor.delivered, machine.state_snapshot()
        return GroupCheckpoint(group.id, acceptor.promised, upto, raw, machine.applied)

    def _assert_listed(self, machine: Machine) -> None:
        """Check that the checkpoint has every group that it counts.

        A start would have no members for a group that is counted and missing.
        """
        counted = machine.counters.get(GROUPS_COUNTER, 0) if machine.group == 0 else 0
        assert counted <= 1 + max(group.id for group in self.groups), (
            f"{counted} groups are counted, and not all of them are in the checkpoint"
        )

    def rest(self) -> Rest:
        """Return the other fields, after the last group: batches that a group has applied are in
        here or in a footer.
        """
        tail, others = pack_tail(self._wal.unfootered_batches())
        return Rest(self._start.segment, self._start.offset - HEADER_BYTES, tail, others)


def checkpoint_of(
    groups: Iterable[Group],
    wal: WriteAheadLog,
    last_position: Position | None,
    images: Mapping[int, SnapshotImage] | None = None,
) -> Checkpoint:
    """Return a whole checkpoint, taken in one turn."""
    draft = CheckpointDraft(groups, wal, last_position, images)
    return Checkpoint(tuple(draft.of(group) for group in draft.groups), *draft.rest())


def is_behind(checkpoint: Checkpoint, groups: Iterable[Group]) -> bool:
    """Return whether a start from this checkpoint would forget something of a group's present
    state.
    """
    held = {one.group: one for one in checkpoint.groups}
    return any(
        (one := held.get(group.id)) is None
        or one.promised < group.replica.state.acceptor.promised
        or one.chosen_upto < group.replica.state.acceptor.delivered
        or one.reached < group.machine.applied
        for group in groups
    )


def _load_checkpoint(checkpoints: CheckpointStore, damage: list[str]) -> Loaded | None:
    try:
        loaded = checkpoints.load()
    except CheckpointDamaged as error:
        damage.append(str(error))
        return None
    if loaded is not None:
        for text in loaded.skipped:
            log.warning("a checkpoint was skipped", reason=text)
    return loaded


def _machines(settings: StoreNodeSettings, loaded: Loaded | None) -> dict[int, GroupStart]:
    first = settings.first_membership()
    found = {group: GroupStart(Machine(group, first)) for group in range(settings.groups)}
    for group in loaded.checkpoint.groups if loaded is not None else ():
        machine = Machine.restore(group.group, group.machine, first)
        if machine.applied < group.reached:
            raise CheckpointBehind(
                f"the checkpoint has group {group.group} at instance {machine.applied}, and this "
                f"node was at {group.reached}: it would forget values that it voted for"
            )
        found[group.group] = GroupStart(machine, group.promised, group.chosen_upto)
    # The members of a group that was added before this node came are learned with an install.
    for group_id in range(settings.groups, found[0].machine.counters.get(GROUPS_COUNTER, 0)):
        found.setdefault(group_id, GroupStart(Machine(group_id)))
    return found


def _passed(machines: Mapping[int, GroupStart], loaded: Loaded | None) -> dict[int, int]:
    """Return the groups that an install took past instances, and the first instance after those.

    The log may hold accepted values of these instances, and nobody here knows which were chosen:
    told to a peer as chosen, one that was not would make the group's nodes differ for ever. A
    checkpoint of release 0.2.0 does not say how far the node itself was.
    """
    return {
        one.group: applied
        for one in (loaded.checkpoint.groups if loaded is not None else ())
        if (applied := machines[one.group].machine.applied) > one.reached
    }


def _restore_tail(started: Started, loaded: Loaded | None, loader: IndexLoader) -> None:
    """Note batches that a checkpoint lists and no footer does, so that the next footer lists
    them.
    """
    if loaded is not None:
        checkpoint = loaded.checkpoint
        listed = unpack_tail(checkpoint.tail, checkpoint.tail_of_others)
        started.wal.note_batches(loader.entries(listed))


def _replay(
    started: Started, recovery: Recovery, start: Position | None, loader: IndexLoader
) -> None:
    """Replay the frames from the checkpoint's segment on.

    The last segment is read whole, for the instance index; a machine's applied instance shows which
    values the checkpoint covers. If a checkpoint was lost, only the last segment is read: nothing
    can be applied, and the whole log would not fit into memory.
    """
    first = recovery.segments[-1]
    if start is not None:
        first = min(start.segment, first)
    batches: list[BatchEntry] = []
    for record, position in recovery.frames(first, 0):
        started.last_position = position
        if record.kind is FrameKind.BATCH:
            batches.append(entry_at(record.payload, position))
            continue
        found = started.found.get(record.group)
        if found is None:
            oldest = started.wal.compacted.oldest.get(record.group, 0)
            found = started.strays.setdefault(
                record.group,
                GroupStart(Machine(record.group), instances=InstanceIndex(oldest)),
            )
        found.replay(record, position)
    started.wal.note_batches(loader.entries(batches))
    damaged = [one.segment for one in started.wal.damages.all() if one.segment < FIRST_COMPACTED]
    for found in (*started.found.values(), *started.strays.values()):
        found.instances.forget_attached(recovery.segments[-1] - 1)
        if damaged:
            found.instances.forget_upto(max(damaged))


def _forget_truncated(started: Started) -> None:
    for found in started.found.values():
        for info in found.machine.queues():
            started.batches.truncate(info.queue, info.offsets.first, found.machine.kept(info.queue))
    for queue in started.batches.queues():
        if any(found.machine.is_deleted(queue) for found in started.found.values()):
            started.batches.drop(queue)
