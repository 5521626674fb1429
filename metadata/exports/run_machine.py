"""The state machine of a run of an export, as decisions about a row that is locked. Pure.

    queued  ─claim→ running ─finish→ succeeded | failed | cancelled
    running ─finish as failed, another attempt may succeed→ queued, after a back-off
    running ─its lease ends→ queued
    running ─either of these, without attempts left→ failed
    running ─release: its holder never heard of it→ queued, and the attempt does not count
    running ─any of these, once it was cancelled→ cancelled
    queued  ─cancel→ cancelled
    running ─cancel→ running; its holder is told

Invariants, whichever process dies at any time:

1. A run is finished by the lease that holds it, once. The same answer again changes nothing, and
   one under a lease that is over, or another's, is refused: its attempt may have committed to the
   table all the same, and the next attempt finds that there.
2. Runs of an export are claimed in the order of their numbers, none before the one below it is
   over: also while that waits for its next attempt. A table takes a run with a number at or below
   its last one for done.
3. A tick of a schedule makes one run, or is missed, or coalesces with a run of its kind that is not
   over: in the transaction that moves the schedule on, from the tick that was seen.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from metadata.exports.types import (
    CANCELLED,
    EXPORT,
    FAILED,
    QUEUED,
    RUNNING,
    SUCCEEDED,
    Ending,
    Failure,
    RunResult,
)

MIN_BACKOFF_S = 5.0
MAX_BACKOFF_S = 600.0
MAX_CODE_CHARS = 100
MAX_MESSAGE_CHARS = 4096
LEASE_ENDED = Failure("lease-ended", "its runner was not heard of any more")
CANCELLED_BEFORE = Failure("cancelled", "it was cancelled")


@dataclass(slots=True)
class LockedRun:
    """The columns of a run's row on which decisions depend, and which they change.

    `held`: its lease is not over. `delay_s`: the time until it may be claimed again.
    """

    state: str
    attempt: int
    max_attempts: int
    cancelling: bool
    lease: bytes | None
    held: bool
    failure: Failure | None = None
    delay_s: float = 0.0

    def holds(self, lease: bytes) -> bool:
        """Return whether that lease may still act on the run."""
        return self.state == RUNNING and self.held and self.lease == lease

    def finished_by(self, lease: bytes) -> bool:
        """Return whether that lease has ended the run, or has given it back, before."""
        return self.state != RUNNING and self.lease == lease

    def finish(self, ending: Ending) -> None:
        """Finish the run for the holder of its lease."""
        assert self.state == RUNNING
        if ending.state == SUCCEEDED:
            self.state, self.failure = SUCCEEDED, None
        elif ending.state == CANCELLED or self.cancelling:
            self.state, self.failure = CANCELLED, CANCELLED_BEFORE
        else:
            self._fail(_bounded(ending.failure), ending.retry)

    def expire(self) -> None:
        """Take back a run whose lease has ended; change nothing if the lease holds."""
        if self.state != RUNNING or self.held:
            return
        # The last holder can't finish it any more, and nobody can tell that it did before.
        self.lease = None
        if self.cancelling:
            self.state, self.failure = CANCELLED, CANCELLED_BEFORE
        else:
            self._fail(LEASE_ENDED, True)

    def release(self) -> None:
        """Give back a run for a runner that was not told of its claim."""
        assert self.state == RUNNING
        self.lease, self.attempt = None, self.attempt - 1
        if self.cancelling:
            self.state, self.failure = CANCELLED, CANCELLED_BEFORE
        else:
            self.state = QUEUED

    def cancel(self) -> None:
        """Cancel the run; change nothing if it is over."""
        if self.state == QUEUED:
            self.state, self.failure = CANCELLED, CANCELLED_BEFORE
        elif self.state == RUNNING:
            self.cancelling = True

    def _fail(self, failure: Failure, retry: bool) -> None:
        self.failure = failure
        if retry and self.attempt < self.max_attempts:
            self.state, self.delay_s = QUEUED, back_off_s(self.attempt)
        else:
            self.state = FAILED


def back_off_s(attempt: int) -> float:
    """Return the back-off after that attempt, the first being 1: it doubles up to a limit."""
    assert attempt >= 1
    return min(MAX_BACKOFF_S, MIN_BACKOFF_S * 2.0 ** min(attempt - 1, 30))


def is_behind(number: int, attempt: int, result: RunResult) -> bool:
    """Return whether the table has runs with numbers that are not this export's.

    Then the table was written before this export was created, or before Postgres went back in time.
    It took this run for done, and did nothing.
    """
    if not result.already:
        return False
    return result.last_run > number or (attempt == 1 and result.last_run == number)


def more_follows(kind: str, state: str, more: bool, live_kinds: Collection[str]) -> bool:
    """Return whether a run that ended in `state` is followed by another at once, because more is
    left.

    `live_kinds` are the kinds of the other runs that are not over.
    """
    return more and kind == EXPORT and state == SUCCEEDED and EXPORT not in live_kinds


class Tick(NamedTuple):
    """The result of a schedule that has come due: a run for `make`, or none; and the counts."""

    make: datetime | None
    missed: int
    coalesced: int


def tick(make: Sequence[datetime], missed: int, kind: str, live_kinds: Collection[str]) -> Tick:
    """Decide on the ticks to make, by policy the latest at most, and on those that were missed."""
    if not make:
        return Tick(None, missed, 0)
    *before, latest = make
    if kind in live_kinds:
        return Tick(None, missed + len(before), 1)
    return Tick(latest, missed + len(before), 0)


def _bounded(failure: Failure | None) -> Failure:
    if failure is None:
        return Failure("failed", "its runner did not say why")
    code, message = (text.replace("\0", "") for text in failure)
    return Failure(code[:MAX_CODE_CHARS] or "failed", message[:MAX_MESSAGE_CHARS])
