"""Plain models of staging, known ids and counters, held against what the log decided.

* Stage numbers of a queue are dense; one is released once, to the next offset, when it is due, and
  never after it was discarded.
* An id is stored once in its window of log time; who sends it again is told where it is.
* A counter is set only from the value that was expected.
"""

from __future__ import annotations

from store_nodes import commands as c
from store_nodes.errors import DedupKnown, Known
from store_nodes.machine.outcomes import (
    CounterSet,
    Outcome,
    Refused,
    ReleaseDone,
    StagedChanged,
    StageDone,
)
from tests.simulation.oracle_votes import Violation

STAGED = -1
DISCARDED = -2


class Library:
    """What the log's answers must agree with."""

    def __init__(self) -> None:
        self._stages: dict[bytes, list[int]] = {}
        """Offset, STAGED or DISCARDED, by stage number."""
        self._due: dict[bytes, list[int | None]] = {}
        self._ids: dict[bytes, list[tuple[bytes, int, bool]]] = {}
        """Where it is, and was before its window ended."""
        self._until_us: dict[bytes, int] = {}
        self._counters: dict[str, int] = {}
        self._set: dict[str, set[int]] = {}

    # -- decided -------------------------------------------------------------------------------

    def stage(self, command: c.Stage, done: StageDone) -> None:
        states = self._stages.setdefault(done.queue, [])
        dues = self._due.setdefault(done.queue, [])
        if done.base_stage != len(states):
            raise Violation(f"stage number {done.base_stage} given, {len(states)} is next")
        states += [STAGED] * done.count
        dues += command.extras.due_us or [None] * done.count
        self.remember(command.append, done.base_stage, done.log_time_us, staged=True)

    def remember(self, command: c.Append, base: int, log_time_us: int, *, staged: bool) -> None:
        for index, key, _ in c.DEDUP_ENTRY.iter_unpack(command.dedup):
            if log_time_us < self._until_us.get(key, 0):
                raise Violation(f"id {key.hex()} is in the log twice")
            self._until_us[key] = log_time_us + command.dedup_window_us
            self._ids.setdefault(key, []).append((command.queue, base + index, staged))

    def release(self, done: ReleaseDone, end: int, log_time_us: int) -> int:
        """The queue's end after it."""
        states, dues = self._stages.get(done.queue, []), self._due.get(done.queue, [])
        for base_offset, stage_base, indices in done.runs:
            if base_offset != end:
                raise Violation(f"released to offset {base_offset}, {end} is next")
            for index in indices:
                number = stage_base + index
                if states[number] != STAGED:
                    raise Violation(f"stage number {number} released, it is at {states[number]}")
                due = dues[number]
                if due is not None and due > log_time_us:
                    raise Violation(f"stage number {number} released before its time")
                states[number] = end
                end += 1
        return end

    def apply(self, command: c.Command, outcome: Outcome) -> None:
        match command, outcome:
            case c.Discard(queue, numbers), StagedChanged(_, changed):
                staged = self._staged(queue, numbers)
                self._check_changed(staged, changed)
                for number in staged:
                    self._stages[queue][number] = DISCARDED
            case c.Reschedule(queue, numbers, dues), StagedChanged(_, changed):
                staged = self._staged(queue, numbers)
                self._check_changed(staged, changed)
                moved = dict(zip(numbers, dues, strict=True))
                for number in staged:
                    self._due[queue][number] = moved[number]
            case c.CompareAndSet(name, expected, new), CounterSet(_, value):
                if self._counters.get(name, 0) != expected or value != new:
                    raise Violation(f"counter {name} set from another value than {expected}")
                self._counters[name] = new
                self._set.setdefault(name, set()).add(new)
            case ((c.Append() | c.Stage()), Refused(_, DedupKnown() as error)):
                append = command if isinstance(command, c.Append) else command.append
                self.known(append.dedup, error.known)
            case _:
                pass

    def _staged(self, queue: bytes, numbers: tuple[int, ...]) -> list[int]:
        states = self._stages.get(queue, [])
        return [n for n in dict.fromkeys(numbers) if n < len(states) and states[n] == STAGED]

    def _check_changed(self, staged: list[int], changed: int) -> None:
        if len(staged) != changed:
            raise Violation(f"{changed} staged messages changed, {len(staged)} were staged")

    # -- answered ------------------------------------------------------------------------------

    def known(self, dedup: bytes, known: dict[int, Known]) -> None:
        """A batch was refused for these ids."""
        keys = {index: key for index, key, _ in c.DEDUP_ENTRY.iter_unpack(dedup)}
        if not known:
            raise Violation("a batch was refused for no known id")
        for index, found in known.items():
            places = self._ids.get(keys[index], ())
            if (found.queue, found.position, found.staged) not in places:
                raise Violation(f"id {keys[index].hex()} said to be at {found}, is at {places}")

    def released(
        self, queue: bytes, numbers: tuple[int, ...], offsets: tuple[int | None, ...]
    ) -> None:
        """None: discarded, or truncated. −1: not due then, whatever it is now."""
        for number, offset in zip(numbers, offsets, strict=True):
            if offset is not None and offset >= 0 and offset != self._stages[queue][number]:
                raise Violation(f"stage number {number} said to be at {offset}")
            if offset is None and self._stages[queue][number] == STAGED:
                raise Violation(f"stage number {number} said to be gone")

    def counted(self, name: str, value: int) -> None:
        if value not in self._set.get(name, ()):
            raise Violation(f"counter {name} said to be set to {value}")

    def states(self, queue: bytes) -> list[int]:
        """By stage number: its offset, STAGED or DISCARDED."""
        return self._stages.get(queue, [])
