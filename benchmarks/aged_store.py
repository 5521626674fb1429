"""A store node's data directory as years would leave it, written in minutes: values go straight
into the log and the state machines, without peers, flushes shared in large pieces."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from peering.shared_secret import SharedSecret
from store_nodes import commands
from store_nodes.checkpoint.format import Checkpoint, GroupCheckpoint
from store_nodes.machine.outcomes import AppendDone
from store_nodes.node.aging import storage_settings
from store_nodes.node.start import Started, load
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message, encode
from store_nodes.settings import StoreNodeSettings
from store_nodes.storage.checkpoint_tail import pack_tail
from store_nodes.storage.life import Life, QueueLife
from store_nodes.storage.storage import Storage
from store_nodes.wal.footer import BatchEntry
from store_nodes.wal.frame import HEADER_BYTES, FrameKind, Record
from store_nodes.wal.position import Position

MIB = 1024 * 1024
SYNC_BYTES = 16 * MIB
START_US = 1_700_000_000_000_000


@contextmanager
def scratch(kept: str | None) -> Iterator[Path]:
    """Yield a directory of its own that is removed at the end, or the given one, which stays."""
    if kept:
        Path(kept).mkdir(parents=True, exist_ok=True)
        yield Path(kept)
        return
    made = Path(tempfile.mkdtemp(prefix="packetboat-aged-", dir=os.environ.get("BENCH_DIR")))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def settings_in(directory: Path, groups: int) -> StoreNodeSettings:
    return StoreNodeSettings(
        node_id=1,
        data_dir=directory,
        listen=("127.0.0.1", 0),
        peers={1: ("127.0.0.1", 1)},
        cluster_uid=bytes(16),
        secret=SharedSecret(bytes(16)),
        groups=groups,
    )


def make_batch(messages: int, message_bytes: int, rng: random.Random) -> bytes:
    """Return a real record batch whose bodies do not repeat."""
    data = rng.randbytes(message_bytes - 8)
    made = [Message(n.to_bytes(8, "big") + data) for n in range(messages)]
    return encode(made, START_US)


class AgedStore:
    """A single node, which applies each value at once."""

    def __init__(self, directory: Path, queues: int, groups: int = 8) -> None:
        self.started: Started = load(settings_in(directory, groups))
        self.queues = [QueueId(number.to_bytes(16, "big"), 0).pack() for number in range(queues)]
        self._groups = groups
        self._seqs = [0] * queues
        self._now_us = START_US
        self._unsynced = 0
        self._last: Position | None = None
        self.stored_bytes = 0
        self._storage = Storage(
            self.started.wal,
            self.started.checkpoints,
            self.started.pages,
            self.started.batches,
            lambda: {group: found.instances for group, found in self.started.found.items()},
            self.started.segment_groups,
            settings=storage_settings(self.started.settings)._replace(
                compaction_rate=1 << 40, scrub_rate=0, remove_after_s=0.0
            ),
            on_damage=print,
            on_fatal=print,
        )
        self._write_all([(n, commands.encode(commands.Create(q, 0, b"bench")))
                         for n, q in enumerate(self.queues)])  # fmt: skip

    def group_of(self, queue: int) -> int:
        return queue % self._groups

    def append(self, queue: int, messages: int, batch: bytes) -> None:
        self._seqs[queue] += 1
        command = commands.encode_append(
            self.queues[queue], b"s" * 16, self._seqs[queue], self._now_us + 60_000_000, messages,
            batch,
        )  # fmt: skip
        self._write_all([(queue, command)])
        self.stored_bytes += len(batch)

    def _write_all(self, many: list[tuple[int, bytes]]) -> None:
        wal = self.started.wal
        for queue, command in many:
            group = self.group_of(queue)
            found = self.started.found[group]
            self._now_us += 1000
            value = commands.encode_value([command], self._now_us)
            instance = found.machine.applied
            (position,) = wal.write([Record(FrameKind.ACCEPT, group, instance, 1 << 16, value)])
            self._last = position
            self._unsynced += len(value)
            if self._unsynced >= SYNC_BYTES:
                wal.sync()
                self._unsynced = 0
            found.instances.put(instance, position)
            for outcome in found.machine.apply(instance, value):
                if isinstance(outcome, AppendDone):
                    at = Position(
                        position.segment, position.offset + outcome.batch_at, outcome.batch_bytes
                    )
                    base, count = outcome.base_offset, outcome.count
                    entry = BatchEntry(outcome.queue, base, count, outcome.log_time_us, at)
                    if self.started.batches.add_entry(entry):
                        wal.note_batches([entry])

    def checkpoint(self) -> None:
        self.started.wal.sync()
        at = self._last or Position(0, HEADER_BYTES, 0)
        groups = tuple(
            GroupCheckpoint(group, 0, found.machine.applied, found.machine.state_snapshot())
            for group, found in self.started.found.items()
        )
        tail, others = pack_tail(self.started.wal.unfootered_batches())
        start = at.offset - HEADER_BYTES
        self.started.checkpoints.write(Checkpoint(groups, at.segment, start, tail, others))

    def housekeep(self, rounds: int = 1, *, compact: bool = False) -> None:
        """Run the maintenance of each second; segments are compacted only with `compact`."""
        asyncio.run(self._housekeep(rounds, compact))

    async def _housekeep(self, rounds: int, compact: bool) -> None:
        for _ in range(rounds):
            before = self.started.wal.compacted.first_segment
            await self._storage.run_round(self._life(compact))
            if compact and self.started.wal.compacted.first_segment == before:
                return

    def _life(self, compact: bool) -> Life:
        found = self.started.found

        def applied(group: int) -> int | None:
            return found[group].machine.applied if compact else 0

        def queue_life(queue: bytes) -> QueueLife | None:
            group = self.group_of(int.from_bytes(queue[:16], "big"))
            machine = found[group].machine
            return QueueLife(group, machine.offsets(queue).first, machine.kept(queue))

        return Life(queue_life, lambda *_: True, applied, applied)

    def close(self) -> None:
        asyncio.run(self._storage.close())
        self.started.wal.close()


def drop_caches(directory: Path) -> None:
    """Let the next reads of these files come from the disk."""
    for path in directory.rglob("*"):
        if path.is_file():
            fd = os.open(path, os.O_RDONLY)
            os.fdatasync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)
