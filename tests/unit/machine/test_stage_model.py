"""Staged messages against a dict, at every step and across snapshots, with small chunks."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from store_nodes import commands as c
from store_nodes.machine import stages
from store_nodes.machine.machine import Machine
from store_nodes.machine.outcomes import (
    CommandRefused,
    ReleaseDone,
    SealDone,
    StagedChanged,
    TruncateDone,
)
from store_nodes.machine.stage_chunk import DISCARDED, STAGED, TRUNCATED
from store_nodes.machine.stages import StagedMessage
from tests.unit.machine.driver import SECOND, Driver, Q, base, base_stage, with_queue

TICK = 10 * SECOND
dues = st.none() | st.integers(0, 12)
picks = st.lists(st.floats(-0.05, 1.05), max_size=12)


@dataclass
class Message:
    """The entry of the dict for one staged message.

    An `offset` of −1 means that it has none yet.
    """

    due_us: int | None
    log_time_us: int
    tag: bytes
    base: int
    count: int
    offset: int = -1
    discarded: bool = False


class StageModel(RuleBasedStateMachine):
    """A model that compares the machine in `self.d` with the plainest lists and sets."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(stages, "CHUNK_MESSAGES", 8)
        self.patch.setattr(stages, "TIDY_MESSAGES", 5)
        self.patch.setattr(stages, "REMEMBERED_CHANGES", 6)
        self.d: Driver = with_queue()
        self.sessions = 0
        self.messages: list[Message] = []
        self.first = 0
        self.end = 0
        self.kept: set[int] = set()
        self.changes: list[int] = []
        self.sealed = False

    def teardown(self) -> None:
        self.patch.undo()

    # The answers of the dict.

    def readable(self, offset: int) -> bool:
        return self.first <= offset < self.end or offset in self.kept

    def state(self, number: int) -> tuple[str, int | None]:
        if not 0 <= number < len(self.messages):
            return "truncated", None
        message = self.messages[number]
        if message.discarded:
            return "discarded", None
        if message.offset < 0:
            return "staged", None
        return ("offset", message.offset) if self.readable(message.offset) else ("truncated", None)

    def numbers(self, picked: list[float]) -> tuple[int, ...]:
        """Return numbers anywhere among the staged messages, and a little past their end."""
        return tuple(max(0, round(pick * len(self.messages))) for pick in picked)

    # Commands.

    def session(self) -> bytes:
        """A new one each time: time goes in great steps, and sessions are not the point here."""
        self.sessions += 1
        return self.sessions.to_bytes(16, "big")

    @precondition(lambda self: not self.sealed)
    @rule(
        count=st.integers(1, 7),
        due=st.lists(dues, min_size=7, max_size=7),
        held=st.booleans(),
        tag=st.sampled_from([b"", b"t", b"u" * 64]),
    )
    def stage(self, count: int, due: list[int | None], held: bool, tag: bytes) -> None:
        now = max(self.d.machine.log_time_us + 1, self.d.now)
        times = None if held else tuple(now + (n or 0) * TICK for n in due[:count])
        first = base_stage(self.d.stage(1, session=self.session(), count=count, due=times, tag=tag))
        assert first == len(self.messages)
        for at in range(count):
            when = None if times is None else times[at]
            self.messages.append(Message(when, now, tag, first, count))

    @precondition(lambda self: not self.sealed)
    @rule(count=st.integers(1, 5))
    def append(self, count: int) -> None:
        assert base(self.d.append(1, session=self.session(), count=count)) == self.end
        self.end += count

    @rule(picked=picks)
    def release(self, picked: list[float]) -> None:
        numbers = self.numbers(picked)
        outcome = self.d.one(c.Release(Q, numbers))
        now = self.d.machine.log_time_us
        due = [
            n
            for n in numbers
            if self.state(n)[0] == "staged"
            and (self.messages[n].due_us is None or self.messages[n].due_us <= now)
        ]
        if self.sealed and due:
            assert isinstance(outcome, CommandRefused)
            return
        assert isinstance(outcome, ReleaseDone)
        expected: list[int | None] = []
        given: list[tuple[int, int]] = []
        for number in numbers:
            state, offset = self.state(number)
            if state == "staged" and number in due:
                offset = self.messages[number].offset = self.end
                given.append((offset, number))
                self.end += 1
            expected.append(-1 if offset is None and state == "staged" else offset)
        assert outcome.offsets == tuple(expected)
        assert given == [
            (run.base_offset + at, run.stage_base + index)
            for run in outcome.runs
            for at, index in enumerate(run.indices)
        ]
        for run in outcome.runs:
            assert {self.messages[run.stage_base + n].base for n in run.indices} == {run.stage_base}

    @rule(picked=picks)
    def discard(self, picked: list[float]) -> None:
        numbers = self.numbers(picked)
        hit = {n for n in numbers if self.state(n)[0] == "staged"}
        assert self.d.one(c.Discard(Q, numbers)) == StagedChanged(Q, len(hit))
        for number in hit:
            self.messages[number].discarded = True

    @rule(picked=picks, ahead=st.integers(0, 12))
    def reschedule(self, picked: list[float], ahead: int) -> None:
        numbers = self.numbers(picked)
        due_us = self.d.now + ahead * TICK
        hit = [n for n in numbers if self.state(n)[0] == "staged"]
        outcome = self.d.one(c.Reschedule(Q, numbers, (due_us,) * len(numbers)))
        assert outcome == StagedChanged(Q, len(hit))
        for number in hit:
            self.messages[number].due_us = due_us
            self.changes.append(number)

    @rule(upto=st.floats(0, 1), keep=st.lists(st.floats(0, 1), max_size=6))
    def truncate(self, upto: float, keep: list[float]) -> None:
        line = round(upto * self.end)
        kept = tuple(round(pick * self.end) for pick in keep)
        if line >= self.first:
            self.kept = {n for n in kept if n < line and self.readable(n)}
            self.first = line
        expected = TruncateDone(Q, self.first, tuple(sorted(self.kept)))
        assert self.d.one(c.Truncate(Q, line, kept)) == expected

    @rule()
    def truncate_all(self) -> None:
        self.truncate(1, [])

    @rule(ticks=st.integers(0, 4))
    def wait(self, ticks: int) -> None:
        self.d.now += ticks * TICK

    @precondition(lambda self: len(self.messages) > 40)
    @rule()
    def seal(self) -> None:
        assert self.d.one(c.Seal(Q)) == SealDone(Q, self.end)
        self.sealed = True

    @rule()
    def snapshot(self) -> None:
        """Go on with what was restored; it is the same, to the byte."""
        raw = self.d.machine.state_snapshot()
        self.d.reload()
        assert self.d.machine.state_snapshot() == raw

    # Queries agree at any time.

    @invariant()
    def every_message_is_where_it_should_be(self) -> None:
        machine = self.d.machine
        for number in range(len(self.messages) + 2):
            assert machine.locate(Q, number) == self.state(number)

    @invariant()
    def the_listing_is_whole(self) -> None:
        rows = [
            StagedMessage(number, m.due_us, m.log_time_us, m.tag)
            for number, m in enumerate(self.messages)
            if self.state(number)[0] == "staged"
        ]
        machine = self.d.machine
        after = len(self.messages) // 2
        assert machine.staged(Q, -1, 10_000) == rows
        assert machine.staged(Q, after, 3) == [r for r in rows if r.stage_number > after][:3]
        assert [info.staged for info in machine.queues()] == [len(rows)]

    @invariant()
    def batches_live_as_long_as_a_message(self) -> None:
        machine = self.d.machine
        for number, message in enumerate(self.messages):
            batch = message.base, message.count
            live = any(
                self.state(n)[0] in ("staged", "offset") for n in range(batch[0], sum(batch))
            )
            assert machine.staged_live(Q, *batch) == live
            found = machine.batch_of_stage(Q, number)
            if self.state(number)[0] in ("staged", "offset"):
                assert found == batch
            else:
                assert found is None or (found == batch and live)

    @invariant()
    def changes_are_told(self) -> None:
        machine, total = self.d.machine, len(self.changes)
        assert machine.offsets(Q).stage_changes == total
        for since in range(max(0, total - 9), total + 1):
            expected = self.changes[since:] if total - since <= 6 else None
            if machine._queue(Q).stages is not None:
                assert machine.stage_changes_since(Q, since) == (expected, total)

    @invariant()
    def memory_follows_what_is_live(self) -> None:
        found = self.d.machine._queue(Q).stages
        if found is None:
            return
        held = sum(len(chunk) for chunk in found._chunks)
        live = sum(self.state(n)[0] in ("staged", "offset") for n in range(len(self.messages)))
        left = len(found._offsets) - found._head
        # The last chunk keeps what it has until it is full, and truncation may lag behind.
        assert held <= 2 * (live + left) + 8 + 6
        assert all(chunk.numbers for chunk in found._chunks)
        assert all(chunk.removed * 2 <= len(chunk) for chunk in found._chunks[:-1])
        for chunk in found._chunks:
            places = list(chunk.places)
            assert chunk.staged == places.count(STAGED)
            assert chunk.removed == places.count(DISCARDED) + places.count(TRUNCATED)
        for a, b in zip(found._chunks, found._chunks[1:], strict=False):
            assert a.numbers[-1] < b.numbers[0]


StageModel.TestCase.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)
TestStages = StageModel.TestCase


def test_the_small_sizes_are_the_tests_alone() -> None:
    assert (stages.CHUNK_MESSAGES, stages.TIDY_MESSAGES, stages.REMEMBERED_CHANGES) == (
        1024,
        2048,
        4096,
    )
    assert Machine(1).queues() == []
