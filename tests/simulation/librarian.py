"""A client that uses what else the log offers, one command at a time: staging, known ids, counters,
wishes for a leader, truncation with kept offsets. Each is repeated until answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from store_nodes import commands as c
from store_nodes import errors
from store_nodes.wire import Durability
from tests.simulation.clock import WALL_START_US
from tests.simulation.options import MS, SECOND
from tests.simulation.oracle_library import DISCARDED, STAGED
from tests.simulation.scheduler import POLL
from tests.simulation.workload import Reply

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster
    from tests.simulation.node import SimGroup

RETRY_US = 60 * MS
IDS = 30
"""Few, so that they come again."""
COUNTER = "era"
WORK = (
    *("append", "stage", "release") * 3,
    *("discard", "reschedule", "count", "count", "wish", "truncate"),
)


class Librarian:
    """Works on a queue of its own."""

    def __init__(self, cluster: Cluster, queue: bytes) -> None:
        self._cluster = cluster
        self._rng = cluster.scheduler.fork("librarian")
        self._queue = queue
        self._target = 1
        self._batches = 0
        self._counter = 0
        self._raw: bytes | None = None
        self._on_answer: Callable[[int, object, bool], bool] = self._any
        self._sent_us = 0
        self.issuing = bool(cluster.options.library_every_us)
        if self.issuing:
            self._begin(c.encode(c.Create(queue, 0, b"")), self._any)
            cluster.scheduler.after(2, POLL, self._step)

    @property
    def idle(self) -> bool:
        return self._raw is None

    def _step(self) -> None:
        cluster = self._cluster
        now = cluster.scheduler.now
        if self._raw is None and self.issuing:
            self._choose()
        elif self._raw is not None and now - self._sent_us >= RETRY_US:
            self._target = self._rng.choice(cluster.ids)
            self._send()
        mean = cluster.options.library_every_us
        cluster.scheduler.after(mean // 2 + self._rng.randrange(mean), POLL, self._step)

    def _begin(self, raw: bytes, on_answer: Callable[[int, object, bool], bool]) -> None:
        """`on_answer(node, what, flag)` says whether that was the final answer."""
        self._raw, self._on_answer = raw, on_answer
        self._first_node = self._target
        self._send()

    def _send(self) -> None:
        cluster, target, raw = self._cluster, self._target, self._raw
        assert raw is not None
        self._sent_us = cluster.scheduler.now

        def answer(node: int, what: object, flag: bool) -> None:
            if self._raw is raw:
                self._answered(node, what, flag)

        def request(group: SimGroup) -> None:
            group.command(raw, Durability.QUORUM, 300, Reply(cluster, target, answer))

        cluster.to_node(-2, target, "library", request)

    def _answered(self, node: int, what: object, flag: bool) -> None:
        match what:
            case errors.NotLeader(hint=hint):
                self._target = hint or self._rng.choice(self._cluster.ids)
            case errors.OutcomeUnknown() | errors.Unavailable() | errors.Overloaded():
                pass
            case _ if self._on_answer(node, what, flag):
                self._raw = None

    def _any(self, node: int, what: object, flag: bool) -> bool:
        return True

    # -- what to do next -----------------------------------------------------------------------

    def _choose(self) -> None:
        kind = self._rng.choice(WORK)
        getattr(self, f"_{kind}")()

    def _now_us(self) -> int:
        return WALL_START_US + self._cluster.scheduler.now

    def _some_staged(self) -> tuple[int, ...]:
        states = self._cluster.oracle.library.states(self._queue)
        late = range(max(0, len(states) - 12), len(states))
        return tuple(self._rng.sample(late, min(len(late), self._rng.randint(1, 3))))

    def _append(self) -> None:
        self._store(staged=False)

    def _stage(self) -> None:
        self._store(staged=True)

    def _store(self, *, staged: bool) -> None:
        """One to three messages in a new session; the ids of some come again and again."""
        rng = self._rng
        self._batches += 1
        batch = b"L/%d" % self._batches
        count = rng.randint(1, 3)
        keys = rng.sample(range(IDS), rng.randint(0, count))
        dedup = b"".join(
            c.DEDUP_ENTRY.pack(index, key.to_bytes(16, "big"), key)
            for index, key in enumerate(keys)
        )
        head = (self._queue, rng.randbytes(c.SESSION_BYTES), 1, self._now_us() + 3600 * SECOND)
        if staged:
            dues = tuple(self._now_us() + rng.randrange(300 * MS) for _ in range(count))
            extras = c.StageExtras(dues if rng.random() < 0.7 else None, b"tag")
            raw = c.encode_stage(*head, count, batch, extras, dedup)
        else:
            raw = c.encode_append(*head, count, batch, dedup)
        coverage, oracle = self._cluster.coverage, self._cluster.oracle

        def on_answer(node: int, what: object, flag: bool) -> bool:
            match what:
                case (int(base), int(stored), int(log_time_us)):
                    oracle.ack(batch, base, stored, log_time_us, staged=staged)
                case errors.DedupKnown(known=known):
                    oracle.library.known(dedup, known)
                    coverage.hit("known id refused")
                    if node != self._first_node:
                        coverage.hit("known id refused on a new leader")
                case _:
                    pass
            return True

        self._begin(raw, on_answer)

    def _release(self) -> None:
        numbers = self._some_staged()
        if not numbers:
            return
        library, coverage = self._cluster.oracle.library, self._cluster.coverage
        before = [library.states(self._queue)[number] for number in numbers]

        def on_answer(node: int, what: object, flag: bool) -> bool:
            if isinstance(what, tuple):
                library.released(self._queue, numbers, what)
                for was, offset in zip(before, what, strict=True):
                    if offset == -1:
                        coverage.hit("release before its time refused")
                    elif was == DISCARDED:
                        coverage.hit("release of a discarded message")
                    elif was == STAGED:
                        coverage.hit("staged message released")
                    elif offset is not None:
                        coverage.hit("release repeated")
            return True

        self._begin(c.encode(c.Release(self._queue, numbers)), on_answer)

    def _discard(self) -> None:
        if numbers := self._some_staged()[:1]:
            self._begin(c.encode(c.Discard(self._queue, numbers)), self._any)

    def _reschedule(self) -> None:
        numbers = self._some_staged()
        dues = tuple(self._now_us() + self._rng.randrange(200 * MS) for _ in numbers)

        def on_answer(node: int, what: object, flag: bool) -> bool:
            if isinstance(what, int) and what:
                self._cluster.coverage.hit("staged message rescheduled")
            return True

        if numbers:
            self._begin(c.encode(c.Reschedule(self._queue, numbers, dues)), on_answer)

    def _count(self) -> None:
        expected = self._counter
        new = expected + 1 + self._rng.randrange(3)

        def on_answer(node: int, what: object, flag: bool) -> bool:
            match what:
                case int(value):
                    self._cluster.coverage.hit("counter set")
                    self._cluster.oracle.library.counted(COUNTER, value)
                    self._counter = value
                case errors.Conflict(current=current):
                    self._cluster.coverage.hit("counter conflict")
                    self._counter = current
            return True

        self._begin(c.encode(c.CompareAndSet(COUNTER, expected, new)), on_answer)

    def _wish(self) -> None:
        voters = self._cluster.oracle.reference.membership.voters
        node = self._rng.choice((0, *voters))
        self._begin(c.encode(c.Transfer(node)), self._any)

    def _truncate(self) -> None:
        end = self._cluster.oracle.acked_ends.get(self._queue, 0)
        upto = self._rng.randrange(end + 1)
        keep = tuple(sorted({self._rng.randrange(end + 1) for _ in range(self._rng.randrange(4))}))

        def on_answer(node: int, what: object, flag: bool) -> bool:
            if keep and keep[0] < upto and isinstance(what, int):
                self._cluster.coverage.hit("kept offsets truncated around")
            return True

        self._begin(c.encode(c.Truncate(self._queue, upto, keep)), on_answer)
