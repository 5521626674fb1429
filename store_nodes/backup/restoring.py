"""The data directory of a node of a new cluster, made of a copy of another.

A node of it must know the same as after an install: machines, and the live batches in its log. It
must not know anything of the old cluster's votes, and a copy has nothing of them: so all nodes of
the new cluster begin with the same machines, with nothing promised and nothing accepted, under a
cluster uid that no node ever had. Old nodes cannot talk to them.

Offsets that the old cluster gave after the copy are not given again: they may be in ids and ack ids
that clients hold, in tables, and in the memory of receivers. So each queue ends where its copy
does, and is followed by one that begins further on, as if the offsets between had been truncated.

    marked as refused → log with the batches, synced → checkpoint with the machines → not marked

A start before the last step is refused, and the next attempt begins with an empty directory: a log
without its checkpoint would be a node that knows of nothing, and votes.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

from store_nodes.backup.coverage import first_gap
from store_nodes.backup.held import Held
from store_nodes.backup.packs import Pack, read_batches
from store_nodes.checkpoint.files import DiskFiles
from store_nodes.checkpoint.format import Checkpoint, GroupCheckpoint
from store_nodes.checkpoint.store import CheckpointStore
from store_nodes.commands import GROUPS_COUNTER
from store_nodes.machine import snapshot
from store_nodes.machine.digest import DIGEST_BYTES
from store_nodes.machine.machine import Machine
from store_nodes.machine.queues import Queue
from store_nodes.node.boot import REFUSED_NAME, BootRecord
from store_nodes.queue_id import QueueId
from store_nodes.settings import StoreNodeSettings
from store_nodes.storage.checkpoint_tail import pack_tail
from store_nodes.wal.batch_frame import batch_record, moved
from store_nodes.wal.disk import OsDisk
from store_nodes.wal.footer import STAGED, BatchEntry
from store_nodes.wal.log import WriteAheadLog

NOT_FINISHED = "a restore into this directory was begun and not finished; run it again"
WRITE_BYTES = 4 * 1024 * 1024
SKIP_OFFSETS = 1 << 24

Counters = Mapping[str, int]


class NotRestorable(Exception):
    """The copy does not go into that directory; the text says why. Nothing was changed."""


@dataclass(slots=True)
class Copy:
    """A copy of a store. `machines` are snapshots, by group; `cluster_uid` is the old one's."""

    cluster_uid: bytes
    machines: Mapping[int, bytes]
    packs: tuple[Pack, ...]
    restored: dict[int, Machine] = field(default_factory=dict)
    homes: dict[bytes, int] = field(default_factory=dict)
    """The group of each queue."""

    def open(self) -> None:
        """Read the machines; raises BadSnapshot."""
        for group, raw in self.machines.items():
            machine = self.restored[group] = Machine.restore(group, raw)
            self.homes |= {info.queue: group for info in machine.queues()}

    async def gap(self) -> str | None:
        """Return a description of a live batch that is in none of the packs, or None.

        Raises OSError.
        """
        held = Held()
        for pack in self.packs:
            for entry in pack.entries():
                held.add(entry)
        for machine in self.restored.values():
            found = await first_gap(machine, held)
            if found is not None:
                return found
        return None

    def is_live(self, entry: BatchEntry) -> bool:
        group = self.homes.get(entry.queue)
        return group is not None and self.restored[group].batch_live(
            entry.queue, entry.base_offset, entry.messages, staged=entry.flags == STAGED
        )

    def batches(self) -> Iterator[tuple[int, BatchEntry, bytes]]:
        """Yield all live batches, each once and with its group; staged ones come before the
        messages that were released from them. Raises PackDamaged, OSError.
        """
        seen: set[tuple[bytes, int, int]] = set()
        for staged in (True, False):
            for pack in self.packs:

                def wanted(entry: BatchEntry, staged: bool = staged) -> bool:
                    return (entry.flags == STAGED) == staged and self.is_live(entry)

                for entry, batch in read_batches(pack, wanted):
                    name = entry.queue, entry.flags == STAGED, entry.base_offset
                    if name not in seen:
                        seen.add(name)
                        yield self.homes[entry.queue], entry, batch


