"""A dumb second implementation of the state machine's rules: lists, full scans, no packing."""

from __future__ import annotations

from dataclasses import dataclass, field

from store_nodes import commands as c

SECOND = 1_000_000
DAY = 24 * 3600 * SECOND


@dataclass
class TwinSession:
    receipts: list[tuple[str, int, int]] = field(default_factory=list)
    deadlines: list[int] = field(default_factory=list)
    uses: list[int] = field(default_factory=list)

    def forgotten(self, now: int) -> bool:
        return now > max(self.deadlines + self.uses) + 60 * SECOND


@dataclass
class TwinQueue:
    first: int
    end: int
    base: int
    meta: bytes
    successors: tuple[tuple[int, bytes], ...] | None = None
    kept: set[int] = field(default_factory=set)
    sessions: dict[bytes, TwinSession] = field(default_factory=dict)


class Twin:
    """`apply` answers one short tuple per command."""

    def __init__(self) -> None:
        self.now = 0
        self.queues: dict[bytes, TwinQueue] = {}
        self.deleted: set[bytes] = set()

    def apply(self, stamp: int, commands: list[c.Command]) -> list[tuple[object, ...]]:
        self.now = max(self.now + 1, stamp)
        for queue in self.queues.values():
            for name in [n for n, s in queue.sessions.items() if s.forgotten(self.now)]:
                del queue.sessions[name]
        return [self.one(command) for command in commands]

    def one(self, command: c.Command) -> tuple[object, ...]:
        if isinstance(command, c.Create):
            return self.create(command)
        if isinstance(command, c.Delete):
            self.queues.pop(command.queue, None)
            self.deleted.add(command.queue)
            return ("deleted",)
        assert isinstance(command, c.Append | c.Seal | c.Truncate)
        queue = self.queues.get(command.queue)
        if queue is None:
            return ("QueueNotFound",)
        if isinstance(command, c.Append):
            return self.append(queue, command)
        if isinstance(command, c.Seal):
            if queue.successors is not None and queue.successors != command.successors:
                return ("QueueSealed",)
            queue.successors = command.successors
            return ("sealed", queue.end)
        return self.truncate(queue, command)

    def create(self, command: c.Create) -> tuple[object, ...]:
        queue = self.queues.get(command.queue)
        if command.queue in self.deleted:
            return ("QueueExists",)
        if queue is None:
            queue = TwinQueue(command.base, command.base, command.base, command.meta)
            self.queues[command.queue] = queue
        if (queue.base, queue.meta) != (command.base, command.meta):
            return ("QueueExists",)
        return ("created", queue.end)

    def truncate(self, queue: TwinQueue, command: c.Truncate) -> tuple[object, ...]:
        upto = min(command.upto, queue.end)
        if upto >= queue.first:
            there = queue.kept | set(range(queue.first, queue.end))
            queue.kept = {n for n in command.keep if n in there and n < upto}
            queue.first = upto
        return ("truncated", queue.first, tuple(sorted(queue.kept)))

    def append(self, queue: TwinQueue, a: c.Append) -> tuple[object, ...]:
        session = queue.sessions.get(a.session, TwinSession())
        done = len(session.receipts)
        if done and a.seq <= done:
            if a.seq < 1 or a.seq <= done - 64:
                return ("OutcomeUnknown",)
            return ("again", *session.receipts[a.seq - 1])
        if queue.successors is not None:
            return ("QueueSealed",)
        if a.seq != done + 1:
            return ("SequenceGap", done + 1)
        queue.sessions[a.session] = session
        session.uses.append(self.now)
        if a.deadline_us < self.now:
            session.receipts.append(("DeadlinePassed", 0, 0))
            return ("DeadlinePassed",)
        if a.deadline_us > self.now + DAY:
            session.receipts.append(("TooLarge", 0, 0))
            return ("TooLarge",)
        session.deadlines.append(a.deadline_us)
        session.receipts.append(("stored", queue.end, self.now))
        queue.end += a.messages
        return ("stored", *session.receipts[-1][1:])
