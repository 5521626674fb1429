"""Clients of the simulated cluster: appenders with sessions, an administrator, readers.

An appender does what a forwarder does: sequences per (queue, session), a bounded window, the same
sequence again after a timeout or a lost leader, on to the successor when a queue is sealed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from store_nodes import commands as c
from store_nodes import errors
from store_nodes.wire import Durability
from tests.simulation.clock import WALL_START_US
from tests.simulation.options import MS
from tests.simulation.scheduler import POLL

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster
    from tests.simulation.node import SimGroup

RETRY_US = 120 * MS
BACKOFF_US = 10 * MS
IDLE_US = 5 * MS


class Reply:
    """The `CommandReply` of one transmission; its content travels back over the network."""

    __slots__ = ("_answer", "_cluster", "_node")

    def __init__(self, cluster: Cluster, node: int, answer: Callable[..., None]) -> None:
        self._cluster = cluster
        self._node = node
        self._answer = answer

    def accepted(self) -> None:
        """Take the early answer of the weaker durabilities; nothing is promised by it."""

    def appended(
        self, base_offset: int, count: int, log_time_us: int, *, duplicate: bool = False
    ) -> None:
        receipt = (base_offset, count, log_time_us)
        self._cluster.to_client("appended", self._answer, self._node, receipt, duplicate)

    def released(self, offsets: tuple[int | None, ...], log_time_us: int) -> None:
        self._cluster.to_client("released", self._answer, self._node, offsets, False)

    def finished(self, value: int, log_time_us: int) -> None:
        self._cluster.to_client("finished", self._answer, self._node, value, False)

    def failed(self, error: errors.StoreError, *, decided: bool) -> None:
        self._cluster.to_client("failed", self._answer, self._node, error, decided)


@dataclass(slots=True)
class Operation:
    """One append on its way."""

    batch: bytes
    count: int
    seq: int
    raw: bytes
    durability: Durability
    sent_us: int = 0
    first_node: int = 0
    done: bool = False
    sealed: bool = False


class Appender:
    """A session at a time on one queue; moves on when the queue is sealed."""

    def __init__(self, cluster: Cluster, name: int, queue: bytes) -> None:
        self._cluster = cluster
        self._name = name
        self._rng = cluster.scheduler.fork(f"client {name}")
        self._queue = queue
        self._session = self._rng.randbytes(c.SESSION_BYTES)
        self._next_seq = 1
        self._batches = 0
        self._target = 1 + name % cluster.options.nodes
        self._open: deque[Operation] = deque()
        self._resend_at = 0
        self.issuing = True
        cluster.scheduler.after(self._rng.randrange(20 * MS), POLL, self._step)

    @property
    def idle(self) -> bool:
        return not self._open

    def _step(self) -> None:
        cluster = self._cluster
        options = cluster.options
        now = cluster.scheduler.now
        if self._open and self._open[0].sealed:
            self._move()
        if self._open and now >= self._resend_at:
            oldest = self._open[0]
            if now - oldest.sent_us > RETRY_US:
                self._target = self._rng.choice(cluster.ids)
                self._send_open()
            elif self._resend_at:
                self._send_open()
        elif self.issuing and len(self._open) < options.window and not self._sealing:
            self._issue()
        full = len(self._open) >= options.window or not self.issuing
        think = max(options.think_us, IDLE_US) if full else options.think_us
        cluster.scheduler.after(think // 2 + self._rng.randrange(think), POLL, self._step)

    @property
    def _sealing(self) -> bool:
        return any(operation.sealed for operation in self._open)

    def issue(self, count: int) -> None:
        """Issue appends at the end of a run, when nobody issues by himself any more."""
        for _ in range(count):
            self._issue()

    def _issue(self) -> None:
        self._batches += 1
        batch = b"%d/%d" % (self._name, self._batches)
        self._open.append(self._operation(batch, 1 + self._rng.randrange(3)))
        self._send(self._open[-1])

    def _operation(self, batch: bytes, count: int) -> Operation:
        options = self._cluster.options
        deadline = WALL_START_US + self._cluster.scheduler.now + options.deadline_us
        if self._cluster.calm:
            deadline += 10 * 60 * 1000 * MS
        seq = self._next_seq
        self._next_seq += 1
        raw = c.encode_append(self._queue, self._session, seq, deadline, count, batch)
        everywhere = self._rng.random() < options.everywhere
        durability = Durability.ALL if everywhere else Durability.QUORUM
        return Operation(batch, count, seq, raw, durability)

    def _send_open(self) -> None:
        self._resend_at = 0
        for operation in self._open:
            if not operation.done and not operation.sealed:
                self._send(operation)

    def _send(self, operation: Operation) -> None:
        cluster, target = self._cluster, self._target
        operation.sent_us = cluster.scheduler.now
        if not operation.first_node:
            operation.first_node = target
        session = self._session

        def answer(node: int, what: object, flag: bool) -> None:
            if session == self._session:
                self._answered(operation, node, what, flag)
            elif isinstance(what, tuple):
                cluster.oracle.ack(operation.batch, *what)

        def request(group: SimGroup) -> None:
            reply = Reply(cluster, target, answer)
            group.command(operation.raw, operation.durability, 300, reply)

        cluster.to_node(self._name, target, "append", request)

    def _answered(self, operation: Operation, node: int, what: object, flag: bool) -> None:
        cluster = self._cluster
        match what:
            case (int(base_offset), int(count), int(log_time_us)):
                cluster.oracle.ack(operation.batch, base_offset, count, log_time_us)
                if flag and node != operation.first_node:
                    cluster.coverage.hit(
                        "repeated sequence answered with its old receipt on a new leader"
                    )
                self._finish(operation)
            case errors.DeadlinePassed() | errors.TooLarge() if flag:
                cluster.coverage.hit("append refused for its deadline")
                if operation.done:
                    cluster.coverage.hit("refused sequence repeated")
                cluster.oracle.refuse(operation.batch, type(what).__name__)
                self._finish(operation)
            case errors.QueueSealed():
                cluster.coverage.hit("append refused by a seal")
                operation.sealed = not operation.done
            case errors.SequenceGap(expected=expected):
                cluster.coverage.hit("sequence gap refused")
                self._resend_at = cluster.scheduler.now + BACKOFF_US
                if expected == 1 < operation.seq and self._open and operation is self._open[0]:
                    self._start_session()
            case errors.NotLeader(hint=hint) if not operation.done:
                self._target = hint or self._rng.choice(cluster.ids)
                self._resend_at = cluster.scheduler.now + BACKOFF_US
            case errors.QueueNotFound() | errors.StoreError():
                if not operation.done:
                    self._resend_at = cluster.scheduler.now + BACKOFF_US
            case _:
                raise AssertionError(f"unexpected answer {what!r}")

    def _start_session(self) -> None:
        """Start a session; the old one is forgotten, or its queue sealed.

        The outcome of its open appends stays unknown.
        """
        self._session = self._rng.randbytes(c.SESSION_BYTES)
        self._next_seq = 1
        self._open.clear()

    def _finish(self, operation: Operation) -> None:
        operation.done = True
        operation.sealed = False
        while self._open and self._open[0].done:
            self._open.popleft()

    def _move(self) -> None:
        """Once every open operation is known to be refused by the seal, or done, the rest goes to
        the successor, in a new session."""
        rest = [operation for operation in self._open if not operation.done]
        successor = self._cluster.successors.get(self._queue)
        if successor is None or not all(operation.sealed for operation in rest):
            for operation in rest:
                operation.sealed = False
            self._resend_at = self._cluster.scheduler.now + BACKOFF_US
            return
        self._queue = successor
        self._start_session()
        self._open = deque(self._operation(one.batch, one.count) for one in rest)
        self._send_open()


class Administrator:
    """Creates the queues, then seals one, makes its successor, truncates another: one command at a
    time, each repeated until it is answered."""

    def __init__(self, cluster: Cluster, queues: list[bytes]) -> None:
        self._cluster = cluster
        self._rng = cluster.scheduler.fork("administrator")
        self._queues = list(queues)
        self._made = len(queues)
        self._work: deque[c.ControlCommand] = deque(c.Create(queue, 0, b"") for queue in queues)
        self._sent_us = -RETRY_US
        self._next_us = 0
        self.issuing = True
        cluster.scheduler.after(1, POLL, self._step)

    @property
    def idle(self) -> bool:
        return not self._work

    def _step(self) -> None:
        now, options = self._cluster.scheduler.now, self._cluster.options
        if self._work and now - self._sent_us >= RETRY_US // 4:
            self._send(self._work[0])
        elif not self._work and options.admin_every_us and now >= self._next_us and self.issuing:
            self._next_us = now + options.admin_every_us
            self._plan()
        self._cluster.scheduler.after(10 * MS, POLL, self._step)

    def _plan(self) -> None:
        queue = self._rng.choice(self._queues)
        end = self._cluster.oracle.acked_ends.get(queue, 0)
        if self._rng.random() < 0.3:
            self._made += 1
            successor = queue[:21] + self._made.to_bytes(4, "big")
            self._work.append(c.Seal(queue, ((self._cluster.options.group, successor),)))
        else:
            kept = tuple(self._rng.randrange(end + 1) for _ in range(self._rng.randrange(3)))
            self._work.append(c.Truncate(queue, self._rng.randrange(end + 1), kept))

    def _send(self, command: c.ControlCommand) -> None:
        cluster = self._cluster
        self._sent_us = cluster.scheduler.now
        target = self._rng.choice(cluster.ids)
        raw = c.encode(command)

        def answer(node: int, what: object, flag: bool) -> None:
            if self._work and self._work[0] is command and isinstance(what, int):
                self._finished(command, what)

        def request(group: SimGroup) -> None:
            reply = Reply(cluster, target, answer)
            group.command(raw, Durability.QUORUM, 300, reply)

        cluster.to_node(-1, target, "control", request)

    def _finished(self, command: c.ControlCommand, value: int) -> None:
        self._work.popleft()
        if isinstance(command, c.Seal):
            self._cluster.oracle.sealed(command.queue, value)
            [(_, successor)] = command.successors
            self._work.append(c.Create(successor, value, b""))
            self._queues[self._queues.index(command.queue)] = successor
            self._cluster.successors[command.queue] = successor


class Readers:
    """Ask now and then for the end of a queue, confirmed by a quorum."""

    def __init__(self, cluster: Cluster, queues: list[bytes]) -> None:
        self._cluster = cluster
        self._queues = queues
        self._rng = cluster.scheduler.fork("readers")
        self._asked: dict[int, tuple[bytes, int]] = {}
        self._count = 0
        if cluster.options.read_every_us:
            cluster.scheduler.after(cluster.options.read_every_us, POLL, self._step)

    def _step(self) -> None:
        cluster = self._cluster
        node = cluster.nodes.get(self._rng.choice(cluster.ids))
        leaders = [n for n in cluster.nodes.values() if n.group.replica.state.leading]
        if leaders and self._rng.random() < 0.8:
            # The one of the oldest ballot: if there are two, it was replaced without knowing it.
            node = min(leaders, key=lambda n: n.group.replica.state.leader_ballot)
        if node is not None and node.alive and node.paused_until <= cluster.scheduler.now:
            queue = self._rng.choice(self._queues)
            self._count += 1
            self._asked[self._count] = (queue, cluster.oracle.acked_ends.get(queue, 0))
            node.start_read(self._count)
        cluster.scheduler.after(cluster.options.read_every_us, POLL, self._step)

    def done(self, token: int, end_of: Callable[[bytes], int]) -> None:
        queue, at_least = self._asked.pop(token)
        self._cluster.coverage.hit("read confirmed by a quorum")
        self._cluster.oracle.read(queue, end_of(queue), at_least)

    def failed(self, token: int) -> None:
        if self._asked.pop(token, None) is not None:
            self._cluster.coverage.hit("stale read refused")
