"""Takes the commands of clients through a group: waiting, proposed, applied, answered.

With durability leader a command is answered once its record is durable on this node, with quorum
once it is chosen and applied, with all once every connected voter has it durably.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple, Protocol

from store_nodes.commands import Reconfigure
from store_nodes.errors import OutcomeUnknown, StoreError, Unavailable
from store_nodes.machine.outcomes import (
    AppendDone,
    CommandRefused,
    CounterSet,
    CreateDone,
    MembershipSet,
    Outcome,
    ReleaseDone,
    SealDone,
    StagedChanged,
    StageDone,
    TruncateDone,
)
from store_nodes.wire import Durability

MAX_VALUE_BYTES = 4 * 1024 * 1024
"""Bytes up to which a value takes waiting commands; a larger single command goes alone."""
MAX_VALUE_COMMANDS = 1024


class CommandReply(Protocol):
    """Answers one command.

    `accepted` may be called once, before the final answer; exactly one of the others is the final
    answer. Calls after the client has gone do nothing.
    """

    def accepted(self) -> None:
        """Send the early answer, for durability LEADER (synced here) and NONE (proposed)."""

    def appended(
        self, base_offset: int, count: int, log_time_us: int, *, duplicate: bool = False
    ) -> None:
        """Answer that an append took effect."""

    def released(self, offsets: tuple[int | None, ...], log_time_us: int) -> None:
        """Answer that a release took effect; `offsets` are those of wire.Released."""

    def finished(self, value: int, log_time_us: int) -> None:
        """Answer that another command took effect; `value` is that of wire.Finished."""

    def failed(self, error: StoreError, *, decided: bool) -> None:
        """Answer that the command failed.

        With `decided`, the log decided it (a machine's CommandRefused), for every transmission of
        the command. Otherwise it was refused here and never proposed, such as NotLeader and
        Overloaded. A command that was proposed and whose outcome is not known is `OutcomeUnknown`,
        not decided.
        """


class PendingCommand(NamedTuple):
    """One command from one client."""

    raw: bytes
    durability: Durability
    reply: CommandReply
    deadline_us: int


class Budget:
    """Bytes of commands that wait at a node, over all its groups."""

    __slots__ = ("held_bytes", "max_bytes")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.held_bytes = 0


class PendingCommands:
    """The commands of one group: a bounded wait list, and those in open instances."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._waiting: deque[PendingCommand] = deque()
        self._proposed: dict[int, list[PendingCommand]] = {}
        self._watched: dict[int, list[tuple[PendingCommand, Outcome]]] = {}
        self.steps: deque[tuple[PendingCommand, Reconfigure]] = deque()
        """Steps of membership that wait, each for a value of its own."""

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def admits(self, raw: bytes) -> bool:
        """Return whether the wait list has room for the bytes of a command."""
        return self._budget.held_bytes + len(raw) <= self._budget.max_bytes

    def add(self, pending: PendingCommand) -> None:
        """Add a command to the wait list."""
        self._budget.held_bytes += len(pending.raw)
        self._waiting.append(pending)

    def add_step(self, pending: PendingCommand, step: Reconfigure) -> None:
        self._budget.held_bytes += len(pending.raw)
        self.steps.append((pending, step))

    def drop_step(self) -> None:
        """Drop the first waiting step, which was proposed or refused."""
        pending, _ = self.steps.popleft()
        self._budget.held_bytes -= len(pending.raw)

    def next_value(self) -> list[PendingCommand]:
        """Take the commands of the next Paxos value off the wait list."""
        taken: list[PendingCommand] = []
        total_bytes = 0
        while self._waiting and len(taken) < MAX_VALUE_COMMANDS:
            total_bytes += len(self._waiting[0].raw)
            if taken and total_bytes > MAX_VALUE_BYTES:
                break
            pending = self._waiting.popleft()
            self._budget.held_bytes -= len(pending.raw)
            taken.append(pending)
        return taken

    def proposed(self, instance: int, commands: list[PendingCommand]) -> None:
        """Note the commands of an instance, and answer those of durability none."""
        self._proposed[instance] = commands
        for pending in commands:
            if pending.durability is Durability.NONE:
                pending.reply.accepted()

    def synced_here(self, instances: Iterable[int]) -> None:
        """Answer commands of durability leader whose instances are durable on this node."""
        for instance in instances:
            for pending in self._proposed.get(instance, ()):
                if pending.durability is Durability.LEADER:
                    pending.reply.accepted()

    def applied(self, instance: int, outcomes: list[Outcome], log_time_us: int) -> None:
        """Answer the commands that were proposed here in this instance, with their outcomes."""
        commands = self._proposed.pop(instance, None)
        if commands is None:
            return
        assert len(commands) == len(outcomes)
        for pending, outcome in zip(commands, outcomes, strict=True):
            if pending.durability is Durability.ALL:
                self._watched.setdefault(instance, []).append((pending, outcome))
            else:
                answer(pending.reply, outcome, log_time_us)

    def replicated(self, instance: int, log_time_us: int) -> None:
        """Answer the commands that waited until every connected voter has the instance."""
        for pending, outcome in self._watched.pop(instance, ()):
            answer(pending.reply, outcome, log_time_us)

    def lose_leadership(self, error: StoreError) -> None:
        """Fail open commands as unknown, and waiting ones as not done (`error`); both may be
        retried.
        """
        proposed, self._proposed = self._proposed, {}
        watched, self._watched = self._watched, {}
        for commands in proposed.values():
            for pending in commands:
                pending.reply.failed(OutcomeUnknown("leadership was lost"), decided=False)
        for entries in watched.values():
            for pending, _ in entries:
                pending.reply.failed(OutcomeUnknown("leadership was lost"), decided=False)
        while self._waiting:
            pending = self._waiting.popleft()
            self._budget.held_bytes -= len(pending.raw)
            pending.reply.failed(error, decided=False)
        while self.steps:
            pending, _ = self.steps[0]
            self.drop_step()
            pending.reply.failed(error, decided=False)

    def expire(self, now_us: int) -> None:
        """Refuse waiting commands whose client has stopped waiting."""
        while self._waiting and self._waiting[0].deadline_us <= now_us:
            pending = self._waiting.popleft()
            self._budget.held_bytes -= len(pending.raw)
            pending.reply.failed(Unavailable("no majority answered in time"), decided=False)
        while self.steps and self.steps[0][0].deadline_us <= now_us:
            pending, _ = self.steps[0]
            self.drop_step()
            pending.reply.failed(
                Unavailable("the last change of membership is not confirmed"), decided=False
            )


def answer(reply: CommandReply, outcome: Outcome, log_time_us: int) -> None:
    """Answer a command with its outcome."""
    match outcome:
        case AppendDone():
            reply.appended(
                outcome.base_offset,
                outcome.count,
                outcome.log_time_us,
                duplicate=outcome.duplicate,
            )
        case StageDone():
            reply.appended(
                outcome.base_stage,
                outcome.count,
                outcome.log_time_us,
                duplicate=outcome.duplicate,
            )
        case CommandRefused():
            reply.failed(outcome.error, decided=True)
        case ReleaseDone():
            reply.released(outcome.offsets, outcome.log_time_us)
        case _:
            reply.finished(_value(outcome), log_time_us)


def _value(outcome: Outcome) -> int:
    """Return the value of an outcome, as wire.Finished describes it."""
    match outcome:
        case SealDone(_, offset):
            return offset
        case TruncateDone(_, first_offset):
            return first_offset
        case CreateDone(_, end):
            return end
        case StagedChanged(_, changed):
            return changed
        case CounterSet(_, value):
            return value
        case MembershipSet(version):
            return version
        case _:
            return 0
