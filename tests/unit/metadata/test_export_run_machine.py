"""A run of an export: what each event makes of it, and what no order of events may."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from metadata.exports.run_machine import (
    CANCELLED_BEFORE,
    LEASE_ENDED,
    MAX_BACKOFF_S,
    MAX_CODE_CHARS,
    MAX_MESSAGE_CHARS,
    MIN_BACKOFF_S,
    LockedRun,
    Tick,
    back_off_s,
    is_behind,
    more_follows,
    tick,
)
from metadata.exports.types import (
    BACKFILL,
    CANCELLED,
    EXPORT,
    FAILED,
    LIVE,
    MAINTAIN,
    QUEUED,
    RUNNING,
    SUCCEEDED,
    Ending,
    Failure,
    RunResult,
)

LEASE, OTHER = b"l" * 16, b"o" * 16
START = datetime(2026, 1, 1, tzinfo=UTC)
BROKEN = Failure("broken", "it broke")
ENDS = st.sampled_from([SUCCEEDED, FAILED, CANCELLED])


def running(attempt: int = 1, *, cancelling: bool = False, held: bool = True) -> LockedRun:
    return LockedRun(RUNNING, attempt, 3, cancelling, LEASE, held)


@pytest.mark.parametrize(
    ("ending", "attempt", "cancelling", "state", "failure"),
    [
        (Ending(SUCCEEDED), 1, False, SUCCEEDED, None),
        (Ending(SUCCEEDED), 1, True, SUCCEEDED, None),
        (Ending(CANCELLED), 1, False, CANCELLED, CANCELLED_BEFORE),
        (Ending(FAILED, failure=BROKEN, retry=True), 1, False, QUEUED, BROKEN),
        (Ending(FAILED, failure=BROKEN, retry=True), 3, False, FAILED, BROKEN),
        (Ending(FAILED, failure=BROKEN), 1, False, FAILED, BROKEN),
        (Ending(FAILED, failure=BROKEN, retry=True), 1, True, CANCELLED, CANCELLED_BEFORE),
    ],
)
def test_how_a_run_ends(
    ending: Ending, attempt: int, cancelling: bool, state: str, failure: Failure | None
) -> None:
    line = running(attempt, cancelling=cancelling)
    line.finish(ending)
    assert (line.state, line.failure, line.attempt) == (state, failure, attempt)
    assert (line.delay_s > 0) == (state == QUEUED)


@pytest.mark.parametrize(
    ("attempt", "cancelling", "state", "failure"),
    [
        (1, False, QUEUED, LEASE_ENDED),
        (3, False, FAILED, LEASE_ENDED),
        (1, True, CANCELLED, CANCELLED_BEFORE),
    ],
)
def test_what_the_end_of_a_lease_makes_of_it(
    attempt: int, cancelling: bool, state: str, failure: Failure
) -> None:
    line = running(attempt, cancelling=cancelling, held=False)
    line.expire()
    assert (line.state, line.failure, line.lease) == (state, failure, None)


def test_what_holds_is_not_expired_and_what_is_over_stays() -> None:
    line = running()
    line.expire()
    assert line.state == RUNNING
    for state in (SUCCEEDED, FAILED, CANCELLED, QUEUED):
        line = LockedRun(state, 1, 3, False, LEASE, False)
        line.expire()
        assert line.state == state
    for state in (SUCCEEDED, FAILED, CANCELLED):
        line = LockedRun(state, 1, 3, False, LEASE, False)
        line.cancel()
        assert (line.state, line.cancelling) == (state, False)


def test_a_failure_is_bounded_and_always_says_something() -> None:
    line = running(3)
    line.finish(Ending(FAILED, failure=Failure("c\0" * 500, "m\0" * 5000)))
    assert line.failure == Failure("c" * MAX_CODE_CHARS, "m" * MAX_MESSAGE_CHARS)
    for failure in (None, Failure("", "")):
        line = running(3)
        line.finish(Ending(FAILED, failure=failure))
        assert line.failure is not None
        assert line.failure.code == "failed"


def test_waits_grow_and_have_an_end() -> None:
    waits = [back_off_s(attempt) for attempt in range(1, 100)]
    assert waits == sorted(waits)
    assert (waits[0], waits[1], waits[-1]) == (MIN_BACKOFF_S, 2 * MIN_BACKOFF_S, MAX_BACKOFF_S)


@pytest.mark.parametrize(
    ("already", "last_run", "attempt", "behind"),
    [
        (False, 9, 1, False),
        (True, 7, 1, True),
        (True, 7, 2, False),
        (True, 8, 2, True),
        (True, 0, 1, False),
    ],
)
def test_a_table_is_ahead_where_no_attempt_can_have_brought_it_there(
    already: bool, last_run: int, attempt: int, behind: bool
) -> None:
    result = RunResult(already=already, last_run=last_run)
    assert is_behind(7, attempt, result) is behind


def test_what_is_left_is_another_runs_only_behind_one_that_exported() -> None:
    assert more_follows(EXPORT, SUCCEEDED, True, ())
    assert more_follows(EXPORT, SUCCEEDED, True, (MAINTAIN,))
    assert not more_follows(EXPORT, SUCCEEDED, True, (MAINTAIN, EXPORT))
    assert not more_follows(EXPORT, SUCCEEDED, False, ())
    assert not more_follows(EXPORT, FAILED, True, ())
    assert not more_follows(BACKFILL, SUCCEEDED, True, ())


def test_a_tick_is_made_or_missed_or_coalesced() -> None:
    first, second = START, START + timedelta(hours=1)
    assert tick([], 3, EXPORT, ()) == Tick(None, 3, 0)
    assert tick([first], 2, EXPORT, ()) == Tick(first, 2, 0)
    assert tick([first], 2, EXPORT, (MAINTAIN,)) == Tick(first, 2, 0)
    assert tick([first], 2, EXPORT, (EXPORT, MAINTAIN)) == Tick(None, 2, 1)
    assert tick([first, second], 2, EXPORT, ()) == Tick(second, 3, 0)
    assert tick([first, second], 2, MAINTAIN, (MAINTAIN,)) == Tick(None, 3, 1)


class AnyOrder(RuleBasedStateMachine):
    """A run, the leases that were ever given for it, and who was told that it is theirs to end."""

    def __init__(self) -> None:
        super().__init__()
        self.line = LockedRun(QUEUED, 0, 3, False, None, False)
        self.leases: list[bytes] = []
        self.ended: dict[bytes, str] = {}
        self.over: str | None = None

    @precondition(lambda self: self.line.state == QUEUED)
    @rule()
    def claim(self) -> None:
        lease = len(self.leases).to_bytes(16, "big")
        self.leases.append(lease)
        self.line = LockedRun(RUNNING, self.line.attempt + 1, 3, False, lease, True)

    @precondition(lambda self: self.line.state == RUNNING)
    @rule()
    def time_passes(self) -> None:
        self.line.held = False

    @rule()
    def expire(self) -> None:
        self.line.expire()

    @rule()
    def cancel(self) -> None:
        self.line.cancel()

    @precondition(lambda self: self.leases)
    @rule(
        data=st.data(), state=st.sampled_from([SUCCEEDED, FAILED, CANCELLED]), retry=st.booleans()
    )
    def finish(self, data: st.DataObject, state: str, retry: bool) -> None:
        lease = data.draw(st.sampled_from(self.leases))
        if self.line.finished_by(lease):
            assert lease in self.ended
            return
        if not self.line.holds(lease):
            return
        assert lease == self.leases[-1]
        assert lease not in self.ended
        self.line.finish(Ending(state, failure=BROKEN, retry=retry))
        self.ended[lease] = state

    @precondition(lambda self: self.leases)
    @rule()
    def release(self) -> None:
        if self.line.holds(self.leases[-1]):
            self.line.release()

    @invariant()
    def it_is_over_once_and_has_its_attempts(self) -> None:
        assert 0 <= self.line.attempt <= 3
        if self.over is not None:
            assert self.line.state == self.over
        elif self.line.state not in LIVE:
            self.over = self.line.state
        if self.line.state == SUCCEEDED:
            assert SUCCEEDED in self.ended.values()
        if self.line.state == QUEUED and self.line.attempt == 3:
            raise AssertionError("no attempt is left, and it waits for one")


TestAnyOrder = AnyOrder.TestCase
