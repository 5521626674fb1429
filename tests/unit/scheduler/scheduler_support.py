"""A store for the scheduler to talk to: the real state machines, no sockets and no consensus.

Log time is the machine's own clock plus `ahead_us`, which a test moves to make a delay pass. The
rows that a scheduler keeps in Postgres are kept here in a dict.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from metadata.delivery.due import Due, Progress, QueueKey
from metadata.delivery.forwarded import Forwarded
from metadata.errors import LeaseLost
from metadata.locks.locks import PLATFORM, Lock
from store_nodes import commands as c
from store_nodes.client import (
    Location,
    QueueInfo,
    QueueOffsets,
    Receipt,
    StagedEntry,
    StagedInfo,
    StagedPage,
)
from store_nodes.errors import DedupKnown, Known, StoreError, Unavailable
from store_nodes.machine.machine import Machine
from store_nodes.machine.outcomes import (
    AppendDone,
    CommandRefused,
    Outcome,
    ReleaseDone,
    SealDone,
    StagedChanged,
    StageDone,
    TruncateDone,
)
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message, encode
from store_nodes.wire import Durability

SECOND = 1_000_000
HOUR = 3600 * SECOND


@dataclass
class Stored:
    """A batch of a queue."""

    base: int
    count: int
    log_time_us: int
    batch: bytes


class FakeAppender:
    def __init__(self, store: FakeStore, group: int, queue: QueueId) -> None:
        self._store, self._group, self._queue = store, group, queue
        self._session = store.next_session()
        self._seq = 0

    def _do(self, raw: bytes) -> Outcome:
        """A new session follows a refusal, as its sequence may be used or not."""
        try:
            return self._store.do(self._group, raw)
        except DedupKnown as error:
            self._session, self._seq = self._store.next_session(), 0
            raise DedupKnown(self._store.dated(error.known)) from error
        except StoreError:
            self._session, self._seq = self._store.next_session(), 0
            raise

    def append(
        self,
        batch: bytes,
        count: int,
        extras: c.StageExtras | None = None,
        *,
        durability: Durability = Durability.QUORUM,
        timeout_s: float = 5.0,
        dedup: bytes = b"",
        dedup_window_s: int = 600,
    ) -> asyncio.Future[Receipt]:
        assert durability is Durability.QUORUM
        if extras is None:
            return asyncio.ensure_future(self._append(batch, count, dedup, dedup_window_s))
        return asyncio.ensure_future(self._stage(batch, count, extras, dedup, dedup_window_s))

    async def _append(self, batch: bytes, count: int, dedup: bytes, dedup_window_s: int) -> Receipt:
        outcome = self._take(batch, count, dedup, dedup_window_s)
        assert isinstance(outcome, AppendDone)
        self._store.keep(self._group, self._queue, outcome, batch)
        self._store.tell(self._group, self._queue)
        return Receipt(outcome.base_offset, outcome.log_time_us, outcome.duplicate)

    async def _stage(
        self, batch: bytes, count: int, extras: c.StageExtras, dedup: bytes, dedup_window_s: int
    ) -> Receipt:
        await self._store._call("stage", self._group)
        outcome = self._take(batch, count, dedup, dedup_window_s, extras)
        assert isinstance(outcome, StageDone)
        self._store.tell(self._group, self._queue)
        return Receipt(outcome.base_stage, outcome.log_time_us, outcome.duplicate)

    def _take(
        self,
        batch: bytes,
        count: int,
        dedup: bytes,
        dedup_window_s: int,
        extras: c.StageExtras | None = None,
    ) -> Outcome:
        self._seq += 1
        return self._do(
            c.encode_append(
                self._queue.pack(),
                self._session,
                self._seq,
                self._store.clock(self._group).now_us() + 60 * SECOND,
                count,
                batch,
                dedup,
                extras,
                dedup_window_s=dedup_window_s,
            )
        )


class FakeWatch:
    def __init__(self, store: FakeStore, group: int, on_change: Callable[..., None]) -> None:
        self.store, self.group, self.on_change = store, group, on_change
        self.queues: set[bytes] = set()

    def add(self, queue: QueueId) -> None:
        self.queues.add(queue.pack())
        self.store.tell(self.group, queue)

    def remove(self, queue: QueueId) -> None:
        self.queues.discard(queue.pack())

    def close(self) -> None:
        self.store.watches.remove(self)


class FakeClock:
    def __init__(self, store: FakeStore) -> None:
        self._store = store

    def now_us(self) -> int:
        return time.monotonic_ns() // 1000 + self._store.ahead_us


@dataclass
class FakeStore:
    """Groups 0 and 1, each with its machine. `trouble`: errors that the next calls raise."""

    groups: tuple[int, ...] = (0, 1)
    ahead_us: int = 10 * HOUR
    watches: list[FakeWatch] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)
    trouble: deque[StoreError] = field(default_factory=deque)
    lost_answers: int = 0
    """Releases that take effect, but whose answers are lost."""
    behind: int = 0
    """Listings that are answered by a leader that has applied nothing yet."""
    deaf: bool = False
    """Whether watches report nothing."""

    def __post_init__(self) -> None:
        self.machines = {group: Machine(group) for group in self.groups}
        self.staged_batches: dict[bytes, list[Stored]] = {}
        self.batches: dict[bytes, list[Stored]] = {}
        self.down: set[int] = set()
        self._sessions = 0

    # -- for tests -----------------------------------------------------------------------------

    def next_session(self) -> bytes:
        self._sessions += 1
        return self._sessions.to_bytes(16, "big")

    def do(self, group: int, raw: bytes) -> Outcome:
        """Applies it as the next value; raises what it was refused with."""
        machine = self.machines[group]
        value = c.encode_value([raw], self.clock(group).now_us())
        (outcome,) = machine.apply(machine.applied, value)
        if isinstance(outcome, CommandRefused):
            raise outcome.error
        return outcome

    def create(self, group: int, queue: QueueId, base: int = 0) -> None:
        self.do(group, c.encode(c.Create(queue.pack(), base, b"")))

    def seal(self, group: int, queue: QueueId, *successors: tuple[int, QueueId]) -> int:
        packed = tuple((of_group, each.pack()) for of_group, each in successors)
        outcome = self.do(group, c.encode(c.Seal(queue.pack(), packed)))
        assert isinstance(outcome, SealDone)
        return outcome.offset

    def stage(
        self, group: int, queue: QueueId, *after_s: float, messages: Sequence[Message] = ()
    ) -> int:
        """Stage messages that are due that long from now, in one batch; return the first stage
        number.
        """
        now_us = self.clock(group).now_us()
        due = tuple(now_us + round(each * SECOND) for each in after_s)
        return self.stage_at(group, queue, due, messages)

    def stage_at(
        self,
        group: int,
        queue: QueueId,
        due_us: tuple[int, ...] | None,
        messages: Sequence[Message] = (),
        count: int = 1,
    ) -> int:
        """Stage messages; without due times they are held."""
        count = count if due_us is None else len(due_us)
        batch = encode(list(messages) or [Message(b"x")] * count, 1)
        raw = c.encode_append(
            queue.pack(),
            self.next_session(),
            1,
            self.clock(group).now_us() + 60 * SECOND,
            count,
            batch,
            extras=c.StageExtras(due_us),
        )
        outcome = self.do(group, raw)
        assert isinstance(outcome, StageDone)
        kept = Stored(outcome.base_stage, count, outcome.log_time_us, batch)
        self.staged_batches.setdefault(queue.pack(), []).append(kept)
        self.tell(group, queue)
        return outcome.base_stage

    def reschedule(self, group: int, queue: QueueId, number: int, after_s: float) -> None:
        due_us = self.clock(group).now_us() + round(after_s * SECOND)
        self.do(group, c.encode(c.Reschedule(queue.pack(), (number,), (due_us,))))
        self.tell(group, queue)

    def cancel(self, group: int, queue: QueueId, number: int) -> None:
        self.do(group, c.encode(c.Discard(queue.pack(), (number,))))

    def where(self, group: int, queue: QueueId, number: int) -> tuple[str, int | None]:
        return self.machines[group].locate(queue.pack(), number)

    def end(self, group: int, queue: QueueId) -> int:
        return self.machines[group].offsets(queue.pack()).end

    def keep(self, group: int, queue: QueueId, done: AppendDone, batch: bytes) -> None:
        kept = Stored(done.base_offset, done.count, done.log_time_us, batch)
        self.batches.setdefault(queue.pack(), []).append(kept)

    def dated(self, known: dict[int, Known]) -> dict[int, Known]:
        """With the log times of those that are published, as a node answers."""
        times = {
            (queue, each.base + n): each.log_time_us
            for queue, kept in self.batches.items()
            for each in kept
            for n in range(each.count)
        }
        return {
            index: one
            if one.staged
            else one._replace(log_time_us=times.get((one.queue, one.position), 0))
            for index, one in known.items()
        }

    def tell(self, group: int, queue: QueueId) -> None:
        raw = queue.pack()
        for watch in self.watches:
            if watch.group == group and raw in watch.queues and not self.deaf:
                try:
                    watch.on_change([self._offsets(group, raw)])
                except StoreError:
                    continue

    def _offsets(self, group: int, raw: bytes) -> QueueOffsets:
        found = self.machines[group].offsets(raw)
        return QueueOffsets(
            raw,
            found.first,
            found.end,
            found.stage_end,
            found.sealed,
            self.stored_bytes(group, raw),
            found.stage_changes,
        )

    def stored_bytes(self, group: int, raw: bytes) -> int:
        """Return the bytes of batches of which some message is left."""
        machine = self.machines[group]
        kept = [
            each
            for each in self.batches.get(raw, [])
            if any(machine.readable(raw, each.base + n) for n in range(each.count))
        ]
        return sum(len(each.batch) for each in kept)

    # -- calls of the scheduler ----------------------------------------------------------------

    async def _call(self, name: str, group: int) -> None:
        self.calls[name] += 1
        await asyncio.sleep(0)
        if group in self.down:
            raise Unavailable(f"group {group} has no leader")
        if self.trouble:
            raise self.trouble.popleft()

    async def counter(self, group: int, name: str, *, timeout_s: float = 5.0) -> int:
        await self._call("counter", group)
        return self.machines[group].counters.get(name, 0)

    def clock(self, group: int) -> FakeClock:
        return FakeClock(self)

    def watch(self, group: int, on_change: Callable[..., None]) -> FakeWatch:
        watch = FakeWatch(self, group, on_change)
        self.watches.append(watch)
        return watch

    def appender(self, group: int, queue: QueueId) -> FakeAppender:
        return FakeAppender(self, group, queue)

    async def staged(
        self,
        group: int,
        queue: QueueId,
        after: int = -1,
        limit: int = 1000,
        *,
        timeout_s: float = 5.0,
    ) -> StagedPage:
        await self._call("staged", group)
        machine = self.machines[group]
        if self.behind:
            self.behind -= 1
            return StagedPage((), 0, False)
        rows = machine.staged(queue.pack(), after, limit)
        changes = machine.offsets(queue.pack()).stage_changes
        return StagedPage(tuple(StagedInfo(*row) for row in rows), changes, False)

    async def staged_changes(
        self, group: int, queue: QueueId, changes: int, *, timeout_s: float = 5.0
    ) -> StagedPage:
        await self._call("staged_changes", group)
        machine, raw = self.machines[group], queue.pack()
        numbers, now = machine.stage_changes_since(raw, changes)
        if numbers is None:
            return StagedPage((), now, True)
        rows = [row for n in numbers for row in machine.staged(raw, n - 1, 1)]
        found = [row for row in rows if row.stage_number in set(numbers)]
        return StagedPage(tuple(StagedInfo(*row) for row in found), now, False)

    async def release(
        self, group: int, queue: QueueId, numbers: Sequence[int], *, timeout_s: float = 5.0
    ) -> list[int | None]:
        await self._call("release", group)
        outcome = self.do(group, c.encode(c.Release(queue.pack(), tuple(numbers))))
        assert isinstance(outcome, ReleaseDone)
        self.tell(group, queue)
        if self.lost_answers:
            self.lost_answers -= 1
            raise Unavailable("the answer was lost")
        return list(outcome.offsets)

    async def offsets(self, group: int, queue: QueueId) -> QueueOffsets:
        await self._call("offsets", group)
        return self._offsets(group, queue.pack())

    async def discard(
        self, group: int, queue: QueueId, numbers: Sequence[int], *, timeout_s: float = 5.0
    ) -> int:
        await self._call("discard", group)
        outcome = self.do(group, c.encode(c.Discard(queue.pack(), tuple(numbers))))
        assert isinstance(outcome, StagedChanged)
        return outcome.changed

    async def locate(
        self, group: int, queue: QueueId, stage_number: int, *, timeout_s: float = 5.0
    ) -> Location:
        await self._call("locate", group)
        return Location(*self.where(group, queue, stage_number))

    async def fetch_staged(
        self,
        group: int,
        queue: QueueId,
        stage_number: int,
        max_bytes: int,
        *,
        timeout_s: float = 5.0,
    ) -> list[StagedEntry]:
        await self._call("fetch_staged", group)
        found: list[StagedEntry] = []
        for each in self.staged_batches.get(queue.pack(), []):
            if each.base + each.count > stage_number and (not found or max_bytes > 0):
                max_bytes -= len(each.batch)
                view = memoryview(each.batch)
                found.append(StagedEntry(each.base, each.count, each.log_time_us, view))
        return found

    async def queues(self, group: int, *, timeout_s: float = 5.0) -> list[QueueInfo]:
        await self._call("queues", group)
        return [
            QueueInfo(
                row.queue,
                row.base,
                row.offsets.first,
                row.offsets.end,
                row.offsets.sealed,
                row.meta,
                row.offsets.successors,
                row.offsets.stage_end,
                self.stored_bytes(group, row.queue),
                row.staged,
            )
            for row in self.machines[group].queues()
        ]

    async def truncate(
        self,
        group: int,
        queue: QueueId,
        upto: int,
        keep: Iterable[int] = (),
        *,
        timeout_s: float = 5.0,
    ) -> int:
        await self._call("truncate", group)
        outcome = self.do(group, c.encode(c.Truncate(queue.pack(), upto, tuple(keep))))
        assert isinstance(outcome, TruncateDone)
        return outcome.first_offset

    async def offset_at(
        self, group: int, queue: QueueId, time_us: int, *, timeout_s: float = 5.0
    ) -> int:
        await self._call("offset_at", group)
        for each in self.batches.get(queue.pack(), []):
            if each.log_time_us >= time_us:
                return each.base
        return self.end(group, queue)

    async def offset_back(
        self, group: int, queue: QueueId, last_bytes: int, *, timeout_s: float = 5.0
    ) -> int:
        await self._call("offset_back", group)
        offset = self.end(group, queue)
        for each in reversed(self.batches.get(queue.pack(), [])):
            last_bytes -= len(each.batch)
            if last_bytes < 0:
                break
            offset = each.base
        return offset

    async def delete(self, group: int, queue: QueueId, *, timeout_s: float = 5.0) -> None:
        await self._call("delete", group)
        self.do(group, c.encode(c.Delete(queue.pack())))


@dataclass
class FakeIndex:
    """The rows of DueRepository and ForwardedRepository; `trouble` has errors of the next
    writes.
    """

    rows: dict[tuple[QueueKey, int], int] = field(default_factory=dict)
    kept: dict[QueueKey, Progress] = field(default_factory=dict)
    moved: dict[tuple[QueueKey, int], Forwarded] = field(default_factory=dict)
    trouble: deque[Exception] = field(default_factory=deque)
    fence: int = 1
    written: int = 0

    async def progress(self) -> dict[QueueKey, Progress]:
        return dict(self.kept)

    async def due_until(self, until_us: int, limit: int) -> list[Due]:
        await asyncio.sleep(0)
        found = sorted(
            (due_us, queue, number)
            for (queue, number), due_us in self.rows.items()
            if due_us <= until_us
        )
        return [Due(queue, number, due_us) for due_us, queue, number in found[:limit]]

    async def write(
        self,
        lock: Lock,
        put: Sequence[Due],
        gone: Sequence[tuple[QueueKey, int]],
        progress: Mapping[QueueKey, Progress],
    ) -> None:
        await asyncio.sleep(0)
        if self.trouble:
            raise self.trouble.popleft()
        if lock.fence != self.fence:
            raise LeaseLost("a new holder")
        for item in gone:
            self.rows.pop(item, None)
        for due in put:
            self.rows[due.queue, due.stage_number] = due.due_us
        self.written += len(put)
        self.kept |= progress

    async def forget(self, lock: Lock, queue: QueueKey, *, rows: int = 5000) -> bool:
        self.rows = {item: due for item, due in self.rows.items() if item[0] != queue}
        self.kept.pop(queue, None)
        return True

    async def forget_orphans(self, lock: Lock, before_us: int, *, rows: int = 5000) -> None:
        return

    async def record(self, queue: QueueKey, moved: Sequence[Forwarded]) -> None:
        if self.trouble:
            raise self.trouble.popleft()
        for each in moved:
            self.moved.setdefault((queue, each.stage_number), each)

    async def find(self, queue: QueueKey, numbers: Sequence[int]) -> dict[int, Forwarded]:
        return {n: self.moved[queue, n] for n in numbers if (queue, n) in self.moved}

    async def forget_topics(self) -> None:
        return

    def lock(self) -> Lock:
        return Lock(PLATFORM, "scheduler", bytes(16), self.fence, float("inf"))


async def until(condition: Callable[[], bool], what: str = "it") -> None:
    """Waits for something that is sure to come; the time is only for a test that fails."""
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError(f"{what} did not come about")
