"""A store in memory that can be copied: the groups' machines, and the batches behind them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from store_nodes import commands as c
from store_nodes.backup.packs import Pack, PackWriter
from store_nodes.backup.restoring import Copy
from store_nodes.backup.taking import Taking
from store_nodes.client import Entry, FetchedEntries, SnapshotImage, StagedEntry, StoreClient
from store_nodes.errors import QueueTruncated
from store_nodes.machine.machine import Machine
from store_nodes.machine.outcomes import AppendDone, ReleaseDone, StageDone
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message, decode, encode, peek
from store_nodes.wal.footer import RELEASED

TOPIC = bytes(range(16))
OLD_UID = b"o" * 16
SECOND = 1_000_000


def nothing(*_: object) -> None:
    """Happens."""


class Link(NamedTuple):
    """The link to a node that answers."""

    up: bool = True


@dataclass
class FakeStore:
    """Two groups, one node. `meanwhile` is called before each fetch: what happens during a copy."""

    machines: dict[int, Machine] = field(
        default_factory=lambda: {group: Machine(group) for group in range(2)}
    )
    batches: dict[bytes, list[Entry]] = field(default_factory=dict)
    staged: dict[bytes, list[StagedEntry]] = field(default_factory=dict)
    meanwhile: Callable[[], None] = nothing
    after_snapshot: Callable[[int], None] = nothing
    leaders: list[int] = field(default_factory=lambda: [1])
    """The first leads, until a command finds the next."""
    fetches: int = 0
    now_us: int = SECOND
    sessions: int = 0

    # -- operations that change the store -------------------------------------------------------

    def do(self, group: int, raw: bytes) -> Any:
        self.now_us += 1
        machine = self.machines[group]
        (outcome,) = machine.apply(machine.applied, c.encode_value([raw], self.now_us))
        return outcome

    def create(self, group: int, queue: QueueId, base: int = 0) -> None:
        self.do(group, c.encode(c.Create(queue.pack(), base, b"")))

    def append(self, group: int, queue: QueueId, *texts: str) -> int:
        batch = encode([Message(text.encode()) for text in texts], 1)
        raw = c.encode_append(queue.pack(), self._session(), 1, self._deadline(), len(texts), batch)
        done = self.do(group, raw)
        assert isinstance(done, AppendDone)
        entry = Entry(done.base_offset, done.log_time_us, None, None, memoryview(batch))
        self.batches.setdefault(queue.pack(), []).append(entry)
        return done.base_offset

    def stage(self, group: int, queue: QueueId, *texts: str) -> int:
        batch = encode([Message(text.encode()) for text in texts], 1)
        raw = c.encode_append(
            queue.pack(),
            self._session(),
            1,
            self._deadline(),
            len(texts),
            batch,
            extras=c.StageExtras(None),
        )
        done = self.do(group, raw)
        assert isinstance(done, StageDone)
        entry = StagedEntry(done.base_stage, len(texts), done.log_time_us, memoryview(batch))
        self.staged.setdefault(queue.pack(), []).append(entry)
        return done.base_stage

    def release(self, group: int, queue: QueueId, *numbers: int) -> None:
        done = self.do(group, c.encode(c.Release(queue.pack(), numbers)))
        assert isinstance(done, ReleaseDone)
        for run in done.runs:
            (batch,) = (
                each.batch
                for each in self.staged[queue.pack()]
                if each.base_stage == run.stage_base
            )
            entry = Entry(run.base_offset, self.now_us, run.stage_base, run.indices, batch)
            self.batches.setdefault(queue.pack(), []).append(entry)

    def truncate(self, group: int, queue: QueueId, upto: int, *keep: int) -> None:
        self.do(group, c.encode(c.Truncate(queue.pack(), upto, keep)))

    def seal(self, group: int, queue: QueueId, to_group: int) -> int:
        after = queue._replace(generation=queue.generation + 1)
        self.do(group, c.encode(c.Seal(queue.pack(), ((to_group, after.pack()),))))
        return self.machines[group].offsets(queue.pack()).end

    def _session(self) -> bytes:
        self.sessions += 1
        return self.sessions.to_bytes(16, "big")

    def _deadline(self) -> int:
        return self.now_us + 60 * SECOND

    # -- questions that a copy asks ------------------------------------------------------------

    @property
    def nodes(self) -> dict[int, str]:
        return {1: "here"}

    @property
    def groups(self) -> tuple[int, ...]:
        return tuple(self.machines)

    def node_link(self, node: int) -> Link:
        return Link()

    def leader(self, group: int) -> int:
        return self.leaders[0]

    async def node_status(self, node: int, **_: object) -> dict[str, object]:
        return {}

    async def counter(self, group: int, name: str) -> int:
        if len(self.leaders) > 1:
            self.leaders.pop(0)
        return self.machines[group].counters.get(name, 0)

    async def snapshot(self, group: int, node: int | None = None) -> SnapshotImage:
        assert node is None, "who is not the leader may not have applied all that was decided"
        machine = self.machines[group]
        image = SnapshotImage(machine.state_snapshot(), machine.applied, 0)
        self.after_snapshot(group)
        return image

    async def fetch(
        self, group: int, queue: QueueId, offset: int, max_bytes: int, **_: object
    ) -> FetchedEntries:
        self.meanwhile()
        self.fetches += 1
        machine, raw = self.machines[group], queue.pack()
        first, end, *_ = machine.offsets(raw)
        if not machine.readable(raw, offset) and offset < first:
            raise QueueTruncated(first)
        found = [
            each for each in self.batches.get(raw, []) if offset < each.base_offset + _count(each)
        ]
        return FetchedEntries(found[:1], first, end)

    async def fetch_staged(
        self, group: int, queue: QueueId, stage: int, max_bytes: int, **_: object
    ) -> list[StagedEntry]:
        self.meanwhile()
        self.fetches += 1
        found = self.staged.get(queue.pack(), [])
        return [each for each in found if stage < each.base_stage + each.messages][:1]


def _count(entry: Entry) -> int:
    return peek(entry.batch)[0] if entry.indices is None else len(entry.indices)


async def copy(store: FakeStore, directory: Path, older: Sequence[Pack] = ()) -> Copy:
    """Take a copy into a directory of its own and open it."""
    await asyncio.to_thread(directory.mkdir)

    def path(number: int, part: str) -> Path:
        return directory / f"{part}-{number}"

    def open_file(number: int, part: str) -> BinaryIO:
        return path(number, part).open("xb")

    writer = PackWriter(open_file)
    taking = Taking(cast(StoreClient, store), writer, bytes_per_s=1 << 40, tell=nothing)
    images, kept = await taking.take(older)
    numbers = range(1, writer.packs + 1)
    packs = [*kept, *(Pack(path(number, "pack"), path(number, "index")) for number in numbers)]
    machines = {group: image.raw for group, image in images.machines.items()}
    found = Copy(OLD_UID, machines, tuple(packs))
    found.open()
    assert await found.gap() is None
    return found


def texts(copied: Copy) -> list[str]:
    """Return the texts of all live batches, in the order of a restore."""
    return [
        message.data.decode()
        for _, entry, batch in copied.batches()
        if entry.flags != RELEASED
        for message in decode(batch)
    ]
