"""Remembered ids against a dict: log-time windows, retries of a session, overflow, snapshots."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from store_nodes import commands as c
from store_nodes import errors
from store_nodes.errors import Known
from store_nodes.machine import dedup as table
from store_nodes.machine.outcomes import AppendDone, CommandRefused, Outcome, StageDone
from tests.unit.machine.driver import Q2, SECOND, Driver, Q, with_queue

MAX_ENTRIES = 30
WINDOWS_S = (2, 4, 10, 600)
# Both halves of the hash collide often: look-ups have to tell ids apart by either.
ids = st.tuples(st.integers(0, 3), st.integers(0, 5)).map(
    lambda halves: halves[0].to_bytes(8, "little") + halves[1].to_bytes(8, "little")
)
entries = st.lists(st.tuples(ids, st.integers(0, 1)), min_size=1, max_size=5)


@dataclass
class Held:
    """The entry of the dict for one id, with the times when it may and when it must be
    forgotten.
    """

    body: int
    position: int
    staged: bool
    queue: bytes
    until_us: int
    latest_us: int


@dataclass
class Sent:
    """An append or stage that was decided, and what came of it."""

    raw: bytes
    outcome: Outcome
    section: list[tuple[bytes, int]]
    at_us: int


class DedupModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(table, "SHARD_ENTRIES", 4)
        self.patch.setattr(table, "MAX_DEDUP_ENTRIES", MAX_ENTRIES)
        self.d: Driver = with_queue()
        self.d.one(c.Create(Q2, 0, b""))
        self.held: dict[bytes, Held] = {}
        self.sent: list[Sent] = []
        self.sealed: set[bytes] = set()
        self.sessions = 0

    def teardown(self) -> None:
        self.patch.undo()

    def settle(self) -> None:
        """Between the end of its window and a quarter more, an id may be known or not: the dict
        follows the machine. Before and after it may not."""
        now = self.d.machine.log_time_us
        for name, held in list(self.held.items()):
            if now <= held.until_us:
                continue
            still = self.asked([(name, 0)])
            assert not still or now < held.latest_us
            if not still:
                del self.held[name]

    def asked(self, section: list[tuple[bytes, int]]) -> dict[int, Known]:
        """Look the ids up, as the leader does before it proposes."""
        raw = c.encode_append(Q, b"!" * 16, 1, 0, len(section), b"x", packed(section))
        command = c.parse(raw)
        assert isinstance(command, c.Append)
        return self.d.machine.dedup_known(command)

    def expected(self, section: list[tuple[bytes, int]]) -> dict[int, Known]:
        return {
            at: Known(h.position, h.staged, h.body == body, h.queue)
            for at, (name, body) in enumerate(section)
            if (h := self.held.get(name))
        }

    @rule(
        section=entries,
        queue=st.sampled_from([Q, Q2]),
        window_s=st.sampled_from(WINDOWS_S),
        staged=st.booleans(),
        late=st.sampled_from([False] * 9 + [True]),
    )
    def send(
        self,
        section: list[tuple[bytes, int]],
        queue: bytes,
        window_s: int,
        staged: bool,
        late: bool,
    ) -> None:
        self.sessions += 1
        session = self.sessions.to_bytes(16, "big")
        deadline = 1 if late else self.d.now + 50 * SECOND
        count, raw_section = len(section), packed(section)
        extras = c.StageExtras(None) if staged else None
        raw = c.encode_append(
            queue, session, 1, deadline, count, b"x", raw_section, extras, dedup_window_s=window_s
        )
        room = 0
        before = self.d.machine.offsets(queue)
        # The ids that end now are forgotten before the append is looked at.
        self.d.do(c.encode(c.Transfer(0)))
        self.settle()
        room = MAX_ENTRIES - self.d.machine.dedup_entries
        self.d.now = self.d.machine.log_time_us
        known = self.expected(section)
        [outcome] = self.d.do(raw)
        now = self.d.machine.log_time_us
        if queue not in self.sealed:
            self.sent.append(Sent(raw, outcome, section, now))
        match outcome:
            case CommandRefused(error=errors.DedupKnown() as error):
                assert error.known == known
                assert known
            case CommandRefused(error=errors.QueueSealed()):
                assert queue in self.sealed
                assert not known
            case CommandRefused(error=errors.DeadlinePassed()):
                assert late
                assert not known
            case CommandRefused(error=errors.Overloaded()):
                assert count > room
                assert not known
            case AppendDone() | StageDone():
                assert not known
                assert not late
                assert count <= room
                first = before.stage_end if staged else before.end
                for at, (name, body) in enumerate(section):
                    until, latest = now + window_s * SECOND, now + window_s * SECOND * 5 // 4
                    held = Held(body, first + at, staged, queue, until, latest)
                    self.held.setdefault(name, held)
            case _:
                raise AssertionError(outcome)

    @precondition(lambda self: self.sent)
    @rule(pick=st.integers(0, 10**6))
    def repeat(self, pick: int) -> None:
        """A retry never changes anything and is told what the first was."""
        sent = self.sent[pick % len(self.sent)]
        if self.d.now > sent.at_us + 50 * SECOND:
            return
        before = [self.d.machine.offsets(queue) for queue in (Q, Q2)]
        [again] = self.d.do(sent.raw)
        self.settle()
        assert [self.d.machine.offsets(queue) for queue in (Q, Q2)] == before
        match sent.outcome:
            case CommandRefused(error=errors.DedupKnown()):
                assert isinstance(again, CommandRefused)
                assert isinstance(again.error, errors.DedupKnown)
                assert again.error.known == self.expected(sent.section)
            case CommandRefused(_, error):
                assert isinstance(again, CommandRefused)
                assert type(again.error) is type(error)
            case AppendDone(_, base, count, log_time_us):
                queue = sent.outcome.queue
                assert again == AppendDone(queue, base, count, log_time_us, duplicate=True)
            case StageDone(_, base, count, log_time_us):
                queue = sent.outcome.queue
                assert again == StageDone(queue, base, count, log_time_us, duplicate=True)

    @rule(us=st.sampled_from([1, SECOND // 2, SECOND, 2 * SECOND, 9 * SECOND, 200 * SECOND]))
    def wait(self, us: int) -> None:
        self.d.now += us

    @precondition(lambda self: len(self.sent) > 20)
    @rule()
    def seal(self) -> None:
        self.d.one(c.Seal(Q))
        self.settle()
        self.sealed.add(Q)

    @rule()
    def snapshot(self) -> None:
        raw = self.d.machine.state_snapshot()
        self.d.reload()
        assert self.d.machine.state_snapshot() == raw

    @invariant()
    def each_id_is_known_where_it_was_first(self) -> None:
        self.settle()
        for name in {*self.held, bytes(16), b"\1" + bytes(15)}:
            section = [(name, 1)]
            assert self.asked(section) == self.expected(section)

    @invariant()
    def ids_are_counted(self) -> None:
        assert self.d.machine.dedup_entries == len(self.held) <= MAX_ENTRIES

    @invariant()
    def shards_are_small_and_sorted(self) -> None:
        for bucket in self.d.machine._dedup._buckets:
            keys = [list(shard.keys) for shard in bucket._shards]
            assert [k for shard in keys for k in shard] == sorted(k for s in keys for k in s)
            assert bucket._starts[1:] == [shard[0] for shard in keys[1:]]
            # At most 4, and what a cut may not part: 6 ids here share a first half.
            assert all(len(shard) <= 4 + 2 * 6 for shard in keys)


def packed(section: list[tuple[bytes, int]]) -> bytes:
    return b"".join(c.DEDUP_ENTRY.pack(at, name, body) for at, (name, body) in enumerate(section))


DedupModel.TestCase.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)
TestDedup = DedupModel.TestCase
