"""A store node's storage on a simulated disk, under a tiny state machine that is easy to be sure
of: batches whose bytes follow from their place, stages, releases, truncations."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import msgspec

from store_nodes.checkpoint.format import Checkpoint, GroupCheckpoint
from store_nodes.checkpoint.store import CheckpointStore
from store_nodes.storage.batch_index import BatchIndex
from store_nodes.storage.checkpoint_tail import pack_tail, unpack_tail
from store_nodes.storage.damage import DamageReport, LostBatch
from store_nodes.storage.instance_index import InstanceIndex
from store_nodes.storage.life import Life, QueueLife
from store_nodes.storage.loading import IndexLoader
from store_nodes.storage.pages import Pages
from store_nodes.storage.rows import OFFSETS, STAGES
from store_nodes.storage.storage import Storage, StorageSettings
from store_nodes.storage.victims import Rules
from store_nodes.wal.batch_frame import batch_record, entry_at, moved
from store_nodes.wal.footer import APPENDED, STAGED, BatchEntry
from store_nodes.wal.frame import HEADER_BYTES, FrameKind, Record
from store_nodes.wal.position import Position
from store_nodes.wal.recovery import Damage
from tests.unit.checkpoint.power_loss_files import PowerLossFiles
from tests.unit.wal.wal_support import SEGMENT_BYTES, SimDisk, open_log

GROUP = 1
RULES = Rules(segment_bytes=SEGMENT_BYTES, min_raw=1, max_raw=3, measure_every_s=0.0)
SETTINGS = StorageSettings(RULES, compaction_rate=1 << 40, scrub_rate=0, remove_after_s=0.0)


def queue_id(number: int) -> bytes:
    return bytes([number]) * 25


def body(queue: bytes, space: int, base: int, size: int) -> bytes:
    """Return the bytes of the batch at that place: no two are the same, and none has a zero."""
    seed = b"%d.%d.%d|" % (queue[0], space, base)
    return (seed * (size // len(seed) + 1))[:size]


@dataclass
class Queue:
    """`batches`: base → (messages, bytes); `stages` likewise; `fate` of each stage number: None
    staged, -1 discarded, else its offset. `runs`: base → (stage base, indices). `times`: of the
    batches and runs, by base."""

    first: int = 0
    kept: tuple[int, ...] = ()
    end: int = 0
    stage_end: int = 0
    batches: dict[int, tuple[int, int]] = field(default_factory=dict)
    stages: dict[int, tuple[int, int]] = field(default_factory=dict)
    runs: dict[int, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    fate: dict[int, int | None] = field(default_factory=dict)
    times: dict[int, int] = field(default_factory=dict)

    def wants(self, offset: int) -> bool:
        return self.first <= offset < self.end or offset in self.kept

    def staged_live(self, base: int, messages: int) -> bool:
        fates = (self.fate[number] for number in range(base, base + messages))
        return any(fate is None or (fate >= 0 and self.wants(fate)) for fate in fates)


@dataclass
class State:
    """The state that the log decides; checkpoints have it as msgpack."""

    applied: int = 0
    queues: dict[int, Queue] = field(default_factory=dict)
    deleted: list[int] = field(default_factory=list)


class Command(msgspec.Struct, array_like=True):
    """One instance each; a batch of `size` bytes stands behind it in the value."""

    op: str
    queue: int
    messages: int = 0
    size: int = 0
    numbers: tuple[int, ...] = ()
    upto: int = 0


_encoder = msgspec.msgpack.Encoder()
_commands = msgspec.msgpack.Decoder(Command)
_states = msgspec.msgpack.Decoder(State)


class Store:
    """Everything of it; `restart` is what a process does when it starts."""

    def __init__(self, seed: int = 0, settings: StorageSettings = SETTINGS) -> None:
        self.disk = SimDisk(seed)
        self.files = PowerLossFiles()
        self.settings = settings
        self.reports: list[DamageReport] = []
        self.fatal: list[str] = []
        self.restart()

    # -- life ----------------------------------------------------------------------------------

    def restart(self) -> None:
        self.checkpoints = CheckpointStore(self.files)
        loaded = self.checkpoints.load()
        start = Position(0, 0, 0)
        self.state = State()
        if loaded is not None:
            found = loaded.checkpoint
            start = Position(found.wal_segment, found.wal_offset, 0)
            self.state = _states.decode(found.groups[0].machine)
        self.log, recovery = open_log(self.disk, start if loaded else None)
        self.pages = Pages(self.log, cache_bytes=20_000)
        self.batches = BatchIndex(self.pages, self.log.damages.add)
        self.instances = InstanceIndex(self.log.compacted.oldest.get(GROUP, 0))
        loader = IndexLoader(self.log, self.pages, self.batches)
        loader.segments(
            (*recovery.compacted, *recovery.segments[:-1]), lambda group: self.instances
        )
        if loaded is not None:
            tail = unpack_tail(loaded.checkpoint.tail, loaded.checkpoint.tail_of_others)
            self.log.note_batches(loader.entries(tail))
        self.pending: dict[int, tuple[Position, bytes]] = {}
        self.last: Position | None = None
        self.next = self.state.applied
        copied: list[BatchEntry] = []
        for record, position in recovery.frames(min(start.segment, recovery.segments[-1])):
            self.last = position
            if record.kind is FrameKind.BATCH:
                copied.append(entry_at(record.payload, position))
                continue
            if record.kind is not FrameKind.ACCEPT:
                continue
            self.instances.put(record.instance, position)
            if record.instance >= self.state.applied:
                self.pending[record.instance] = (position, record.payload)
                self.next = max(self.next, record.instance + 1)
        self.log.note_batches(loader.entries(copied))
        self.instances.forget_attached(recovery.segments[-1] - 1)
        for name, queue in self.state.queues.items():
            self.batches.truncate(queue_id(name), queue.first, queue.kept)
        for name in self.state.deleted:
            self.batches.drop(queue_id(name))
        self.recovery, self.loader = recovery, loader
        self.storage = Storage(
            self.log,
            self.checkpoints,
            self.pages,
            self.batches,
            lambda: {GROUP: self.instances},
            loader.groups,
            settings=self.settings,
            on_damage=self.reports.append,
            on_fatal=self.fatal.append,
        )
        self.unreadable: list[Damage] = []
        self.batches.on_damage = self.unreadable.append
        self.apply()

    def cut(self) -> None:
        self.files.restart(self.disk.luck)
        self.disk.cut()
        self.restart()

    def kill(self) -> None:
        self.disk.kill()
        self.restart()

    def compact(self, rounds: int = 2) -> None:
        async def run() -> None:
            for _ in range(rounds):
                await self.storage.run_round(self.life())

        asyncio.run(run())

    def life(self) -> Life:
        return Life(
            self._queue_life,
            lambda queue, base, messages: self.state.queues[queue[0]].staged_live(base, messages),
            lambda group: self.state.applied,
            lambda group: self.state.applied,
        )

    def _queue_life(self, queue: bytes) -> QueueLife | None:
        found = self.state.queues.get(queue[0])
        if found is None:
            return None if queue[0] in self.state.deleted else QueueLife(GROUP, 0, ())
        return QueueLife(GROUP, found.first, found.kept)

    def checkpoint(self) -> None:
        needed = [position for position, _ in self.pending.values()]
        needed += [self.last] if self.last else []
        at = min(needed, default=Position(0, HEADER_BYTES, 0))
        group = GroupCheckpoint(GROUP, 0, self.state.applied, _encoder.encode(self.state))
        tail, others = pack_tail(self.log.unfootered_batches())
        start = at.offset - HEADER_BYTES
        self.checkpoints.write(Checkpoint((group,), at.segment, start, tail, others))

    # -- the log -------------------------------------------------------------------------------

    def do(self, command: Command, *, apply: bool = True) -> None:
        """Log it, synced, and apply it (or with the next one that is)."""
        head = _encoder.encode(command)
        value = len(head).to_bytes(4, "little") + head
        if command.size:
            # Where the batch will be is known once all before it is applied.
            self.apply()
            queue = self.state.queues.get(command.queue, Queue())
            space = STAGES if command.op == "stage" else OFFSETS
            base = queue.stage_end if space == STAGES else queue.end
            value += body(queue_id(command.queue), space, base, command.size)
        record = Record(FrameKind.ACCEPT, GROUP, self.next, 1 << 16, value)
        (position,) = self.log.write([record])
        self.log.sync()
        self.last = position
        self.pending[self.next] = (position, value)
        self.next += 1
        if apply:
            self.apply()

    def fill_segments(self, count: int) -> None:
        """Write until that number of segments was begun, without applying anything."""
        upto = self.log.tail.segment + count
        while self.log.tail.segment < upto:
            (self.last,) = self.log.write([Record(FrameKind.PROMISE, GROUP, 0, 1, bytes(2000))])
            self.log.sync()

    def apply(self) -> None:
        while self.state.applied in self.pending:
            instance = self.state.applied
            position, value = self.pending.pop(instance)
            self.instances.put(instance, position)
            size = int.from_bytes(value[:4], "little")
            command = _commands.decode(value[4 : 4 + size])
            inside = Position(
                position.segment, position.offset + 4 + size, position.length - 4 - size
            )
            self.state.applied += 1
            self._apply(command, inside, instance)

    def _apply(self, command: Command, at: Position, time_us: int) -> None:
        name, index = queue_id(command.queue), self.batches
        if command.op == "delete":
            self.state.queues.pop(command.queue, None)
            self.state.deleted.append(command.queue)
            index.drop(name)
            return
        if command.queue in self.state.deleted:
            return
        queue = self.state.queues.setdefault(command.queue, Queue())
        if command.op == "append":
            base, queue.end = queue.end, queue.end + command.messages
            queue.batches[base] = (command.messages, command.size)
            queue.times[base] = time_us
            self._note(BatchEntry(name, base, command.messages, time_us, at))
        elif command.op == "stage":
            base, queue.stage_end = queue.stage_end, queue.stage_end + command.messages
            queue.stages[base] = (command.messages, command.size)
            queue.fate.update(dict.fromkeys(range(base, queue.stage_end)))
            self._note(BatchEntry(name, base, command.messages, time_us, at, STAGED))
        elif command.op == "release":
            self._release(name, queue, command.numbers, time_us)
        elif command.op == "discard":
            for number in command.numbers:
                if queue.fate.get(number, -1) is None:
                    queue.fate[number] = -1
        elif command.op == "truncate":
            queue.kept = tuple(n for n in command.numbers if queue.wants(n) and n < command.upto)
            queue.first = max(queue.first, min(command.upto, queue.end))
            index.truncate(name, queue.first, queue.kept)

    def _release(self, name: bytes, queue: Queue, numbers: tuple[int, ...], time_us: int) -> None:
        for number in numbers:
            if queue.fate.get(number, -1) is not None:
                continue
            base = max(one for one in queue.stages if one <= number)
            queue.fate[number] = offset = queue.end
            queue.end += 1
            queue.runs[offset] = (base, (number - base,))
            queue.times[offset] = time_us
            self._note(self.batches.released_entry(name, offset, time_us, base, (number - base,)))

    def _note(self, entry: BatchEntry) -> None:
        if self.batches.add_entry(entry):
            self.log.note_batches([entry])

    def repair(self, lost: list[LostBatch]) -> None:
        """Write the lost batches anew, as if a peer had given them."""
        for one in lost:
            queue = self.state.queues[one.queue[0]]
            space = STAGES if one.staged else OFFSETS
            messages, size = (queue.stages if one.staged else queue.batches)[one.base]
            assert messages == one.messages
            flags = STAGED if one.staged else APPENDED
            entry = BatchEntry(one.queue, one.base, messages, 1, Position(0, 0, 0), flags)
            batch = body(one.queue, space, one.base, size)
            (self.last,) = self.log.write([batch_record(GROUP, entry, batch)])
            self.log.sync()
            self._note(moved(entry, self.last, len(batch)))
        self.log.damages.repaired()

    # -- invariants ----------------------------------------------------------------------------

    def check(self) -> None:
        """Every live batch is found, at any of its offsets, with the bytes it was written with."""
        assert not self.fatal
        for number, queue in self.state.queues.items():
            name = queue_id(number)
            self._check_offsets(name, queue)
            for base, (messages, size) in queue.stages.items():
                if queue.staged_live(base, messages):
                    entry = self.batches.staged_batches(name, base, 0)[0]
                    assert (entry.base_offset, entry.messages) == (base, messages)
                    assert self.log.read_slice(entry.position) == body(name, STAGES, base, size)

    def _check_offsets(self, name: bytes, queue: Queue) -> None:
        assert self.batches.missing(name, queue.first, queue.end) == []
        places = {base: messages for base, (messages, _) in queue.batches.items()}
        places |= {base: len(indices) for base, (_, indices) in queue.runs.items()}
        for base, messages in places.items():
            live = [n for n in range(base, base + messages) if queue.wants(n)]
            for offset in live[:1] + live[-1:]:
                found = self.batches.locate(name, offset, 0)[0]
                assert (found.base_offset, found.messages) == (base, messages)
                if base in queue.runs:
                    stage, indices = queue.runs[base]
                    assert (found.stage, found.indices) == (stage, indices)
                    wanted = body(name, STAGES, stage, queue.stages[stage][1])
                else:
                    assert found.stage is None
                    wanted = body(name, OFFSETS, base, queue.batches[base][1])
                assert self.log.read_slice(found.position) == wanted

    def check_searches(self) -> None:
        """Check searches by time, and of queues never truncated also those by bytes, and sums."""
        for number, queue in self.state.queues.items():
            name = queue_id(number)
            sizes = {base: size for base, (_, size) in queue.batches.items()}
            for base, (stage, indices) in queue.runs.items():
                messages, size = queue.stages[stage]
                sizes[base] = size * len(indices) // messages
            bases = sorted(sizes)
            if not bases:
                continue
            ends = [*bases[1:], queue.end]
            live = [base for base, end in zip(bases, ends, strict=True) if end > queue.first]
            for time_us in (0, self.state.applied // 2, self.state.applied - 1):
                wanted = next((base for base in live if queue.times[base] >= time_us), None)
                assert self.batches.offset_at(name, time_us) == wanted
            for base in live[::7]:
                assert self.batches.log_time_of(name, base, False) == queue.times[base]
            if queue.first:
                continue
            for limit in (0, 1000, sum(sizes.values()) // 2, 1 << 40):
                left, offset = limit, queue.end
                for base in reversed(bases):
                    left -= sizes[base]
                    if left < 0:
                        break
                    offset = base
                assert self.batches.offset_back(name, queue.end, limit) == offset
            appended = sum(size for _, size in queue.batches.values())
            assert self.batches.stored_bytes(name) >= appended

    def disk_bytes(self) -> int:
        return sum(
            len(self.disk.inode(name).live)
            for name in self.disk.names(self.log.directory)
            if name.endswith((".wal", ".settled"))
        )

    def segments(self, suffix: str) -> list[str]:
        return [name for name in self.disk.names(self.log.directory) if name.endswith(suffix)]
