"""A machine under test: commands go in one by one, and time moves only when told."""

from __future__ import annotations

from store_nodes import commands as c
from store_nodes import errors
from store_nodes.machine.machine import Machine
from store_nodes.machine.outcomes import (
    AppendDone,
    CommandRefused,
    CreateDone,
    Outcome,
    ReleaseDone,
    StageDone,
)
from store_nodes.membership import Membership

Q = bytes(24) + b"\x01"
Q2 = bytes(24) + b"\x02"
S = b"s" * 16
S2 = b"t" * 16
SECOND = 1_000_000
START = 1_000 * SECOND


class Driver:
    """A machine and the instance it is at; time moves only when told."""

    def __init__(self, membership: Membership | None = None) -> None:
        self.machine = Machine(3, membership or Membership())
        self.now = START

    def do(self, *commands: bytes) -> list[Outcome]:
        value = c.encode_value(commands, self.now)
        return self.machine.apply(self.machine.applied, value)

    def one(self, command: c.ControlCommand) -> Outcome:
        [outcome] = self.do(c.encode(command))
        return outcome

    def append(
        self,
        seq: int,
        *,
        queue: bytes = Q,
        session: bytes = S,
        count: int = 1,
        deadline: int | None = None,
        dedup: bytes = b"",
        window_s: int = c.DEDUP_WINDOW_S,
    ) -> Outcome:
        limit = self.now + SECOND if deadline is None else deadline
        raw = c.encode_append(
            queue, session, seq, limit, count, b"batch", dedup, dedup_window_s=window_s
        )
        [outcome] = self.do(raw)
        return outcome

    def stage(
        self,
        seq: int,
        *,
        queue: bytes = Q,
        session: bytes = S,
        count: int = 1,
        due: tuple[int, ...] | None = None,
        tag: bytes = b"",
        deadline: int | None = None,
        dedup: bytes = b"",
    ) -> Outcome:
        limit = self.now + SECOND if deadline is None else deadline
        extras = c.StageExtras(due, tag)
        raw = c.encode_append(queue, session, seq, limit, count, b"batch", dedup, extras)
        [outcome] = self.do(raw)
        return outcome

    def release(self, *numbers: int, queue: bytes = Q) -> ReleaseDone:
        outcome = self.one(c.Release(queue, numbers))
        assert isinstance(outcome, ReleaseDone)
        return outcome

    def reload(self) -> None:
        """Go on with the machine that its snapshot gives."""
        self.machine = Machine.restore(3, self.machine.state_snapshot())


def dedup(*names: str, body: int = 0, index: int = 0) -> bytes:
    """A dedup section: each name is an id, of one message after the other."""
    return b"".join(
        c.DEDUP_ENTRY.pack(at, name.encode().rjust(16, b"."), body)
        for at, name in enumerate(names, index)
    )


def known(outcome: Outcome) -> dict[int, errors.Known]:
    error = refusal(outcome)
    assert isinstance(error, errors.DedupKnown)
    return error.known


def with_queue() -> Driver:
    driver = Driver()
    assert driver.one(c.Create(Q, 0, b"meta")) == CreateDone(Q, 0)
    return driver


def refusal(outcome: Outcome) -> errors.StoreError:
    assert isinstance(outcome, CommandRefused)
    return outcome.error


def expected_seq(outcome: Outcome) -> int:
    error = refusal(outcome)
    assert isinstance(error, errors.SequenceGap)
    return error.expected


def base(outcome: Outcome) -> int:
    assert isinstance(outcome, AppendDone)
    return outcome.base_offset


def base_stage(outcome: Outcome) -> int:
    assert isinstance(outcome, StageDone)
    return outcome.base_stage