def restore_node(
    settings: StoreNodeSettings,
    copy: Copy,
    counters: Callable[[Counters], Counters],
    tell: Callable[[str], None],
    *,
    skip_offsets: int = SKIP_OFFSETS,
) -> None:
    """Fills `settings.data_dir`, which must be empty or not be there. `counters` says what becomes
    of those of group 0; `skip_offsets` is more than any partition took since the copy. `copy` is
    open. All first nodes have to be given the same; where they were not, their digests differ.

    Raises NotRestorable, PackDamaged, OSError.
    """
    _check(settings, copy)
    _check_groups(settings, copy.restored)
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    for left in settings.data_dir.iterdir():
        if left.name != REFUSED_NAME:
            shutil.rmtree(left) if left.is_dir() else left.unlink()
    BootRecord(settings.data_dir).refuse(NOT_FINISHED)
    tail, log_end = _write_log(settings, copy, tell)
    groups = tuple(
        GroupCheckpoint(
            group, 0, machine.applied, _made_new(machine, settings, counters, skip_offsets)
        )
        for group, machine in sorted(copy.restored.items())
    )
    checkpoint_dir = settings.data_dir / "checkpoints"
    checkpoint_dir.mkdir()
    checkpoints = CheckpointStore(DiskFiles(checkpoint_dir))
    checkpoints.write(Checkpoint(groups, *log_end, *tail))
    disk = OsDisk()
    disk.sync_directory(settings.data_dir)
    disk.remove(settings.data_dir / REFUSED_NAME)
    disk.sync_directory(settings.data_dir)


def _check(settings: StoreNodeSettings, copy: Copy) -> None:
    if settings.cluster_uid == copy.cluster_uid:
        raise NotRestorable(
            "PACKETBOAT_CLUSTER_UID is that of the old cluster: what is restored is a new one, so "
            "give it a new uid at every process"
        )
    if settings.join or settings.node_id not in settings.peers:
        raise NotRestorable(f"node {settings.node_id} is none of the first nodes")
    directory = settings.data_dir
    used = directory.exists() and any(directory.iterdir())
    if used and BootRecord(directory).refusal != NOT_FINISHED:
        raise NotRestorable(f"{directory} is not empty")


def _check_groups(settings: StoreNodeSettings, machines: Mapping[int, Machine]) -> None:
    groups = max(settings.groups, machines[0].counters.get(GROUPS_COUNTER, 0))
    if sorted(machines) != list(range(groups)):
        raise NotRestorable(
            f"the copy has {len(machines)} groups, and by PACKETBOAT_STORE_GROUPS there are "
            f"{groups}: set it as it was"
        )


def _write_log(
    settings: StoreNodeSettings, copy: Copy, tell: Callable[[str], None]
) -> tuple[tuple[bytes, bytes], tuple[int, int]]:
    """Return (the checkpoint's tail, (segment, offset) of the end of the log).

    All of it is synced.
    """
    wal_dir = settings.data_dir / "wal"
    wal_dir.mkdir()
    wal, _ = WriteAheadLog.open(
        wal_dir,
        cluster_uid=settings.cluster_uid,
        node_id=settings.node_id,
        segment_bytes=settings.segment_bytes,
    )
    written_bytes = 0
    try:
        for some in _in_writes(copy.batches()):
            positions = wal.write([batch_record(*one) for one in some])
            wal.note_batches(
                moved(entry, position, len(batch))
                for (_, entry, batch), position in zip(some, positions, strict=True)
            )
            wal.sync()
            written_bytes += sum(len(batch) for _, _, batch in some)
        tell(f"node {settings.node_id}: {written_bytes} bytes written")
        end = wal.tail
        return pack_tail(wal.unfootered_batches()), (end.segment, end.offset)
    finally:
        wal.close()


_Batch = tuple[int, BatchEntry, bytes]


def _in_writes(batches: Iterable[_Batch]) -> Iterator[list[_Batch]]:
    some: list[_Batch] = []
    held_bytes = 0
    for one in batches:
        some.append(one)
        held_bytes += len(one[2])
        if held_bytes >= WRITE_BYTES:
            yield some
            some, held_bytes = [], 0
    if some:
        yield some


def _made_new(
    machine: Machine,
    settings: StoreNodeSettings,
    counters: Callable[[Counters], Counters],
    skip_offsets: int,
) -> bytes:
    """Return the machine for the new cluster: with its own members, and without a wish for
    a leader.
    """
    state = snapshot.decode(machine.state_snapshot())
    for queue in [queue for queue in state.queues if not queue.sealed]:
        state.queues.append(_followed(state.group, queue, skip_offsets))
    raised = dict(counters(state.counters)) if state.group == 0 else state.counters
    new = dataclasses.replace(
        state, membership=settings.first_membership(), counters=raised, preferred_leader=0
    )
    # A history of its own from here on: who began with anything else has another digest.
    own = blake2b(snapshot.encode(new), digest_size=DIGEST_BYTES).digest()
    return snapshot.encode(dataclasses.replace(new, digest=own))


def _followed(group: int, queue: Queue, skip_offsets: int) -> Queue:
    """Return the queue that follows an open queue in the same group; that one is sealed."""
    name = QueueId.unpack(queue.queue)
    after = name._replace(generation=name.generation + 1).pack()
    queue.sealed, queue.successors = True, ((group, after),)
    follower = Queue(after, queue.end, queue.meta)
    follower.first = follower.end = queue.end + skip_offsets
    return follower
